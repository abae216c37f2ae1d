"""The child process in which the suite runs, so that a crash of the backend costs one case and not the report.

It writes one line of JSON to a pipe before each entry ({"start": name}) and one after it (the outcome).
"""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import asdict

from .. import errors
from . import execute, suite
from .session import Session, open_backend


def main() -> None:
    """Runs the entries that were chosen, from a given one on."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--backend")
    parser.add_argument("--selection", required=True, help="the fields of suite.Selection as JSON")
    parser.add_argument("--skip", type=int, required=True)
    parser.add_argument("--pipe", type=int, required=True)
    arguments = parser.parse_args()
    selection = suite.Selection(**json.loads(arguments.selection))
    with os.fdopen(arguments.pipe, "w", buffering=1) as pipe:
        try:
            devices = open_backend(arguments.backend)
        except errors.Error as error:
            pipe.write(json.dumps({"refused": str(error)}) + "\n")
            return
        session = Session(devices, selection.seed)
        properties = session.device.properties
        described = f"{properties.name} ({session.device}, backend {properties.backend})"
        pipe.write(json.dumps({"device": described}) + "\n")
        for entry in suite.entries(selection)[arguments.skip :]:
            pipe.write(json.dumps({"start": entry.name}) + "\n")
            pipe.write(json.dumps({"outcome": asdict(execute.run(session, entry))}) + "\n")


if __name__ == "__main__":
    main()
