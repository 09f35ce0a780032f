#!/usr/bin/env bash
# Find or install the real Prometheus (with promtool) that the tests start. Never fails: without it
# those tests skip and say so. Starts nothing.
set -euo pipefail

say() { printf 'set-up: %s\n' "$*" >&2; }
skip() {
  say "$1; the tests with a real Prometheus will skip"
  say "hint: sudo apt-get install --no-install-recommends prometheus"
  exit 0
}

command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0

[ "$(id -u)" = 0 ] || skip "no Prometheus here, and no right to install it"
command -v apt-get >/dev/null || skip "no Prometheus here, and no apt-get to install it with"

say "installing Debian's Prometheus for the tests (about 330 MB on disk, once)"
export DEBIAN_FRONTEND=noninteractive
# The package would start a service of its own; the tests start theirs, in a folder of their own.
policy=/usr/sbin/policy-rc.d
if [ ! -e $policy ]; then
  printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
  trap 'rm -f $policy' EXIT
fi
apt-get -o DPkg::Lock::Timeout=300 -qq update || say "apt-get update failed; trying with the lists that are here"
apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends prometheus >/dev/null ||
  say "Prometheus could not be installed (apt-get's messages are above); its tests will skip"
