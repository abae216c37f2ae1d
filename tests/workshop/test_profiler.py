"""The profiler: stages, what is counted to them, and its files."""

from __future__ import annotations

import io
import itertools
import json
import threading
from pathlib import Path
from xml.etree import ElementTree

import pytest
import torch
import unihal
from unihal_workshop import ProfileEntry, Profiler, StageError


def work(size: int = 128) -> torch.Tensor:
    return torch.ones(size, size, device="rdna") @ torch.ones(size, size, device="rdna")


def entry_of(profiler: Profiler, path: str) -> ProfileEntry:
    return next(entry for entry in profiler.entries if entry.path == path)


def test_nested_stages() -> None:
    profiler = Profiler()
    with profiler.stage("step"):
        with profiler.stage("forward"):
            kept = work()
        profiler.start("backward")
        work()
        work()
        profiler.end("backward")
    step, forward, backward = (entry_of(profiler, path) for path in ("step", "step/forward", "step/backward"))
    assert backward.launches == 2 * forward.launches > 0
    assert step.launches == forward.launches + backward.launches
    assert step.device_nanoseconds == forward.device_nanoseconds + backward.device_nanoseconds > 0
    assert step.self_device_nanoseconds == 0 and forward.self_device_nanoseconds == forward.device_nanoseconds
    assert step.host_nanoseconds >= forward.host_nanoseconds + backward.host_nanoseconds
    assert forward.ops["matmul"] > 0 and forward.operations >= 2 * 128**3
    assert forward.memory_after - forward.memory_before == 128 * 128 * 4
    assert forward.peak_bytes >= forward.memory_before + 3 * 128 * 128 * 4
    assert step.peak_bytes == max(forward.peak_bytes, backward.peak_bytes)
    del kept


def test_repeats_have_statistics() -> None:
    profiler = Profiler()

    @profiler
    def step() -> None:
        work()

    @profiler("other")
    def another() -> int:
        return 3

    for _ in range(4):
        step()
    assert another() == 3 and another.__name__ == "another"
    rows = {row.path: row for row in profiler.statistics()}
    row = rows["step"]
    assert (row.runs, row.depth) == (4, 0)
    assert row.least_ms <= row.median_ms <= row.most_ms and row.least_ms <= row.mean_ms <= row.most_ms
    assert row.deviation_ms > 0 and rows["other"].deviation_ms == 0
    assert rows["other"].launches == 0


def test_the_bottleneck() -> None:
    profiler = Profiler()
    assert profiler.bottleneck() is None
    with profiler.stage("step"):
        with profiler.stage("small"):
            work(8)
        with profiler.stage("large"):
            work(1200)
    found = profiler.bottleneck()
    assert found is not None and found.path == "step/large" and found.share > 0.5
    assert found.bound_by == "device" and found.op == "matmul"
    import time

    idle = Profiler()
    with idle.stage("sleeps"):
        time.sleep(0.02)
    found = idle.bottleneck()
    assert found is not None and found.bound_by == "host" and "no op ran" in found.advice


def test_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Not the machine's clock: on a busy one it is chance which stage takes longer.
    now = itertools.count(step=1000)
    monkeypatch.setattr("time.perf_counter_ns", lambda: next(now))
    profiler = Profiler()
    with profiler.stage("a<b"), profiler.stage("c"):
        work()
        for _ in range(1000):
            next(now)
    profiler.write_json(tmp_path / "p.json")
    data = json.loads((tmp_path / "p.json").read_text())
    assert {entry["path"] for entry in data["entries"]} == {"a<b", "a<b/c"} and data["bottleneck"]["path"] == "a<b/c"
    profiler.write_perfetto(tmp_path / "t.json")
    events = json.loads((tmp_path / "t.json").read_text())["traceEvents"]
    stages = [event for event in events if event["ph"] == "X" and event["tid"] == 1]
    ops = [event for event in events if event["ph"] == "X" and event["tid"] == 2]
    outer, inner = stages
    assert outer["ts"] <= inner["ts"] and inner["ts"] + inner["dur"] <= outer["ts"] + outer["dur"] + 1
    assert any(op["name"] == "matmul" for op in ops) and all(op["ts"] >= outer["ts"] for op in ops)
    profiler.write_picture(tmp_path / "p.svg")
    root = ElementTree.parse(tmp_path / "p.svg").getroot()
    titles = [title.text or "" for title in root.iter("{http://www.w3.org/2000/svg}title")]
    assert any(title.startswith("a<b/c: ") for title in titles) and any("matmul" in title for title in titles)
    text = io.StringIO()
    profiler.print_summary(text)
    assert "bottleneck: a<b/c" in text.getvalue() and "  c " in text.getvalue()


def test_stages_in_the_wrong_order() -> None:
    profiler = Profiler()
    with pytest.raises(StageError, match="no stage is open"):
        profiler.end()
    profiler.start("outer")
    profiler.start("inner")
    with pytest.raises(StageError, match="'outer' cannot end: 'inner' began after it"):
        profiler.end("outer")
    with pytest.raises(StageError, match="is open"):
        profiler.clear()
    with pytest.raises(StageError, match="without '/'"):
        profiler.start("a/b")
    errors: list[Exception] = []

    def elsewhere() -> None:
        try:
            profiler.start("x")
        except StageError as error:
            errors.append(error)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    thread.join()
    assert "another thread" in str(errors[0])
    profiler.end("inner")
    profiler.end("outer")
    profiler.clear()
    assert profiler.entries == []


def test_an_exception_ends_stages() -> None:
    profiler = Profiler()
    with pytest.raises(ValueError, match="x"), profiler.stage("outer"):
        profiler.start("inner")
        raise ValueError("x")
    assert {entry.path: entry.failed for entry in profiler.entries} == {"outer": True, "outer/inner": True}
    with profiler.stage("again"):
        work()
    assert entry_of(profiler, "again").launches > 0


def test_a_second_recording_is_refused() -> None:
    profiler = Profiler()
    with unihal.profile(), pytest.raises(StageError, match="recording already"):
        profiler.start("x")
    with profiler.stage("x"):
        work()
    assert len(profiler.entries) == 1


def test_without_a_device_the_host_is_timed() -> None:
    profiler = Profiler("cpu")
    with profiler.stage("x"):
        sum(range(1000))
    assert profiler.entries[0].host_nanoseconds > 0 and profiler.entries[0].launches == 0
