"""Traces of PyTorch programs: the program itself runs, on fake tensors, and each storage's life is written down.

Fake tensors have shapes and dtypes and no memory, and Python holds and drops them where it would hold and drop real
ones: what a local variable keeps alive, what autograd saves for the backward pass and what it lets go of are seen as
they are. An exported graph would show the last use of a tensor instead, which is earlier (docs/decisions.md).
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

from ..errors import InputError, ModelError
from ..offload_units import Part
from ..optimizer.offload import part_of
from .trace import Op, Span, Tensor, Trace
from .workspaces import workspaces_of

#: Modules whose weight can be kept in 8 or 4 bits, from 4096 numbers on; convolutions take them unpacked.
QUANTIZABLE = (torch.nn.Linear, torch.nn.Embedding, torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
_UNPACKED = (torch.nn.Conv1d, torch.nn.Conv2d, torch.nn.Conv3d)
_LEAST_ELEMENTS = 4096


def planning_device() -> str:
    """The device on which programs are traced: that of the adapter if it is there, else the CPU's rules."""
    name = torch._C._get_privateuse1_backend_name()
    module = getattr(torch, name, None)
    return name if module is not None and module.is_available() else "cpu"


_ATTENTION = "_scaled_dot_product_fused_attention_overrideable"


def _attention(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The op's results as the adapter gives them: with dropout the weights where PyTorch's rule has their sums."""
    results = func(*args, **kwargs)
    dropout = args[4] if len(args) > 4 else kwargs.get("dropout_p", 0.0)
    if not dropout:
        return results
    query, key = args[:2]
    return results[0], query.new_empty((*query.shape[:3], key.shape[2])), *results[2:]


@contextmanager
def _linear_of_real_tensors() -> Iterator[None]:
    """A linear layer's way with real tensors: PyTorch's C++ adds the bias out of place for every subclass of Tensor.

    The function itself is replaced, for a mode of PyTorch's is off in functions that call it (multi-head attention).
    """
    composed = torch.nn.functional.linear

    def linear(*args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) == 3 and args[2] is not None:
            value, weight, bias = args
            if value.dim() > 2 and not value.is_contiguous():
                return torch.matmul(value, weight.t()).add_(bias)
        return composed(*args, **kwargs)

    torch.nn.functional.linear = linear
    try:
        yield
    finally:
        torch.nn.functional.linear = composed


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down every storage that an op makes, and when the last reference to it goes."""

    def __init__(self, trace: Trace, device: str) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.trace = trace
        self.device = device
        self.category = "activations"
        self.modules: list[str] = []
        self.numbers: dict[int, int] = {}
        self._references: dict[int, Any] = {}
        self._recording = True

    def _is_ours(self, tensor: Any) -> bool:
        return isinstance(tensor, FakeTensor) and tensor.fake_device.type == self.device

    def number_of(self, tensor: torch.Tensor) -> int | None:
        """The number of a tensor's storage in the trace, if it is known."""
        return self.numbers.get(tensor.untyped_storage()._cdata)

    def see(self, tensor: torch.Tensor, op: str, category: str | None = None) -> int:
        """Writes down a tensor's storage, if it is new; gives its number."""
        storage = tensor.untyped_storage()
        key = storage._cdata
        if key in self.numbers:
            return self.numbers[key]
        number = self.trace.add(
            Tensor(
                int(storage.nbytes()),
                category or self.category,
                op,
                self.modules[-1] if self.modules else "",
                str(tensor.dtype).removeprefix("torch."),
                tuple(int(length) for length in tensor.shape),
            )
        )
        self.numbers[key] = number

        def gone(_: object) -> None:
            self.numbers.pop(key, None)
            self._references.pop(number, None)
            if self._recording:
                self.trace.drop(number)

        self._references[number] = weakref.ref(storage, gone)
        return number

    def stop(self) -> None:
        """What goes from now on is no part of the trace."""
        self._recording = False

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        name = func.name().removeprefix("aten::")
        if name.startswith("prim::"):
            return func(*args, **kwargs)
        inputs = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        is_ours = name == _ATTENTION and self.device != "cpu"
        out = _attention(func, args, kwargs) if is_ours else func(*args, **kwargs)
        outputs = [leaf for leaf in pytree.tree_leaves(out) if isinstance(leaf, torch.Tensor)]
        ours = [tensor for tensor in outputs if self._is_ours(tensor)]
        if not ours and not any(self._is_ours(tensor) for tensor in inputs):
            return out
        known = [tensor for tensor in ours if tensor.untyped_storage()._cdata in self.numbers]
        extra = workspaces_of(name, args, kwargs, out) if self.device != "cpu" else []
        held = [self.trace.add(Tensor(size, "workspace", name, self._module())) for size in extra]
        for tensor in ours:
            self.see(tensor, name)
        for number in held:
            self.trace.drop(number)
        if func.is_view or (known and len(known) == len(ours) and not func._schema.is_mutable):
            return out
        self.trace.end_op(self._cost(func, name, args, kwargs, out, inputs, outputs))
        return out

    def _module(self) -> str:
        return self.modules[-1] if self.modules else ""

    def _cost(
        self,
        func: Any,
        name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        out: Any,
        inputs: Sequence[torch.Tensor],
        outputs: Sequence[torch.Tensor],
    ) -> Op:
        count = flop_registry.get(func._overloadpacket)
        try:
            operations = int(count(*args, **kwargs, out_val=out)) if count is not None else 0
        except (TypeError, ValueError, AssertionError, RuntimeError):
            operations = 0  # an op whose formula does not take these operands is bound by its bytes
        moved = sum(tensor.numel() * tensor.element_size() for tensor in (*inputs, *outputs))
        if not operations:
            operations = sum(tensor.numel() for tensor in outputs)
        numbers = (self.number_of(tensor) for tensor in inputs)
        weights = tuple(n for n in numbers if n is not None and self.trace.tensors[n].category == "weights")
        return Op(name, self._module(), operations, int(moved), weights)


def _like(tensor: torch.Tensor, device: str, dtype: torch.dtype | None = None) -> torch.Tensor:
    wanted = dtype if dtype is not None and tensor.is_floating_point() else tensor.dtype
    return torch.empty_strided(
        tensor.shape, tensor.stride(), dtype=wanted, device=device, requires_grad=tensor.requires_grad
    )


def _in_order(module: torch.nn.Module) -> Iterator[tuple[torch.nn.Module, dict[str, Any], str]]:
    """Modules, their dictionary of tensors and the name in it, in the order in which `module.to` moves them."""
    for child in module.children():
        yield from _in_order(child)
    for name, parameter in module._parameters.items():
        if parameter is not None:
            yield module, module._parameters, name
    for name, buffer in module._buffers.items():
        if buffer is not None:
            yield module, module._buffers, name


def _fake_module(
    module: torch.nn.Module, recorder: _Recorder, dtype: torch.dtype | None, part: torch.nn.Module | None
) -> tuple[torch.nn.Module, Part]:
    """A copy of a module with fake parameters and buffers, whose storages are the trace's weights; and how offload
    would divide it, or a part of it."""
    memo: dict[int, Any] = {}
    for owner, table, name in _in_order(module):
        tensor = table[name]
        if id(tensor) in memo:
            continue
        fake: torch.Tensor = _like(tensor.detach(), recorder.device, dtype)
        number = recorder.see(fake, "load", "weights")
        entry = recorder.trace.tensors[number]
        entry.key = id(tensor)
        entry.elements = tensor.numel()
        entry.module = name
        large = name == "weight" and tensor.numel() >= _LEAST_ELEMENTS
        entry.quantizable = large and isinstance(owner, QUANTIZABLE)
        entry.unpacked = large and isinstance(owner, _UNPACKED)
        if isinstance(tensor, torch.nn.Parameter):
            fake = torch.nn.Parameter(fake, requires_grad=tensor.requires_grad)
        memo[id(tensor)] = fake
    try:
        copied = copy.deepcopy(module, memo)
    except Exception as error:
        raise ModelError(
            f"{type(module).__name__} cannot be copied for the trace ({type(error).__name__}: {error}); "
            "plan it before hooks or engines are attached to it"
        ) from error
    names = {id(parameter): name for name, parameter in copied.named_parameters()}
    names.update({id(buffer): name for name, buffer in copied.named_buffers()})
    for fake in list(memo.values()):
        if isinstance(fake, torch.Tensor) and id(fake) in names:
            known = recorder.number_of(fake)
            if known is not None:
                recorder.trace.tensors[known].module = names[id(fake)]
    # `deepcopy` writes down in the memo what became of each module.
    divided = memo.get(id(part), copied) if part is not None else copied
    return copied, part_of(divided, recorder.number_of, keep=False)


def _fake_inputs(values: Any, recorder: _Recorder, dtype: torch.dtype | None) -> Any:
    def fake(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            made = _like(leaf, recorder.device, dtype)
            recorder.see(made, "input", "inputs")
            return made
        return leaf

    return pytree.tree_map(fake, values)


@contextmanager
def _module_names(module: torch.nn.Module, recorder: _Recorder) -> Iterator[None]:
    """The recorder knows which module an op runs in."""
    handles = []
    for name, child in module.named_modules():

        def enter(_: Any, __: Any, name: str = name) -> None:
            recorder.modules.append(name)

        def leave(_: Any, __: Any, ___: Any) -> None:
            recorder.modules.pop()

        handles.append(child.register_forward_pre_hook(enter))
        handles.append(child.register_forward_hook(leave))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def mean_of_output(output: Any) -> torch.Tensor:
    """The loss that a plan of training assumes where none is given: the mean of the first floating-point output."""
    for leaf in pytree.tree_leaves(output):
        if isinstance(leaf, torch.Tensor) and leaf.is_floating_point():
            return leaf.float().mean()
    raise ModelError("training cannot be planned: the model has no floating-point output")


def trace_module(
    module: torch.nn.Module,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    training: bool = False,
    loss: Callable[[Any], torch.Tensor] | None = None,
    optimizer: Callable[[Any], torch.optim.Optimizer] | None = None,
    dtype: torch.dtype | None = None,
    repeats: int = 1,
    device: str | None = None,
    part: torch.nn.Module | None = None,
    prepare: Callable[[torch.nn.Module], object] | None = None,
) -> Trace:
    """Traces a module: loaded, its inputs moved to the card, then run `repeats` times.

    Forward without gradients; with `training` forward, `loss(output)` (the mean of the first output if none is
    given), backward, and a step of `optimizer(parameters)` where one is given; gradients are set to None before each
    repeat after the first. The module and the tensors stay as they are, wherever they lie (device `meta` serves).
    `dtype` casts parameters and inputs of floating point, as `module.to(dtype)` would. `part`: the module within whose
    weights offload would bring, where `module` is more than it. `prepare` may change the module that is traced, a copy.
    """
    trace = Trace()
    device = device or planning_device()
    recorder = _Recorder(trace, device)
    with ExitStack() as stack:
        stack.enter_context(FakeTensorMode(allow_non_fake_inputs=True))
        fake, divided = _fake_module(module, recorder, dtype, part)
        if prepare is not None:
            prepare(fake)
        fake_args = _fake_inputs(tuple(args), recorder, dtype)
        fake_kwargs = _fake_inputs(dict(kwargs or {}), recorder, dtype)
        trace.start = len(trace.events)
        stack.enter_context(_linear_of_real_tensors())
        stack.enter_context(recorder)
        stack.enter_context(_module_names(fake, recorder))
        try:
            if training:
                _train(fake, fake_args, fake_kwargs, loss or mean_of_output, optimizer, repeats, recorder)
            else:
                _infer(fake, fake_args, fake_kwargs, repeats)
        except (ModelError, InputError):
            raise
        except Exception as error:
            place = recorder.modules[-1] if recorder.modules else type(module).__name__
            raise ModelError(
                f"the trace failed in {place or type(module).__name__}: {type(error).__name__}: {error}; what depends "
                "on the values of tensors cannot be planned, and inputs must be what the model takes"
            ) from error
        finally:
            recorder.stop()
    trace.spans.append(Span(divided, 0, len(trace.ops), repeats))
    if device == "cpu":
        trace.notes.append("traced by the CPU's rules: unihal's device is not there, so ops may be composed otherwise")
    return trace


def _infer(module: torch.nn.Module, args: Any, kwargs: Any, repeats: int) -> None:
    with torch.no_grad():
        for _ in range(repeats):
            output = module(*args, **kwargs)
            del output


def _train(
    module: torch.nn.Module,
    args: Any,
    kwargs: Any,
    loss: Callable[[Any], torch.Tensor],
    optimizer: Callable[[Any], torch.optim.Optimizer] | None,
    repeats: int,
    recorder: _Recorder,
) -> None:
    steps = optimizer([p for p in module.parameters() if p.requires_grad]) if optimizer is not None else None
    if steps is not None and recorder.device != "cpu":
        for group in steps.param_groups:
            if "foreach" in group and group["foreach"] is None and not group.get("fused"):
                group["foreach"] = True  # PyTorch's choice on a device, but not for a subclass of Tensor
    for _ in range(repeats):
        recorder.category = "activations"
        value = loss(module(*args, **kwargs))
        value.backward()  # type: ignore[no-untyped-call]
        for parameter in module.parameters():
            if parameter.grad is not None:
                number = recorder.number_of(parameter.grad)
                if number is not None:
                    recorder.trace.tensors[number].category = "gradients"
        if steps is not None:
            recorder.category = "optimizer"
            steps.step()
        del value
        if repeats > 1:
            module.zero_grad(set_to_none=True)
