"""Arguments of wrong types are refused by the annotations, in one place, before anything is done with them.

``check_arguments`` wraps what a module offers. A check costs a fraction of a microsecond per argument.
"""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import inspect
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, Union

from . import errors


class ArgumentTypeError(errors.InvalidArgumentError, TypeError):
    """An argument is of a wrong type, or none of the words that are expected."""

    status = "INVALID_ARGUMENT"


def whole_numbers(value: int | Sequence[int]) -> list[int]:
    """One number or several, NumPy's too, as a list."""
    several: Any = value
    return list(several) if hasattr(value, "__len__") else [operator.index(several)]


@dataclasses.dataclass(frozen=True)
class _Expectation:
    """What an argument may be."""

    holds: Callable[[Any], bool]
    text: str
    #: Of which all values hold: the usual case costs a look-up.
    types: frozenset[type] = frozenset()


_NOTHING = _Expectation(lambda value: value is None, "None", frozenset((type(None),)))


def _is_whole(value: Any) -> bool:
    try:
        operator.index(value)
    except TypeError:
        return False
    return True


def _is_number(value: Any) -> bool:
    if isinstance(value, (str, bytes, bytearray)):
        return False
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


_SIMPLE: dict[Any, _Expectation] = {
    bool: _Expectation(
        lambda value: type(value).__name__ in ("bool", "bool_") or _is_whole(value), "True or False", frozenset((bool,))
    ),
    int: _Expectation(_is_whole, "a whole number", frozenset((int,))),
    float: _Expectation(_is_number, "a number", frozenset((int, float))),
    str: _Expectation(lambda value: isinstance(value, str), "a text", frozenset((str,))),
    type(None): _NOTHING,
    None: _NOTHING,
}

#: Plurals for "a sequence of ...".
_SEVERAL = {"a whole number": "whole numbers", "a number": "numbers", "a text": "texts"}


