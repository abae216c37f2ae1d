#!/usr/bin/env bash
# Puts GoogleTest's sources into .venv/googletest, without root: tests/fetch_googletest.sh
set -euo pipefail
cd "$(dirname "$0")/.."
target=.venv/googletest
if [[ -f $target/usr/src/googletest/CMakeLists.txt ]]; then exit 0; fi

source tests/debian_packages.sh
fetch_packages $target "GoogleTest could not be downloaded: install Debian's package googletest, and set UNIHAL_GOOGLETEST_DIR=/usr/src/googletest" \
  googletest
