"""Indexing by everything that Python lets into brackets: what is read, written and added there is the CPU's.

PyTorch's own generic tests of indexing are not in its wheel. These draw expressions: numbers, slices, None, an
ellipsis, masks, and tensors and lists of indices that broadcast, in any order, on operands that are views.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import unihal

DEVICE = torch._C._get_privateuse1_backend_name()
DTYPES = (torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64)
EXPRESSIONS = 120

#: Operands: of 0 to 4 axes, with an axis of one and one of no elements, turned and with gaps.
OPERANDS = (
    lambda: torch.arange(60).reshape(3, 4, 5),
    lambda: torch.arange(48).reshape(2, 4, 3, 2).transpose(0, 2),
    lambda: torch.arange(40).reshape(8, 5)[::2, 1:4],
    lambda: torch.arange(7),
    lambda: torch.arange(6).reshape(1, 6, 1),
    lambda: torch.arange(12).reshape(3, 4).flip(0).t(),
    lambda: torch.zeros(3, 0, 2, dtype=torch.int64),
    lambda: torch.tensor(5),
)


def _numbers(draw: random.Random, size: int, shape: tuple[int, ...]) -> torch.Tensor:
    """Indices of an axis, from either end."""
    count = int(torch.tensor(shape).prod())
    return torch.tensor([draw.randrange(-size, size) for _ in range(count)], dtype=torch.int64).reshape(shape)


def expression(draw: random.Random, shape: torch.Size) -> tuple[Any, ...]:
    """What stands in the brackets of an operand of that shape. It takes its axes in order."""
    broadcast = draw.choice([(3,), (2, 1), (1, 3), (2, 3), ()])
    entries: list[Any] = []
    axis, has_ellipsis = 0, False
    while axis < len(shape):
        size, kind = shape[axis], draw.choice(["slice", "number", "tensor", "mask", "list", "none", "ellipsis", "end"])
        if kind == "end":
            break
        if kind == "none":
            entries.append(None)
        elif kind == "ellipsis" and not has_ellipsis:
            has_ellipsis = True
            entries.append(...)
            axis += draw.randrange(0, len(shape) - axis + 1)
        elif kind == "number" and size > 0:
            entries.append(draw.randrange(-size, size))
            axis += 1
        elif kind == "tensor" and size > 0:
            dtype = draw.choice([torch.int64, torch.int32])
            entries.append(_numbers(draw, size, broadcast).to(dtype))
            axis += 1
        elif kind == "list" and size > 0 and len(broadcast) == 1:
            entries.append(_numbers(draw, size, broadcast).tolist())
            axis += 1
        elif kind == "mask" and not any(isinstance(e, (torch.Tensor, list)) for e in entries):
            axes = draw.randrange(1, len(shape) - axis + 1)
            entries.append(_numbers(draw, 2, tuple(shape[axis : axis + axes])) > 0)
            axis += axes
        else:
            start, stop = draw.randrange(0, size + 1), draw.randrange(0, size + 2)
            entries.append(draw.choice([slice(None), slice(start, None), slice(start, stop, 2), slice(-2, None)]))
            axis += 1
    if has_ellipsis:  # what follows it counts from the end, so that sizes fit by chance only
        entries = [e for e in entries if not isinstance(e, (list, int))]
    return tuple(entries)


def _on_device(entries: tuple[Any, ...], draw: random.Random) -> tuple[Any, ...]:
    """With its tensors on the device; indices, but not masks, may stay on the host."""
    return tuple(
        e.to(DEVICE) if isinstance(e, torch.Tensor) and (e.dtype == torch.bool or draw.random() < 0.8) else e
        for e in entries
    )


def _refused(function: Any) -> tuple[Any, type[Exception] | None]:
    try:
        result = function()
        torch.accelerator.synchronize()
        return result, None
    except (IndexError, RuntimeError, TypeError) as error:
        return None, type(error)


def _copy(x: torch.Tensor) -> torch.Tensor:
    """With the same strides, on the device."""
    made = torch.empty_strided(x.size(), x.stride(), dtype=x.dtype, device=DEVICE)
    return made.copy_(x)


def _read(x: torch.Tensor, entries: tuple[Any, ...]) -> torch.Tensor:
    return x[entries]


def _write_a_number(x: torch.Tensor, entries: tuple[Any, ...]) -> torch.Tensor:
    x[entries] = 1
    return x


def _write_a_tensor(x: torch.Tensor, entries: tuple[Any, ...]) -> torch.Tensor:
    """The last of equal places wins on neither: they get equal values."""
    x[entries] = torch.full_like(x[entries][..., :1] if x[entries].dim() else x[entries], 3)
    return x


def _add(x: torch.Tensor, entries: tuple[Any, ...]) -> torch.Tensor:
    indices = tuple(torch.tensor(e, device=x.device) if isinstance(e, list) else e for e in entries)
    if not indices or not all(isinstance(e, torch.Tensor) for e in indices):
        return x
    return x.index_put_(indices, torch.ones((), dtype=x.dtype, device=x.device), accumulate=True)


def _slope(x: torch.Tensor, entries: tuple[Any, ...]) -> torch.Tensor:
    if not x.is_floating_point():
        return x
    leaf = x.detach().requires_grad_()
    result = leaf[entries]
    line = torch.arange(result.numel(), dtype=x.dtype).reshape(result.shape).to(x.device)
    return torch.autograd.grad(result, leaf, line % 7)[0]


@pytest.mark.parametrize("dtype", [*DTYPES, torch.bfloat16, torch.complex128], ids=str)
def test_a_mask_of_all_axes_selects_elements(dtype: torch.dtype) -> None:
    before = unihal.fallbacks()
    generator = torch.Generator().manual_seed(3)
    for make in OPERANDS:
        operand = (make() % 5).to(dtype)
        ours = _copy(operand)
        for share in (0.0, 0.4, 1.0):
            mask = torch.rand(operand.shape, generator=generator) < share
            turned = mask.movedim(0, -1).contiguous().movedim(-1, 0) if mask.dim() else mask
            for given in (mask, turned, mask[:1] if mask.dim() else mask):
                assert torch.equal(ours.masked_select(given.to(DEVICE)).cpu(), operand.masked_select(given))
            assert torch.equal(ours[turned.to(DEVICE)].cpu(), operand[turned])
    assert unihal.fallbacks() == before


@pytest.mark.parametrize(
    "dtype", [pytest.param(d, id=str(d), marks=() if d == torch.float32 else pytest.mark.whole) for d in DTYPES]
)
@pytest.mark.parametrize("number", range(len(OPERANDS)))
def test_brackets_are_those_of_the_cpu(number: int, dtype: torch.dtype) -> None:
    draw, before, computed = random.Random(number), unihal.fallbacks(), 0
    for _ in range(EXPRESSIONS):
        operand = (OPERANDS[number]() % 5).to(dtype)
        entries = expression(draw, operand.shape)
        ours = _on_device(entries, draw)
        for act in (_read, _write_a_number, _write_a_tensor, _add, _slope):
            theirs = torch.empty_strided(operand.size(), operand.stride(), dtype=dtype).copy_(operand)
            expected, refusal = _refused(lambda: act(theirs, entries))
            found, other = _refused(lambda: act(_copy(operand), ours))
            text = f"{act.__name__} of {tuple(operand.shape)} by {entries}"
            assert other is refusal, f"{text}: {other} instead of {refusal}"
            if refusal is not None:
                continue
            assert found.device.type == DEVICE and found.shape == expected.shape, text
            assert torch.equal(found.cpu(), expected), text
            if act is _read:
                assert found._is_view() == expected._is_view(), text
                assert not found._is_view() or found.stride() == expected.stride(), text
            computed += 1
    assert unihal.fallbacks() == before
    assert computed > EXPRESSIONS


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int8, torch.int64, torch.complex64])
def test_an_index_that_is_repeated_without_memory(dtype: torch.dtype) -> None:
    results = []
    for device in ("cpu", DEVICE):
        index = torch.tensor([1], device=device).expand(5)
        values = torch.arange(1, 6, device=device).to(dtype)
        x = torch.zeros(4, device=device, dtype=dtype)
        results.append(
            [
                x.scatter_add(0, index, values).cpu(),
                x.index_put((index,), values, accumulate=True).cpu(),
                x.index_add(0, index, values).cpu(),
                torch.ones(3, 4, device=device, dtype=dtype)
                .scatter_add(1, index.expand(3, 5), values.expand(3, 5))
                .cpu(),
            ]
        )
    for theirs, ours in zip(*results, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=0)


def test_the_gradient_of_an_element_that_is_gathered_often() -> None:
    x = torch.zeros(3, device=DEVICE, requires_grad=True)
    torch.gather(x, 0, torch.tensor([1], device=DEVICE).expand(5)).sum().backward()
    assert x.grad is not None and x.grad.tolist() == [0, 5, 0]


@pytest.mark.parametrize("along", [0, 1, 2])
@pytest.mark.parametrize("scan", [torch.cumsum, torch.cumprod])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int32, torch.int64])
def test_running_sums_along_any_axis(dtype: torch.dtype, scan: Callable[..., torch.Tensor], along: int) -> None:
    x = (torch.randn(5, 7, 300) * 2).to(dtype)
    for view in (lambda x: x, lambda x: x.transpose(0, 2), lambda x: x[:, 1:, 3:]):
        ours = scan(view(x.to(DEVICE)), along)
        torch.testing.assert_close(ours.cpu(), scan(view(x), along), rtol=1e-4, atol=1e-4)


def test_shapes_of_no_rows_and_places_outside() -> None:
    for device in ("cpu", DEVICE):
        empty = torch.zeros(3, 0, device=device)
        assert [t.shape for t in torch.unique(empty, dim=1, return_inverse=True)] == [(3, 0), (0,)]
        for call, error in (
            (lambda: torch.roll(torch.tensor(1.0, device=device), 1, 0), IndexError),
            (lambda: empty.index_fill(0, torch.zeros(1, dtype=torch.int32, device=device), 9), IndexError),
            (lambda: torch.isin(torch.ones(1, device=device).bool(), torch.ones(1, device=device)), RuntimeError),
            (
                lambda: empty.index_put((torch.zeros(1, dtype=torch.int64, device=device),), empty.double()),
                RuntimeError,
            ),
        ):
            with pytest.raises(error):
                call()
