"""What the suite compares with: number formats, error bounds, layouts, random words."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray
from unihal.conformance.case import Expected
from unihal.conformance.layout import IMAGE_LAYOUTS, output_layout, place
from unihal.conformance.number_format import FORMATS, decode, encode, round_to, storage
from unihal.conformance.reference.random_numbers import philox
from unihal.conformance.sweep import SHAPES
from unihal.conformance.tolerance import (
    Arithmetic,
    compute_type,
    early_rounding_error,
    error_bound,
    mismatches,
    summation_roundings,
)

# -- number formats


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_formats_are_those_of_the_dtypes(dtype: str) -> None:
    info = ml_dtypes.finfo(dtype)
    form = FORMATS[dtype]
    assert form.largest == float(info.max)
    assert form.smallest_normal == float(info.smallest_normal)
    assert form.smallest_subnormal == float(info.smallest_subnormal)
    assert form.unit_roundoff == float(info.eps) / 2


def test_bfloat16_is_rounded_once() -> None:
    generator = np.random.default_rng(1)
    singles = generator.integers(0, 2**32, 100000, dtype=np.uint32).view(np.float32)
    singles = singles[~np.isnan(singles)]
    expected = singles.astype(ml_dtypes.bfloat16).view(np.uint16)
    assert np.array_equal(encode(singles.astype(np.float64), "bfloat16"), expected)
    # By way of float32 the first would become a tie, and go to the even neighbour below.
    values = np.array([1 + 2.0**-8 + 2.0**-40, 1 + 2.0**-8, 1 + 3 * 2.0**-8 - 2.0**-40, 3.4e38, -1e300, 0.0, -0.0])
    rounded = round_to(values, "bfloat16")
    assert rounded[:3].tolist() == [1 + 2.0**-7, 1.0, 1 + 2.0**-7]
    assert np.isposinf(rounded[3]) and np.isneginf(rounded[4])
    assert np.signbit(rounded[5:]).tolist() == [False, True]
    assert np.isnan(round_to(np.array([np.nan]), "bfloat16")).all()


def test_every_stored_number_survives() -> None:
    bits = np.arange(2**16, dtype=np.uint16)
    for dtype in ("float16", "bfloat16"):
        stored = bits if dtype == "bfloat16" else bits.view(np.float16)
        numbers = decode(stored, dtype)
        kept = ~np.isnan(numbers)
        assert np.array_equal(encode(numbers, dtype)[kept], stored[kept])


def test_integers_wrap_and_bools_are_tests() -> None:
    assert encode(np.array([200, -129, 256]), "int8").tolist() == [-56, 127, 0]
    assert encode(np.array([-1]), "uint64").tolist() == [2**64 - 1]
    assert encode(np.array([0.0, -0.5, np.nan]), "bool").tolist() == [False, True, True]


# -- error bounds


def wrong(actual: Any, expected: Expected, dtype: str = "float32") -> list[bool]:
    return mismatches(np.asarray(actual), expected, dtype, Arithmetic(compute_type([dtype]))).tolist()


def test_an_inexact_result_may_be_off_by_its_roundings() -> None:
    value = np.array([3.0])
    for dtype in FORMATS:
        expected = Expected(value, roundings=4)
        bound = float(error_bound(expected, dtype, Arithmetic(compute_type([dtype])))[0])
        assert bound <= 12 * 3 * FORMATS[dtype].unit_roundoff
        assert wrong(value + 0.9 * bound, expected, dtype) == [False]
        assert wrong(value + 1.1 * bound, expected, dtype) == [True]


def test_a_magnitude_and_an_error_widen_the_bound() -> None:
    unit = 2.0**-24
    exact = error_bound(Expected(np.array([1.0]), 1), "float32", Arithmetic("float32"))
    assert exact == pytest.approx(2 * unit)
    assert error_bound(
        Expected(np.array([1.0]), 5, np.array([-100.0])), "float32", Arithmetic("float32")
    ) == pytest.approx(501 * unit)
    assert error_bound(Expected(np.array([1.0]), 1, error=0.25), "float32", Arithmetic("float32")) == pytest.approx(
        0.25
    )


def test_an_early_rounding_is_one_of_16_bits() -> None:
    small, large = np.array([1.0, np.nan, np.inf]), np.array([-4.0, 2.0, np.nan])
    assert early_rounding_error("float32", small, large) == 0
    subnormal = FORMATS["float16"].smallest_subnormal / 2
    error = np.asarray(early_rounding_error("float16", small, large))
    assert np.array_equal(error - subnormal, 2.0**-11 * np.array([4.0, 2.0, FORMATS["float16"].largest]))


def test_repeating_elements_repeat_their_roundings() -> None:
    expected = Expected(np.array([1.0]), summation_roundings(10000))
    bounds = [error_bound(expected, "float32", Arithmetic("float32", repeating)) for repeating in (False, True)]
    assert bounds[0] == pytest.approx(401 * 2.0**-24)
    assert bounds[1] == pytest.approx(10001 * 2.0**-24)


def test_exact_results_must_be_equal() -> None:
    expected = Expected(np.array([1 / 3, 0.0, -0.0, np.nan, np.inf]), roundings=0)
    right = np.array([np.float32(1 / 3), 0.0, -0.0, np.nan, np.inf], np.float64)
    assert wrong(right, expected) == [False] * 5
    next_to_it = np.array([np.nextafter(np.float32(1 / 3), np.float32(1)), -0.0, 0.0, 0.0, -np.inf], np.float64)
    assert wrong(next_to_it, expected) == [True] * 5


def test_nan_and_infinity_are_no_tolerance() -> None:
    expected = Expected(np.array([np.nan, 1.0, 1.0, np.inf, np.inf, -np.inf]))
    assert wrong([1.0, np.nan, np.inf, 1.0, np.nan, np.inf], expected) == [True] * 6
    assert wrong([np.nan, 1.0, 1.0, np.inf, np.inf, -np.inf], expected) == [False] * 6


def test_beyond_the_range_is_infinite() -> None:
    expected = Expected(np.array([1e6, 1e6, 60000.0, 65504.0 * (1 + 2.0**-12)]))
    assert wrong([np.inf, 65504.0, np.inf, np.inf], expected, "float16") == [False, True, True, False]


def test_what_is_unspecified_is_not_looked_at() -> None:
    expected = Expected(np.array([1, 2]), unspecified=np.array([True, False]))
    assert wrong(np.array([9, 9], np.int32), expected, "int32") == [False, True]


def test_complex_parts_are_compared_one_by_one() -> None:
    expected = Expected(np.array([1 + 2j, 1 + 2j]), roundings=0)
    assert wrong([1 + 2j, 1 - 2j], expected, "complex64") == [False, True]


def test_sums_of_many_terms_count_less_than_all_their_roundings() -> None:
    assert summation_roundings(0) == summation_roundings(1) == 1
    assert summation_roundings(10) == 10
    assert summation_roundings(10000) == 400


# -- layouts


def addresses(shape: tuple[int, ...], layout: str) -> tuple[NDArray[Any], int]:
    placement = place(layout, shape)
    steps = [np.arange(length) * stride for length, stride in zip(shape, placement.strides)]
    flat = placement.offset + sum(np.ix_(*steps), np.zeros(shape, np.int64)) if shape else np.array(placement.offset)
    return flat, placement.elements


@pytest.mark.parametrize("layout", IMAGE_LAYOUTS)
def test_views_lie_within_their_blocks(layout: str) -> None:
    for shape in SHAPES:
        flat, elements = addresses(shape, layout)
        if flat.size:
            assert flat.min() >= 0 and flat.max() < elements, shape


@pytest.mark.parametrize("layout", IMAGE_LAYOUTS)
def test_outputs_have_distinct_elements(layout: str) -> None:
    for shape in SHAPES:
        flat, _ = addresses(shape, output_layout(layout))
        assert len(np.unique(flat)) == flat.size, shape


def test_layouts_are_what_they_are_called() -> None:
    assert place("transposed", (2, 3)).strides == (1, 2)
    assert place("channels_last", (2, 3, 4, 5)).strides == (60, 1, 15, 3)
    assert place("reversed", (2, 3)).strides == (-3, -1)
    assert place("broadcast", (1, 2, 3)).strides[1] == 0
    assert place("overlapping", (4, 5)).strides == (1, 1)
    sliced = place("sliced", (2, 3))
    assert sliced.strides == (7, 2) and sliced.offset == 8


def test_elements_of_bfloat16_are_two_bytes() -> None:
    assert storage("bfloat16").itemsize == 2


# -- random words


@pytest.mark.parametrize(
    ("key", "counter", "words"),
    [
        # Known answers of the authors' library (Random123, kat_vectors, philox4x32 10).
        (0, (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (2**64 - 1, (2**64 - 1, 2**64 - 1), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            0x299F31D0A4093822,
            (0x85A308D3243F6A88, 0x0370734413198A2E),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)
def test_philox(key: int, counter: tuple[int, int], words: tuple[int, ...]) -> None:
    assert tuple(philox(key, counter, 1)[0].tolist()) == words


def test_the_counter_carries() -> None:
    drawn = philox(7, (2**64 - 1, 3), 2)
    assert drawn[1].tolist() == philox(7, (0, 4), 1)[0].tolist()
