# Sourced by the scripts that find or install a real server for the tests. Never fails: without it
# those tests skip and say so. Starts nothing.
set -euo pipefail

say() { printf 'set-up: %s\n' "$*" >&2; }

# install_debian NAME SIZE PACKAGE...: Debian's packages, without the services that they would start; the
# tests start their own, in a folder of their own.
install_debian() {
  local name=$1 size=$2 lock=DPkg::Lock::Timeout=300 policy=/usr/sbin/policy-rc.d
  shift 2
  if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
    say "no $name here, and no apt-get or no right to install it; the tests with a real $name will skip"
    say "hint: sudo apt-get install --no-install-recommends $*"
    return 0
  fi
  say "installing Debian's $name for the tests ($size, once)"
  export DEBIAN_FRONTEND=noninteractive
  if [ ! -e $policy ]; then
    printf '#!/bin/sh\nexit 101\n' >$policy && chmod +x $policy
    trap 'rm -f /usr/sbin/policy-rc.d' EXIT
  fi
  apt-get -o $lock -qq update || say "apt-get update failed; trying with the lists that are here"
  apt-get -o $lock -qq install -y --no-install-recommends "$@" >/dev/null ||
    say "$name could not be installed (apt-get's messages are above); its tests will skip"
}
