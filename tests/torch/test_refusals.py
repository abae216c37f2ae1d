"""What PyTorch's CPU refuses because of values, the device refuses with the same class of error.

An index that is out of range is an error of the stream, raised where it is next waited for; all else before the op.
`python tests/torch/test_refusals.py` prints both errors of each case.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

os.environ.setdefault("UNIHAL_BACKEND", "stub")

import pytest
import torch
import torch.nn.functional as F
from beside_cpu import COMPUTES_AT_ONCE, DEVICE
from torch import nn

INTEGERS = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)

Maker = Callable[..., torch.Tensor]
Case = Callable[[Maker], Any]


def _whole(t: Maker, *values: int) -> torch.Tensor:
    return t(values, dtype=torch.int64)


def _matrix(t: Maker, *rows: tuple[float, ...]) -> torch.Tensor:
    return t(rows, dtype=torch.float32)


#: Cases by name; each takes what makes a tensor on a device.
CASES: dict[str, Case] = {
    # quotients and remainders of whole numbers
    "x // y": lambda t: _whole(t, 1, 2) // _whole(t, 1, 0),
    "x % y": lambda t: _whole(t, 1, 2) % _whole(t, 1, 0),
    "fmod": lambda t: torch.fmod(_whole(t, 1, 2), _whole(t, 1, 0)),
    "div trunc": lambda t: torch.div(_whole(t, 1, 2), _whole(t, 1, 0), rounding_mode="trunc"),
    "div floor": lambda t: torch.div(_whole(t, 1, 2), _whole(t, 1, 0), rounding_mode="floor"),
    "floor_divide by one zero": lambda t: torch.floor_divide(_whole(t, 1, 2), t(0)),
    "a number // y": lambda t: 5 // _whole(t, 1, 0),
    "a number % y": lambda t: 5 % _whole(t, 1, 0),
    "x // 0": lambda t: _whole(t, 1, 2) // 0,
    "x % 0": lambda t: _whole(t, 1, 2) % 0,
    "in place //": lambda t: _whole(t, 1, 2).floor_divide_(_whole(t, 1, 0)),
    "in place %": lambda t: _whole(t, 1, 2).remainder_(_whole(t, 1, 0)),
    "in place fmod": lambda t: _whole(t, 1, 2).fmod_(_whole(t, 1, 0)),
    "in place div": lambda t: _whole(t, 1, 2).div_(_whole(t, 1, 0), rounding_mode="floor"),
    "// out=": lambda t: torch.floor_divide(_whole(t, 1, 2), _whole(t, 1, 0), out=_whole(t, 0, 0)),
    "% out=": lambda t: torch.remainder(_whole(t, 1, 2), _whole(t, 1, 0), out=_whole(t, 0, 0)),
    "div out=": lambda t: torch.div(_whole(t, 1, 2), _whole(t, 1, 0), rounding_mode="trunc", out=_whole(t, 0, 0)),
    "// broadcast": lambda t: t([[1, 2], [3, 4]]) // _whole(t, 0, 2),
    "// of a view": lambda t: _whole(t, 1, 2) // _whole(t, 0, 1, 0, 2)[::2],
    "bool // bool": lambda t: t([True]) // t([False]),
    # indices
    "gather": lambda t: torch.gather(_matrix(t, (1, 2)), 1, t([[2]])),
    "gather below": lambda t: torch.gather(_matrix(t, (1, 2)), 1, t([[-1]])),
    "scatter": lambda t: _matrix(t, (1, 2)).scatter(1, t([[2]]), _matrix(t, (1,))),
    "scatter_add": lambda t: _matrix(t, (1, 2)).scatter_add(1, t([[2]]), _matrix(t, (1,))),
    "scatter_reduce": lambda t: _matrix(t, (1, 2)).scatter_reduce(1, t([[2]]), _matrix(t, (1,)), "amax"),
    "index_select": lambda t: torch.index_select(_matrix(t, (1, 2)), 1, t([2])),
    "index_add": lambda t: _matrix(t, (1, 2)).index_add(1, t([2]), _matrix(t, (1,))),
    "index_copy": lambda t: _matrix(t, (1, 2)).index_copy(1, t([2]), _matrix(t, (1,))),
    "index_fill": lambda t: _matrix(t, (1, 2)).index_fill(1, t([2]), 0.0),
    "index_reduce": lambda t: _matrix(t, (1, 2)).index_reduce(1, t([2]), _matrix(t, (1,)), "prod"),
    "x[i]": lambda t: _whole(t, 1, 2)[t([2])],
    "x[i] below": lambda t: _whole(t, 1, 2)[t([-3])],
    "x[i] = y": lambda t: _whole(t, 1, 2).index_put_((t([2]),), t(1)),
    "x[i] += y": lambda t: _whole(t, 1, 2).index_put_((t([2]),), t(1), accumulate=True),
    "take": lambda t: torch.take(_whole(t, 1, 2), t([2])),
    "put_": lambda t: _whole(t, 1, 2).put_(t([2]), t([1])),
    "embedding": lambda t: F.embedding(t([2]), _matrix(t, (1,), (2,))),
    "embedding below": lambda t: F.embedding(t([-1]), _matrix(t, (1,), (2,))),
    "embedding_bag": lambda t: F.embedding_bag(t([2]), _matrix(t, (1,), (2,)), t([0])),
    "embedding_bag's offsets": lambda t: F.embedding_bag(t([0, 1]), _matrix(t, (1,), (2,)), t([1])),
    "embedding_bag's last offset": lambda t: F.embedding_bag(t([0, 1]), _matrix(t, (1,), (2,)), t([0, 3])),
    "embedding_bag's last offset of no indices": lambda t: F.embedding_bag(
        _whole(t), _matrix(t, (1,), (2,)), t([0, 1])
    ),
    "embedding_bag's first offset beside padding": lambda t: F.embedding_bag(
        t([0, 1]), _matrix(t, (1,), (2,)), t([1]), padding_idx=0
    ),
    "embedding_bag's offsets that fall": lambda t: F.embedding_bag(
        t([0, 1, 0]), _matrix(t, (1,), (2,)), t([0, 3, 1]), mode="mean"
    ),
    "embedding_bag's end of bags": lambda t: F.embedding_bag(
        t([0, 1]), _matrix(t, (1,), (2,)), t([0, 3]), include_last_offset=True
    ),
    "max_unpool2d": lambda t: F.max_unpool2d(t([[[[1.0]]]]), t([[[[9]]]]), 2),
    "searchsorted's sorter": lambda t: torch.searchsorted(t([1.0, 2.0]), t([1.5]), sorter=t([0, 5])),
    "lu_unpack": lambda t: torch.lu_unpack(torch.eye(2, device=t(0).device), t([1, 7], dtype=torch.int32)),
    "masked_scatter": lambda t: t([1.0, 2.0]).masked_scatter(t([True, True]), t([1.0])),
    # classes
    "nll_loss": lambda t: F.nll_loss(_matrix(t, (1, 2)), t([2])),
    "nll_loss below": lambda t: F.nll_loss(_matrix(t, (1, 2)), t([-1])),
    "nll_loss of images": lambda t: F.nll_loss(t([[[[1.0]], [[2.0]]]]), t([[[2]]])),
    "cross_entropy": lambda t: F.cross_entropy(_matrix(t, (1, 2)), t([2])),
    "multi_margin_loss": lambda t: F.multi_margin_loss(_matrix(t, (1, 2)), t([2])),
    "multilabel_margin_loss": lambda t: F.multilabel_margin_loss(_matrix(t, (1, 2)), t([[2, -1]])),
    "one_hot": lambda t: F.one_hot(t([2]), 2),
    "one_hot below": lambda t: F.one_hot(t([-1])),
    # counts
    "bincount": lambda t: torch.bincount(_whole(t, 1, -1)),
    "histc of infinities": lambda t: torch.histc(t([1.0, float("inf")]), 4),
    "histc of NaN": lambda t: torch.histc(t([1.0, float("nan")]), 4),
    "repeat_interleave": lambda t: torch.repeat_interleave(t([1.0, 2.0]), t([1, -1])),
    "segment_reduce": lambda t: torch.segment_reduce(t([1.0, 2.0]), "sum", lengths=t([3, -1])),
    "segment_reduce's sum": lambda t: torch.segment_reduce(t([1.0, 2.0]), "sum", lengths=t([1])),
    "quantile": lambda t: torch.quantile(t([1.0, 2.0]), t([1.5])),
    "tensor_split": lambda t: t(1.0).tensor_split(2),
    "ctc_loss": lambda t: F.ctc_loss(torch.zeros(4, 1, 3, device=t(0).device), t([[1]]), t([5]), t([1])),
    # distributions
    "multinomial below 0": lambda t: torch.multinomial(t([0.5, -0.5]), 1),
    "multinomial of NaN": lambda t: torch.multinomial(t([0.5, float("nan")]), 1),
    "multinomial of infinity": lambda t: torch.multinomial(t([0.5, float("inf")]), 1),
    "multinomial of nothing": lambda t: torch.multinomial(t([0.0, 0.0]), 1),
    "bernoulli": lambda t: torch.bernoulli(t([0.5, 1.5])),
    "bernoulli below": lambda t: torch.bernoulli(t([-0.5])),
    "bernoulli_ of a tensor": lambda t: t([0.0]).bernoulli_(t([1.5])),
    "bernoulli_ of a number": lambda t: t([0.0]).bernoulli_(1.5),
    "normal": lambda t: torch.normal(t([0.0]), t([-1.0])),
    "normal of a number": lambda t: torch.normal(0.0, t([-1.0])),
    "normal_": lambda t: t([0.0]).normal_(0, -1),
    "poisson": lambda t: torch.poisson(t([-1.0])),
    "exponential_": lambda t: t([0.0]).exponential_(-1),
    "geometric_": lambda t: t([0.0]).geometric_(1.5),
    "cauchy_": lambda t: t([0.0]).cauchy_(0, -1),
    "log_normal_": lambda t: t([0.0]).log_normal_(0, -1),
    "uniform_": lambda t: t([0.0]).uniform_(1, 0),
    "random_": lambda t: t([0.0]).random_(3, 1),
    # matrices
    "cholesky": lambda t: torch.linalg.cholesky(_matrix(t, (1, 2), (2, 1))),
    "inv": lambda t: torch.linalg.inv(_matrix(t, (1, 1), (1, 1))),
    "inverse": lambda t: torch.inverse(_matrix(t, (0, 0), (0, 0))),
    "inv_ex, checked": lambda t: torch.linalg.inv_ex(_matrix(t, (0, 0), (0, 0)), check_errors=True),
    "solve": lambda t: torch.linalg.solve(_matrix(t, (0, 0), (0, 0)), t([1.0, 2.0])),
    "lu_factor": lambda t: torch.linalg.lu_factor(_matrix(t, (0, 0), (0, 0))),
    "tensorinv": lambda t: torch.linalg.tensorinv(_matrix(t, (0, 0), (0, 0)), 1),
    "matrix_power": lambda t: torch.linalg.matrix_power(_matrix(t, (0, 0), (0, 0)), -1),
    "svd of NaN": lambda t: torch.linalg.svd(_matrix(t, (float("nan"), 0), (0, 1))),
    "svdvals of NaN": lambda t: torch.linalg.svdvals(_matrix(t, (float("nan"), 0), (0, 1))),
    "eig of NaN": lambda t: torch.linalg.eig(_matrix(t, (float("nan"), 0), (0, 1))),
    "lstsq of NaN": lambda t: torch.linalg.lstsq(_matrix(t, (float("nan"), 0), (0, 1)), _matrix(t, (1,), (1,))),
    "cholesky_inverse": lambda t: torch.cholesky_inverse(_matrix(t, (0, 0), (0, 0))),
    # others
    "binary_cross_entropy": lambda t: F.binary_cross_entropy(t([1.5]), t([1.0])),
    "gaussian_nll_loss": lambda t: F.gaussian_nll_loss(t([1.0]), t([1.0]), t([-1.0])),
    "integers to negative powers": lambda t: _whole(t, 1, 2) ** -1,
    "_assert_async": lambda t: torch._assert_async(t(False)),
    "item of many": lambda t: t([1.0, 2.0]).item(),
    "the truth of many": lambda t: bool(t([1.0, 2.0])),
    "an embedding that is trained": lambda t: nn.Embedding(2, 1, device=t(0).device)(t([2])).sum().backward(),
}
#: Products whose factors have two dtypes.
for _name, _product in {
    "mm": lambda x, y: x @ y,
    "bmm": lambda x, y: torch.bmm(x[None], y[None]),
    "baddbmm": lambda x, y: torch.baddbmm(x[None], x[None], y[None]),
    "addmm": lambda x, y: torch.addmm(x, x, y),
    "linear": F.linear,
    "einsum": lambda x, y: torch.einsum("ij,jk->ik", x, y),
    "mm of nothing": lambda x, y: x[:, :0] @ y[:0],
}.items():
    for _first, _second in (
        (torch.float32, torch.complex64),
        (torch.float32, torch.float64),
        (torch.float16, torch.float32),
        (torch.int64, torch.int32),
    ):
        CASES[f"{_name} of {_first} and {_second}"] = lambda t, f=_product, a=_first, b=_second: f(
            t([[1, 2], [3, 4]], dtype=a), t([[1, 2], [3, 4]], dtype=b)
        )

#: Numbers that the dtype has not.
for _dtype, _number in (
    (torch.uint8, 300),
    (torch.uint8, -300),
    (torch.int8, 300),
    (torch.int32, 1 << 40),
    (torch.float16, 1e5),
    (torch.float16, -1e9),
    (torch.bfloat16, 1e39),
    (torch.float32, 1e39),
):
    for _name, _use in {
        "fill_": lambda x, n: x.fill_(n),
        "full": lambda x, n: torch.full((2,), n, dtype=x.dtype, device=x.device),
        "new_full": lambda x, n: x.new_full((2,), n),
        "masked_fill": lambda x, n: x.masked_fill(x == 0, n),
        "clamp below": lambda x, n: x.clamp(n, 3),
        "clamp above": lambda x, n: x.clamp(0, n),
        "pad": lambda x, n: F.pad(x, (1, 1), value=n),
        "linspace": lambda x, n: torch.linspace(0, n, 3, dtype=x.dtype, device=x.device),
    }.items():
        CASES[f"{_name} of {_dtype} with {_number}"] = lambda t, f=_use, a=_dtype, n=_number: f(t([0, 1], dtype=a), n)
for _dtype, _number in ((torch.float16, 1e39), (torch.uint8, 300), (torch.float32, 1e39)):
    for _name, _use in {
        "alpha": lambda x, n: torch.add(x, x, alpha=n),
        "addcmul": lambda x, n: torch.addcmul(x, x, x, value=n),
        "addmm": lambda x, n: torch.addmm(x[None], x[None, :1], x[None], alpha=n),
    }.items():
        CASES[f"{_name} of {_dtype} with {_number}"] = lambda t, f=_use, a=_dtype, n=_number: f(t([0, 1], dtype=a), n)

CASES.update(
    {
        "alpha of float16 with 1e5": lambda t: torch.add(
            t([1.0], dtype=torch.float16), t([1.0], dtype=torch.float16), alpha=1e5
        ),
        "a power that float16 has not": lambda t: t([1.0], dtype=torch.float16) ** 1e5,
        "threshold": lambda t: F.threshold(t([1.0], dtype=torch.float16), 2, 1e5),
        "hardtanh": lambda t: F.hardtanh(t([1.0], dtype=torch.float16), -1, 1e5),
        "hardshrink": lambda t: F.hardshrink(t([1.0], dtype=torch.float16), 1e5),
        "softshrink": lambda t: F.softshrink(t([1.0]), -1),
        "heaviside of two dtypes": lambda t: torch.heaviside(t([1.0]), t([1.0], dtype=torch.float64)),
        "x // 256 in int8": lambda t: t([1], dtype=torch.int8) // t(256),
        "_int_mm of vectors": lambda t: torch._int_mm(t([1], dtype=torch.int8), t([1], dtype=torch.int8)),
        "_int_mm of uint8": lambda t: torch._int_mm(t([[1]], dtype=torch.int8), t([[1]], dtype=torch.uint8)),
        "_int_mm into int64": lambda t: torch._int_mm(
            t([[1]], dtype=torch.int8), t([[1]], dtype=torch.int8), out=t([[1]])
        ),
        "_int_mm into another shape": lambda t: torch._int_mm(
            t([[1]], dtype=torch.int8), t([[1]], dtype=torch.int8), out=t([1, 2], dtype=torch.int32)
        ),
        "exp2 into real numbers": lambda t: torch.exp2(t([1j]), out=t([1.0])),
        "sinc into real numbers": lambda t: torch.sinc(t([1j]), out=t([1.0])),
        "angle into whole numbers": lambda t: torch.angle(t([1.0]), out=t([1])),
        "logit into whole numbers": lambda t: torch.logit(t([0.5]), out=t([1])),
        "a power of 2 into whole numbers": lambda t: torch.pow(2.5, t([0.5]), out=t([1])),
        "where into another dtype": lambda t: torch.where(t([True]), t([1j]), t([1j]), out=t([1.0])),
        "nan_to_num into another dtype": lambda t: torch.nan_to_num(t([1.0]), out=t([1])),
        "signbit into numbers": lambda t: torch.signbit(t([1.0]), out=t([1.0])),
        "hypot of complex numbers": lambda t: torch.hypot(t([1.0]), t([1j])),
        "a zero point outside": lambda t: torch.fake_quantize_per_tensor_affine(t([1.0]), 0.1, 300, 0, 255),
        "a channel's zero point outside": lambda t: torch.fake_quantize_per_channel_affine(
            _matrix(t, (1, 2)), t([0.1]), t([300], dtype=torch.int32), 0, 0, 255
        ),
        "an axis of channels outside": lambda t: torch.fake_quantize_per_channel_affine(
            _matrix(t, (1, 2)), t([0.1]), t([0], dtype=torch.int32), 5, 0, 255
        ),
        "cumsum of bool": lambda t: torch.cumsum(t([1, 2]), 0, dtype=torch.bool),
    }
)
CASES.update(
    {f"{dtype} // 0": lambda t, dtype=dtype: t([1, 2], dtype=dtype) // t([1, 0], dtype=dtype) for dtype in INTEGERS}
)

#: Where the CPU raises a RuntimeError, and a device that computes later finds an index that is out of range: that is an
#: IndexError of the stream, whatever op it was. The fast stub has computed when a launch returns (test_outside.py).
INDICES = (
    *("gather", "gather below", "scatter", "scatter_add", "scatter_reduce", "index_select", "index_add"),
    *("embedding_bag", "embedding_bag's offsets", "embedding_bag's last offset", "max_unpool2d"),
    *("embedding_bag's last offset of no indices", "embedding_bag's first offset beside padding"),
    *("embedding_bag's offsets that fall", "searchsorted's sorter", "quantile"),
    *("multi_margin_loss", "multilabel_margin_loss", "one_hot", "one_hot below"),
)


def run(case: Case, device: str) -> Exception | None:
    """What a case raises on a device, its stream waited for."""

    def make(values: Any, **options: Any) -> torch.Tensor:
        return torch.tensor(values, device=device, **options)

    try:
        case(make)
        if device != "cpu":
            torch.accelerator.synchronize()
    except Exception as error:
        return error
    return None


@pytest.mark.parametrize("name", list(CASES))
def test_the_device_refuses_what_the_cpu_refuses(name: str) -> None:
    expected, actual = run(CASES[name], "cpu"), run(CASES[name], DEVICE)
    assert expected is not None
    is_later = name in INDICES and not COMPUTES_AT_ONCE
    assert isinstance(actual, IndexError if is_later else type(expected)), f"{actual!r} instead of {expected!r}"
    assert run(lambda t: t([1.0]) + 1, DEVICE) is None, "the error stayed"


def test_what_is_refused_was_not_written() -> None:
    x, zero = torch.tensor([1, 2], device=DEVICE), torch.tensor([1, 0], device=DEVICE)
    for divide in (x.floor_divide_, x.remainder_, x.fmod_):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            divide(zero)
    assert x.tolist() == [1, 2]


def test_without_elements_nothing_is_divided() -> None:
    for device in ("cpu", DEVICE):
        nothing = torch.zeros(0, dtype=torch.int64, device=device)
        assert (nothing // 0).shape == (nothing % torch.tensor(0, device=device)).shape == (0,)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
@pytest.mark.parametrize("padding", [None, 1])
def test_bags_end_where_their_last_offset_says(mode: str, padding: int | None) -> None:
    """As PyTorch's documentation has it. Its CPU takes what is behind into the last bag in some modes."""
    rows, weights = torch.tensor([3, 1, 2, 0, 4]), torch.arange(5.0)
    results = []
    for device, end in (("cpu", 3), (DEVICE, 5)):
        table = torch.arange(1.0, 11, device=device).reshape(5, 2).requires_grad_()
        offsets = torch.tensor([0, 2, 2, 3], device=device)
        factors = weights[:end].to(device).requires_grad_() if mode == "sum" else None
        given = F.embedding_bag(
            *(rows[:end].to(device), table, offsets),
            mode=mode,
            include_last_offset=True,
            padding_idx=padding,
            per_sample_weights=factors,
        )
        given.mul(torch.arange(6.0, device=device).reshape(3, 2)).sum().backward()
        results.append((given, table.grad, None if factors is None else factors.grad[:3]))
        assert factors is None or not factors.grad[3:].any()
    for expected, actual in zip(*results):
        assert expected is None or torch.equal(actual.cpu(), expected)


