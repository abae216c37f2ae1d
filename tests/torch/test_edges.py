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

DEVICE = torch._C._get_privateuse1_backend_name()
FLOATS = (torch.float32, torch.float64)
IS_2_13 = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)
_SAME: dict[str, Any] = {"rtol": 0.0, "atol": 0.0, "equal_nan": True}


def _on_device(value: Any) -> Any:
    if isinstance(value, torch.Tensor):
        return value.detach().to(DEVICE).requires_grad_(value.requires_grad)
    return value


def _check(call: Callable[..., Any], *operands: Any, exact: bool = True, **tolerance: float) -> None:
    expected, found = call(*operands), call(*(_on_device(value) for value in operands))
    for theirs, ours in zip(*((r if isinstance(r, tuple) else (r,)) for r in (expected, found)), strict=True):
        limits = {"rtol": 0.0, "atol": 0.0} if exact else tolerance
        torch.testing.assert_close(ours.cpu(), theirs, equal_nan=True, **limits)


def _special(dtype: torch.dtype) -> torch.Tensor:
    limits = torch.finfo(dtype)
    numbers = [
        0.0,
        1.0,
        2.5,
        1e10,
        0.1,
        float("inf"),
        float("nan"),
        limits.max,
        limits.tiny,
        limits.smallest_normal / 4,
    ]
    return torch.tensor(numbers + [-number for number in numbers], dtype=dtype)


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
    special = _special(dtype)
    _check_remainders(*(part.flatten() for part in torch.meshgrid(special, special, indexing="ij")))
    for decades in (0.5, 5, 18):  # of which the last have quotients that no number of the dtype tells apart
        y = _spread(dtype, 3001, decades)
        _check_remainders(_spread(dtype, 3001, decades), y)
    # Just below, at and above whole multiples.
    whole = torch.randint(1, 1 << 20, (3001,)).to(dtype) * y
    for x in (whole, torch.nextafter(whole, torch.zeros_like(y)), torch.nextafter(whole, whole * 2)):
        _check_remainders(x, y)
        _check(torch.remainder, x, y)


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_powers_of_two_beyond_the_dtype(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    x = torch.cat([_special(dtype), _spread(dtype, 500, 30)])
    for limit in (10, 150, 1100, 2**31 - 1):
        n = torch.randint(-limit, limit, x.shape, dtype=torch.int32)
        scaled = torch.ldexp(x.to(DEVICE), n.to(DEVICE)).cpu()
        near = n.clamp(-2200, 2200)
        exact = [_times_power(value, power) for value, power in zip(x.tolist(), near.tolist())]
        expected = torch.tensor(exact, dtype=torch.float64) if dtype == torch.float64 else _rounded(x, near)
        torch.testing.assert_close(scaled, expected, **_SAME)
    _check(lambda a: torch.ldexp(a, torch.tensor([3, -2], device=a.device)), torch.randn(4, 2, dtype=dtype))
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
    _check(lambda a: torch.unique_consecutive(a, return_inverse=inverse, return_counts=counts), x)
    if not x.is_floating_point() or not x.isnan().any():
        _check(lambda a: torch.unique(a, return_inverse=inverse, return_counts=counts), x)
    if x.dim() == 2:
        _check(lambda a: torch.unique_consecutive(a, return_inverse=inverse, return_counts=counts, dim=1), x)
        _check(lambda a: torch.unique(a, return_inverse=inverse, return_counts=counts, dim=0), x)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64], ids=str)
