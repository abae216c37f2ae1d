"""The cache of compiled programs, as the commands show it and as the OpenCL backend fills it."""

from __future__ import annotations

import json
import os
import struct
import sys
from pathlib import Path

import pytest
from processes import Completed, run_command
from unihal import cache
from unihal.command_line import warm

UNIHAL = [sys.executable, "-m", "unihal.command_line"]
ROOT = Path(__file__).resolve().parents[2]
POCL = ROOT / ".venv" / "pocl" / "environment"


def command(folder: Path, *arguments: str, **variables: str | None) -> Completed:
    return run_command([*UNIHAL, "cache", *arguments], UNIHAL_CACHE_DIR=str(folder), COLUMNS="200", **variables)


def entry(folder: Path, name: str, label: str, content: bytes, used: int = 1_000_000_000) -> Path:
    """A file as the backends write it, but for the checksum, which the commands do not look at."""
    key = b"the text of " + name.encode()
    path = folder / f"{name}.entry"
    header = struct.pack("<8sQQQ16s", b"UNIHALC1", len(label), len(key), len(content), b"\0" * 16)
    path.write_bytes(header + label.encode() + key + content)
    os.utime(path, (used, used))
    return path


# -- without a device


def test_info_of_an_empty_cache(tmp_path: Path) -> None:
    result = command(tmp_path / "none", "info")
    assert result.returncode == 0, result.stderr
    assert "entries: 0" in result.stdout and "512.0 MiB" in result.stdout
    assert not (tmp_path / "none").exists()


def test_info_counts_by_source(tmp_path: Path) -> None:
    entry(tmp_path, "a", "program map", b"x" * 1000)
    entry(tmp_path, "b", "program map", b"x" * 2000)
    entry(tmp_path, "c", "tuning gemm", b"x")
    (tmp_path / "d.entry").write_bytes(b"UNIHALC1 cut off")
    (tmp_path / "unrelated").write_bytes(b"a user's own")
    result = command(tmp_path, "info", "--json", UNIHAL_CACHE_LIMIT="3M")
    report = json.loads(result.stdout)
    assert report["folder"] == str(tmp_path) and report["limit_bytes"] == 3 << 20
    assert report["entries"] == 4
    kinds = report["kinds"]
    assert kinds["program map"]["entries"] == 2 and kinds["tuning gemm"]["entries"] == 1
    assert sum(kind["bytes"] for kind in kinds.values()) == report["bytes"]
    (damaged,) = set(kinds) - {"program map", "tuning gemm"}
    assert "damaged" in damaged
    assert "program map" in command(tmp_path, "info").stdout


def test_entries_come_by_their_last_use(tmp_path: Path) -> None:
    entry(tmp_path, "a", "program map", b"", used=1000)
    entry(tmp_path, "b", "program map", b"", used=3000)
    entry(tmp_path, "c", "program map", b"", used=2000)
    assert [found.path.stem for found in cache.entries(tmp_path)] == ["b", "c", "a"]


def test_clear_leaves_what_is_not_its_own(tmp_path: Path) -> None:
    entry(tmp_path, "a", "program map", b"x" * 1000)
    (tmp_path / "a.entry.1.0.writing").write_bytes(b"half")
    (tmp_path / "unrelated").write_bytes(b"a user's own")
    result = command(tmp_path, "clear")
    assert result.returncode == 0 and "Removed 1 entries" in result.stdout
    assert [path.name for path in tmp_path.iterdir()] == ["unrelated"]
    assert command(tmp_path, "clear").returncode == 0


def test_off(tmp_path: Path) -> None:
    assert "UNIHAL_CACHE is off" in command(tmp_path, "info", UNIHAL_CACHE="off").stdout
    warmed = command(tmp_path, "warm", UNIHAL_CACHE="off")
    assert warmed.returncode == 1 and "UNIHAL_CACHE is off" in warmed.stderr


@pytest.mark.parametrize(("name", "value"), [("UNIHAL_CACHE", "no"), ("UNIHAL_CACHE_LIMIT", "5 MB")])
def test_nonsense_is_named(tmp_path: Path, name: str, value: str) -> None:
    result = command(tmp_path, "info", **{name: value})
    assert result.returncode == 1
    assert name in result.stderr and value in result.stderr and "correct or unset it" in result.stderr


def test_the_default_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("UNIHAL_CACHE", "UNIHAL_CACHE_DIR", "UNIHAL_CACHE_LIMIT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/someone")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert cache.settings() == cache.Settings(Path("/cache/unihal"), 512 << 20)
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert cache.settings().folder == Path("/home/someone/.cache/unihal")
    monkeypatch.delenv("HOME")
    assert cache.settings().folder is None


@pytest.mark.parametrize("dtype", warm.DTYPES)
def test_all_rows_of_the_table_run(device: object, dtype: str) -> None:
    for name, run in warm.cases(device, dtype):  # type: ignore[arg-type]
        try:
            run()
        except Exception as error:
            raise AssertionError(f"{name}: {error}") from error


