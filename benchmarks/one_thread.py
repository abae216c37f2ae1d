"""Runs a benchmark with one thread on each side, by the processor's clock: for a machine where others work beside it.

    python benchmarks/one_thread.py low_precision.py --only gamma

With several threads the clock of the wall says how often the system took the cores away from one thread while others
waited for it. What one thread costs says nothing of how work is shared; that needs an idle machine.
"""

from __future__ import annotations

import os
import pathlib
import runpy
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent


def main() -> None:
    """The benchmark's own arguments follow its name."""
    if len(sys.argv) < 2:
        raise SystemExit(__doc__)
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"
    os.environ.setdefault("UNIHAL_BACKEND", "stub")
    time.perf_counter = time.process_time
    sys.argv = sys.argv[1:]
    runpy.run_path(str(HERE / sys.argv[0]), run_name="__main__")


if __name__ == "__main__":
    main()
