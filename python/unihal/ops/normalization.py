"""Softmax, cross-entropy and normalization layers with their gradients."""

from __future__ import annotations

from typing import Any

from ..buffer import Buffer
from ..stream import Stream
from .launch import axis_of, launch, output, statistics_dtype


def softmax(
    x: Buffer,
    axis: int = -1,
    *,
    logarithm: bool = False,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """Softmax along an axis, or its logarithm."""
    y = output(x.shape, x.dtype, x, out, stream)
    launch("softmax", [x], [y], {"axis": axis_of(x, axis), "logarithm": int(logarithm)}, stream=stream)
    return y


def softmax_backward(
    y: Buffer,
    dy: Buffer,
    axis: int = -1,
    *,
    logarithm: bool = False,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient of softmax's operand; ``y`` is the forward's output."""
    dx = output(y.shape, y.dtype, y, out, stream)
    launch("softmax_backward", [y, dy], [dx], {"axis": axis_of(y, axis), "logarithm": int(logarithm)}, stream=stream)
    return dx


def cross_entropy(
    logits: Buffer,
    labels: Buffer,
    axis: int = -1,
    *,
    weights: Buffer | None = None,
    ignore_index: int | None = None,
    loss_only: bool = False,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer | None, Buffer | None]:
    """The loss, softmax(logits), and the gradient of the unweighted loss.

    Integer labels have length 1 along ``axis``, floating ones the logits' shape. ``loss_only``: the other two, which
    are as large as the logits, are not computed, and are None.
    """
    axis = axis_of(logits, axis)
    shape = (*logits.shape[:axis], 1, *logits.shape[axis + 1 :])
    loss = output(shape, logits.dtype, logits, stream=stream)
    probabilities, gradient = (
        None if loss_only else output(logits.shape, logits.dtype, logits, stream=stream) for _ in range(2)
    )
    launch(
        "cross_entropy",
        [logits, labels, weights],
        [loss, probabilities, gradient],
        _cross_entropy_attributes(axis, ignore_index),
        stream=stream,
    )
    return loss, probabilities, gradient


def cross_entropy_backward(
    probabilities: Buffer,
    labels: Buffer,
    dloss: Buffer,
    axis: int = -1,
    *,
    ignore_index: int | None = None,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """The gradient of the logits."""
    dlogits = output(probabilities.shape, probabilities.dtype, probabilities, out, stream)
    attributes = _cross_entropy_attributes(axis_of(probabilities, axis), ignore_index)
    launch("cross_entropy_backward", [probabilities, labels, dloss], [dlogits], attributes, stream=stream)
    return dlogits


def _cross_entropy_attributes(axis: int, ignore_index: int | None) -> dict[str, int]:
    return {"axis": axis, "has_ignore": int(ignore_index is not None), "ignore_index": ignore_index or 0}


def batch_norm(
    x: Buffer,
    scale: Buffer | None = None,
    bias: Buffer | None = None,
    running_mean: Buffer | None = None,
    running_variance: Buffer | None = None,
    *,
    inference: bool = False,
    epsilon: float = 1e-5,
    momentum: float = 0.9,
    unbiased_running: bool = False,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer | None, Buffer | None]:
    """The normalized ``x`` (N, C, ...) and, in training, the batch's mean and variance.

    Training updates the running statistics in place: ``momentum * running + (1 - momentum) * batch``.
    """
    y = output(x.shape, x.dtype, x, stream=stream)
    mean, variance = (None, None) if inference else _channel_statistics(x, stream)
    attributes = {
        "epsilon": epsilon,
        "momentum": momentum,
        "inference": int(inference),
        "unbiased_running": int(unbiased_running),
    }
    updated = [] if inference else [mean, variance, running_mean, running_variance]
    launch("batch_norm", [x, scale, bias, running_mean, running_variance], [y, *updated], attributes, stream=stream)
    return y, mean, variance


def batch_norm_backward(
    x: Buffer,
    dy: Buffer,
    scale: Buffer | None,
    mean: Buffer,
    variance: Buffer,
    *,
    inference: bool = False,
    epsilon: float = 1e-5,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer, Buffer]:
    """The gradients of x, scale and bias."""
    dx = output(x.shape, x.dtype, x, stream=stream)
    dscale, dbias = _channel_statistics(x, stream)
    attributes = {"epsilon": epsilon, "inference": int(inference)}
    launch("batch_norm_backward", [x, dy, scale, mean, variance], [dx, dscale, dbias], attributes, stream=stream)
    return dx, dscale, dbias


def layer_norm(
    x: Buffer,
    scale: Buffer | None = None,
    bias: Buffer | None = None,
    axis: int = -1,
    *,
    epsilon: float = 1e-5,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer, Buffer]:
    """``x`` normalized over all axes from ``axis`` on, with its mean and variance."""
    axis = axis_of(x, axis)
    y = output(x.shape, x.dtype, x, stream=stream)
    mean, variance = (_row_statistics(x, axis, stream) for _ in range(2))
    launch("layer_norm", [x, scale, bias], [y, mean, variance], {"axis": axis, "epsilon": epsilon}, stream=stream)
    return y, mean, variance


def layer_norm_backward(
    x: Buffer,
    dy: Buffer,
    scale: Buffer | None,
    mean: Buffer,
    variance: Buffer,
    axis: int = -1,
    *,
    epsilon: float = 1e-5,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer, Buffer]:
    """The gradients of x, scale and bias."""
    axis = axis_of(x, axis)
    dx = output(x.shape, x.dtype, x, stream=stream)
    dscale, dbias = (output(x.shape[axis:], statistics_dtype(x), x, stream=stream) for _ in range(2))
    attributes = {"axis": axis, "epsilon": epsilon}
    launch("layer_norm_backward", [x, dy, scale, mean, variance], [dx, dscale, dbias], attributes, stream=stream)
    return dx, dscale, dbias


def group_norm(
    x: Buffer,
    groups: int,
    scale: Buffer | None = None,
    bias: Buffer | None = None,
    *,
    epsilon: float = 1e-5,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer, Buffer]:
    """``x`` (N, C, ...) normalized within groups of channels, with the mean and variance of each group."""
    y = output(x.shape, x.dtype, x, stream=stream)
    mean, variance = (output((x.shape[0], groups), statistics_dtype(x), x, stream=stream) for _ in range(2))
    launch("group_norm", [x, scale, bias], [y, mean, variance], {"groups": groups, "epsilon": epsilon}, stream=stream)
    return y, mean, variance


def group_norm_backward(
    x: Buffer,
    dy: Buffer,
    groups: int,
    scale: Buffer | None,
    mean: Buffer,
    variance: Buffer,
    *,
    epsilon: float = 1e-5,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer, Buffer]:
    """The gradients of x, scale and bias."""
    dx = output(x.shape, x.dtype, x, stream=stream)
    dscale, dbias = _channel_statistics(x, stream)
    attributes = {"groups": groups, "epsilon": epsilon}
    launch("group_norm_backward", [x, dy, scale, mean, variance], [dx, dscale, dbias], attributes, stream=stream)
    return dx, dscale, dbias


def rms_norm(
    x: Buffer,
    scale: Buffer | None = None,
    axis: int = -1,
    *,
    epsilon: float = 1e-5,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer]:
    """``x`` divided by its root mean square over all axes from ``axis`` on, and the inverse of that."""
    axis = axis_of(x, axis)
    y = output(x.shape, x.dtype, x, stream=stream)
    inverse_rms = _row_statistics(x, axis, stream)
    launch("rms_norm", [x, scale], [y, inverse_rms], {"axis": axis, "epsilon": epsilon}, stream=stream)
    return y, inverse_rms


def rms_norm_backward(
    x: Buffer,
    dy: Buffer,
    scale: Buffer | None,
    inverse_rms: Buffer,
    axis: int = -1,
    *,
    epsilon: float = 1e-5,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer]:
    """The gradients of x and scale."""
    axis = axis_of(x, axis)
    dx = output(x.shape, x.dtype, x, stream=stream)
    dscale = output(x.shape[axis:], statistics_dtype(x), x, stream=stream)
    attributes: dict[str, Any] = {"axis": axis, "epsilon": epsilon}
    launch("rms_norm_backward", [x, dy, scale, inverse_rms], [dx, dscale], attributes, stream=stream)
    return dx, dscale


def _channel_statistics(x: Buffer, stream: Stream | None) -> tuple[Buffer, Buffer]:
    """Two buffers with one entry per channel."""
    shape, dtype = (x.shape[1],), statistics_dtype(x)
    return output(shape, dtype, x, stream=stream), output(shape, dtype, x, stream=stream)


def _row_statistics(x: Buffer, axis: int, stream: Stream | None) -> Buffer:
    """A buffer of x's shape with length 1 from ``axis`` on."""
    return output((*x.shape[:axis], *(1 for _ in x.shape[axis:])), statistics_dtype(x), x, stream=stream)
