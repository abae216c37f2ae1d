"""The pytest plugin: what the options set, and that each fixture fails a test when it must."""

from __future__ import annotations

import pytest

pytest_plugins = ["pytester"]

# One child process per run: what is tested is read once per process.
STRICT = "--unihal-stub=strict"


@pytest.fixture(autouse=True)
def no_wish_for_a_backend(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UNIHAL_BACKEND", "UNIHAL_STUB", "UNIHAL_STUB_SEED", "UNIHAL_STUB_PROFILE"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture(autouse=True)
def no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are three quarters of what such a process costs. Ours is named; its entry point serves tests/docs."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, source: str, *arguments: str) -> pytest.RunResult:
    pytester.makepyfile(source)
    return pytester.runpytest_subprocess("-p", "unihal_pytest", "-p", "no:cacheprovider", "-rA", *arguments)


# -- the run -----------------------------------------------------------------------------------------------------------

READS_ENVIRONMENT = """
import os

SEEN = {name: value for name, value in os.environ.items() if name.startswith("UNIHAL_")}

def test_it():
    print("seen:", sorted(SEEN.items()))
"""


def test_a_run_that_asks_for_nothing_pays_nothing(pytester: pytest.Pytester) -> None:
    result = run(
        pytester,
        """
import os, sys

def test_it():
    assert [name for name in sys.modules if name == "unihal" or name.startswith("unihal.")] == []
    assert [name for name in os.environ if name.startswith("UNIHAL_")] == []
""",
    )
    result.assert_outcomes(passed=1)
    assert not [line for line in result.outlines if line.startswith("unihal")]


def test_options_are_set_before_conftest_is_imported(pytester: pytest.Pytester) -> None:
    pytester.makeconftest("import os\nprint('mode:', os.environ['UNIHAL_STUB'])")
    result = run(pytester, READS_ENVIRONMENT, STRICT, "--unihal-seed=7", "--unihal-profile=rx580-4gb", "-s")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(
        [
            "*mode: strict",
            "unihal: the stub (strict) stands in for hardware, seed 7, profile rx580-4gb",
            "*('UNIHAL_BACKEND', 'stub'), ('UNIHAL_STUB', 'strict'), ('UNIHAL_STUB_PROFILE', 'rx580-4gb'), "
            "('UNIHAL_STUB_SEED', '7')*",
        ]
    )


def test_ini_values_serve_where_no_option_is_given(pytester: pytest.Pytester) -> None:
    pytester.makeini("[pytest]\nunihal_stub = strict\nunihal_seed = 3\nunihal_profile = cards/small.yaml\n")
    result = run(pytester, READS_ENVIRONMENT, "--unihal-seed=4")
    result.stdout.fnmatch_lines(
        [
            f"unihal: the stub (strict) stands in for hardware, seed 4, profile {pytester.path}/cards/small.yaml",
            "*('UNIHAL_STUB_SEED', '4')*",
        ]
    )
    # Real hardware, on the same project: the wish is taken back.
    result = pytester.runpytest_subprocess(
        "-p", "unihal_pytest", "-rA", *(f"-ounihal_{name}=" for name in ("stub", "seed", "profile"))
    )
    result.stdout.fnmatch_lines(["seen: []"])
    assert not [line for line in result.outlines if line.startswith("unihal")]


def test_a_seed_alone_asks_for_the_stub_and_keeps_the_mode(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("UNIHAL_STUB", "strict")
    result = run(pytester, READS_ENVIRONMENT, "--unihal-seed=1")
    result.stdout.fnmatch_lines(
        ["unihal: the stub (strict) stands in for hardware, seed 1", "*'UNIHAL_BACKEND', 'stub'*"]
    )


def test_a_backend_serves_instead_of_the_stub(pytester: pytest.Pytester) -> None:
    lines = ["unihal: the backend opencl serves all devices", "seen: [[]('UNIHAL_BACKEND', 'opencl')]"]
    run(pytester, READS_ENVIRONMENT, "--unihal-backend=opencl").stdout.fnmatch_lines(lines)
    # An option goes before what the file says of the other.
    pytester.makeini("[pytest]\nunihal_stub = strict\nunihal_seed = 3\n")
    run(pytester, READS_ENVIRONMENT, "--unihal-backend=opencl").stdout.fnmatch_lines(lines)
    pytester.makeini("[pytest]\nunihal_backend = opencl\n")
    run(pytester, READS_ENVIRONMENT).stdout.fnmatch_lines(lines)
    run(pytester, READS_ENVIRONMENT, STRICT).stdout.fnmatch_lines(["unihal: the stub (strict) stands in for hardware"])


def test_a_backend_with_settings_of_the_stub_is_refused(pytester: pytest.Pytester) -> None:
    result = run(pytester, READS_ENVIRONMENT, "--unihal-backend=opencl", "--unihal-seed=3")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*the backend 'opencl' was asked for, and unihal_seed is a setting of the stub*"])


@pytest.mark.parametrize(
    ("argument", "expected"),
    [
        ("--unihal-stub=slow", "*--unihal-stub: invalid choice: 'slow'*'fast'*'strict'*"),
        ("--unihal-seed=-1", "*--unihal-seed: '-1' is not a whole number from 0 to 18446744073709551615*"),
        ("--unihal-seed=18446744073709551616", "*--unihal-seed: '18446744073709551616' is not a whole number*"),
        ("-ounihal_stub=Strict", "*unihal_stub is 'Strict' in pytest's configuration; expected fast or strict*"),
        ("-ounihal_seed=one", "*unihal_seed in pytest's configuration: 'one' is not a whole number*"),
    ],
)
def test_nonsense_is_refused(pytester: pytest.Pytester, argument: str, expected: str) -> None:
    result = run(pytester, READS_ENVIRONMENT, argument)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines([expected])


def test_what_started_before_is_named(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
    pytester.makepyfile(early="import unihal")
    monkeypatch.setenv("PYTHONPATH", str(pytester.path))
    result = run(pytester, READS_ENVIRONMENT, "-p", "early", STRICT)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*unihal was imported before pytest*UNIHAL_STUB=strict UNIHAL_BACKEND=stub*"])
    # It is no error if it started with the same.
    monkeypatch.setenv("UNIHAL_BACKEND", "stub")
    monkeypatch.setenv("UNIHAL_STUB", "strict")
    run(pytester, READS_ENVIRONMENT, "-p", "early", STRICT).assert_outcomes(passed=1)


# -- fixtures ----------------------------------------------------------------------------------------------------------


def test_strict_device(pytester: pytest.Pytester) -> None:
    source = """
def test_it(strict_device):
    print(strict_device, strict_device.properties.is_stub, strict_device.properties.unified_memory)
"""
    result = run(pytester, source, STRICT)
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["rdna:0 True False"])
    run(pytester, source, STRICT, "-ounihal_device=polaris").stdout.fnmatch_lines(["polaris:0 True False"])

    result = run(pytester, source, "--unihal-stub=fast")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["The device rdna:0 is served by the stub backend*--unihal-stub=strict*unihal_stub = strict*"]
    )


FALLBACKS = """
import pytest
from unihal import _core

def fall_back(op):
    # What an adapter does when it meets an op that the device lacks.
    _core.record_fallback("paddle", op, "float16", "no kernel of this dtype")

def test_before():
    fall_back("matmul")

def test_none(assert_no_fallback):
    assert assert_no_fallback.fallbacks == []

def test_one(assert_no_fallback):
    fall_back("matmul")
    fall_back("matmul")
    assert assert_no_fallback.fallbacks[0].count == 2

@pytest.mark.unihal_no_fallback
def test_marked():
    fall_back("cumsum")

@pytest.mark.unihal_no_fallback
def test_broken_otherwise():
    fall_back("cumsum")
    raise ValueError("the test's own")

@pytest.fixture
def model(assert_no_fallback):
    fall_back("set-up")
    assert_no_fallback.begin()

def test_setting_up_is_not_the_test(model):
    pass
"""


def test_assert_no_fallback(pytester: pytest.Pytester) -> None:
    result = run(pytester, FALLBACKS, "--unihal-stub=fast", "--strict-markers")
    result.assert_outcomes(passed=3, failed=3)
    result.stdout.fnmatch_lines(
        [
            "*_ test_one _*",
            "Ops fell back to the CPU:",
            "  paddle: matmul of float16, 2 times: no kernel of this dtype",
            "*_ test_marked _*",
            "  paddle: cumsum of float16, 1 times: no kernel of this dtype",
            "*_ test_broken_otherwise _*",
            "E * ValueError: the test's own",
        ]
    )


RACES = """
import numpy as np
import pytest
import unihal

def write_twice(device, ordered):
    with unihal.Stream(device) as first, unihal.Stream(device) as second:
        x = unihal.Buffer.from_numpy(np.zeros((8,), np.float32), device, stream=first)
        first.synchronize()
        unihal.ops.fill(x, 1, stream=first)
        if ordered:
            second.wait(first.record())
        unihal.ops.fill(x, 2, stream=second)
        second.synchronize()
        first.synchronize()

def test_ordered(strict_device, assert_no_race):
    write_twice(strict_device, True)

def test_unordered(strict_device, assert_no_race):
    write_twice(strict_device, False)
    assert len(assert_no_race.races) == 1

@pytest.mark.unihal_no_race
def test_marked(strict_device):
    write_twice(strict_device, False)

@pytest.mark.unihal_no_race
def test_after_it():
    pass
"""


def test_assert_no_race(pytester: pytest.Pytester) -> None:
    result = run(pytester, RACES, STRICT)
    result.assert_outcomes(passed=2, failed=2)
    result.stdout.fnmatch_lines(["*_ test_unordered _*", "1 races were found:", "*fill*", "*_ test_marked _*"])

    result = run(pytester, RACES, "--unihal-stub=fast", "-ktest_after_it")
    result.assert_outcomes(errors=1, deselected=3)
    result.stdout.fnmatch_lines(["Races are not looked for in this run: *--unihal-stub=strict*UNIHAL_CHECK_RACES=1.*"])


MEMORY = """
import pytest
import unihal

kept = []

def use(size):
    return unihal.Buffer((size,), "uint8", "rdna:0")

@pytest.fixture
def model():
    return use(5000)

def test_all_given_back(memory_watermark, model):
    buffer = use(1 << 20)
    buffer.close()
    print("peak:", memory_watermark.peak_bytes, "grown:", memory_watermark.grown_bytes)

def test_reference_cycles_are_collected(memory_watermark):
    cycle = [use(4096)]
    cycle.append(cycle)

def test_kept(memory_watermark):
    kept.append(use(1 << 20))

@pytest.mark.unihal_memory(growth="1M")
def test_may_grow():
    kept.append(use(1 << 20))

@pytest.mark.unihal_memory(peak="64K")
def test_peak():
    use(1 << 16).close()
    (use(1 << 16), use(1 << 16))

def test_first_step(memory_watermark):
    kept.append(use(1 << 20))
    memory_watermark.begin()
    use(1 << 20).close()

@pytest.mark.unihal_memory("1M")
def test_position():
    pass

@pytest.mark.unihal_memory(growth="1 MB")
def test_nonsense():
    pass
"""


@pytest.mark.parametrize("mode", ["fast", "strict"])
def test_memory_watermark(pytester: pytest.Pytester, mode: str) -> None:
    result = run(pytester, MEMORY, f"--unihal-stub={mode}")
    result.assert_outcomes(passed=4, failed=2, errors=2)
    result.stdout.fnmatch_lines(
        [
            "*unihal_memory takes growth=... and peak=..., by name*",
            "*unihal_memory: a size is '1 MB'; expected a number of bytes*",
            "*_ test_kept _*",
            "Device memory grew by 1,048,576 bytes; none may stay:",
            "  rdna:0: * bytes in use at the beginning, * at the end",
            *(["  1,048,576 bytes allocated at *test_memory_watermark.py:* in use*"] if mode == "strict" else []),
            "*_ test_peak _*",
            "Device memory peaked 131,072 bytes above the beginning; expected at most 65,536.",
            "peak: 1048576 grown: 0",
        ]
    )


FAULTS = """
import numpy as np
import pytest
import unihal

def step():
    x = unihal.Buffer.from_numpy(np.ones((3, 3), np.float32), "rdna:0")
    return float(unihal.ops.sum(unihal.ops.matmul(x, x)).item())

def test_raised(inject_faults):
    with inject_faults("launch:matmul:nth=2") as faults:
        assert step() == 27
        with pytest.raises(unihal.InternalError, match="launch:matmul:nth=2"):
            step()
    assert faults.counts().injected == 1
    assert step() == 27

def test_asynchronous_errors_are_dropped(inject_faults):
    with inject_faults("launch:map.relu:once:async"):
        unihal.ops.relu(unihal.Buffer.from_numpy(np.ones((3, 3), np.float32), "rdna:0"))

def test_after_it():
    assert step() == 27

def test_never_met(inject_faults):
    with inject_faults("launch:softmax:once"):
        step()

def test_nonsense(inject_faults):
    with inject_faults("launch:sometimes"):
        step()
"""


@pytest.mark.parametrize("mode", ["fast", "strict"])
def test_inject_faults(pytester: pytest.Pytester, mode: str) -> None:
    result = run(pytester, FAULTS, f"--unihal-stub={mode}")
    result.assert_outcomes(passed=3, failed=2)
    result.stdout.fnmatch_lines(
        [
            "*No fault was injected by 'launch:softmax:once': the block made * launches*",
            "*InvalidArgumentError*sometimes*",
        ]
    )


def test_faults_need_the_stub(pytester: pytest.Pytester) -> None:
    result = run(pytester, FAULTS, "-kraised")
    result.assert_outcomes(failed=1, deselected=4)
    result.stdout.fnmatch_lines(["*Faults are injected by the stub, which does not serve in this run*"])


def test_fixtures_are_listed_with_their_meaning(pytester: pytest.Pytester) -> None:
    result = run(pytester, "", "--fixtures")
    for name in ("strict_device", "assert_no_fallback", "assert_no_race", "memory_watermark", "inject_faults"):
        start = next(number for number, line in enumerate(result.outlines) if line.startswith(f"{name} -- "))
        assert result.outlines[start + 1].startswith("    ") and "no docstring" not in result.outlines[start + 1]
    result = run(pytester, "", "--markers")
    names = ("unihal_no_fallback:", "unihal_no_race:", "unihal_memory(growth=0, peak=None):")
    for name in names:
        assert any(line.startswith(f"@pytest.mark.{name}") for line in result.outlines), name
