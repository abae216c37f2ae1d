"""Execution providers of ONNX Runtime: which are there, which is best, and sessions on them.

The one place that knows of unihal's own provider: `unihal.onnxruntime.register` gives ONNX Runtime's devices of it.
"""

from __future__ import annotations

import functools
import importlib
import platform
import sys
import threading
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import onnxruntime as ort

from .errors import ModelError, ProviderError
from .naming import nearest


@dataclass(frozen=True)
class ProviderRow:
    """A provider: our name, ONNX Runtime's, what people call it, and the option that limits its memory in bytes."""

    name: str
    runtime_name: str
    title: str
    memory_option: str | None = None


PROVIDERS = {
    row.name: row
    for row in (
        ProviderRow("tensorrt", "TensorrtExecutionProvider", "TensorRT", "trt_max_workspace_size"),
        ProviderRow("cuda", "CUDAExecutionProvider", "CUDA", "gpu_mem_limit"),
        ProviderRow("rocm", "ROCMExecutionProvider", "ROCm", "gpu_mem_limit"),
        ProviderRow("migraphx", "MIGraphXExecutionProvider", "MIGraphX", "migraphx_mem_limit"),
        ProviderRow("unihal", "UnihalExecutionProvider", "unihal", "memory_limit"),
        ProviderRow("coreml", "CoreMLExecutionProvider", "CoreML"),
        ProviderRow("directml", "DmlExecutionProvider", "DirectML"),
        ProviderRow("openvino", "OpenVINOExecutionProvider", "OpenVINO"),
        ProviderRow("cpu", "CPUExecutionProvider", "CPU"),
    )
}
CPU = PROVIDERS["cpu"]

_ORDERS = {
    "apple": ("coreml", "cpu"),
    "windows": ("tensorrt", "cuda", "directml", "openvino", "cpu"),
    "other": ("tensorrt", "cuda", "rocm", "migraphx", "unihal", "coreml", "directml", "openvino", "cpu"),
}


@dataclass(frozen=True)
class Choice:
    """The provider that was taken; `warnings` say what was asked for and is not there."""

    provider: ProviderRow
    devices: tuple[Any, ...] = ()  # of a provider from a library: ONNX Runtime's devices
    warnings: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """Our name of it."""
        return self.provider.name

    @property
    def device_count(self) -> int:
        """Devices that it can run on; 1 where ONNX Runtime does not tell."""
        return max(1, len(self.devices))


@dataclass(frozen=True)
class ProviderState:
    """Whether a provider is there, and if not, why."""

    provider: ProviderRow
    available: bool
    reason: str = ""


@dataclass(frozen=True)
class SessionSettings:
    """How a session is made: the device's ordinal, a limit of memory in bytes, threads (0: ONNX Runtime's choice)."""

    ordinal: int = 0
    memory: int | None = None
    threads: int = 0
    optimize: bool = True
    config: dict[str, str] = field(default_factory=dict)


_registering = threading.Lock()


@functools.lru_cache(maxsize=1)
def _register_unihal() -> tuple[tuple[Any, ...], str]:
    """Registers unihal's provider once a process: its devices, or none and the reason."""
    with _registering:
        try:
            # By its name: unihal may be installed without it.
            register = importlib.import_module("unihal.onnxruntime").register
        except ImportError as error:
            return (), f"unihal's provider is not installed: {error}"
        try:
            found = tuple(register())
            # One card may appear as several of unihal's device types: those of the first type are different ones.
            kinds = [device.ep_metadata.get("unihal.device_type") for device in found]
            found = tuple(device for device, kind in zip(found, kinds) if kind == kinds[0])
        except Exception as error:  # whatever a library does, the others stay usable
            return (), " ".join(str(error).split()) or type(error).__name__
        return found, "" if found else "no device was found (`unihal doctor` says why)"


def for_memory(choice: Choice, memory: int | None) -> Choice:
    """The choice, with a warning if a limit of memory is asked for that its provider cannot keep."""
    row = choice.provider
    if memory is None or row is CPU or row.memory_option is not None:
        return choice
    warning = f"{row.title} has no option that limits its memory: the limit is not kept"
    return replace(choice, warnings=(*choice.warnings, warning))


class DeviceMemory:
    """What this process takes of a device's memory from now on; of other providers than unihal's nothing is known.

    Work that goes on at the same time on the device counts, too.
    """

    def __init__(self, choice: Choice, ordinal: int) -> None:
        self._device: Any = None
        self._before = 0
        if choice.name == "unihal" and choice.devices:
            metadata = choice.devices[ordinal % len(choice.devices)].ep_metadata
            place = f"{metadata['unihal.device_type']}:{metadata['unihal.ordinal']}"
            self._device = importlib.import_module("unihal").device(place)
            self._device.reset_peak_memory_stats()
            self._before = self._device.memory_stats().allocated_bytes

    def peak(self) -> int:
        """Bytes that were taken at most; 0 where that is not known."""
        if self._device is None:
            return 0
        peak: int = self._device.memory_stats().peak_allocated_bytes
        return max(0, peak - self._before)


