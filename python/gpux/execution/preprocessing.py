"""From an image or a text to a model's inputs, as gpux.yml describes it."""

from __future__ import annotations

import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from ..configuration.model_file import Normalize, Preprocessing
from ..errors import ConfigurationError, InputError, TooLargeError
from ..tensors import NUMPY_OF_NAME, Array, TensorSpec

MAX_PIXELS = 64 << 20
MAX_TOKENS = 1 << 20
_IMAGENET = Normalize(mean=[0.485, 0.456, 0.406], std=[0.229, 0.224, 0.225])


def image_input(specs: list[TensorSpec]) -> TensorSpec | None:
    """The input that an image can be: of rank 4 with 1, 3 or 4 channels, of rank 3 without, of rank 2 with pixels."""
    for spec in specs:
        if spec.dtype not in ("float32", "float16", "float64", "uint8"):
            continue
        shape = spec.shape
        if len(shape) == 4 and (shape[1] in (1, 3, 4) or shape[3] in (1, 3, 4)):
            return spec
        if len(shape) == 3 and shape[1] is not None and shape[2] is not None:
            return spec
    if len(specs) == 1 and len(specs[0].shape) == 2 and _square(specs[0].shape[1]):
        return specs[0]
    return None


def _square(size: int | None) -> int:
    """The side of a square of so many pixels, 0 if there is none or it is no image's (8 at least)."""
    side = int(size**0.5) if size else 0
    return side if side >= 8 and side * side == size else 0


def image_to_inputs(content: bytes, specs: list[TensorSpec], settings: Preprocessing) -> dict[str, Array]:
    """Decodes an image (PNG, JPEG, ...), resizes and normalizes it to the model's image input, a batch of one."""
    from PIL import Image

    spec = image_input(specs)
    if spec is None or len(specs) != 1:
        raise InputError(
            "the model takes no image: it has no single input of the shape [batch, channels, height, width]"
        )
    channels_first = len(spec.shape) != 4 or spec.shape[1] in (1, 3, 4)
    channels, height, width = _geometry(spec, channels_first)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image: Image.Image = Image.open(io.BytesIO(content))
            if image.width * image.height > MAX_PIXELS:
                raise TooLargeError(
                    f"the image has {image.width} x {image.height} pixels, {MAX_PIXELS} at most are taken"
                )
            image = image.convert({1: "L", 3: "RGB", 4: "RGBA"}[channels])
    except InputError:
        raise
    except Exception as error:  # Pillow's decoders raise nearly anything on broken files
        raise InputError(f"the image cannot be read: {' '.join(str(error).split())[:200]}") from None
    if settings.resize is not None:
        height, width = (wanted or size for wanted, size in zip((height, width), settings.resize))
    if (height or image.height, width or image.width) != (image.height, image.width):
        image = image.resize((width or image.width, height or image.height), Image.Resampling.BILINEAR)
    pixels: Array = np.asarray(image, dtype=np.float32).reshape(image.height, image.width, channels)
    pixels = _normalize(pixels, settings, channels, spec.dtype)
    array = pixels.transpose(2, 0, 1) if channels_first else pixels
    if len(spec.shape) < 4:
        array = array[0]
    if len(spec.shape) == 2:
        array = array.reshape(-1)
    return {spec.name: np.ascontiguousarray(array[None].astype(NUMPY_OF_NAME[spec.dtype]))}


def _geometry(spec: TensorSpec, channels_first: bool) -> tuple[int, int | None, int | None]:
    """Channels, height and width that the input asks for."""
    shape = spec.shape
    if len(shape) == 2:
        return 1, _square(shape[1]), _square(shape[1])
    if len(shape) == 3:
        return 1, shape[1], shape[2]
    if channels_first:
        return shape[1] or 3, shape[2], shape[3]
    return shape[3] or 3, shape[1], shape[2]


def _normalize(pixels: Array, settings: Preprocessing, channels: int, dtype: str) -> Array:
    normalize = settings.normalize
    if normalize is None:
        normalize = "none" if dtype == "uint8" else "unit"
    if normalize == "none":
        return pixels
    pixels = pixels / np.float32(255)
    if normalize == "unit":
        return pixels
    values = _IMAGENET if normalize == "imagenet" else normalize
    assert isinstance(values, Normalize)
    if len(values.mean) not in (1, channels) or len(values.std) not in (1, channels):
        raise ConfigurationError(
            [f"preprocessing.normalize: {len(values.mean)} means, {len(values.std)} deviations, {channels} channels"]
        )
    normalized: Array = (pixels - np.array(values.mean, np.float32)) / np.array(values.std, np.float32)
    return normalized


class TextEncoder:
    """A tokenizer.json of the package tokenizers, opened once."""

    def __init__(self, path: Path) -> None:
        try:
            from tokenizers import Tokenizer
        except ImportError:
            raise ConfigurationError(
                ["preprocessing.tokenizer needs the package tokenizers: pip install tokenizers"]
            ) from None
        try:
            self._tokenizer: Any = Tokenizer.from_file(str(path))
        except Exception as error:  # the package raises Exception itself
            raise ConfigurationError([f"the tokenizer {path} cannot be read: {str(error)[:200]}"]) from None

    def encode(self, text: str, specs: list[TensorSpec]) -> dict[str, Array]:
        """Inputs input_ids, attention_mask and token_type_ids, those of them that the model has, a batch of one."""
        encoding = self._tokenizer.encode(text)
        if not 0 < len(encoding.ids) <= MAX_TOKENS:
            raise InputError(f"the text has {len(encoding.ids)} tokens; 1 to {MAX_TOKENS} are taken")
        columns = {
            "input_ids": encoding.ids,
            "attention_mask": encoding.attention_mask,
            "token_type_ids": encoding.type_ids,
        }
        integers = [spec for spec in specs if spec.dtype in ("int32", "int64")]
        if len(specs) == 1 and len(integers) == 1:
            return {specs[0].name: self._row(encoding.ids, specs[0])}
        unknown = [spec.name for spec in specs if spec.name not in columns]
        if unknown:
            raise InputError(f"the model's inputs {', '.join(unknown)} cannot be made from a text")
        return {spec.name: self._row(columns[spec.name], spec) for spec in specs}

    @staticmethod
    def _row(values: list[int], spec: TensorSpec) -> Array:
        length = spec.shape[-1]
        if length is not None:  # cut, or filled with 0
            values = (values + [0] * length)[:length]
        row: Array = np.array(values, dtype=NUMPY_OF_NAME[spec.dtype])
        return row[None] if len(spec.shape) == 2 else row


def text_to_inputs(text: str, specs: list[TensorSpec], encoder: TextEncoder | None) -> dict[str, Array]:
    """Tokens where there is a tokenizer; else the text itself, for a model whose one input takes texts."""
    if encoder is not None:
        return encoder.encode(text, specs)
    if len(specs) == 1 and specs[0].dtype == "string":
        array: Array = np.full([size or 1 for size in specs[0].shape], text, dtype=object)
        return {specs[0].name: array}
    raise InputError("the model takes no text: name a tokenizer.json in gpux.yml as preprocessing.tokenizer")
