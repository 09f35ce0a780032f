#!/usr/bin/env bash
# Find or install the real browser in which the tests open the HTML report. Never fails: without a
# browser that test skips and says so.
set -euo pipefail

say() { printf 'set-up: %s\n' "$*" >&2; }

for name in chromium chromium-browser google-chrome; do
  command -v "$name" >/dev/null && exit 0
done

if [ "$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then
  say "no chromium here, and no right to install it; the browser tests will skip"
  say "hint: sudo apt-get install chromium"
  exit 0
fi

say "installing Debian's chromium for the browser tests (about 100 MB, once)"
export DEBIAN_FRONTEND=noninteractive
apt-get -o DPkg::Lock::Timeout=300 -qq update || say "apt-get update failed; trying with the lists that are here"
apt-get -o DPkg::Lock::Timeout=300 -qq install -y --no-install-recommends chromium >/dev/null ||
  say "chromium could not be installed (apt-get's messages are above); the browser tests will skip"
