"""The memory check from Python: sites in the user's own lines, errors that name both, the list of leaks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from processes import run_python

# The stack of a thread without the GIL can be read in these versions of CPython only.
pytestmark = pytest.mark.skipif(sys.version_info[:2] not in {(3, 11), (3, 12)}, reason="sites are native elsewhere")

# uhal_allocate and uhal_free as C has them: nothing frees what a program forgets.
RAW = """
import ctypes, os, threading
import unihal

core = ctypes.CDLL(os.path.join(unihal.library_dir(), "libunihal.so"))
device = ctypes.c_void_p()
core.uhal_device_get(b"rdna", 0, ctypes.byref(device))

class Error(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_size_t), ("status", ctypes.c_int32), ("native_code", ctypes.c_int32),
                ("native_name", ctypes.c_char_p), ("message", ctypes.c_char_p)]
core.uhal_last_error.restype = ctypes.POINTER(Error)

def make(size):
    pointer = ctypes.c_void_p()
    assert core.uhal_allocate(device, None, 0, ctypes.c_size_t(size), ctypes.byref(pointer)) == 0  # MAKE
    return pointer

def drop(pointer):
    return core.uhal_free(device, None, pointer)  # DROP

def main():
    MAIN

main()
"""


def run_raw(tmp_path: Path, body: str) -> tuple[str, str, dict[str, int]]:
    """Runs `body` as a function of a file train.py: what it printed, what it said, and the lines with a remark."""
    program = RAW.replace("    MAIN\n", "".join(f"    {line}\n" for line in body.strip().splitlines()))
    (tmp_path / "train.py").write_text(program)
    lines = {
        text.rsplit("# ", 1)[1]: number for number, text in enumerate(program.splitlines(), start=1) if "# " in text
    }
    lines["END"] = len(program.splitlines())
    completed = run_python(
        f"import runpy; runpy.run_path({str(tmp_path / 'train.py')!r})",
        UNIHAL_BACKEND="stub",
        UNIHAL_CHECK_MEMORY="1",
    )
    assert completed.returncode == 0, completed.stderr
    return completed.stdout, completed.stderr, lines


def test_a_site_is_the_innermost_lines(tmp_path: Path) -> None:
    printed, _, lines = run_raw(
        tmp_path,
        """
kept = make(24)  # CALL
(live,) = unihal.live_allocations("rdna:0")
assert (live.address, live.bytes, live.kind) == (kept.value, 24, "device")
drop(kept)
assert unihal.live_allocations("rdna:0") == []
print(live.site)
""",
    )
    expected = (
        f"train.py:{lines['MAKE']} in make < train.py:{lines['CALL']} in main < train.py:{lines['END']} in <module>"
    )
    assert printed.strip() == expected


def test_sites_are_the_same_read_and_printed(tmp_path: Path) -> None:
    """The first of a process is printed; later ones are read from frames on 3.11, but for names that are not ASCII."""
    printed, _, lines = run_raw(
        tmp_path,
        """
def größer(): return make(40)  # LARGER
def deep(depth): return deep(depth - 1) if depth else make(48)  # DEEP
pointers = [make(24)]  # FIRST
pointers += [make(32)]  # SECOND
pointers += [größer()]  # THIRD
pointers += [deep(1)]  # FOURTH
sites = {live.bytes: live.site for live in unihal.live_allocations("rdna:0")}
print(*(sites[size] for size in (24, 32, 40, 48)), sep="\\n")
for pointer in pointers: drop(pointer)
""",
    )
    make = f"train.py:{lines['MAKE']} in make < "
    end = f" in main < train.py:{lines['END']} in <module>"
    assert printed.splitlines() == [
        f"{make}train.py:{lines['FIRST']}{end}",
        f"{make}train.py:{lines['SECOND']}{end}",
        f"{make}train.py:{lines['LARGER']} in gr\\xf6\\xdfer < train.py:{lines['THIRD']} in main",
        f"{make}train.py:{lines['DEEP']} in deep < train.py:{lines['DEEP']} in deep",
    ]


def test_lines_of_this_package_are_left_out(tmp_path: Path) -> None:
    printed, _, lines = run_raw(
        tmp_path,
        """
buffer = unihal.Buffer((3, 5), "float32", "rdna:0")  # CALL
(live,) = unihal.live_allocations("rdna:0")
print(live.bytes, live.site)
""",
    )
    assert printed.startswith(f"60 train.py:{lines['CALL']} in main < train.py:{lines['END']} in <module>")


def test_a_thread_has_its_own_site(tmp_path: Path) -> None:
    printed, _, lines = run_raw(
        tmp_path,
        """
sites = []
def worker():
    block = make(8)  # CALL
    sites.append(unihal.live_allocations("rdna:0")[0].site)
    drop(block)
thread = threading.Thread(target=worker)
thread.start()
thread.join()
print(sites[0])
""",
    )
    assert printed.startswith(f"train.py:{lines['MAKE']} in make < train.py:{lines['CALL']} in worker")
    assert "main" not in printed


def test_a_double_free_names_both_sites(tmp_path: Path) -> None:
    printed, said, lines = run_raw(
        tmp_path,
        """
block = make(4096)  # CALL
assert drop(block) == 0  # FIRST
assert drop(block) == 3
print(core.uhal_last_error().contents.message.decode())
""",
    )
    assert "it was freed already" in printed
    assert (
        f"That memory, 4096 bytes at 0x{int(printed.split(' at 0x')[1].split(',')[0], 16):x}, was allocated at "
        f"train.py:{lines['MAKE']} in make < train.py:{lines['CALL']} in main < train.py:{lines['END']} in <module> "
        f"and freed at train.py:{lines['DROP']} in drop < train.py:{lines['FIRST']} in main < "
        f"train.py:{lines['END']} in <module>."
    ) in printed
    assert said == ""


def test_leaks_are_listed_at_exit(tmp_path: Path) -> None:
    _, said, lines = run_raw(
        tmp_path,
        """
for _ in range(3): make(1000)  # LOOP
drop(make(7))
make(500)  # ONCE
""",
    )
    inner, outer = f"train.py:{lines['MAKE']} in make", f"train.py:{lines['END']} in <module>"
    assert said.splitlines() == [
        "unihal: never freed on rdna:0 (stub): 4 allocations, 3500 bytes",
        f"  3 allocations, 3000 bytes of device memory at {inner} < train.py:{lines['LOOP']} in main < {outer}",
        f"  1 allocation, 500 bytes of device memory at {inner} < train.py:{lines['ONCE']} in main < {outer}",
    ]


def test_buffers_are_no_leaks(tmp_path: Path) -> None:
    _, said, _ = run_raw(tmp_path, 'globals()["kept"] = unihal.Buffer((3, 5), "float32", "rdna:0")')
    assert said == ""
