"""Faults on request: the context manager, the counts, and sweeps."""

from __future__ import annotations

import gc
import json
from collections.abc import Callable

import numpy as np
import pytest
import unihal
from processes import run_python


def step() -> np.ndarray:
    """Two copies to the device, two launches, and one copy back."""
    x = unihal.Buffer.from_numpy(np.full((3, 5), 2, np.float32), "rdna")
    y = unihal.Buffer.from_numpy(np.arange(15, dtype=np.float32).reshape(5, 3), "rdna")
    return unihal.ops.relu(unihal.ops.matmul(x, y)).numpy()


EXPECTED = np.full((3, 5), 2, np.float32) @ np.arange(15, dtype=np.float32).reshape(5, 3)


def test_counting_changes_nothing() -> None:
    with unihal.inject_faults("rdna") as faults:
        np.testing.assert_array_equal(step(), EXPECTED)
        assert faults.counts().launches == 2
    assert faults.counts() == unihal.FaultCounts(faults.counts().allocations, launches=2, copies=3, injected=0)


def test_a_fault_is_an_exception_with_its_rule() -> None:
    with unihal.inject_faults(unihal.device("rdna"), "launch:matmul:once") as faults:
        with pytest.raises(
            unihal.InternalError, match="Injected fault: this launch fails. The rule 'launch:matmul:once'"
        ):
            step()
        np.testing.assert_array_equal(step(), EXPECTED)
    assert faults.counts().injected == 1
    np.testing.assert_array_equal(step(), EXPECTED)


def test_a_full_device_is_a_memory_error() -> None:
    with unihal.inject_faults("rdna", "alloc"), pytest.raises(MemoryError, match="The rule 'alloc'"):
        unihal.Buffer((64 << 20,), "uint8", "rdna")


def test_a_lost_device_comes_back_with_the_end_of_the_rules() -> None:
    with (
        unihal.inject_faults("rdna", "device-lost"),
        pytest.raises(unihal.UnavailableError, match="the device is lost"),
    ):
        step()
    np.testing.assert_array_equal(step(), EXPECTED)


def test_rules_end_with_the_block_that_raises() -> None:
    with pytest.raises(ZeroDivisionError), unihal.inject_faults("rdna", "launch"):
        raise ZeroDivisionError
    np.testing.assert_array_equal(step(), EXPECTED)


def test_wrong_rules_are_refused_before_the_block() -> None:
    entered = False
    with (
        pytest.raises(unihal.InvalidArgumentError, match="rule 1, 'alloc:never', is wrong at character 7, 'never'"),
        unihal.inject_faults("rdna", "alloc:never"),
    ):
        entered = True
    assert not entered
    with unihal.inject_faults("rdna", "copy"):  # and the place is free
        pass


def test_blocks_do_not_nest() -> None:
    with unihal.inject_faults("rdna", "copy:after=100"):
        with pytest.raises(unihal.FailedPreconditionError, match="faults are being injected already"):
            unihal.inject_faults("rdna", "alloc").__enter__()
        np.testing.assert_array_equal(step(), EXPECTED)


def next_step_is_right(outcome: unihal.FaultOutcome) -> None:
    gc.collect()
    np.testing.assert_array_equal(step(), EXPECTED, err_msg=outcome.rule)


@pytest.mark.parametrize(
    ("what", "calls"), [("launch", 2), ("copy", 3), ("launch:matmul", 1), ("launch:map.relu", 1), ("launch:softmax", 0)]
)
def test_sweeps_let_each_call_fail_once(what: str, calls: int) -> None:
    sweep = unihal.fault_sweep("rdna", step, what, check=next_step_is_right)
    assert [outcome.rule for outcome in sweep.outcomes] == [f"{what}:nth={n}" for n in range(1, calls + 1)]
    assert sweep.injected == calls
    assert len(sweep.raised) == calls
    assert all(f"'{outcome.rule}'" in str(outcome.error) for outcome in sweep.outcomes)


def test_asynchronous_errors_come_out_of_the_wait() -> None:
    sweep = unihal.fault_sweep("rdna", step, "launch", asynchronous=True, check=next_step_is_right)
    assert len(sweep.raised) == 2
    assert "Earlier work of this stream failed: matmul" in str(sweep.outcomes[0].error)


def swept(run: Callable[[], object], **options: bool) -> unihal.FaultSweep:
    def run_without_cache() -> None:
        gc.collect()
        unihal.device("rdna").empty_cache()
        run()

    return unihal.fault_sweep("rdna", run_without_cache, "alloc", check=next_step_is_right, **options)


def test_one_refused_allocation_is_survived_a_full_device_is_not() -> None:
    once = swept(step)
    assert len(once.survived) == len(once.outcomes) > 0
    lasting = swept(step, lasting=True)
    assert len(lasting.raised) == len(lasting.outcomes) > 0
    assert all(isinstance(outcome.error, MemoryError) for outcome in lasting.outcomes)


def test_sweeps_are_bounded_and_pass_other_errors_on() -> None:
    with pytest.raises(unihal.OutOfRangeError, match="1 runs were not enough to let each launch fail once"):
        unihal.fault_sweep("rdna", step, "launch", limit=1)

    def broken() -> None:
        raise KeyError("no fault of ours")

    with pytest.raises(KeyError):
        unihal.fault_sweep("rdna", broken, "launch")
    np.testing.assert_array_equal(step(), EXPECTED)


PROFILE = """
import json, numpy as np, unihal
device = unihal.device("polaris")
with unihal.profile() as recording:
    x = unihal.Buffer.from_numpy(np.ones((256, 256), np.float32), device)
    unihal.ops.matmul(x, x)
print(json.dumps([device.properties.name, device.properties.is_profile, sorted(t.op for t in recording.totals),
                  [e.estimated_nanoseconds for e in recording.events if e.op == "matmul"]]))
print(recording.summary())
"""


def test_profiles_give_estimates() -> None:
    result = run_python(PROFILE, UNIHAL_STUB_PROFILE="rx6800xt")
    assert result.returncode == 0, result.stderr
    # 2 * 256^3 operations at 20,740 in a nanosecond are 1,618 ns: less than a launch.
    assert json.loads(result.stdout.splitlines()[0]) == [
        "AMD Radeon RX 6800 XT (profile, stub)",
        True,
        ["copy.host_to_device", "matmul"],
        [6000],
    ]
    assert "estimate, not measured" in result.stdout
