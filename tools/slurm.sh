#!/usr/bin/env bash
# Find or install the real Slurm (with its accounting: munge, MariaDB, slurmdbd) that the tests
# start. Never fails: without it those tests skip and say so. Starts nothing.
set -euo pipefail

say() { printf 'set-up: %s\n' "$*" >&2; }
skip() {
  say "$1; the tests with a real Slurm will skip"
  say "hint: sudo apt-get install --no-install-recommends ${packages[*]}"
  exit 0
}

packages=(slurmctld slurmd slurm-client slurmdbd slurm-wlm-mysql-plugin munge mariadb-server)
PATH=$PATH:/usr/sbin:/sbin

for name in slurmctld slurmd slurmdbd sacct munged mariadbd; do
  command -v "$name" >/dev/null || missing=yes
done
[ -n "${missing:-}" ] || exit 0

[ "$(id -u)" = 0 ] || skip "no Slurm here, and no right to install it"
command -v apt-get >/dev/null || skip "no Slurm here, and no apt-get to install it with"

say "installing Debian's Slurm and MariaDB for the tests (about 70 MB, once)"
export DEBIAN_FRONTEND=noninteractive
# The packages would start services of their own; the tests start theirs, in a folder of their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
  trap 'rm -f $policy' EXIT
fi
apt-get -o DPkg::Lock::Timeout=300 -qq update || say "apt-get update failed; trying with the lists that are here"
apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends "${packages[@]}" >/dev/null ||
  say "Slurm could not be installed (apt-get's messages are above); its tests will skip"
