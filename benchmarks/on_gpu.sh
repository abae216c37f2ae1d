#!/usr/bin/env bash
# All that unihal shows on a machine with an OpenCL device: builds it, then runs each part and goes on if one fails.
#
#     bash benchmarks/on_gpu.sh OUTPUT_FOLDER [PART...]
#
# Parts: doctor conformance digits opencl gemm launch start, and with Paddle and TensorFlow adapters demo training; all of
# them if none is named. Each writes OUTPUT_FOLDER/PART.log. The machine needs Python, gcc and CMake, but no network:
# UNIHAL_WHEELS names a folder of wheels for the Python packages that are missing there, UNIHAL_DIGITS a file of
# benchmarks/digits.py --export where there is no scikit-learn, UNIHAL_CLBLAST_LIBRARY a libclblast.so.1 to compare with.
# JOBS (all cores) is the number of processes at a time.
set -euo pipefail
cd "$(dirname "$0")/.."
output=${1:?usage: benchmarks/on_gpu.sh OUTPUT_FOLDER [PART...]}
shift
parts=("$@")
jobs=${JOBS:-$(nproc)}
mkdir -p "$output"

environment=build/gpu-environment
if [[ ! -x $environment/bin/unihal || -n ${REBUILD:-} ]]; then
  python3 -m venv $environment
  # What this Python sees, also if it is of a virtual environment itself.
  python3 -c 'import site; print("\n".join(site.getsitepackages()))' >"$(echo $environment/lib/python3*/site-packages)/outer.pth"
  if [[ -n ${UNIHAL_WHEELS:-} ]]; then $environment/bin/pip install --quiet --no-index --no-deps "$UNIHAL_WHEELS"/*.whl; fi
  CMAKE_ARGS="-DUNIHAL_BUILD_BENCHMARKS=ON" CMAKE_BUILD_PARALLEL_LEVEL=$jobs \
    $environment/bin/pip install --quiet --no-index --no-build-isolation --no-deps --force-reinstall . >"$output/build.log" 2>&1 ||
    { tail -60 "$output/build.log"; exit 1; }
fi
export PATH=$PWD/$environment/bin:$PATH UNIHAL_BACKEND=opencl
if (( ${#parts[@]} == 0 )); then
  parts=(doctor conformance digits opencl gemm launch start)
  if python -c 'import importlib.util as util, sys; sys.exit(not all(map(util.find_spec, ["paddle", "tensorflow"])))'; then
    parts+=(adapters demo training)
  else
    echo 'Paddle and TensorFlow are not both installed: adapters, demo and training are left out.'
  fi
fi

run_part() {
  case $1 in
    doctor) unihal doctor ;;
    conformance) unihal conformance --backend opencl --jobs "$jobs" --json "$output/conformance.json" ${CONFORMANCE_OPTIONS:-} ;;
    digits) python benchmarks/digits.py ${UNIHAL_DIGITS:+--data "$UNIHAL_DIGITS"} ;;
    opencl) python benchmarks/opencl.py --json "$output/opencl.json" ;;
    gemm) python benchmarks/opencl_gemm.py ${UNIHAL_CLBLAST_LIBRARY:+--clblast "$UNIHAL_CLBLAST_LIBRARY"} ;;
    launch) build/cmake/benchmarks/benchmark_opencl_launch ;;
    start)  # the first step with empty caches of programs, ours and the driver's, then with full ones
      local caches
      caches=$(mktemp -d)
      for state in cold warm; do
        echo "$state:"
        UNIHAL_CACHE_DIR=$caches/unihal CUDA_CACHE_PATH=$caches/driver POCL_CACHE_DIR=$caches \
          python benchmarks/digits.py --epochs 1 ${UNIHAL_DIGITS:+--data "$UNIHAL_DIGITS"}
      done
      rm -rf "$caches"
      ;;
    adapters)  # every op of both frameworks against their CPU, and their training runs; no fallback
      printf '%s\n' tests/paddle/test_{kernels,training}.py \
        tests/tensorflow/test_{array,elementwise,fusion,image,index,models,neural,random,reduce,variable}.py |
        xargs -P "$jobs" -n 1 python -m pytest -q --unihal-backend=opencl
      ;;
    demo) unihal demo --out "$output/demo" ;;
    training) python benchmarks/run.py --only training --json "$output/training.json" ;;
    *) echo "There is no part '$1'." >&2; return 2 ;;
  esac
}

failed=()
for part in "${parts[@]}"; do
  echo "== $part"
  started=$SECONDS
  run_part "$part" >"$output/$part.log" 2>&1 || failed+=("$part")
  tail -${TAIL:-40} "$output/$part.log"
  echo "== $part: $(( SECONDS - started )) s"
done
if (( ${#failed[@]} )); then
  echo "on_gpu: failed: ${failed[*]}" >&2
  exit 1
fi
