"""What a run prints can be read without colours, and what the suite does not know is a failure that says so."""

from __future__ import annotations

import io

import pytest
from rich.console import Console
from unihal import _core
from unihal.conformance import elementwise, suite
from unihal.conformance.case import Check
from unihal.conformance.outcome import Outcome
from unihal.conformance.report import Report


def outcome(status: str, number: int) -> Outcome:
    return Outcome("fill", f"fill/{number}", "float32", status, "because")  # type: ignore[arg-type]


def test_passes_gaps_and_failures_are_told_apart_without_colours() -> None:
    report = Report("a device", 0, None)
    report.outcomes += [outcome("passed", i) for i in range(12)] + [outcome("gap", 20), outcome("gap", 21)]
    report.outcomes.append(outcome("failed", 30))
    text = io.StringIO()
    report.show(Console(file=text, width=100, color_system=None))
    assert "12 (2) 1!" in text.getvalue()
    assert "by op and dtype: passed, (declared gaps), failed!" in text.getvalue()
    assert "gap because" in text.getvalue() and "failed fill/30" in text.getvalue()


def failures(entries: list[object]) -> list[str]:
    found = []
    for entry in entries:
        if isinstance(entry, Check) and entry.variant.endswith(("reference", "no_case")):
            with pytest.raises(AssertionError) as error:
                entry.function(None)
            found.append(f"{entry.name}: {error.value}")
    return found


def test_a_function_without_a_reference_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    known = _core.map_functions()
    row = {**known["exp"], "expression": "x * x * x"}
    other = {**known["add"], "input_count": 3}
    monkeypatch.setattr(elementwise, "known_functions", lambda: {**known, "cube": row, "add": other})
    messages = failures(list(elementwise.cases(0)))
    assert len(messages) == 2
    assert messages[0].startswith("map/add/reference: ") and "with 3 operands" in messages[0]
    assert messages[1].startswith("map/cube/reference: ") and "conformance/map_functions.py" in messages[1]


def test_a_kind_without_a_case_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    kinds = {**_core.op_kinds(), "trace": 143}
    monkeypatch.setattr(_core, "op_kinds", lambda: kinds)
    messages = failures(list(suite.entries(suite.Selection())))
    assert len(messages) == 1 and messages[0].startswith("trace/no_case: ")
