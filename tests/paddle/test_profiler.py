"""paddle.profiler: our ops with the device's times, in its summary, its chrome trace and its tree."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import paddle
import pytest
from comparison import DEVICE, on
from paddle import profiler

pytestmark = pytest.mark.unihal_no_fallback


@pytest.fixture(autouse=True)
def in_a_folder_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paddle writes its traces to profiler_log in the folder where it runs."""
    monkeypatch.chdir(tmp_path)


def recorded(**options: Any) -> Any:
    with on(DEVICE):
        x = paddle.ones([64, 64])
        session = profiler.Profiler(**options)
        session.start()
        for _ in range(3):
            float((x @ x).sum())
            session.step()
        session.stop()
    return session


def nodes(node: Any) -> Any:
    yield node
    for child in node.children_node:
        yield from nodes(child)


def test_the_device_work_lies_under_the_ops_that_asked_for_it() -> None:
    for _ in range(2):  # a second one in the same process, while the program still has the first
        session = recorded()
        device_work = [
            (host.name, work.name, work.end_ns - work.start_ns)
            for root in session.profiler_result.get_data().values()
            for host in nodes(root)
            for call in host.runtime_node
            for work in call.device_node
        ]
        products = [time for host, name, time in device_work if "matmul" in host and name == "matmul"]
        sums = [name for host, name, _ in device_work if host.startswith("sum")]
        assert len(products) == 3 and all(time > 0 for time in products), device_work
        assert len(sums) >= 3


def test_summary_and_trace(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = recorded(on_trace_ready=profiler.export_chrome_tracing(str(tmp_path)), record_shapes=True)
    session.summary()
    said = capsys.readouterr().out
    kernels = said[said.index("Kernel Summary") :]
    assert "matmul" in kernels and "Kernel" in said[: said.index("Kernel Summary")]
    (path,) = tmp_path.glob("*.json")
    events = json.loads(path.read_text())["traceEvents"]
    work = [event for event in events if event.get("cat") == "Kernel" and event["name"].startswith("matmul[")]
    assert len(work) == 3 and all(event["dur"] > 0 for event in work)
    copies = [event for event in events if event.get("cat") == "Memcpy"]
    assert any("device_to_host" in event["name"] for event in copies)


def test_steps_of_a_schedule() -> None:
    results = []
    recorded(
        scheduler=profiler.make_scheduler(closed=1, ready=1, record=1, repeat=1),
        on_trace_ready=lambda session: results.append(session.profiler_result),
    )
    assert len(results) == 1


def test_one_profiler_at_a_time() -> None:
    first = profiler.Profiler()
    with pytest.raises(RuntimeError, match="stop it"):
        profiler.Profiler()
    first.start()
    first.stop()
    profiler.Profiler(timer_only=True)
