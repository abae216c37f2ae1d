"""PyTorch's database of modules: each is on the device what it is on the CPU.

The questions are those of PyTorch's own tests of modules for any device. `python tests/torch/test_modules.py` counts.
"""

from __future__ import annotations

import copy
import io
import os
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("UNIHAL_BACKEND", "stub")

import op_database
import pytest
import torch
from op_database import DEVICE, TOLERANCES, fallback_counts, to_device
from torch import nn
from torch.testing._internal.common_modules import ModuleInfo, module_db
from torch.utils._pytree import tree_flatten, tree_map

DTYPES = (torch.float32, torch.bfloat16)

#: Modules that draw numbers when they run.
RANDOM = ("nn.FractionalMaxPool2d", "nn.FractionalMaxPool3d")

#: Hundreds of combinations of what cross entropy and a linear layer do, for a third of all modules' time; and parts of
#: nn.Transformer.
LONG = ("nn.LinearCrossEntropyLoss", "nn.TransformerDecoderLayer", "nn.TransformerEncoder")

#: In `make test`; the others are `whole`.
SAMPLE = (
    "nn.Conv2d",
    "nn.BatchNorm2d",
    "nn.LayerNorm",
    "nn.LSTM",
    "nn.CTCLoss",
    "nn.Embedding",
)

Made = tuple[nn.Module, tuple[Any, ...], dict[str, Any]]


def made(info: ModuleInfo, dtype: torch.dtype, training: bool) -> Iterator[Made]:
    """The database's modules on the CPU, and what they are called with."""
    torch.manual_seed(0)
    inputs = info.module_inputs_func(info, device="cpu", dtype=dtype, requires_grad=True, training=training)
    for one in inputs:
        if one.forward_input is None:
            continue
        arguments = one.constructor_input
        module = info.module_cls(*arguments.args, **{**arguments.kwargs, **_of(info, dtype)})
        module.to(dtype).train(training)
        args, kwargs = one.forward_input.args, one.forward_input.kwargs
        if any(nn.parameter.is_lazy(p) for p in module.parameters()):
            module(*args, **kwargs)  # which makes its parameters
        yield module, args, kwargs


def _of(info: ModuleInfo, dtype: torch.dtype) -> dict[str, Any]:
    """Where and of what a module's parameters are made, if it takes that."""
    takes = "device" in info.module_cls.__init__.__code__.co_varnames
    return {"device": "cpu", "dtype": dtype} if takes else {}


def _leaves(value: Any) -> list[torch.Tensor]:
    return [leaf for leaf in tree_flatten(value)[0] if isinstance(leaf, torch.Tensor)]


def _detached(value: Any) -> Any:
    def copied(leaf: Any) -> Any:
        return leaf.detach().clone().requires_grad_(leaf.requires_grad) if isinstance(leaf, torch.Tensor) else leaf

    return tree_map(copied, value)


def _slopes(module: nn.Module, inputs: Any, result: Any) -> list[torch.Tensor | None]:
    given = [t for t in _leaves(result) if t.requires_grad]
    wanted = [t for t in (*_leaves(inputs), *module.parameters()) if t.requires_grad]
    if not given or not wanted:
        return []
    weights = [torch.linspace(-1, 1, t.numel(), dtype=torch.float64).reshape(t.shape).to(t.dtype) for t in given]
    return list(torch.autograd.grad(given, wanted, [w.to(t.device) for w, t in zip(weights, given)], allow_unused=True))


def _same(actual: Any, expected: Any, dtype: torch.dtype) -> None:
    rtol, atol = TOLERANCES[dtype]
    ours, theirs = tree_flatten(actual)[0], tree_flatten(expected)[0]
    assert len(ours) == len(theirs)
    for a, e in zip(ours, theirs):
        if not isinstance(e, torch.Tensor):
            assert type(a) is type(e)
            continue
        assert a.device.type == DEVICE and a.dtype == e.dtype
        torch.testing.assert_close(a.detach().cpu(), e.detach(), rtol=10 * rtol, atol=10 * atol, equal_nan=True)


def _moved(module: nn.Module, args: Any, kwargs: Any) -> Made:
    return copy.deepcopy(module).to(DEVICE), *to_device((args, kwargs))


def parity(info: ModuleInfo, made: Made, dtype: torch.dtype) -> None:
    """Results, gradients and buffers are the CPU's."""
    module, args, kwargs = made
    ours = _moved(module, args, kwargs)
    expected, actual = module(*args, **kwargs), ours[0](*ours[1], **ours[2])
    _same(actual, expected, dtype)
    _same(_slopes(ours[0], ours[1:], actual), _slopes(module, made[1:], expected), dtype)
    _same(list(ours[0].buffers()), list(module.buffers()), dtype)


