#!/usr/bin/env bash
# Find or install the real Prometheus (with promtool) that the tests start.
. "$(dirname "${BASH_SOURCE[0]}")/debian.sh"

command -v prometheus >/dev/null && command -v promtool >/dev/null && exit 0
install_debian Prometheus "about 330 MB on disk" prometheus
