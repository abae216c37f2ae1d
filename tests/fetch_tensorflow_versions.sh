#!/usr/bin/env bash
# Puts other versions of TensorFlow into .venv/tensorflow-VERSION: tests/fetch_tensorflow_versions.sh VERSION...
#
# Each is a download of 220 MB and takes 1 GB. Without what they ask for besides, which .venv's TensorFlow has too; only
# protobuf's Python is one that their messages were generated for. TensorFlow looks for plugins only where it lies in a
# folder of the name site-packages.
set -euo pipefail
cd "$(dirname "$0")/.."

# On a machine that caps releases by a constraint in pip's configuration, others could not be had.
export PIP_CONSTRAINT=/dev/null
for version in "$@"; do
  target=.venv/tensorflow-$version
  if [[ -f $target/site-packages/tensorflow/__init__.py ]]; then continue; fi
  part=.venv/.tensorflow-$version
  rm -rf "$part" "$target"
  .venv/bin/python -m pip install --quiet --no-deps --target "$part/site-packages" "tensorflow-cpu==$version" 'protobuf==5.29.6' || {
    echo "TensorFlow $version could not be downloaded: put its package into $target" >&2
    exit 1
  }
  mv "$part" "$target"
done