def test_counts_of_whole_numbers(dtype: torch.dtype) -> None:
    x = torch.tensor([3, 0, 3, 100, 7], dtype=dtype)
    _check(torch.bincount, x)
    _check(lambda a: torch.bincount(a, minlength=200), x)
    _check(lambda a: torch.bincount(a, a.double() / 2), x)
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
    _check(bags, table, indices, offsets, weights, exact=False, rtol=2e-5, atol=2e-5)
    _check(bags, table, indices, offsets, None, exact=False, rtol=2e-5, atol=2e-5)
    if mode == "sum":  # all bags are empty, and no index is in one
        none = torch.zeros(3, dtype=torch.int64, device=DEVICE)
        for result in bags(_on_device(table), indices[: 4 if last else 0].to(DEVICE), none, None):
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
        _check(call, indices, table, offsets.int(), exact=False, **limits)
        _check(call, indices.long(), table, offsets, exact=False, **limits)
    if mode == "sum":
        factors = torch.randn(300).to(dtype)
        weighted = lambda i, t, o, w: F.embedding_bag(i, t, o, mode="sum", per_sample_weights=w)  # noqa: E731
        _check(
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
        _check(lambda t, i, o: maxima(t, i, o)[0::3], table.to(dtype), indices, offsets)
        _check(lambda t, i, o: maxima(t, i, o)[0], table.to(dtype), indices.int(), offsets.int())


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
    _check(lambda a: torch.logcumsumexp(a, axis), x, exact=False, rtol=2e-6, atol=2e-6)
    _check(lambda a: torch.cumsum(a, axis), x, exact=False, rtol=1e-5, atol=1e-4)
    for length in (0, 1, 2, 3, 5):
        _check(lambda a: torch.logcumsumexp(a, axis), x.narrow(axis, 0, length), exact=False, rtol=2e-6, atol=2e-6)
        _check(lambda a: torch.cumsum(a, axis), x.narrow(axis, 0, length), exact=False, rtol=1e-6, atol=1e-6)


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
            _check(lambda a: torch.cumsum(a, axis, dtype=given), x[:, :length])
            _check(lambda a: torch.cumsum(a.t(), axis, dtype=given), x[:, :length])


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
            _check(lambda a, i: torch.index_select(a, 0, i), x, places)
            _check(lambda a, i: torch.index_select(a[:, 3], 0, i), x, places)
            wide = places.long()
            _check(lambda a, i: torch.gather(a, 0, i.unsqueeze(1).expand(-1, 9)), x, wide)
            _check(lambda a, i: torch.gather(a.t().contiguous(), 1, i.expand(9, -1)), x, wide)
            target, updates = torch.zeros(9, rows, dtype=dtype), torch.ones(9, count, dtype=dtype)
            _check(lambda a, i, u: torch.scatter_add(a, 1, i.expand(9, -1), u), target, wide, updates)
            _check(lambda a, i, u: torch.scatter(a, 1, i.expand(9, -1), u), target, wide, updates)


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
            _check(
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
        _check(lambda a: F.interpolate(a, size, mode="area"), x, exact=False, rtol=1e-5, atol=1e-5)
    for window, step, padding in ((3, 1, 1), (2, 5, 0), (3, 2, 1)):
        for counts in (False, True):
            _check(
                lambda a: F.avg_pool2d(a, window, step, padding, count_include_pad=counts),
                x,
                exact=False,
                rtol=1e-5,
                atol=1e-5,
            )
    x[0, 0, 3, 3], x[1, 0, 5, 5] = float("nan"), float("inf")
    _check(lambda a: F.interpolate(a, [5, 6], mode="area"), x, exact=False, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.uint8, torch.complex128], ids=str)
def test_elements_by_index(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    for rows, length, picks in ((3, 5, 4), (2, 9, 67), (1, 3, 8)):
        x = (100 * torch.randn(rows, length)).to(dtype)
        at, source = torch.randint(0, length, (rows, picks)), (100 * torch.randn(rows, picks)).to(dtype)
        _check(lambda a, i: torch.gather(a, 1, i), x, at)
        _check(lambda a, i: torch.gather(a.t(), 0, i.t()), x, at)
        distinct = torch.stack([torch.randperm(length) for _ in range(rows)])
        _check(lambda a, i, b: torch.scatter(a, 1, i, b[:, :length]), x, distinct[:, :picks], source)
        _check(lambda a, i, b: torch.scatter_add(a, 1, i, b), x, at, source, exact=False, rtol=1e-3, atol=1e-1)


def test_bfloat16_of_special_numbers() -> None:
    bits = torch.tensor([0x7F800001, 0x7FC00000, 0x7F7FFFFF, 0x7F7F8000, 0x7F7F7FFF, 0x00008000, 0x00018000, 1, 0x8000])
    for x in (bits.int().view(torch.float32), -bits.int().view(torch.float32), torch.randn(1000) * 1e-38):
        _check(lambda a: a.to(torch.bfloat16).view(torch.int16), x[~x.isnan()])
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


def _symmetric(count: int, side: int, dtype: torch.dtype) -> torch.Tensor:
    x = torch.randn(count, side, side, dtype=dtype)
    x = x + x.mT
    x[0] = 0.0
    x[1] = torch.eye(side)  # one value, many times
    x[2] *= 2.0 ** (100 if dtype == torch.float32 else 900)
    x[3] *= 2.0 ** (-120 if dtype == torch.float32 else -1000)
    x[4] = torch.diag(torch.arange(side, 0, -1, dtype=dtype))
    x[5] = 1.0  # of rank 1
    x[6] *= 2.0 ** (-138 if dtype == torch.float32 else -1062)  # denormal
    return x


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
@pytest.mark.parametrize("side", [1, 2, 3, 8, 9, 16, 17, 24, 25])
@pytest.mark.parametrize("upper", [False, True])
def test_eigenvalues_of_many_small_matrices(dtype: torch.dtype, side: int, upper: bool) -> None:
    torch.manual_seed(side)
    x = _symmetric(19, side, dtype)
    triangle = "U" if upper else "L"
    half = (x.triu() if upper else x.tril()).to(DEVICE)  # the other half is not looked at
    values, vectors = (part.cpu().double() for part in torch.linalg.eigh(half, UPLO=triangle))
    norms = x.double().abs().amax((1, 2)).clamp(min=torch.finfo(dtype).tiny)[:, None] * max(side, 2)
    limit = 16 * torch.finfo(dtype).eps
    exact = torch.linalg.eigvalsh(x.double())
    assert bool(((values - exact).abs() <= limit * norms).all())
    assert bool((values.diff(dim=1) >= 0).all())
    alone = torch.linalg.eigvalsh(half, UPLO=triangle).cpu().double()
    assert bool(((alone - exact).abs() <= limit * norms).all())
    identity = torch.eye(side, dtype=torch.float64)
    assert bool(((vectors.mT @ vectors - identity).abs() <= limit * max(side, 2)).all())
    again = vectors @ (values[:, :, None] * vectors.mT)
    assert bool(((again - x.double()).abs() <= limit * norms[:, :, None]).all())


@pytest.mark.parametrize("number", [math.nan, math.inf])
@pytest.mark.parametrize("side", [2, 3, 4])
def test_small_matrices_without_eigenvalues(number: float, side: int) -> None:
    x = _symmetric(8, side, torch.float32)
    x[7, side - 1, 0] = number
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.eigh(x.to(DEVICE))


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
        _check(partial(find, dim=-1), x)
        for take in _SHORT_ROWS:
            _check(_both(take, partial(find, dim=-1)), x)


@pytest.mark.parametrize("driver", [None, "gels", "gelsd"])
@pytest.mark.parametrize("columns", [1, 3])
@pytest.mark.parametrize(
    ("left", "right"),
    [((1, 5, 3), (4, 5)), ((4, 5, 3), (1, 5)), ((2, 1, 5, 3), (1, 3, 5)), ((1, 3, 5), (4, 3)), ((4, 5, 3), (4, 5))],
)
def test_least_squares_of_broadcast_batches(
    driver: str | None, columns: int, left: tuple[int, ...], right: tuple[int, ...]
) -> None:
    # Few columns go another way than many, and a rank that is surely full another one than one that is not.
    torch.manual_seed(5)
    a, b = torch.randn(left, dtype=torch.float64), torch.randn(*right, columns, dtype=torch.float64)
    _check(lambda x, y: torch.linalg.lstsq(x, y, driver=driver)[0], a, b, exact=False, rtol=1e-11, atol=1e-11)
    _check(lambda x, y: torch.linalg.lstsq(x, y, driver=driver)[2], a, b)


@pytest.mark.parametrize(
    ("low", "high"),
    [
        (-(2**63), 2**63 - 1),
        (2**60, 2**60 + 10),
        (2**53, 2**53 + 3),
        (0, 2**62 + 12345),
        (-(2**63), -(2**63) + 5),
        (-3, 4),
    ],
)
def test_whole_numbers_beyond_those_of_doubles(low: int, high: int) -> None:
    torch.manual_seed(0)
    numbers = torch.randint(low, high, (3, 4000), device=DEVICE).cpu()
    assert low <= int(numbers.min()) and int(numbers.max()) < high
    assert len(numbers.unique()) == min(high - low, numbers.numel())
    assert abs(np.mean([(int(n) - low) / (high - 1 - low) for n in numbers.flatten()]) - 0.5) < 0.02
    turned = torch.empty(40, 30, dtype=torch.int64, device=DEVICE).t().random_(low, high).cpu()
    assert low <= int(turned.min()) and int(turned.max()) < high


def test_whole_numbers_of_no_range() -> None:
    torch.manual_seed(0)
    empty = torch.empty(4000, dtype=torch.int64, device=DEVICE)
    numbers = empty.clone().random_().cpu()
    assert int(numbers.min()) >= 0 and int(numbers.max()) > 2**62
    numbers = empty.clone().random_(-(2**63), None).cpu()
    assert int(numbers.min()) < -(2**62) and int(numbers.max()) > 2**62
    assert int(empty.clone().random_(2**63 - 5, None).cpu().min()) >= 2**63 - 5


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16], ids=str)
def test_waiting_times_are_not_zero(dtype: torch.dtype) -> None:
    torch.manual_seed(0)  # of 2^23 uniform numbers one is 0
    assert all(bool((torch.empty(1 << 22, dtype=dtype, device=DEVICE).exponential_() > 0).all()) for _ in range(8))


