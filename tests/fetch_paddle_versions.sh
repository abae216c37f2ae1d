#!/usr/bin/env bash
# Puts older versions of Paddle into .venv/paddle-VERSION: tests/fetch_paddle_versions.sh VERSION...
#
# Each is a download of 190 MB and takes 700 MB. Without what they ask for besides, which the newest one has too; only
# Paddle 3.0 imports two modules more.
set -euo pipefail
cd "$(dirname "$0")/.."

for version in "$@"; do
  target=.venv/paddle-$version
  if [[ -f $target/paddle/__init__.py ]]; then continue; fi
  more=()
  if [[ $version == 3.0.* ]]; then more=(decorator==5.3.1 astor==0.8.1); fi
  rm -rf "$target.part"
  .venv/bin/python -m pip install --quiet --no-deps --target "$target.part" "paddlepaddle==$version" "${more[@]}" || {
    echo "Paddle $version could not be downloaded: put its package into $target" >&2
    exit 1
  }
  rm -rf "$target"
  mv "$target.part" "$target"
done
