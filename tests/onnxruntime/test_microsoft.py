"""Ops of com.microsoft, which ONNX Runtime's optimizer and quantizer make, against its CPU provider."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper
from sessions import cpu_session, fallbacks, model, session

RNG = np.random.default_rng(0)
BATCH, LENGTH, WIDTH, HEADS = 2, 5, 16, 4
HEAD = WIDTH // HEADS


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape).astype(np.float32)


def single(
    op: str, inputs: dict[str, np.ndarray | None], outputs: dict[str, Any], **attributes: Any
) -> onnx.ModelProto:
    """A model of one node of com.microsoft; an input of None is left out."""
    names = [name if value is not None else "" for name, value in inputs.items()]
    node = helper.make_node(op, names, list(outputs), domain="com.microsoft", **attributes)
    given = {name: (value.dtype, list(value.shape)) for name, value in inputs.items() if value is not None}
    return model([node], given, outputs)


def agree(
    op: str,
    inputs: dict[str, np.ndarray | None],
    outputs: dict[str, Any],
    dtype: Any = np.float32,
    **attributes: Any,
) -> list[np.ndarray]:
    """Runs a node on the device, the CPU forbidden, and on the CPU in float32; gives the device's answers.

    Floats are rounded to `dtype` first, so that both compute from the same numbers.
    """
    given = {
        name: value.astype(dtype) if value is not None and value.dtype == np.float32 else value
        for name, value in inputs.items()
    }
    wide = {
        name: value.astype(np.float32) if value is not None and value.dtype == dtype else value
        for name, value in given.items()
    }
    here = {name: dtype if kind == np.float32 else kind for name, kind in outputs.items()}
    feeds = {name: value for name, value in given.items() if value is not None}
    ours = session(single(op, given, here, **attributes)).run(None, feeds)
    feeds = {name: value for name, value in wide.items() if value is not None}
    theirs = cpu_session(single(op, wide, outputs, **attributes)).run(None, feeds)
    for output, expected, kind in zip(ours, theirs, outputs.values(), strict=True):
        assert output.shape == expected.shape and output.dtype == (dtype if kind == np.float32 else kind)
        if kind in (np.int8, np.uint8):
            assert np.abs(output.astype(int) - expected.astype(int)).max() <= 1
            continue
        room = {np.float32: 2e-5, np.float16: 5e-3}.get(dtype, 2e-5) * max(1, np.abs(expected).max())
        assert np.abs(output.astype(np.float64) - expected).max() <= room
    return ours


DTYPES = pytest.mark.parametrize("dtype", [np.float32, np.float16])


# -- attention


@DTYPES
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("extra", ["none", "bias", "lengths", "padding", "added", "past"])
def test_multi_head_attention(extra: str, causal: int, dtype: Any) -> None:
    keys = 3 if extra == "past" else LENGTH
    rows = keys if causal else LENGTH
    inputs: dict[str, np.ndarray | None] = {
        "query": floats(BATCH, rows, WIDTH),
        "key": floats(BATCH, keys, WIDTH),
        "value": floats(BATCH, keys, WIDTH),
        "bias": floats(3 * WIDTH) if extra == "bias" else None,
        "padding": None,
        "added": None,
    }
    outputs: dict[str, Any] = {"y": np.float32}
    if extra == "padding":
        inputs["padding"] = (np.arange(keys) < np.array([[keys], [2]])).astype(np.int32)
    if extra == "lengths":
        inputs["padding"] = np.array([keys, 3], np.int32)
    if extra == "added":
        inputs["added"] = floats(1, HEADS, rows, keys)
    if extra == "past":
        inputs |= {"past_key": floats(BATCH, HEADS, 4, HEAD), "past_value": floats(BATCH, HEADS, 4, HEAD)}
        outputs |= {"present_key": np.float32, "present_value": np.float32}
    agree("MultiHeadAttention", inputs, outputs, dtype, num_heads=HEADS, unidirectional=causal)


@DTYPES
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("extra", ["none", "lengths", "ends", "padding", "rows", "past"])
def test_packed_attention(extra: str, causal: int, dtype: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "x": floats(BATCH, LENGTH, WIDTH),
        "w": floats(WIDTH, 3 * WIDTH) / 4,
        "b": floats(3 * WIDTH),
        "mask": None,
        "past": None,
    }
    outputs: dict[str, Any] = {"y": np.float32}
    columns = LENGTH
    if extra == "past":
        inputs["past"] = floats(2, BATCH, HEADS, 3, HEAD)
        outputs["present"] = np.float32
    if extra == "padding":
        inputs["mask"] = (np.arange(columns) < np.array([[columns], [3]])).astype(np.int32)
    if extra == "lengths":
        inputs["mask"] = np.array([columns, 2], np.int32)
    if extra == "ends":
        inputs["mask"] = np.array([columns, columns, 0, 2], np.int32)  # where they end, and then where they begin
    if extra == "rows":
        inputs["mask"] = np.tril(np.ones((BATCH, LENGTH, columns), np.int32))
    agree("Attention", inputs, outputs, dtype, num_heads=HEADS, unidirectional=causal)


@DTYPES
@pytest.mark.parametrize("rotary", [0, 1])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("past", [0, 4])
def test_group_query_attention(past: int, packed: bool, rotary: int, dtype: Any) -> None:
    kept, head, rows = 2, 16, 1 if past else LENGTH
    heads = HEADS
    angles = np.arange(16)[:, None] / 100 ** (np.arange(head // 2) / head)
    if packed:
        qkv = [floats(BATCH, rows, (heads + 2 * kept) * head), None, None]
    else:
        qkv = [floats(BATCH, rows, n * head) for n in (heads, kept, kept)]
    inputs: dict[str, np.ndarray | None] = {
        "query": qkv[0],
        "key": qkv[1],
        "value": qkv[2],
        "past_key": floats(BATCH, kept, past, head) if past else None,
        "past_value": floats(BATCH, kept, past, head) if past else None,
        "lengths": np.full(BATCH, past + rows - 1, np.int32),
        "total": np.array(past + rows, np.int32),
    }
    if rotary:
        inputs |= {"cos": np.cos(angles).astype(np.float32), "sin": np.sin(angles).astype(np.float32)}
    outputs = dict.fromkeys(("y", "present_key", "present_value"), np.float32)
    agree("GroupQueryAttention", inputs, outputs, dtype, num_heads=heads, kv_num_heads=kept, do_rotary=rotary)


@DTYPES
@pytest.mark.parametrize("past", [0, 4])
@pytest.mark.parametrize(
    ("attributes", "extra"),
    [
        ({"softcap": 2.0}, ""),
        ({"local_window_size": 2}, ""),
        ({"smooth_softmax": 1}, ""),
        ({"softcap": 2.0, "local_window_size": 2}, "attention_bias"),
        ({}, "head_sink"),
        ({}, "attention_bias"),
        ({"do_rotary": 1}, "position_ids"),
    ],
)
def test_group_query_attention_of_other_forms(attributes: dict[str, Any], extra: str, past: int, dtype: Any) -> None:
    kept, head, rows = 2, 16, 1 if past else LENGTH
    angles = np.arange(16)[:, None] / 100 ** (np.arange(head // 2) / head)
    total = past + rows
    inputs: dict[str, np.ndarray | None] = {
        "query": floats(BATCH, rows, HEADS * head),
        "key": floats(BATCH, rows, kept * head),
        "value": floats(BATCH, rows, kept * head),
        "past_key": floats(BATCH, kept, past, head) if past else None,
        "past_value": floats(BATCH, kept, past, head) if past else None,
        "lengths": np.full(BATCH, total - 1, np.int32),
        "total": np.array(total, np.int32),
        "cos": np.cos(angles).astype(np.float32) if "do_rotary" in attributes else None,
        "sin": np.sin(angles).astype(np.float32) if "do_rotary" in attributes else None,
        "positions": None,
        "bias": floats(BATCH, HEADS, rows, total) if extra == "attention_bias" else None,
    }
    if extra == "position_ids":
        inputs["positions"] = (np.arange(past, total)[None] + np.array([[2], [3]])).astype(np.int64)
    if extra == "head_sink":
        inputs["sinks"] = floats(HEADS)
    outputs = dict.fromkeys(("y", "present_key", "present_value"), np.float32)
    agree("GroupQueryAttention", inputs, outputs, dtype, num_heads=HEADS, kv_num_heads=kept, **attributes)


@pytest.mark.parametrize("packed", [False, True])
def test_group_query_attention_with_norms(packed: bool) -> None:
    """ONNX Runtime's CPU provider has the op without norms, which are computed here."""
    kept, head = 2, 16
    weights_of = {"q_norm": floats(head), "k_norm": floats(head)}

    def normed(x: np.ndarray, weight: np.ndarray) -> np.ndarray:
        heads = x.reshape(BATCH, LENGTH, -1, head)
        return (heads / np.sqrt((heads**2).mean(-1, keepdims=True) + 1e-5) * weight).reshape(x.shape)

    q, k, v = (floats(BATCH, LENGTH, count * head) for count in (HEADS, kept, kept))
    rest = {
        "past_key": None,
        "past_value": None,
        "lengths": np.full(BATCH, LENGTH - 1, np.int32),
        "total": np.array(LENGTH, np.int32),
    }
    outputs = dict.fromkeys(("y", "present_key", "present_value"), np.float32)
    form = {"num_heads": HEADS, "kv_num_heads": kept}
    plain = {"query": normed(q, weights_of["q_norm"]), "key": normed(k, weights_of["k_norm"]), "value": v, **rest}
    feeds = {name: value for name, value in plain.items() if value is not None}
    expected = cpu_session(single("GroupQueryAttention", plain, outputs, **form)).run(None, feeds)
    given = {"query": np.concatenate([q, k, v], 2), "key": None, "value": None} if packed else {"query": q, "key": k}
    inputs = {**given, "value": None if packed else v, **rest}
    inputs |= dict.fromkeys(("cos", "sin", "positions", "bias", "sinks", "k_scale", "v_scale")) | weights_of
    feeds = {name: value for name, value in inputs.items() if value is not None}
    made = single("GroupQueryAttention", inputs, outputs, qk_norm_epsilon=1e-5, **form)
    for ours, theirs in zip(session(made).run(None, feeds), expected, strict=True):
        assert np.allclose(ours, theirs, atol=2e-5)


