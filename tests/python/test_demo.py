"""The demonstration's parts. `make demo` runs it as a whole; here its judgement is tested, and one short run."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from processes import run_command
from rich.console import Console
from unihal.demo import data, main, protocol, report


def test_the_split_is_fixed_and_complete() -> None:
    digits = data.load_digits()
    assert digits.train_images.shape == (1408, 8, 8) and digits.test_images.shape == (389, 8, 8)
    assert digits.train_images.min() == 0 and digits.train_images.max() == 1
    again = data.load_digits()
    np.testing.assert_array_equal(digits.test_labels, again.test_labels)
    assert set(np.unique(digits.test_labels)) == set(range(10))


def test_batches_show_each_image_once() -> None:
    shown = np.concatenate(data.batches(3))
    assert sorted(shown) == list(range(1408))
    assert not np.array_equal(shown, np.concatenate(data.batches(4)))


def test_messages_survive_the_pipe(capsys: pytest.CaptureFixture[str]) -> None:
    epoch = protocol.Epoch(2, 0.5, 0.75)
    result = protocol.Result("stub", "name", True, 1.5, None, 0, [protocol.TopOp("matmul", 3, 0.5, 0.25)])
    protocol.send(epoch)
    protocol.send(result)
    lines = capsys.readouterr().out.splitlines()
    assert [protocol.receive(line) for line in lines] == [epoch, result]
    assert protocol.receive("something that a framework prints") is None


def finished_pair(loss: float = 0.1, accuracy: float = 0.98, fallbacks: int = 0) -> main.Pair:
    pair = main.Pair(main.Run("paddle", "Paddle, rdna", "m", "rdna"), main.Run("paddle", "Paddle, CPU", "m", "cpu"))
    pair.cpu.epochs = [protocol.Epoch(0, 0.1, 0.98)]
    pair.cpu.result = protocol.Result("CPU", "", False, 2.0, None, 0)
    pair.device.epochs = [protocol.Epoch(0, loss, accuracy)]
    top = [protocol.TopOp("matmul", 3, 0.5, 0.25)]
    pair.device.result = protocol.Result("stub", "host memory", True, 3.0, 1 << 20, fallbacks, top)
    return pair


def test_good_runs_pass() -> None:
    main.judge([finished_pair()])


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (finished_pair(accuracy=0.96), "reached 96.0% on held-out images; expected at least 97%"),
        (finished_pair(fallbacks=2), "2 ops fell back to the CPU; list them with: unihal fallbacks --"),
        (finished_pair(loss=0.3), "part at epoch 1: loss 0.3000 and 0.1000"),
    ],
)
def test_bad_runs_are_failures(pair: main.Pair, message: str) -> None:
    with pytest.raises(main.DemoError) as caught:
        main.judge([pair])
    assert message in str(caught.value)


def test_files_and_tables(tmp_path: Path) -> None:
    pair = finished_pair()
    event = {"ph": "X", "name": "matmul", "pid": 4711, "tid": 1, "ts": 1.0, "dur": 2.0}
    main.trace_path(tmp_path, pair.device).write_text(json.dumps({"traceEvents": [event]}))
    curves, trace, summary = report.write([pair], tmp_path, tmp_path)
    assert curves.read_bytes().startswith(b"\x89PNG")
    events = json.loads(trace.read_text())["traceEvents"]
    assert events[0]["args"]["name"] == "Paddle, rdna" and events[1]["pid"] == events[0]["pid"]
    runs = json.loads(summary.read_text())["runs"]
    keys = {"framework", "device", "backend", "accuracy", "seconds", "ratio_to_cpu", "peak_memory_bytes", "fallbacks"}
    assert [set(run) for run in runs] == [keys | {"top_ops"}] * 2
    assert runs[0]["ratio_to_cpu"] == 1.5 and runs[1]["ratio_to_cpu"] == 1

    console = Console(record=True, width=160, file=io.StringIO())
    report.show([pair], console)
    text = console.export_text()
    assert "98.00%" in text and "1.0 MiB" in text and "matmul" in text
    assert "no such hardware took part. The stub stands in for it" in text


def test_the_picture_has_the_curves_of_all_frameworks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot

    drawn = []
    monkeypatch.setattr(pyplot, "close", drawn.append)
    report._draw_curves([finished_pair() for _ in main.FRAMEWORKS], tmp_path / "curves.png")
    (figure,) = drawn
    assert [len(axes.lines) for axes in figure.axes] == [2 * len(main.FRAMEWORKS)] * 2 == [6, 6]
    looks = {(line.get_color(), line.get_linestyle()) for line in figure.axes[0].lines}
    assert len(looks) == 6 - 1  # the first framework's line is solid, as its band


def test_a_run_in_a_framework(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    command = [sys.executable, "-m", "unihal.demo.paddle_run", "--device", "rdna", "--epochs", "1"]
    command += ["--trace", str(trace)]
    completed = run_command(command, UNIHAL_STRICT="1", PYTHONPATH=None)
    assert completed.returncode == 0, completed.stderr[-2000:]
    messages = [message for message in map(protocol.receive, completed.stdout.splitlines()) if message]
    epoch, result = messages
    assert isinstance(epoch, protocol.Epoch) and epoch.loss < 2.5
    assert isinstance(result, protocol.Result)
    assert result.backend == "stub" and result.fallbacks == 0
    assert result.peak_memory_bytes is not None and result.peak_memory_bytes > 100_000
    assert len(result.top_ops) == 10 and "convolution" in {op.op for op in result.top_ops}
    assert "matmul" in trace.read_text()


def test_without_hardware_it_says_how_to_ask_for_the_stub(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "unihal.command_line", "demo", "--out", str(tmp_path)]
    completed = run_command(command, UNIHAL_BACKEND=None, PYTHONPATH=None, COLUMNS="200")
    assert completed.returncode == 1
    assert "UNIHAL_BACKEND=stub" in completed.stdout.replace("\n", " ")
