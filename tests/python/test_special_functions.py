"""Special functions over their whole domains against SciPy: poles, infinities, NaN, negative and subnormal operands.

Conformance has references of its own (python/unihal/conformance/reference/special.py), which are held against SciPy
here as well."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import unihal
from unihal import ops
from unihal.conformance.reference import special as reference
from unihal.conformance.reference import special_integrals as integrals

scipy_special = pytest.importorskip("scipy.special", reason="it comes with scikit-learn, which the demo needs")

Array = np.ndarray[Any, Any]
EDGES = np.array(
    [0.0, -0.0, 1, -1, 0.5, -0.5, 1.5, 2, 3.5, -2.5, 7, -7, 1000, 1e-30, -1e-30, 1e30, np.nan, np.inf, -np.inf]
)
RANDOM = np.random.default_rng(1)


def logarithmic(low: float, high: float, count: int = 3000) -> Array:
    return np.exp(RANDOM.uniform(np.log(low), np.log(high), count))


def lgamma(x: Array) -> Array:
    """SciPy's has -inf at -inf, where C and ours have inf."""
    return np.where(np.isinf(x), np.inf, scipy_special.gammaln(x))


def _wave(x: Array) -> Array:
    """Of J and Y: the amplitude, 1 where that is more, and beside Y's pole the pole. SciPy rounds the phase of
    large numbers."""
    size = np.abs(np.where(np.isfinite(x) & (x != 0), x, 1))
    amplitude = np.minimum(1, np.sqrt(2 / (np.pi * size))) * np.where(size > 50, size, 1)
    return np.maximum(amplitude, np.where(size < 1, 0.7 / size, 0))


WAVE = _wave
SMALL = logarithmic(1e-30, 80)

ONE: dict[str, tuple[Callable[..., Array], Array, Callable[..., Array] | None]] = {
    "lgamma": (
        lgamma,
        np.append(RANDOM.uniform(-9, 20, 3000), logarithmic(1e-38, 1e37)),
        lambda x: reference.lgamma_terms(x) + 0.1,  # SciPy's own error beside its zeros is absolute
    ),
    "digamma": (
        scipy_special.digamma,
        np.concatenate([RANDOM.uniform(-4.9, 20, 3000), logarithmic(1e-37, 1e37)]),
        # Beside its poles SciPy computes 1 / tan(pi x) of the rounded product.
        lambda x: reference.digamma_terms(x) + np.where(x < 0, reference.polygamma(np.asarray(1.0), x) * np.abs(x), 0),
    ),
    "bessel_i0e": (scipy_special.i0e, np.append(RANDOM.uniform(-30, 30, 3000), logarithmic(1e-38, 1e37)), None),
    "bessel_i1e": (scipy_special.i1e, np.append(RANDOM.uniform(-30, 30, 3000), logarithmic(1e-30, 1e30)), None),
    "bessel_i0": (scipy_special.i0, RANDOM.uniform(-88, 88, 3000), None),
    "bessel_i1": (scipy_special.i1, RANDOM.uniform(-88, 88, 3000), None),
    **{
        f"bessel_{kind}{n}": (getattr(scipy_special, f"{kind}{n}"), np.append(RANDOM.uniform(low, 45, 3000), far), WAVE)
        for kind, low, far in (("j", -45, logarithmic(1e-30, 1)), ("y", 0, logarithmic(1e-3, 1)))
        for n in (0, 1)
    },
    **{
        f"bessel_k{n}": (getattr(scipy_special, f"k{n}"), np.append(RANDOM.uniform(0, 80, 3000), SMALL), None)
        for n in ("0", "1", "0e", "1e")
    },
    "dawson": (
        scipy_special.dawsn,
        np.append(RANDOM.uniform(-10, 10, 3000), logarithmic(1e-30, 1e30)),
        lambda x: 2 * scipy_special.dawsn(x),  # SciPy's own error is up to 1e-13
    ),
    "expint": (
        scipy_special.expi,
        np.append(RANDOM.uniform(-80, 80, 3000), SMALL),
        # SciPy's own error grows towards 40, where it changes its formula.
        lambda x: integrals.expint_terms(np.clip(x, -1, 11000)) + 4 * np.abs(scipy_special.expi(x)),
    ),
    "fresnel_sin": (lambda x: scipy_special.fresnel(x)[0], RANDOM.uniform(-9, 9, 3000), None),
    "fresnel_cos": (lambda x: scipy_special.fresnel(x)[1], RANDOM.uniform(-9, 9, 3000), None),
    "spence": (scipy_special.spence, np.append(RANDOM.uniform(0, 9, 3000), logarithmic(1e-30, 1e30)), None),
    "erfinv": (scipy_special.erfinv, np.append(RANDOM.uniform(-1, 1, 3000), 1 - logarithmic(1e-7, 1)), None),
    "ndtri": (scipy_special.ndtri, np.append(RANDOM.uniform(0, 1, 3000), logarithmic(1e-44, 1)), None),
}


def compare(
    name: str,
    wanted: Callable[..., Array],
    magnitude: Callable[..., Array] | None,
    *operands: Array,
    roundings: float = 64,
) -> None:
    """Within so many roundings of the value, or of the largest term; NaN and infinities exactly."""
    with np.errstate(all="ignore"):
        expected = np.asarray(wanted(*(x.astype(np.float64) for x in operands)))
        scale = np.abs(expected if magnitude is None else magnitude(*(x.astype(np.float64) for x in operands)))
        actual = getattr(ops, name)(*(unihal.Buffer.from_numpy(x, "rdna:0") for x in operands)).numpy()
        info = np.finfo(operands[0].dtype)
        expected = np.where(np.abs(expected) > info.max, np.copysign(np.inf, expected), expected)
        close = np.abs(actual - expected) <= roundings * info.eps / 2 * scale + info.tiny
    right = np.where(np.isfinite(expected), close, (actual == expected) | (np.isnan(actual) & np.isnan(expected)))
    wrong = np.flatnonzero(~right)
    assert not wrong.size, [(*(x[i] for x in operands), actual[i], expected[i]) for i in wrong[:5]]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", ONE)