@pytest.mark.parametrize("packed", ["query", "key"])
def test_operands_of_attention_in_one(packed: str) -> None:
    q, k, v = (floats(BATCH, LENGTH, HEADS, HEAD) for _ in range(3))
    plain = {
        name: x.reshape(BATCH, LENGTH, WIDTH) for name, x in zip(("query", "key", "value"), (q, k, v), strict=True)
    }
    [expected] = cpu_session(single("MultiHeadAttention", plain, {"y": np.float32}, num_heads=HEADS)).run(None, plain)
    if packed == "query":
        given = {"query": np.stack([q, k, v], 3)}
    else:
        given = {"query": plain["query"], "key": np.stack([k, v], 3)}
    [output] = session(single("MultiHeadAttention", given, {"y": np.float32}, num_heads=HEADS)).run(None, given)
    assert np.allclose(output, expected, atol=2e-5)


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("causal", [0, 1])
@pytest.mark.parametrize("extra", ["none", "padding", "past"])
def test_quantized_attention(extra: str, causal: int, columns: bool) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "x": quantized(BATCH, LENGTH, WIDTH),
        "w": weights(WIDTH, 3 * WIDTH),
        "b": floats(3 * WIDTH),
        "x_scale": scale(0.02),
        "w_scale": np.linspace(0.005, 0.01, 3 * WIDTH).astype(np.float32) if columns else scale(0.01),
        "mask": None,
        "x_zero": np.array(120, np.uint8),
        "w_zero": np.full(3 * WIDTH, 2, np.int8) if columns else np.array(2, np.int8),
    }
    outputs: dict[str, Any] = {"y": np.float32}
    if extra == "padding":
        inputs["mask"] = (np.arange(LENGTH) < np.array([[LENGTH], [3]])).astype(np.int32)
    if extra == "past":
        inputs["past"] = floats(2, BATCH, HEADS, 3, HEAD)
        outputs["present"] = np.float32
    agree("QAttention", inputs, outputs, num_heads=HEADS, unidirectional=causal)


