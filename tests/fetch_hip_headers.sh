#!/usr/bin/env bash
# Puts the headers of HIP 5.2 into .venv/hip, without root: tests/fetch_hip_headers.sh
#
# A Debian package of 170 kB; nothing of it is linked or run. What unihal declares of HIP is compiled against them
# (tests/gpu/test_headers.py).
set -euo pipefail
cd "$(dirname "$0")/.."
target=.venv/hip
if [[ -f $target/usr/include/hip/hip_runtime_api.h ]]; then exit 0; fi

source tests/debian_packages.sh
fetch_packages $target "HIP's headers could not be downloaded: install Debian's package libamdhip64-dev, and link: ln -s /usr $target/usr" \
  libamdhip64-dev
