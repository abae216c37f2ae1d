"""The cache of compiled programs on disk: what csrc/backends/common/disk_cache.h writes."""

from __future__ import annotations

import os
import re
import stat
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from . import errors

DEFAULT_LIMIT = 512 << 20

_MAGIC = b"UNIHALC1"
_HEADER = struct.Struct("<8sQQQ16s")  # magic; bytes of label, key and content; checksum
_SUFFIX = ".entry"
_WRITING = ".writing"
_SHIFTS = {"": 0, "K": 10, "M": 20, "G": 30}


@dataclass(frozen=True)
class Settings:
    """What the environment says."""

    #: None: nothing is kept.
    folder: Path | None
    #: In bytes.
    limit: int


@dataclass(frozen=True)
class Entry:
    """One file of the cache."""

    path: Path
    bytes: int
    #: Nanoseconds since 1970.
    last_use: int
    #: ``"program map"``: the kind and, of programs, the kernels' source. None if the file is damaged.
    label: str | None


def settings() -> Settings:
    """The folder and the limit that are in force."""
    switch = os.environ.get("UNIHAL_CACHE", "")
    if switch not in ("", "on", "off"):
        raise _complaint("UNIHAL_CACHE", switch, "on or off")
    return Settings(None if switch == "off" else _folder(), _limit(os.environ.get("UNIHAL_CACHE_LIMIT", "")))


def _folder() -> Path | None:
    own = os.environ.get("UNIHAL_CACHE_DIR", "")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME", "")
    if base.startswith("/"):
        return Path(base) / "unihal"
    home = os.environ.get("HOME", "")
    return Path(home) / ".cache" / "unihal" if home else None


def _limit(text: str) -> int:
    if not text:
        return DEFAULT_LIMIT
    match = re.fullmatch(r"([0-9]{1,18})([KMG]?)", text)
    if match is None:
        allowed = "a number of bytes, or one with the suffix K, M or G (such as 512M)"
        raise _complaint("UNIHAL_CACHE_LIMIT", text, allowed)
    return int(match[1]) << _SHIFTS[match[2]]


def _complaint(name: str, value: str, allowed: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(
        f"The environment variable {name} is {value!r}, but must be {allowed}; correct or unset it."
    )


def entries(folder: Path | None) -> list[Entry]:
    """The entries of a folder, the one used last first. Other processes may add and remove some meanwhile."""
    found = [entry for path in _files(folder, _SUFFIX) if (entry := _read(path)) is not None]
    return sorted(found, key=lambda entry: entry.last_use, reverse=True)


def clear(folder: Path | None) -> list[Entry]:
    """Removes all entries, and files that were left half-written; returns the entries. The folder stays."""
    removed = entries(folder)
    for path in _files(folder, _SUFFIX, _WRITING):
        path.unlink(missing_ok=True)
    return removed


def _files(folder: Path | None, *suffixes: str) -> Iterator[Path]:
    if folder is None or not folder.is_dir():
        return
    yield from sorted(path for path in folder.iterdir() if path.name.endswith(suffixes))


def _read(path: Path) -> Entry | None:
    try:
        status = path.lstat()
        if not stat.S_ISREG(status.st_mode):
            return None  # a FIFO would be waited for
        with path.open("rb") as file:
            header = file.read(_HEADER.size)
            label = _label(file.read(4096), header, status.st_size)
    except FileNotFoundError:
        return None
    except OSError:
        label = None
    return Entry(path, status.st_size, status.st_mtime_ns, label)


def _label(start: bytes, header: bytes, file_bytes: int) -> str | None:
    """The label of a file that begins with a header; None if its sizes do not add up."""
    if len(header) < _HEADER.size:
        return None
    magic, label_bytes, key_bytes, content_bytes, _ = _HEADER.unpack(header)
    if magic != _MAGIC or _HEADER.size + label_bytes + key_bytes + content_bytes != file_bytes:
        return None
    return start[:label_bytes].decode(errors="replace")
