"""One call of an op in one mode: eager, in a program of the new representation or of the old; forward and gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
from comparison import Array, flatten
from op_calls import OpCall
from paddle.base import core
from paddle.base.framework import OpProtoHolder

NARROW = ("float16", "bfloat16")
Results = tuple[list[Any], list[Any]]
VarType = core.VarDesc.VarType
#: How the old representation calls dtypes.
OLD_DTYPES = {
    "bool": VarType.BOOL, "uint8": VarType.UINT8, "int8": VarType.INT8, "int16": VarType.INT16, "int32": VarType.INT32,
    "int64": VarType.INT64, "float16": VarType.FP16, "bfloat16": VarType.BF16, "float32": VarType.FP32,
    "float64": VarType.FP64, "complex64": VarType.COMPLEX64, "complex128": VarType.COMPLEX128,
}  # fmt: skip


class UnbuildableError(Exception):
    """The mode has no form for the call, on no device."""


def is_tensor(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def replace(value: Any, function: Callable[[Array], Any]) -> Any:
    """The arguments with a function of each array in its place."""
    if isinstance(value, (list, tuple)):
        return type(value)(replace(item, function) for item in value)
    return function(value) if is_tensor(value) else value


def weight(shape: Any, dtype: str) -> Array:
    """What a result's gradient is: differs from element to element, so that no error cancels out."""
    drawn = np.random.RandomState(7).uniform(0.5, 2, tuple(shape)).astype("float32")
    return drawn.astype(dtype) if "complex" in dtype else drawn


def dtype_of(tensor: Any) -> str:
    return str(tensor.dtype).split(".")[-1]


def wide(tensor: Any) -> Array:
    return tensor.astype("float32").numpy() if dtype_of(tensor) in NARROW else tensor.numpy()


def is_differentiable(dtype: str) -> bool:
    return dtype.startswith(("float", "bfloat", "complex"))


def on_place(arguments: tuple[Any, ...]) -> tuple[Any, ...]:
    """The arguments with places turned to the device in force."""
    here = paddle.framework._current_expected_place()
    return tuple(here if isinstance(argument, core.Place) else argument for argument in arguments)


def run_eager(call: OpCall, narrow: str, gradient: bool, layout: Callable[[Any], Any] = lambda x: x) -> Results:
    """As the call is; arrays of float32 as `narrow`, if that is not empty."""
    leaves: list[Any] = []

    def given(array: Array) -> Any:
        tensor = paddle.to_tensor(array)
        if narrow and array.dtype == np.float32:
            tensor = tensor.astype(narrow)
        tensor = layout(tensor)
        if gradient and is_differentiable(dtype_of(tensor)):
            tensor.stop_gradient = False
            leaves.append(tensor)
            return tensor.clone() if call.op.endswith("_") else tensor  # no leaf may be written to
        return tensor

    arguments = replace(on_place(call.arguments), given)
    results = [r for r in flatten(getattr(paddle._C_ops, call.op)(*arguments)) if isinstance(r, paddle.Tensor)]
    results = [r for r in results if r._is_initialized()]
    roots = [r for r in results if not r.stop_gradient and is_differentiable(dtype_of(r))] if leaves else []
    if roots:
        weights = [paddle.to_tensor(weight(r.shape, dtype_of(r))).astype(r.dtype) for r in roots]
        paddle.autograd.backward(roots, weights)
    gradients = [leaf.grad if roots else None for leaf in leaves]
    return [wide(r) for r in results], [None if g is None else wide(g) for g in gradients]


