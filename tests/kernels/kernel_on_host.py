"""Kernels as programs of the host: matrix_machine.h runs a group's work-items in turn, mma_instructions.h and
wmma_instructions.h do what the manuals say of matrix cores' instructions."""

from __future__ import annotations

import ctypes
import hashlib
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
KERNELS = ROOT / "csrc/kernels"
HERE = Path(__file__).parent

#: uhal_dtype, of those that a test asks for.
DTYPES = {"int8": 2, "uint8": 6, "float16": 10, "bfloat16": 11, "float32": 12}


def with_includes(path: Path) -> str:
    return re.sub(r'#include "(csrc/[^"]+)"\n', lambda match: with_includes(ROOT / match[1]), path.read_text())


# What CUDA has instructions for, and the host functions.
HALVES = {
    'asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));': "value = on_host::float_of_half(bits);",
    'asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value));': "bits = (uint16)on_host::half_of_float(value);",
}


def gpu_prelude() -> str:
    """prelude/gpu.h with functions of the host for CUDA's instructions."""
    gpu = (KERNELS / "prelude/gpu.h").read_text()
    for instruction, function in HALVES.items():
        assert gpu.count(instruction) == 1
        gpu = gpu.replace(instruction, function)
    return gpu


def dtype_macros(name: str, dtype: str) -> dict[str, Any]:
    """What the dialect has of an operand's dtype: KernelSpec::dtype."""
    macros = {f"{name}_STORAGE": f"uhal_storage_{dtype}", f"{name}_DTYPE": DTYPES[dtype]}
    wide = [f"{verb}{unit}(p, i, v)" for verb in ("LOAD", "STORE") for unit in (4, 8)]
    for word in ("LOAD(p, i)", "STORE(p, i, v)", *wide):
        start, parameters = word.split("(")
        macros[f"{name}_{word}"] = f"uhal_{start.lower()}_{dtype}({parameters}"
    return macros


def macro_text(macros: Mapping[str, Any]) -> str:
    """The macros as lines of a program."""
    return "".join(f"#define {name} {value}\n" for name, value in macros.items())


def library(folder: Path, text: str) -> ctypes.CDLL:
    file = folder / f"{hashlib.sha256(text.encode()).hexdigest()[:16]}.so"
    if not file.exists():
        source = file.with_suffix(".cc")
        source.write_text(text)
        command = [
            "g++",
            "-std=c++17",
            "-O1",
            "-w",
            "-shared",
            "-fPIC",
            "-fno-strict-aliasing",
            str(source),
            "-o",
            str(file),
        ]
        compiled = subprocess.run(command, capture_output=True, text=True, check=False)
        assert compiled.returncode == 0, compiled.stderr[:3000]
    return ctypes.CDLL(str(file))
