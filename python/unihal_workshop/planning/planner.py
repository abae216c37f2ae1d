"""From a model of any kind to its plan."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from ..cards.profiles import SYSTEM_RESERVE, Card, find_card
from ..errors import InputError, ModelError
from ..inference import BaseInference, PlanStage
from .batches import largest_batch
from .offloading import brought
from .plan import CALLS, COMMANDS, NOTHING, Plan, make_plan
from .trace import Trace
from .transforms import joined

DTYPES = ("float32", "float16", "bfloat16", "float64")


def plan(
    model: Any,
    inputs: Any = (),
    card: str | Path | Card = "rx580-4gb",
    *,
    training: bool = False,
    dtype: str | None = None,
    loss: Callable[[Any], Any] | None = None,
    optimizer: Callable[[Any], Any] | None = None,
    reserve: int = SYSTEM_RESERVE,
    batch_axis: int | None = 0,
    find_batch: bool = True,
    checkpointing: bool = False,
) -> Plan:
    """Plans a run of a model on a card.

    `model`: a `torch.nn.Module`, a `torch.export.ExportedProgram`, a Keras model, a `BaseInference`, or the path of a
    `.onnx`, `.pt2` or `.keras` file. `inputs`: for modules a tuple of arguments or a mapping of keyword arguments,
    tensors on any device, `meta` included; for ONNX a mapping of names to shapes, for Keras a shape or a list of
    them; for a BaseInference the inputs of its `run`. `training` plans forward, `loss(output)`, backward and a step
    of `optimizer(parameters)`. `reserve`: bytes that the system keeps of the card. `batch_axis`: the axis that counts
    samples in every input tensor (None: none does); `find_batch=False` leaves out the search for the largest batch.
    `checkpointing`: layers compute their activations again (`optimizer.checkpoint`), in training.

    Needs no card, no memory for the model's tensors, and runs no op. ModelError: what cannot be traced, and why.
    """
    found = find_card(card)
    if dtype is not None and dtype not in DTYPES:
        raise ModelError(f"dtype {dtype!r}: expected one of {', '.join(DTYPES)}")
    if isinstance(model, BaseInference):
        return _plan_inference(model, inputs, found, reserve, find_batch)
    if isinstance(model, (str, Path)):
        suffix = Path(model).suffix
        if suffix == ".onnx":
            return _plan_onnx(Path(model), inputs, found, reserve, find_batch and batch_axis is not None)
        if suffix == ".keras":
            from .keras_trace import load_keras

            model = load_keras(Path(model))
        elif suffix == ".pt2":
            model = _load_exported(Path(model))
        else:
            raise ModelError(f"{model}: expected a file that ends in .onnx, .pt2 or .keras")
    if _is_keras(model):
        return _plan_keras(model, inputs, found, reserve, training)
    return _plan_module(
        model,
        inputs,
        found,
        reserve,
        training,
        dtype,
        loss,
        optimizer,
        batch_axis if find_batch else None,
        batch_axis,
        checkpointing,
    )


def _is_keras(model: Any) -> bool:
    """A Keras model of another backend than PyTorch, whose models are modules of PyTorch."""
    return any(base.__module__.startswith("keras.") for base in type(model).__mro__) and not hasattr(
        model, "named_parameters"
    )


def _load_exported(path: Path) -> Any:
    import torch

    try:
        return torch.export.load(path)
    except Exception as error:  # a ZIP file, a pickle, a schema: each fails in its own way
        raise ModelError(f"{path} is no exported program: {type(error).__name__}: {error}") from None


def _arguments(inputs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(inputs, Mapping):
        return (), dict(inputs)
    if isinstance(inputs, Sequence) and not isinstance(inputs, str):
        return tuple(inputs), {}
    return (inputs,), {}


def _plan_module(
    model: Any,
    inputs: Any,
    card: Card,
    reserve: int,
    training: bool,
    dtype: str | None,
    loss: Callable[[Any], Any] | None,
    optimizer: Callable[[Any], Any] | None,
    search_axis: int | None,
    batch_axis: int | None,
    checkpointing: bool,
) -> Plan:
    import torch
    from torch.utils import _pytree as pytree

    from ..optimizer.checkpointing import checkpoint, repeated_layers
    from .torch_trace import trace_module

    name = type(model).__name__
    exported = isinstance(model, torch.export.ExportedProgram)
    if exported:
        if training:
            raise ModelError("an exported program is planned for inference: plan the module itself for training")
        name, model = "exported program", model.module()
    if not isinstance(model, torch.nn.Module):
        raise ModelError(
            f"{type(model).__name__} is nothing that can be planned: expected a module, a program or a file"
        )
    args, kwargs = _arguments(inputs)

    layers = training and bool(repeated_layers(model))
    if checkpointing and not layers:
        raise ModelError(f"{name} has no lists of layers that could compute their activations again, or does not train")

    def trace(cast: torch.dtype | None, batch: int | None = None, again: bool = checkpointing) -> Trace:
        given = (args, kwargs)
        if batch is not None and batch_axis is not None:
            given = pytree.tree_map(lambda leaf: _with_batch(leaf, batch, batch_axis), given)
        return trace_module(
            model, given[0], given[1], training=training, loss=loss, optimizer=optimizer, dtype=cast,
            repeats=2 if training else 1, prepare=checkpoint if again else None,
        )  # fmt: skip

    cast = getattr(torch, dtype) if dtype is not None else None
    main = trace(cast)
    present = cast or next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float32)
    half = trace(torch.float16) if present == torch.float32 and not training and not exported else None
    again = trace(cast, again=True) if layers and not checkpointing else None
    tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    batch = tensors[0].shape[batch_axis] if batch_axis is not None and tensors and tensors[0].dim() else None
    most = None
    if search_axis is not None and batch is not None and not exported:
        most = largest_batch(lambda samples: trace(cast, samples), card.available(reserve), card.largest(reserve))
    return make_plan(
        main,
        card,
        model=name,
        reserve=reserve,
        training=training,
        dtype=str(present).removeprefix("torch."),
        batch=int(batch) if batch is not None else None,
        largest_batch=most,
        half=half,
        settings=NOTHING if exported else CALLS,
        checkpointed=again,
    )


def _with_batch(leaf: Any, batch: int, axis: int) -> Any:
    import torch

    if not isinstance(leaf, torch.Tensor) or leaf.dim() <= axis:
        return leaf
    shape = list(leaf.shape)
    shape[axis] = batch
    return torch.empty(shape, dtype=leaf.dtype, device="meta")


def trace_stages(stages: Sequence[PlanStage]) -> Trace:
    """The trace of a pipeline: its stages one after the other."""
    return joined([_trace_stage(stage) for stage in stages])


def _trace_stage(stage: PlanStage) -> Trace:
    """Of a stage that is repeated two times are traced: the others take as much memory, and time as they do."""
    from .torch_trace import trace_module

    traced = min(stage.repeats, 2)
    trace = trace_module(stage.module, stage.args, stage.kwargs, repeats=traced, part=stage.part)
    trace.ops = [replace(op, times=stage.repeats / traced) for op in trace.ops]
    trace.spans = [
        replace(
            span,
            calls=stage.repeats,
            resident=stage.resident,
            prefetch=stage.prefetch,
            resident_bytes=stage.resident_bytes,
        )
        for span in trace.spans
    ]
    return trace


def _plan_inference(model: BaseInference, inputs: Any, card: Card, reserve: int, find_batch: bool) -> Plan:
    if inputs and not isinstance(inputs, Mapping):
        raise InputError(f"the inputs of {model.name} are a mapping of names to values, not {type(inputs).__name__}")
    given = model.check_inputs(dict(inputs or {}))
    stages = model.plan_stages(given)
    if not stages:
        raise ModelError(f"{model.name} says nothing of its parts (plan_stages), so it cannot be planned")
    batch = model.batch_of(given)
    most = None
    if find_batch and batch is not None:
        most = largest_batch(
            lambda samples: brought(trace_stages(model.plan_stages({**given, model.batch_input: samples}))).trace,
            card.available(reserve),
            card.largest(reserve),
        )
    return make_plan(
        trace_stages(stages),
        card,
        model=model.name,
        reserve=reserve,
        training=False,
        dtype=model.dtype or str(getattr(model, "torch_dtype", "its own dtypes")).removeprefix("torch."),
        batch=batch,
        largest_batch=most,
        settings=COMMANDS,
    )


def _plan_onnx(path: Path, inputs: Any, card: Card, reserve: int, find_batch: bool) -> Plan:
    from .onnx_trace import OnnxModel

    if inputs and not isinstance(inputs, Mapping):
        raise InputError("the inputs of an ONNX model are a mapping of names to shapes")
    model = OnnxModel(path, dict(inputs or {}))
    most = None
    if find_batch and model.batch is not None:
        most = largest_batch(model.trace, card.available(reserve), card.largest(reserve))
    return make_plan(
        model.trace(),
        card,
        model=path.name,
        reserve=reserve,
        training=False,
        dtype=model.dtype,
        batch=model.batch,
        largest_batch=most,
        settings=NOTHING,
    )


def _plan_keras(model: Any, inputs: Any, card: Card, reserve: int, training: bool) -> Plan:
    from .keras_trace import trace_keras

    if training:
        raise ModelError(
            "Keras models are planned for inference; on the backend torch they are modules, for training too"
        )
    trace, name, dtype, batch = trace_keras(model, inputs)
    return make_plan(
        trace,
        card,
        model=name,
        reserve=reserve,
        training=False,
        dtype=dtype,
        batch=batch,
        largest_batch=None,
        settings=NOTHING,
    )
