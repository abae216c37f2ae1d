"""Running one computation on the CPU and on a device, and comparing results and gradients."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import paddle

DEVICE = "polaris" if os.environ["UNIHAL_BACKEND"] == "opencl" else "iluvatar"

# What a dtype's arithmetic can keep over the few dozen operations of one kernel: some units in the last place of
# float32 and float64 sums; results of float16 (11 bits) and bfloat16 (8 bits) are rounded when stored.
TOLERANCE = {"float64": 1e-10, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}


@contextmanager
def on(device: str) -> Iterator[None]:
    previous = paddle.get_device()
    paddle.set_device(device)
    try:
        yield
    finally:
        paddle.set_device(previous)


def random(*shape: int, low: float = -2.0, high: float = 2.0, seed: int = 0) -> np.ndarray[Any, Any]:
    return np.random.RandomState(seed).uniform(low, high, shape).astype("float32")


def flatten(value: Any) -> list[Any]:
    return [part for item in value for part in flatten(item)] if isinstance(value, (list, tuple)) else [value]


def run(
    function: Callable[..., Any], inputs: Sequence[np.ndarray[Any, Any]], device: str, dtype: str, gradient: bool
) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]]:
    """The results and the inputs' gradients. Floating inputs are rounded to `dtype`; the CPU then computes narrow
    dtypes in float32, so that it is the reference and not another rounding."""
    with on(device):
        tensors = []
        for array in inputs:
            tensor = paddle.to_tensor(array)
            if array.dtype.kind == "f":
                tensor = tensor.astype(dtype)
                if device == "cpu" and dtype in ("float16", "bfloat16"):
                    tensor = tensor.astype("float32")
                tensor.stop_gradient = not gradient
            tensors.append(tensor)
        results = flatten(function(*tensors))
        for result in results:
            assert device in str(result.place), f"computed on {result.place}"
        floating = [tensor for tensor in tensors if not tensor.stop_gradient]
        gradients = []
        if gradient:
            # A different weight for every element of every result, so that no error cancels out.
            loss = sum(
                (result.astype("float32") * paddle.to_tensor(random(*result.shape, seed=7))).sum()
                for result in results
                if not result.stop_gradient
            )
            loss.backward()
            gradients = [tensor.grad for tensor in floating]
        return [to_numpy(result) for result in results], [to_numpy(tensor) for tensor in gradients]


def to_numpy(tensor: Any) -> np.ndarray[Any, Any]:
    return tensor.astype("float32").numpy() if tensor.dtype in (paddle.float16, paddle.bfloat16) else tensor.numpy()


def check(
    function: Callable[..., Any],
    *inputs: np.ndarray[Any, Any],
    dtype: str = "float32",
    gradient: bool = True,
    device: str = DEVICE,
    tolerance: float | None = None,
) -> None:
    """Asserts that `function` of the inputs, and the gradients, are the CPU's."""
    expected, expected_gradients = run(function, inputs, "cpu", dtype, gradient)
    actual, actual_gradients = run(function, inputs, device, dtype, gradient)
    assert len(actual) == len(expected) > 0
    limit = TOLERANCE[dtype] if tolerance is None else tolerance
    for ours, theirs in zip(actual + actual_gradients, expected + expected_gradients, strict=True):
        assert ours.shape == theirs.shape
        if theirs.dtype.kind in "bi":
            np.testing.assert_array_equal(ours, theirs)
        else:
            scale = max(1.0, float(np.max(np.abs(theirs), initial=0.0, where=np.isfinite(theirs))))
            np.testing.assert_allclose(ours, theirs, rtol=limit, atol=limit * scale)
