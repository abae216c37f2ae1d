"""What Pydantic found wrong with a document, in words, with the line and the nearest key."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import BaseModel

from ..naming import nearest
from .document import Place

#: The file and line, or the variable or option, of a place.
Where = Callable[[Place], str]


def explain(error: Mapping[str, Any], where: Where, root: type[BaseModel]) -> str:
    """One of Pydantic's errors (`ValidationError.errors()`), with its place and the key as it is written."""
    place: Place = tuple(error["loc"])
    kind = error["type"]
    # The arms of a union are no keys of the file.
    keys = [part for part in place if isinstance(part, int) or not _is_arm(str(part))]
    name = ".".join(str(part) for part in keys) or "the file"
    if kind == "extra_forbidden":
        return f"{where(tuple(keys))}: unknown key {name}{nearest(str(keys[-1]), fields_of(root, keys[:-1]))}"
    if kind == "missing":
        return f"{where(tuple(keys[:-1]))}: {name} is missing"
    message = str(error["msg"]).removeprefix("Value error, ")
    given = error.get("input")
    shown = (
        f", not {given!r}" if isinstance(given, (str, int, float, bool, type(None))) and kind != "value_error" else ""
    )
    return f"{where(tuple(keys))}: {name}: {message[:1].lower()}{message[1:]}{shown[:80]}"


def _is_arm(part: str) -> bool:
    return part[:1].isupper() or "[" in part or part in ("int", "str", "float", "none")


def fields_of(root: type[BaseModel], place: list[Any]) -> list[str]:
    """The keys that the mapping at a place may have."""
    model = root
    for part in place:
        if isinstance(part, int):
            continue
        field = model.model_fields.get(str(part))
        inner = _model_in(field.annotation) if field is not None else None
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


def _model_in(annotation: Any) -> type[BaseModel] | None:
    """The model that an annotation is, or has among its arguments (a list of it, or it or None)."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    for argument in getattr(annotation, "__args__", ()):
        found = _model_in(argument)
        if found is not None:
            return found
    return None
