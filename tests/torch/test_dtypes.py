"""Operands of several dtypes, numbers that a dtype has not, and functions whose rules differ by dtype: as on PyTorch's
CPU."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from beside_cpu import DEVICE, FLOATS, check, special_numbers

IS_2_13 = tuple(int(part) for part in torch.__version__.split(".")[:2]) >= (2, 13)
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
        check(getattr(torch, name), x, number)
        check(getattr(torch, name), number, x)


@pytest.mark.parametrize("name", ["eq", "lt", "floor_divide", "remainder", "gcd", "pow", "logical_and", "maximum"])
def test_whole_numbers_of_a_wider_dtype(name: str) -> None:
    for dtype in (torch.uint8, torch.int8):
        check(getattr(torch, name), torch.tensor([44, 3], dtype=dtype), torch.tensor(300))
    check(torch.eq, torch.tensor([2049, 3]), torch.tensor([2048.0, 3.0], dtype=torch.float16))


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
            check(call, x)
        for other in (torch.tensor(number), torch.tensor(number, dtype=torch.float64)):
            for name in ("add", "sub", "mul", "div", "fmod"):
                check(getattr(torch, name), x, other)
        if number <= torch.finfo(dtype).max:
            check(lambda a: a.abs() ** number, x)


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
        check(call, x)


@pytest.mark.parametrize("dtype", [*_HALVES, *FLOATS], ids=str)
def test_signs(dtype: torch.dtype) -> None:
    x = special_numbers(dtype)
    check(torch.sign, x)
    check(lambda a: torch.sign(a).signbit(), x)
    check(lambda a: a.clone().sign_(), x.repeat(9))


def test_numbers_that_wrap_or_are_infinite() -> None:
    for dtype, number in ((torch.uint8, -1), (torch.float16, math.inf), (torch.bool, 300), (torch.int32, 2.7)):
        x = torch.zeros(2, dtype=dtype)
        check(lambda a: a.clone().fill_(number), x)
        check(lambda a: a.masked_fill(a == 0, number), x)
    check(lambda a: a.clamp(-1, 3), torch.arange(5, dtype=torch.uint8))
    half = torch.zeros(2, dtype=torch.float16)
    check(lambda a: a.index_put((torch.tensor([0], device=a.device),), torch.tensor(1e9, device=a.device).half()), half)
    check(lambda a: torch.where(a == 0, a, 1e9), half)
    check(lambda a: torch.searchsorted(a, 1e9), half)
    check(lambda a: torch.bucketize(2.5, a), torch.arange(5))


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
    check(lambda x, y: torch._int_mm(x, y.t()), a, b)
    check(lambda x, y: torch._int_mm(x, y.t().contiguous()), a, b)
    into = torch.zeros(rows, columns, dtype=torch.int32)
    check(lambda x, y, z: torch._int_mm(x, y.t(), out=z), a, b, into)


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128, *FLOATS], ids=str)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, -2, 0.5, -0.5, 4, 2.5])
def test_powers(dtype: torch.dtype, exponent: float) -> None:
    torch.manual_seed(0)
    x = torch.randn(3, 50, dtype=dtype)
    eps = torch.finfo(dtype).eps
    for number in (exponent, complex(exponent)) if dtype.is_complex else (exponent,):
        check(lambda a: a**number, x, exact=False, rtol=32 * eps, atol=32 * eps)
        check(lambda a: a.t() ** number, x, exact=False, rtol=32 * eps, atol=32 * eps)
    if not dtype.is_complex:
        check(lambda a: a**exponent, special_numbers(dtype), exact=False, rtol=32 * eps, atol=0.0)


@pytest.mark.parametrize("dtype", [*_HALVES, *FLOATS], ids=str)
def test_fake_quantization(dtype: torch.dtype) -> None:
    numbers = [math.nan, math.inf, -math.inf, 0.0, -0.3, 0.5, 1.5, 2.5, -7.0, 100.0, 1e4, -3e4, 0.05, 12.71, 12.75]
    x = torch.tensor([numbers, numbers[::-1]], dtype=dtype)
    tensors, channels = (
        getattr(torch.ops.aten, f"fake_quantize_per_{kind}_affine_cachemask").default for kind in ("tensor", "channel")
    )
    for scale, zero, low, high in ((0.1, 0, -128, 127), (0.1, 5, 0, 255), (1e-3, 0, -8, 7), (0.3333, 255, 0, 255)):
        check(lambda a: tensors(a, scale, zero, low, high), x)
        scales, zeros = torch.tensor([scale, scale * 1.7]), torch.tensor([zero, zero], dtype=torch.int32)
        check(lambda a, s, z: channels(a, s, z, 0, low, high), x, scales, zeros)
        check(lambda a, s, z: channels(a.t(), s, z, 1, low, high), x, scales, zeros)


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
    check(torch.lerp, start, end, weight, exact=False, rtol=1e-6, atol=0.0)
    check(lambda x: torch.quantile(x, 0.5), torch.tensor([-inf, 3.0]))


@pytest.mark.parametrize("call", [torch.xlogy, torch.special.xlog1py])
def test_products_with_logarithms_of_no_number(call: Callable[..., Any]) -> None:
    x, y = torch.tensor([0.0, 0.0, 1.0, 2.0]), torch.tensor([math.nan, 0.0, math.nan, 3.0])
    check(call, x, y, exact=False, rtol=1e-6, atol=0.0)


def test_numbers_between_boundaries_of_integers() -> None:
    boundaries = torch.tensor([1, 2, 3])
    for number in (0.5, 1.5, 2.0, 3.5):
        check(lambda b, number=number: torch.bucketize(number, b), boundaries)
        check(lambda b, number=number: torch.searchsorted(b, number, right=True), boundaries)


@pytest.mark.parametrize("value", [300, -129])
def test_places_are_not_given_what_the_dtype_has_not(value: int) -> None:
    for device in ("cpu", DEVICE):
        x, index = torch.zeros(3, dtype=torch.int8, device=device), torch.tensor([1], device=device)
        for call in (lambda: x.index_fill(0, index, value), lambda: x.scatter(0, index, value)):
            with pytest.raises(RuntimeError, match="without overflow"):
                call()
