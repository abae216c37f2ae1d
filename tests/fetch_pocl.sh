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
for library in libz3-4 libedit2 libbsd0 libmd0 libxml2 libicu72; do
  dpkg-query --show --showformat='${Status}' "$library" 2>/dev/null | grep -q 'ok installed' || packages+=("$library")
done

download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
chmod 755 "$download"  # apt downloads as another user

# Package lists of our own, so that neither root nor an earlier `apt-get update` is needed.
fetch() {
  mkdir -p "$download/lists/partial" "$download/cache/archives/partial"
  local private=(-o "Dir::State::Lists=$download/lists" -o "Dir::Cache=$download/cache")
  apt-get "${private[@]}" update && (cd "$download" && apt-get "${private[@]}" download "${packages[@]}")
}
if ! fetch >"$download/log" 2>&1; then
  cat "$download/log"
  echo "PoCL could not be downloaded: install Debian's package pocl-opencl-icd, and write an empty $target/environment" >&2
  exit 1
fi
mkdir -p "$target/icd"
for package in "$download"/*.deb; do dpkg -x "$package" "$target"; done

libraries=$target/usr/lib/$(uname -m)-linux-gnu
echo "$libraries/libpocl.so.2" >"$target/icd/pocl.icd"
cat >"$target/environment" <<END
export OCL_ICD_VENDORS=$target/icd
export LD_LIBRARY_PATH=$libraries:$target/usr/lib/llvm-15/lib\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH}
END
