"""Backends that do little of what there is to do: what they refuse runs on the host."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import unihal

ROOT = Path(__file__).resolve().parents[1]


def _compile(sources: list[Path], library: Path, *links: str) -> None:
    command = ["gcc", "-std=c11", "-O2", "-shared", "-fPIC", f"-I{unihal.include_dir()}", *map(str, sources)]
    subprocess.run([*command, "-o", str(library), *links], check=True)


def tiny(folder: Path) -> Path:
    """The example of docs/adding-a-backend.md: fills of float32, and nothing else."""
    text = (ROOT / "docs" / "adding-a-backend.md").read_text()
    example = re.search(r"```c name=libunihal_tiny\.c\n(.*?)```", text, re.DOTALL)
    assert example is not None
    source, library = folder / "libunihal_tiny.c", folder / "libunihal_tiny.so"
    source.write_text(example.group(1))
    _compile([source], library, f"-L{unihal.library_dir()}", "-lunihal")
    return library


def reference(folder: Path) -> Path:
    """tests/reference_backend: seven kinds of op."""
    library = folder / "libunihal_reference.so"
    sources = sorted((ROOT / "tests" / "reference_backend").glob("*.c"))
    _compile(sources, library, f"-L{unihal.library_dir()}", "-lunihal", "-lm")
    return library


def settings(backend: str, folder: Path, strict: bool = False) -> dict[str, str]:
    """The environment of a process with such a backend, which is compiled: "tiny" or "reference"."""
    {"tiny": tiny, "reference": reference}[backend](folder)
    return {"UNIHAL_BACKEND": backend, "UNIHAL_BACKEND_PATH": str(folder), "UNIHAL_STRICT": "1" if strict else "0"}


#: A part of every reason that these backends give.
_WORDS = {"tiny": ("tiny: ",), "reference": ("implemented", "takes operands of one dtype")}


def check_fallbacks(fallbacks: list[list[object]], backend: str, dtypes: set[str]) -> None:
    """All of (framework, op, dtype, reason, count) are what the device refused, in its words, of these dtypes among
    others: nothing went to the framework's CPU."""
    assert {entry[0] for entry in fallbacks} == {f"rdna:0 ({backend})"}, fallbacks
    assert {entry[2] for entry in fallbacks} >= dtypes, fallbacks
    for entry in fallbacks:
        assert any(word in str(entry[3]) for word in _WORDS[backend]), entry
