#!/usr/bin/env bash
# Puts PoCL, OpenCL on the host's processor, into .venv/pocl, without root: tests/fetch_pocl.sh
#
# About 70 MB of Debian's packages. `source .venv/pocl/environment` makes a process see it, and no other OpenCL.
set -euo pipefail
cd "$(dirname "$0")/.."
target=$PWD/.venv/pocl
if [[ -f $target/environment ]]; then exit 0; fi

packages=(pocl-opencl-icd libpocl2 libpocl2-common ocl-icd-libopencl1 clang-15 libclang-cpp15 libclang-common-15-dev libllvm15
  libhwloc15 libltdl7 libclblast1)
source tests/debian_packages.sh
fetch_packages "$target" "PoCL could not be downloaded: install Debian's package pocl-opencl-icd, and write an empty $target/environment" \
  "${packages[@]}" $(missing_libraries libz3-4 libedit2 libbsd0 libmd0 libxml2 libicu72)
mkdir -p "$target/icd"

libraries=$target/usr/lib/$(uname -m)-linux-gnu
echo "$libraries/libpocl.so.2" >"$target/icd/pocl.icd"
cat >"$target/environment" <<END
export OCL_ICD_VENDORS='$target/icd'
export LD_LIBRARY_PATH='$libraries:$target/usr/lib/llvm-15/lib'\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
END
