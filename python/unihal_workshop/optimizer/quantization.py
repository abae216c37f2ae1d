"""Models with weights of 8 or 4 bits, and the error that it makes: per layer, and in the end.

report = quantize(model, bits=4, calibration=[(images,)])
print(report.to_markdown())
"""

from __future__ import annotations

import fnmatch
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ..errors import ModelError
from .calibration import Observation, Observer, call, first_output
from .weights import Format, QuantizedModule, TiedLinear, replacement

#: Columns a scale where the caller does not say: 4 bits by blocks (a channel's weights differ too much), 8 by channel.
DEFAULT_BLOCKS = {8: 0, 4: 64}


@dataclass(frozen=True)
class LayerError:
    """One layer that was quantized.

    `weight_error` is the Frobenius norm of the weights' change over that of the weights; `output_error` the same of
    the layer's output on an example of its inputs (None without calibration, or if the layer never ran). Bytes are of
    weights, scales and zero points; `float16_bytes` those of the weights in float16.
    """

    name: str
    kind: str
    bits: int
    block_size: int
    elements: int
    float16_bytes: int
    stored_bytes: int
    weight_error: float
    output_error: float | None = None


@dataclass
class QuantizationReport:
    """What a quantization did: its layers, the model's bytes, and the error in the end.

    `float16_bytes` and `stored_bytes` are of all weights of the model, those that were left alone included. `error` is
    the norm of the change of the model's output over the norm of the output, on the calibration set; None without one.
    `skipped` has the names of layers that could have been quantized and were left out.
    """

    bits: int
    block_size: int
    layers: list[LayerError] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)
    float16_bytes: int = 0
    stored_bytes: int = 0
    error: float | None = None

    @property
    def ratio(self) -> float:
        """The model's bytes over what it takes in float16."""
        return self.stored_bytes / self.float16_bytes if self.float16_bytes else 1.0

    def to_dict(self) -> dict[str, Any]:
        """As plain data, for JSON."""
        return {**asdict(self), "ratio": self.ratio}

    def to_markdown(self, most: int = 20) -> str:
        """The layers with the largest errors, as a table, and the model as a whole."""
        width = f"blocks of {self.block_size}" if self.block_size else "per channel"
        lines = [
            f"{len(self.layers)} layers in {self.bits} bits, {width}: {self.stored_bytes / 2**20:.1f} MiB, "
            f"{self.ratio:.3f} of float16's {self.float16_bytes / 2**20:.1f} MiB"
            + ("" if self.error is None else f"; error of the output {self.error:.2e}"),
            "",
            "| layer | kind | elements | of float16 | error of weights | error of output |",
            "|---|---|---|---|---|---|",
        ]
        by_error = sorted(self.layers, key=lambda layer: layer.output_error or layer.weight_error, reverse=True)
        for layer in by_error[:most]:
            output = "" if layer.output_error is None else f"{layer.output_error:.2e}"
            lines.append(
                f"| {layer.name} | {layer.kind} | {layer.elements} | {layer.stored_bytes / layer.float16_bytes:.3f} "
                f"| {layer.weight_error:.2e} | {output} |"
            )
        if len(by_error) > most:
            lines.append(f"| and {len(by_error) - most} more | | | | | |")
        return "\n".join(lines)


def weight_bytes(model: nn.Module) -> int:
    """Bytes of a model's parameters and buffers, each storage counted once."""
    seen: dict[Any, int] = {}
    for tensor in (*model.parameters(), *model.buffers()):
        key = id(tensor) if tensor.is_meta else (tensor.device, tensor.data_ptr(), tensor.numel())
        seen[key] = tensor.numel() * tensor.element_size()
    return sum(seen.values())


def float16_bytes(model: nn.Module) -> int:
    """What a model's weights take with floating ones in float16; of quantized layers what they stand for."""
    inside = {id(tensor) for module in _quantized(model).values() for tensor in module.buffers()}
    total: int = 2 * sum(module.stored.shape[0] * module.columns for module in _quantized(model).values())
    seen: set[int] = set()
    for tensor in (*model.parameters(), *model.buffers()):
        if id(tensor) in inside or id(tensor) in seen:
            continue
        seen.add(id(tensor))
        total += tensor.numel() * (2 if tensor.is_floating_point() else tensor.element_size())
    return total


def _quantized(model: nn.Module) -> dict[str, Any]:
    return {
        name: module
        for name, module in model.named_modules()
        if isinstance(module, QuantizedModule) and not isinstance(module, TiedLinear)
    }


def quantizable(
    model: nn.Module, skip: Sequence[str] = (), min_elements: int = 4096
) -> tuple[dict[str, Any], list[str]]:
    """The layers that `quantize` would take, by name, and the names of those left out by `skip`'s patterns."""
    layers: dict[str, Any] = {}
    skipped = []
    for name, module in model.named_modules():
        is_layer = isinstance(module, (nn.Linear, nn.Embedding)) or type(module).__name__ == "Conv1D"
        is_layer |= isinstance(module, nn.modules.conv._ConvNd) and not getattr(module, "transposed", False)
        if not is_layer or not isinstance(getattr(module, "weight", None), Tensor):
            continue
        weight: Any = module.weight
        if weight.numel() < min_elements or not weight.is_floating_point():
            continue
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in skip):
            skipped.append(name)
            continue
        layers[name] = module
    return layers, skipped


