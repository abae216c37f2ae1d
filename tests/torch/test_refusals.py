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
from torch import nn

DEVICE = torch._C._get_privateuse1_backend_name()
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
COMPUTES_AT_ONCE = os.environ["UNIHAL_BACKEND"] == "stub" and os.environ.get("UNIHAL_STUB") != "strict"


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
