"""PyTorch's own op database, run on the device and on the CPU.

Each sample of an op runs on both, forward, backward, in place and with out=. What ran on PyTorch's CPU in the device's
place is no pass: the outcome names the ops that fell back.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytorch_databases  # noqa: F401, before what is of them
import torch
import unihal
from torch.autograd import forward_ad
from torch.testing._internal.common_methods_invocations import op_db
from torch.testing._internal.opinfo.core import OpInfo
from torch.utils._pytree import tree_flatten, tree_map

DEVICE = torch._C._get_privateuse1_backend_name()

#: Relative and absolute errors by the dtype of a result: a few roundings of what one op does in its dtype.
TOLERANCES = {
    torch.float16: (4e-3, 4e-3),
    torch.bfloat16: (3e-2, 3e-2),
    torch.float32: (2e-5, 1e-4),  # samples go to 10, and sums of their products to 1000
    torch.float64: (1e-9, 1e-9),
    torch.complex64: (2e-5, 1e-4),
    torch.complex128: (1e-9, 1e-9),
}

#: Iterations, which the stub's kernels compute for GPUs too, counted (csrc/kernels/ops/linear_algebra.cc).
KINDS_OF_THE_HOST = ("svd", "eigen", "eigen_symmetric")


@dataclass
class Outcome:
    """What became of the cases of an op and a dtype."""

    passed: int = 0
    #: Of these, cases whose numbers are random: shapes, dtypes and devices are compared.
    drawn: int = 0
    #: Of each way in which a case failed, the first message.
    failures: dict[str, str] = field(default_factory=dict)
    #: How often which op of ATen ran on the CPU.
    fallbacks: Counter[str] = field(default_factory=Counter)
    #: Cases that the CPU refuses or that are no tensors, and what kind.
    left_out: Counter[str] = field(default_factory=Counter)


def operators(name: str | None = None) -> list[OpInfo]:
    """The op database, or the entries of a name."""
    return [op for op in op_db if name is None or op.name == name]


def fallback_counts() -> Counter[str]:
    """The counts so far, by op, dtype and reason."""
    return Counter({f"{f.op}[{f.dtype}]: {f.reason}": f.count for f in unihal.fallbacks()})


def _is_the_stub() -> bool:
    return unihal.devices(DEVICE)[0].properties.is_stub


def _is_the_hosts(fallback: str) -> bool:
    """Whether a count is of a kind that the ABI's kernels on the host compute for every GPU."""
    reasons = (f"there is no kernel for {kind} yet" for kind in KINDS_OF_THE_HOST)
    return not _is_the_stub() and any(reason in fallback for reason in reasons)


def to_device(value: Any) -> Any:
    """A sample's arguments on the device, with layouts and shared storages of a tensor kept where it matters."""

    def move(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            moved = torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device=DEVICE)
            with torch.no_grad():
                moved.copy_(leaf)
            return moved.requires_grad_(leaf.requires_grad)
        if isinstance(leaf, torch.device) or leaf == "cpu":
            return torch.device(DEVICE)
        return leaf

    return tree_map(move, value)


