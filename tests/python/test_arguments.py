"""Wrong arguments are refused in unihal's words: which argument, what it is, what was expected."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import unihal
from processes import run_python
from unihal import Buffer, ops
from unihal.ops.elementwise import MapFunction

# Anything may be given: what it is good for is found out later.
ANYTHING = {
    "Buffer.from_numpy.array",
    "Buffer.from_dlpack.tensor",
    "Buffer.copy_from.array",
}


def public_functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """Every function and method that the package offers, by the name that messages use."""
    for module in (unihal, ops):
        for name in module.__all__:
            member = getattr(module, name)
            if inspect.isfunction(member):
                yield name, member
            elif inspect.isclass(member) and member.__module__.startswith("unihal."):
                yield from methods(member)
    yield from methods(MapFunction)


def methods(found: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    if issubclass(found, Exception) or hasattr(found, "__dataclass_fields__"):
        return
    for name, member in vars(found).items():
        if name.startswith("_") and name not in ("__init__", "__call__"):
            continue
        shown = found.__name__ if name == "__init__" else f"{found.__name__}.{name}"
        if inspect.isfunction(member):
            yield shown, member
        elif isinstance(member, classmethod):
            yield shown, member.__func__


def arguments() -> Iterator[tuple[str, Callable[..., Any], str, Any]]:
    for shown, function in public_functions():
        for name, parameter in inspect.signature(function).parameters.items():
            if name not in ("self", "cls") and f"{shown}.{name}" not in ANYTHING and shown != "MapFunction":
                yield shown, function, name, parameter


ARGUMENTS = list(arguments())
OWNER = ops.add  # of methods: its name is that of what is called


def test_all_of_the_package_is_looked_at() -> None:
    functions = {shown for shown, *_ in ARGUMENTS}
    assert len(functions) > 75 and len(ARGUMENTS) > 330
    expected = {"device", "Buffer", "Buffer.numpy", "Device.set_memory_limit", "Stream", "Event.record", "ops.resize"}
    assert {name.removeprefix("ops.") for name in expected} <= functions


def test_arguments_of_a_wrong_type_are_named() -> None:
    for shown, function, name, parameter in ARGUMENTS:
        wrong = object()
        with pytest.raises(unihal.ArgumentTypeError) as error:
            if parameter.kind is parameter.VAR_POSITIONAL:
                by_place = [p for p in inspect.signature(function).parameters.values() if p.kind is not p.KEYWORD_ONLY]
                function(*[OWNER] * (len(by_place) - 1), wrong)
            else:
                function(*[OWNER] * ("self" in inspect.signature(function).parameters), **{name: wrong})
        message = str(error.value)
        assert message.startswith(f"{shown.replace('MapFunction.__call__', OWNER.name)}: "), message
        named = "an argument" if parameter.kind is parameter.VAR_POSITIONAL else name
        assert f": {named} is <object object at " in message and "(object); expected " in message, message


def test_the_error_is_what_others_expect() -> None:
    for kind in (unihal.InvalidArgumentError, TypeError, ValueError):
        with pytest.raises(kind):
            unihal.device(7)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda d, x: unihal.device("rdna:99999999999"), "there is no device rdna:99999999999"),
        (lambda d, x: unihal.Device("rdna", -1), "there is no device rdna:-1"),
        (lambda d, x: unihal.Device("rdna", 2.0), "Device: ordinal is 2.0 (float); expected a whole number"),
        (lambda d, x: unihal.devices(3), "devices: device_type is 3 (int); expected a text or None"),
        (lambda d, x: d.set_memory_limit(-1), "limit_bytes is -1; expected a number of bytes"),
        (lambda d, x: d.set_memory_limit(2**64), "limit_bytes is 18446744073709551616; expected a number of bytes"),
        (lambda d, x: d.set_memory_limit("1 GiB"), "limit_bytes is '1 GiB' (str); expected a whole number"),
        (lambda d, x: d.empty_cache(-1), "keep_bytes is -1"),
        (lambda d, x: d.memory_stats("host"), "kind is 'host' (str); expected one of 'device', 'pinned', 'managed'"),
        (lambda d, x: Buffer((2,), "float32", unihal.Stream(d)), "expected a unihal.Device or the name of one"),
        (lambda d, x: Buffer((2,), "float32", d, stream=d), "Buffer: stream is unihal.device('rdna:0') (Device)"),
        (lambda d, x: Buffer(("2",), "float32", d), "expected a sequence of whole numbers or a whole number"),
        (lambda d, x: Buffer((2**70,), "float32", d), "does not fit into 64 bits"),
        (lambda d, x: Buffer((0, 2**70), "float32", d), "does not fit into 64 bits"),
        (lambda d, x: x.broadcast_to((2**70, 2, 3)), "does not fit into 64 bits"),
        (lambda d, x: x.broadcast_to((-1, 2, 3)), "has a negative entry"),
        (lambda d, x: x.reshape(2**70), "6 elements have no shape"),
        (lambda d, x: x.reshape("6"), "Buffer.reshape: an argument is '6' (str); expected a whole number"),
        (lambda d, x: x.transpose(0, 1.0), "Buffer.transpose: an argument is 1.0 (float); expected a whole number"),
        (
            lambda d, x: x.numpy(stream="first"),
            "Buffer.numpy: stream is 'first' (str); expected a unihal.Stream or None",
        ),
        (lambda d, x: ops.sum(x, "rows"), "axis is 'rows' (str)"),
        (lambda d, x: ops.add(x, "1"), "'1' (str); expected a unihal.Buffer"),
        (lambda d, x: ops.add(x, 1, stream=d), "stream is unihal.device('rdna:0') (Device); expected a unihal.Stream"),
        (lambda d, x: ops.matmul(x, np.ones((3, 2))), "matmul: b is array("),
        (lambda d, x: ops.reduce(x, "total"), "reduction is 'total' (str); expected one of 'sum', 'mean'"),
        (lambda d, x: ops.matmul(x, x.T, activation="gelu"), "expected one of 'none', 'relu', 'gelu_erf'"),
        (lambda d, x: ops.iota(2**70, "int64", d), "does not fit into 64 bits"),
        (lambda d, x: ops.triangular(x, diagonal=2**70), "diagonal is 1180591620717411303424"),
        (lambda d, x: ops.launch.launch("copy", [x], [x], {"size": 3}), "copy has no attributes"),
        (
            lambda d, x: ops.launch.launch("scan", [x], [x], {"size": 3}),
            "there is no attribute size; this op has: axis",
        ),
        (lambda d, x: unihal.inject_faults(d, 5), "inject_faults: rules is 5 (int); expected a text"),
        (lambda d, x: unihal.Event(d).record(d), "Event.record: stream is unihal.device('rdna:0') (Device)"),
    ],
)
def test_messages(device: unihal.Device, call: Callable[[unihal.Device, Buffer], object], text: str) -> None:
    x = Buffer.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), device)
    try:
        with pytest.raises(unihal.Error) as error:
            call(device, x)
        assert text in str(error.value)
        assert "incompatible function arguments" not in str(error.value)
        del error
    finally:
        x.close()


def test_numbers_of_numpy_are_numbers(device: unihal.Device) -> None:
    with Buffer(np.int64(6), "float32", device) as x:
        ops.fill(x, np.float32(2))
        y = x.reshape(np.int32(2), 3)
        assert ops.sum(y, np.int64(1), keep_axes=np.bool_(True)).shape == (2, 1)
        assert Buffer(np.array([2, 3]), "int8", device).shape == (2, 3)
        assert y[np.int64(1)].shape == (3,)
        image = y.reshape(1, 1, 2, 3)
        assert ops.average_pool(image, np.int64(2), stride=np.array([1, 1])).shape == (1, 1, 1, 2)


def test_a_buffer_of_another_device_is_said_to_be_its() -> None:
    code = """
import unihal
x = unihal.Buffer((4,), "float32", "rdna:1")
y = unihal.Buffer((4,), "float32", "rdna:0")
for call in (lambda: unihal.ops.add(x, y, out=y), lambda: x.numpy(stream=unihal.Stream("rdna:0"))):
    try:
        call()
    except unihal.Error as error:
        print(error)
"""
    result = run_python(code, UNIHAL_STUB_DEVICES="2")
    assert result.returncode == 0, result.stderr
    assert result.stdout.count("it belongs to rdna:1 (stub)") == 2, result.stdout
