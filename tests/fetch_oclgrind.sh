#!/usr/bin/env bash
# Puts Oclgrind, an OpenCL device that looks for races, into .venv/oclgrind, without root: tests/fetch_oclgrind.sh
#
# About 30 MB of Debian's packages; nothing where the system has it.
set -euo pipefail
cd "$(dirname "$0")/.."
target=.venv/oclgrind
if [[ -f /usr/lib/oclgrind/liboclgrind-rt.so || -f $target/usr/lib/oclgrind/liboclgrind-rt.so ]]; then exit 0; fi

source tests/debian_packages.sh
fetch_packages $target "Oclgrind could not be downloaded: install Debian's package oclgrind" \
  oclgrind liboclgrind-21.10 libllvm14 $(missing_libraries libreadline8 libz3-4 libedit2 libbsd0 libmd0 libxml2 libicu72)
