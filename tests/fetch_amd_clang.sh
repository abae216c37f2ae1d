#!/usr/bin/env bash
# Puts clang 19 for AMD's GPUs, with its OpenCL library, into .venv/amd-clang, without root: tests/fetch_amd_clang.sh
#
# About 50 MB of Debian's packages; nothing where the system has clang-19 and libclc-19.
set -euo pipefail
cd "$(dirname "$0")/.."
target=.venv/amd-clang
if [[ -x /usr/bin/clang-19 && -f /usr/lib/clc/amdgcn--amdhsa.bc || -x $target/bin/clang ]]; then exit 0; fi

version=19
packages=(clang-$version libclang-common-$version-dev libclang-cpp$version libllvm$version libclc-$version)
source tests/debian_packages.sh
fetch_packages $target "clang $version could not be downloaded: install Debian's packages clang-$version and libclc-$version" \
  "${packages[@]}" $(missing_libraries libz3-4 libedit2 libbsd0 libmd0 libxml2 libicu72)

# The compiler, with its own libraries.
mkdir -p "$target/bin"
cat >"$target/bin/clang" <<END
#!/bin/sh
root=\$(dirname "\$(readlink -f "\$0")")/..
LD_LIBRARY_PATH=\$root/usr/lib/$(uname -m)-linux-gnu exec "\$root/usr/lib/llvm-$version/bin/clang" "\$@"
END
chmod 755 "$target/bin/clang"
