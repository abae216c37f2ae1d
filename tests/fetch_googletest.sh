#!/usr/bin/env bash
# Puts GoogleTest's sources into .venv/googletest, without root: tests/fetch_googletest.sh
set -euo pipefail
cd "$(dirname "$0")/.."
target=.venv/googletest
if [[ -f $target/usr/src/googletest/CMakeLists.txt ]]; then exit 0; fi

download=$(mktemp -d)
trap 'rm -rf "$download"' EXIT
chmod 755 "$download"  # apt downloads as another user

# Package lists of our own, so that neither root nor an earlier `apt-get update` is needed.
fetch() {
  mkdir -p "$download/lists/partial" "$download/cache/archives/partial"
  local private=(-o "Dir::State::Lists=$download/lists" -o "Dir::Cache=$download/cache")
  apt-get "${private[@]}" update && (cd "$download" && apt-get "${private[@]}" download googletest)
}
if ! fetch >"$download/log" 2>&1; then
  cat "$download/log"
  echo "GoogleTest could not be downloaded: install Debian's package googletest, and set UNIHAL_GOOGLETEST_DIR=/usr/src/googletest" >&2
  exit 1
fi
dpkg -x "$download"/googletest_*.deb "$target"
