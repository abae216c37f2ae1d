#!/usr/bin/env bash
# Puts clang with libFuzzer into .venv/clang, without root: tests/fetch_clang.sh
#
# About 37 MB of Debian's packages, and up to 18 MB more of libraries that the system lacks. A clang of your own serves
# as well: UNIHAL_CLANG=<folder of clang and clang++>.
set -euo pipefail
cd "$(dirname "$0")/.."
target=.venv/clang
if [[ -n ${UNIHAL_CLANG:-} || -x $target/bin/clang++ ]]; then exit 0; fi

version=14
packages=(clang-$version libclang-common-$version-dev libclang-rt-$version-dev libclang-cpp$version libllvm$version)
source tests/debian_packages.sh
fetch_packages $target "clang could not be downloaded: install Debian's packages clang and libclang-rt-dev (or any clang with libFuzzer), and set UNIHAL_CLANG to the folder of clang++, such as /usr/bin" \
  "${packages[@]}" $(missing_libraries libz3-4 libedit2 libbsd0 libmd0 libxml2 libicu72)

# The compilers, with their own libraries.
mkdir -p "$target/bin"
for name in clang clang++; do
  cat >"$target/bin/$name" <<END
#!/bin/sh
root=\$(dirname "\$(readlink -f "\$0")")/..
LD_LIBRARY_PATH=\$root/usr/lib/$(uname -m)-linux-gnu exec "\$root/usr/lib/llvm-$version/bin/$name" "\$@"
END
  chmod 755 "$target/bin/$name"
done
