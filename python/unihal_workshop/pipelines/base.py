"""What the workshop's PyTorch pipelines share: where parts come from, in how many bits, and where their weights lie."""

from __future__ import annotations

import os
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

# Nothing is ever downloaded: the libraries are told before they are imported.
os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TRANSFORMERS_OFFLINE", "1")

import torch
from torch import nn

from ..errors import DeviceError, ModelError
from ..inference import BaseInference, PlanStage
from ..optimizer.fusion import fuse
from ..optimizer.offload import LayerOffload, PartOffload
from ..optimizer.precision import dtype_of, set_precision
from ..optimizer.quantization import QuantizationReport, quantize, weight_bytes
from .random_weights import drawn_from_a_table
from .torchvision import make_importable

make_importable()

OFFLOADS = ("none", "parts", "layers")

#: Options that all pipelines have. README: docs/workshop-pipelines.md.
COMMON_OPTIONS: dict[str, Any] = {
    "variant": None,
    "bits": 0,
    "block_size": None,
    "skip": (),
    "offload": "none",
    "prefetch": 1,
    "resident_bytes": 0,
    "fuse": True,
    "precision": None,
}


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    """Modules that are made inside have parameters of this dtype."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


class TorchPipeline(BaseInference):
    """A pipeline of PyTorch modules (its parts), with the workshop's optimizations as options.

    | option | |
    |---|---|
    | `variant` | without a `source`: the configuration of this name, with random weights |
    | `bits` | weights in 8 or 4 bits; 0: as they are |
    | `block_size`, `skip` | as of `quantize` |
    | `offload` | `"parts"`: one part on the device at a time; `"layers"`: layers come while others compute |
    | `prefetch`, `resident_bytes` | as of `LayerOffload`, for each part |
    | `fuse` | norms with their activation in one op |
    | `precision` | `{part: {pattern: dtype}}` as of `set_precision` |
    """

    option_defaults: ClassVar[Mapping[str, Any]] = COMMON_OPTIONS
    #: What `Optimizer` tries, by name, as options.
    optimizations: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "float16": {"dtype": "float16"},
        "8 bit": {"bits": 8},
        "4 bit": {"bits": 4},
        "offload parts": {"offload": "parts"},
        "offload layers": {"offload": "layers"},
    }

    def __init__(
        self,
        source: str | Path | Mapping[str, Any] | None = None,
        *,
        device: str = "rdna",
        dtype: str | None = None,
        **options: Any,
    ) -> None:
        super().__init__(source, device=device, dtype=dtype, **options)
        if self.options["bits"] not in (0, 8, 4):
            raise ModelError(f"the option bits is {self.options['bits']!r}; expected 0, 8 or 4")
        if self.options["offload"] not in OFFLOADS:
            raise ModelError(f"the option offload is {self.options['offload']!r}; expected {', '.join(OFFLOADS)}")
        if dtype is not None:
            dtype_of(dtype)
        self.reports: dict[str, QuantizationReport] = {}
        self._parts: dict[str, Any] = {}
        self._offload: PartOffload | None = None

    @property
    def torch_dtype(self) -> torch.dtype:
        """The dtype that parts compute in: what was asked for, or float16, and float32 on the CPU."""
        if self.dtype is not None:
            return dtype_of(self.dtype)
        return torch.float32 if self.device.startswith("cpu") else torch.float16

    # -- what a pipeline is -----------------------------------------------------------------------------------------

    @abstractmethod
    def _make_parts(self) -> dict[str, nn.Module]:
        """The parts by name, on the current default device (host or `meta`), in `torch_dtype`.

        From the folder or the configuration in `source`. On the device `meta` no weights may be read.
        """

    def _assemble(self, parts: Mapping[str, nn.Module]) -> None:
        """Called with the finished parts, before they are placed."""

    # -- loading ----------------------------------------------------------------------------------------------------

    @property
    def folder(self) -> Path | None:
        """The folder that the model comes from; None where it comes from a configuration. ModelError if it is none."""
        if self.source is None or isinstance(self.source, Mapping):
            return None
        folder = Path(self.source)
        if not folder.is_dir():
            raise ModelError(f"{folder}: there is no such folder; models are local folders, nothing is downloaded")
        return folder

    def given_configuration(self, default: str) -> dict[str, Any]:
        """The configuration in `source`, or `{"variant": ...}` of the option, or of the default."""
        variant = self.options["variant"]
        if self.source is None:
            return {"variant": variant or default}
        if variant is not None:
            raise ModelError(f"the option variant is {variant!r}, and there is a source: one of the two says the shape")
        assert isinstance(self.source, Mapping)
        return dict(self.source)

    def _finished_parts(self) -> dict[str, nn.Module]:
        """Parts made, fused, in few bits and in their precision, on the default device."""
        with torch.random.fork_rng(devices=[]), default_dtype(torch.float32), drawn_from_a_table():
            torch.manual_seed(0)
            parts = self._make_parts()
        for name, part in parts.items():
            part.eval().requires_grad_(False)
            if self.options["fuse"]:
                fuse(part)
            if self.options["bits"]:
                is_meta = next(part.parameters()).is_meta
                report = quantize(
                    part,
                    self.options["bits"],
                    block_size=self.options["block_size"],
                    skip=self.options["skip"],
                    measure=not is_meta,
                )
                if not is_meta:
                    self.reports[name] = report
        for name, rules in (self.options["precision"] or {}).items():
            if name not in parts:
                raise ModelError(f"the option precision names {name!r}; the parts are {', '.join(parts)}")
            set_precision(parts[name], rules)
        return parts

    def _load(self) -> None:
        self._check_device()
        self._parts = self._finished_parts()
        self._assemble(self._parts)
        if self.options["offload"] == "none":
            for part in self._parts.values():
                part.to(self.device)
        else:
            self._begin_offload()

    def _begin_offload(self) -> None:
        parts: dict[str, nn.Module | LayerOffload] = dict(self._parts)
        if self.options["offload"] == "layers":
            parts = {
                name: LayerOffload(
                    part, self.device, prefetch=self.options["prefetch"], resident_bytes=self.options["resident_bytes"]
                )
                for name, part in self._parts.items()
            }
        self._offload = PartOffload(parts, self.device)

    def _unload(self) -> None:
        if self._offload is not None:
            self._offload.release()
        self._offload = None
        self._parts = {}
        self.reports = {}

    def _check_device(self) -> None:
        try:
            device = torch.device(self.device)
        except RuntimeError as error:
            kind = self.device.partition(":")[0]
            how = f"; UNIHAL_TORCH_DEVICE={kind} asks for it" if kind in ("rdna", "iluvatar", "polaris") else ""
            raise DeviceError(f"PyTorch knows no device {self.device!r}{how}: {error}") from error
        if device.type == "cpu":
            if self.options["offload"] != "none":
                raise ModelError("offload: the weights are in host memory already; the device is the CPU")
            return
        functions = getattr(torch, device.type, None)
        if functions is None or not functions.is_available():
            raise DeviceError(
                f"PyTorch has no device {self.device!r} here; `unihal doctor` says why, and UNIHAL_BACKEND=stub asks "
                "for the one without hardware"
            )

    def use(self, name: str) -> None:
        """Makes a part ready on the device, where parts come and go."""
        if self._offload is not None:
            self._offload.use(name)

    def modules(self) -> dict[str, Any]:
        """The parts by name."""
        return dict(self._parts)

    def replace_module(self, name: str, module: Any) -> None:
        """Puts another module in a part's place; it is moved to where the part's weights belong."""
        if name not in self._parts:
            raise ModelError(f"{self.name} has no part {name!r}; there are {', '.join(self._parts)}")
        if self._offload is not None:
            self._offload.release()
        self._parts[name] = module
        self._assemble(self._parts)
        if self.options["offload"] == "none":
            module.to(self.device)
        else:
            self._begin_offload()

    def weight_bytes(self) -> int:
        """Bytes of all parts' weights, wherever they lie."""
        return sum(weight_bytes(part) for part in self._parts.values())

    # -- planning ---------------------------------------------------------------------------------------------------

    def plan_parts(self) -> dict[str, nn.Module]:
        """The parts as they will run, without memory: on the device `meta`."""
        with torch.device("meta"):
            return self._finished_parts()

    def stage(
        self, name: str, module: nn.Module, *args: Any, repeats: int = 1, part: nn.Module | None = None, **kwargs: Any
    ) -> PlanStage:
        """A stage of a plan, of a part or a module around it; its weights are there for the whole run unless parts come
        and go."""
        offload = self.options["offload"]
        return PlanStage(
            name,
            module,
            args,
            kwargs,
            repeats,
            resident=offload == "none",
            part=part,
            prefetch=self.options["prefetch"] if offload == "layers" else None,
            resident_bytes=self.options["resident_bytes"],
        )
