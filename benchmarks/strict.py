"""The price of the strict stub: the demonstration's training in strict mode against fast mode.

python benchmarks/strict.py paddle|keras [--epochs N]
"""

from __future__ import annotations

import argparse
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import measure
from unihal.demo.protocol import Result, receive

DEVICES = {"paddle": "iluvatar", "keras": "rdna"}
ROUNDS = 3


def seconds(framework: str, mode: str, epochs: int) -> float:
    """Seconds of training in a process of its own, without its start."""
    with tempfile.TemporaryDirectory(prefix="unihal-strict-") as folder:
        command = [sys.executable, "-m", f"unihal.demo.{framework}_run", "--device", DEVICES[framework]]
        command += ["--epochs", str(epochs), "--trace", str(pathlib.Path(folder) / "trace.json")]
        environment = {**os.environ, "UNIHAL_BACKEND": "stub", "UNIHAL_STUB": mode}
        child = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    results = [message for line in child.stdout.splitlines() if isinstance(message := receive(line), Result)]
    assert len(results) == 1, child.stdout
    return results[0].seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("framework", choices=DEVICES)
    parser.add_argument("--epochs", type=int, default=3, help="of 22 steps of 64 images")
    arguments = parser.parse_args()
    times: dict[str, list[float]] = {"fast": [], "strict": []}
    for _ in range(ROUNDS):
        for mode, taken in times.items():
            taken.append(seconds(arguments.framework, mode, arguments.epochs))
    strict, fast = statistics.median(times["strict"]), statistics.median(times["fast"])
    measure.report(
        [
            {
                "benchmark": f"{arguments.framework}: {arguments.epochs} epochs of the demonstration, strict stub",
                "unit": "s",
                "device": strict,
                "peer": fast,
                "peer_name": "fast stub",
                "ratio": strict / fast,
            }
        ]
    )


if __name__ == "__main__":
    main()
