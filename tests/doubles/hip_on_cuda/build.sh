#!/usr/bin/env bash
# Builds libraries with HIP's names whose calls go to CUDA's: tests/doubles/hip_on_cuda/build.sh FOLDER
#
# With the folder in LD_LIBRARY_PATH, or as ROCM_PATH/lib, the hip backend that AMD's users load runs on an NVIDIA GPU:
#
#   libamdhip64.so   the driver (libcuda)        libhiprtc.so     NVRTC
#   librocblas.so    cuBLAS                      libhipblaslt.so  cuBLASLt
#   libMIOpen.so     cuDNN                       librccl.so       a link to NCCL, whose names are the same
#
# Needs g++ on x86-64, and of CUDA nothing to build: its libraries are opened at run time, in the folder that
# HIP_ON_CUDA_LIBRARIES names first of all. The architecture is told as it is ("sm_90"), so that the device serves only
# where it is asked for: UNIHAL_BACKEND=hip.
set -euo pipefail
folder=${1:?usage: tests/doubles/hip_on_cuda/build.sh FOLDER}
mkdir -p "$folder"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")"
root=$PWD/../../..

build() {
  local name=$1
  shift
  "${CXX:-g++}" -std=c++17 -O1 -g1 -fPIC -shared -fvisibility=hidden -Wall -Wextra -Werror -I"$root" -I"$root/include" "$@" library.cc \
    -Wl,--no-undefined -Wl,-soname,"$name" -o "$folder/$name" -ldl
}
build libamdhip64.so driver.cc forward.cc
build libhiprtc.so compiler.cc
build librocblas.so rocblas.cc
build libhipblaslt.so hipblaslt.cc
build libMIOpen.so miopen.cc

nccl=$(PATH=$PATH:/sbin:/usr/sbin ldconfig -p 2>/dev/null | sed -n 's/.*=> \(.*libnccl\.so\.2\)$/\1/p' | head -1)
if [[ -n $nccl ]]; then ln -sf "$nccl" "$folder/librccl.so"; fi