def unihal_refusals() -> dict[str, str]:
    """Why unihal's provider left ops of this process's models to the CPU, by op; empty without it."""
    if not _register_unihal()[0]:
        return {}
    fallbacks = importlib.import_module("unihal.fallbacks").fallbacks()
    return {entry.op: entry.reason for entry in fallbacks if entry.framework == "onnxruntime"}


class ProviderManager:
    """What can run models in this process.

    `system` and `machine` are those of the platform unless given, `available` the names that ONNX Runtime reports.
    """

    def __init__(
        self, system: str | None = None, machine: str | None = None, available: list[str] | None = None
    ) -> None:
        self._system = system or platform.system()
        self._machine = (machine or platform.machine()).lower()
        self._available = ort.get_available_providers() if available is None else available

    def order(self) -> tuple[str, ...]:
        """Our names of the providers that are tried on this platform, the best first."""
        if self._system == "Darwin" and self._machine in ("arm64", "aarch64"):
            return _ORDERS["apple"]
        return _ORDERS["windows" if self._system == "Windows" else "other"]

    def states(self) -> list[ProviderState]:
        """Each provider of the order, and why it cannot be used if so."""
        result = []
        for name in self.order():
            row = PROVIDERS[name]
            if name == "unihal":
                devices, reason = _register_unihal()
                result.append(ProviderState(row, bool(devices), reason))
            elif row.runtime_name in self._available:
                result.append(ProviderState(row, True))
            else:
                result.append(ProviderState(row, False, "not in this build of ONNX Runtime"))
        return result

    def get_available_providers(self) -> list[str]:
        """Our names of the providers that are there, the best first."""
        return [state.provider.name for state in self.states() if state.available]

    def get_best_provider(self, preferred: str | None = None) -> Choice:
        """The preferred provider, or the best that is there; that the preferred one is missing is a warning.

        A name that is no provider's at all is a ProviderError.
        """
        wanted = None if preferred in (None, "auto") else preferred
        if wanted is not None and wanted not in PROVIDERS:
            raise ProviderError(f"{wanted!r} is no provider{nearest(wanted, PROVIDERS)}")
        states = {state.provider.name: state for state in self.states()}
        available = [name for name, state in states.items() if state.available]
        if wanted in available:
            return self._choice(wanted)
        if not available:
            raise ProviderError("ONNX Runtime has no provider at all, not even CPU: install it anew")
        if wanted is None:
            return self._choice(available[0])
        why = states[wanted].reason if wanted in states else f"not on {self._system} {self._machine}"
        taken = PROVIDERS[available[0]]
        warning = f"{PROVIDERS[wanted].title} cannot be used ({why}); {taken.title} was taken"
        return self._choice(available[0], (warning,))

    def _choice(self, name: str, warnings: tuple[str, ...] = ()) -> Choice:
        devices = _register_unihal()[0] if name == "unihal" else ()
        return Choice(PROVIDERS[name], devices, warnings)


def make_session(model: Path | bytes, choice: Choice, settings: SessionSettings) -> ort.InferenceSession:
    """A session on a provider, with the CPU's behind it for what it does not take.

    What ONNX Runtime refuses of the model is a ModelError.
    """
    options = ort.SessionOptions()
    options.log_severity_level = 3
    if settings.threads:
        options.intra_op_num_threads = settings.threads
    if not settings.optimize:
        options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    # Threads that spin between two inferences take the cores of everything else on the machine.
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    for key, value in settings.config.items():
        options.add_session_config_entry(key, value)
    source = str(model) if isinstance(model, Path) else model
    row = choice.provider
    provider_options: dict[str, str] = {}
    if settings.memory is not None and row.memory_option is not None:
        provider_options[row.memory_option] = str(settings.memory)
    try:
        if choice.devices:
            device = choice.devices[settings.ordinal % len(choice.devices)]
            options.add_provider_for_devices([device], provider_options)
            session = ort.InferenceSession(source, options)
        else:
            if row is not CPU and settings.ordinal:
                provider_options["device_id"] = str(settings.ordinal)
            providers: list[Any] = [(row.runtime_name, provider_options)] if row is not CPU else []
            session = ort.InferenceSession(source, options, providers=[*providers, CPU.runtime_name])
    except Exception as error:  # ONNX Runtime's classes have no common base
        raise ModelError(f"ONNX Runtime does not take the model: {plain_message(error)}") from None
    # ONNX Runtime would try again on the CPU by itself, without a word.
    session.disable_fallback()
    return session


def plain_message(error: BaseException) -> str:
    """ONNX Runtime's message on one line, without its codes and places in its sources."""
    text = " ".join(str(error).split())
    if text.startswith("[ONNXRuntimeError]"):
        text = text.split(" : ", 3)[-1]
    return text[:500]


def taken_providers(session: ort.InferenceSession) -> list[str]:
    """ONNX Runtime's names of the providers of a session."""
    return list(session.get_providers())


def versions() -> dict[str, str]:
    """Versions of what runs models, for reports."""
    return {"onnxruntime": ort.__version__, "python": ".".join(map(str, sys.version_info[:3]))}