@DTYPES
@pytest.mark.parametrize("activation", ["", "silu"])
@pytest.mark.parametrize("past", [False, True])
def test_causal_convolution(past: bool, activation: str, dtype: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "x": floats(BATCH, 6, 7),
        "w": floats(6, 1, 4),
        "b": floats(6),
        "past": floats(BATCH, 6, 3) if past else None,
    }
    attributes = {"activation": activation} if activation else {}
    agree("CausalConvWithState", inputs, {"y": np.float32, "present": np.float32}, dtype, **attributes)


@pytest.mark.parametrize("past", [False, True])
@pytest.mark.parametrize("rule", ["linear", "gated", "delta", "gated_delta"])
def test_linear_attention(rule: str, past: bool) -> None:
    kept, head = 2, 8
    keys = floats(BATCH, LENGTH, kept, head)
    inputs: dict[str, np.ndarray | None] = {
        "query": floats(BATCH, LENGTH, HEADS * head),
        "key": (keys / np.linalg.norm(keys, axis=-1, keepdims=True)).reshape(BATCH, LENGTH, kept * head),
        "value": floats(BATCH, LENGTH, kept * head),
        "past": floats(BATCH, kept, head, head) if past else None,
        "decay": -np.abs(floats(BATCH, LENGTH, kept)) if "gated" in rule else None,
        "beta": np.abs(np.tanh(floats(BATCH, LENGTH, kept))) if "delta" in rule else None,
    }
    outputs = {"y": np.float32, "present": np.float32}
    agree("LinearAttention", inputs, outputs, q_num_heads=HEADS, kv_num_heads=kept, update_rule=rule)


