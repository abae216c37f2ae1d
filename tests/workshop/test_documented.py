"""Every public name of the workshop is documented: a docstring, a place in docs/, and units of its numbers."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

DOCS = Path(__file__).parents[2] / "docs"
PACKAGES = {
    "unihal_workshop": ("workshop.md", "workshop-pipelines.md"),
    "unihal_workshop.optimizer": ("workshop.md", "workshop-pipelines.md"),
    "unihal_workshop.pipelines": ("workshop.md", "workshop-pipelines.md"),
}
#: A number whose name ends in one of these needs no words.
UNITS = (
    "bytes|mb|mib|seconds|ms|nanoseconds|megahertz|gigaflops|second|percent|celsius|watts|bits|steps|step|batch|runs|"
    "launches|operations|count|devices|units|depth|ratio|share|elements|repeats|seed|total"
)
#: Words that say what all numbers of a class are in.
STATED = re.compile(r"\b(bytes|nanoseconds|milliseconds|seconds)\b", re.IGNORECASE)


def public() -> Iterator[tuple[str, str, Any]]:
    for package in PACKAGES:
        module = importlib.import_module(package)
        for name in module.__all__:
            yield package, name, getattr(module, name)


NAMES = [pytest.param(*each, id=f"{each[0]}.{each[1]}") for each in public()]


def _own_docstring(value: Any) -> str:
    text = value.__doc__ or ""
    # What dataclass writes by itself is a signature, no documentation.
    return "" if text.startswith(f"{getattr(value, '__name__', '')}(") else inspect.cleandoc(text)


@pytest.mark.parametrize(("package", "name", "value"), NAMES)
def test_a_public_name_is_documented(package: str, name: str, value: Any) -> None:
    assert _own_docstring(value), f"{package}.{name} has no docstring"
    pages = "\n".join((DOCS / page).read_text() for page in PACKAGES[package])
    assert re.search(rf"\b{name}\b", pages), f"{name} is on none of {PACKAGES[package]}"
    if not inspect.isclass(value):
        return
    for member, found in vars(value).items():
        function = found.fget if isinstance(found, property) else getattr(found, "__func__", found)
        if not member.startswith("_") and inspect.isfunction(function):
            assert _own_docstring(function), f"{package}.{name}.{member} has no docstring"


@pytest.mark.parametrize(("package", "name", "value"), NAMES)
def test_its_numbers_have_units(package: str, name: str, value: Any) -> None:
    def stated(number: str, text: str) -> bool:
        return bool(re.search(rf"(^|_)({UNITS})$", number) or f"`{number}`" in text or f"`{number} " in text)

    if inspect.isclass(value) and dataclasses.is_dataclass(value):
        text = _own_docstring(value)
        for field in dataclasses.fields(value):
            if re.search(r"\b(int|float)\b", str(field.type)) and not STATED.search(text):
                assert stated(field.name, text), f"{name}.{field.name}: in what unit?"
    members = [value] if inspect.isfunction(value) else []
    if inspect.isclass(value):
        members = [each for each in vars(value).values() if inspect.isfunction(each)]
    for function in members:
        if function.__name__.startswith("_") and function.__name__ != "__init__":
            continue
        text = _own_docstring(function) + _own_docstring(value)
        for parameter in inspect.signature(function).parameters.values():
            if re.search(r"\b(int|float)\b", str(parameter.annotation)) and not STATED.search(text):
                assert stated(parameter.name, text), f"{name}.{function.__name__}({parameter.name}): in what unit?"
