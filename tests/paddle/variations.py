"""Hostile and telling variations of a call: what the generated tests of test_hostile.py try."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
from calls import CALLS, Array, Call, attributes_of, is_tensor

Case = tuple[Call, str, dict[str, Any]]

_INTEGERS = [0, 1, 2, 3, 4, -1, -2, -3, -4, -5, 7, 100, -100, 2**31 - 1, -(2**31)]
_FLOATS = [0.0, -0.0, 1.0, -1.0, 2.0, 0.5, 3.0, float("inf"), float("-inf"), float("nan"), 1e38, 1e-30, 1e-4]
_DTYPES = ["float32", "float64", "int32", "int64", "bool", "float16", "bfloat16", "uint8", "int8", "int16", "complex64"]
_TEXTS = [
    "", "NHWC", "NCHW", "NDHWC", "NCDHW", "SAME", "VALID", "none", "mean", "sum", "nothing", "max", "avg",
    "reflect", "replicate", "circular", "upscale_in_train", "downscale_in_infer", "nearest", "border",
]  # fmt: skip
# What attributes whose default is None may be.
_OPTIONAL: dict[str, list[Any]] = {
    "use_global_stats": [True, False],
    "axis": [*_INTEGERS, [0, 1], [0, 0], [1, 0], [-1], [0, -1], [5], [-9], []],
    **{key: [*_INTEGERS] for key in ("stride", "padding_idx", "num", "num_columns", "end", "min", "max", "high")},
    **{key: [*_FLOATS[:7]] for key in ("p", "max_norm", "divisor_override")},
}
_TIES = np.array([0.0, 1.0, -1.0, 0.0, 0.5, -0.5, 2.0, 3.0, 6.0, -3.0, 20, -0.0], "float32")
_SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 3e38, 1e-38, 1e-45], "float32")
# Libraries add products in any order, fused or not. So beside infinities no sum may come near the largest number, or
# the processor decides whether it is infinite before an infinity of the other sign comes.
_ADDS_PRODUCTS = re.compile(r"matmul|bmm|multi_dot|mv$|addmm|linear$|conv\d")
_SPECIAL_FACTORS = np.where(_SPECIAL == np.float32(3e38), np.float32(1e15), _SPECIAL)


def _lists(value: list[Any]) -> list[list[Any]]:
    changed = [[], value[:-1], value + value[:1], [value[0]] * len(value), [-a for a in value], value[::-1]]
    changed += [[0] * len(value), [-1] * len(value)]
    for i in range(len(value)):
        for n in (0, 1, 2, -1, -2, -5, 5, 100, 2**31 - 1, -(2**31), 2**62):
            changed.append([*value[:i], n, *value[i + 1 :]])
    return changed


def attribute_values(name: str, value: Any) -> list[Any]:
    if "dtype" in name:
        return [dtype for dtype in _DTYPES if dtype != value]
    if isinstance(value, bool):
        return [not value]
    if isinstance(value, int):
        return [n for n in _INTEGERS if n != value]
    if isinstance(value, float):
        return [f for f in _FLOATS if f != value]
    if isinstance(value, str):
        return [text for text in _TEXTS if text != value]
    if isinstance(value, (list, tuple)):
        return _lists(list(value)) if value else []
    return _OPTIONAL.get(name, []) if value is None else []


def tensor_values(call: Call, a: Array) -> Iterator[tuple[str, Array]]:
    draw = np.random.RandomState(5)
    special = _SPECIAL_FACTORS if _ADDS_PRODUCTS.search(call.name) else _SPECIAL
    yield "empty first", a[:0] if a.ndim else a.reshape(1)[:0]
    yield "one more axis", a[None]
    yield "many axes", a.reshape(a.shape + (1,) * (9 - a.ndim))
    if a.ndim:
        yield "fewer axes", a[0]
        yield "scalar", a.ravel()[0].reshape(())
        yield "longer", np.concatenate([a, a])
        yield "ones", a[tuple(slice(0, 1) for _ in a.shape)]
    if a.ndim > 1:
        yield "empty last", a[..., :0]
        yield "empty middle", a[:, :0]
        yield "wider", np.concatenate([a, a], -1)
        yield "flat", a.ravel()
        yield "turned", np.ascontiguousarray(a.swapaxes(0, -1))
    if a.dtype.kind == "f":
        for k in range(3):
            yield f"ties {k}", draw.choice(_TIES, a.shape).astype(a.dtype)
            yield f"special {k}", draw.choice(special, a.shape).astype(a.dtype)
        yield "ties of 0 and 1", draw.choice(_TIES[:2], a.shape).astype(a.dtype)
        yield "ties everywhere", np.ones_like(a)
        yield "ties at zero", np.zeros_like(a)
    if a.dtype.kind == "i":
        for n in (-1, -2, 3, 4, 5, 7, 100, -100, 2**31 - 1, 2**40, -(2**40), 0):
            if not np.iinfo(a.dtype).min <= n <= np.iinfo(a.dtype).max:
                continue
            changed = a.copy()
            changed.ravel()[:1] = n
            yield f"first={n}", changed
    for dtype in ("int64", "float64", "float16", "bool", "int8", "complex64", "int32", "int16", "uint8", "float32"):
        if a.dtype != dtype:
            yield dtype, a.astype(dtype)


def attribute_variations(call: Call) -> Iterator[tuple[str, list[Case]]]:
    """Per attribute its variations."""
    for name, value in attributes_of(call).items():
        values = attribute_values(name, value)
        yield name, [(call, f"{name}={v!r}", {**call.arguments, name: v}) for v in values]


def tensor_variations(call: Call) -> Iterator[Case]:
    tensors = {name: value for name, value in call.arguments.items() if is_tensor(value)}
    for name, value in tensors.items():
        if isinstance(value, list):
            yield call, f"{name} none", {**call.arguments, name: []}
            yield call, f"{name} one", {**call.arguments, name: value[:1]}
            for label, v in tensor_values(call, value[0]):
                yield call, f"{name}[0] {label}", {**call.arguments, name: [v, *value[1:]]}
        else:
            for label, v in tensor_values(call, value):
                yield call, f"{name} {label}", {**call.arguments, name: v}
    single = {name: dict(tensor_values(call, value)) for name, value in tensors.items() if not isinstance(value, list)}
    if len(single) < 2:
        return
    for label in next(iter(single.values())):
        if all(label in values for values in single.values()):
            # Turned against each other, so that some elements tie and some do not.
            changed = {
                name: np.roll(values[label].ravel(), 3 * i).reshape(values[label].shape)
                for i, (name, values) in enumerate(single.items())
            }
            yield call, f"all {label}", {**call.arguments, **changed}


def all_cases() -> Iterator[Case]:
    for call in CALLS:
        yield call, "as it is", call.arguments
        for _, variations in attribute_variations(call):
            yield from variations
        yield from tensor_variations(call)
