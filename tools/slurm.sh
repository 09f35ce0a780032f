#!/usr/bin/env bash
# Find or install the real Slurm (with its accounting: munge, MariaDB, slurmdbd) that the tests
# start.
. "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

PATH=$PATH:/usr/sbin:/sbin
for name in slurmctld slurmd slurmdbd sacct munged mariadbd; do
  command -v "$name" >/dev/null || missing=yes
done
[ -n "${missing:-}" ] || exit 0
install_debian "Slurm and MariaDB" "about 70 MB" \
  slurmctld slurmd slurm-client slurmdbd slurm-wlm-mysql-plugin munge mariadb-server
