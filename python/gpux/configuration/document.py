"""YAML from outside, read safely: plain data, and the line of each key and value.

No tags beyond YAML's own, no aliases (a few lines of them stand for gigabytes), no key twice, limits of size and depth.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from ..errors import ConfigurationError

MAX_BYTES = 1 << 20
MAX_DEPTH = 32

#: Keys and indices from the root of a document to one of its values.
Place = tuple[object, ...]


@dataclass
class Document:
    """Plain data (dict, list, str, int, float, bool, None), the line of each place in it, the scalars as written."""

    path: str
    data: Any
    lines: dict[Place, int] = field(default_factory=dict)
    texts: dict[Place, str] = field(default_factory=dict)

    def where(self, place: Place) -> str:
        """`gpux.yml:7`, of the innermost part of a place that the file has."""
        for length in range(len(place), -1, -1):
            if place[:length] in self.lines:
                return f"{self.path}:{self.lines[place[:length]]}"
        return self.path


def read_document(path: Path) -> Document:
    """Reads a file; what is wrong with it is a ConfigurationError that names the line."""
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError([f"{path} cannot be read: {error.strerror}"]) from None
    return parse_document(content, str(path))


def parse_document(content: bytes, path: str) -> Document:
    """The same, of what a file holds."""
    if len(content) > MAX_BYTES:
        raise ConfigurationError([f"{path} has more than {MAX_BYTES} bytes: a configuration is a few lines"])
    try:
        text = content.decode("utf-8")
        _check_events(text, path)
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except UnicodeDecodeError as error:
        raise ConfigurationError([f"{path} is not UTF-8: byte {error.start}"]) from None
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = f":{mark.line + 1}" if mark else ""
        raise ConfigurationError([f"{path}{line}: no YAML: {error.problem or error.context}"]) from None
    except (yaml.YAMLError, RecursionError) as error:
        raise ConfigurationError([f"{path}: no YAML: {str(error).splitlines()[0]}"]) from None
    document = Document(path, None)
    if root is not None:
        document.data = _construct(root, (), document)
    return document


def _check_events(text: str, path: str) -> None:
    """Aliases and depth, before anything is built."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        line = event.start_mark.line + 1
        if isinstance(event, yaml.AliasEvent):
            raise ConfigurationError([f"{path}:{line}: alias *{event.anchor}: aliases are not taken, write the value"])
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            if depth > MAX_DEPTH:
                raise ConfigurationError([f"{path}:{line}: nested deeper than {MAX_DEPTH} levels"])
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1


_constructor = yaml.constructor.SafeConstructor()
_SCALARS = {f"tag:yaml.org,2002:{name}" for name in ("str", "int", "float", "bool", "null")}


def _construct(node: yaml.Node, place: Place, document: Document) -> Any:
    line = node.start_mark.line + 1
    document.lines.setdefault(place, line)
    if isinstance(node, yaml.SequenceNode) and node.tag == "tag:yaml.org,2002:seq":
        return [_construct(item, (*place, index), document) for index, item in enumerate(node.value)]
    if isinstance(node, yaml.MappingNode) and node.tag == "tag:yaml.org,2002:map":
        result: dict[str, Any] = {}
        for key_node, value_node in node.value:
            key_line = key_node.start_mark.line + 1
            if not isinstance(key_node, yaml.ScalarNode) or not key_node.tag.startswith("tag:yaml.org,2002:"):
                raise ConfigurationError([f"{document.path}:{key_line}: a key is a text, not a list or a mapping"])
            key = str(key_node.value)
            if key in result:
                raise ConfigurationError([f"{document.path}:{key_line}: {key} stands here a second time"])
            document.lines[(*place, key)] = key_line
            result[key] = _construct(value_node, (*place, key), document)
        return result
    if isinstance(node, yaml.ScalarNode) and node.tag in _SCALARS:
        document.texts[place] = node.value
        try:
            return _constructor.construct_object(node)
        except ValueError as error:
            raise ConfigurationError([f"{document.path}:{line}: {node.value[:60]!r}: {error}"]) from None
    if isinstance(node, yaml.ScalarNode) and node.tag == "tag:yaml.org,2002:timestamp":
        document.texts[place] = node.value
        return str(node.value)
    raise ConfigurationError([f"{document.path}:{line}: the tag {node.tag} is not taken: only plain values are safe"])
