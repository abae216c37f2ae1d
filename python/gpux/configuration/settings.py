"""The settings of the program, and where each value comes from.

Defaults, the user's file, gpux.yml of the model, the environment (GPUX_*) and the command line, each before the next.
"""

from __future__ import annotations

import math
import os
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..errors import ConfigurationError
from ..naming import nearest
from .document import read_document
from .model_file import BACKENDS, LoadedFile
from .sizes import parse_bytes

PREFIX = "GPUX_"
#: Variables that are not settings: which file is the user's.
FILE_VARIABLE = "GPUX_CONFIG"


def _text(value: str) -> str:
    return value


def _path(value: str) -> str:
    return str(Path(value).expanduser())


def _memory(value: str) -> int:
    size = parse_bytes(value)
    if size <= 0:
        raise ValueError("expected more than 0 bytes")
    return size


def _whole(low: int, high: int) -> Callable[[str], int]:
    def parse(value: str) -> int:
        try:
            number = int(value)
        except ValueError:
            number = low - 1
        if not low <= number <= high:
            raise ValueError(f"{value[:40]!r}: expected a whole number from {low} to {high}")
        return number

    return parse


def _seconds(low: float, high: float) -> Callable[[str], float]:
    def parse(value: str) -> float:
        try:
            number = float(value)
        except ValueError:
            number = math.nan
        if not low <= number <= high:
            raise ValueError(f"{value[:40]!r}: expected a number from {low:g} to {high:g}")
        return number

    return parse


def _backend(value: str) -> str:
    if value not in BACKENDS:
        raise ValueError(f"{value[:40]!r} is no provider{nearest(value, BACKENDS)}")
    return value


@dataclass(frozen=True)
class Setting:
    """A row: its name, its default, how a text becomes a value (ValueError says what is expected), what it means."""

    name: str
    default: Any
    parse: Callable[[str], Any]
    meaning: str


SETTINGS = (
    Setting("provider", "auto", _backend, "the execution provider; auto takes the best that is there"),
    Setting("gpu_memory", None, _memory, "memory that a provider may take on its device"),
    Setting("threads", 0, _whole(0, 1024), "threads of one inference on the CPU; 0: ONNX Runtime's choice"),
    Setting("registry", "", _path, "the folder of built models; default ~/.local/share/gpux/models"),
    Setting("host", "127.0.0.1", _text, "the address to listen at"),
    Setting("port", 8080, _whole(0, 65535), "the port to listen at; 0: a free one"),
    Setting("max_workers", None, _whole(1, 256), "worker processes, spread over the devices; default: one a device"),
    Setting("batch_size", 8, _whole(1, 4096), "requests that are joined to one batch at most"),
    Setting("batch_delay", 0.0, _seconds(0, 10), "seconds that a request waits for others to join it"),
    Setting("queue_size", 256, _whole(1, 1_000_000), "requests of a model that wait at most; then 503"),
    Setting("timeout", 30.0, _seconds(0.001, 86400), "seconds until 504"),
    Setting("grace", 20.0, _seconds(0, 3600), "seconds that running requests have when the service is stopped"),
    Setting("max_body", 64 << 20, _memory, "bytes of a request at most; then 413"),
    Setting("memory_budget", None, _memory, "memory of all loaded models; idle ones are unloaded for others"),
    Setting("api_keys", "", _path, "a file of API keys, a line each: NAME KEY"),
    Setting("tls_certificate", "", _path, "a certificate's file (PEM): HTTPS"),
    Setting("tls_key", "", _path, "the certificate's key (PEM)"),
    Setting("tls_client_ca", "", _path, "who signs clients' certificates (PEM); clients without one are refused"),
    Setting("audit_log", "", _path, "a file to which each request is appended as a line of JSON"),
    Setting("otlp_endpoint", "", _text, "where OpenTelemetry traces go, over HTTP; none are made without it"),
)
_ROWS = {row.name: row for row in SETTINGS}


@dataclass(frozen=True)
class Value:
    """A value, and where it comes from: `default`, a file with its line, a variable, or an option."""

    value: Any
    source: str


