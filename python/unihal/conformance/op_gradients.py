"""Gradients of op kinds against finite differences of the forward references."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Callable

import numpy as np

from .case import Array, Case
from .gradient import Gradient, gradient_cases
from .reference import attention as att
from .reference import convolution as conv
from .reference import loss, normalization, pooling, recurrence, regions, resampling, sampling
from .reference.enums import PoolMode, ResizeMode, RnnMode
from .reference.softmax import softmax


def _apart(*shapes: tuple[int, ...]) -> Callable[[np.random.Generator], Sequence[Array]]:
    """Elements so far from each other that no maximum changes hands within a step."""

    def draw(generator: np.random.Generator) -> list[Array]:
        return [
            0.1 * generator.permutation(int(np.prod(shape))).reshape(shape) - 0.05 * np.prod(shape) for shape in shapes
        ]

    return draw


_CONVOLUTIONS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ("plain", (2, 2, 4, 5), (3, 2, 2, 3), {}),
    (
        "all",
        (2, 4, 5, 4),
        (4, 2, 2, 2),
        {"stride": (2, 1), "dilation": (1, 2), "pad_before": (1, 0), "pad_after": (0, 2), "groups": 2},
    ),
    ("depthwise", (1, 3, 4, 4), (3, 1, 2, 2), {"groups": 3, "stride": (1, 2)}),
    ("one-axis", (2, 2, 7), (2, 2, 3), {"stride": (2,), "pad_before": (2,), "pad_after": (1,)}),
    ("three-axes", (1, 2, 3, 3, 3), (2, 1, 2, 2, 2), {"groups": 2, "pad_before": (1, 0, 1)}),
)


def _convolution_gradients() -> Iterator[Gradient]:
    for name, x, w, attributes in _CONVOLUTIONS:

        def forward(x: Array, w: Array, bias: Array, attributes: dict[str, Any] = attributes) -> Array:
            return conv.convolution(x, w, bias, **attributes)

        shapes = (x, w, (w[0],))
        yield Gradient(
            "convolution_backward_data",
            name,
            forward,
            shapes,
            lambda operands, y, dy: [dy, operands[1]],
            (0,),
            attributes,
        )
        yield Gradient(
            "convolution_backward_filter",
            name,
            forward,
            shapes,
            lambda operands, y, dy: [operands[0], dy],
            (1, 2),
            attributes,
        )


_POOLS: tuple[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
    ("padding", (2, 2, 5, 4), (3, 2), {"window": (3, 2), "stride": (2, 2), "pad_before": (1, 0), "pad_after": (1, 1)}),
    ("overlapping", (1, 2, 6), (4,), {"window": (3,), "stride": (1,)}),
    ("ceil", (1, 2, 6, 5), (3, 3), {"window": (3, 3), "stride": (2, 2), "pad_after": (0, 1)}),
    ("adaptive", (1, 2, 5, 7), (3, 4), {"adaptive": 1}),
    ("three-axes", (1, 1, 3, 4, 3), (2, 2, 2), {"window": (2, 2, 2), "stride": (1, 2, 1)}),
)


def _pool_gradients() -> Iterator[Gradient]:
    for name, x, outputs, window in _POOLS:
        for mode in PoolMode:
            attributes = {**window, "mode": int(mode)}
            maximum = mode == PoolMode.MAXIMUM

            def forward(x: Array, outputs: Any = outputs, attributes: dict[str, Any] = attributes) -> Array:
                return pooling.pool(x, outputs, **attributes)[0]

            def inputs(operands: Sequence[Array], y: Array, dy: Array, maximum: bool = maximum) -> list[Any]:
                return [dy, operands[0], y] if maximum else [dy]

            yield Gradient(
                "pool_backward", f"{mode.name.lower()}/{name}", forward, (x,), inputs, (0,), attributes, _apart(x)
            )


def _resize_gradients() -> Iterator[Gradient]:
    sizes = (("larger", (1, 2, 3, 4), (5, 8)), ("smaller", (1, 2, 6, 5), (4, 2)), ("one-axis", (2, 1, 5), (9,)))
    for name, x, outputs in sizes:
        for mode in (ResizeMode.LINEAR, ResizeMode.CUBIC):
            for grid, flags in {"corners": (1, 0), "half-pixels": (0, 1), "edges": (0, 0)}.items():
                attributes = {"mode": int(mode), "align_corners": flags[0], "half_pixel_centers": flags[1]}

                def forward(x: Array, outputs: Any = outputs, attributes: dict[str, Any] = attributes) -> Array:
                    return resampling.resize(x, outputs, **attributes)

                title = f"{mode.name.lower()}/{grid}/{name}"
                yield Gradient("resize_backward", title, forward, (x,), lambda operands, y, dy: [dy], (0,), attributes)


def _grid_sample_gradients() -> Iterator[Gradient]:
    """Of places that keep so far from pixels' edges that no finite difference crosses one."""
    two, three = ((1, 2, 4, 5), (3, 2)), ((1, 2, 3, 2, 4), (2, 2, 3))
    for name, mode, (x, outputs) in (("two-axes", 1, two), ("three-axes", 1, three), ("cubic", 2, two)):
        for padding in (0, 1, 2):
            for corners in (0, 1):
                attributes = {"mode": mode, "padding": padding, "align_corners": corners}

                def forward(x: Array, grid: Array, attributes: dict[str, Any] = attributes) -> Array:
                    return sampling.grid_sample(x, grid, **attributes)

                def draw(generator: np.random.Generator, x: Any = x, outputs: Any = outputs) -> Sequence[Array]:
                    places = (x[0], *outputs, len(outputs))
                    return [generator.normal(0, 1, x), generator.integers(-25, 26, places) / 20 + 0.0137]

                title = f"{['zeros', 'border', 'reflection'][padding]}/{('edges', 'corners')[corners]}/{name}"
                shapes = (x, (x[0], *outputs, len(outputs)))
                for op, inputs, of in (
                    ("grid_sample_backward_data", lambda operands, y, dy: [dy, operands[1]], 0),
                    ("grid_sample_backward_grid", lambda operands, y, dy: [dy, *operands], 1),
                ):
                    yield Gradient(op, title, forward, shapes, inputs, (of,), attributes, draw)


