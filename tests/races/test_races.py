"""Races between the work-items of a kernel, and accesses beyond buffers: Oclgrind, an OpenCL device that looks at every
access, over a sample of conformance. `make test-races` fetches it and runs this."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from threading import Timer

import pytest

ROOT = Path(__file__).parents[2]
FETCHED = ROOT / ".venv/oclgrind/usr/lib"

#: Of each op and function, every so many-th case; RACES_EVERY takes another share.
EVERY = int(os.environ.get("RACES_EVERY", "400"))
PARTS = os.cpu_count() or 1

#: Seconds after which a case counts as stuck.
LONGEST = 1200.0

#: What Oclgrind says of an access that it finds fault with.
COMPLAINTS = ("data race", "Invalid read", "Invalid write", "Work-group divergence", "Unaligned")

#: Cases that end Oclgrind: two threads wait for one queue, whose list of commands it does not lock.
BEYOND_OCLGRIND = ("streams/streams_of_several_threads",)

#: Oclgrind computes wrongly with integers of 4 bits, to which LLVM narrows the dtype of an operand where it is known at
#: launch only. What went wrong is run again as it was written; some kernels, in turn, it cannot create in this form.
AS_WRITTEN = {"OCLGRIND_BUILD_OPTIONS": "-cl-opt-disable"}


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


@dataclass
class Run:
    """What a process of conformance came to: by case, its outcome and what Oclgrind said meanwhile."""

    device: str = ""
    outcomes: dict[str, dict[str, object]] = field(default_factory=dict)
    said: dict[str, str] = field(default_factory=dict)

    def wrong(self) -> list[str]:
        """The cases that failed, and those with a complaint."""
        return [name for name in self.outcomes if self.is_wrong(name)]

    def is_wrong(self, name: str) -> bool:
        complaint = any(complaint in self.said[name] for complaint in COMPLAINTS)
        return complaint or self.outcomes[name]["status"] == "failed"

    def explain(self, name: str) -> str:
        return f"{name}: {self.outcomes[name]}\n{self.said[name][:2000]}"


def run_worker(run: Run, selection: dict[str, object], extra: dict[str, str], skip: int = 0) -> None:
    """Adds the outcomes of the cases of `selection` from number `skip` on, in as many processes as it takes."""
    with tempfile.TemporaryFile("w+") as said:
        reading, writing = os.pipe()
        command = [sys.executable, "-m", "unihal.conformance.worker", "--backend", "opencl"]
        command += ["--selection", json.dumps(selection), "--skip", str(skip), "--pipe", str(writing)]
        process = subprocess.Popen(command, env=settings() | extra, pass_fds=[writing], stdout=said, stderr=said)
        os.close(writing)
        name, begun, position = "", skip, 0
        watch = Timer(LONGEST, process.kill)
        with os.fdopen(reading) as pipe:
            for line in map(json.loads, pipe):
                watch.cancel()
                watch = Timer(LONGEST, process.kill)
                watch.start()
                run.device = line.get("device", run.device)
                if "start" in line:
                    name, begun, position = line["start"], begun + 1, os.fstat(said.fileno()).st_size
                elif "outcome" in line:
                    run.outcomes[name] = line["outcome"]
                    run.said[name] = text_from(said.fileno(), position)
        code = process.wait()
        watch.cancel()
        if code != 0:
            assert name in BEYOND_OCLGRIND, (
                f"{name} ended the process ({code}): {text_from(said.fileno(), position)[:2000]}"
            )
            run_worker(run, selection, extra, begun)


def text_from(file: int, position: int) -> str:
    return os.pread(file, os.fstat(file).st_size - position, position).decode(errors="replace")


def run_part(part: int) -> Run:
    """The cases of one of PARTS processes; those that went wrong as they were written, without optimization."""
    everything: dict[str, object] = {"seed": 0, "op": None, "case": None, "every": EVERY, "part": part, "parts": PARTS}
    run = Run()
    run_worker(run, everything, {})
    for name in run.wrong():
        run_worker(run, everything | {"case": name, "every": 1, "part": 0, "parts": 1}, AS_WRITTEN)
    return run


@pytest.mark.timeout(7200)
def test_a_sample_of_conformance_has_no_race() -> None:
    with ThreadPoolExecutor(PARTS) as pool:
        runs = list(pool.map(run_part, range(PARTS)))
    assert all("Oclgrind" in run.device for run in runs)
    assert [run.explain(name) for run in runs for name in run.wrong()] == []
    passed = [outcome for run in runs for outcome in run.outcomes.values() if outcome["status"] == "passed"]
    assert len(passed) >= 8000 / EVERY


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
