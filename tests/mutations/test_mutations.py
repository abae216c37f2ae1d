"""Conformance finds each of the faults that mutant.c can have, and nothing wrong without one."""

from __future__ import annotations

from pathlib import Path

import pytest
from mutations import MUTATIONS, Mutation
from runner import Findings, find_all
from unihal.conformance import suite

PAGE = Path(__file__).parents[2] / "docs" / "mutations.md"


@pytest.fixture(scope="module")
def findings() -> Findings:
    return find_all()


@pytest.mark.timeout(1000)
def test_nothing_is_found_without_a_fault(findings: Findings) -> None:
    assert findings[""] == []


@pytest.mark.timeout(1000)
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_conformance_finds(mutation: Mutation, findings: Findings) -> None:
    assert findings.get(mutation.name), f"a backend where {mutation.text} conforms"


def test_the_page_has_the_same_rows() -> None:
    rows = [line.strip("| ").split(" | ") for line in PAGE.read_text().splitlines() if line.endswith("` |")]
    assert [(name, text) for name, text, _ in rows] == [(mutation.name, mutation.text) for mutation in MUTATIONS]
    cases = {entry.name for entry in suite.entries(suite.Selection())}
    assert {case.strip("`") for _, _, case in rows} <= cases
