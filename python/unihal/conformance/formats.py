"""What a run of the suite found, for programs: JUnit XML and JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING
from xml.etree import ElementTree

from .outcome import Outcome

if TYPE_CHECKING:
    from .report import Report

#: What XML 1.0 cannot hold, not even escaped.
_NOT_IN_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def write_junit(report: Report, path: Path) -> None:
    """One suite per op, one case per entry; a declared gap is a skipped case with the backend's reason."""
    root = ElementTree.Element("testsuites", _counts(report.outcomes), name="unihal conformance")
    for op in dict.fromkeys(outcome.op for outcome in report.outcomes):
        chosen = [outcome for outcome in report.outcomes if outcome.op == op]
        suite = ElementTree.SubElement(root, "testsuite", _counts(chosen), name=op)
        properties = ElementTree.SubElement(suite, "properties")
        for name, value in (("device", report.device), ("seed", str(report.seed))):
            ElementTree.SubElement(properties, "property", name=name, value=_clean(value))
        for outcome in chosen:
            _add_case(suite, outcome)
    tree = ElementTree.ElementTree(root)
    ElementTree.indent(tree)
    tree.write(path, encoding="utf-8", xml_declaration=True)


def write_json(report: Report, path: Path) -> None:
    """The outcomes, with the device and the seed."""
    content = {
        "device": report.device,
        "seed": report.seed,
        "passed": report.passed,
        "outcomes": [asdict(outcome) for outcome in report.outcomes],
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")


def _counts(outcomes: Sequence[Outcome]) -> dict[str, str]:
    return {
        "tests": str(len(outcomes)),
        "failures": str(sum(outcome.status == "failed" for outcome in outcomes)),
        "errors": "0",
        "skipped": str(sum(outcome.status == "gap" for outcome in outcomes)),
        "time": f"{sum(outcome.seconds for outcome in outcomes):.3f}",
    }


def _add_case(suite: ElementTree.Element, outcome: Outcome) -> None:
    case = ElementTree.SubElement(
        suite, "testcase", classname=f"conformance.{outcome.op}", name=outcome.name, time=f"{outcome.seconds:.4f}"
    )
    message = _clean(outcome.message)
    if outcome.status == "gap":
        ElementTree.SubElement(case, "skipped", message=message)
    elif outcome.status == "failed":
        ElementTree.SubElement(case, "failure", message=message).text = message


def _clean(text: str) -> str:
    return _NOT_IN_XML.sub("\ufffd", text)
