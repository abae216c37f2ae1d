"""gpux.yml: what it may hold, and every mistake in it by its line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, field_validator

from ..errors import ConfigurationError
from ..naming import is_name, nearest
from ..tensors import DTYPES
from .document import Document, parse_document, read_document
from .sizes import parse_bytes
from .validation import explain

FILE_NAME = "gpux.yml"
BACKENDS = ("auto", "tensorrt", "cuda", "rocm", "migraphx", "unihal", "coreml", "directml", "openvino", "cpu")


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _memory(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, (int, str)):
        raise ValueError("expected an amount of memory, for example 512M, 2GB or a number of bytes")
    return parse_bytes(value)


Memory = Annotated[int, BeforeValidator(_memory), Field(gt=0)]
Backend = Literal["auto", "tensorrt", "cuda", "rocm", "migraphx", "unihal", "coreml", "directml", "openvino", "cpu"]
Size = Annotated[int, Field(ge=1, strict=True)]


class ModelSource(_Part):
    """Where the model lies, from the folder of gpux.yml."""

    source: str
    format: Literal["onnx"] = "onnx"


class TensorEntry(_Part):
    """An input or output as the user expects it; what is left out is taken from the model. null: any size."""

    name: str
    type: str | None = None
    shape: list[int | str | None] | None = None
    description: str = ""

    @field_validator("type")
    @classmethod
    def _known_type(cls, value: str | None) -> str | None:
        if value is not None and value not in DTYPES:
            raise ValueError(f"{value!r} is no dtype{nearest(value, DTYPES)}")
        return value


class GPU(_Part):
    """Which provider runs the model, and how much of its memory."""

    backend: Backend = "auto"
    memory: Memory | None = None


class Runtime(_Part):
    """How the model runs: `batch_size` requests at most are joined; `timeout` in seconds."""

    gpu: GPU = GPU()
    batch_size: Annotated[int, Field(ge=1, le=4096, strict=True)] | None = None
    timeout: Annotated[float, Field(gt=0, le=86400)] | None = None


class Serving(_Part):
    """What `gpux serve` takes where the command line does not say otherwise."""

    port: Annotated[int, Field(ge=0, le=65535, strict=True)] | None = None
    host: str | None = None
    max_workers: Annotated[int, Field(ge=1, le=256, strict=True)] | None = None


class Normalize(_Part):
    """(pixel / 255 - mean) / std, per channel."""

    mean: list[float]
    std: list[Annotated[float, Field(gt=0)]]


class Preprocessing(_Part):
    """From an image or a text to the model's first inputs.

    `tokenizer` is a tokenizer.json of the package tokenizers; `resize` height and width; `normalize` imagenet, unit
    (only / 255), none, or means and deviations.
    """

    tokenizer: str | None = None
    resize: Annotated[list[Size], Field(min_length=2, max_length=2)] | None = None
    normalize: Literal["imagenet", "unit", "none"] | Normalize | None = None


class ModelFile(_Part):
    """The whole of gpux.yml."""

    name: str
    version: str = "1"
    description: str = ""
    model: ModelSource
    inputs: list[TensorEntry] = []
    outputs: list[TensorEntry] = []
    runtime: Runtime = Runtime()
    serving: Serving = Serving()
    preprocessing: Preprocessing = Preprocessing()

    @field_validator("name", "version")
    @classmethod
    def _is_name(cls, value: str) -> str:
        if not is_name(value):
            raise ValueError(f"{value[:60]!r} is no name: letters, digits, '_', '.' and '-', 100 at most")
        return value


# What is meant as text even where YAML reads a number: version: 1.10
_TEXTS = (("name",), ("version",))


@dataclass(frozen=True)
class LoadedFile:
    """gpux.yml as it was read, with the lines for later messages."""

    model: ModelFile
    document: Document

    def where(self, *place: object) -> str:
        """The file and line of a place, such as where("inputs", 0, "shape")."""
        return self.document.where(place)


def load_model_file(path: Path) -> LoadedFile:
    """Reads gpux.yml, or the one in a folder; all of its mistakes come in one ConfigurationError."""
    if path.is_dir():
        path = path / FILE_NAME
    return _check(read_document(path))


def parse_model_file(content: bytes, path: str = FILE_NAME) -> LoadedFile:
    """The same, of a file's content."""
    return _check(parse_document(content, path))


def _check(document: Document) -> LoadedFile:
    if not isinstance(document.data, dict):
        raise ConfigurationError([f"{document.path}: expected a mapping with the keys name and model"])
    data = dict(document.data)
    for place in _TEXTS:
        if place in document.texts and document.data[place[0]] is not None:
            data[str(place[0])] = document.texts[place]
    for key in ("inputs", "outputs"):
        if isinstance(data.get(key), dict):
            data[key] = _as_list(data[key], key, document)
    for key in ("runtime", "serving", "preprocessing", "inputs", "outputs"):
        if key in data and data[key] is None:
            del data[key]
    try:
        return LoadedFile(ModelFile.model_validate(data), document)
    except ValidationError as error:
        problems = [explain(dict(each), document.where, ModelFile) for each in error.errors()]
        raise ConfigurationError(list(dict.fromkeys(problems))) from None


def _as_list(entries: dict[str, Any], key: str, document: Document) -> Any:
    """A mapping of names to entries as a list; the lines move with them."""
    result: list[Any] = []
    for index, (name, entry) in enumerate(entries.items()):
        for place in list(document.lines):
            if place[:2] == (key, name):
                document.lines[(key, index, *place[2:])] = document.lines[place]
        if entry is not None and not isinstance(entry, dict):
            raise ConfigurationError([f"{document.where((key, name))}: {key}.{name}: expected type and shape"])
        result.append({"name": name, **(entry or {})})
    return result
