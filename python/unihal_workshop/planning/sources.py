"""What `workshop plan MODEL` may name: a file, a function that makes a model, or a name of the registry."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..errors import ModelError
from ..inference import create, registered
from ..naming import nearest

FILES = (".onnx", ".pt2", ".keras")
_OPTIONS = ("training", "loss", "optimizer", "dtype", "batch_axis", "checkpointing")


@dataclass
class Source:
    """A model, the inputs that it is planned for, and options of `plan`."""

    name: str
    model: Any
    inputs: Any
    options: dict[str, Any] = field(default_factory=dict)


def load_source(text: str, inputs: Any = None, model_options: Mapping[str, Any] | None = None) -> Source:
    """`model.onnx`, `model.pt2`, `model.keras`, `file.py:function`, `package.module:function`, or a registered name.

    A function takes nothing and returns a model and its inputs, or a mapping with `model`, `inputs` and options of
    `plan` (training, loss, optimizer, dtype, batch_axis, checkpointing). It is run: name only files that you trust.
    """
    if Path(text).suffix in FILES:
        if not Path(text).is_file():
            raise ModelError(f"{text} is not there")
        return Source(Path(text).name, Path(text), inputs or ())
    place, separator, attribute = text.rpartition(":")
    if separator:
        return _from_function(text, place, attribute, inputs)
    if text in registered():
        return Source(text, create(text, **dict(model_options or {})), inputs or {})
    raise ModelError(
        f"there is no model {text!r}{nearest(text, registered())}; a file ends in {', '.join(FILES)}, and a function "
        "is named file.py:function"
    )


def _from_function(text: str, place: str, attribute: str, inputs: Any) -> Source:
    try:
        module = _module_of_file(Path(place)) if place.endswith(".py") else importlib.import_module(place)
    except ModelError:
        raise
    except Exception as error:
        raise ModelError(f"{place} cannot be imported: {type(error).__name__}: {error}") from error
    function = getattr(module, attribute, None)
    if not callable(function):
        names = [name for name in vars(module) if not name.startswith("_") and callable(getattr(module, name))]
        raise ModelError(f"{place} has no function {attribute!r}{nearest(attribute, names)}")
    made = function()
    if isinstance(made, Mapping):
        unknown = [key for key in made if key not in ("model", "inputs", *_OPTIONS)]
        if unknown or "model" not in made:
            raise ModelError(f"{text} returned the keys {sorted(made)}: expected model, inputs, {', '.join(_OPTIONS)}")
        return Source(
            text,
            made["model"],
            inputs if inputs is not None else made.get("inputs", ()),
            {key: made[key] for key in _OPTIONS if key in made},
        )
    if isinstance(made, tuple) and len(made) == 2:
        return Source(text, made[0], inputs if inputs is not None else made[1])
    raise ModelError(f"{text} returned {type(made).__name__}: expected a model and its inputs, or a mapping of them")


def _module_of_file(path: Path) -> Any:
    if not path.is_file():
        raise ModelError(f"{path} is not there")
    name = f"_workshop_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ModelError(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    folder = str(path.resolve().parent)
    if folder not in sys.path:
        sys.path.insert(0, folder)  # as for a program: what lies beside it can be imported
    spec.loader.exec_module(module)
    return module