@pytest.mark.parametrize("dtype", FLOATS, ids=str)
def test_gamma_numbers_of_small_shapes(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    limits = torch.finfo(dtype)
    small = torch.full((20000,), 0.001, dtype=dtype, device=DEVICE)
    assert float(torch._standard_gamma(small).min()) == limits.smallest_normal
    edges = torch.tensor([0.0, -1.0, math.nan, math.inf], dtype=dtype)
    assert torch.equal(torch._standard_gamma(edges.to(DEVICE)).cpu(), torch._standard_gamma(edges))
    parts = torch._sample_dirichlet(torch.full((20000, 2), 0.02, dtype=dtype, device=DEVICE))
    assert parts.dtype == dtype and float(parts.min()) > 0 and float(parts.max()) < 1
    torch.testing.assert_close(parts.sum(-1), torch.ones_like(parts[:, 0]))
    for shape in (torch.zeros(2, dtype=dtype), torch.tensor([math.inf, 1], dtype=dtype)):
        assert torch.equal(torch._sample_dirichlet(shape.to(DEVICE)).cpu(), torch._sample_dirichlet(shape))


def test_binomial_numbers_outside_the_domain() -> None:
    _check(torch.binomial, torch.tensor([-3.0, 2.0, 2.0, 0.0]), torch.tensor([0.5, -1.0, 2.0, 0.5]))


@pytest.mark.parametrize("mean", [torch.float16, torch.float32, torch.float64, torch.complex64], ids=str)
@pytest.mark.parametrize("deviation", FLOATS, ids=str)
def test_normal_numbers_have_the_mean_s_dtype(mean: torch.dtype, deviation: torch.dtype) -> None:
    parts = torch.zeros(3, 1, dtype=mean), torch.zeros(2, dtype=deviation)
    _check(torch.normal, *parts)


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("other", [math.nan, math.inf, -math.inf, 1e30, 30.0])
def test_exponentials_of_matrices_beside_others(dtype: torch.dtype, other: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 3, 3, 3, dtype=dtype) * torch.tensor([0.01, 1, 7]).reshape(3, 1, 1)
    x[1, 1] = other * torch.eye(3, dtype=dtype)
    single = dtype in (torch.float32, torch.complex64)
    found, expected = torch.linalg.matrix_exp(x.to(DEVICE)).cpu(), torch.linalg.matrix_exp(x)
    for ours, theirs in zip(found.flatten(0, 1), expected.flatten(0, 1)):
        if theirs.abs().isfinite().all():
            scale = float(theirs.abs().max())
            torch.testing.assert_close(ours / scale, theirs / scale, rtol=0, atol=1e-5 if single else 1e-13)
        else:
            assert bool(ours.abs().isnan().any())


@pytest.mark.parametrize("dtype", [*FLOATS, torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("side", [1, 3, 70])
@pytest.mark.parametrize("upper", [False, True])
def test_factors_of_matrices_with_nan(dtype: torch.dtype, side: int, upper: bool) -> None:
    x = torch.eye(side, dtype=dtype).repeat(3, 1, 1)
    x[1, side // 2, side // 2] = math.nan
    x[2, side - 1, 0] = x[2, 0, side - 1] = math.nan
    _check(lambda a: torch.linalg.cholesky_ex(a, upper=upper).info, x)
    _check(lambda a: torch.linalg.cholesky_ex(a, upper=upper).info, x.mT)
    with pytest.raises(torch.linalg.LinAlgError):
        torch.linalg.cholesky(x.to(DEVICE))


@pytest.mark.parametrize("driver", ["gels", "gelsd", "gelss"])
def test_least_squares_of_nothing(driver: str) -> None:
    for a, b in (((0, 3, 2), (0, 3, 1)), ((3, 0), (3, 1)), ((3, 2), (3, 0)), ((2, 3, 0), (2, 3, 2)), ((0, 2), (0, 1))):
        _check(lambda x, y: tuple(torch.linalg.lstsq(x, y, driver=driver)), torch.zeros(a), torch.ones(b))


@pytest.mark.parametrize("rcond", [-1.0, 0.0, 2.0, 1e-3])
@pytest.mark.parametrize("driver", ["gelsd", "gelss"])
@pytest.mark.parametrize("least", [0.5, 9e-8, 5e-8, 1e-9, 0.0])
def test_ranks_of_least_squares(rcond: float, driver: str, least: float) -> None:
    x = torch.tensor([[1, 0], [0, least], [0, 0]])
    _check(lambda a: torch.linalg.lstsq(a, torch.ones(3, 1, device=a.device), rcond, driver=driver).rank, x)


def test_least_squares_of_zeros() -> None:
    for x in (torch.zeros(3, 2), torch.zeros(2, 3), torch.stack([torch.zeros(3, 2), torch.eye(3, 2)])):
        b = torch.ones(*x.shape[:-1], 2)
        _check(lambda a, y: tuple(torch.linalg.lstsq(a, y, driver="gels")), x, b, exact=False, rtol=1e-6, atol=1e-6)


def test_singular_values_of_infinities() -> None:
    x = torch.stack([torch.eye(2), torch.full((2, 2), math.inf), torch.tensor([[math.inf, 0], [0, 1]])])
    _check(torch.linalg.svdvals, x, exact=False, rtol=1e-6, atol=0.0)
    _check(lambda a: torch.linalg.matrix_norm(a, 2), x, exact=False, rtol=1e-6, atol=0.0)
    _check(lambda a: torch.linalg.svd(a[1]), x)


def test_decompositions_into_their_operands() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 3)
    x = x + x.mT

    def like(a: torch.Tensor, *sizes: int) -> torch.Tensor:
        return torch.empty(*sizes, dtype=a.dtype, device=a.device)

    def compose(a: torch.Tensor) -> tuple[torch.Tensor, ...]:
        first, second, third, fourth = (a.clone() for _ in range(4))
        q, r = torch.linalg.qr(first, out=(first, like(a, 3, 3)))
        w, v = torch.linalg.eigh(second, out=(like(a, 3), second))
        u, s, vh = torch.linalg.svd(third, out=(third, like(a, 3), like(a, 3, 3)))
        values = torch.linalg.svdvals(fourth, out=fourth[0])
        return q @ r, v * w @ v.mT, u * s @ vh, values

    _check(compose, x, exact=False, rtol=1e-5, atol=1e-5)
    _check(
        lambda a: torch.linalg.eigvals(a, out=torch.empty(3, dtype=torch.complex128, device=a.device)),
        torch.diag(torch.tensor([1.0, 2.0, 3.0])),
    )


_HALVES = (torch.float16, torch.bfloat16)


@pytest.mark.parametrize("narrow", [*_HALVES, torch.float32, torch.complex64], ids=str)
@pytest.mark.parametrize("name", ["eq", "ne", "lt", "le", "ge", "fmod", "remainder", "add", "sub", "mul", "div"])
def test_numbers_of_a_wider_dtype(narrow: torch.dtype, name: str) -> None:
    """A tensor without axes does not widen the others' dtype: it is rounded to that, beside them on the device too."""
    if narrow.is_complex and name not in ("eq", "ne", "sub"):
        return
    wide = torch.complex128 if narrow.is_complex else torch.float64
    x = torch.tensor([0.1, 0.2, 3.0, 7.0], dtype=narrow)
    for number in (
        torch.tensor(0.1, dtype=wide),
        torch.tensor(0.1, dtype=wide).to(torch.float32 if narrow in _HALVES else wide),
    ):
        _check(getattr(torch, name), x, number)
        _check(getattr(torch, name), number, x)


@pytest.mark.parametrize("name", ["eq", "lt", "floor_divide", "remainder", "gcd", "pow", "logical_and", "maximum"])
def test_whole_numbers_of_a_wider_dtype(name: str) -> None:
    for dtype in (torch.uint8, torch.int8):
        _check(getattr(torch, name), torch.tensor([44, 3], dtype=dtype), torch.tensor(300))
    _check(torch.eq, torch.tensor([2049, 3]), torch.tensor([2048.0, 3.0], dtype=torch.float16))


@pytest.mark.parametrize("dtype", _HALVES, ids=str)
@pytest.mark.parametrize("number", [0.7, 0.1, 3.3, 100.1, -2.7, 1e-9, 65519.0, 1e5])
def test_halves_beside_numbers(dtype: torch.dtype, number: float) -> None:
    """Products and quotients take a number as float32, all else takes it as the dtype has it."""
    torch.manual_seed(0)
    for count in (5, 64):
        x = (3 * torch.randn(count)).to(dtype)
        for call in (
            lambda a: a + number,
            lambda a: a - number,
            lambda a: number - a,
            lambda a: a * number,
            lambda a: number * a,
            lambda a: a / number,
            lambda a: a // number,
            lambda a: torch.div(a, number, rounding_mode="trunc"),
            lambda a: a % number,
            lambda a: torch.fmod(a, number),
            lambda a: a == number,
            lambda a: a < number,
        ):
            _check(call, x)
        for other in (torch.tensor(number), torch.tensor(number, dtype=torch.float64)):
            for name in ("add", "sub", "mul", "div", "fmod"):
                _check(getattr(torch, name), x, other)
        if number <= torch.finfo(dtype).max:
            _check(lambda a: a.abs() ** number, x)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
def test_complex_numbers_that_are_true(dtype: torch.dtype) -> None:
    x = torch.tensor([[1j, 0, 2], [2 + 1j, complex(0, math.nan), 0]], dtype=dtype)
    for call in (
        lambda a: a.bool(),
        lambda a: a.t().to(torch.bool),
        lambda a: a[:, ::2].conj().bool(),
        lambda a: torch.empty(a.shape, dtype=torch.bool, device=a.device).copy_(a),
        lambda a: a.any(1),
        lambda a: a.all(0),
        lambda a: a.logical_not(),
        lambda a: a.nonzero(),
        lambda a: a.sum(1, dtype=torch.bool),
    ):
        _check(call, x)


@pytest.mark.parametrize("dtype", [*_HALVES, *FLOATS], ids=str)
def test_signs(dtype: torch.dtype) -> None:
    x = _special(dtype)
    _check(torch.sign, x)
    _check(lambda a: torch.sign(a).signbit(), x)
    _check(lambda a: a.clone().sign_(), x.repeat(9))


def test_numbers_that_wrap_or_are_infinite() -> None:
    for dtype, number in ((torch.uint8, -1), (torch.float16, math.inf), (torch.bool, 300), (torch.int32, 2.7)):
        x = torch.zeros(2, dtype=dtype)
        _check(lambda a: a.clone().fill_(number), x)
        _check(lambda a: a.masked_fill(a == 0, number), x)
    _check(lambda a: a.clamp(-1, 3), torch.arange(5, dtype=torch.uint8))
    half = torch.zeros(2, dtype=torch.float16)
    _check(
        lambda a: a.index_put((torch.tensor([0], device=a.device),), torch.tensor(1e9, device=a.device).half()), half
    )
    _check(lambda a: torch.where(a == 0, a, 1e9), half)
    _check(lambda a: torch.searchsorted(a, 1e9), half)
    _check(lambda a: torch.bucketize(2.5, a), torch.arange(5))


@pytest.mark.parametrize("left", [torch.int8, torch.uint8], ids=str)
@pytest.mark.parametrize("shape", [(3, 4, 5), (70, 2000, 65), (1, 1, 1), (3, 0, 5), (0, 4, 5)])
def test_products_of_bytes(left: torch.dtype, shape: tuple[int, int, int]) -> None:
    torch.manual_seed(0)
    rows, inner, columns = shape
    limits = torch.iinfo(left)
    a = torch.randint(limits.min, limits.max + 1, (rows, inner), dtype=left)
    b = torch.randint(-128, 128, (columns, inner), dtype=torch.int8)
    if left == torch.uint8 and not IS_2_13:
        pytest.skip("this PyTorch's CPU multiplies int8 only")
    _check(lambda x, y: torch._int_mm(x, y.t()), a, b)
    _check(lambda x, y: torch._int_mm(x, y.t().contiguous()), a, b)
    into = torch.zeros(rows, columns, dtype=torch.int32)
    _check(lambda x, y, z: torch._int_mm(x, y.t(), out=z), a, b, into)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, *FLOATS], ids=str)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, -0.5, 4, 2.5])
