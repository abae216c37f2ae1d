"""Holds a plan against a run: the same model on the stub with the card's profile, in a process of its own."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..cards.profiles import SYSTEM_RESERVE, Card
from ..errors import DeviceError, ModelError
from ..importing import import_files
from ..inference import BaseInference
from .sources import load_source

_MARK = "unihal-workshop-check:"


@dataclass(frozen=True)
class Measured:
    """What a run on the stub came to: bytes as the allocator counts them, or the report of the request it refused."""

    fits: bool
    peak_bytes: int
    reserved_bytes: int
    seconds: float
    report: str = ""


def measure(
    source: str,
    card: Card,
    *,
    reserve: int = SYSTEM_RESERVE,
    batch: int | None = None,
    training: bool | None = None,
    dtype: str | None = None,
    inputs: Mapping[str, Any] | None = None,
    options: Mapping[str, Any] | None = None,
    imports: Sequence[str] = (),
    timeout: float = 600,
) -> Measured:
    """Runs `file.py:function` on the stub with a card's profile, and `reserve` off its memory; PyTorch models only.

    Or a registered model with its `inputs` and `options`, after files that register models (`imports`).

    `batch` is the number of samples in place of the inputs' own (of zeros). The card's memory is really taken of the
    host.
    """
    arguments = [source]
    for name, value in (("batch", batch), ("dtype", dtype)):
        arguments += [f"--{name}", str(value)] if value is not None else []
    arguments += ["--training"] if training else []
    arguments += ["--inputs", json.dumps(dict(inputs or {})), "--options", json.dumps(dict(options or {}))]
    arguments += [word for path in imports for word in ("--import", path)]
    with card.stub_environment(reserve) as variables:
        kept = {name: value for name, value in os.environ.items() if not name.startswith("UNIHAL_STUB")}
        try:
            process = subprocess.run(
                [sys.executable, "-m", "unihal_workshop.planning.check", *arguments],
                env={**kept, **variables},
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise DeviceError(f"the run of {source} took more than {timeout:g} s") from None
    for line in process.stdout.splitlines():
        if line.startswith(_MARK):
            return Measured(**json.loads(line[len(_MARK) :]))
    raise ModelError(f"the run of {source} ended with {process.returncode}: {process.stderr.strip()[-2000:]}")


def run_module(
    model: Any,
    inputs: Any,
    *,
    training: bool = False,
    loss: Any = None,
    optimizer: Any = None,
    device: str = "rdna",
    repeats: int = 1,
) -> None:
    """Runs what a plan is of: the model moved to the device, its inputs too, then forward, or whole steps of
    training."""
    import torch
    from torch.utils import _pytree as pytree

    from .torch_trace import mean_of_output

    args, kwargs = ((), dict(inputs)) if isinstance(inputs, dict) else (tuple(inputs), {})
    model = model.to(device)
    args, kwargs = pytree.tree_map(
        lambda leaf: leaf.to(device) if isinstance(leaf, torch.Tensor) else leaf, (args, kwargs)
    )
    module = getattr(torch, device.partition(":")[0])
    module.reset_peak_memory_stats()
    if not training:
        with torch.no_grad():
            for _ in range(repeats):
                output = model(*args, **kwargs)
                del output
        return
    steps = optimizer([p for p in model.parameters() if p.requires_grad]) if optimizer is not None else None
    for _ in range(repeats):
        value = (loss or mean_of_output)(model(*args, **kwargs))
        value.backward()
        if steps is not None:
            steps.step()
        del value
        model.zero_grad(set_to_none=True)


def _measure_inference(model: BaseInference, inputs: Mapping[str, Any]) -> None:
    """A registered model as `workshop run` would run it."""
    import time

    import torch

    card = getattr(torch, model.device.partition(":")[0])
    start, report, peak = time.monotonic(), "", 0
    try:
        peak = model.run(inputs, seed=0).peak_bytes
    except torch.OutOfMemoryError as error:
        report = str(error)
    peak = peak or card.max_memory_allocated()
    result = Measured(not report, peak, card.max_memory_reserved(), time.monotonic() - start, report)
    print(_MARK + json.dumps(result.__dict__), flush=True)


def _main() -> None:
    import time

    import torch
    from torch.utils import _pytree as pytree

    parser = argparse.ArgumentParser()
    parser.add_argument("source")
    parser.add_argument("--batch", type=int)
    parser.add_argument("--dtype")
    parser.add_argument("--training", action="store_true")
    parser.add_argument("--inputs", type=json.loads, default={})
    parser.add_argument("--options", type=json.loads, default={})
    parser.add_argument("--import", dest="imports", action="append", default=[])
    options = parser.parse_args()
    torch.backends.mha.set_fastpath_enabled(False)
    torch.manual_seed(0)
    import_files(options.imports)
    source = load_source(options.source, options.inputs or None, options.options)
    if isinstance(source.model, BaseInference):
        _measure_inference(source.model, source.inputs)
        return
    if source.options.get("checkpointing"):
        from ..optimizer.checkpointing import checkpoint

        checkpoint(source.model)
    training = options.training or bool(source.options.get("training"))
    axis = source.options.get("batch_axis", 0)
    dtype = getattr(torch, options.dtype or source.options.get("dtype") or "float32")

    def prepared(leaf: Any) -> Any:
        if not isinstance(leaf, torch.Tensor):
            return leaf
        shape = list(leaf.shape)
        if options.batch is not None and len(shape) > axis:
            shape[axis] = options.batch
        wanted = dtype if leaf.is_floating_point() else leaf.dtype
        return torch.zeros(shape, dtype=wanted) if options.batch or leaf.is_meta else leaf.to(wanted)

    model = source.model.to(dtype) if dtype != torch.float32 else source.model
    start, report = time.monotonic(), ""
    card = getattr(torch, "rdna")  # noqa: B009 - the plugin's module, which PyTorch's types do not know
    try:
        run_module(
            model,
            pytree.tree_map(prepared, source.inputs),
            training=training,
            loss=source.options.get("loss"),
            optimizer=source.options.get("optimizer"),
            repeats=2 if training else 1,
        )
        card.synchronize()
    except torch.OutOfMemoryError as error:
        report = str(error)
    result = Measured(
        not report,
        card.max_memory_allocated(),
        card.max_memory_reserved(),
        time.monotonic() - start,
        report,
    )
    print(_MARK + json.dumps(result.__dict__), flush=True)


if __name__ == "__main__":
    _main()
