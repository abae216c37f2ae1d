"""`gpux build`: gpux.yml against its model, and the result into .gpux/ and the registry."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ..configuration.model_file import FILE_NAME, LoadedFile, TensorEntry, load_model_file
from ..errors import ConfigurationError, ModelError
from ..execution.preprocessing import TextEncoder, image_input
from ..execution.runtime import GPUXRuntime
from ..inspection.files import open_model
from ..inspection.inspector import Inspection, ModelInspector
from ..naming import nearest
from ..tensors import TensorSpec
from .store import MODEL_INFO, PROVIDER_INFO, Registry

FOLDER = ".gpux"


@dataclass(frozen=True)
class Built:
    """What a build made."""

    name: str
    version: str
    inspection: Inspection
    provider_info: dict[str, Any]
    registered: Path


def build(
    folder: Path, registry: Registry, provider: str, progress: Callable[[str], None] = lambda step: None
) -> Built:
    """Checks gpux.yml and its model, writes .gpux/, and registers the version.

    ConfigurationError lists every mistake with its line; ModelError says what is wrong with the model.
    """
    progress("reading gpux.yml")
    loaded = load_model_file(folder)
    configuration = loaded.model
    model = _inside(loaded, folder, configuration.model.source, "model", "source")
    tokenizer = configuration.preprocessing.tokenizer
    if tokenizer is not None:
        TextEncoder(_inside(loaded, folder, tokenizer, "preprocessing", "tokenizer"))
    progress("inspecting the model")
    try:
        inspection = ModelInspector().inspect(model, provider)
    except ModelError as error:
        raise ModelError(f"{loaded.where('model', 'source')}: {error}") from None
    problems = [
        *_compare(loaded, "inputs", configuration.inputs, inspection.metadata.inputs),
        *_compare(loaded, "outputs", configuration.outputs, inspection.metadata.outputs),
        *_check_preprocessing(loaded, inspection.metadata.inputs),
    ]
    if problems:
        raise ConfigurationError(problems)
    progress("loading it on the provider")
    runtime = GPUXRuntime(provider, memory=configuration.runtime.gpu.memory)
    runtime.load_model(model, configuration.preprocessing)
    provider_info = runtime.get_provider_info()
    model_info = {"name": configuration.name, "version": configuration.version, **inspection.as_dict()}
    model_info["path"] = configuration.model.source
    texts = {MODEL_INFO: _json(model_info), PROVIDER_INFO: _json(provider_info)}
    progress("writing .gpux and the registry")
    out = folder / FOLDER
    try:
        out.mkdir(exist_ok=True)
        for name, text in texts.items():
            temporary = out / f".{name}.{os.getpid()}"
            temporary.write_text(text)
            temporary.replace(out / name)
        registered = registry.add(configuration.name, configuration.version, _files(folder, loaded, model), texts)
    except OSError as error:
        raise ConfigurationError([f"{error.filename or out} cannot be written: {error.strerror}"]) from None
    return Built(configuration.name, configuration.version, inspection, provider_info, registered)


def _json(value: Any) -> str:
    return json.dumps(value, indent=2) + "\n"


def _files(folder: Path, loaded: LoadedFile, model: Path) -> dict[str, Path]:
    """What a version consists of, by the paths that gpux.yml and the model know."""
    source = Path(loaded.model.model.source)
    files = {FILE_NAME: folder / FILE_NAME, os.path.normpath(source): model}
    real_folder = model.resolve().parent
    for external in open_model(model).external:
        files[os.path.normpath(source.parent / external.relative_to(real_folder))] = external
    tokenizer = loaded.model.preprocessing.tokenizer
    if tokenizer is not None:
        files[os.path.normpath(tokenizer)] = folder / tokenizer
    return files


def _inside(loaded: LoadedFile, folder: Path, name: str, *place: str) -> Path:
    """A file that gpux.yml names: it lies in the folder of gpux.yml, since it is copied by that path."""
    key = ".".join(place)
    where = loaded.where(*place)
    relative = os.path.normpath(name)
    if "://" in name:
        raise ConfigurationError([f"{where}: {key}: {name[:100]} is an address; download the file and name its path"])
    if os.path.isabs(name) or relative.startswith(".."):
        raise ConfigurationError(
            [f"{where}: {key}: {name[:100]} lies outside of the folder of {FILE_NAME}: move it there"]
        )
    path = folder / name
    if not path.is_file():
        beside = [each.name for each in path.parent.iterdir() if each.is_file()] if path.parent.is_dir() else []
        raise ConfigurationError([f"{where}: {key}: {name[:100]} is not there{nearest(path.name, beside)[:300]}"])
    return path


def _compare(loaded: LoadedFile, key: str, entries: list[TensorEntry], specs: list[TensorSpec]) -> list[str]:
    """Where gpux.yml says something else of an input or output than the model."""
    problems = []
    known = {spec.name: spec for spec in specs}
    for index, entry in enumerate(entries):
        label = f"{key}.{entry.name}"
        spec = known.get(entry.name)
        if spec is None:
            problems.append(
                f"{loaded.where(key, index)}: {label}: the model has no such {key[:-1]}{nearest(entry.name, known)}"
            )
            continue
        if entry.type is not None and entry.type != spec.dtype:
            problems.append(
                f"{loaded.where(key, index, 'type')}: {label}.type: {entry.type}, but the model has {spec.dtype}"
            )
        if entry.shape is not None and not _fits(entry.shape, spec):
            problems.append(
                f"{loaded.where(key, index, 'shape')}: {label}.shape: {entry.shape}, but the model has "
                f"{spec.describe_shape()}"
            )
    named = {entry.name for entry in entries}
    if entries and key == "inputs":
        problems += [
            f"{loaded.where(key)}: {key}: the model's input {name} is missing" for name in known if name not in named
        ]
    return problems


def _fits(shape: list[int | str | None], spec: TensorSpec) -> bool:
    """Whether a shape of gpux.yml is the model's: -1, null and names stand for free axes."""
    free = [size if isinstance(size, int) and size >= 0 else None for size in shape]
    return len(free) == len(spec.shape) and all(size == wanted for size, wanted in zip(free, spec.shape))


def _check_preprocessing(loaded: LoadedFile, inputs: list[TensorSpec]) -> list[str]:
    settings = loaded.model.preprocessing
    for key in ("resize", "normalize"):
        if getattr(settings, key) is not None and image_input(inputs) is None:
            where = loaded.where("preprocessing", key)
            return [
                f"{where}: preprocessing.{key}: the model has no input of the shape [batch, channels, height, width]"
            ]
    return []
