"""How offload divides a module into units that come and go together: of real modules, and of traces for plans.

A module is seen as a `Part`: the tensors that it owns itself, and its children. Sizes are asked for when a layout is
made, so that a plan can have the same parts in other sizes (fewer bits).
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

ALIGNMENT = 256

#: Parts of a module above so many bytes are divided, where nobody says how many: a sixteenth of the module, between
#: these. Smaller units would take the host more time than their copy takes the link.
LEAST_DIVIDED, MOST_UNDIVIDED = 1 << 20, 64 << 20


def padded(size: int) -> int:
    """Bytes that a tensor takes in a packed unit."""
    return -(-size // ALIGNMENT) * ALIGNMENT


@dataclass(eq=False)
class Part:
    """A module: `own` has its own tensors, each with the place that refers to it; `subject` is the module itself.

    A container's forward is never called (lists of layers). A whole one computes with its children's tensors and does
    not call them, so that it is never divided.
    """

    own: list[tuple[Hashable, Hashable]]
    children: list[tuple[str, Part]]
    is_container: bool = False
    is_whole: bool = False
    subject: Any = None

    def walk(self) -> Iterator[Part]:
        """The part and all below it, each once."""
        seen: set[int] = set()

        def visit(part: Part) -> Iterator[Part]:
            if id(part) in seen:
                return
            seen.add(id(part))
            yield part
            for _, child in part.children:
                yield from visit(child)

        return visit(self)

    def places(self) -> list[tuple[Hashable, Hashable]]:
        """All its places with their tensors, those of its children included."""
        return [place for part in self.walk() for place in part.own]

    def tensors(self) -> set[Hashable]:
        """All its tensors."""
        return {tensor for _, tensor in self.places()}


@dataclass(eq=False)
class Group:
    """A unit: what a part brings (`tensors`, each once), and the units before it whose tensors it reads as well."""

    name: str
    part: Part
    places: list[Hashable]
    tensors: list[Hashable]
    bytes: int
    reads: list[Group] = field(default_factory=list)

    @property
    def needs(self) -> list[Group]:
        """All units that have to be on the card while the part runs."""
        return [*self.reads, *([self] if self.bytes else [])]


Size = Callable[[Any], int]


def groups(root: Part, size: Size, largest: int | None = None) -> list[Group]:
    """The units of a module: parts of at most `largest` bytes each, or that cannot be divided; in order of definition.

    A part is divided only where all its tensors belong to its children, so that nothing is left over. None: a sixteenth
    of the module, from 1 to 64 MiB.
    """
    if largest is None:
        whole = sum(padded(size(tensor)) for tensor in root.tensors())
        largest = min(MOST_UNDIVIDED, max(LEAST_DIVIDED, whole // 16))
    found: list[tuple[str, Part]] = []

    def divide(name: str, part: Part) -> None:
        total = sum(padded(size(tensor)) for _, tensor in part.places())
        if total == 0:
            return
        is_one = bool(part.own) or part.is_whole or not part.children or (total <= largest and part is not root)
        if is_one and not part.is_container:
            if all(part is not other for _, other in found):  # a module may have several parents
                found.append((name, part))
            return
        for child, inner in part.children:
            divide(f"{name}.{child}" if name else child, inner)

    divide("", root)
    taken: dict[Hashable, Group] = {}
    result: list[Group] = []
    for name, part in found:
        places = [place for place in part.places() if place[0] not in taken]
        tensors = list(dict.fromkeys(tensor for _, tensor in places))
        group = Group(name, part, [place for place, _ in places], tensors, sum(padded(size(each)) for each in tensors))
        shared = [taken[place] for place, _ in part.places() if place in taken]
        group.reads = [other for other in dict.fromkeys(shared) if other.bytes]
        taken.update((place, group) for place, _ in places)
        result.append(group)
    return result


@dataclass(frozen=True)
class Layout:
    """Where the units of a module lie while it runs: `resident` ones stay on the card, `moving` ones share `slots`.

    `slots` pieces of `slot_bytes` each.
    """

    resident: tuple[Group, ...]
    moving: tuple[Group, ...]
    slots: int
    slot_bytes: int

    @property
    def pieces(self) -> list[int]:
        """Bytes of each piece of device memory, in the order in which they are taken."""
        return [*(group.bytes for group in self.resident), *[self.slot_bytes] * self.slots]

    def copied(self, calls: int = 1) -> int:
        """Bytes that come to the card when the module is called so often."""
        moving = sum(group.bytes for group in self.moving)
        again = calls if len(self.moving) > self.slots else 1
        return sum(group.bytes for group in self.resident) + again * moving


def layout(units: Iterable[Group], prefetch: int, resident_bytes: int) -> Layout:
    """Of the units as many stay on the card as fit into `resident_bytes`, the first ones; the others come and go.

    All stay where the slots would take as much as they do.
    """
    every = list(units)
    kept: list[Group] = []
    left = resident_bytes
    for unit in every:
        if 0 < unit.bytes <= left:
            kept.append(unit)
            left -= unit.bytes
    moving = [unit for unit in every if unit.bytes and unit not in kept]
    # A part may read a unit before it besides its own (tied weights): both are there at the same time.
    at_once = max((sum(each in moving for each in unit.needs) for unit in every), default=0)
    slots = min(max(prefetch + 1, at_once), len(moving))
    slot_bytes = max((unit.bytes for unit in moving), default=0)
    if slots * slot_bytes >= sum(unit.bytes for unit in moving):
        return Layout(tuple(unit for unit in every if unit.bytes), (), 0, 0)
    return Layout(tuple(kept), tuple(moving), slots, slot_bytes)
