#!/usr/bin/env bash
# venv.sh PYTHON FOLDER: make a virtual environment with pip in it, also where Debian keeps `venv` in
# a package of its own. Says what was asked, what was found and what to do when it cannot.
set -euo pipefail

python=$1
folder=$2

say() { printf 'set-up: %s\n' "$*" >&2; }
stop() {
  say "asked for a virtual environment made by \`$python\`; found $1"
  say "hint: $2"
  exit 1
}
make_venv() {
  "$python" -m venv --clear "$folder" >/dev/null 2>&1 && "$folder/bin/python" -m pip --version >/dev/null 2>&1
}

command -v "$python" >/dev/null || stop "no such command" "apt-get install python3, or make PYTHON=/path/to/python3.11"

version=$("$python" -c 'import sys; print("%d.%d.%d" % sys.version_info[:3])')
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  stop "Python $version, but 3.11 is the oldest that works" "make PYTHON=/path/to/python3.11"

say "a virtual environment in $folder, Python $version"
make_venv && exit 0

if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
  say "this Python has no working \`venv\`; installing Debian's python3-venv"
  export DEBIAN_FRONTEND=noninteractive
  apt-get -o DPkg::Lock::Timeout=300 -qq update || say "apt-get update failed; trying with the lists that are here"
  apt-get -o DPkg::Lock::Timeout=300 -qq install -y python3-venv >/dev/null ||
    stop "no \`venv\`, and apt-get could not install python3-venv (its messages are above)" "install it by hand, then run make again"
  make_venv && exit 0
  stop "that it still fails with python3-venv installed" "\`$python -m venv $folder\` says why; a Python that Debian did not ship needs its own ensurepip"
fi
rm -rf "$folder"
stop "no working \`venv\`, and no right to install it (not root, or no apt-get)" "sudo apt-get install python3-venv, then run make again"
