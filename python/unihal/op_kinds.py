"""Numbers of the op kinds."""

from __future__ import annotations

from functools import cache

from . import _core, errors


@cache
def _kinds() -> dict[str, int]:
    return _core.op_kinds()


def number(name: str) -> int:
    """The ABI's number of an op kind such as "matmul"."""
    kinds = _kinds()
    if name not in kinds:
        raise errors.NotFoundError(f"{name!r} is no op; the ops are: {', '.join(kinds)}")
    return kinds[name]
