"""Numbers and sizes at which kernels change their way: what they compute there is what PyTorch's CPU computes."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from beside_cpu import DEVICE, FLOATS, check, on_device, special_numbers

_SAME: dict[str, Any] = {"rtol": 0.0, "atol": 0.0, "equal_nan": True}


def _spread(dtype: torch.dtype, count: int, decades: float) -> torch.Tensor:
    return torch.randn(count, dtype=dtype) * 10 ** (decades * (2 * torch.rand(count, dtype=dtype) - 1))


def _check_remainders(x: torch.Tensor, y: torch.Tensor) -> None:
    """Beside NumPy's: PyTorch's CPU gives NaN for large quotients."""
    with np.errstate(invalid="ignore"):
        expected = torch.from_numpy(np.fmod(x.numpy(), y.numpy()))
    found = torch.fmod(x.to(DEVICE), y.to(DEVICE)).cpu()
    torch.testing.assert_close(found, expected, **_SAME)
    known = ~expected.isnan()
    assert bool((found.signbit() == expected.signbit())[known].all())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_remainders_of_any_quotient(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    special = special_numbers(dtype)
    _check_remainders(*(part.flatten() for part in torch.meshgrid(special, special, indexing="ij")))
    for decades in (0.5, 5, 18):  # of which the last have quotients that no number of the dtype tells apart
        y = _spread(dtype, 3001, decades)
        _check_remainders(_spread(dtype, 3001, decades), y)
    # Just below, at and above whole multiples.
    whole = torch.randint(1, 1 << 20, (3001,)).to(dtype) * y
    for x in (whole, torch.nextafter(whole, torch.zeros_like(y)), torch.nextafter(whole, whole * 2)):
        _check_remainders(x, y)
        check(torch.remainder, x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_of_two_beyond_the_dtype(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.cat([special_numbers(dtype), _spread(dtype, 500, 30)])
    for limit in (10, 150, 1100, 2**31 - 1):
        n = torch.randint(-limit, limit, x.shape, dtype=torch.int32)
        scaled = torch.ldexp(x.to(DEVICE), n.to(DEVICE)).cpu()
        near = n.clamp(-2200, 2200)
        exact = [_times_power(value, power) for value, power in zip(x.tolist(), near.tolist())]
        expected = torch.tensor(exact, dtype=torch.float64) if dtype == torch.float64 else _rounded(x, near)
        torch.testing.assert_close(scaled, expected, **_SAME)
    check(lambda a: torch.ldexp(a, torch.tensor([3, -2], device=a.device)), torch.randn(4, 2, dtype=dtype))
    assert torch.ldexp(torch.zeros(0, 3, device=DEVICE), torch.tensor(1, device=DEVICE)).shape == (0, 3)


def _times_power(value: float, power: int) -> float:
    try:
        return math.ldexp(value, power)
    except OverflowError:
        return math.copysign(math.inf, value)


def _rounded(x: torch.Tensor, power: torch.Tensor) -> torch.Tensor:
    """In float64, where the product is exact, and rounded once."""
    return (x.double() * torch.exp2(power.clamp(-400, 400).double())).float()


def _runs() -> Iterator[torch.Tensor]:
    yield torch.zeros(0)
    yield torch.tensor([3.0])
    yield torch.tensor([1, 1, 2, 2, 2, 1, 1], dtype=torch.int32)
    yield torch.tensor([float("nan"), float("nan"), 1, 1, -0.0, 0.0])
    yield torch.randint(-3, 3, (1027,), dtype=torch.int64)
    yield torch.randint(0, 2, (7, 33)).bool()
    yield torch.randint(0, 3, (130,), dtype=torch.uint8)


@pytest.mark.parametrize("number", range(7))
@pytest.mark.parametrize("inverse", [False, True])
@pytest.mark.parametrize("counts", [False, True])
def test_different_elements(number: int, inverse: bool, counts: bool) -> None:
    torch.manual_seed(0)
    x = list(_runs())[number]
    check(lambda a: torch.unique_consecutive(a, return_inverse=inverse, return_counts=counts), x)
    if not x.is_floating_point() or not x.isnan().any():
        check(lambda a: torch.unique(a, return_inverse=inverse, return_counts=counts), x)
    if x.dim() == 2:
        check(lambda a: torch.unique_consecutive(a, return_inverse=inverse, return_counts=counts, dim=1), x)
        check(lambda a: torch.unique(a, return_inverse=inverse, return_counts=counts, dim=0), x)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_counts_of_whole_numbers(dtype: torch.dtype) -> None:
    x = torch.tensor([3, 0, 3, 100, 7], dtype=dtype)
    check(torch.bincount, x)
    check(lambda a: torch.bincount(a, minlength=200), x)
    check(lambda a: torch.bincount(a, a.double() / 2), x)
    if dtype != torch.uint8:
        for least in (-1, torch.iinfo(dtype).min):
            wrong = torch.tensor([3, least, 5], dtype=dtype, device=DEVICE)
            with pytest.raises(RuntimeError, match="non-negative"):
                torch.bincount(wrong)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("width", [1, 3, 8, 67])
@pytest.mark.parametrize("last", [False, True])
def test_bags_of_any_length(mode: str, width: int, last: bool) -> None:
    torch.manual_seed(0)
    lengths = [0, 1, 2, 15, 16, 17, 33, 0, 3]
    offsets = torch.tensor([0, *torch.tensor(lengths).cumsum(0).tolist()])
    offsets = offsets if last else offsets[:-1]
    indices = torch.randint(0, 50, (sum(lengths),))
    weights = torch.randn(sum(lengths), requires_grad=True) if mode == "sum" else None

    def bags(table: torch.Tensor, ids: torch.Tensor, starts: torch.Tensor, factors: Any) -> Any:
        out = F.embedding_bag(
            ids,
            table,
            starts,
            mode=mode,
            per_sample_weights=factors,
            include_last_offset=last,
            scale_grad_by_freq=False,
        )
        inputs = (table,) if factors is None else (table, factors)
        return out, *torch.autograd.grad((out * out).sum(), inputs)

    table = torch.randn(50, width, requires_grad=True)
    check(bags, table, indices, offsets, weights, exact=False, rtol=2e-5, atol=2e-5)
    check(bags, table, indices, offsets, None, exact=False, rtol=2e-5, atol=2e-5)
    if mode == "sum":  # all bags are empty, and no index is in one
        none = torch.zeros(3, dtype=torch.int64, device=DEVICE)
        for result in bags(on_device(table), indices[: 4 if last else 0].to(DEVICE), none, None):
            assert not bool(result.any())


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("width", [5, 127])
def test_bags_of_other_dtypes(mode: str, dtype: torch.dtype, width: int) -> None:
    torch.manual_seed(0)
    table = torch.randn(50, width).to(dtype)
    table[3, :3] = torch.tensor([0.0, torch.finfo(dtype).smallest_normal / 4, torch.finfo(dtype).max / 64])
    indices, offsets = torch.randint(0, 50, (300,), dtype=torch.int32), torch.tensor([0, 3, 4, 290, 300, 300])
    limits = {"rtol": 4 * torch.finfo(dtype).eps, "atol": 4 * torch.finfo(dtype).eps}
    for padding in (None, 7):
        call = partial(F.embedding_bag, mode=mode, padding_idx=padding)
        check(call, indices, table, offsets.int(), exact=False, **limits)
        check(call, indices.long(), table, offsets, exact=False, **limits)
    if mode == "sum":
        factors = torch.randn(300).to(dtype)
        weighted = lambda i, t, o, w: F.embedding_bag(i, t, o, mode="sum", per_sample_weights=w)  # noqa: E731
        check(
            weighted,
            indices.long(),
            table,
            offsets,
            factors,
            exact=False,
            rtol=4 * limits["rtol"],  # up to 286 products: some of their roundings add up
            atol=4 * limits["atol"],
        )


@pytest.mark.parametrize("padding", [None, 2])
def test_rows_that_maxima_of_bags_are_from(padding: int | None) -> None:
    """The first of those that are equal; row 0 in an empty bag."""
    torch.manual_seed(0)
    table = torch.randint(0, 4, (9, 67)).float()
    indices, offsets = torch.randint(0, 9, (90,)), torch.tensor([0, 0, 2, 40, 40, 89, 90])
    call = partial(torch.embedding_bag, scale_grad_by_freq=False, mode=2, sparse=False, include_last_offset=False)
    for dtype in (torch.float32, torch.float64):
        maxima = lambda t, i, o: call(t, i, o, per_sample_weights=None, padding_idx=padding)  # noqa: E731
        check(lambda t, i, o: maxima(t, i, o)[0::3], table.to(dtype), indices, offsets)
        check(lambda t, i, o: maxima(t, i, o)[0], table.to(dtype), indices.int(), offsets.int())


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("axis", [0, 1])
def test_running_logarithms_of_sums(dtype: torch.dtype, axis: int) -> None:
    torch.manual_seed(0)
    infinity = float("inf")
    rows = [
        torch.randn(1100, dtype=dtype),
        torch.linspace(-900, 900, 1100, dtype=dtype),
        torch.linspace(900, -900, 1100, dtype=dtype),
        torch.randn(1100, dtype=dtype).masked_fill(torch.rand(1100) < 0.3, -infinity),
        torch.full((1100,), -infinity, dtype=dtype),
        torch.randn(1100, dtype=dtype).index_fill(0, torch.tensor([700]), infinity),
        torch.randn(1100, dtype=dtype).index_fill(0, torch.tensor([3, 1050]), float("nan")),
        torch.cat([torch.full((5,), -infinity, dtype=dtype), torch.randn(1095, dtype=dtype)]),
    ]
    x = torch.stack(rows, 1 - axis)
    check(lambda a: torch.logcumsumexp(a, axis), x, exact=False, rtol=2e-6, atol=2e-6)
    check(lambda a: torch.cumsum(a, axis), x, exact=False, rtol=1e-5, atol=1e-4)
    for length in (0, 1, 2, 3, 5):
        check(lambda a: torch.logcumsumexp(a, axis), x.narrow(axis, 0, length), exact=False, rtol=2e-6, atol=2e-6)
        check(lambda a: torch.cumsum(a, axis), x.narrow(axis, 0, length), exact=False, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("dtype", [torch.bool, torch.uint8, torch.int16, torch.int32, torch.int64], ids=str)
@pytest.mark.parametrize("given", [None, torch.int32, torch.int64, torch.float32], ids=str)
def test_running_sums_of_whole_numbers(dtype: torch.dtype, given: torch.dtype | None) -> None:
    torch.manual_seed(0)
    x = torch.randint(0, 100, (5, 1031)).to(dtype)
    if dtype in (torch.int32, torch.int64) and given != torch.float32:  # sums wrap
        x[1] = torch.iinfo(torch.int32).max
        x[2] = torch.iinfo(torch.int32).min
    for length in (0, 1, 2, 3, 4, 5, 7, 1031):
        for axis in (0, 1):
            check(lambda a: torch.cumsum(a, axis, dtype=given), x[:, :length])
            check(lambda a: torch.cumsum(a.t(), axis, dtype=given), x[:, :length])


@pytest.mark.parametrize("dtype", [torch.int16, torch.float32, torch.float64, torch.complex128], ids=str)
@pytest.mark.parametrize("index", [torch.int32, torch.int64], ids=str)
def test_elements_by_many_indices(dtype: torch.dtype, index: torch.dtype) -> None:
    """Whose number is no multiple of those that are looked at together, from both ends of the axis."""
    torch.manual_seed(0)
    for rows in (1, 5, 1000):
        x = torch.randn(rows, 9).to(dtype)
        for count in (1, 31, 32, 33, 75):
            places = torch.randint(0, rows, (count,), dtype=index)
            places[0], places[-1] = 0, rows - 1
            check(lambda a, i: torch.index_select(a, 0, i), x, places)
            check(lambda a, i: torch.index_select(a[:, 3], 0, i), x, places)
            wide = places.long()
            check(lambda a, i: torch.gather(a, 0, i.unsqueeze(1).expand(-1, 9)), x, wide)
            check(lambda a, i: torch.gather(a.t().contiguous(), 1, i.expand(9, -1)), x, wide)
            target, updates = torch.zeros(9, rows, dtype=dtype), torch.ones(9, count, dtype=dtype)
            check(lambda a, i, u: torch.scatter_add(a, 1, i.expand(9, -1), u), target, wide, updates)
            check(lambda a, i, u: torch.scatter(a, 1, i.expand(9, -1), u), target, wide, updates)


@pytest.mark.parametrize("padding", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("corners", [False, True])
def test_bicubic_places_inside_and_outside(padding: str, corners: bool) -> None:
    torch.manual_seed(0)
    for channels, height, width in ((1, 1, 5), (3, 4, 7), (19, 9, 6)):
        x = torch.randn(2, channels, height, width, dtype=torch.float64)
        grid = 2.6 * torch.rand(2, 11, 13, 2, dtype=torch.float64) - 1.3
        grid[0, 0, :4] = torch.tensor([float("inf"), float("nan")]).double()
        grid[1, 0, :3] = torch.tensor([[-1.0, -1.0], [1.0, 1.0], [0.0, 0.0]]).double()
        finite = grid.nan_to_num(0, 0, 0)
        for g in (finite, finite.float()):
            check(
                lambda a, b: F.grid_sample(a, b, "bicubic", padding, corners),
                x.to(g.dtype),
                g,
                exact=False,
                rtol=1e-4 if g.dtype == torch.float32 else 1e-10,
                atol=1e-4 if g.dtype == torch.float32 else 1e-10,
            )


@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last], ids=str)
def test_areas_of_few_channels(channels: int, layout: torch.memory_format) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, channels, 13, 17).contiguous(memory_format=layout)
    for size in ([1, 1], [5, 6], [13, 17], [20, 30]):
        check(lambda a: F.interpolate(a, size, mode="area"), x, exact=False, rtol=1e-5, atol=1e-5)
    for window, step, padding in ((3, 1, 1), (2, 5, 0), (3, 2, 1)):
        for counts in (False, True):
            check(
                lambda a: F.avg_pool2d(a, window, step, padding, count_include_pad=counts),
                x,
                exact=False,
                rtol=1e-5,
                atol=1e-5,
            )
    x[0, 0, 3, 3], x[1, 0, 5, 5] = float("nan"), float("inf")
    check(lambda a: F.interpolate(a, [5, 6], mode="area"), x, exact=False, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.complex128], ids=str)
def test_elements_by_index(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for rows, length, picks in ((3, 5, 4), (2, 9, 67), (1, 3, 8)):
        x = (100 * torch.randn(rows, length)).to(dtype)
        at, source = torch.randint(0, length, (rows, picks)), (100 * torch.randn(rows, picks)).to(dtype)
        check(lambda a, i: torch.gather(a, 1, i), x, at)
        check(lambda a, i: torch.gather(a.t(), 0, i.t()), x, at)
        distinct = torch.stack([torch.randperm(length) for _ in range(rows)])
        check(lambda a, i, b: torch.scatter(a, 1, i, b[:, :length]), x, distinct[:, :picks], source)
        check(lambda a, i, b: torch.scatter_add(a, 1, i, b), x, at, source, exact=False, rtol=1e-3, atol=1e-1)


def test_bfloat16_of_special_numbers() -> None:
    bits = torch.tensor([0x7F800001, 0x7FC00000, 0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 0x00008000, 0x00018000, 1, 0x8000])
    for x in (bits.int().view(torch.float32), -bits.int().view(torch.float32), torch.randn(1000) * 1e-38):
        check(lambda a: a.to(torch.bfloat16).view(torch.int16), x[~x.isnan()])
        assert bool(x[x.isnan()].to(DEVICE).to(torch.bfloat16).isnan().all())


@pytest.mark.parametrize("length", [1, 2, 7, 31, 129, 1000, 1001])
def test_ranks_of_rows(length: int) -> None:
    """Values are those of the CPU; of equal ones each may give another place, which must have that value."""
    torch.manual_seed(0)
    floats = torch.randn(5, length)
    floats[1, length // 2], floats[2] = math.nan, floats[2].round()
    floats[3, ::2], floats[4] = math.inf, -0.0
    whole = torch.randint(-20, 20, (5, length), dtype=torch.int32)
    for x in (floats, floats.t().contiguous(), whole, whole.long() << 33, whole.double() * 1e300):
        for dim in (0, 1):
            size = x.size(dim)
            calls = [lambda a: torch.median(a, dim), lambda a: torch.nanmedian(a, dim)]
            calls += [lambda a, k=k: torch.kthvalue(a, k, dim) for k in {1, (size + 3) // 4, size - size // 9, size}]
            for call in calls:
                expected, (values, places) = call(x)[0], call(x.to(DEVICE))
                torch.testing.assert_close(values.cpu(), expected, **_SAME)
                found = x.gather(dim, places.cpu().unsqueeze(dim)).squeeze(dim)
                torch.testing.assert_close(found, expected, **_SAME)


# What a view's rows may be: apart from each other, in another order, a part of longer ones, the same ones again.
_SHORT_ROWS: tuple[Callable[[torch.Tensor], torch.Tensor], ...] = (
    lambda a: a[:, ::2],
    lambda a: a.transpose(0, 1),
    lambda a: a[..., : max(a.size(-1) - 1, 1)],
    lambda a: a[1:2].expand(2, 65, a.size(-1)),
)


def _both(first: Callable[[Any], Any], second: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda a: second(first(a))


@pytest.mark.parametrize("dtype", [*FLOATS, torch.int64, torch.int32, torch.int16, torch.uint8], ids=str)
@pytest.mark.parametrize("length", [1, 3, 4, 7, 8, 9, 15, 16, 31, 32, 33, 100, 256, 257])
def test_places_of_extremes_in_short_rows(dtype: torch.dtype, length: int) -> None:
    torch.manual_seed(length)
    x = torch.randint(0, 50, (3, 65, length)).to(dtype)
    if dtype.is_floating_point:
        x[0, torch.arange(length) % 65, torch.arange(length)] = float("nan")
    for find in (torch.argmax, torch.argmin):
        check(partial(find, dim=-1), x)
        for take in _SHORT_ROWS:
            check(_both(take, partial(find, dim=-1)), x)