#: What lies outside a dtype's numbers, or of shapes that do not fit: by name, of a device.
BOUNDS: dict[str, Callable[[str], Any]] = {
    "randint": lambda d: torch.randint(0, 300, (2,), dtype=torch.uint8, device=d),
    "random_ from": lambda d: torch.empty(2, dtype=torch.int8, device=d).random_(-200, 0),
    "random_ of nothing": lambda d: torch.empty(0, dtype=torch.int8, device=d).random_(-200, 0),
    "random_ of bool": lambda d: torch.empty(2, dtype=torch.bool, device=d).random_(-5, 5),
    "random_ of float16": lambda d: torch.empty(2, dtype=torch.float16, device=d).random_(0, 70000),
    "random_ from, without to": lambda d: torch.empty(2, dtype=torch.uint8, device=d).random_(300, None),
    "random_ of 64 bits": lambda d: torch.empty(2, dtype=torch.int32, device=d).random_(-(2**63), None),
    "randperm of uint8": lambda d: torch.randperm(300, dtype=torch.uint8, device=d),
    "randperm of int8": lambda d: torch.randperm(129, dtype=torch.int8, device=d),
    "randperm of float16": lambda d: torch.randperm(5000, dtype=torch.float16, device=d),
    "uniform_ of float16": lambda d: torch.empty(2, dtype=torch.float16, device=d).uniform_(-60000, 60000),
    "uniform_ from infinity": lambda d: torch.empty(2, device=d).uniform_(-float("inf"), 1),
    "uniform_ to NaN": lambda d: torch.empty(2, device=d).uniform_(0, float("nan")),
    "binomial": lambda d: torch.binomial(torch.ones(2, device=d), torch.ones(2, dtype=torch.float64, device=d)),
    "lstsq": lambda d: torch.linalg.lstsq(torch.ones(5, 4, 2, device=d), torch.ones(4, 3, device=d)),
    "lstsq without rank": lambda d: torch.linalg.lstsq(
        torch.diag(torch.tensor([1.0, 0.0], device=d)), torch.ones(2, 1, device=d), driver="gels"
    ),
    "householder_product": lambda d: torch.linalg.householder_product(
        torch.ones(2, 3, 3, device=d), torch.ones(1, 3, device=d)
    ),
    "ormqr": lambda d: torch.ormqr(torch.ones(3, 2, device=d), torch.ones(1, device=d), torch.ones(3, 3, device=d)),
    "ormqr's batch": lambda d: torch.ormqr(
        torch.ones(2, 3, 2, device=d), torch.ones(2, 2, device=d), torch.ones(1, 3, 3, device=d)
    ),
    "svdvals of NaN": lambda d: torch.linalg.svdvals(torch.full((2, 2), float("nan"), device=d)),
    "eigvals": lambda d: torch.linalg.eigvals(torch.eye(2, device=d), out=torch.empty(2, device=d)),
}


@pytest.mark.parametrize("name", BOUNDS)
def test_bounds_and_shapes_are_those_of_the_cpu(name: str) -> None:
    with pytest.raises(RuntimeError) as expected:
        BOUNDS[name]("cpu")
    with pytest.raises(type(expected.value)):
        BOUNDS[name](DEVICE)


def main() -> None:
    """Prints what differs."""
    for name, case in CASES.items():
        expected, actual = run(case, "cpu"), run(case, DEVICE)
        torch_error = run(lambda t: t([1.0]) + 1, DEVICE)
        mark = "  " if type(actual) is type(expected) else "!!"
        left = f" STAYED {torch_error!r}" if torch_error is not None else ""
        print(f"{mark} {name}: {str(repr(expected))[:110]} | {str(repr(actual))[:130]}{left}")


if __name__ == "__main__":
    main()
