#!/usr/bin/env bash
# Builds the drivers on host memory: tests/doubles/hip_on_host/build.sh FOLDER
#
# The folder is a ROCM_PATH (lib/libamdhip64.so, lib/libhiprtc.so) and a COREX_ROOT (lib64/libcuda.so.1,
# lib64/libnvrtc.so) then. control.h says how they are told what to be:
#
#     ROCM_PATH=FOLDER HIP_ON_HOST_PROGRAMS=TEXTS UNIHAL_BACKEND=hip unihal cache warm
set -euo pipefail
folder=${1:?usage: tests/doubles/hip_on_host/build.sh FOLDER}
mkdir -p "$folder/lib" "$folder/lib64"
folder=$(cd "$folder" && pwd)
cd "$(dirname "$0")"
root=$PWD/../../..

# As one file, of which the compiler reads the standard library's headers once.
build() {
  printf '#include "%s"\n' "$PWD"/*.cc |
    "${CXX:-g++}" -std=c++17 -O0 -fPIC -shared -fvisibility=hidden -pthread -Wall -Wextra -I"$root" -I"$root/include" "${@:2}" -x c++ - \
    -Wl,--no-undefined -Wl,-z,nodelete -o "$folder/$1"
}
build lib/libamdhip64.so
ln -sf libamdhip64.so "$folder/lib/libhiprtc.so"
build lib64/libcuda.so.1 -DON_HOST_CUDA
ln -sf libcuda.so.1 "$folder/lib64/libnvrtc.so"