@DTYPES
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("segments", [False, True])
def test_embed_layer_normalization(segments: bool, mask: bool, dtype: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "ids": RNG.integers(0, 11, (BATCH, LENGTH)).astype(np.int32),
        "segments": RNG.integers(0, 2, (BATCH, LENGTH)).astype(np.int32) if segments else None,
        "words": floats(11, WIDTH),
        "positions": floats(9, WIDTH),
        "kinds": floats(2, WIDTH) if segments else None,
        "gamma": floats(WIDTH),
        "beta": floats(WIDTH),
        "mask": (np.arange(LENGTH) < np.array([[LENGTH], [2]])).astype(np.int32) if mask else None,
    }
    agree("EmbedLayerNormalization", inputs, {"y": np.float32, "counts": np.int32, "sum": np.float32}, dtype)


@pytest.mark.parametrize("segments", [False, True])
def test_quantized_embed_layer_normalization(segments: bool) -> None:
    tables = {"words": 11, "positions": 9, "kinds": 2}
    inputs: dict[str, np.ndarray | None] = {
        "ids": RNG.integers(0, 11, (BATCH, LENGTH)).astype(np.int32),
        "segments": RNG.integers(0, 2, (BATCH, LENGTH)).astype(np.int32) if segments else None,
    }
    inputs |= {name: quantized(rows, WIDTH) if segments or name != "kinds" else None for name, rows in tables.items()}
    inputs |= {"gamma": quantized(WIDTH), "beta": quantized(WIDTH)}
    inputs["mask"] = (np.arange(LENGTH) < np.array([[LENGTH], [2]])).astype(np.int32)
    parts = ("words", "positions", "kinds", "gamma", "beta")
    there = {part: segments or part != "kinds" for part in parts}
    inputs |= {f"{part}_scale": scale(0.01 + i / 100) if there[part] else None for i, part in enumerate(parts)}
    inputs |= {f"{part}_zero": np.array(100 + i, np.uint8) if there[part] else None for i, part in enumerate(parts)}
    agree("QEmbedLayerNormalization", inputs, {"y": np.float32, "counts": np.int32})


