#!/usr/bin/env bash
# Puts Ray and what it needs into build/ray, for tests/gpux/test_ray.py: tests/gpux/fetch_ray.sh
#
# Not into .venv: about 470 MB, and releases of its own of what others need.
set -euo pipefail
cd "$(dirname "$0")/../.."
target=$PWD/build/ray
if [[ -d $target ]]; then exit 0; fi
.venv/bin/python -m pip install --quiet --target "$target.part" 'ray[serve]==2.60.0'
mv "$target.part" "$target"