def test_powers(dtype: torch.dtype, exponent: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 50, dtype=dtype)
    eps = torch.finfo(dtype).eps
    for number in (exponent, complex(exponent)) if dtype.is_complex else (exponent,):
        _check(lambda a: a**number, x, exact=False, rtol=32 * eps, atol=32 * eps)
        _check(lambda a: a.t() ** number, x, exact=False, rtol=32 * eps, atol=32 * eps)
    if not dtype.is_complex:
        _check(lambda a: a**exponent, _special(dtype), exact=False, rtol=32 * eps, atol=0.0)


@pytest.mark.parametrize("dtype", [*_HALVES, *FLOATS], ids=str)
def test_fake_quantization(dtype: torch.dtype) -> None:
    numbers = [math.nan, math.inf, -math.inf, 0.0, -0.3, 0.5, 1.5, 2.5, -7.0, 100.0, 1e4, -3e4, 0.05, 12.71, 12.75]
    x = torch.tensor([numbers, numbers[::-1]], dtype=dtype)
    tensors, channels = (
        getattr(torch.ops.aten, f"fake_quantize_per_{kind}_affine_cachemask").default for kind in ("tensor", "channel")
    )
    for scale, zero, low, high in ((0.1, 0, -128, 127), (0.1, 5, 0, 255), (1e-3, 0, -8, 7), (0.3333, 255, 0, 255)):
        _check(lambda a: tensors(a, scale, zero, low, high), x)
        scales, zeros = torch.tensor([scale, scale * 1.7]), torch.tensor([zero, zero], dtype=torch.int32)
        _check(lambda a, s, z: channels(a, s, z, 0, low, high), x, scales, zeros)
        _check(lambda a, s, z: channels(a.t(), s, z, 1, low, high), x, scales, zeros)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("length", [0, 1, 2, 7, 30])
