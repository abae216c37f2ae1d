"""Images at another size, pools and transposed convolutions where PyTorch's CPU has rules of its own."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F

DEVICE = torch._C._get_privateuse1_backend_name()

#: Sizes before and after, and the scales that a caller may give with them.
SIZES = {
    "kept": ((11, 9, 8), (11, 9, 8), (1.05, 1.08, 1.1)),
    "first kept": ((11, 9, 8), (11, 13, 12), (1.05, 1.5, 1.5)),
    "last kept": ((9, 8, 11), (13, 12, 11), (1.5, 1.5, 1.05)),
    "doubled": ((7, 8, 9), (14, 16, 18), (2.1, 2.05, 2.05)),
}
RESIZES = {
    **{f"upsample_nearest{n}d": n for n in (1, 2, 3)},
    **{f"_upsample_nearest_exact{n}d": n for n in (1, 2, 3)},
    "upsample_linear1d": 1,
    "upsample_bilinear2d": 2,
    "upsample_trilinear3d": 3,
    "upsample_bicubic2d": 2,
    "_upsample_bilinear2d_aa": 2,
    "_upsample_bicubic2d_aa": 2,
}


def _same(call: Callable[..., Any], *operands: torch.Tensor, gradient: bool = True, **limits: float) -> None:
    """The results, and the gradients of weighted sums, are those of the CPU."""
    found = []
    for device in ("cpu", DEVICE):
        inputs = [x.detach().to(device).requires_grad_(gradient and x.is_floating_point()) for x in operands]
        results = call(*inputs)
        results = results if isinstance(results, tuple) else (results,)
        slopes: tuple[torch.Tensor, ...] = ()
        if gradient:
            weights = torch.arange(results[0].numel(), dtype=results[0].dtype).reshape(results[0].shape) % 7
            slopes = torch.autograd.grad(results[0], inputs, weights.to(device))
        found.append([x.detach().cpu() for x in (*results, *slopes)])
    for theirs, ours in zip(*found, strict=True):
        torch.testing.assert_close(ours, theirs, equal_nan=True, **limits)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("name", RESIZES)
def test_scales_that_leave_a_size_as_it_was(name: str, sizes: str) -> None:
    axes = RESIZES[name]
    before, after, scales = SIZES[sizes]
    few = slice(-axes, None) if sizes == "last kept" else slice(None, axes)
    aligned = () if "nearest" in name else (False,)
    op = getattr(torch.ops.aten, name).default
    x = torch.randn(2, 3, *before[few])
    _same(lambda x: op(x, list(after[few]), *aligned, *scales[few]), x, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("mode", ["linear", "bilinear", "trilinear"])
def test_pixels_that_keep_their_place_take_nothing_from_others(mode: str) -> None:
    shape = {"linear": (1, 1, 6), "bilinear": (1, 2, 3, 4), "trilinear": (1, 1, 2, 3, 4)}[mode]
    x = torch.arange(float(torch.Size(shape).numel())).reshape(shape)
    x.view(-1)[1] = float("nan")  # of infinities the CPU makes NaN, since it adds what is 0 of them
    for aligned in (False, True):
        _same(
            lambda x, aligned=aligned: F.interpolate(x, shape[2:], mode=mode, align_corners=aligned), x, gradient=False
        )


@pytest.mark.parametrize("dilation", [1, 2])
@pytest.mark.parametrize("axes", [2, 3])
def test_places_of_maxima_lie_in_their_windows(axes: int, dilation: int) -> None:
    pool = {2: F.max_pool2d, 3: F.max_pool3d}[axes]
    x = torch.full((1, 2, *(6,) * axes), -float("inf"))
    x[0, 1].view(-1)[7] = 1
    _same(lambda x: pool(x, 2, 2, 1, dilation, return_indices=True), x, rtol=0, atol=0)


def test_adaptive_maxima_of_channels_that_lie_last() -> None:
    x = torch.randn(2, 3, 7, 5).contiguous(memory_format=torch.channels_last)
    _same(lambda x: F.adaptive_max_pool2d(x.contiguous(memory_format=torch.channels_last), (3, 2)), x, rtol=0, atol=0)
    _same(lambda x: F.adaptive_max_pool1d(x.transpose(1, 2), 2), torch.randn(4, 9, 6), rtol=0, atol=0)


REFUSED: dict[str, Callable[[Callable[..., torch.Tensor]], Any]] = {
    "output padding": lambda r: F.conv_transpose2d(r(1, 2, 4, 4), r(2, 3, 3, 3), stride=2, output_padding=2),
    "no output": lambda r: F.conv_transpose1d(r(1, 2, 5), r(2, 2, 2), padding=3),
    "adaptive_avg_pool1d": lambda r: F.adaptive_avg_pool1d(r(2, 3, 0), 2),
    "adaptive_avg_pool2d": lambda r: F.adaptive_avg_pool2d(r(2, 3, 0, 0), 2),
    "adaptive_avg_pool3d": lambda r: F.adaptive_avg_pool3d(r(2, 0, 3, 3, 3), 2),
    "a window of four axes": lambda r: F.max_pool3d(r(1, 2, 6, 6, 6), (2, 2, 2, 2)),  # type: ignore[arg-type]
    "strides of four axes": lambda r: F.max_pool3d(r(1, 2, 6, 6, 6), 2, (2, 2, 2, 2)),  # type: ignore[arg-type]
    "max_pool3d of no channels": lambda r: F.max_pool3d(r(1, 0, 6, 6, 6), 2),
    "ctc_loss of no steps": lambda r: F.ctc_loss(r(0, 2, 4), r(2, 1).long().abs() + 1, (0, 0), (0, 0)),
    "ctc_loss of no batch": lambda r: F.ctc_loss(r(3, 0, 4), r(0, 1).long(), (), ()),
    "attention of integers": lambda r: F.scaled_dot_product_attention(*[r(1, 2, 4, 8).long()] * 3),
    "attention's dropout": lambda r: F.scaled_dot_product_attention(*[r(1, 2, 4, 8)] * 3, dropout_p=-1.0),
    "batch_norm": lambda r: F.batch_norm(r(4, 3, 2).double(), None, None, r(3), r(3), True),
    "group_norm": lambda r: F.group_norm(r(4, 4, 2).double(), 2, r(4)),
    "layer_norm": lambda r: F.layer_norm(r(4, 4), (4,), r(4).double()),
}


@pytest.mark.parametrize("name", REFUSED)
def test_shapes_and_dtypes_that_the_cpu_refuses(name: str) -> None:
    for device in ("cpu", DEVICE):
        with pytest.raises(RuntimeError):
            REFUSED[name](lambda *sizes, device=device: torch.randn(*sizes).to(device))


@pytest.mark.parametrize(("zero_infinity", "reduction"), itertools.product((False, True), ("none", "sum")))
def test_the_gradient_of_an_infinite_alignment(zero_infinity: bool, reduction: str) -> None:
    def loss(x: torch.Tensor) -> torch.Tensor:
        # The first of two has no path: repeats of a label want a blank between them.
        labels = torch.tensor([[1, 1, 1], [1, 2, 3]], device=x.device)
        return F.ctc_loss(x.log_softmax(-1), labels, (3, 3), (3, 3), reduction=reduction, zero_infinity=zero_infinity)

    _same(loss, torch.randn(4, 2, 4), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("scale", [0.0, -0.5, None])
@pytest.mark.parametrize("keys", [2, 1])
def test_attention_of_any_scale_and_batch(keys: int, scale: float | None) -> None:
    query, key = torch.randn(2, 3, 4, 8), torch.randn(keys, 3, 5, 8)
    _same(
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, scale=scale), query, key, key + 1, rtol=1e-4, atol=1e-4
    )
