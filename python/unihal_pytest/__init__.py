"""The pytest plugin of unihal: the stub for a whole run, and checks as fixtures and markers (docs/testing.md).

pytest finds it by itself where unihal is installed. It lies outside of the package unihal, whose import loads a native
library: a run that asks for nothing pays nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from . import configuration

if TYPE_CHECKING:
    from unihal import Device
    from unihal.testing import Check, InjectedFaults, MemoryWatermark, NoFallback, NoRace

    AnyCheck = TypeVar("AnyCheck", bound=Check)

_WISHES = pytest.StashKey[configuration.Wishes]()
_CHECKS = pytest.StashKey["dict[type[Check], Check]"]()

_MARKERS = (
    "unihal_no_fallback: the test fails if an op falls back to the CPU",
    "unihal_no_race: the test fails if two accesses of device memory are not ordered (strict stub)",
    "unihal_memory(growth=0, peak=None): the test fails if more device memory is in use at its end than at its "
    "beginning, beyond `growth`, or if the peak passed `peak`; both in bytes, or such as '64M'",
)


# -- the run -----------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """Called by pytest."""
    configuration.add_options(parser)


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests(early_config: pytest.Config) -> None:
    """Called by pytest before it imports any conftest.py, which may import a framework."""
    wishes = configuration.read_wishes(early_config, early_config.known_args_namespace)
    early_config.stash[_WISHES] = wishes
    if wishes:
        configuration.apply(wishes)


def pytest_configure(config: pytest.Config) -> None:
    """Called by pytest."""
    for marker in _MARKERS:
        config.addinivalue_line("markers", marker)


def pytest_report_header(config: pytest.Config) -> str | None:
    """What stands in for hardware; nothing if nothing was asked for."""
    wishes = config.stash.get(_WISHES, None)
    return wishes.describe() if wishes else None


# -- checks ------------------------------------------------------------------------------------------------------------


def _check(item: pytest.Item, kind: type[AnyCheck], *arguments: Any) -> AnyCheck:
    """The check of this kind of a test: one, whether a fixture, a marker or both asked for it."""
    from unihal.testing import NotConfiguredError

    checks = item.stash.setdefault(_CHECKS, {})
    if kind not in checks:
        try:
            checks[kind] = kind(*arguments)
        except NotConfiguredError as error:
            pytest.fail(str(error), pytrace=False)
    check = checks[kind]
    assert isinstance(check, kind)
    return check


def _watermark(item: pytest.Item) -> MemoryWatermark:
    from unihal.testing import MemoryWatermark

    marker = item.get_closest_marker("unihal_memory")
    arguments = {"growth": 0, "peak": None, **(marker.kwargs if marker else {})}
    if (marker and marker.args) or set(arguments) != {"growth", "peak"}:
        raise pytest.UsageError(f"{item.nodeid}: unihal_memory takes growth=... and peak=..., by name")
    try:
        return _check(item, MemoryWatermark, arguments["growth"], arguments["peak"])
    except ValueError as error:
        raise pytest.UsageError(f"{item.nodeid}: unihal_memory: {error}") from None


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Makes the checks that markers ask for."""
    names = {marker.name for marker in item.iter_markers() if marker.name.startswith("unihal_")}
    if not names:
        return
    from unihal.testing import NoFallback, NoRace

    if "unihal_no_fallback" in names:
        _check(item, NoFallback)
    if "unihal_no_race" in names:
        _check(item, NoRace)
    if "unihal_memory" in names:
        _watermark(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    """Holds the checks around the test's function: fixtures are set up before and torn down after, on neither account.

    What a check complains of is the test's failure, not an error of its teardown.
    """
    checks = item.stash.get(_CHECKS, None)
    if not checks:
        return (yield)
    for check in checks.values():
        check.begin()
    result = yield
    complaints = [complaint for check in checks.values() if (complaint := check.complaint())]
    if complaints:
        pytest.fail("\n\n".join(complaints), pytrace=False)
    return result


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def strict_device(pytestconfig: pytest.Config) -> Iterator[Device]:
    """A device of the strict stub: ``rdna:0``, or the one that the ini value ``unihal_device`` names.

    An error that says what to do if the run was not configured for it. The test's end waits for the device, so that an
    error of asynchronous work is an error of this test.
    """
    from unihal import testing

    try:
        device = testing.strict_device(str(pytestconfig.getini("unihal_device")))
    except testing.NotConfiguredError as error:
        pytest.fail(str(error), pytrace=False)
    yield device
    device.synchronize()


@pytest.fixture
def assert_no_fallback(request: pytest.FixtureRequest) -> NoFallback:
    """The test fails if an op of a framework falls back to the CPU during it."""
    from unihal.testing import NoFallback

    return _check(request.node, NoFallback)


@pytest.fixture
def assert_no_race(request: pytest.FixtureRequest) -> NoRace:
    """The test fails if a race is found during it; an error where none are looked for."""
    from unihal.testing import NoRace

    return _check(request.node, NoRace)


@pytest.fixture
def memory_watermark(request: pytest.FixtureRequest) -> MemoryWatermark:
    """The test fails if more device memory is in use at its end than at its beginning.

    ``memory_watermark.begin()`` starts anew, such as after a first step; ``peak_bytes`` is the peak so far. The marker
    ``unihal_memory(growth=..., peak=...)`` sets limits.
    """
    return _watermark(request.node)


@pytest.fixture
def inject_faults() -> Iterator[Callable[..., InjectedFaults]]:
    """``with inject_faults("launch:matmul:nth=2"): ...`` injects faults in the block, which must meet one.

    The test's end drops the errors that are left on streams.
    """
    from unihal import devices
    from unihal.faults import forget_errors
    from unihal.testing import InjectedFaults, NotConfiguredError

    def inject(rules: str, device: str | None = None) -> InjectedFaults:
        try:
            return InjectedFaults(rules, device)
        except NotConfiguredError as error:
            pytest.fail(str(error), pytrace=False)

    yield inject
    for device in devices():
        forget_errors(device)
