"""tf.distribute on two devices of one process, and in two processes (distributed.py, distributed_worker.py)."""

from __future__ import annotations

import os

import forks
import pytest


def run(*tests: str) -> None:
    if os.environ["UNIHAL_BACKEND"] != "stub" and "UNIHAL_TEST_DEVICES" not in os.environ:
        pytest.skip("UNIHAL_TEST_DEVICES is not set: this machine may have one device")
    variables = {**os.environ, "UNIHAL_STUB_DEVICES": "2"}
    result = forks.run(["distributed.py", *tests], variables)
    assert result.returncode == 0, result.stdout + result.stderr


def test_training_and_failures() -> None:
    run("fit", "many_at_once", "failing_rank")


@pytest.mark.whole
def test_whole_batch_mixed_precision_and_reductions() -> None:
    run("whole_batch", "mixed_precision", "reductions")
