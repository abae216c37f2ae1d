"""Inputs as a user has them: JSON, .npy, .npz, an image, a text; and random ones for measuring."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import orjson

from ..configuration.model_file import Preprocessing
from ..errors import InputError, TooLargeError
from ..naming import nearest
from ..tensors import NUMPY_OF_NAME, Array, TensorSpec, convert
from .preprocessing import TextEncoder, image_to_inputs, text_to_inputs

IMAGES = {".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp", ".tif", ".tiff", ".ppm", ".pgm"}
TEXTS = {".txt", ".md"}
MAX_FILE_BYTES = 4 << 30


def read_inputs(
    path: Path, specs: dict[str, TensorSpec], settings: Preprocessing, encoder: TextEncoder | None
) -> dict[str, Array]:
    """What a file holds, as the model's inputs; the ending of its name says what it is."""
    suffix = path.suffix.lower()
    try:
        if path.stat().st_size > MAX_FILE_BYTES:
            raise TooLargeError(f"{path} has more than {MAX_FILE_BYTES >> 30} GiB")
        if suffix == ".json":
            return inputs_of_json(path.read_bytes(), specs)
        if suffix == ".npy":
            return {_only(specs, path): _load_array(path)}
        if suffix == ".npz":
            return _load_arrays(path)
        if suffix in IMAGES:
            return image_to_inputs(path.read_bytes(), list(specs.values()), settings)
        if suffix in TEXTS:
            return text_to_inputs(path.read_bytes().decode("utf-8"), list(specs.values()), encoder)
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path} is not UTF-8: byte {error.start}") from None
    endings = ", ".join([".json", ".npy", ".npz", *sorted(IMAGES), *sorted(TEXTS)])
    raise InputError(f"{path} ends in {suffix or 'nothing'}; inputs end in one of {endings}")


def parse_json(content: bytes) -> Any:
    """JSON as the standard has it: NaN, infinities and comments are errors, told by their place."""
    try:
        return orjson.loads(content)
    except orjson.JSONDecodeError as error:
        hint = "; NaN and infinities are no JSON" if any(word in content for word in (b"NaN", b"Infinity")) else ""
        raise InputError(f"no JSON: {error}{hint}") from None


def inputs_of_json(content: bytes, specs: dict[str, TensorSpec]) -> dict[str, Array]:
    """`{"inputs": {NAME: values}}`, `{NAME: values}`, or the values alone where the model has one input."""
    return inputs_of_value(parse_json(content), specs)


def inputs_of_value(value: Any, specs: dict[str, TensorSpec]) -> dict[str, Array]:
    """The same, of JSON that was read."""
    if isinstance(value, dict) and "inputs" in value and "inputs" not in specs:
        unknown = [key for key in value if key != "inputs"]
        if unknown:
            raise InputError(f'unknown key {unknown[0][:100]!r}; expected {{"inputs": ...}}')
        value = value["inputs"]
    if not isinstance(value, dict):
        if len(specs) != 1:
            raise InputError(f'expected values by name: {{"inputs": {{{", ".join(specs)}}}}}')
        value = {next(iter(specs)): value}
    arrays = {}
    for name, values in value.items():
        if name not in specs:
            raise InputError(f"the model has no input {name[:100]!r}{nearest(name[:100], specs)}")
        arrays[name] = convert(values, specs[name])
    return arrays


def random_inputs(specs: dict[str, TensorSpec], batch: int = 1, free_size: int = 1, seed: int = 0) -> dict[str, Array]:
    """Inputs for measuring: `batch` for a free first axis, `free_size` for other ones; the same for the same seed."""
    generator = np.random.default_rng(seed)
    arrays: dict[str, Array] = {}
    for spec in specs.values():
        shape = [
            size if size is not None else batch if axis == 0 else free_size for axis, size in enumerate(spec.shape)
        ]
        dtype = NUMPY_OF_NAME.get(spec.dtype)
        if dtype is None:
            raise InputError(f"input {spec.name} has dtype {spec.dtype}, for which there are no random values")
        if dtype.kind == "f":
            arrays[spec.name] = generator.standard_normal(shape).astype(dtype)
        elif dtype.kind == "O":
            arrays[spec.name] = np.full(shape, "text", dtype=object)
        else:  # 0 and 1 are valid as indices of nearly anything
            arrays[spec.name] = generator.integers(0, 2, shape).astype(dtype)
    return arrays


def _only(specs: dict[str, TensorSpec], path: Path) -> str:
    if len(specs) != 1:
        raise InputError(f"{path} holds one array, but the model has the inputs {', '.join(specs)}: use .npz")
    return next(iter(specs))


def _load_array(path: Path) -> Array:
    try:
        loaded = np.load(path, allow_pickle=False)  # a pickle runs what it likes
    except (ValueError, EOFError, MemoryError) as error:
        raise InputError(f"{path} is no .npy file of numbers: {str(error)[:200]}") from None
    if not isinstance(loaded, np.ndarray):
        raise InputError(f"{path} is no .npy file")
    return loaded


def _load_arrays(path: Path) -> dict[str, Array]:
    import zipfile

    try:
        with np.load(path, allow_pickle=False) as archive:
            if not isinstance(archive, np.lib.npyio.NpzFile):
                raise InputError(f"{path} is no .npz file")
            return {name: archive[name] for name in archive.files}
    except (ValueError, EOFError, MemoryError, zipfile.BadZipFile, AttributeError, TypeError) as error:
        raise InputError(f"{path} is no .npz file of numbers: {str(error)[:200]}") from None