@pytest.mark.parametrize("columns", [False, True])
@pytest.mark.parametrize("direction", ["forward", "bidirectional"])
def test_quantized_lstm(direction: str, columns: bool) -> None:
    """ONNX Runtime quantizes x and the state in each step, too, and is as near to the answer as that allows."""
    hidden, width, steps = 8, 6, 4
    directions = 2 if direction == "bidirectional" else 1
    shape = (directions, 4 * hidden) if columns else (directions,)
    inputs: dict[str, np.ndarray | None] = {
        "x": floats(steps, BATCH, width),
        "w": weights(directions, width, 4 * hidden),
        "r": weights(directions, hidden, 4 * hidden),
        "b": floats(directions, 8 * hidden),
    }
    inputs |= dict.fromkeys(("lengths", "h", "c", "p"))
    for name in ("w", "r"):
        inputs[f"{name}_scale"] = RNG.uniform(0.002, 0.004, shape).astype(np.float32)
        inputs[f"{name}_zero"] = np.zeros(shape, np.int8)
    outputs = dict.fromkeys(("y", "last", "cell"), np.float32)
    made = single("DynamicQuantizeLSTM", inputs, outputs, hidden_size=hidden, direction=direction)
    for name in ("w", "r", "w_scale", "r_scale", "w_zero", "r_zero"):  # ONNX Runtime wants them constant
        made.graph.initializer.append(onnx.numpy_helper.from_array(inputs[name], name))
        made.graph.input.remove(next(value for value in made.graph.input if value.name == name))
    feeds = {name: inputs[name] for name in ("x", "b")}
    exact = []
    for ours, theirs in zip(session(made).run(None, feeds), cpu_session(made).run(None, feeds), strict=True):
        assert ours.shape == theirs.shape
        exact.append(np.abs(ours - theirs).max())
    assert max(exact) <= 0.03


# -- fused elementwise ops, norms and products


@DTYPES
@pytest.mark.parametrize("op", ["BiasGelu", "FastGelu"])
def test_gelu_of_a_sum(op: str, dtype: Any) -> None:
    agree(op, {"x": floats(3, 7), "bias": floats(7)}, {"y": np.float32}, dtype)


@DTYPES
def test_gelus(dtype: Any) -> None:
    agree("FastGelu", {"x": 3 * floats(3, 7)}, {"y": np.float32}, dtype)
    agree("Gelu", {"x": 3 * floats(3, 7)}, {"y": np.float32}, dtype)
    agree("QuickGelu", {"x": 3 * floats(3, 7)}, {"y": np.float32}, dtype, alpha=1.7)


