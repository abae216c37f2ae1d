"""Several requests as one batch: joined along the first axis, run once, taken apart; and whether a model allows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ..errors import GPUXError
from ..execution.inputs import random_inputs
from ..tensors import Array, TensorSpec

#: Runs the model on arrays in the order of its inputs.
Run = Callable[[Sequence[Array]], "list[Array]"]

# Sums come in another order for another batch size; relative to the largest value of an output.
_TOLERANCES = {"float16": 2e-2, "float32": 1e-3, "float64": 1e-9}
_FREE_SIZES = (8, 1)
# Rows of the parts that are tried, and what they may differ by at least. Libraries compute a single row in ways of
# their own, and its roundings grow in inputs as random as these, which look like nothing the model was made for.
_TRIALS = (((1, 2), 0.0), ((2, 3), 0.0), ((1, 2), 0.03))


def run_joined(run: Run, requests: Sequence[Sequence[Array]]) -> list[list[Array]]:
    """The outputs of each request. ValueError if the outputs do not have as many rows as the inputs."""
    if len(requests) == 1:
        return [run(requests[0])]
    sizes = [request[0].shape[0] for request in requests]
    outputs = run([np.concatenate(arrays) for arrays in zip(*requests)])
    total = sum(sizes)
    if any(output.ndim == 0 or output.shape[0] != total for output in outputs):
        raise ValueError("outputs do not have a row for each row of the inputs")
    results: list[list[Array]] = []
    start = 0
    for size in sizes:
        results.append([output[start : start + size] for output in outputs])
        start += size
    return results


def why_not_joined(run: Run, specs: dict[str, TensorSpec]) -> str:
    """Tries whether a joined batch gives what its parts give by themselves; empty if so, else the reason against it."""
    reason = ""
    for free_size in _FREE_SIZES:
        try:
            # What holds for one row holds; else for more rows, and for one row nearly.
            if _holds(run, specs, free_size, *_TRIALS[0]) or all(
                _holds(run, specs, free_size, *trial) for trial in _TRIALS[1:]
            ):
                return ""
            return "a joined batch gives other results than its parts: the model mixes the rows of a batch"
        except (GPUXError, ValueError) as error:
            reason = f"it could not be tried: {error}"
    return reason


def _holds(run: Run, specs: dict[str, TensorSpec], free_size: int, rows: tuple[int, ...], least: float) -> bool:
    parts = [list(random_inputs(specs, batch, free_size, seed).values()) for seed, batch in enumerate(rows, start=1)]
    alone = [run(part) for part in parts]
    together = run_joined(run, parts)
    return all(
        _same(a, b, least) for expected, found in zip(alone, together) for a, b in zip(expected, found, strict=True)
    )


def _same(expected: Array, found: Array, least: float) -> bool:
    if expected.shape != found.shape or expected.dtype != found.dtype:
        return False
    if expected.dtype.kind != "f":
        return bool(np.array_equal(expected, found))
    scale = float(np.max(np.abs(expected), initial=1e-6, where=np.isfinite(expected)))
    tolerance = max(least, _TOLERANCES[str(expected.dtype)]) * scale
    return bool(np.allclose(expected, found, rtol=0, atol=tolerance, equal_nan=True))
