"""The references themselves: against definitions written out element by element, and gradients against differences."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from unihal.conformance import map_gradients, op_gradients
from unihal.conformance.case import Array, Case
from unihal.conformance.gradient import Gradient, gradient_cases
from unihal.conformance.map_functions import FUNCTIONS
from unihal.conformance.reference import attention as attention_
from unihal.conformance.reference import convolution as convolution_
from unihal.conformance.reference import ctc, loss, normalization, recurrence, regions, resampling, sampling, softmax
from unihal.conformance.reference.enums import AXIS_DESCENDING, PoolMode, Reduction, ResizeMode
from unihal.conformance.reference.finite_difference import TOLERANCE
from unihal.conformance.reference.order import sort, top_k
from unihal.conformance.reference.pooling import pool, pool_backward
from unihal.conformance.reference.reduction import reduce, scan

# -- definitions, element by element


@pytest.mark.parametrize("groups", [1, 2])
def test_convolution_is_the_sum_of_its_definition(groups: int) -> None:
    generator = np.random.default_rng(1)
    x, w, bias = generator.normal(size=(2, 4, 5, 6)), generator.normal(size=(6, 4 // groups, 2, 3)), np.arange(6.0)
    stride, dilation, before, after = (2, 1), (1, 2), (1, 3), (2, 0)
    y = convolution_.convolution(
        x, w, bias, stride=stride, dilation=dilation, pad_before=before, pad_after=after, groups=groups
    )
    assert y.shape == (2, 6, 4, 5)
    for n, o, i, j in itertools.product(*map(range, y.shape)):
        total = bias[o]
        for c, s, t in itertools.product(*map(range, w.shape[1:])):
            row = i * stride[0] + s * dilation[0] - before[0]
            column = j * stride[1] + t * dilation[1] - before[1]
            if 0 <= row < 5 and 0 <= column < 6:
                channel = o // (6 // groups) * (4 // groups) + c
                total += w[o, c, s, t] * x[n, channel, row, column]
        assert y[n, o, i, j] == pytest.approx(total, rel=1e-13)


def test_pooling_counts_padding_or_not() -> None:
    x = np.arange(1.0, 7).reshape(1, 1, 6)
    window = {"window": (3,), "stride": (2,), "pad_before": (1,), "pad_after": (1,)}
    maximum, indices = pool(x, (3,), mode=PoolMode.MAXIMUM, **window)
    assert maximum.ravel().tolist() == [2, 4, 6] and indices.ravel().tolist() == [1, 3, 5]
    counted, _ = pool(x, (4,), mode=PoolMode.AVERAGE_INCLUDE_PADDING, **window)
    assert counted.ravel().tolist() == [1, 3, 5, 2]  # the last one reaches beyond the padding
    others, _ = pool(x, (4,), mode=PoolMode.AVERAGE_EXCLUDE_PADDING, **window)
    assert others.ravel().tolist() == [1.5, 3, 5, 6]
    adaptive, _ = pool(x, (4,), mode=PoolMode.AVERAGE_EXCLUDE_PADDING, adaptive=1)
    assert adaptive.ravel().tolist() == [1.5, 2.5, 4.5, 5.5]
    ties = pool_backward(np.array([[[5.0, 7.0]]]), np.array([[[1.0, 1, 1]]]), (1, 1, 3), window=(2,), stride=(1,))
    assert ties.ravel().tolist() == [5, 7, 0]


def test_resizing_of_known_rows() -> None:
    def row(outputs: int, **attributes: Any) -> list[float]:
        return list(resampling.resize(np.array([[[0.0, 4.0]]]), (outputs,), **attributes).ravel())

    assert row(4, mode=ResizeMode.LINEAR, half_pixel_centers=1) == [0, 1, 3, 4]
    assert row(4, mode=ResizeMode.LINEAR) == [0, 2, 4, 4]
    assert row(3, mode=ResizeMode.LINEAR, align_corners=1) == [0, 2, 4]
    assert row(4, mode=ResizeMode.NEAREST) == [0, 0, 4, 4]
    assert row(3, mode=ResizeMode.NEAREST, align_corners=1) == [0, 4, 4]
    assert row(5, mode=ResizeMode.NEAREST, half_pixel_centers=1) == [0, 0, 4, 4, 4]
    # Keys' weights with a = -3/4 at a distance of 1/2: -3/32, 19/32, 19/32, -3/32.
    middle = resampling.weights(4, 7, mode=ResizeMode.CUBIC, align_corners=1, half_pixel_centers=0, scale=0)[3]
    assert middle.tolist() == [-3 / 32, 19 / 32, 19 / 32, -3 / 32]
    for mode in ResizeMode:
        for outputs in (1, 3, 11):
            matrix = resampling.weights(5, outputs, mode=mode, align_corners=0, half_pixel_centers=1, scale=0)
            np.testing.assert_allclose(matrix.sum(axis=1), 1, rtol=1e-14)


def test_reductions_of_nothing_and_of_nan() -> None:
    nothing = np.zeros((2, 0))
    neutral = {
        Reduction.SUM: 0,
        Reduction.PRODUCT: 1,
        Reduction.MAXIMUM: -np.inf,
        Reduction.MINIMUM: np.inf,
        Reduction.ALL: 1,
        Reduction.ANY: 0,
        Reduction.LOG_SUM_EXP: -np.inf,
        Reduction.L2_NORM: 0,
        Reduction.MEAN: np.nan,
    }
    for reduction, value in neutral.items():
        np.testing.assert_array_equal(reduce(nothing, (2, 1), reduction=reduction), np.full((2, 1), float(value)))
    lowest = reduce(nothing.astype(np.int64), (2, 1), reduction=Reduction.MAXIMUM, elements=np.dtype(np.int8))
    assert lowest.tolist() == [[-128], [-128]]
    assert np.isnan(reduce(np.array([1, np.nan, 2]), (1,), reduction=Reduction.MINIMUM))
    assert reduce(np.array([-7, 0]), (1,), reduction=Reduction.MEAN) == -3
    assert scan(np.array([1, 2, 3]), exclusive=1, reverse=1).tolist() == [5, 3, 0]


def test_sampling_at_pixels_between_them_and_outside() -> None:
    x = np.arange(6.0).reshape(1, 1, 2, 3)
    centres = np.stack(np.meshgrid([-1.0, 0, 1], [-1.0, 1]), -1)[None]
    assert sampling.grid_sample(x, centres, align_corners=1).tolist() == x.tolist()

    def row(*across: float, **attributes: int) -> list[float]:
        places = np.array([[[(at, -1.0) for at in across]]])
        return list(sampling.grid_sample(x, places, align_corners=1, **attributes).ravel())

    assert row(-0.5, 0.5, 1.5, -2) == [0.5, 1.5, 1, 0]
    assert row(-0.5, 0.5, 1.5, -2, padding=1) == [0.5, 1.5, 2, 0]
    assert row(-0.5, 0.5, 1.5, -2, padding=2) == [0.5, 1.5, 1.5, 1]
    assert row(-0.5, 0.5, 1.25, -1.25, mode=0, padding=1) == [0, 2, 2, 0]
    assert row(-0.5, 0.5, 1.25, 2, mode=0) == [0, 2, 2, 0]


def test_order_is_stable_with_nan_at_its_end() -> None:
    row = np.array([2, np.nan, 1, 2, np.nan, 1])
    assert sort(row)[1].tolist() == [2, 5, 0, 3, 1, 4]
    assert sort(row, flags=AXIS_DESCENDING)[1].tolist() == [1, 4, 0, 3, 2, 5]
    assert top_k(row, 3, flags=AXIS_DESCENDING)[1].tolist() == [1, 4, 0]


def test_a_row_that_sees_nothing_attends_to_nothing() -> None:
    q, k, v = (np.ones((1, 1, length, 2)) for length in (3, 2, 2))
    y, logsumexp = attention_.attention(q, k, v, causal=1)
    assert y[0, 0, :, 0].tolist() == [0, 1, 1] and logsumexp[0, 0, 0] == -np.inf


def test_ctc_is_the_sum_over_all_paths() -> None:
    logits = np.random.default_rng(0).normal(size=(5, 1, 3))
    for labels, blank in (([1, 2], 0), ([1, 1], 0), ([0, 1, 0], 2), ([], 1), ([2, 2, 2], 0), ([0, 0, 0, 0], 1)):
        losses, gradient = ctc.ctc_loss(logits, np.array([labels], np.int64).reshape(1, -1), blank=blank)
        assert losses[0] == pytest.approx(ctc.loss_by_paths(logits[:, 0], labels, blank))
        assert np.all(gradient == 0) == np.isinf(losses[0])


# -- gradients

_FORMULAS: dict[str, Callable[[Case, Sequence[Any]], Any]] = {
    "convolution_backward_data": lambda case, given: convolution_.convolution_backward_data(
        *given, _shape(case), **case.attributes
    ),
    "convolution_backward_filter": lambda case, given: convolution_.convolution_backward_filter(
        *given, _shape(case), **case.attributes
    ),
    "pool_backward": lambda case, given: pool_backward(
        given[0], given[1] if len(given) > 1 else None, _shape(case), **case.attributes
    ),
    "resize_backward": lambda case, given: resampling.resize_backward(given[0], _shape(case)[2:], **case.attributes),
    "grid_sample_backward_data": lambda case, given: sampling.backward_data(
        *given, shape=_shape(case), **case.attributes
    ),
    "grid_sample_backward_grid": lambda case, given: sampling.backward_grid(*given, **case.attributes),
    "roi_align_backward": lambda case, given: regions.roi_align_backward(*given, _shape(case), **case.attributes),
    "softmax_backward": lambda case, given: softmax.softmax_backward(*given, **case.attributes),
    "cross_entropy_backward": lambda case, given: loss.cross_entropy_backward(*given, **case.attributes),
    "batch_norm_backward": lambda case, given: normalization.batch_norm_backward(*given, **case.attributes),
    "layer_norm_backward": lambda case, given: normalization.layer_norm_backward(*given, **case.attributes),
    "group_norm_backward": lambda case, given: normalization.group_norm_backward(*given, **case.attributes),
    "rms_norm_backward": lambda case, given: normalization.rms_norm_backward(*given, axis=case.attributes["axis"]),
    "attention_backward": lambda case, given: attention_.attention_backward(*given, **case.attributes),
    "rnn_backward": lambda case, given: recurrence.rnn_backward(*given, **case.attributes),
    "map": lambda case, given: _map_function(case).reference(*given, *case.attributes["parameters"]),
}


def _shape(case: Case) -> tuple[int, ...]:
    first = case.outputs[0]
    assert first is not None
    return first.shape


def _map_function(case: Case) -> Any:
    return FUNCTIONS[case.variant.split("/")[1]]


_GRADIENTS = [*map_gradients.gradients(), *op_gradients.gradients()]


@pytest.mark.parametrize("gradient", _GRADIENTS, ids=lambda gradient: f"{gradient.op}/{gradient.name}")
def test_formulas_of_gradients_agree_with_finite_differences(gradient: Gradient) -> None:
    case = next(case for case in gradient_cases(gradient) if case.dtype == "float64")
    generator = np.random.default_rng(0)
    given: list[Array | None] = [
        operand.values(generator, operand.shape) if operand is not None and operand.values is not None else None
        for operand in case.inputs
    ]
    results = _FORMULAS[case.op](case, given)
    formulas = results if isinstance(results, tuple) else (results,)
    expected = case.reference(given)
    assert len(expected) == len(formulas) or case.op == "convolution_backward_filter"
    for formula, difference in zip(formulas, expected):
        if formula is None:
            assert difference is None
            continue
        assert difference is not None
        scale = max(1.0, float(np.max(np.abs(difference.values))))
        np.testing.assert_allclose(formula, difference.values, rtol=0, atol=TOLERANCE * scale)


def test_finite_differences_find_a_wrong_sign() -> None:
    gradient = next(gradient for gradient in _GRADIENTS if gradient.name == "sin_backward")
    case = next(iter(gradient_cases(gradient)))
    x, dy = (operand.values(np.random.default_rng(0), operand.shape) for operand in case.inputs)
    (expected,) = case.reference([x, dy])
    assert np.max(np.abs(expected.values + dy * np.cos(x))) > 1e6 * TOLERANCE
