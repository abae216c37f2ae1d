"""Defaults, a preset, the user's file, the environment and the command line, each before the next."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Annotated, Any, Literal, Optional

import yaml
from gpux.configuration.document import Document, Place, parse_document, read_document
from gpux.configuration.sizes import parse_bytes
from gpux.configuration.validation import explain, fields_of
from gpux.errors import ConfigurationError as GPUXConfigurationError
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from ..errors import ConfigurationError
from ..naming import nearest

PREFIX = "WORKSHOP_"
#: Variables that are not settings: which file is the user's.
FILE_VARIABLE = "WORKSHOP_CONFIG"
_HERE = "unihal_workshop.configuration"


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _memory(value: Any) -> Any:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError("expected an amount of memory, for example 512M, 2GB or a number of bytes")
    return parse_bytes(value)


_Bytes = Annotated[int, BeforeValidator(_memory), Field(ge=0)]
_Limit = Annotated[Optional[int], BeforeValidator(_memory)]
_Side = Annotated[int, Field(ge=64, le=4096, multiple_of=8)]


class Memory(_Part):
    """Bytes: what the system keeps of the card, and a cap on what programs take (None: the card less the reserve)."""

    reserve: _Bytes
    limit: _Limit


class Optimize(_Part):
    """What is done to a model before it runs."""

    bits: Literal[8, 4] | None
    offload: Literal["none", "parts", "layers"]
    checkpointing: bool
    attention: Literal["auto", "sliced"]


class RunSettings(_Part):
    """How a model runs, where the run does not say otherwise."""

    batch: Annotated[int, Field(ge=1, le=65536)]
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] | None
    steps: Annotated[int, Field(ge=1, le=1000)]
    width: _Side
    height: _Side
    tiled_vae: bool
    context: Annotated[int, Field(ge=1, le=1 << 20)]
    preview_every: Annotated[int, Field(ge=0, le=1000)]


class Serve(_Part):
    """Where the page is."""

    host: str
    port: Annotated[int, Field(ge=0, le=65535)]


class Settings(_Part):
    """All settings."""

    card: str
    preset: str
    device: Literal["rdna", "polaris", "iluvatar", "cpu"]
    dtype: Literal["float32", "float16", "bfloat16"] | None
    memory: Memory
    optimize: Optimize
    run: RunSettings
    serve: Serve


@dataclass(frozen=True)
class Value:
    """A value by its name (`memory.reserve`), and where it comes from."""

    name: str
    value: Any
    source: str


class Config:
    """The settings in force: `config.settings.memory.reserve`, `config["memory.reserve"]`; `values()` has the sources.

    `options` are those of the command line by name, None where one was not given. All mistakes come in one
    ConfigurationError: unknown names with the nearest, bad values with what is expected, each with its file and line,
    variable or option.
    """

    def __init__(self, options: Mapping[str, Any] | None = None) -> None:
        layers = _layers(dict(options or {}))
        data: dict[str, Any] = {}
        self._sources: dict[str, str] = {}
        for layer in layers:
            for name, (value, source) in layer.items():
                _put(data, name.split("."), value)
                self._sources[name] = source
        try:
            self.settings = Settings.model_validate(data)
        except ValidationError as error:
            problems = [explain(dict(each), self._where, Settings) for each in error.errors()]
            raise ConfigurationError(list(dict.fromkeys(problems))) from None

    def _where(self, place: Place) -> str:
        name = ".".join(str(part) for part in place)
        return self._sources.get(
            name, next((s for n, s in self._sources.items() if n.startswith(f"{name}.")), "settings")
        )

    def __getitem__(self, name: str) -> Any:
        value: Any = self.settings
        for part in name.split("."):
            if not isinstance(value, BaseModel) or part not in type(value).model_fields:
                raise ConfigurationError([f"there is no setting {name}{nearest(name, setting_names())}"])
            value = getattr(value, part)
        return value

    def values(self) -> list[Value]:
        """Each setting with its value and its source."""
        return [Value(name, self[name], self._sources.get(name, "default")) for name in setting_names()]

    def as_dict(self) -> dict[str, Any]:
        """Plain data, nested."""
        return self.settings.model_dump()


def model_options(config: Config, known: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of `optimize` and `run` as options of a model class that has the options `known`."""
    settings = config.settings
    # What nobody set is the model's own to choose.
    chosen = {value.name: value.value for value in config.values() if value.source != "default"}
    wanted = {
        "bits": settings.optimize.bits or 0,
        "offload": settings.optimize.offload,
        "vae_tile": 256 if settings.run.tiled_vae else 0,
        "attention_slice": 1 if settings.optimize.attention == "sliced" else 0,
        "batch": chosen.get("run.batch"),
        "context": chosen.get("run.context"),
    }
    return {name: value for name, value in wanted.items() if name in known and value}