def clone(value: Any) -> Any:
    """Detached copies of all tensors, with the same layouts."""

    def copy(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        made = torch.empty_strided(leaf.size(), leaf.stride(), dtype=leaf.dtype, device=leaf.device)
        with torch.no_grad():
            made.copy_(leaf)
        return made.requires_grad_(leaf.requires_grad)

    return tree_map(copy, value)


def _tensors(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def compare(actual: Any, expected: Any, values: bool = True) -> None:
    """AssertionError where results of the device are not those of the CPU: numbers, or without `values` what they are
    beside them."""
    actual_leaves, expected_leaves = tree_flatten(actual)[0], tree_flatten(expected)[0]
    assert len(actual_leaves) == len(expected_leaves), f"{len(actual_leaves)} results instead of {len(expected_leaves)}"
    for a, e in zip(actual_leaves, expected_leaves):
        if not isinstance(e, torch.Tensor) or not isinstance(a, torch.Tensor):
            assert type(a) is type(e) and (a == e or a != a), f"{a} instead of {e}"
            continue
        if a.device.type == "cpu" and e.device.type == "cpu" and a.numel() == 0 and e.numel() == 0:
            continue
        assert a.device.type == DEVICE, f"a result on {a.device}"
        assert a.dtype == e.dtype, f"dtype {a.dtype} instead of {e.dtype}"
        if not values:
            assert a.shape == e.shape, f"the shape {a.shape} instead of {e.shape}"
            continue
        rtol, atol = TOLERANCES.get(e.dtype, (0, 0))
        torch.testing.assert_close(
            a.detach().cpu().resolve_conj().resolve_neg(),
            e.detach().resolve_conj().resolve_neg(),
            rtol=rtol,
            atol=atol,
            equal_nan=True,
            check_stride=False,
        )


#: Ops whose indices PyTorch does not promise where elements are equal.
TIES = ("sort", "topk", "argsort", "msort", "kthvalue", "mode", "nn.functional.max_pool2d")


#: Ops whose samples sum many terms of both signs, or whose steps amplify roundings: float32 is held against float64 as
#: shorter dtypes are.
LONG_SUMS = ("grid_sampler_3d", "polygamma", "special.polygamma", "matrix_exp", "linalg.householder_product")

#: The same of GPUs alone, which add in another order: samples are of numbers of 10,000.
LONG_SUMS_OF_GPUS = ("logcumsumexp",)

#: Ops that write to a place more than once if an index is repeated, and their spatial axes: which number stays is
#: chance on a GPU.
LAST_WRITES = {f"nn.functional.max_unpool{axes}d": axes for axes in (1, 2, 3)}

#: Decompositions that are unique but for factors of modulus 1: the database's own function of them is compared.
UP_TO_FACTORS = (
    *("linalg.eig", "linalg.eigh", "linalg.svd", "svd", "linalg.qr", "qr"),
    *("linalg.pinv", "linalg.lstsq"),
)

#: Ops of which PyTorch's own code does not write to out= along a single axis.
UNWRITTEN = ("fft.ihfft2", "fft.ihfftn")

#: Ops that draw numbers, or give memory as it is: what they give is compared, but not the numbers.
RANDOM = (
    *(
        "svd_lowrank",
        "pca_lowrank",
        "bernoulli",
        "cauchy",
        "exponential",
        "geometric",
        "log_normal",
        "multinomial",
        "normal",
        "rand_like",
        "randint",
    ),
    *("randint_like", "randn", "randn_like", "uniform", "nn.functional.alpha_dropout", "nn.functional.dropout"),
    *("nn.functional.dropout2d", "nn.functional.dropout3d", "nn.functional.feature_alpha_dropout"),
    *(
        "nn.functional.rrelu",
        "empty",
        "empty_like",
        "empty_permuted",
        "empty_strided",
        "new_empty",
        "new_empty_strided",
    ),
)


def is_random(op: OpInfo, sample: Any) -> bool:
    """Whether a sample's numbers are drawn, are those of new memory, or of chance."""
    if op.name in RANDOM or sample.kwargs.get("dropout_p", 0) > 0:
        return True
    if op.name in LAST_WRITES and not _is_the_stub():
        places = sample.args[0].flatten(-LAST_WRITES[op.name]).sort().values
        return bool((places.diff() == 0).any())
    if op.name == "nn.functional.multi_head_attention_forward":
        return any(isinstance(argument, float) and argument > 0 for argument in sample.args)
    return op.name.startswith("nn.functional.fractional_max_pool") and sample.kwargs.get("_random_samples") is None


def _nearer_to_exact(
    function: Callable[..., Any],
    values: Any,
    actual: Any,
    expected: Any,
    short: tuple[torch.dtype, ...],
    amplifies: bool,
) -> bool:
    """Whether the device's result of a short dtype is at most twice as far from that in float64 as the CPU's is.

    Where an op `amplifies`, the CPU's error on a single sample is chance: it counts with those of eight samples that
    differ from this one in last bits.
    """
    results = _tensors(expected)
    if not any(t.dtype in short for t in results):
        return False
    exact, error = _run(lambda: function(*_widened(values, short)))
    if error is not None:
        return False
    exact = _tensors(exact)
    far = [_distance(e, x) for e, x in zip(results, exact)]
    if _is_within(_tensors(actual), results, exact, far):
        return True
    for seed in range(8 if amplifies else 0):
        moved = _moved(values, short, seed)
        near, error = _run(lambda operands=moved: function(*clone(operands)))
        other, other_error = _run(lambda operands=moved: function(*_widened(operands, short)))
        if error is None and other_error is None:
            far = [max(d, _distance(e, x)) for d, e, x in zip(far, _tensors(near), _tensors(other))]
            if _is_within(_tensors(actual), results, exact, far):  # more samples only make more room
                return True
    return False


def _is_within(
    actual: list[torch.Tensor], expected: list[torch.Tensor], exact: list[torch.Tensor], far: list[float]
) -> bool:
    """Whether each result is at most twice as far from the exact one as is given, and of the CPU's kind."""
    for a, e, x, theirs in zip(actual, expected, exact, far):
        if a.shape != e.shape or x.shape != e.shape or a.dtype != e.dtype:
            return False
        ours = (a.detach().cpu().to(x.dtype) - x).abs().nan_to_num(0, 0, 0)
        has_roundings = e.is_floating_point() or e.is_complex()
        room = torch.finfo(e.dtype).eps * x.abs().nan_to_num(0, 0, 0) if has_roundings else 0
        if not bool((ours <= 2 * theirs + room).all()) if e.numel() else False:
            return False
    return True


def _widened(values: Any, short: tuple[torch.dtype, ...]) -> Any:
    """Copies of an op's operands, those of short dtypes in float64 or complex128."""
    return tree_map(
        lambda t: (
            t.detach().to(torch.complex128 if t.is_complex() else torch.float64).requires_grad_(t.requires_grad)
            if isinstance(t, torch.Tensor) and t.dtype in short
            else torch.float64
            if isinstance(t, torch.dtype) and t in short
            else t
        ),
        clone(values),
    )


def _moved(values: Any, short: tuple[torch.dtype, ...], seed: int) -> Any:
    """Copies of an op's operands, those of short dtypes with their last bit up or down."""
    random = torch.Generator().manual_seed(seed)

    def move(t: Any) -> Any:
        if not isinstance(t, torch.Tensor) or t.dtype not in short:
            return t
        signs = torch.randint(0, 2, t.shape, generator=random) * 2 - 1
        return (t.detach() * (1 + signs * torch.finfo(t.dtype).eps).to(t.dtype)).requires_grad_(t.requires_grad)

    return tree_map(move, clone(values))


def _distance(result: torch.Tensor, exact: torch.Tensor) -> float:
    """The largest error of a result."""
    error = (result.detach().to(exact.dtype) - exact).abs().nan_to_num(0, 0, 0)
    return float(error.max()) if error.numel() else 0.0


def _run(function: Callable[[], Any]) -> tuple[Any, Exception | None]:
    try:
        return function(), None
    except Exception as error:
        return None, error


Case = tuple[str, Callable[[Any, Any, Any], Any]]


def _cases(op: OpInfo, sample: Any, gradient: bool) -> Iterator[Case]:
    process = sample.output_process_fn_grad if op.name in UP_TO_FACTORS else lambda result: result

    def forward(x: Any, args: Any, kwargs: Any) -> Any:
        return process(op(x, *args, **kwargs))

    def backward(x: Any, args: Any, kwargs: Any) -> Any:
        result = process(op(x, *args, **kwargs))
        wanted = [t for t in _tensors((x, args, kwargs)) if t.requires_grad]
        given = [t for t in _tensors(result) if t.requires_grad]
        if not wanted or not given:
            return None
        return torch.autograd.grad(given, wanted, _cotangents(given), allow_unused=True)

    def in_place(x: Any, args: Any, kwargs: Any) -> Any:
        return op.inplace_variant(x.detach().clone(), *args, **kwargs)

    def out(x: Any, args: Any, kwargs: Any) -> Any:
        with torch.no_grad():
            expected = op(x, *args, **kwargs)
            outs = tree_map(lambda t: torch.empty_like(t) if isinstance(t, torch.Tensor) else t, expected)
            op(x, *args, out=outs, **kwargs)
        return outs

    yield "forward", forward
    if gradient:
        yield "backward", backward
    if op.inplace_variant is not None and isinstance(sample.input, torch.Tensor) and not sample.broadcasts_input:
        yield "in place", in_place
    if op.supports_out and not isinstance(sample.kwargs.get("out"), torch.Tensor) and op.name not in UP_TO_FACTORS:
        yield "out=", out


def _expanded(x: torch.Tensor) -> torch.Tensor:
    return x.narrow(-1, 0, 1).expand(x.shape) if x.dim() > 0 and x.shape[-1] > 0 else x.expand(x.shape)


#: Ways to see a first operand that is no dense tensor of its own: what an op gets to do with views.
VIEWS: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "expanded": _expanded,
    "turned": lambda x: x.transpose(0, -1).contiguous().transpose(0, -1) if x.dim() > 1 else x,
    "with gaps": lambda x: torch.stack([x, x], -1)[..., 0],
    "negated": lambda x: torch._neg_view(x) if x.dtype != torch.bool else x,
    "conjugated": lambda x: x.conj(),
    "empty": lambda x: x.narrow(0, 0, 0) if x.dim() > 0 else x,
}


#: Views of samples that no device is to compute alike, by the reason.
VIEWS_LEFT_OUT: dict[str, dict[str, tuple[str, ...]]] = {
    "of rows that are all the same, which rounding decides about": {
        "expanded": (
            *(
                "qr",
                "lu",
                "pinverse",
                "geqrf",
                "logdet",
                "nn.functional.instance_norm",
                "linalg.qr",
                "linalg.eig",
                "linalg.lu",
            ),
            *("linalg.cholesky_ex", "linalg.cond", "linalg.inv_ex", "linalg.lstsq", "linalg.lu_factor_ex"),
            *(
                "linalg.solve_ex",
                "linalg.tensorinv",
                "linalg.pinv",
                "linalg.matrix_rank",
                "linalg.slogdet",
                "linalg.inv",
            ),
            *("linalg.lu_factor", "linalg.det", "linalg.eigvals", "linalg.solve", "linalg.tensorsolve"),
        )
    },
    "not positive definite: the factor is unspecified": {"negated": ("linalg.cholesky_ex",)},
    "new memory": {"empty": ("resize_", "resize_as_")},
    "offsets beyond the rows, where the CPU reads on": {"empty": ("_segment_reduce",)},
    "the CPU gives another shape than for more elements": {"empty": ("nn.functional.pixel_unshuffle",)},
    "the CPU takes the elements behind the one that is repeated": {"expanded": ("masked.median",)},
}


def _channels_last(x: torch.Tensor) -> torch.Tensor:
    formats = {4: torch.channels_last, 5: torch.channels_last_3d}
    return x.contiguous(memory_format=formats[x.dim()]) if x.dim() in formats else x


def _views(op: OpInfo, sample: Any, dtype: torch.dtype) -> Iterator[Case]:
    if not isinstance(sample.input, torch.Tensor):
        return
    process = sample.output_process_fn_grad if op.name in UP_TO_FACTORS else lambda result: result
    for name, view in VIEWS.items():
        if name != "conjugated" or dtype.is_complex:
            yield f"view {name}", lambda x, args, kwargs, view=view: process(op(view(x), *args, **kwargs))

    def all_channels_last(x: Any, args: Any, kwargs: Any) -> Any:
        def turn(leaf: Any) -> Any:
            return _channels_last(leaf) if isinstance(leaf, torch.Tensor) else leaf

        return process(op(turn(x), *tree_map(turn, args), **tree_map(turn, kwargs)))

    yield "view channels last", all_channels_last


def _cotangents(results: list[torch.Tensor]) -> list[torch.Tensor]:
    """Numbers to multiply derivatives with, the same on each device."""
    lines = [torch.linspace(-1, 1, t.numel(), dtype=torch.float64).reshape(t.shape).to(t.dtype) for t in results]
    return [line.to(t.device) for line, t in zip(lines, results)]


def _coincides(view: torch.Tensor) -> bool:
    """Whether elements of a view are the same one in memory, which PyTorch's CPU does not always see."""
    last = sum((size - 1) * stride for size, stride in zip(view.shape, view.stride()))
    places = torch.arange(last + 1).as_strided(view.shape, view.stride())
    return places.unique().numel() < places.numel()


#: Transforms that no device is to compute alike, by the reason.
TRANSFORMS_LEFT_OUT: dict[str, dict[str, tuple[str, ...]]] = {
    "the CPU's own slope has a sixth that was rounded to float32": dict.fromkeys(
        ("forward mode", "twice backward", "forward over backward"), ("nn.functional.hardsigmoid",)
    ),
    "PyTorch's dropout of accelerators has no such derivative": {
        "forward over backward": (
            "nn.functional.scaled_dot_product_attention",
            "nn.functional.multi_head_attention_forward",
        )
    },
    "terms that cancel: the CPU's own numbers change as much with the last bit": dict.fromkeys(
        ("twice backward", "forward over backward"), ("linalg.householder_product",)
    ),
}


def _transforms(op: OpInfo, sample: Any, gradient: bool) -> Iterator[Case]:
    """What PyTorch's own generic tests of gradients, of functional transforms and of views ask of an op."""
    process = sample.output_process_fn_grad if op.name in UP_TO_FACTORS else lambda result: result

    def twice(x: Any, args: Any, kwargs: Any) -> Any:
        wanted = [t for t in _tensors((x, args, kwargs)) if t.requires_grad]
        given = [t for t in _tensors(process(op(x, *args, **kwargs))) if t.requires_grad]
        if not wanted or not given:
            return None
        cotangents = [c.requires_grad_() for c in _cotangents(given)]
        first = torch.autograd.grad(given, wanted, cotangents, create_graph=True, allow_unused=True)
        again = [t for t in first if t is not None and t.requires_grad]
        second = torch.autograd.grad(again, [*wanted, *cotangents], _cotangents(again), allow_unused=True)
        return [t for t in second if t is not None]

    def forward_mode(x: Any, args: Any, kwargs: Any) -> Any:
        with forward_ad.dual_level():

            def dual(leaf: Any) -> Any:
                moves = isinstance(leaf, torch.Tensor) and leaf.requires_grad
                return forward_ad.make_dual(leaf.detach(), _cotangents([leaf])[0]) if moves else leaf

            result = process(op(dual(x), *tree_map(dual, args), **tree_map(dual, kwargs)))
            return [t for leaf in _tensors(result) for t in forward_ad.unpack_dual(leaf) if t is not None]

    def forward_over_backward(x: Any, args: Any, kwargs: Any) -> Any:
        with forward_ad.dual_level():

            def dual(leaf: Any) -> Any:
                if not isinstance(leaf, torch.Tensor) or not leaf.requires_grad:
                    return leaf
                return forward_ad.make_dual(leaf.detach().requires_grad_(), _cotangents([leaf])[0])

            operands = (dual(x), tree_map(dual, args), tree_map(dual, kwargs))
            wanted = [t for t in _tensors(operands) if t.requires_grad]
            given = [t for t in _tensors(process(op(operands[0], *operands[1], **operands[2]))) if t.requires_grad]
            if not wanted or not given:
                return None
            slopes = torch.autograd.grad(given, wanted, _cotangents(given), allow_unused=True)
            pairs = [forward_ad.unpack_dual(slope) for slope in slopes if slope is not None]
            return [t.detach() for pair in pairs for t in pair if t is not None]

    def mapped(x: Any, args: Any, kwargs: Any) -> Any:
        return torch.vmap(lambda one: process(op(one, *args, **kwargs)))(torch.stack([x, x]).detach())

    def is_view(x: Any, args: Any, kwargs: Any) -> Any:
        """Whether results lie in the operand's memory, and where; what is written to one is seen there."""
        with torch.no_grad():
            results = _tensors(op(x, *args, **kwargs))
            places: list[Any] = []
            for t in results:
                shares = t.untyped_storage().data_ptr() == x.untyped_storage().data_ptr() and t.numel() > 0
                places.append((t._is_view(), t.storage_offset(), t.stride()) if shares else ())
                if shares and not _coincides(t):
                    t.mul_(3)
        return [places, x.detach(), [t for t, place in zip(results, places) if place]]

    if gradient and op.supports_gradgrad:
        yield "twice backward", twice
    if gradient and op.supports_forward_ad:
        yield "forward mode", forward_mode
    if gradient and op.supports_fwgrad_bwgrad:
        yield "forward over backward", forward_over_backward
    if isinstance(sample.input, torch.Tensor):
        yield "vmap", mapped
        yield "is a view", is_view


def run(op: OpInfo, dtype: torch.dtype, most_samples: int = 1000, ways: str = "variants") -> Outcome:
    """Runs the samples of an op for a dtype: its `variants`, or their first operands seen in other ways (`views`), or
    derivatives of derivatives, forward mode, vmap, and what is a view (`transforms`)."""
    outcome = Outcome()
    gradient = (
        dtype in ((torch.float64, torch.complex128) if ways == "transforms" else (torch.float32, torch.complex64))
        and op.supports_autograd
        and dtype in op.supported_backward_dtypes("cpu")
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        for number, sample in enumerate(op.sample_inputs("cpu", dtype, requires_grad=gradient)):
            if number >= most_samples:
                break
            cases = {
                "variants": lambda sample=sample: _cases(op, sample, gradient),
                "views": lambda sample=sample: _views(op, sample, dtype),
                "transforms": lambda sample=sample: _transforms(op, sample, gradient),
            }[ways]()
            for way, function in cases:
                _case(op, sample, way, function, outcome)
    return outcome


def _case(op: OpInfo, sample: Any, way: str, function: Callable[[Any, Any, Any], Any], outcome: Outcome) -> None:
    values = (sample.input, sample.args, sample.kwargs)
    theirs = clone(values)
    expected, refused = _run(lambda: function(*theirs))
    if refused is None and not _tensors(expected):
        outcome.left_out[f"{way}: no tensor is given"] += 1
        return
    if any(t.layout != torch.strided for t in _tensors((values, expected))):
        outcome.left_out[f"{way}: not strided"] += 1
        return
    numbers_given = [n for n in (*sample.args, sample.kwargs.get("eps")) if isinstance(n, float)]
    if op.name.endswith(("group_norm", "layer_norm")) and any(n < 0 for n in numbers_given):
        outcome.left_out[f"{way}: an epsilon below 0"] += 1
        return
    if op.name == "tensor_split" and any(isinstance(a, torch.Tensor) for a in sample.args):
        outcome.left_out[f"{way}: places to split at that have to be on the CPU"] += 1
        return
    for reason, views in VIEWS_LEFT_OUT.items():
        if any(op.name == name and way == f"view {view}" for view, names in views.items() for name in names):
            outcome.left_out[f"{way}: {reason}"] += 1
            return
    for reason, ways in TRANSFORMS_LEFT_OUT.items():
        if op.name in ways.get(way, ()):
            outcome.left_out[f"{way}: {reason}"] += 1
            return
    ours = to_device(values)
    start = fallback_counts()

    def finished() -> Any:  # what the device finds wrong while it computes is an error too
        result = function(*ours)
        torch.accelerator.synchronize()
        return result

    actual, error = _run(finished)
    fallen = Counter({text: count for text, count in (fallback_counts() - start).items() if not _is_the_hosts(text)})
    if refused is not None:
        if error is None and way != "forward":
            outcome.left_out[f"{way}: the CPU refuses what the device computes"] += 1
        elif error is None:
            outcome.failures.setdefault(way, f"not refused: {type(refused).__name__}: {refused}")
        else:
            outcome.left_out[f"{way}: refused by both"] += 1
        return
    if error is not None:
        outcome.failures.setdefault(
            way,
            f"{type(error).__name__}: {str(error)[:300]} ({sample.summary() if hasattr(sample, 'summary') else ''})",
        )
        return
    if fallen:
        outcome.fallbacks.update(fallen)
        return
    if not any(t.device.type == DEVICE for t in _tensors((ours, actual))):
        outcome.left_out[f"{way}: the sample names no device"] += 1
        return
    numbers = not is_random(op, sample)
    try:
        compare(actual, expected, numbers)
    except (AssertionError, RuntimeError) as wrong:  # torch.testing raises both
        if way == "out=" and op.name in UNWRITTEN:
            outcome.left_out[f"{way}: PyTorch leaves it as it was"] += 1
            return
        is_long = op.name in LONG_SUMS or (op.name in LONG_SUMS_OF_GPUS and not _is_the_stub())
        short = (torch.float16, torch.bfloat16) + ((torch.float32, torch.complex64) if is_long else ())
        if _nearer_to_exact(function, values, actual, expected, short, is_long):
            outcome.passed += 1
            return
        if op.name in TIES:
            outcome.left_out[f"{way}: places of equal elements"] += 1
            return
        outcome.failures.setdefault(way, f"{str(wrong)[:400]} ({str(sample)[:300]})")
        return
    outcome.passed += 1
    outcome.drawn += 0 if numbers else 1


def main() -> None:
    """`python tests/torch/op_database.py [name...] [--dtypes float32,int64] [--most 5]`: a line an op and dtype."""
    import argparse

    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*")
    parser.add_argument("--dtypes", default="float32,float16,bfloat16,float64,int64,int32,uint8,bool,complex64")
    parser.add_argument("--most", type=int, default=20)
    parser.add_argument("--ways", choices=("variants", "views", "transforms"), default="variants")
    parser.add_argument("--failed", action="store_true", help="only what failed or fell back")
    arguments = parser.parse_args()
    totals: Counter[str] = Counter()
    fell: Counter[str] = Counter()
    for op in op_db:
        if arguments.names and op.name not in arguments.names:
            continue
        for name in arguments.dtypes.split(","):
            dtype = getattr(torch, name)
            if dtype not in op.supported_dtypes("cpu"):
                continue
            outcome, error = _run(lambda op=op, dtype=dtype: run(op, dtype, arguments.most, arguments.ways))
            label = f"{op.name}{'.' + op.variant_test_name if op.variant_test_name else ''} {name}"
            if error is not None:
                print(f"{label}: HARNESS {type(error).__name__}: {str(error)[:200]}", flush=True)
                totals["harness errors"] += 1
                continue
            state = (
                "failed"
                if outcome.failures
                else "fell back"
                if outcome.fallbacks
                else "passed"
                if outcome.passed
                else "nothing"
            )
            totals[state] += 1
            totals["cases passed"] += outcome.passed
            for text in outcome.fallbacks:
                fell[text.split("[")[0] + ":" + text.split(":", 1)[1]] += 1
            if state in ("failed", "fell back") or not arguments.failed:
                print(f"{label}: {state} {outcome.passed}", flush=True)
                for way, message in outcome.failures.items():
                    print(f"    {way}: {' '.join(message.split())}", flush=True)
                if outcome.fallbacks:
                    print(
                        "    fell back:",
                        "; ".join(f"{k} x{v}" for k, v in outcome.fallbacks.most_common(6)),
                        flush=True,
                    )
    print(dict(totals))
    for text, count in fell.most_common(60):
        print(f"  {count:4} {text}")


if __name__ == "__main__":
    main()
