"""The configuration of a model of transformers: from a folder, from numbers, or a variant of ours."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import ModelError
from ..naming import nearest
from .base import TorchPipeline


def transformers_configuration(
    pipeline: TorchPipeline, variants: Mapping[str, Mapping[str, Any]], default: str, families: str
) -> Any:
    """What a pipeline's folder or given configuration says, as transformers' object for its model_type.

    `variants` are configurations by name, of which `default` is taken where nothing is given; what is given beside a
    variant's name changes it. `families` are examples of a model_type, for the error. ModelError for what is none.
    """
    from transformers import AutoConfig

    folder = pipeline.folder
    if folder is not None:
        path = folder / "config.json"
        if not path.is_file():
            raise ModelError(f"{path} is missing: expected a folder that transformers saved")
        given = json.loads(path.read_text(encoding="utf-8"))
    else:
        given = pipeline.given_configuration(default)
        if "variant" in given:
            variant = given.pop("variant")
            if variant not in variants:
                raise ModelError(f"there is no variant {variant!r}{nearest(str(variant), variants)}")
            given = {**variants[variant], **given}
    kind = given.pop("model_type", None)
    if kind is None:
        raise ModelError(f"the configuration has no model_type: name the family, such as {families}")
    try:
        return AutoConfig.for_model(kind, **given)
    except ValueError as error:
        raise ModelError(f"transformers has no model_type {kind!r}") from error
