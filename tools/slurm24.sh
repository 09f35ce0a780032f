#!/usr/bin/env bash
# Make Slurm 24.11 (Debian 13's) beside the system's own: its programs in a folder of their own, each
# started in a chroot. By hand, not by the tests: 150 MB to download, 290 MB on disk, two minutes.
# Prints the folder that PATH has to begin with:
#     PATH=$(tools/slurm24.sh):$PATH python -m tests.rigs.slurm FOLDER
# With it in front, the tests of tests/live/slurm start 24.11 too. Munge and MariaDB stay the system's
# (tools/slurm.sh).
. "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

place=${TIDEMILL_SLURM24:-${XDG_CACHE_HOME:-$HOME/.cache}/tidemill/slurm-24.11}
root=$place/root bin=$place/bin
packages=slurmctld,slurmd,slurm-client,slurmdbd,slurm-wlm-mysql-plugin

if [ ! -e "$place/made" ]; then
  command -v debootstrap >/dev/null || install_debian debootstrap "under 1 MB" debootstrap
  [ "$(id -u)" = 0 ] && command -v debootstrap >/dev/null ||
    { say "Slurm 24.11 needs root and debootstrap"; exit 1; }
  say "unpacking Debian 13 with Slurm in $root (290 MB, two minutes, once)"
  rm -rf --one-file-system "$root"
  mkdir -p "$root"
  debootstrap --variant=minbase --include=$packages trixie "$root" >"$place/debootstrap.log" ||
    { tail -3 "$place/debootstrap.log" >&2; say "debootstrap failed; all of it: $place/debootstrap.log"; exit 1; }
  touch "$place/made"
fi

# A program sees this machine's /proc, /sys, /dev and /tmp (where rigs lie) for as long as it runs, and
# leaves no mount behind. It keeps its name and its process id: Slurm minds the one, rigs the other.
rm -rf "$bin" && mkdir -p "$bin"
dpkg-query --admindir="$root/var/lib/dpkg" -L slurmctld slurmd slurmdbd slurm-client |
  sed -n 's,^/usr/s\?bin/\([a-z]*\).*,\1,p' | sort -u | while read -r name; do
  cat >"$bin/$name" <<END
#!/bin/sh
if [ -z "\$SLURM24_MOUNTED" ]; then
  export SLURM24_MOUNTED=yes
  exec unshare --mount "\$0" "\$@"
fi
unset SLURM24_MOUNTED
for folder in proc sys dev tmp; do mount --rbind /\$folder "$root/\$folder"; done
exec chroot "$root" $name "\$@"
END
  chmod +x "$bin/$name"
done
echo "$bin"
