"""Numbers outside of what they index, in every operand of integers that PyTorch's op database has: where launches have
computed when they return, as on the fast stub, the call itself raises what the CPU raises."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.utils._pytree as pytree
from beside_cpu import COMPUTES_AT_ONCE, DEVICE
from op_rows import ON_DEVICE
from torch.testing._internal.common_methods_invocations import op_db

pytestmark = pytest.mark.skipif(
    not COMPUTES_AT_ONCE,
    reason="other devices find such a number later (test_refusals.py)",
)

OUTSIDE = (10**6, -(10**6), -1, -2)

#: What `make test` tries.
SOME = (
    "gather",
    "scatter_add",
    "index_select",
    "index_add",
    "take",
    "nn.functional.embedding",
    "nn.functional.nll_loss",
)

#: The CPU reads and writes what is not its own.
UNCHECKED_ON_THE_CPU = {"nn.functional.ctc_loss", "_segment_reduce"}

#: What may differ: the op, the operand's number and what is found; and why.
ALLOWED = {
    ("nn.functional.embedding_bag", 3, "RuntimeError instead of IndexError"): "offsets that fall",
    ("nn.functional.embedding_bag", 1, "IndexError instead of RuntimeError"): "max_norm looks at the rows first",
    ("tensor_split", 1, "RuntimeError instead of None"): "PyTorch wants these on the CPU",
}


def _moved(tree: Any, device: str) -> Any:
    return pytree.tree_map(lambda x: x.to(device) if isinstance(x, torch.Tensor) else x, tree)


def _outcome(op: Any, arguments: Any, device: str) -> tuple[Exception | None, list[torch.Tensor]]:
    given, others, named = _moved(arguments, device)
    torch.manual_seed(0)
    try:
        results = pytree.tree_leaves(op(given, *others, **named))
    except Exception as error:
        return error, []
    return None, [result.detach().cpu() for result in results if isinstance(result, torch.Tensor)]


def _difference(op: Any, arguments: Any) -> str | None:
    expected, theirs = _outcome(op, arguments, "cpu")
    found, ours = _outcome(op, arguments, DEVICE)
    torch.accelerator.synchronize()  # nothing is left for who waits next
    if expected is not None or found is not None:
        if type(expected) is type(found):
            return None
        names = (type(error).__name__ if error is not None else "None" for error in (found, expected))
        return " instead of ".join(names)
    try:
        torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5, equal_nan=True)
    except AssertionError as error:
        return str(error)
    return None


def _calls(name: str) -> Iterator[tuple[Any, int, int, Any]]:
    """The op, an operand's number, the number in it that is outside, and all arguments."""
    for entry in op_db:
        if entry.name != name or torch.float32 not in entry.supported_dtypes("cpu"):
            continue
        for sample in list(entry.sample_inputs("cpu", torch.float32))[:12]:
            leaves, form = pytree.tree_flatten((sample.input, list(sample.args), dict(sample.kwargs)))
            for i, leaf in enumerate(leaves):
                is_index = isinstance(leaf, torch.Tensor) and leaf.dtype in (torch.int32, torch.int64)
                for number in OUTSIDE if is_index and leaf.numel() else ():
                    for place in (0, -1):
                        operand = leaf.clone(memory_format=torch.contiguous_format)
                        operand.view(-1)[place] = number
                        yield entry.op, i, number, pytree.tree_unflatten([*leaves[:i], operand, *leaves[i + 1 :]], form)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("names", [SOME, pytest.param(ON_DEVICE, marks=pytest.mark.whole)], ids=["some", "all"])
def test_the_call_refuses_what_the_cpu_refuses(names: list[str]) -> None:
    found, calls = set(), 0
    for name in names:
        for op, operand, number, arguments in _calls(name) if name not in UNCHECKED_ON_THE_CPU else ():
            calls += 1
            difference = _difference(op, arguments)
            if difference is not None and (name, operand, difference) not in ALLOWED:
                found.add(f"{name}, operand {operand}, {number}: {difference}")
    assert not found, "\n".join(sorted(found))
    assert calls > 300, "operands of integers are not found"


def test_the_message_is_of_this_call() -> None:
    x, index = torch.zeros(4, 3, device=DEVICE), torch.tensor([[0, 9, 1]], device=DEVICE)
    with pytest.raises(RuntimeError, match="^gather: .*index 9 is out of range for an axis of length 4"):
        x.gather(0, index)
    assert x.gather(0, index.clamp_max(3)).sum().item() == 0, "the error stayed"