class Graph:
    """What both kinds of programs share: fed arrays, weighted results, gradients of what was fed."""

    def __init__(self, narrow: str, gradient: bool) -> None:
        self.narrow, self.gradient = narrow, gradient
        self.feed: dict[str, Array] = {}
        self.leaves: list[Any] = []

    def given(self, array: Array) -> Any:
        name = f"x{len(self.feed)}"
        self.feed[name] = array
        variable = paddle.static.data(name, array.shape, str(array.dtype))
        if self.gradient and is_differentiable(str(array.dtype)):
            variable.stop_gradient = False
            self.leaves.append(variable)
        return paddle.cast(variable, self.narrow) if self.narrow and array.dtype == np.float32 else variable

    def run(self, main: Any, results: list[Any], place: Any) -> Results:
        roots = [r for r in results if not r.stop_gradient and is_differentiable(dtype_name(r))] if self.leaves else []
        gradients = []
        if roots:
            targets, weights = [], []
            for root in roots:
                if -1 in root.shape:  # known at the run: a scalar whose gradient differs from element to element
                    targets.append((0.7 * root * root + root).sum())
                    weights.append(None)
                    continue
                targets.append(root)
                fed = weight(root.shape, dtype_name(root))
                name = f"w{len(weights)}"
                self.feed[name] = fed
                weights.append(paddle.static.data(name, fed.shape, str(fed.dtype)).astype(dtype_name(root)))
            gradients = paddle.static.gradients(targets, self.leaves, weights)
        widened = [
            None if r is None else paddle.cast(r, "float32") if dtype_name(r) in NARROW else r
            for r in [*results, *gradients]
        ]
        fetch = [w for w in widened if w is not None]
        fetched = iter(paddle.static.Executor(place).run(main, feed=self.feed, fetch_list=fetch))
        values = [None if w is None else as_numbers(next(fetched)) for w in widened]
        return values[: len(results)], values[len(results) :]


def as_numbers(fetched: Any) -> Any:
    """What was fetched; the bits of bfloat16, which some ops do not declare, as float32."""
    return (fetched.astype("uint32") << 16).view("float32") if getattr(fetched, "dtype", None) == np.uint16 else fetched


def dtype_name(variable: Any) -> str:
    name = str(variable.dtype).split(".")[-1].lower()
    return {"fp32": "float32", "fp64": "float64", "fp16": "float16", "bf16": "bfloat16"}.get(name, name)


def place_of(device: str) -> Any:
    return paddle.CPUPlace() if device == "cpu" else paddle.CustomPlace(device, 0)


def run_new(call: OpCall, narrow: str, gradient: bool, device: str) -> Results:
    with paddle.pir_utils.IrGuard():
        main = paddle.static.Program()
        with paddle.static.program_guard(main, paddle.static.Program()):
            graph = Graph(narrow, gradient)
            arguments = replace(on_place(call.arguments), graph.given)
            try:
                made = flatten(getattr(paddle._C_ops, call.op)(*arguments))
            except (TypeError, ValueError, AttributeError) as error:
                raise UnbuildableError(str(error)) from error
            results = [r for r in made if isinstance(r, paddle.pir.Value) and r.initialized()]
            return graph.run(main, results, place_of(device))


def old_types() -> dict[str, list[str]]:
    """The types of ops of the old representation by the kernels that they run."""
    types: dict[str, list[str]] = {}
    for name in OpProtoHolder.instance().op_proto_map:
        types.setdefault(core._get_phi_kernel_name(name), []).append(name)
    return types


OLD_TYPES = old_types()
#: Where Paddle's own inference of shapes ends the process: these have attributes that programs keep twice.
ENDS_THE_PROCESS = ("strided_slice",)
#: What an output writes over, where its name is not the input's with Out behind it.
WRITTEN = {"Out": "X", "LossScaling": "PrevLossScaling", "OutGoodSteps": "InGoodSteps", "OutBadSteps": "InBadSteps"}
NO_ATTRIBUTES = {"use_cudnn", "use_mkldnn", "use_onednn", "seed"}


#: How the old representation keeps attributes: texts, lists.
TEXT, LISTS = 2, (3, 4, 5, 11, 12, 14)


def old_attribute(value: Any, kind: int) -> Any:
    if isinstance(value, paddle.dtype):
        return int(OLD_DTYPES[str(value).split(".")[-1]])
    if kind == TEXT:
        return str(value)
    return [value] if kind in LISTS and not isinstance(value, (list, tuple)) else value


