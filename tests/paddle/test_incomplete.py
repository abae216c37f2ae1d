"""Paddle on a backend that does little: what it refuses runs on the host, counted, and the numbers are the CPU's."""

from __future__ import annotations

import json
from pathlib import Path

import incomplete_backends
import pytest
from processes import run

_TRAIN = f"""
import sys
sys.path.insert(0, {str(Path(__file__).parent)!r})
sys.argv[1:] = ["rdna", "float32", "float64"]
import incomplete_training
incomplete_training.main()
"""

_ONE_OP = """
import paddle
paddle.set_device("rdna")
print(paddle.cumsum(paddle.to_tensor([1.0, 2.0])).numpy())
"""


@pytest.mark.parametrize("backend", ["tiny", pytest.param("reference", marks=pytest.mark.whole)])
def test_training_gives_the_numbers_of_the_cpu(backend: str, tmp_path: Path) -> None:
    process = run(_TRAIN, tmp_path, **incomplete_backends.settings(backend, tmp_path))
    assert process.returncode == 0, process.stderr
    result = json.loads(process.stdout.splitlines()[-1])
    for mode, error in result["errors"].items():
        # Values up to 22, four steps: a few roundings of the dtype, and what they grow to.
        assert error < (2e-5 if mode.startswith("float32") else 1e-13), (mode, error)
    incomplete_backends.check_fallbacks(result["fallbacks"], backend, {"float32", "float64"})
    assert any("map.adam" in op for _, op, *_ in result["fallbacks"])


def test_strict_makes_it_an_error_with_op_dtype_and_reason(tmp_path: Path) -> None:
    process = run(_ONE_OP, tmp_path, **incomplete_backends.settings("reference", tmp_path, strict=True))
    assert process.returncode == 1
    assert "rdna:0 (reference) does not run cumsum (scan) of float32: scan is not implemented" in process.stderr
    assert "UNIHAL_STRICT=1" in process.stderr
