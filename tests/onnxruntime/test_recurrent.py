"""Recurrent layers in the forms that the node tests of the onnx package do not reach, against ONNX Runtime's CPU."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from onnx import helper
from sessions import cpu_session, model, session

STEPS, BATCH, WIDTH, HIDDEN = 6, 3, 5, 4
GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize(
    ("op", "attributes", "extra"),
    [
        ("GRU", {"linear_before_reset": 0}, ()),
        ("GRU", {"linear_before_reset": 0}, ("lengths", "initial")),
        ("GRU", {"linear_before_reset": 1, "clip": 0.3}, ("initial",)),
        ("LSTM", {}, ("peepholes",)),
        ("LSTM", {"clip": 0.3}, ("lengths", "initial", "peepholes")),
        ("LSTM", {"input_forget": 1}, ("initial",)),
        ("RNN", {"clip": 0.3}, ("lengths",)),
    ],
)
def test_a_layer(op: str, attributes: dict[str, Any], extra: tuple[str, ...], direction: str, dtype: Any) -> None:
    rng = np.random.default_rng(1)
    directions, gates = 2 if direction == "bidirectional" else 1, GATES[op]
    feeds: dict[str, np.ndarray | None] = {
        "x": rng.standard_normal((STEPS, BATCH, WIDTH)),
        "w": rng.standard_normal((directions, gates * HIDDEN, WIDTH)),
        "r": rng.standard_normal((directions, gates * HIDDEN, HIDDEN)),
        "b": rng.standard_normal((directions, 2 * gates * HIDDEN)),
        "lengths": np.array([6, 2, 4], np.int32) if "lengths" in extra else None,
        "h": rng.standard_normal((directions, BATCH, HIDDEN)) if "initial" in extra else None,
    }
    if op == "LSTM":
        feeds["c"] = rng.standard_normal((directions, BATCH, HIDDEN)) if "initial" in extra else None
        feeds["p"] = rng.standard_normal((directions, 3 * HIDDEN)) if "peepholes" in extra else None
    outputs = ["y", "last", "cell"] if op == "LSTM" else ["y", "last"]
    names = [name if value is not None else "" for name, value in feeds.items()]
    node = helper.make_node(op, names, outputs, hidden_size=HIDDEN, direction=direction, **attributes)

    def run(make: Any, kind: Any) -> list[np.ndarray]:
        given = {
            name: value.astype(dtype).astype(kind) if value.dtype == np.float64 else value
            for name, value in feeds.items()
            if value is not None
        }
        made = model([node], {n: (v.dtype, list(v.shape)) for n, v in given.items()}, dict.fromkeys(outputs, kind))
        result: list[np.ndarray] = make(made).run(None, given)
        return result

    room = 1e-5 if dtype == np.float32 else 2e-3
    for output, expected in zip(run(session, dtype), run(cpu_session, np.float32), strict=True):
        assert output.shape == expected.shape and output.dtype == dtype
        assert np.abs(expected).max() > 0
        assert np.abs(output.astype(np.float32) - expected).max() <= room
