"""What OpenAPI says of bodies; they are read by hand, faster than models of Pydantic would."""

from __future__ import annotations

from typing import Any

_ERROR = {"type": "object", "properties": {"error": {"type": "string"}}, "required": ["error"]}
_MEANINGS = {
    400: "What was sent is not what is taken",
    401: "No API key",
    403: "Another site's page",
    404: "No such model",
    413: "Too large",
    422: "The model's file is broken",
    500: "The model failed",
    503: "Busy: try again after Retry-After seconds",
    504: "No answer in time",
    507: "The memory budget is used up",
}


def answers(*statuses: int, kinds: tuple[str, ...] = ("application/json",)) -> dict[int | str, dict[str, Any]]:
    """The answers of a route: 200 of these content types, errors of these statuses; any may give 401, 403 and 503."""
    rows: dict[int | str, dict[str, Any]] = {
        status: {"description": _MEANINGS[status], "content": {"application/json": {"schema": _ERROR}}}
        for status in (401, 403, 503, *statuses)
    }
    rows[200] = {"description": "Done", "content": {kind: {"schema": {}} for kind in kinds}}
    return rows


def body(schema: dict[str, Any], *others: str, required: bool = True) -> dict[str, Any]:
    """openapi_extra for a JSON body, or one of other content types."""
    content = {"application/json": {"schema": schema}}
    for kind in others:
        content[kind] = {
            "schema": {"type": "string"} if kind == "text/plain" else {"type": "string", "format": "binary"}
        }
    return {"requestBody": {"required": required, "content": content}}


PREDICT = {
    "type": "object",
    "properties": {"inputs": {"description": "Nested lists by the name of the input, or of the one input"}},
    "required": ["inputs"],
    "additionalProperties": False,
}

_TENSOR = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "datatype": {
            "enum": [
                *("BOOL", "FP16", "FP32", "FP64", "BYTES"),
                *(f"{kind}INT{bits}" for kind in ("", "U") for bits in (8, 16, 32, 64)),
            ]
        },
        "shape": {"type": "array", "items": {"type": "integer", "minimum": 0}},
        "parameters": {"type": "object"},
        "data": {"type": "array"},
    },
    "required": ["name", "datatype", "shape"],
}
INFER = {
    "type": "object",
    "properties": {
        "id": {"type": "string"},
        "parameters": {"type": "object"},
        "inputs": {"type": "array", "items": _TENSOR, "minItems": 1},
        "outputs": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"name": {"type": "string"}, "parameters": {"type": "object"}},
                "required": ["name"],
            },
        },
    },
    "required": ["inputs"],
}
REPOSITORY = {"type": "object", "properties": {"parameters": {"type": "object"}, "ready": {"type": "boolean"}}}
