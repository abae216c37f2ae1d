"""Random numbers: Philox4x32-10, a function of key and counter, the same on every device."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

from .. import errors
from ..buffer import Buffer
from ..device import DeviceLike
from ..stream import Stream
from .data_dependent import search_sorted
from .elementwise import map_function
from .launch import broadcast_shapes, launch, output
from .movement import cast
from .reduction import reduce, scan, top_k

#: Numbers of uhal_distribution.
_DISTRIBUTIONS: dict[str, int] = {"uniform": 0, "normal": 1, "truncated_normal": 2, "bernoulli": 3, "bits": 4}


def random(
    shape: Sequence[int],
    dtype: str,
    on: DeviceLike,
    distribution: Literal["uniform", "normal", "truncated_normal", "bernoulli", "bits"] = "uniform",
    *,
    key: int,
    counter: int = 0,
    a: float = 0,
    b: float = 1,
    turn: Buffer | None = None,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """Random elements.

    ``a`` and ``b`` are the bounds of "uniform", mean and standard deviation of "normal" and "truncated_normal"; ``a``
    is the probability of 1 for "bernoulli". ``turn``, one element of int64, is added to the upper half of the counter
    when the op runs: a graph that counts its replays there draws other numbers in each.
    """
    result = out if out is not None else Buffer(tuple(shape), dtype, on, stream=stream)
    attributes = {"distribution": _DISTRIBUTIONS[distribution], "a": a, "b": b, **_position(key, counter)}
    launch("random", [turn], [result], attributes, stream=stream)
    return result


def dropout(
    x: Buffer,
    rate: float,
    *,
    key: int,
    counter: int = 0,
    scale_at_inference: bool = False,
    turn: Buffer | None = None,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> tuple[Buffer, Buffer]:
    """``x`` with elements set to 0 with probability ``rate`` and the others scaled up; and the mask of those kept.

    ``turn``: as in ``random``.
    """
    y = output(x.shape, x.dtype, x, out, stream)
    mask = output(x.shape, "bool", x, stream=stream)
    attributes = {"a": rate, "scale_at_inference": int(scale_at_inference), **_position(key, counter)}
    launch("dropout", [x, turn], [y, mask], attributes, stream=stream)
    return y, mask


#: Numbers of uhal_parameter_distribution.
_PARAMETER_DISTRIBUTIONS: dict[str, int] = {"gamma": 0, "poisson": 1, "binomial": 2}


def random_distribution(
    distribution: Literal["gamma", "poisson", "binomial"],
    p: Buffer,
    q: Buffer | None = None,
    *,
    key: int,
    counter: int = 0,
    dtype: str | None = None,
    out: Buffer | None = None,
    stream: Stream | None = None,
) -> Buffer:
    """A number for each element of the parameters, which broadcast: "gamma" of shape p (and scale 1), "poisson" of mean
    p, "binomial" successes of p trials of probability q. The dtype is p's if none is given."""
    shape = p.shape if q is None else broadcast_shapes([p.shape, q.shape])
    result = output(shape, dtype or p.dtype, p, out, stream)
    attributes = {"distribution": _PARAMETER_DISTRIBUTIONS[distribution], **_position(key, counter)}
    launch("random_distribution", [p, q], [result], attributes, stream=stream)
    return result


#: What keeps the counters of two draws of one key apart: no op has so many elements.
_APART = 1 << 62


def random_beta(
    a: Buffer, b: Buffer, *, key: int, counter: int = 0, out: Buffer | None = None, stream: Stream | None = None
) -> Buffer:
    """Numbers of beta distributions, of which a and b broadcast: g / (g + h) of two gamma numbers."""
    shape = broadcast_shapes([a.shape, b.shape])
    g = random_distribution("gamma", a.broadcast_to(shape), key=key, counter=counter, stream=stream)
    h = random_distribution("gamma", b.broadcast_to(shape), key=key, counter=counter + _APART, stream=stream)
    result = output(shape, a.dtype, a, out, stream)
    _map("divide", g, _map("add", g, h, stream=stream), out=result, stream=stream)
    return result


def random_dirichlet(concentration: Buffer, *, key: int, counter: int = 0, stream: Stream | None = None) -> Buffer:
    """Vectors of Dirichlet distributions along the last axis: gamma numbers divided by their sum."""
    g = random_distribution("gamma", concentration, key=key, counter=counter, stream=stream)
    result: Buffer = _map("divide", g, reduce(g, "sum", -1, keep_axes=True, stream=stream), stream=stream)
    return result


def random_multinomial(
    weights: Buffer,
    count: int,
    *,
    replacement: bool = True,
    key: int,
    counter: int = 0,
    dtype: str = "int64",
    stream: Stream | None = None,
) -> Buffer:
    """``count`` classes for each row of weights (..., classes), which need not add up to 1. Rows of nothing but zeros
    give any class.

    With replacement they are found by search in the running sums. Without it they are the largest of the weights'
    logarithms with Gumbel noise (Kool et al., "Stochastic beams and where to find them", 2019), in the order in which
    they would be drawn; classes of weight 0 come last.
    """
    wide = "float64" if weights.dtype == "float64" else "float32"
    if replacement:
        shape = (*weights.shape[:-1], count)
        sums = scan(cast(weights, wide, stream=stream), -1, "sum", stream=stream)
        places = random(shape, wide, weights.device, key=key, counter=counter, stream=stream)
        _map("multiply", places, sums[..., -1:], out=places, stream=stream)
        found = search_sorted(sums, places, right=True, dtype=dtype, stream=stream)
        result: Buffer = _map("minimum", found, weights.shape[-1] - 1, out=found, stream=stream)
        return result
    if count > weights.shape[-1]:
        raise errors.InvalidArgumentError(
            f"random_multinomial: {count} different classes of {weights.shape[-1]}; draw at most as many as there are"
        )
    noise = random(weights.shape, wide, weights.device, key=key, counter=counter, stream=stream)
    # -log(-log(u)) of u in (0, 1]: 1 - u, and 0 is as rare as any other number.
    _map("scale", noise, out=noise, parameters=(-1, 1), stream=stream)
    _map("log", noise, out=noise, stream=stream)
    _map("negative", noise, out=noise, stream=stream)
    _map("log", noise, out=noise, stream=stream)
    logarithms = _map("log", cast(weights, wide, stream=stream), stream=stream)
    _map("subtract", logarithms, noise, out=logarithms, stream=stream)
    return top_k(logarithms, count, dtype=dtype, stream=stream)[1]


def _map(name: str, *operands: Buffer | float, **options: Any) -> Any:
    function = map_function(name)
    assert function is not None
    return function(*operands, **options)


def _position(key: int, counter: int) -> dict[str, object]:
    """Key and 128-bit counter as the ABI takes them."""
    return {"key": key % 2**64, "counter": [counter % 2**64, (counter >> 64) % 2**64]}
