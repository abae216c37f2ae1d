"""Runs conformance on a backend with one fault after the other, and prints which cases find each: JSON lines.

    python run.py LIBRARY MUTATION...

A line {"start": case} says what is being run, so that a fault that ends the process is known by its case.
"""

from __future__ import annotations

import ctypes
import json
import sys

from mutations import MUTATIONS
from unihal.conformance import execute, suite
from unihal.conformance.case import Entry
from unihal.conformance.session import Session, open_backend

#: So many failed cases are enough.
_ENOUGH = 1


def say(**what: object) -> None:
    print(json.dumps(what), flush=True)


def find(session: Session, entries: list[Entry], aloud: bool) -> tuple[list[tuple[str, str]], int]:
    """The first cases that fail, with their messages, and how many were run."""
    failures: list[tuple[str, str]] = []
    tried = 0
    for entry in entries:
        if aloud:
            say(start=entry.name)
        outcome = execute.run(session, entry)
        tried += 1
        if outcome.status == "failed":
            failures.append((outcome.name, outcome.message))
            if len(failures) == _ENOUGH:
                break
    return failures, tried


def main(library: str, names: list[str]) -> None:
    """One line per mutation, and one for the backend without a fault on the cases that found any."""
    select = ctypes.CDLL(library).mutant_select
    session = Session(open_backend(library), 0)
    everything = [(f"{entry.name}/", entry) for entry in _entries(names)]
    finders: set[str] = set()
    for mutation in (mutation for mutation in MUTATIONS if mutation.name in names):
        prefixes = tuple(f"{prefix}/" for prefix in mutation.prefixes)
        chosen = [entry for name, entry in everything if name.startswith(prefixes)]
        assert chosen, f"{mutation.name}: there are no cases of {mutation.prefixes}"
        assert select(mutation.name.encode()) == 0
        found, tried = find(session, chosen, mutation.mode != "fast")
        finders.update(name for name, _ in found)
        say(name=mutation.name, found=found, tried=tried)
    if select(b"") == 0 and len(names) > 1:
        found, tried = find(session, [entry for _, entry in everything if entry.name in finders], aloud=False)
        say(name="", found=found, tried=tried)


def _entries(names: list[str]) -> list[Entry]:
    """The entries that faults may be found by, in the suite's order: of one fault those of its ops, which a process of
    its own makes in a fifth of the time."""
    if len(names) > 1:
        return suite.entries(suite.Selection())
    prefixes = (prefix for mutation in MUTATIONS if mutation.name in names for prefix in mutation.prefixes)
    kinds = dict.fromkeys(prefix.split("/")[0] for prefix in prefixes)
    return [entry for kind in kinds for entry in suite.entries(suite.Selection(op=kind))]


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
