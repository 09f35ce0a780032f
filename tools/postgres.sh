#!/usr/bin/env bash
# Find or install the real PostgreSQL that the tests start in a folder of their own.
. "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

for folder in /usr/lib/postgresql/*/bin; do
  [ -x "$folder/initdb" ] && [ -x "$folder/postgres" ] && exit 0
done
command -v initdb >/dev/null && command -v postgres >/dev/null && exit 0
install_debian PostgreSQL "about 60 MB" postgresql
