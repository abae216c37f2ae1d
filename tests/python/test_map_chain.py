"""ops.map_chain: programs from Python, and what is said of wrong ones."""

from __future__ import annotations

import numpy as np
import pytest
import unihal
from unihal import ops


def buffer(values: object) -> unihal.Buffer:
    return unihal.Buffer.from_numpy(np.asarray(values, np.float32), "rdna:0")


def test_a_program_of_two_steps_and_parameters() -> None:
    x, bias = buffer([[1, -2, 3], [-4, 5, -6]]), buffer([1, 1, -4])
    total, half = ops.map_chain(
        [x, bias], ["add", "relu", "scale"], [[0, 1], [2], [3]], [2, 4], parameters=[[], [], [0.5, 1]]
    )
    expected = np.array([[2, -1, -1], [-3, 6, -10]], np.float32)
    np.testing.assert_array_equal(total.numpy(), expected)
    np.testing.assert_array_equal(half.numpy(), np.maximum(expected, 0) / 2 + 1)


def test_what_is_wrong_is_named() -> None:
    x = buffer([1, 2])
    with pytest.raises(unihal.errors.InvalidArgumentError, match="step 1: add takes 2 values, not 1"):
        ops.map_chain([x], ["relu", "add"], [[0], [1]], [2])
    with pytest.raises(unihal.errors.InvalidArgumentError, match="step 0: there is no elementwise function 'lamp'"):
        ops.map_chain([x], ["lamp"], [[0]], [1])
    with pytest.raises(unihal.errors.InvalidArgumentError, match="operand 0 of step 0 .relu. is value 1"):
        ops.map_chain([x], ["relu"], [[1]], [1])
