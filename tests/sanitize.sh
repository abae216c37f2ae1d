#!/usr/bin/env bash
# Builds core and stub with sanitizers and runs their suites: tests/sanitize.sh SANITIZERS BUILD_FOLDER
set -euo pipefail
cd "$(dirname "$0")/.."
sanitizers=$1
build=$2
jobs=$(nproc)  # before OMP_NUM_THREADS, which nproc obeys

tests=()
sequential=ON
if [[ $sanitizers == *thread* ]]; then
  # libgomp is not instrumented, so ThreadSanitizer cannot see its barriers: one thread in OpenMP regions. Kernels have
  # no threads for it to look at then, whatever the instruction set: what they compute is tested without it, but for data
  # movement on the strict mode's threads (the fast mode's tests begin with a capital), where large shapes do nothing that
  # small ones do not. Programs that have one thread, as the stub's networks, the vendors' libraries on the host and the
  # kernels' prelude, are not built.
  export OMP_NUM_THREADS=1
  sequential=OFF
  # PoCL takes its threads down while they are at work, when a process ends: its races, not ours. Three tests have a real race
  # for us to find.
  races='\.RacesAreThoseOfTheOp$|\.ALaunchIsWorkThatTouchesWhatItsPartsTouch$|\.AMissingEventShows$'
  without="^stub_data_test\.[A-Z]|\.LargeShapes\$|^opencl_test\.OpenclExit\.|$races"
  # One stream runs these, and nobody else meanwhile: `make test-long` has them (SANITIZE_WHOLE=1).
  if [[ -z ${SANITIZE_WHOLE:-} ]]; then
    without+="|^stub_data_test\.strict\.(Map|Dtypes/EveryFunction|Reduce|Axis|Random|Cast|Index|Fill)\."
    without+="|^stub_data_test\.strict\.(Copy\.(AllDtypesLayoutsAndBroadcasts|LargeTranspose)|Device\.CopiesAndFillsBytes)\$"
    without+="|^core_test\.(AccessHistoryTest|ByteSetTest)\.|^opencl_test\..*Presented(Properties|Limits|Wish|Refusal)\."
  fi
  tests=(--exclude-regex "$without")
fi

if [[ $sanitizers == *address* ]]; then
  # Threads that allocate while others fork: AddressSanitizer's allocator may be locked in the child for ever. The fast mode's
  # networks with oneDNN: what is ours of it is run by the strict mode, which checks more, and oneDNN's code is not instrumented.
  tests+=(--exclude-regex '^core_test\.ForkTest\.DoesNotHangUnderLoad$|^stub_nn_test$')
fi

PATH="$PWD/.venv/bin:$PATH"
mkdir -p "$build"
# -Og vectorizes no loop, so that those for AVX2 and AVX-512 would be the same once more.
cmake -G Ninja -B "$build" -DCMAKE_BUILD_TYPE=RelWithDebInfo -DCMAKE_CXX_FLAGS_RELWITHDEBINFO="-Og -g1 -DNDEBUG" \
  -DUNIHAL_BUILD_TESTS=ON -DUNIHAL_BUILD_SEQUENTIAL_TESTS=$sequential -DUNIHAL_WARNINGS_AS_ERRORS=ON -DUNIHAL_SANITIZE="$sanitizers" \
  -DUNIHAL_STUB_INSTRUCTION_SETS=OFF -DPython_EXECUTABLE="$PWD/.venv/bin/python" >"$build/configure.log" ||
  { cat "$build/configure.log"; exit 1; }
cmake --build "$build"

# PoCL keeps a few bytes of each program that it compiles.
echo 'leak:libpocl.so' >"$build/leaks.txt"
# The C library frees a thread's memory where the sanitizer does not see what orders that.
echo 'race:_dl_deallocate_tls' >"$build/races.txt"
export LSAN_OPTIONS="suppressions='$PWD/$build/leaks.txt':print_suppressions=0"

# A request for more than there is fails, as it does without them. Where a library's variables of a thread lie,
# LeakSanitizer looks for a header that this C library has not, and its tracer crashes at what it finds there; they are on
# the heap, and are found from the thread. Of each allocation ten callers are kept: the stacks of some tests are deep.
ASAN_OPTIONS=detect_leaks=1:halt_on_error=1:allocator_may_return_null=1:intercept_tls_get_addr=0:malloc_context_size=10
export ASAN_OPTIONS UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1
export TSAN_OPTIONS="suppressions='$PWD/$build/races.txt':halt_on_error=1:second_deadlock_stack=1:allocator_may_return_null=1:atexit_sleep_ms=100"
# As in the Makefile's test-native.
export OMP_WAIT_POLICY=passive
run=(ctest --test-dir "$build" --output-on-failure --no-tests=error --parallel "$jobs" --timeout 600)
"${run[@]}" "${tests[@]}" | tee "$build/tests.log" && exit
# Now and then LeakSanitizer's own tracer crashes where a driver's thread ends while it looks, behind a test that passed.
# Where that is all that failed, those tests are run again.
failed=$(grep -E ' Test +#[0-9]+: .*\*\*\*' "$build/tests.log" | grep -v Skipped | sed -E 's/.* Test +#[0-9]+: ([^ ]+) .*/\1/' || true)
crashed=$(grep -c 'LeakSanitizer has encountered a fatal error' "$build/tests.log" || true)
[[ -n $failed ]] && (( $(wc -l <<<"$failed") == crashed )) || exit 1
"${run[@]}" --tests-regex "^($(sed 's/[.]/\\./g' <<<"$failed" | paste -sd '|'))\$"