def quantize(
    model: nn.Module,
    bits: int = 8,
    *,
    block_size: int | None = None,
    symmetric: bool = True,
    calibration: Iterable[Any] | None = None,
    skip: Sequence[str] = (),
    min_elements: int = 4096,
    measure: bool = True,
    on_layer: Callable[[str, int, int], None] | None = None,
) -> QuantizationReport:
    """Replaces linear layers, convolutions and embeddings by ones with weights of 8 or 4 bits, in place.

    `block_size`: columns that share a scale, a power of two from 16; 0: the whole channel; None: by channel for 8 bits,
    64 for 4. `calibration`: samples to run the model on, each a tuple of arguments, a mapping of keywords or the one
    argument; scales are then chosen for the inputs that come, and errors of outputs are measured. `skip`: patterns of
    names to leave alone (`"*.to_out*"`). Layers below `min_elements` weights are left alone. `measure=False` leaves out
    the error of the weights. `on_layer` is called with a name, a number and how many there are before each layer.

    The layers' device and dtype stay: quantize on the host, then move what is left to the card. On the device `meta`
    the result is for planning. Weights that two layers share stay shared. The model cannot be trained afterwards, but
    gradients pass through it to its inputs.
    """
    form = Format(bits, DEFAULT_BLOCKS.get(bits, 0) if block_size is None else block_size, symmetric)
    if not isinstance(model, nn.Module):
        raise ModelError(f"quantize: expected a torch.nn.Module, not {type(model).__name__}")
    layers, skipped = quantizable(model, skip, min_elements)
    report = QuantizationReport(bits, form.block_size, skipped=skipped, float16_bytes=float16_bytes(model))
    samples = None if calibration is None else list(calibration)
    observers: dict[str, Observer] = {}
    before: list[Tensor] = []
    was_training = model.training
    model.eval()
    if samples is not None:
        with Observation(layers) as observation:
            before = observation.run(model, samples)
        observers = observation.observers
    parents = {
        f"{name}.{child}" if name else child: (module, child)
        for name, module in model.named_modules()
        for child, _ in module.named_children()
    }
    shared: dict[int, QuantizedModule] = {}
    for number, (name, module) in enumerate(layers.items()):
        if on_layer is not None:
            on_layer(name, number, len(layers))
        observer = observers.get(name)
        importance = observer.importance() if observer is not None else None
        weight: Any = module.weight
        tied = shared.get(id(weight))
        if isinstance(module, nn.Embedding):
            importance = None
        made = replacement(module, form, importance, share=tied)
        if made is None:
            report.skipped.append(name)
            continue
        shared[id(weight)] = made
        report.layers.append(_layer_error(name, module, made, observer, measure, tied is not None))
        if name in parents:
            parent, child = parents[name]
            setattr(parent, child, made)
        else:
            raise ModelError("quantize: the model is a single layer; put it into a torch.nn.Sequential")
    if samples is not None:
        with torch.no_grad():
            after = [first_output(call(model, sample)) for sample in samples]
        report.error = relative_error(before, after)
    model.train(was_training)
    report.stored_bytes = weight_bytes(model)
    return report


def relative_error(expected: Sequence[Tensor], found: Sequence[Tensor]) -> float:
    """The norm of the differences over the norm of what is expected, over all tensors together."""
    difference = sum(float((a.double() - b.double()).square().sum()) for a, b in zip(expected, found))
    size = sum(float(a.double().square().sum()) for a in expected)
    return (difference / size) ** 0.5 if size else float(difference > 0)


def _layer_error(
    name: str, module: Any, made: QuantizedModule, observer: Observer | None, measure: bool, tied: bool
) -> LayerError:
    stored = 0 if tied else sum(b.numel() * b.element_size() for b in made.buffers())
    weight = module.weight.detach()
    if type(module).__name__ == "Conv1D":
        weight = weight.t()
    weight_error, output_error = 0.0, None
    if measure and not weight.is_meta:
        flat = weight.flatten(1)
        difference = size = 0.0
        dense = made.dense(flat.dtype)
        for rows, other in zip(flat.split(256), dense.split(256)):
            difference += float((rows.float() - other.float()).square().sum())
            size += float(rows.float().square().sum())
        weight_error = (difference / size) ** 0.5 if size else 0.0
        if observer is not None and observer.example is not None and not isinstance(module, nn.Embedding):
            output_error = _output_error(module, weight, dense, observer.example)
    kind = type(module).__name__
    form = made.form
    return LayerError(
        name, kind, form.bits, form.block_size, weight.numel(), 2 * weight.numel(), stored, weight_error, output_error
    )


def _output_error(module: Any, weight: Tensor, dense: Tensor, example: Tensor) -> float:
    """The relative change of a layer's output on an example, without its bias, on the host in float32."""
    old, new = weight.to("cpu", torch.float32), dense.to("cpu", torch.float32).view(weight.shape)
    if isinstance(module, nn.modules.conv._ConvNd):
        convolve = {1: functional.conv1d, 2: functional.conv2d, 3: functional.conv3d}[example.dim() - 2]
        # What is cut out of an image may be smaller than the kernel: it is padded as the layer pads.
        outputs = [convolve(example, w, None, module.stride, module.padding, module.dilation, module.groups)
                   for w in (old, new)]  # fmt: skip
    else:
        outputs = [functional.linear(example, w) for w in (old, new)]
    return relative_error(outputs[:1], outputs[1:])


__all__ = [
    "DEFAULT_BLOCKS",
    "LayerError",
    "QuantizationReport",
    "float16_bytes",
    "quantizable",
    "quantize",
    "relative_error",
    "weight_bytes",
]
