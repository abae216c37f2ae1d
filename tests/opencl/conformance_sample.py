"""A sample of conformance on the opencl backend, in parts: python conformance_sample.py EVERY PART PARTS.

Of each op every tenth function, dtype or form, since PoCL compiles for minutes; `make test-conformance-opencl` has
all cases.
Prints the outcome of each case as a line of JSON; test_opencl.py runs it.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from dataclasses import asdict

from unihal.conformance import execute, suite
from unihal.conformance.case import Entry
from unihal.conformance.session import Session, open_backend


def chosen(every: int) -> list[Entry]:
    """Of each op every so many-th case of the first, eleventh, ... of what its cases' names say behind it."""
    groups: dict[str, list[str]] = defaultdict(list)
    kept = []
    for entry in suite.entries(suite.Selection(every=every)):
        group = entry.name.split("/", 2)[1]
        known = groups[entry.op]
        if group not in known:
            known.append(group)
        if known.index(group) % 10 == 0:
            kept.append(entry)
    return kept


def main() -> None:
    """Runs one part."""
    every, part, parts = map(int, sys.argv[1:])
    session = Session(open_backend("opencl"), 0)
    for entry in chosen(every)[part::parts]:
        print(json.dumps(asdict(execute.run(session, entry))), flush=True)


if __name__ == "__main__":
    main()
