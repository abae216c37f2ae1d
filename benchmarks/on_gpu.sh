#!/usr/bin/env bash
# All that unihal shows on a machine with a GPU: builds it, then runs each part on each backend and goes on if one fails.
#
#     [BACKENDS='corex hip opencl'] bash benchmarks/on_gpu.sh OUTPUT_FOLDER [PART...]
#
# Backends: by default those of corex, hip and opencl that find a device; hip only on an AMD card, or with HIP=double, where
# tests/doubles/hip_on_cuda makes an NVIDIA GPU pass for one. Parts, all of them if none is named:
#   timed, one after another: digits gpu attention data fourier linear start, of opencl and corex also launch, of opencl gemm, of
#     corex and hip tune (what `unihal tune` chooses among) and, with two devices, two (copies and collectives between
#     them), with Paddle and TensorFlow dispatch training; with Paddle and torchvision networks (Paddle's beside PyTorch's
#     on `cuda`); with two devices and a framework, parallel (data-parallel training beside PyTorch's own); with PyTorch
#     torch (its device beside PyTorch's own `cuda`, and the op database's sample), with ONNX Runtime and ONNX_MODELS, a folder of benchmarks/onnxruntime_on_gpu.py --export, onnx (latency and
#     throughput beside `cuda`), and with diffusers and transformers workshop (its pipelines beside `cuda`);
#   then, side by side: doctor conformance, of corex and hip also libraries (products, convolutions and transforms with each
#     of the vendor's libraries alone and with none), of corex also sanitizer (NVIDIA's compute-sanitizer), with Paddle
#     and TensorFlow adapters demo.
# Each writes OUTPUT_FOLDER/BACKEND.PART.log. The machine needs Python, gcc and CMake, but no network: WHEELS names a folder
# of wheels for the Python packages that are missing there, DIGITS a file of benchmarks/digits.py --export where there is
# no scikit-learn, CLBLAST_LIBRARY a libclblast.so.1 to compare with. TRAINING names some of the training steps, as in
# 'training paddle resnet50'. JOBS (all cores) is the number of processes at a time, CONFORMANCE_OPTIONS goes to
# `unihal conformance`.
set -euo pipefail
cd "$(dirname "$0")/.."
output=${1:?usage: benchmarks/on_gpu.sh OUTPUT_FOLDER [PART...]}
shift
parts=("$@")
jobs=${JOBS:-$(nproc)}
mkdir -p "$output"

