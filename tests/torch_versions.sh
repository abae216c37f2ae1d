#!/usr/bin/env bash
# Runs tests/torch on other versions of PyTorch, one after the other: tests/torch_versions.sh VERSION... [-- PYTEST_ARGUMENT...]
#
# Each is PyPI's build, with CUDA's libraries where pip finds none for the CPU: a download of 3 GB, which takes 5 GB in
# build/torch-versions until its tests have run, whatever becomes of them; no GPU is needed. unihal is built for it and for
# .venv's PyTorch, and this one installation has to serve both. A version that fails does not keep the others from running.
# What is installed and built is in build/logs/torch-VERSION.log.
set -euo pipefail
cd "$(dirname "$0")/.."
versions=()
while (($#)) && [[ $1 != -- ]]; do versions+=("$1"); shift; done
if (($#)); then shift; fi
arguments=("$@")
if (($# == 0)); then arguments=(-m 'not long'); fi
if ((${#versions[@]} == 0)); then echo "usage: $0 VERSION... [-- PYTEST_ARGUMENT...]" >&2; exit 2; fi

python=$PWD/.venv/bin/python
root=$PWD/build/torch-versions
site=$("$python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
folder=$root/torch  # of the same name for each: what the compiler's cache knows of one serves when it comes again
unihal=$root/unihal
clean() { rm -rf "$root"; }
trap clean EXIT

# On a machine that caps releases by a constraint in pip's configuration, the newest could not be had.
export PIP_CONSTRAINT=/dev/null
# pip unpacks there before it moves to the target: on one file system that is no copy, and it goes with the rest.
export TMPDIR=$root/temporary

install() {  # VERSION
  mkdir -p "$TMPDIR" &&
  "$python" -m pip install --no-cache-dir --target "$folder" "torch==$1" &&
  CMAKE_ARGS="-DUNIHAL_WARNINGS_AS_ERRORS=ON '-DUNIHAL_TORCH_FOLDERS=$folder;$site'" \
    "$python" -m pip install --no-cache-dir --no-build-isolation --no-deps --target "$unihal" . &&
  # What the stub finds beside the unihal of .venv.
  ln -s "$site/scipy_openblas32" "$unihal/" && ln -s "$PWD/.venv/lib/libdnnl.so.3" "$unihal/unihal/lib/"
}

served() {  # VERSION PYTHONPATH: the installation's device computes in this version
  PYTHONPATH=$2 UNIHAL_BACKEND=stub "$python" -c "
import sys, torch, unihal
assert torch.__version__.startswith('$1'), f'PyTorch {torch.__version__} instead of $1'
assert unihal.__file__.startswith('$unihal'), f'{unihal.__file__} instead of the one of $unihal'
assert torch.ones(3, device='rdna').add(1).tolist() == [2, 2, 2]"
}

mkdir -p build/logs
failed=()
for version in "${versions[@]}"; do
  clean
  log=build/logs/torch-$version.log
  echo "== PyTorch $version"
  if ! install "$version" >"$log" 2>&1; then
    tail -n 40 "$log"
    failed+=("$version (installation, in $log)")
    continue
  fi
  served "$version" "$unihal:$folder" && served "$("$python" -c 'import torch; print(torch.__version__)')" "$unihal" &&
    PYTHONPATH=$unihal:$folder "$python" -m pytest --durations=10 --durations-min=1 "${arguments[@]}" tests/torch ||
    failed+=("$version (tests)")
done
if ((${#failed[@]})); then printf 'FAILED on PyTorch %s\n' "${failed[@]}" >&2; exit 1; fi
