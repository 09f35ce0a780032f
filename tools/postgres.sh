#!/usr/bin/env bash
# Find or install the real PostgreSQL that the tests start in a folder of their own. Never fails:
# without it those tests skip and say so. Starts nothing.
set -euo pipefail

say() { printf 'set-up: %s\n' "$*" >&2; }
skip() {
  say "$1; the tests with a real PostgreSQL will skip"
  say "hint: sudo apt-get install --no-install-recommends postgresql"
  exit 0
}

for folder in /usr/lib/postgresql/*/bin; do
  [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ] && exit 0
done
command -v initdb >/dev/null && command -v postgres >/dev/null && exit 0

[ "$(id -u)" = 0 ] || skip "no PostgreSQL here, and no right to install it"
command -v apt-get >/dev/null || skip "no PostgreSQL here, and no apt-get to install it with"

say "installing Debian's PostgreSQL for the tests (about 60 MB, once)"
export DEBIAN_FRONTEND=noninteractive
# The package would start a service and make a cluster of its own; the tests make theirs.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
  trap 'rm -f $policy' EXIT
fi
apt-get -o DPkg::Lock::Timeout=300 -qq update || say "apt-get update failed; trying with the lists that are here"
apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends postgresql >/dev/null ||
  say "PostgreSQL could not be installed (apt-get's messages are above); its tests will skip"