def _is_sequence(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return True
    # An array is a sequence of numbers; a buffer's elements are on the device.
    array_like = hasattr(value, "__len__") and hasattr(value, "__getitem__") and not hasattr(value, "allocation")
    return array_like and not isinstance(value, (str, bytes, bytearray, collections.abc.Mapping))


def _sequence(element: _Expectation | None) -> _Expectation:
    if element is None:
        return _Expectation(_is_sequence, "a sequence")
    holds = element.holds
    text = _SEVERAL.get(element.text, f"entries that are each {element.text}")
    return _Expectation(lambda value: _is_sequence(value) and all(map(holds, value)), f"a sequence of {text}")


def _places(members: Sequence[Any]) -> _Expectation:
    """A sequence of so many entries, each of which is something else."""
    expectations = [_expectation(member) for member in members]
    texts = ["anything" if entry is None else entry.text for entry in expectations]

    def holds(value: Any) -> bool:
        if not _is_sequence(value) or len(value) != len(expectations):
            return False
        return all(entry is None or entry.holds(part) for entry, part in zip(expectations, value))

    return _Expectation(holds, f"({', '.join(texts)})")


def _union(members: Iterable[Any]) -> _Expectation | None:
    expectations = [_expectation(member) for member in members]
    if any(entry is None for entry in expectations):
        return None
    known = [entry for entry in expectations if entry is not None]
    texts = list(dict.fromkeys(entry.text for entry in known))
    if texts == ["a unihal.Device", "a text"]:
        texts = ["a unihal.Device or the name of one, such as 'rdna:0'"]
    tests = tuple(entry.holds for entry in known)
    text = texts[0] if len(texts) == 1 else f"{', '.join(texts[:-1])} or {texts[-1]}"
    return _Expectation(
        lambda value: any(test(value) for test in tests),
        text,
        frozenset[type]().union(*(entry.types for entry in known)),
    )


def _words(options: tuple[Any, ...]) -> _Expectation:
    text = "one of " + ", ".join(map(repr, options))
    return _Expectation(lambda value: isinstance(value, str) and value in options, text)


def _expectation(annotation: Any) -> _Expectation | None:
    """None: anything will do."""
    if annotation in (Any, object, inspect.Parameter.empty):
        return None
    if annotation in _SIMPLE:
        return _SIMPLE[annotation]
    origin, inner = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Literal:
        return _words(inner)
    if origin is Union or origin is getattr(types, "UnionType", None):
        return _union(inner)
    if origin in (collections.abc.Sequence, collections.abc.Iterable, list):
        return _sequence(_expectation(inner[0]))
    if origin is tuple:
        return _sequence(_expectation(inner[0])) if len(set(inner) - {...}) == 1 else _places(inner)
    if origin in (collections.abc.Mapping, dict):
        return _Expectation(lambda value: isinstance(value, collections.abc.Mapping), "a mapping")
    if origin is collections.abc.Callable:
        return _Expectation(callable, "something to call")
    expected = origin if isinstance(origin, type) else annotation
    if isinstance(expected, type):
        name = f"unihal.{expected.__name__}" if expected.__module__.startswith("unihal.") else expected.__name__
        article = "an" if name[0].lower() in "aeio" else "a"
        return _Expectation(lambda value: isinstance(value, expected), f"{article} {name}", frozenset((expected,)))
    return None


def _members(annotation: str) -> list[str]:
    """The members of "X | Y", which older Pythons cannot evaluate."""
    members, depth = [""], 0
    for letter in annotation:
        depth += (letter in "[(") - (letter in "])")
        if letter == "|" and depth == 0:
            members.append("")
        else:
            members[-1] += letter
    return [member.strip() for member in members]


def _evaluate(annotation: Any, module: str) -> Any:
    """An annotation as a type; Any where its names are for type checkers only."""
    if not isinstance(annotation, str):
        return annotation
    scope = vars(sys.modules[module])
    try:
        members = [eval(member, scope) for member in _members(annotation)]
    except (NameError, TypeError):
        return Any
    return members[0] if len(members) == 1 else Union[tuple(members)]


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _refuse(name: str, argument: str, value: Any, expected: _Expectation) -> None:
    advice = ""
    if "a unihal.Buffer" in expected.text and hasattr(value, "__array__"):
        advice = "; make one with Buffer.from_numpy(array, device)"
    raise ArgumentTypeError(
        f"{name}: {argument} is {_shown(value)} ({type(value).__name__}); expected {expected.text}{advice}"
    )


def _expectations(function: Callable[..., Any]) -> tuple[list[str], dict[str, _Expectation], _Expectation | None]:
    """The names of arguments that may be given by place, what each must be, and what the rest (``*values``) must be."""
    by_place: list[str] = []
    expected: dict[str, _Expectation] = {}
    rest = None
    for name, parameter in inspect.signature(function).parameters.items():
        expectation = _expectation(_evaluate(parameter.annotation, function.__module__))
        if parameter.kind is parameter.VAR_POSITIONAL:
            rest = expectation
        elif parameter.kind is not parameter.VAR_KEYWORD:
            if parameter.kind is not parameter.KEYWORD_ONLY:
                by_place.append(name)
            if expectation is not None:
                expected[name] = expectation
    return by_place, expected, rest


def checked(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """The function with its arguments checked; messages call it by the name."""
    found: list[tuple[list[str], dict[str, _Expectation], _Expectation | None]] = []

    def refuse(values: tuple[Any, ...], argument: str, value: Any, expected: _Expectation) -> None:
        # What is called like a function has the name of one.
        _refuse(values[0].name if function.__name__ == "__call__" else name, argument, value, expected)

    @functools.wraps(function)
    def call(*values: Any, **named: Any) -> Any:
        if not found:  # annotations name what is defined later
            found.append(_expectations(function))
        by_place, expected, rest = found[0]
        for argument, value in zip(by_place, values):
            expectation = expected.get(argument)
            if expectation is not None and type(value) not in expectation.types and not expectation.holds(value):
                refuse(values, argument, value, expectation)
        if rest is not None:
            for value in values[len(by_place) :]:
                if type(value) not in rest.types and not rest.holds(value):
                    refuse(values, "an argument", value, rest)
        for argument, value in named.items():
            expectation = expected.get(argument)
            if expectation is not None and type(value) not in expectation.types and not expectation.holds(value):
                refuse(values, argument, value, expectation)
        return function(*values, **named)

    return call


_SPECIAL = ("__init__", "__call__")


def _check_class(found: type) -> None:
    for name, member in list(vars(found).items()):
        if name.startswith("_") and name not in _SPECIAL:
            continue
        shown = found.__name__ if name == "__init__" else f"{found.__name__}.{name}"
        if inspect.isfunction(member):
            setattr(found, name, checked(member, shown))
        elif isinstance(member, classmethod):
            setattr(found, name, classmethod(checked(member.__func__, shown)))


def check_arguments(scope: dict[str, Any], names: Iterable[str]) -> None:
    """Wraps functions and classes of a module in place: those that are defined in this package."""
    for name in names:
        member = scope[name]
        if inspect.isfunction(member):
            scope[name] = checked(member, name)
        elif inspect.isclass(member) and not dataclasses.is_dataclass(member) and not issubclass(member, Exception):
            _check_class(member)
