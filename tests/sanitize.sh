#!/usr/bin/env bash
# Builds core and stub with sanitizers and runs their suites: tests/sanitize.sh SANITIZERS BUILD_FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=$1
build=$2

PATH="$PWD/.venv/bin:$PATH"
mkdir -p "$build"
cmake -G Ninja -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo \
  -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-O1 -g -DNDEBUG" -DUNIHAL_BUILD_TESTS=ON -DUNIHAL_SANITIZE="$sanitizers" \
  -DPython_EXECUTABLE="$PWD/.venv/bin/python" >"$build/configure.log" || { cat "$build/configure.log"; exit 1; }
cmake --build "$build"

# One thread in OpenMP regions: libgomp is not instrumented, so ThreadSanitizer cannot see its barriers.
if [[ $sanitizers == *thread* ]]; then export OMP_NUM_THREADS=1; fi
export ASAN_OPTIONS=detect_leaks=1:halt_on_error=1 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS=halt_on_error=1:second_deadlock_stack=1
ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$(nproc)"
