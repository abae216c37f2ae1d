"""Builds the backend with faults, and runs conformance on it.

python runner.py       # prints docs/mutations.md
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import unihal
from mutations import MUTATIONS, Mutation

HERE = Path(__file__).parent
FLAGS = ["-std=c11", "-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC"]

#: By mutation: the cases that found it, with what they said.
Findings = dict[str, list[tuple[str, str]]]


def find_all() -> Findings:
    """What finds each mutation; "": what fails without any."""
    fast = [mutation for mutation in MUTATIONS if mutation.mode == "fast"]
    runs = [fast[::2], fast[1::2], *([mutation] for mutation in MUTATIONS if mutation.mode != "fast")]
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(os.cpu_count()) as pool:
        library = build(Path(folder))
        findings: Findings = {"": []}
        for found in pool.map(lambda mutations: run(library, mutations), runs):
            findings[""] += found.pop("", [])
            findings.update(found)
    return findings


def build(folder: Path) -> Path:
    """The backend's library."""
    library = folder / "libunihal_mutant.so"
    command = ["gcc", *FLAGS, f"-I{unihal.include_dir()}", str(HERE / "mutant.c"), "-o", str(library), "-ldl", "-lm"]
    subprocess.run(command, check=True)
    return library


def run(library: Path, mutations: list[Mutation]) -> Findings:
    """What one process finds; a fault that ends it was found by the case that it ended in."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UNIHAL_")}
    environment["UNIHAL_STUB_DEVICES"] = "2"  # ranks
    environment["UNIHAL_STUB"] = "strict" if mutations[0].mode == "strict" else "fast"
    environment["MUTANT_STUB"] = str(Path(unihal.library_dir()) / "libunihal_stub.so")
    process = subprocess.run(
        [sys.executable, str(HERE / "run.py"), str(library), *(mutation.name for mutation in mutations)],
        env=environment,
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    found: Findings = {}
    last = ""
    for line in map(json.loads, process.stdout.splitlines()):
        if "start" in line:
            last = line["start"]
        else:
            found[line["name"]] = [(name, message) for name, message in line["found"]]
    if mutations[0].mode == "fast":
        assert process.returncode == 0, process.stderr
    elif mutations[0].name not in found:
        assert last, process.stderr
        found[mutations[0].name] = [(last, f"the process ended with {process.returncode}")]
    return found


def page(findings: Findings) -> str:
    """docs/mutations.md."""
    lines = [
        "# Faults that conformance finds",
        "",
        "Each row is a fault that was planted in a backend (`tests/mutations`), and the first case of the conformance",
        "suite that found it. `make test-mutations` plants them all again; tests/mutations/runner.py prints this page.",
        "",
        "| fault | what is wrong | found by |",
        "|---|---|---|",
    ]
    lines += [f"| {m.name} | {m.text} | `{findings[m.name][0][0]}` |" for m in MUTATIONS]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(page(find_all()), end="")