def _rnn_gradients() -> Iterator[Gradient]:
    """Of x, of the product (by what is added to it), of the states before."""
    directions, steps, batch, hidden = 2, 3, 2, 3
    lengths = np.array([3, 2])
    for mode in RnnMode:
        parts = recurrence.GATES[mode] * hidden
        gates, states = (directions, steps, batch, parts), (directions, batch, hidden)
        lstm, gru = mode == RnnMode.LSTM, mode == RnnMode.GRU
        for name, given in (("whole", None), ("lengths", lengths)):
            attributes = {"mode": int(mode), "reverse": 2}

            def call(
                operands: Sequence[Array], lengths: Array | None = given, attributes: dict[str, int] = attributes
            ) -> Any:
                x, added, r, h0, c0 = operands
                cells = c0 if attributes["mode"] == RnnMode.LSTM else None
                return recurrence.rnn(x, r, h0, cells, None, lengths, added=added, **attributes)

            def forward(*operands: Array, call: Any = call) -> Array:
                return np.asarray(call(operands)[0])

            def inputs(
                operands: Sequence[Array], y: Array, dy: Array, call: Any = call, lengths: Any = given, mode: int = mode
            ) -> list[Any]:
                initial = {RnnMode.LSTM: operands[4], RnnMode.GRU: operands[3]}.get(RnnMode(mode))
                return [dy, operands[2], y, call(operands)[2], initial, lengths]

            shapes = (gates, gates, (directions, parts, hidden), states, states)
            outputs = (0, 1 if gru else None, 3, 4 if lstm else None)
            yield Gradient("rnn_backward", f"{mode.name.lower()}/{name}", forward, shapes, inputs, outputs, attributes)


def _roi_align_gradients() -> Iterator[Gradient]:
    boxes, images = (
        np.array([[0.25, 0.5, 3.5, 2.75], [-1.5, 1.0, 2.0, 6.0], [1.0, 1.0, 3.0, 2.0]]),
        np.array([1, 0, 1], np.int32),
    )
    for samples, aligned in ((0, 0), (2, 1)):
        attributes = {"samples": samples, "aligned": aligned, "scale": 0.75}

        def forward(x: Array, attributes: dict[str, Any] = attributes) -> Array:
            return regions.roi_align(x, boxes, images, (2, 3), **attributes)

        title = f"{samples}-samples/{('plain', 'aligned')[aligned]}"
        inputs: Callable[..., Sequence[Any]] = lambda operands, y, dy: [dy, boxes, images]  # noqa: E731
        yield Gradient("roi_align_backward", title, forward, ((2, 2, 4, 5),), inputs, (0,), attributes)


def _softmax_gradients() -> Iterator[Gradient]:
    for axis in (0, 1, -1):
        for logarithm in (0, 1):
            attributes = {"axis": axis, "logarithm": logarithm}

            def forward(x: Array, attributes: dict[str, int] = attributes) -> Array:
                return softmax(x, **attributes)

            yield Gradient(
                "softmax_backward",
                f"axis{axis}/{'logarithm' if logarithm else 'plain'}",
                forward,
                ((3, 4, 5),),
                lambda operands, y, dy: [y, dy],
                (0,),
                attributes,
            )