def test_one_operand(name: str, dtype: str) -> None:
    wanted, values, magnitude = ONE[name]
    # SciPy's I0 and I1 have NaN at infinity.
    edges = EDGES[np.isfinite(EDGES)] if name in ("bessel_i0", "bessel_i1") else EDGES
    compare(name, wanted, magnitude, np.append(edges, values).astype(dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zeta_and_polygamma(dtype: str) -> None:
    s, q = 1 + logarithmic(1e-2, 8), np.append(logarithmic(1e-2, 30, 1500), logarithmic(30, 1e37, 1500))
    compare("zeta", scipy_special.zeta, None, s.astype(dtype), q.astype(dtype))
    # Left of 0 SciPy has NaN beside the poles, for even s too.
    edges = EDGES[~np.isin(EDGES, [-0.5, -2.5])]
    for power in (2, 3):
        compare("zeta", scipy_special.zeta, None, np.full(edges.size, power, dtype), edges.astype(dtype))
    order = RANDOM.integers(0, 6, q.size).astype(dtype)
    compare(
        "polygamma",
        lambda n, x: scipy_special.polygamma(n.astype(int), x),
        reference.polygamma_terms,
        order,
        q.astype(dtype),
    )


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_incomplete_gamma(dtype: str) -> None:
    """What the operands' own roundings change is allowed for: both slopes, times the operands."""

    def slopes(a: Array, x: Array) -> Array:
        by_x = x * np.exp((a - 1) * np.log(x) - x - scipy_special.gammaln(a))
        return np.asarray(by_x * (1 + a * np.abs(np.log(x / a)) / np.maximum(x, 1e-30)))

    def with_slopes(wanted: Callable[..., Array]) -> Callable[..., Array]:
        return lambda a, x: np.abs(wanted(a, x)) + slopes(a, x)

    # By mpmath SciPy is off by 356 roundings at gammaincc(0.5026687820085448, 0.7936402624797206), and ours by 0.2.
    roundings = 64 if dtype == "float32" else 512
    edges = np.array(np.meshgrid(EDGES, EDGES)).reshape(2, -1).astype(dtype)
    for name, wanted in (("igamma", scipy_special.gammainc), ("igammac", scipy_special.gammaincc)):
        usual = np.isfinite(edges).all(0) & (edges > 0).all(0)
        compare(name, wanted, None, *(row[~usual] for row in edges))
        for low, high in ((1e-2, 3), (3, 90), (100, 1e4)):
            a = logarithmic(low, high)
            x = a * np.exp(RANDOM.normal(0, 1.5 / np.sqrt(1 + a), a.size))
            with np.errstate(all="ignore"):
                operands = (a.astype(dtype), x.astype(dtype))
                compare(name, wanted, with_slopes(wanted), *operands, roundings=roundings)


def test_the_references_of_conformance() -> None:
    x = np.append(EDGES, RANDOM.uniform(-9, 9, 500))
    inside, positive = RANDOM.uniform(-1, 1, 500), RANDOM.uniform(0.1, 4, (2, 500))
    with np.errstate(all="ignore"):
        for own, theirs, operands in (
            (reference.lgamma, lgamma, (x,)),
            (reference.digamma, scipy_special.digamma, (x,)),
            (reference.bessel_i0e, scipy_special.i0e, (x,)),
            (reference.bessel_i1e, scipy_special.i1e, (x,)),
            (reference.erfinv, scipy_special.erfinv, (inside,)),
            (reference.ndtri, scipy_special.ndtri, ((inside + 1) / 2,)),
            (reference.zeta, scipy_special.zeta, (positive[0] + 1, positive[1])),
            (reference.igamma, scipy_special.gammainc, positive),
            (reference.igammac, scipy_special.gammaincc, positive),
        ):
            np.testing.assert_allclose(own(*operands), theirs(*operands), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_incomplete_beta(dtype: str) -> None:
    a, b = (logarithmic(0.1, 300).astype(dtype) for _ in range(2))
    mean = a / (a + b)
    x = np.clip(mean + RANDOM.normal(size=a.size) * np.sqrt(mean * (1 - mean) / (a + b + 1)), 1e-6, 1 - 1e-6).astype(
        dtype
    )

    def sensitive(a: Array, b: Array, x: Array) -> Array:
        """The value, and what the operands' roundings and those of the exponents move it by."""
        density = x**a * (1 - x) ** b * np.exp(-scipy_special.betaln(a, b))
        return scipy_special.betainc(a, b, x) + density * (1 + 1 / (1 - x)) + (a + b) * density

    compare("betainc", scipy_special.betainc, sensitive, a, b, x)
    # Outside of the domain, and at its ends.
    outside = [
        np.asarray(v, dtype) for v in ([0, 2, -1, 2, 2, 2, 2], [2, 0, 2, 3, 3, 3, 3], [0.5, 0.5, 0.5, -0.1, 1.1, 0, 1])
    ]
    expected = np.array([np.nan] * 5 + [0, 1])
    actual = ops.betainc(*(unihal.Buffer.from_numpy(v, "rdna:0") for v in outside)).numpy()
    np.testing.assert_array_equal(actual, expected)