def test_a_backend_without_programs_is_told(tmp_path: Path) -> None:
    result = command(tmp_path, "warm", "--device", "rdna")
    assert result.returncode == 0 and "keeps no programs" in result.stdout, result.stderr


def test_warm_names_the_dtypes(tmp_path: Path) -> None:
    result = command(tmp_path, "warm", "--dtype", "int8")
    assert result.returncode == 1 and "float16" in result.stderr


# -- with OpenCL

_SUM = """
import numpy as np, unihal
from unihal import Buffer, ops
x = Buffer.from_numpy(np.arange(6, dtype=np.float32).reshape(2, 3), unihal.device("polaris"))
assert (ops.add(x, x).numpy() == 2 * x.numpy()).all()
assert (ops.copy(x.transpose(1, 0)).numpy() == x.numpy().T).all()
"""


@pytest.fixture
def opencl() -> dict[str, str]:
    """The variables of a process that uses PoCL."""
    if not POCL.exists():
        pytest.skip("there is no OpenCL here: run tests/fetch_pocl.sh")
    return {"UNIHAL_BACKEND": "opencl"}


def add(folder: Path, variables: dict[str, str]) -> Completed:
    """Runs two kernels in a process of their own."""
    launcher = str(ROOT / "tests" / "opencl" / "with_opencl.sh")
    result = run_command([launcher, sys.executable, "-c", _SUM], UNIHAL_CACHE_DIR=str(folder), **variables)
    assert result.returncode == 0, result.stderr
    return result


def test_programs_are_kept_and_used(tmp_path: Path, opencl: dict[str, str]) -> None:
    folder = tmp_path / "cache"
    add(folder, opencl)
    first = cache.entries(folder)
    assert sorted(str(found.label) for found in first) == ["program copy", "program map"]
    for found in first:
        os.utime(found.path, (1000, 1000))
    add(folder, opencl)
    second = cache.entries(folder)
    assert {found.path: found.bytes for found in second} == {found.path: found.bytes for found in first}
    assert all(found.last_use > 2_000_000_000 for found in second), "a use is noted by the file's time"


def test_damaged_programs_are_compiled_anew(tmp_path: Path, opencl: dict[str, str]) -> None:
    folder = tmp_path / "cache"
    add(folder, opencl)
    whole = {found.path: found.path.read_bytes() for found in cache.entries(folder)}
    cut, changed = whole
    cut.write_bytes(whole[cut][: len(whole[cut]) // 2])
    middle = len(whole[changed]) // 2
    changed.write_bytes(whole[changed][:middle] + b"!" + whole[changed][middle + 1 :])
    add(folder, opencl)
    assert all(found.label is not None for found in cache.entries(folder))
    assert cut.stat().st_size > len(whole[cut]) // 2
    assert changed.read_bytes()[middle : middle + 1] == whole[changed][middle : middle + 1]


def test_a_program_that_the_driver_refuses_is_compiled_anew(tmp_path: Path, opencl: dict[str, str]) -> None:
    """As after an update that left the version as it was: a valid entry, whose bytes mean nothing to the driver."""
    folder = tmp_path / "cache"
    add(folder, opencl)
    for found in cache.entries(folder):
        content = bytearray(found.path.read_bytes())
        _, label, key, size, _ = struct.unpack_from("<8sQQQ16s", content)
        start = 48 + label + key
        content[start : start + size] = b"?" * size
        struct.pack_into("<16s", content, 32, checksum(bytes(content)))
        found.path.write_bytes(bytes(content))
    add(folder, opencl)
    for found in cache.entries(folder):
        assert b"????????" not in found.path.read_bytes()[-64:]


def checksum(content: bytes) -> bytes:
    """FNV-1a with 128 bits of the sizes and of what follows the header; the high half comes first."""
    state = 0x6C62272E07BB014262B821756295C58D
    for byte in content[8:32] + content[48:]:
        state = (state ^ byte) * 0x0000000001000000000000000000013B & (1 << 128) - 1
    return struct.pack("<QQ", state >> 64, state & (1 << 64) - 1)


def test_a_folder_that_cannot_be_made_is_no_error(tmp_path: Path, opencl: dict[str, str]) -> None:
    (tmp_path / "file").write_bytes(b"")
    result = add(tmp_path / "file" / "below", opencl)
    assert result.stderr.count("compiled programs are not kept") == 1


def test_off_keeps_nothing(tmp_path: Path, opencl: dict[str, str]) -> None:
    add(tmp_path / "cache", {**opencl, "UNIHAL_CACHE": "off"})
    assert not (tmp_path / "cache").exists()


def test_nonsense_stops_the_backend(tmp_path: Path, opencl: dict[str, str]) -> None:
    launcher = str(ROOT / "tests" / "opencl" / "with_opencl.sh")
    result = run_command([launcher, sys.executable, "-c", _SUM], **opencl, UNIHAL_CACHE="no")
    assert result.returncode == 1 and "UNIHAL_CACHE is 'no'" in result.stderr