def _cross_entropy_gradients() -> Iterator[Gradient]:
    sparse = np.array([[0, 3, 1], [4, 2, 2]]).reshape(2, 1, 3)
    soft = softmax(np.arange(30.0).reshape(2, 5, 3) % 7, axis=1)
    for name, labels, ignore in (("sparse", sparse, {}), ("ignored", sparse, {"ignore_index": 2}), ("soft", soft, {})):
        attributes: dict[str, Any] = {"axis": 1, "has_ignore": int(bool(ignore)), **ignore}

        def forward(x: Array, labels: Array = labels, attributes: dict[str, Any] = attributes) -> Array:
            return loss.cross_entropy(x, labels, **attributes)[0]

        def inputs(operands: Sequence[Array], y: Array, dy: Array, labels: Array = labels) -> list[Array]:
            return [softmax(operands[0], axis=1), labels, dy]

        yield Gradient("cross_entropy_backward", name, forward, ((2, 5, 3),), inputs, (0,), attributes)


def _norm_gradients() -> Iterator[Gradient]:
    problems: tuple[tuple[str, str, tuple[int, ...], tuple[int, ...], dict[str, Any]], ...] = (
        ("batch_norm", "plain", (3, 4, 2, 2), (4,), {}),
        ("batch_norm", "epsilon", (4, 3), (3,), {"epsilon": 0.1}),
        ("layer_norm", "one-axis", (3, 5), (5,), {"axis": -1}),
        ("layer_norm", "two-axes", (3, 4, 5), (4, 5), {"axis": 1, "epsilon": 0.1}),
        ("group_norm", "plain", (2, 6, 3), (6,), {"groups": 2}),
        ("group_norm", "epsilon", (2, 4, 2, 2), (4,), {"groups": 4, "epsilon": 0.1}),
        ("rms_norm", "one-axis", (3, 5), (5,), {"axis": -1}),
        ("rms_norm", "two-axes", (3, 4, 5), (4, 5), {"axis": 1, "epsilon": 0.1}),
    )
    for kind, name, x, scale, attributes in problems:
        function = getattr(normalization, kind)
        parameters = (scale,) if kind == "rms_norm" else (scale, scale)

        def forward(*operands: Array, function: Any = function, attributes: dict[str, Any] = attributes) -> Array:
            y: Array = function(*operands, **attributes)[0]
            return y

        def inputs(
            operands: Sequence[Array],
            y: Array,
            dy: Array,
            function: Any = function,
            attributes: dict[str, Any] = attributes,
        ) -> list[Array]:
            statistics = function(*operands, **attributes)[1:3]
            return [operands[0], dy, operands[1], *statistics]

        numbers = tuple(range(1 + len(parameters)))
        yield Gradient(f"{kind}_backward", name, forward, (x, *parameters), inputs, numbers, attributes)
    yield _inference_gradient()


def _inference_gradient() -> Gradient:
    """Batch norm with statistics that are constants."""
    mean, variance = np.array([0.5, -1, 2]), np.array([0.75, 1.5, 0.25])

    def forward(x: Array, scale: Array, bias: Array) -> Array:
        return normalization.batch_norm(x, scale, bias, mean, variance, inference=1)[0]

    return Gradient(
        "batch_norm_backward",
        "inference",
        forward,
        ((2, 3, 4), (3,), (3,)),
        lambda operands, y, dy: [operands[0], dy, operands[1], mean, variance],
        (0, 1, 2),
        {"inference": 1},
    )


def _attention_gradients() -> Iterator[Gradient]:
    mask = np.where(np.arange(2 * 3 * 5).reshape(2, 1, 3, 5) % 4 == 1, -np.inf, 0.25)
    shapes = ((2, 2, 3, 4), (2, 2, 5, 4), (2, 2, 5, 3))
    options: tuple[tuple[str, Any, dict[str, Any]], ...] = (
        ("plain", None, {}),
        ("causal", None, {"causal": 1}),
        ("mask", mask, {}),
        ("mask-causal-scale", mask, {"causal": 1, "scale": 0.75}),
    )
    for name, given, attributes in options:

        def forward(q: Array, k: Array, v: Array, given: Any = given, attributes: dict[str, Any] = attributes) -> Array:
            return att.attention(q, k, v, given, **attributes)[0]

        def inputs(
            operands: Sequence[Array], y: Array, dy: Array, given: Any = given, attributes: dict[str, Any] = attributes
        ) -> list[Any]:
            _, logsumexp = att.attention(operands[0], operands[1], operands[2], given, **attributes)
            return [*operands, given, y, logsumexp, dy]

        yield Gradient("attention_backward", name, forward, shapes, inputs, (0, 1, 2), attributes)


def gradients() -> Iterator[Gradient]:
    """All gradients of op kinds."""
    yield from _convolution_gradients()
    yield from _pool_gradients()
    yield from _resize_gradients()
    yield from _grid_sample_gradients()
    yield from _rnn_gradients()
    yield from _roi_align_gradients()
    yield from _softmax_gradients()
    yield from _cross_entropy_gradients()
    yield from _norm_gradients()
    yield from _attention_gradients()


def cases(seed: int) -> Iterator[Case]:
    """All cases; the same for all seeds."""
    for gradient in gradients():
        yield from gradient_cases(gradient)
