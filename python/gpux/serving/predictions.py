"""POST /predict: JSON, an image or a text in, JSON out."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import orjson

from ..errors import InputError, ProviderError
from ..execution.inputs import inputs_of_value, parse_json
from ..execution.preprocessing import image_to_inputs, text_to_inputs
from ..tensors import Array, TensorSpec, check_inputs
from .models import ServedModel


async def read_prediction(
    body: bytes, content_type: str, model: ServedModel, specs: dict[str, TensorSpec]
) -> list[Array]:
    """The inputs in the order of the model's, checked; InputError says what is wrong."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind.startswith("image/"):
        # Decoding takes milliseconds: beside the loop.
        inputs = await asyncio.to_thread(image_to_inputs, body, list(specs.values()), model.preprocessing)
    elif kind == "text/plain":
        try:
            text = body.decode("utf-8")
        except UnicodeDecodeError as error:
            raise InputError(f"the text is not UTF-8: byte {error.start}") from None
        inputs = await asyncio.to_thread(text_to_inputs, text, list(specs.values()), model.encoder)
    elif kind in ("", "application/json", "application/octet-stream", "application/x-www-form-urlencoded"):
        inputs = inputs_of_value(parse_json(body), specs)
    else:
        raise InputError(f"Content-Type {kind[:60]!r} is not taken; application/json, image/* and text/plain are")
    check_inputs(inputs, specs)
    return [inputs[name] for name in specs]


def write_prediction(head: dict[str, Any], names: tuple[str, ...], arrays: list[Array]) -> bytes:
    """The answer as JSON. ProviderError if an output is not finite, for which JSON has no word."""
    return orjson.dumps(
        {**head, "outputs": {name: json_value(name, array) for name, array in zip(names, arrays)}},
        option=orjson.OPT_SERIALIZE_NUMPY,
    )


def json_value(name: str, array: Array) -> Any:
    """What orjson takes for an array."""
    if array.dtype.kind == "f":
        check_finite(name, array)
        if array.dtype == np.float16:
            array = array.astype(np.float32)
    if array.dtype == object:
        return array.tolist()
    return np.ascontiguousarray(array) if array.ndim else array.item()


def check_finite(name: str, array: Array) -> None:
    """JSON cannot say NaN; null in its place would be taken for a missing value."""
    if not np.isfinite(array).all():
        count = int(array.size - np.isfinite(array).sum())
        raise ProviderError(
            f"output {name} has {count} values that are NaN or infinite, which JSON cannot hold: ask for binary "
            "outputs at /v2/models/NAME/infer"
        )
