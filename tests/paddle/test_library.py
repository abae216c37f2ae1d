"""Finding what Paddle's libraries have, while other threads load libraries."""

from __future__ import annotations

import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def test_libraries_are_found_while_others_are_loaded(tmp_path: Path) -> None:
    folder = tmp_path / "paddle" / "libs"
    folder.mkdir(parents=True)
    libraries = [folder / "libpaddle.so", tmp_path / "libother.so"]
    for library, symbol in zip(libraries, ("a_symbol_of_paddle", "another_symbol")):
        source = tmp_path / f"{symbol}.c"
        source.write_text(f"int {symbol};\n")
        subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    program = tmp_path / "find_library"
    sources = [HERE / "find_library.cc", ROOT / "plugins/paddle/library.cc"]
    subprocess.run(["g++", "-std=c++17", "-pthread", f"-I{ROOT}", "-o", program, *sources, "-ldl"], check=True)
    # A deadlock is an error of the time limit.
    assert subprocess.run([program, *libraries], timeout=60, check=False).returncode == 0
