"""Running one computation on the CPU and on a device, and comparing results and gradients."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import paddle

# The type that the backend is made for.
DEVICE = {"opencl": "polaris", "hip": "rdna"}.get(os.environ["UNIHAL_BACKEND"], "iluvatar")

Array = np.ndarray[Any, Any]

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
            sum(weighted_sum(result) for result in results if not result.stop_gradient).backward()
            gradients = [tensor.grad for tensor in floating]
        return [to_numpy(result) for result in results], [to_numpy(tensor) for tensor in gradients]


def weighted_sum(result: Any) -> Any:
    """A scalar whose gradient differs from element to element, so that no error cancels out."""
    wide = result.astype("float32")
    if -1 in result.shape:  # a graph's result whose shape only a run knows
        return (0.7 * wide * wide + wide).sum()
    return (wide * paddle.to_tensor(random(*result.shape, seed=7))).sum()


def run_in_graph(
    function: Callable[..., Any], inputs: Sequence[Array], device: str, gradient: bool
) -> tuple[list[Array], list[Array]]:
    """As run, by an Executor that is fed the inputs. Graphs take other ways than eager mode: attributes become tensors,
    shapes are unknown until the run, memory is chosen by liveness."""
    place = paddle.CPUPlace() if device == "cpu" else paddle.CustomPlace(device, 0)
    main = paddle.static.Program()
    # What attention is made of is decided where the graph is built, for the device in force there.
    with on(device), paddle.static.program_guard(main, paddle.static.Program()):
        given = [paddle.static.data(f"x{i}", array.shape, str(array.dtype)) for i, array in enumerate(inputs)]
        for tensor, array in zip(given, inputs, strict=True):
            tensor.stop_gradient = not (gradient and array.dtype.kind == "f")
        results = flatten(function(*given))
        floating = [tensor for tensor in given if not tensor.stop_gradient]
        gradients = []
        if gradient:
            loss = sum(weighted_sum(result) for result in results if not result.stop_gradient)
            gradients = paddle.static.gradients([loss], floating)
        feed = {f"x{i}": array for i, array in enumerate(inputs)}
        fetched = paddle.static.Executor(place).run(main, feed=feed, fetch_list=results + gradients)
    return fetched[: len(results)], fetched[len(results) :]


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
    expected = run(function, inputs, "cpu", dtype, gradient)
    actual = run(function, inputs, device, dtype, gradient)
    assert_equal(actual, expected, TOLERANCE[dtype] if tolerance is None else tolerance)


def check_in_graph(
    function: Callable[..., Any], *inputs: Array, gradient: bool = True, tolerance: float | None = None
) -> None:
    """As check, of a graph in Paddle's intermediate representation, in float32."""
    with paddle.pir_utils.IrGuard():
        expected = run_in_graph(function, inputs, "cpu", gradient)
        actual = run_in_graph(function, inputs, DEVICE, gradient)
    assert_equal(actual, expected, TOLERANCE["float32"] if tolerance is None else tolerance)


def assert_equal(
    actual: tuple[list[Array], list[Array]], expected: tuple[list[Array], list[Array]], limit: float
) -> None:
    """Results and gradients: within a tolerance, in relation to the tensor's largest element."""
    assert len(actual[0]) == len(expected[0]) > 0
    for ours, theirs in zip(actual[0] + actual[1], expected[0] + expected[1], strict=True):
        assert ours.shape == theirs.shape
        if theirs.dtype.kind in "bi":
            np.testing.assert_array_equal(ours, theirs)
        else:
            scale = max(1.0, float(np.max(np.abs(theirs), initial=0.0, where=np.isfinite(theirs))))
            np.testing.assert_allclose(ours, theirs, rtol=limit, atol=limit * scale)