@DTYPES
@pytest.mark.parametrize("op", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
@pytest.mark.parametrize("bias", [False, True])
def test_norm_of_a_sum(op: str, bias: bool, dtype: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "x": floats(BATCH, LENGTH, WIDTH),
        "skip": floats(BATCH, LENGTH, WIDTH),
        "gamma": floats(WIDTH),
    }
    if op == "SkipLayerNormalization":
        inputs["beta"] = floats(WIDTH)
    inputs["bias"] = floats(WIDTH) if bias else None
    agree(op, inputs, {"y": np.float32}, dtype, epsilon=1e-5)


@DTYPES
@pytest.mark.parametrize("transposed", [(0, 0), (1, 0), (0, 1), (1, 1)])
def test_fused_matmul(transposed: tuple[int, int], dtype: Any) -> None:
    a, b = floats(2, 4, 5), floats(2, 5, 3)
    inputs: dict[str, np.ndarray | None] = {
        "a": a.transpose(0, 2, 1) if transposed[0] else a,
        "b": b.transpose(0, 2, 1) if transposed[1] else b,
    }
    agree("FusedMatMul", inputs, {"y": np.float32}, dtype, transA=transposed[0], transB=transposed[1], alpha=0.5)


@DTYPES
@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", "Tanh"])
def test_fused_gemm(activation: str, dtype: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {"a": floats(4, 5), "b": floats(3, 5), "c": floats(3)}
    agree("FusedGemm", inputs, {"y": np.float32}, dtype, activation=activation, transB=1, alpha=0.5)


@DTYPES
def test_ops_of_older_names(dtype: Any) -> None:
    agree("TransposeMatMul", {"a": floats(2, 4, 5), "b": floats(2, 3, 5)}, {"y": np.float32}, dtype, transB=1)
    agree("Trilu", {"x": floats(4, 5), "k": np.array(1, np.int64)}, {"y": np.float32}, upper=0)
    places = RNG.integers(0, 4, (3, 2)).astype(np.int64)
    agree("GatherND", {"x": floats(4, 5, 2), "places": places}, {"y": np.float32}, dtype)
    inputs = {"x": floats(1, 2, 5, 4), "grid": floats(1, 3, 3, 2) / 2}
    agree("GridSample", inputs, {"y": np.float32}, mode="bilinear", padding_mode="border", align_corners=1)


@DTYPES
@pytest.mark.parametrize("activation", ["Relu", "Sigmoid", "Tanh"])
@pytest.mark.parametrize("residual", [False, True])
def test_fused_convolution(activation: str, residual: bool, dtype: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "x": floats(2, 3, 6, 6),
        "w": floats(4, 3, 3, 3),
        "b": floats(4),
        "z": floats(2, 4, 6, 6) if residual else None,
    }
    agree("FusedConv", inputs, {"y": np.float32}, dtype, activation=activation, pads=[1, 1, 1, 1])


# -- quantized ops


def quantized(*shape: int, kind: Any = np.uint8) -> np.ndarray:
    limits = np.iinfo(kind)
    return RNG.integers(limits.min, limits.max + 1, shape).astype(kind)


def weights(*shape: int) -> np.ndarray:
    """Of int8, of 7 bits: ONNX Runtime adds two products with numbers of uint8 in 16 bits, where x86 has no VNNI."""
    return RNG.integers(-63, 64, shape).astype(np.int8)


def scale(value: float) -> np.ndarray:
    return np.array(value, np.float32)


KINDS = pytest.mark.parametrize("kind", [np.uint8, np.int8])


@KINDS
@pytest.mark.parametrize("op", ["QLinearAdd", "QLinearMul"])
def test_quantized_sums_and_products(op: str, kind: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "a": quantized(2, 3, 8, kind=kind),
        "a_scale": scale(0.02),
        "a_zero": np.array(7, kind),
        "b": quantized(3, 8, kind=kind),
        "b_scale": scale(0.03),
        "b_zero": np.array(3, kind),
        "y_scale": scale(0.05),
        "y_zero": np.array(9, kind),
    }
    agree(op, inputs, {"y": kind})


@KINDS
@pytest.mark.parametrize(
    ("op", "attributes"),
    [("QLinearSigmoid", {}), ("QLinearLeakyRelu", {"alpha": 0.1}), ("QLinearSoftmax", {"axis": -1, "opset": 13})],
)
def test_quantized_functions(op: str, attributes: dict[str, Any], kind: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "x": quantized(4, 8, kind=kind),
        "x_scale": scale(0.05),
        "x_zero": np.array(11, kind),
        "y_scale": scale(1 / 256),
        "y_zero": np.array(0 if kind == np.uint8 else -128, kind),
    }
    agree(op, inputs, {"y": kind}, **attributes)


@KINDS
@pytest.mark.parametrize("last", [0, 1])
def test_quantized_global_average_pool(last: int, kind: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "x": quantized(2, 4, 5, 3, kind=kind),
        "x_scale": scale(0.05),
        "x_zero": np.array(11, kind),
        "y_scale": scale(0.04),
        "y_zero": np.array(5, kind),
    }
    agree("QLinearGlobalAveragePool", inputs, {"y": kind}, channels_last=last)


@KINDS
@pytest.mark.parametrize("last", [0, 1])
@pytest.mark.parametrize("counts", [0, 1])
def test_quantized_average_pool(counts: int, last: int, kind: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "x": quantized(2, 4, 7, 6, kind=kind),
        "x_scale": scale(0.05),
        "x_zero": np.array(11, kind),
        "y_scale": scale(0.04),
        "y_zero": np.array(5, kind),
    }
    attributes = {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 1, 1]}
    agree("QLinearAveragePool", inputs, {"y": kind}, channels_last=last, count_include_pad=counts, **attributes)


@KINDS
def test_pool_of_bytes_with_channels_last(kind: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {"x": quantized(2, 7, 6, 4, kind=kind)}
    agree("NhwcMaxPool", inputs, {"y": kind}, kernel_shape=[3, 2], strides=[2, 1], pads=[1, 0, 1, 1])
    agree("NhwcMaxPool", inputs, {"y": kind}, kernel_shape=[2, 2], dilations=[3, 2])


@KINDS
def test_quantized_choice(kind: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "condition": RNG.integers(0, 2, (3, 8)).astype(bool),
        "x": quantized(2, 3, 8, kind=kind),
        "x_scale": scale(0.02),
        "x_zero": np.array(7, kind),
        "y": quantized(8, kind=kind),
        "y_scale": scale(0.03),
        "y_zero": np.array(3, kind),
        "z_scale": scale(0.025),
        "z_zero": np.array(9, kind),
    }
    agree("QLinearWhere", inputs, {"z": kind})


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize(("bits", "width"), [(4, 64), (4, 48), (8, 64)])
def test_rows_of_a_table_in_few_bits(bits: int, width: int, zeros: bool) -> None:
    rows, block = 9, 32
    blocks = -(-width // block)
    inputs: dict[str, np.ndarray | None] = {
        "data": quantized(rows, width * bits // 8),
        "indices": RNG.integers(-rows, rows, (2, 3)).astype(np.int64),
        "scales": RNG.uniform(0.01, 0.1, (rows, blocks)).astype(np.float32),
        "zeros": quantized(rows, -(-blocks * bits // 8)) if zeros else None,
    }
    agree("GatherBlockQuantized", inputs, {"y": np.float32}, bits=bits, block_size=block, quantize_axis=1)


@KINDS
def test_quantized_concat(kind: Any) -> None:
    inputs: dict[str, np.ndarray | None] = {"y_scale": scale(0.05), "y_zero": np.array(5, kind)}
    for number, width in enumerate((3, 1, 4)):
        inputs |= {
            f"x{number}": quantized(2, width, 3, kind=kind),
            f"s{number}": scale(0.02 * (number + 1)),
            f"z{number}": np.array(number, kind),
        }
    agree("QLinearConcat", inputs, {"y": kind}, axis=1)


@pytest.mark.parametrize("floating", [False, True])
@pytest.mark.parametrize("transposed", [0, 1])
def test_quantized_gemm(transposed: int, floating: bool) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "a": quantized(4, 6),
        "a_scale": scale(0.02),
        "a_zero": np.array(120, np.uint8),
        "b": weights(*((3, 6) if transposed else (6, 3))),
        "b_scale": scale(0.03),
        "b_zero": np.array(0, np.int8),
        "c": RNG.integers(-500, 500, 3).astype(np.int32),
    }
    if not floating:
        inputs |= {"y_scale": scale(0.1), "y_zero": np.array(100, np.uint8)}
    agree("QGemm", inputs, {"y": np.float32 if floating else np.uint8}, transB=transposed)


@pytest.mark.parametrize("columns", [False, True])
def test_products_of_integers_to_floats(columns: bool) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "a": quantized(2, 4, 6),
        "b": weights(6, 3),
        "a_scale": scale(0.02),
        "b_scale": np.array([0.03, 0.01, 0.02], np.float32) if columns else scale(0.03),
        "a_zero": np.array(120, np.uint8),
        "b_zero": np.array([1, 2, 3], np.int8) if columns else np.array(2, np.int8),
        "bias": floats(3),
    }
    agree("MatMulIntegerToFloat", inputs, {"y": np.float32})


def test_a_product_that_is_quantized_by_its_range() -> None:
    inputs: dict[str, np.ndarray | None] = {
        "a": floats(2, 4, 6),
        "b": weights(6, 3),
        "b_scale": scale(0.03),
        "b_zero": np.array(2, np.int8),
        "bias": floats(3),
    }
    agree("DynamicQuantizeMatMul", inputs, {"y": np.float32})


# -- what is refused


@pytest.mark.parametrize(("attributes", "reason"), [({"qk_output": 1}, "the scores as an output")])
def test_what_a_kernel_does_not_do_goes_to_the_cpu(attributes: dict[str, Any], reason: str) -> None:
    inputs: dict[str, np.ndarray | None] = {
        "query": floats(1, 3, 32),
        "key": floats(1, 3, 16),
        "value": floats(1, 3, 16),
        "past_key": None,
        "past_value": None,
        "lengths": np.full(1, 2, np.int32),
        "total": np.array(3, np.int32),
    }
    outputs = dict.fromkeys(("y", "present_key", "present_value"), np.float32)
    outputs["scores"] = np.float32
    made = single("GroupQueryAttention", inputs, outputs, num_heads=4, kv_num_heads=2, **attributes)
    feeds = {name: value for name, value in inputs.items() if value is not None}
    key = ("com.microsoft.GroupQueryAttention", "float32", reason)
    before = fallbacks().get(key, 0)
    output = session(made, cpu=True).run(None, feeds)[0]
    assert np.array_equal(output, cpu_session(made).run(None, feeds)[0])
    assert fallbacks()[key] == before + 1
