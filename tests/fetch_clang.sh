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
  echo "clang could not be downloaded: install Debian's packages clang and libclang-rt-dev (or any clang with libFuzzer)," \
    "and set UNIHAL_CLANG to the folder of clang++, such as /usr/bin" >&2
  exit 1
fi
mkdir -p "$target"
for package in "$download"/*.deb; do dpkg -x "$package" "$target"; done

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
