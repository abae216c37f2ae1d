"""Each include and import keeps to the table of rooms in docs/architecture.md."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ROOMS_IN = ("include", "csrc", "stub", "plugins", "python/src", "python/unihal", "python/unihal_pytest")
ROOMS_IN += ("python/unihal_torch", "python/gpux", "python/unihal_workshop", "python/paddle_iluvatar", "python/tf_rdna")
CODE = {".h", ".c", ".cc", ".def", ".cl"}

Rooms = dict[str, list[str]]  # a room, and those that it may use


def read_rooms(text: str) -> Rooms:
    """The table under the heading "Rooms"."""
    section = text.split("\n## Rooms\n")[1].split("\n## ")[0]
    rows = re.findall(r"^\| `([^`]+)` \|[^|]*\|([^|]*)\|$", section, re.MULTILINE)
    return {room: re.findall(r"`([^`]+)`", uses) for room, uses in rows}


def room_of(path: str, rooms: Rooms) -> str | None:
    """The innermost room that a file lies in."""
    return max((room for room in rooms if path.startswith(room + "/")), key=len, default=None)


def includes(file: Path, root: Path) -> Iterator[str]:
    """What a source includes of ours, as paths from the root. Headers from outside and generated ones are no rooms."""
    for name in re.findall(r'^\s*#\s*include "([^"]+)"', file.read_text(), re.MULTILINE):
        for candidate in (root / name, root / "include" / name, file.parent / name):
            if candidate.exists():
                yield candidate.resolve().relative_to(root).as_posix()
                break
        else:
            if name.startswith(("csrc/", "stub/", "plugins/", "unihal/")):
                yield name  # it is not there: the compiler will say so, too


def imports(file: Path, root: Path) -> Iterator[str]:
    """What a module imports of ours, as paths from the root, in functions too."""
    package = file.relative_to(root / "python").with_suffix("").parts[:-1]
    names: list[str] = []
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [*package[: len(package) - node.level + 1]] if node.level else []
            base += node.module.split(".") if node.module else []
            names += [".".join([*base, alias.name]) for alias in node.names]
    for name in names:
        path = root / "python" / name.replace(".", "/")
        for candidate in (
            path.with_suffix(".py"),
            path / "__init__.py",
            path.parent.with_suffix(".py"),
            path.parent / "__init__.py",
        ):
            if candidate.exists() and candidate != root / "python" / "__init__.py":
                yield candidate.relative_to(root).as_posix()
                break


def sources(root: Path) -> Iterator[tuple[Path, Iterator[str]]]:
    """Each file of the rooms, and what it uses."""
    for folder in ROOMS_IN:
        for file in sorted((root / folder).rglob("*")):
            if file.suffix in CODE:
                yield file, includes(file, root)
            elif file.suffix == ".py" and folder.startswith("python/"):
                yield file, imports(file, root)


def trespasses(root: Path, rooms: Rooms) -> list[str]:
    """What uses a room that it may not, or lies in none."""
    found = []
    for file, used in sources(root):
        name = file.relative_to(root).as_posix()
        own = room_of(name, rooms)
        if own is None:
            found.append(f"{name} lies in no room of docs/architecture.md")
            continue
        for target in used:
            room = room_of(target, rooms)
            allowed = {own, "include/unihal", *rooms[own]}
            if room not in allowed:
                found.append(f"{name} uses {target}, but {own} may use {', '.join(sorted(allowed - {own}))} only")
    return found


@pytest.fixture(scope="module")
def rooms() -> Rooms:
    return read_rooms((ROOT / "docs" / "architecture.md").read_text())


def test_every_include_and_import_keeps_to_the_table(rooms: Rooms) -> None:
    assert trespasses(ROOT, rooms) == []


def test_the_rooms_exist_and_use_each_other_one_way(rooms: Rooms) -> None:
    assert {room for room in rooms if not (ROOT / room).is_dir()} == set()
    assert {used for uses in rooms.values() for used in uses} <= set(rooms)
    above = {room: set(uses) for room, uses in rooms.items()}
    while above:
        ground = {room for room, uses in above.items() if not uses & set(above)}
        assert ground, f"these rooms use each other in a circle: {sorted(above)}"
        above = {room: uses for room, uses in above.items() if room not in ground}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("csrc/core/base/error.cc", '#include "csrc/core/stream/wait.h"'),
        ("stub/ops/matmul.cc", '#include "stub/strict/table.h"'),
        ("plugins/paddle/runtime.cc", '#include "csrc/core/base/error.h"'),
        ("csrc/core/handle/device.h", '  #  include "csrc/core/memory/allocator.h"'),
        ("python/unihal/buffer.py", "def f():\n    from .command_line import main\n"),
        ("python/unihal/ops/image.py", "from ..conformance.suite import Selection\n"),
    ],
)
def test_an_upward_use_is_named(file: str, text: str, rooms: Rooms, tmp_path: Path) -> None:
    for name in (
        file,
        "csrc/core/stream/wait.h",
        "stub/strict/table.h",
        "csrc/core/base/error.h",
        "csrc/core/memory/allocator.h",
        "python/unihal/command_line/main.py",
        "python/unihal/conformance/suite.py",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    (tmp_path / file).write_text(text)
    [found] = trespasses(tmp_path, rooms)
    assert found.startswith(f"{file} uses ")


def test_a_file_outside_the_rooms_is_named(rooms: Rooms, tmp_path: Path) -> None:
    (tmp_path / "csrc" / "attic").mkdir(parents=True)
    (tmp_path / "csrc" / "attic" / "old.cc").write_text("")
    assert trespasses(tmp_path, rooms) == ["csrc/attic/old.cc lies in no room of docs/architecture.md"]
