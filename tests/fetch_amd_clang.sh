#!/usr/bin/env bash
# Puts clang 19 for AMD's GPUs into .venv/amd-clang, without root: tests/fetch_amd_clang.sh
#
# About 70 MB of Debian's packages: the compiler and its linker, libclc (OpenCL's functions) and ROCm's device libraries
# (HIP's mathematics), and llvm-mca, which estimates cycles. Nothing is downloaded where the system has them all.
set -euo pipefail
cd "$(dirname "$0")/.."
target=.venv/amd-clang
bitcode=usr/lib/$(uname -m)-linux-gnu/amdgcn/bitcode
if [[ -x $target/bin/clang && -x $target/bin/llvm-mca && -f $target/$bitcode/ocml.bc ]]; then exit 0; fi
if [[ -x /usr/bin/clang-19 && -x /usr/bin/llvm-mca-19 && -x /usr/bin/ld.lld-19 && -d /usr/lib/clc && -f /$bitcode/ocml.bc ]]; then exit 0; fi

version=19
packages=(clang-$version libclang-common-$version-dev libclang-cpp$version libllvm$version lld-$version llvm-$version
  llvm-$version-linker-tools libclc-$version rocm-device-libs)
source tests/debian_packages.sh
fetch_packages $target "clang for AMD's GPUs could not be downloaded: install Debian's packages clang-19, lld-19, llvm-19, libclc-19 and rocm-device-libs" \
  "${packages[@]}" $(missing_libraries libz3-4 libedit2 libbsd0 libmd0 libxml2 libicu72 libzstd1)

# The programs, with their own libraries.
mkdir -p "$target/bin"
for name in clang llvm-mca llvm-readelf; do
  cat >"$target/bin/$name" <<END
#!/bin/sh
root=\$(dirname "\$(readlink -f "\$0")")/..
LD_LIBRARY_PATH=\$root/usr/lib/llvm-$version/lib:\$root/usr/lib/$(uname -m)-linux-gnu exec "\$root/usr/lib/llvm-$version/bin/$name" "\$@"
END
  chmod 755 "$target/bin/$name"
done
