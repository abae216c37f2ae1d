#!/usr/bin/env bash
# Runs a program with the OpenCL of the tests: tests/opencl/with_opencl.sh program arguments...
#
# PoCL in .venv/pocl (tests/fetch_pocl.sh) if it is there and the caller has not named an OpenCL of his own; what the
# system has otherwise. Compiled kernels are kept in the build folder, not in the user's home.
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
if [[ -z ${OCL_ICD_VENDORS:-} && -f $root/.venv/pocl/environment ]]; then
  source "$root/.venv/pocl/environment"
  export UNIHAL_TESTS_NEED_OPENCL=1  # it is there, so no test may skip
  # PoCL keeps what it compiled by itself. To hand out a program it compiles each kernel once more, for groups of any size: for
  # half of the time and more. Tests that are about unihal's cache turn it on, or name its folder to this script.
  if [[ -z ${UNIHAL_CACHE_DIR:-} ]]; then export UNIHAL_CACHE=${UNIHAL_CACHE:-off}; fi
fi
export POCL_CACHE_DIR=${POCL_CACHE_DIR:-$root/build/pocl}
export UNIHAL_CACHE_DIR=${UNIHAL_CACHE_DIR:-$root/build/cache}
mkdir -p "$POCL_CACHE_DIR"
# Drivers are not instrumented, so ThreadSanitizer knows only half of what their threads do.
export TSAN_OPTIONS=${TSAN_OPTIONS:+$TSAN_OPTIONS:}ignore_noninstrumented_modules=1
exec "$@"
