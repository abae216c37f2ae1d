"""Runs a computation on the framework's CPU and on a device (RDNA, or what the backend serves), and compares.

Soft placement is off: an op without a kernel is an error, never a silent run on the CPU.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf
import unihal

# The type that the backend is made for.
_TYPES = {"opencl": "POLARIS", "corex": "ILUVATAR"}
DEVICE = f"/device:{_TYPES.get(os.environ['UNIHAL_BACKEND'], 'RDNA')}:0"
CPU = "/device:CPU:0"
# Whether it has computed when a call returns, so that the numbers that it finds outside are the call's error.
AT_ONCE = unihal.device(DEVICE.removeprefix("/device:").lower()).properties.unified_memory

FLOATS = ("float32", "float64", "float16", "bfloat16")

# Relative to the largest magnitude of the result: a few units in the last place, and for reductions their growth.
TOLERANCE = {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}

tf.config.set_soft_device_placement(False)


def on(device: str, function: Callable[..., Any], arrays: list[np.ndarray], dtypes: list[str]) -> list[Any]:
    """The results of function(*tensors), made and run on a device."""
    with tf.device(device):
        tensors = [tf.cast(tf.constant(a), d) for a, d in zip(arrays, dtypes, strict=True)]
        return tf.nest.flatten(function(*tensors))


def assert_close(actual: Any, expected: Any, tolerance: float | None = None) -> None:
    assert actual.dtype == expected.dtype
    assert actual.shape == expected.shape, f"shape {actual.shape}, expected {expected.shape}"
    name = expected.dtype.name
    if name not in TOLERANCE:
        np.testing.assert_array_equal(actual.numpy(), expected.numpy())
        return
    x = tf.cast(actual, tf.float64).numpy()
    y = tf.cast(expected, tf.float64).numpy()
    finite = np.abs(y[np.isfinite(y)])
    scale = max(1.0, float(finite.max()) if finite.size else 1.0)
    limit = TOLERANCE[name] if tolerance is None else tolerance
    np.testing.assert_allclose(x, y, rtol=limit, atol=limit * scale)


def check(
    function: Callable[..., Any],
    *arrays: Any,
    dtype: str = "float32",
    gradients: bool = False,
    tolerance: float | None = None,
) -> None:
    """Compares function(*tensors), and its gradients if wanted. Float arrays are cast to `dtype`, others kept."""
    values = [np.asarray(a) for a in arrays]
    dtypes = [dtype if v.dtype == np.float64 else v.dtype.name for v in values]

    def run(device: str) -> list[Any]:
        if not gradients:
            return on(device, function, values, dtypes)
        with tf.device(device):
            tensors = [tf.cast(tf.constant(v), d) for v, d in zip(values, dtypes, strict=True)]
            watched = [t for t in tensors if t.dtype.is_floating]
            with tf.GradientTape() as tape:
                tape.watch(watched)
                results = [r for r in tf.nest.flatten(function(*tensors)) if r.dtype.is_floating]
                # Weights that tell the elements of a result apart.
                weights = [
                    tf.cast(np.linspace(0.5, 1.5, r.shape.num_elements()).reshape(r.shape), r.dtype) for r in results
                ]
                loss = tf.add_n([tf.reduce_sum(r * w) for r, w in zip(results, weights, strict=True)])
            return results + [tf.convert_to_tensor(g) for g in tape.gradient(loss, watched) if g is not None]

    actual = run(DEVICE)
    expected = run(CPU)
    assert len(actual) == len(expected)
    for a, e in zip(actual, expected, strict=True):
        if a.dtype.name in FLOATS and tf.size(a) > 0:
            assert DEVICE in a.device, f"computed on {a.device}"
        assert_close(a, e, tolerance)


def random(*shape: int, seed: int = 0, low: float = -2.0, high: float = 2.0) -> np.ndarray:
    """Float64 values, which check() casts to the dtype under test."""
    return np.random.default_rng(seed).uniform(low, high, shape)


def integers(*shape: int, low: int = 0, high: int = 10, dtype: str = "int64", seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)