@dataclass(frozen=True)
class Settings:
    """All settings; `settings["port"]` is a value, `settings.values["port"].source` where it comes from."""

    values: Mapping[str, Value]

    def __getitem__(self, name: str) -> Any:
        return self.values[name].value

    @property
    def registry(self) -> Path:
        """The folder of built models."""
        data = os.environ.get("XDG_DATA_HOME") or "~/.local/share"
        return Path(self["registry"] or Path(data).expanduser() / "gpux" / "models")

    def as_dict(self) -> dict[str, Any]:
        """The values alone."""
        return {name: value.value for name, value in self.values.items()}


def user_file() -> Path:
    """The user's file: $GPUX_CONFIG, or gpux/config.yml in the folder of configurations."""
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(os.environ.get(FILE_VARIABLE) or Path(folder) / "gpux" / "config.yml").expanduser()


def resolve(options: Mapping[str, Any] | None = None, model_file: LoadedFile | None = None) -> Settings:
    """Looks up every setting; `options` are those of the command line, None where one was not given.

    All mistakes come in one ConfigurationError. Unknown GPUX_* variables are named on stderr.
    """
    values = {row.name: Value(row.default, "default") for row in SETTINGS}
    problems: list[str] = []
    _take_user_file(values, problems)
    if model_file is not None:
        _take_model_file(values, model_file)
    _take_environment(values, problems)
    for name, value in (options or {}).items():
        if value is not None:
            _take(values, problems, name, str(value), f"--{name.replace('_', '-')}", f"--{name.replace('_', '-')}")
    if problems:
        raise ConfigurationError(problems)
    return Settings(values)


def _take(values: dict[str, Value], problems: list[str], name: str, text: str, source: str, label: str) -> None:
    try:
        values[name] = Value(_ROWS[name].parse(text), source)
    except ValueError as error:
        problems.append(f"{label}: {error}")


def _take_user_file(values: dict[str, Value], problems: list[str]) -> None:
    path = user_file()
    if not path.exists():
        if os.environ.get(FILE_VARIABLE):
            problems.append(f"{FILE_VARIABLE}: {path} is not there")
        return
    document = read_document(path)
    if document.data is None:
        return
    if not isinstance(document.data, dict):
        problems.append(f"{path}: expected settings, one a line: `port: 8080`")
        return
    for name in document.data:
        where = document.where((name,))
        if name not in _ROWS:
            problems.append(f"{where}: unknown setting {name}{nearest(name, _ROWS)}")
        elif (name,) not in document.texts:
            problems.append(f"{where}: {name}: expected one value, not a list or a mapping")
        else:
            _take(values, problems, name, document.texts[(name,)], where, f"{where}: {name}")


def _take_model_file(values: dict[str, Value], loaded: LoadedFile) -> None:
    model = loaded.model
    rows: list[tuple[str, Any, tuple[object, ...]]] = [
        ("gpu_memory", model.runtime.gpu.memory, ("runtime", "gpu", "memory")),
        ("batch_size", model.runtime.batch_size, ("runtime", "batch_size")),
        ("timeout", model.runtime.timeout, ("runtime", "timeout")),
        ("port", model.serving.port, ("serving", "port")),
        ("host", model.serving.host, ("serving", "host")),
        ("max_workers", model.serving.max_workers, ("serving", "max_workers")),
    ]
    if model.runtime.gpu.backend != "auto":
        rows.append(("provider", model.runtime.gpu.backend, ("runtime", "gpu", "backend")))
    for name, value, place in rows:
        if value is not None:
            values[name] = Value(value, loaded.where(*place))


def _take_environment(values: dict[str, Value], problems: list[str]) -> None:
    known = {PREFIX + name.upper(): name for name in _ROWS}
    for variable, text in sorted(os.environ.items()):
        if not variable.startswith(PREFIX) or variable == FILE_VARIABLE or not text:
            continue
        if variable not in known:
            print(f"gpux: {variable} is no variable of GPUX{nearest(variable, known)}", file=sys.stderr)
        else:
            _take(values, problems, known[variable], text, variable, variable)
