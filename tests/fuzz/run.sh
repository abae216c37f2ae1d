#!/usr/bin/env bash
# Builds the fuzz targets and runs each for a time, two side by side: tests/fuzz/run.sh SECONDS [TARGET...]
#
# FUZZ_SEED (1 if unset) starts libFuzzer's random numbers, and the number of inputs is what takes about that time on two
# cores, so that a fresh checkout tries the same inputs in the same order each time; SECONDS are the most it may take.
# 0 takes another seed in each run, and all the time.
# Fails if one finds something, and says how to see it again. What they learn stays in build/fuzz/learned for the next
# run; tests/fuzz/corpus is where every run begins.
set -euo pipefail
cd "$(dirname "$0")/../.."
all=(op environment backend_table fault_rules profile)

seconds=${1:-}
if ! [[ $seconds =~ ^[1-9][0-9]{0,5}$ ]]; then
  echo "usage: tests/fuzz/run.sh SECONDS [TARGET...]   with a whole number of seconds; targets: ${all[*]}" >&2
  exit 2
fi
seed=${FUZZ_SEED:-1}
if ! [[ $seed =~ ^[0-9]{1,9}$ ]]; then
  echo "FUZZ_SEED is '$seed'; it must be a whole number, 0 for another one in each run." >&2
  exit 2
fi
targets=("${@:2}")
if (( ${#targets[@]} == 0 )); then targets=("${all[@]}"); fi
for target in "${targets[@]}"; do
  if [[ " ${all[*]} " != *" $target "* ]]; then
    echo "There is no fuzz target '$target'; there are ${all[*]}." >&2
    exit 2
  fi
done

tests/fetch_clang.sh
clang=${UNIHAL_CLANG:-$PWD/.venv/clang/bin}
PATH="$PWD/.venv/bin:$PATH"
build=build/fuzz
mkdir -p $build
cmake -G Ninja -B $build -DCMAKE_BUILD_TYPE=Debug -DCMAKE_C_COMPILER="$clang/clang" \
  -DCMAKE_CXX_COMPILER="$clang/clang++" -DUNIHAL_BUILD_FUZZERS=ON -DUNIHAL_WARNINGS_AS_ERRORS=ON \
  -DUNIHAL_STUB_ONEDNN=OFF -DUNIHAL_STUB_OPENMP=OFF -DUNIHAL_STUB_INSTRUCTION_SETS=OFF -DUNIHAL_BUILD_OPENCL=OFF -DUNIHAL_BUILD_GPU=OFF \
  >$build/configure.log || { cat $build/configure.log; exit 1; }
cmake --build $build

# The longest input that means something to a target.
longest() {
  case $1 in
    op) echo 256 ;;
    backend_table) echo 64 ;;
    *) echo 2048 ;;
  esac
}

# What a target does in a second, or somewhat less.
inputs_per_second() {
  case $1 in
    op) echo 1800 ;;
    environment) echo 24000 ;;
    backend_table) echo 150000 ;;
    fault_rules) echo 17000 ;;
    profile) echo 50000 ;;
  esac
}

export ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1
run() {
  local target=$1 runs=-1
  if (( seed != 0 )); then runs=$(( seconds * $(inputs_per_second "$target") )); fi
  mkdir -p $build/learned/"$target" $build/found
  # What a run before found would be taken for this one's.
  rm -f $build/found/"$target"-*
  $build/tests/fuzz/fuzz_"$target" $build/learned/"$target" tests/fuzz/corpus/"$target" \
    -seed="$seed" -runs="$runs" -max_total_time="$seconds" -max_len="$(longest "$target")" -len_control=0 -entropic=0 \
    -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 -artifact_prefix=$build/found/"$target"- >$build/"$target".log 2>&1
}

report() {
  local log=$build/$1.log
  local runs rate edges total
  runs=$(sed -n 's/^stat::number_of_executed_units: //p' "$log")
  rate=$(sed -n 's/^stat::average_exec_per_sec: *//p' "$log")
  edges=$(grep -o ' cov: [0-9]*' "$log" | tail -1 | grep -o '[0-9]*' || true)
  total=$(sed -n 's/^INFO: Loaded .*(\([0-9]*\) inline 8-bit counters).*/\1/p' "$log")
  printf '%-14s %10d executions, %7d per second, %6d of %d edges\n' \
    "$1" "${runs:-0}" "${rate:-0}" "${edges:-0}" "${total:-0}"
}

failed=()
for (( i = 0; i < ${#targets[@]}; i += 2 )); do
  pair=("${targets[@]:i:2}")
  pids=()
  for target in "${pair[@]}"; do
    run "$target" &
    pids+=($!)
  done
  for k in "${!pair[@]}"; do
    if ! wait "${pids[k]}"; then failed+=("${pair[k]}"); fi
    report "${pair[k]}"
  done
done

for target in "${failed[@]}"; do
  echo
  grep -E 'runtime error|ERROR:|does not hold|SUMMARY' $build/"$target".log || tail -5 $build/"$target".log
  for input in $build/found/"$target"-*; do
    echo "fuzz: $target fails; to see it again: $build/tests/fuzz/fuzz_$target $input"
  done
done
(( ${#failed[@]} == 0 ))