def append_old(call: OpCall, type_: str, graph: Graph, block: Any) -> list[Any]:
    """The results of an op whose inputs and attributes have the order of paddle._C_ops's arguments."""
    proto = OpProtoHolder.instance().get_op_proto(type_)
    slots = [slot for slot in proto.inputs if not slot.extra]
    arguments = list(call.arguments)
    inputs: dict[str, Any] = {}
    while slots and arguments and (arguments[0] is None or is_tensor(flatten(arguments[0])[0])):
        slot, argument = slots.pop(0), arguments.pop(0)
        if argument is not None:
            inputs[slot.name] = [graph.given(array) for array in flatten(argument)]
    arguments = [argument for argument in arguments if not isinstance(argument, core.Place)]
    if any(is_tensor(part) for argument in arguments for part in flatten(argument)):
        raise UnbuildableError("attributes that are tensors")
    slots = [a for a in proto.attrs if not a.extra and a.name not in NO_ATTRIBUTES]
    if len(arguments) > len(slots):
        raise UnbuildableError(f"{len(arguments)} attributes for {[a.name for a in slots]}")
    given = zip(slots, arguments)
    attributes = {slot.name: old_attribute(value, slot.type) for slot, value in given if value is not None}
    outputs: dict[str, list[Any]] = {}
    several = max((len(variables) for variables in inputs.values()), default=1)
    for slot in proto.outputs:
        over = WRITTEN.get(slot.name, slot.name.removesuffix("Out"))
        written = inputs.get(over) if call.op.endswith("_") else None
        if slot is proto.outputs[0] and slot.duplicable and not any(s.duplicable for s in proto.inputs):
            raise UnbuildableError("as many results as an attribute says")
        count = several if slot.duplicable else 1
        outputs[slot.name] = written or [block.create_var(name=f"made_{slot.name}_{i}") for i in range(count)]
    block.append_op(type=type_, inputs=inputs, outputs=outputs, attrs=attributes)
    visible = [slot.name for slot in proto.outputs if not slot.intermediate and not slot.extra]
    return [made for name in visible for made in outputs[name] if made.shape is not None]


def run_old(call: OpCall, narrow: str, gradient: bool, device: str) -> Results:
    """By the first type of the old representation's ops that takes the call."""
    if call.op in ENDS_THE_PROCESS:
        raise UnbuildableError("it ends the process")
    problems = []
    name = call.op if call.op in OLD_TYPES else call.op.removesuffix("_")
    for type_ in sorted(OLD_TYPES.get(name, []), key=lambda t: (not t.endswith("2"), t)):
        with paddle.pir_utils.OldIrGuard():
            main = paddle.static.Program()
            with paddle.static.program_guard(main, paddle.static.Program()):
                graph = Graph(narrow, gradient)
                try:
                    results = append_old(call, type_, graph, main.global_block())
                except Exception as error:
                    problems.append(f"{type_}: {error}")
                    continue
                return graph.run(main, results, place_of(device))
    raise UnbuildableError("; ".join(problems) or "no such op")


def run(call: OpCall, mode: str, device: str, narrow: str, gradient: bool, view: bool = False) -> Results:
    """Results and gradients in a mode: "eager", "new" or "old"."""
    previous = paddle.get_device()
    paddle.set_device(device)
    try:
        if mode == "eager":
            return run_eager(call, narrow, gradient, strided if view else lambda x: x)
        paddle.enable_static()
        try:
            return (run_new if mode == "new" else run_old)(call, narrow, gradient, device)
        finally:
            paddle.disable_static()
    finally:
        paddle.set_device(previous)


def strided(tensor: Any) -> Any:
    """The same numbers as a view whose elements lie apart."""
    if not tensor.shape:
        return tensor
    return paddle.stack([tensor, tensor], -1)[..., 0]
