"""The texts of the programs that a run compiles, without a compiler or a card.

    python benchmarks/programs.py FOLDER [--card gfx803] -- unihal cache warm
    python benchmarks/programs.py FOLDER -- python benchmarks/training.py paddle resnet50 polaris --steps 1
    python benchmarks/programs.py FOLDER -- unihal demo --epochs 1    # which says that nothing was learnt

runs a program on an OpenCL device that computes nothing (recording_opencl.c) and leaves each program's text in FOLDER.
Whole models of any size run in seconds, and what they compute is zeros. Imported, it gives the programs as objects.
"""

from __future__ import annotations

import argparse
import itertools
import os
import re
import subprocess
import sys
import sysconfig
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
PRELUDES = ("csrc/kernels/prelude/opencl.h", "csrc/kernels/prelude/common.h")

#: Whose limits the device presents.
CARDS = ("gfx803", "gfx1030", "gfx1100")

DTYPES = ("float32", "float16", "bfloat16")


@dataclass(frozen=True)
class Program:
    """What the backend hands to a compiler."""

    text: str
    options: tuple[str, ...]
    kernels: tuple[tuple[str, int], ...]  # what was launched, with the work-items of a group

    @property
    def macros(self) -> str:
        """The lines of #define before the prelude, of the spec and of the device."""
        lines = self.text.splitlines(keepends=True)
        return "".join(itertools.takewhile(lambda line: line.startswith("#define "), lines))

    @property
    def source(self) -> str:
        """What follows the preludes: the file of csrc/kernels/source, with what it includes."""
        rest = self.text
        for name in PRELUDES:
            _, prelude, rest = rest.partition((ROOT / name).read_text())
            if not prelude:
                raise RuntimeError(f"the programs were built from another {name}; run make build")
        return rest

    def macro(self, name: str) -> str | None:
        """The value of a macro of the spec."""
        found = re.search(rf"^#define {name} (.*)$", self.macros, re.MULTILINE)
        return found[1] if found else None

    def describe(self) -> str:
        """The spec's macros in a line, those of dtypes as their numbers."""
        lines = re.findall(r"^#define (\w+) (.*)$", self.macros, re.MULTILINE)
        return " ".join(f"{name}={value}" for name, value in lines if not name.endswith("_STORAGE"))


def build_library(folder: Path) -> Path:
    """Compiles recording_opencl.c."""
    library = folder / "librecording_opencl.so"
    compiler = os.environ.get("CC", "cc").split()
    source = str(Path(__file__).with_name("recording_opencl.c"))
    subprocess.run([*compiler, "-O1", "-shared", "-fPIC", source, "-o", str(library)], check=True)
    return library


def record(command: Sequence[str], folder: Path, card: str = CARDS[0], succeeds: bool = True) -> None:
    """Runs a program with the recording device as the only one, and leaves what it compiles in a folder, beside what is
    there. `unihal` and `python` are this interpreter's. ``succeeds``: whether the program must, though results are
    zeros."""
    scripts = sysconfig.get_path("scripts")
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as temporary:
        environment = {name: value for name, value in os.environ.items() if not name.startswith("UNIHAL_")}
        environment |= {
            "UNIHAL_BACKEND": "opencl",
            "UNIHAL_OPENCL_LIBRARY": str(build_library(Path(temporary))),
            "UNIHAL_CACHE_DIR": f"{temporary}/cache",
            "RECORDING_FOLDER": str(folder.resolve()),
            "RECORDING_CARD": card,
            "PATH": f"{scripts}:{os.environ['PATH']}",
        }
        subprocess.run(command, env=environment, check=succeeds, stdout=sys.stderr)


def read(folder: Path) -> list[Program]:
    """The programs that are in a folder, in the order of their hashes."""
    programs = []
    for path in sorted(folder.glob("*.cl")):
        names = (launch.name.split(".") for launch in sorted(folder.glob(f"{path.stem}.*.*")))
        kernels = tuple((kernel, int(size)) for _, kernel, size in names)
        programs.append(Program(path.read_text(), tuple(path.with_suffix(".options").read_text().split()), kernels))
    return programs


def recorded(command: Sequence[str], card: str = CARDS[0]) -> list[Program]:
    """The programs that a run compiles."""
    with tempfile.TemporaryDirectory() as folder:
        record(command, Path(folder), card)
        return read(Path(folder))


def warm(card: str = CARDS[0], dtypes: Sequence[str] = DTYPES[:1]) -> list[Program]:
    """The programs of `unihal cache warm`."""
    with tempfile.TemporaryDirectory() as folder:
        for dtype in dtypes:
            record(["unihal", "cache", "warm", "--jobs", "1", "--dtype", dtype], Path(folder), card)
        return read(Path(folder))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--card", choices=CARDS, default=CARDS[0])
    parser.add_argument("command", nargs="+", help="after --")
    arguments = parser.parse_args()
    record(arguments.command, arguments.folder, arguments.card, succeeds=False)
    print(f"{len(read(arguments.folder))} programs in {arguments.folder}")


if __name__ == "__main__":
    main()