environment=build/gpu-environment
is_old=${REBUILD:-}
if [[ ! -x $environment/bin/unihal || -n $is_old ]]; then
  is_old=1
  python3 -m venv $environment
  # What this Python sees, also if it is of a virtual environment itself.
  python3 -c 'import site; print("\n".join(site.getsitepackages()))' >"$(echo $environment/lib/python3*/site-packages)/outer.pth"
  if [[ -n ${WHEELS:-} ]]; then $environment/bin/pip install --quiet --no-index --no-deps "$WHEELS"/*.whl; fi
fi
export PATH=$PWD/$environment/bin:$PATH
frameworks=$(python -c 'import importlib.util as util; print(*filter(util.find_spec, ["paddle", "tensorflow"]))')
[[ $frameworks == 'paddle tensorflow' ]] || echo 'Paddle and TensorFlow are not both installed: adapters, demo and training are left out.'
# Its folder and version, if it is there and of a version that the adapter is for.
torch=$(python plugins/torch/find_torch.py || true)
[[ -n $torch ]] || echo 'There is no PyTorch that unihal has an adapter for: the part torch is left out.'
onnx=$(python -c 'import importlib.util as util; print(*filter(util.find_spec, ["onnxruntime"]))')
[[ -z $torch || -z ${ONNX_MODELS:-} ]] || [[ -n $onnx ]] || echo 'There is no onnxruntime: the part onnx is left out.'
extras=$frameworks${torch:+ torch}${onnx:+ onnxruntime}
extras=${extras# }
if [[ -n $is_old ]]; then
  CMAKE_ARGS="-DUNIHAL_BUILD_BENCHMARKS=ON" CMAKE_BUILD_PARALLEL_LEVEL=$jobs \
    pip install --quiet --no-index --no-build-isolation --no-deps --force-reinstall ".${extras:+[${extras// /,}]}" \
    >"$output/build.log" 2>&1 || { tail -60 "$output/build.log"; exit 1; }
fi
if [[ ${HIP:-} == double ]]; then
  bash tests/doubles/hip_on_cuda/build.sh build/hip_on_cuda/lib
  export ROCM_PATH=$PWD/build/hip_on_cuda
fi

devices() { UNIHAL_BACKEND=$1 python -c 'import unihal; print(max(len(unihal.devices(t.name)) for t in unihal.device_types()))'; }
serves() { UNIHAL_BACKEND=$1 unihal devices >/dev/null 2>&1; }

parts_of() {
  if (( ${#parts[@]} )); then echo "${parts[@]}"; return; fi
  echo digits gpu attention data fourier linear start doctor conformance
  case $1 in
    opencl) echo gemm launch ;;
    hip) echo tune libraries ;;
    corex) echo launch tune libraries; ! command -v compute-sanitizer >/dev/null || echo sanitizer ;;
  esac
  [[ $1 == opencl ]] || (( $(devices "$1") < 2 )) || echo two ${extras:+parallel}
  [[ $frameworks != 'paddle tensorflow' ]] || echo dispatch training adapters demo
  [[ $frameworks != *paddle* ]] || ! "$environment/bin/python" -c 'import torchvision' 2>/dev/null || echo networks
  [[ -z $torch ]] || echo torch
  [[ -z $torch || -z $onnx || -z ${ONNX_MODELS:-} ]] || echo onnx
  [[ -z $torch ]] || ! "$environment/bin/python" -c 'import diffusers, transformers' 2>/dev/null || echo workshop
}

run_part() {
  case $1 in
    doctor) unihal doctor ;;
    conformance)
      unihal conformance --backend "$UNIHAL_BACKEND" --jobs "$jobs" --json "$output/$UNIHAL_BACKEND.conformance.json" ${CONFORMANCE_OPTIONS:-}
      ;;
    digits) python benchmarks/digits.py ${DIGITS:+--data "$DIGITS"} ;;
    tune) UNIHAL_CACHE_DIR=$(mktemp -d) python benchmarks/libraries.py ;;
    gpu) python benchmarks/gpu.py --tune --json "$output/$UNIHAL_BACKEND.gpu.json" ;;
    attention) python benchmarks/attention.py --json "$output/$UNIHAL_BACKEND.attention.json" ;;
    data) python benchmarks/run.py --only data --json "$output/$UNIHAL_BACKEND.data.json" ;;
    linear) python benchmarks/linear_algebra.py --json "$output/$UNIHAL_BACKEND.linear.json" ;;
    fourier) python benchmarks/fourier.py --json "$output/$UNIHAL_BACKEND.fourier.json" ;;
    gemm) python benchmarks/opencl_gemm.py ${CLBLAST_LIBRARY:+--clblast "$CLBLAST_LIBRARY"} ;;
    launch)
      local program=gpu
      [[ $UNIHAL_BACKEND != opencl ]] || program=opencl
      build/cmake/benchmarks/benchmark_${program}_launch
      ;;
    dispatch) python benchmarks/run.py --only dispatch --json "$output/$UNIHAL_BACKEND.dispatch.json" ;;
    start)  # the first step with empty caches of programs, ours and the driver's, then with full ones
      local caches
      caches=$(mktemp -d)
      for state in cold warm; do
        echo "$state:"
        UNIHAL_CACHE_DIR=$caches/unihal CUDA_CACHE_PATH=$caches/driver POCL_CACHE_DIR=$caches \
          python benchmarks/digits.py --epochs 1 ${DIGITS:+--data "$DIGITS"}
      done
      rm -rf "$caches"
      ;;
    sanitizer)  # each tool over a sample; allocations that conformance wants refused are no errors
      for tool in memcheck racecheck; do
        compute-sanitizer --tool $tool --report-api-errors no --error-exitcode 9 --target-processes all \
          unihal conformance --backend "$UNIHAL_BACKEND" --every 800
      done
      ;;
    adapters)  # every op of both frameworks against their CPU, and their training runs; no fallback
      printf '%s\n' tests/paddle/test_{kernels,training}.py \
        tests/tensorflow/test_{array,data_dependent,elementwise,fusion,image,index,models,neural,random,reduce,variable}.py |
        xargs -P "$jobs" -n 1 python -m pytest -q "--unihal-backend=$UNIHAL_BACKEND"
      ;;
    libraries)  # what each of them takes, and our own kernels alone
      local names library op
      names='none cublaslt cublas cudnn cufft'
      [[ $UNIHAL_BACKEND == corex ]] || names='none hipblaslt rocblas miopen hipfft'
      for library in $names; do
        for op in matmul convolution convolution_backward_data convolution_backward_filter fft; do
          echo "UNIHAL_GPU_LIBRARIES=$library, $op:"
          UNIHAL_GPU_LIBRARIES=$library unihal conformance --backend "$UNIHAL_BACKEND" --jobs "$jobs" --every 3 --op $op
        done
      done
      ;;
    two)  # what conformance needs two devices for; copies and collectives between them, beside PyTorch's
      unihal conformance --backend "$UNIHAL_BACKEND" --op devices
      unihal conformance --backend "$UNIHAL_BACKEND" --op collectives --jobs 2
      python benchmarks/peer_copies.py --json "$output/$UNIHAL_BACKEND.copies.json"
      python benchmarks/collectives.py --json "$output/$UNIHAL_BACKEND.two.json"
      ;;
    parallel)  # data-parallel training on two devices, beside PyTorch's own
      local framework model
      for model in resnet50-64 resnet50-128 transformer-16 transformer-64 transformer-128; do
        # A peer: its own convolutions differ from run to run, so that its weights may.
        python benchmarks/distributed_training.py torch $model cuda || true
        for framework in $frameworks ${torch:+torch}; do
          case $framework in
            torch) UNIHAL_TORCH_DEVICE=iluvatar python benchmarks/distributed_training.py torch $model iluvatar ;;
            paddle) python benchmarks/distributed_training.py paddle $model iluvatar ;;
            tensorflow) python benchmarks/distributed_tensorflow.py --model $model --type iluvatar ;;
          esac
        done
      done
      ;;
    networks)
      local type=rdna failed=''
      case $UNIHAL_BACKEND in
        corex) type=iluvatar ;;
        opencl) type=polaris ;;
      esac
      for precision in '' --bfloat16; do
        python benchmarks/networks_on_gpu.py --ours $type $precision \
          --json "$output/$UNIHAL_BACKEND.networks${precision:+.bfloat16}.json" || failed=1
      done
      [[ -z $failed ]]
      ;;
    torch)  # what the adapter was built for, PyTorch's op database, and both devices of PyTorch in one process
      local failed='' type=rdna
      case $UNIHAL_BACKEND in
        corex) type=iluvatar ;;
        opencl) type=polaris ;;
      esac
      local -x UNIHAL_TORCH_DEVICE=$type
      unihal doctor || failed=1
      python -m pytest -q "--unihal-backend=$UNIHAL_BACKEND" -m 'not whole and not long' tests/torch/test_ops.py || failed=1
      python benchmarks/torch_on_gpu.py --json "$output/$UNIHAL_BACKEND.torch.json" || failed=1
      [[ -z $failed ]]
      ;;
    onnx)  # ONNX Runtime's provider: each layout of images where there are some, and the throughput by batch
      local failed=''
      python benchmarks/onnxruntime_on_gpu.py --models "$ONNX_MODELS" --scaling 1 2 4 8 16 32 64 \
        --json "$output/$UNIHAL_BACKEND.onnx.json" || failed=1
      echo 'captured:'
      python benchmarks/onnxruntime_on_gpu.py --models "$ONNX_MODELS" --graph --scaling 1 2 4 8 16 32 64 \
        --json "$output/$UNIHAL_BACKEND.onnx.graph.json" || failed=1
      for layout in nchw nhwc; do
        for model in resnet50 mobilenetv3; do
          echo "layout $layout:"
          python benchmarks/onnxruntime_on_gpu.py --models "$ONNX_MODELS" --layout $layout --only $model \
            --json "$output/$UNIHAL_BACKEND.onnx.$model.$layout.json" || failed=1
        done
      done
      [[ -z $failed ]]
      ;;
    workshop)  # its pipelines beside PyTorch's own `cuda`; wants diffusers, transformers, accelerate and safetensors
      local type=rdna
      case $UNIHAL_BACKEND in
        corex) type=iluvatar ;;
        opencl) type=polaris ;;
      esac
      UNIHAL_TORCH_DEVICE=$type python benchmarks/workshop_on_gpu.py --json "$output/$UNIHAL_BACKEND.workshop.json"
      ;;
    demo) unihal demo --out "$output/$UNIHAL_BACKEND.demo" ;;
    training) python benchmarks/run.py --only "${TRAINING:-training}" --json "$output/$UNIHAL_BACKEND.training.json" ;;
    *) echo "There is no part '$1'." >&2; return 2 ;;
  esac
}

# Runs a part, and shows the end of what it said; its name goes to the file of failures if it failed.
show_part() {
  local started=$SECONDS
  UNIHAL_BACKEND=$1 run_part "$2" >"$output/$1.$2.log" 2>&1 || echo "$1.$2" >>"$output/failed"
  echo "== $1 $2: $(( SECONDS - started )) s"$'\n'"$(tail -"${TAIL:-40}" "$output/$1.$2.log")"
}

: >"$output/failed"
for backend in ${BACKENDS:-corex hip opencl}; do
  if ! serves "$backend"; then
    echo "== $backend finds no device here"
    [[ -z ${BACKENDS:-} ]] || echo "$backend" >>"$output/failed"
    continue
  fi
  beside=()
  for part in $(parts_of "$backend"); do
    case $part in
      doctor | conformance | libraries | sanitizer | adapters | demo) beside+=("$part") ;;
      *) show_part "$backend" "$part" ;;
    esac
  done
  for part in ${beside[@]+"${beside[@]}"}; do show_part "$backend" "$part" & done
  wait
done
if [[ -s $output/failed ]]; then
  echo "on_gpu: failed:" $(<"$output/failed") >&2
  exit 1
fi