@pytest.mark.parametrize("beta", [0.0, 12.0, -3.0])
def test_kaiser_windows(dtype: torch.dtype, length: int, beta: float) -> None:
    eps = torch.finfo(dtype).eps
    for periodic in (True, False):
        expected = torch.kaiser_window(length, periodic, beta, dtype=dtype)
        found = torch.kaiser_window(length, periodic, beta, dtype=dtype, device=DEVICE).cpu()
        torch.testing.assert_close(found, expected, rtol=32 * eps, atol=4 * eps)


def test_tensors_of_two_dtypes_that_are_equal() -> None:
    for first, second in ((torch.float32, torch.float64), (torch.int64, torch.float32), (torch.bool, torch.complex64)):
        for left, right in ((1, 1), (0, 1)):
            a, b = torch.full((3,), left, dtype=first), torch.full((3,), right, dtype=second)
            assert torch.equal(a.to(DEVICE), b.to(DEVICE)) == torch.equal(a, b)
    assert not torch.equal(torch.tensor([0.1], device=DEVICE), torch.tensor([0.1], dtype=torch.float64, device=DEVICE))


def test_interpolation_from_the_nearer_end() -> None:
    inf, nan = math.inf, math.nan
    start, end = torch.tensor([1e8, 1e4, 3e38, 1.0, 1.0, 1.0]), torch.tensor([1.0, 0.123, -3e38, inf, 2.0, 2.0])
    weight = torch.tensor([1.0, 0.9999, 0.5, 0.5, 0.25, nan])
    _check(torch.lerp, start, end, weight, exact=False, rtol=1e-6, atol=0.0)
    _check(lambda x: torch.quantile(x, 0.5), torch.tensor([-inf, 3.0]))


@pytest.mark.parametrize("call", [torch.xlogy, torch.special.xlog1py])
def test_products_with_logarithms_of_no_number(call: Callable[..., Any]) -> None:
    x, y = torch.tensor([0.0, 0.0, 1.0, 2.0]), torch.tensor([math.nan, 0.0, math.nan, 3.0])
    _check(call, x, y, exact=False, rtol=1e-6, atol=0.0)


def test_numbers_between_boundaries_of_integers() -> None:
    boundaries = torch.tensor([1, 2, 3])
    for number in (0.5, 1.5, 2.0, 3.5):
        _check(lambda b, number=number: torch.bucketize(number, b), boundaries)
        _check(lambda b, number=number: torch.searchsorted(b, number, right=True), boundaries)


@pytest.mark.parametrize("value", [300, -129])
def test_places_are_not_given_what_the_dtype_has_not(value: int) -> None:
    for device in ("cpu", DEVICE):
        x, index = torch.zeros(3, dtype=torch.int8, device=device), torch.tensor([1], device=device)
        for call in (lambda: x.index_fill(0, index, value), lambda: x.scatter(0, index, value)):
            with pytest.raises(RuntimeError, match="without overflow"):
                call()