def strides(info: ModuleInfo, made: Made, dtype: torch.dtype) -> None:
    """Inputs with gaps, and images with their channels last, give what dense ones give."""
    module, args, kwargs = made
    expected = copy.deepcopy(module)(*_detached(args), **_detached(kwargs))
    for view in (lambda t: torch.stack([t, t], -1)[..., 0], op_database._channels_last):
        net, our_args, our_kwargs = _moved(module, args, kwargs)

        def seen(leaf: Any, view: Callable[[torch.Tensor], torch.Tensor] = view) -> Any:
            return view(leaf.detach()) if isinstance(leaf, torch.Tensor) else leaf

        _same(net(*tree_map(seen, our_args), **tree_map(seen, our_kwargs)), expected, dtype)


def transfer(info: ModuleInfo, made: Made, dtype: torch.dtype) -> None:
    """To the device and back, the parameters stay the same objects with the same numbers."""
    module = copy.deepcopy(made[0])
    before = {name: (id(p), p.detach().clone()) for name, p in module.named_parameters()}
    module.to(DEVICE)
    assert all(t.device.type == DEVICE for t in (*module.parameters(), *module.buffers()))
    module.cpu()
    for name, parameter in module.named_parameters():
        assert id(parameter) == before[name][0] and torch.equal(parameter, before[name][1])


def saved(info: ModuleInfo, made: Made, dtype: torch.dtype) -> None:
    """torch.save and torch.load, whole and as a state, keep results."""
    module, args, kwargs = _moved(*made)
    module.eval()
    expected = copy.deepcopy(module).cpu()(*_detached(made[1]), **_detached(made[2]))
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    state = torch.load(file, map_location=DEVICE, weights_only=True)
    assert all(t.device.type == DEVICE for t in _leaves(state))
    fresh = copy.deepcopy(module)
    for parameter in fresh.parameters():
        torch.nn.init.zeros_(parameter)
    fresh.load_state_dict(state)
    _same(fresh(*args, **kwargs), expected, dtype)
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    _same(torch.load(file, weights_only=False)(*args, **kwargs), expected, dtype)


def in_place(info: ModuleInfo, made: Made, dtype: torch.dtype) -> None:
    """A module that may work in place gives there what it gives elsewhere."""
    module, args, kwargs = _moved(*made)
    if not hasattr(module, "inplace"):
        return
    expected = copy.deepcopy(module).cpu()(*_detached(made[1]), **_detached(made[2]))
    module.inplace = True
    first = args[0].detach().clone()
    result = module(first, *args[1:], **kwargs)
    assert result.data_ptr() == first.data_ptr()
    _same(result, expected, dtype)


QUESTIONS: dict[str, Callable[[ModuleInfo, Made, torch.dtype], None]] = {
    "parity": parity,
    "strides": strides,
    "transfer": transfer,
    "saved": saved,
    "in place": in_place,
}


def ask(info: ModuleInfo, dtype: torch.dtype) -> Counter[str]:
    """Asks all questions of a module's cases; AssertionError with the case where one fails. Counts what was asked."""
    found: Counter[str] = Counter()
    if dtype not in info.dtypes:
        return Counter({"a dtype that the database does not have": 1})
    modes = (True, False) if info.train_and_eval_differ else (True,)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for training in modes:
            for number, case in enumerate(made(info, dtype, training)):
                for question, check in QUESTIONS.items():
                    if info.name in RANDOM and question in ("parity", "strides", "saved"):
                        found[f"{question}: random numbers"] += 1
                        continue
                    before = fallback_counts()
                    try:
                        check(info, _again(case), dtype)
                    except Exception as error:
                        text = f"{info.name} {dtype} case {number} training={training} {question}"
                        raise AssertionError(f"{text}: {type(error).__name__}: {error}") from error
                    fallen = fallback_counts() - before
                    assert not fallen, f"{info.name} {dtype} case {number} {question}: {dict(fallen)}"
                    found[question] += 1
    return found


def _again(case: Made) -> Made:
    module, args, kwargs = case
    return copy.deepcopy(module), _detached(args), _detached(kwargs)


def _when(name: str) -> tuple[pytest.MarkDecorator, ...]:
    if name in SAMPLE:
        return ()
    return (pytest.mark.long if name in LONG else pytest.mark.whole,)


@pytest.mark.parametrize("name", [pytest.param(i.name, marks=_when(i.name)) for i in module_db])
def test_a_module_is_what_it_is_on_the_cpu(name: str) -> None:
    (info,) = [i for i in module_db if i.name == name]
    asked = ask(info, torch.float32)
    assert sum(asked.values()) > 0


@pytest.mark.long
@pytest.mark.parametrize("dtype", DTYPES[1:], ids=str)
def test_all_modules_in_other_dtypes(dtype: torch.dtype) -> None:
    total: Counter[str] = Counter()
    for info in module_db:
        total.update(ask(info, dtype))
    assert total["parity"] > 0


def main() -> None:
    """Counts, and what failed."""
    for dtype in DTYPES:
        total: Counter[str] = Counter()
        for info in module_db:
            try:
                total.update(ask(info, dtype))
            except AssertionError as wrong:
                total["failed"] += 1
                print(str(wrong)[:400].replace("\n", " "), file=sys.stderr)
        print(f"{len(module_db)} modules, {dtype}: {dict(total)}")


if __name__ == "__main__":
    main()
