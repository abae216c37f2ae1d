"""Races between the work-items of a kernel, and accesses beyond buffers: Oclgrind, an OpenCL device that looks at every
access, over a sample of conformance. `make test-races` fetches it and runs this."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FETCHED = ROOT / ".venv/oclgrind/usr/lib"

#: Of each op and function, every so many-th case; RACES_EVERY takes another share.
EVERY = int(os.environ.get("RACES_EVERY", "400"))
PARTS = os.cpu_count() or 1

#: What Oclgrind says of an access that it finds fault with.
COMPLAINTS = ("data race", "Invalid read", "Invalid write", "Work-group divergence", "Unaligned")


def settings() -> dict[str, str]:
    """The environment of a process whose OpenCL is Oclgrind."""
    system = Path("/usr/lib/oclgrind/liboclgrind-rt.so")
    library = system if system.exists() else FETCHED / "oclgrind/liboclgrind-rt.so"
    if not library.exists():
        pytest.skip("there is no Oclgrind; run tests/fetch_oclgrind.sh")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("UNIHAL_")}
    environment |= {
        "UNIHAL_BACKEND": "opencl",
        "UNIHAL_CACHE": "off",
        "UNIHAL_OPENCL_LIBRARY": str(library),
        "OCLGRIND_DATA_RACES": "1",
    }
    if library != system:
        folder = FETCHED / f"{os.uname().machine}-linux-gnu"
        environment["LD_LIBRARY_PATH"] = str(folder)
        environment["OCLGRIND_PCH_DIR"] = str(folder / "oclgrind/21.10")
    return environment


@dataclass(frozen=True)
class Report:
    """What a part of conformance came to."""

    device: str
    outcomes: list[dict[str, object]]
    said: str


def run_part(part: int) -> Report:
    """The cases of one of PARTS processes."""
    selection = {"seed": 0, "op": None, "case": None, "every": EVERY, "part": part, "parts": PARTS}
    with tempfile.TemporaryFile("w+") as said:
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "unihal.conformance.worker", "--backend", "opencl"]
        command += ["--selection", json.dumps(selection), "--skip", "0", "--pipe", str(writing)]
        process = subprocess.Popen(command, env=settings(), pass_fds=[writing], stdout=said, stderr=said)
        os.close(writing)
        with os.fdopen(reading) as pipe:
            lines = [json.loads(line) for line in pipe]
        code = process.wait()
        said.seek(0)
        text = said.read()
    assert code == 0, f"after {lines[-1:]}: {text[-2000:]}"
    outcomes = [line["outcome"] for line in lines if "outcome" in line]
    return Report(next(line["device"] for line in lines if "device" in line), outcomes, text)


@pytest.mark.timeout(3600)
def test_a_sample_of_conformance_has_no_race() -> None:
    with ThreadPoolExecutor(PARTS) as pool:
        reports = list(pool.map(run_part, range(PARTS)))
    outcomes = [outcome for report in reports for outcome in report.outcomes]
    assert all("Oclgrind" in report.device for report in reports)
    assert [outcome for outcome in outcomes if outcome["status"] == "failed"] == []
    assert sum(outcome["status"] == "passed" for outcome in outcomes) >= 8000 / EVERY
    for report in reports:
        assert not any(complaint in report.said for complaint in COMPLAINTS), report.said[:4000]


RACING = """
__kernel void racing(__global int* y) {
  __local int shared[64];
  shared[get_local_id(0)] = 1;
  y[get_global_id(0)] = shared[(get_local_id(0) + 1) % 64];
}
"""

#: Runs the kernel above.
PROGRAM = f"""
import sys
sys.path.append({str(ROOT / "benchmarks")!r})
import ctypes, opencl_device
load = ctypes.CDLL
ctypes.CDLL = lambda name, **how: load(__import__("os").environ["UNIHAL_OPENCL_LIBRARY"], **how)
context = opencl_device.Context()
kernel = context.kernel({RACING!r}, "racing")
kernel.set_arguments([ctypes.c_void_p(opencl_device.Buffer(context, 1024).handle)])
kernel.run(1, 64)
"""


def test_a_race_is_found() -> None:
    command = [sys.executable, "-c", PROGRAM]
    process = subprocess.run(command, env=settings(), capture_output=True, text=True, check=True)
    assert COMPLAINTS[0] in process.stderr
    assert "Kernel: racing" in process.stderr
