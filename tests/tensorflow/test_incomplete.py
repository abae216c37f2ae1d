"""TensorFlow on a backend that does little: what it refuses runs on the host, counted, and the numbers are the CPU's.

Devices without float64 are in tests/opencl/test_presented.py.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import incomplete_backends
import pytest
from processes import run_command, run_python

_TRAIN = [sys.executable, str(Path(__file__).with_name("incomplete_training.py"))]

_ONE_OP = """
import tensorflow as tf
with tf.device("/device:RDNA:0"):
    print(tf.cumsum(tf.constant([1.0, 2.0])).numpy())
"""

# Values up to 25: a few roundings of the dtype, and what they grow to in four steps.
_TOLERANCE = {"float32": 5e-5, "float64": 1e-12}


@pytest.mark.parametrize(
    "backend", [pytest.param("tiny", marks=pytest.mark.long), pytest.param("reference", marks=pytest.mark.whole)]
)
def test_training_gives_the_numbers_of_the_cpu(backend: str, tmp_path: Path) -> None:
    settings = incomplete_backends.settings(backend, tmp_path)
    process = run_command([*_TRAIN, "RDNA", *_TOLERANCE], **settings)
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout.splitlines()[-1])
    assert result["errors"].keys() == _TOLERANCE.keys()
    for dtype, error in result["errors"].items():
        assert error < _TOLERANCE[dtype], (dtype, error)
    incomplete_backends.check_fallbacks(result["fallbacks"], backend, {"float32", "float64"})


def test_strict_makes_it_an_error_with_op_dtype_and_reason(tmp_path: Path) -> None:
    process = run_python(_ONE_OP, **incomplete_backends.settings("reference", tmp_path, strict=True))
    assert process.returncode == 1
    assert "rdna:0 (reference) does not run Cumsum (scan) of float32: scan is not implemented" in process.stderr
    assert "UNIHAL_STRICT=1" in process.stderr