def setting_names() -> list[str]:
    """All settings, nested ones with dots."""

    def walk(place: list[str]) -> Iterator[str]:
        for name in fields_of(Settings, place):
            inner = [*place, name]
            if fields_of(Settings, inner):
                yield from walk(inner)
            else:
                yield ".".join(inner)

    return list(walk([]))


def presets() -> list[str]:
    """The names of all presets."""
    folder = resources.files(_HERE) / "presets"
    return sorted(entry.name.removesuffix(".yml") for entry in folder.iterdir() if entry.name.endswith(".yml"))


def user_file() -> Path:
    """The user's file: $WORKSHOP_CONFIG, or unihal/workshop.yml in the folder of configurations."""
    folder = os.environ.get("XDG_CONFIG_HOME") or "~/.config"
    return Path(os.environ.get(FILE_VARIABLE) or Path(folder) / "unihal" / "workshop.yml").expanduser()


_Layer = dict[str, tuple[Any, str]]


def _layers(options: dict[str, Any]) -> list[_Layer]:
    problems: list[str] = []
    written = [_user_layer(problems), _environment_layer(problems), _option_layer(options, problems)]
    if problems:
        raise ConfigurationError(problems)
    defaults = _flat(_resource("defaults.yml"), "default")

    def asked(name: str) -> tuple[Any, str]:
        return next((layer[name] for layer in reversed(written) if name in layer), defaults[name])

    preset, source = asked("preset")
    if preset == "auto":
        card = str(asked("card")[0])
        preset = card if card in presets() else "none"
    if preset != "none" and preset not in presets():
        raise ConfigurationError([f"{source}: there is no preset {preset!r}{nearest(str(preset), presets())}"])
    chosen = _flat(_resource(f"presets/{preset}.yml"), f"preset {preset}") if preset != "none" else {}
    return [defaults, chosen, *written]


def _resource(name: str) -> Document:
    return parse_document((resources.files(_HERE) / name).read_bytes(), name)


def _flat(document: Document, source: str = "") -> _Layer:
    """Values by dotted names; `source` in place of file and line."""
    result: _Layer = {}

    def walk(value: Any, place: Place) -> None:
        if isinstance(value, dict):
            for key, inner in value.items():
                walk(inner, (*place, key))
        else:
            result[".".join(str(part) for part in place)] = (value, source or document.where(place))

    walk(document.data or {}, ())
    return result


def _user_layer(problems: list[str]) -> _Layer:
    path = user_file()
    if not path.exists():
        if os.environ.get(FILE_VARIABLE):
            problems.append(f"{FILE_VARIABLE}: {path} is not there")
        return {}
    try:
        document = read_document(path)
    except GPUXConfigurationError as error:
        problems += error.problems
        return {}
    if document.data is not None and not isinstance(document.data, dict):
        problems.append(f"{path}: expected settings, one a line: `card: rx580-4gb`")
        return {}
    return _flat(document)


def _environment_layer(problems: list[str]) -> _Layer:
    known = {PREFIX + name.replace(".", "__").upper(): name for name in setting_names()}
    result: _Layer = {}
    for variable, text in sorted(os.environ.items()):
        if not variable.startswith(PREFIX) or variable == FILE_VARIABLE or not text:
            continue
        if variable not in known:
            problems.append(f"{variable} is no setting{nearest(variable, known)}")
        else:
            result[known[variable]] = (_parsed(text), variable)
    return result


def _option_layer(options: Mapping[str, Any], problems: list[str]) -> _Layer:
    names = setting_names()
    result: _Layer = {}
    for name, value in options.items():
        if value is None:
            continue
        label = f"--{name.rpartition('.')[2].replace('_', '-')}"
        if name not in names:
            problems.append(f"{name} is no setting{nearest(name, names)}")
        else:
            result[name] = (_parsed(value) if isinstance(value, str) else value, label)
    return result


def _parsed(text: str) -> Any:
    """A value as YAML has it; what is no plain value stays a text."""
    try:
        value = yaml.safe_load(text)
    except yaml.YAMLError:
        return text
    return value if isinstance(value, (int, float, bool, str, type(None))) else text


def _put(data: dict[str, Any], keys: list[str], value: Any) -> None:
    for key in keys[:-1]:
        inner = data.get(key)
        if not isinstance(inner, dict):
            inner = data[key] = {}
        data = inner
    data[keys[-1]] = value
