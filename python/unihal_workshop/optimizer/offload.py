"""Weights in the memory of the host, brought to the card when needed: layer by layer ahead of time, or part by part.

Layers: while one computes, the next ones' weights come on a stream of their own, into a fixed number of slots of device
memory. A slot is written again only after the layer that used it is through, as events say; the host waits for nothing.

    offload = LayerOffload(unet, "rdna", prefetch=1)      # from now on, unet runs with its weights in host memory
    ...
    offload.release()                                      # the slots' memory goes back; the next call takes it again
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import ModelError
from ..offload_units import Group, Part, groups, layout, padded
from .weights import TiedLinear


def part_of(module: nn.Module, key: Callable[[Tensor], Any] = id, keep: bool = True) -> Part:
    """A module as offload sees it: places are (owner, name), tensors by their `key`.

    Without `keep` no part refers to its module.
    """
    made: dict[int, Part] = {}

    def visit(owner: nn.Module) -> Part:
        if id(owner) not in made:
            container = isinstance(owner, (nn.ModuleList, nn.ModuleDict))
            part = made[id(owner)] = Part([], [], container, isinstance(owner, TiedLinear))
            part.subject = owner if keep else None
            part.own = [
                ((id(owner), name), key(value))
                for name, value in (*owner._parameters.items(), *owner._buffers.items())
                if value is not None
            ]
            part.children = [(name, visit(child)) for name, child in owner.named_children()]
        return made[id(owner)]

    return visit(module)


def _tensors(module: nn.Module) -> dict[int, Tensor]:
    return {id(tensor): tensor for tensor in (*module.parameters(), *module.buffers())}


def units_of(module: nn.Module, largest: int | None = None) -> list[Group]:
    """How a module's weights are divided into units (`unihal_workshop.offload_units.groups`)."""
    tensors = _tensors(module)
    return groups(part_of(module), lambda key: tensors[key].numel() * tensors[key].element_size(), largest)


class Unit:
    """A module whose weights come and go together, packed into one piece of pinned host memory."""

    def __init__(self, group: Group, pin: bool) -> None:
        self.name = group.name
        wanted = set(group.places)
        #: Where its tensors belong: (owner, name, is a parameter).
        self.places: list[tuple[nn.Module, str, bool]] = []
        for part in group.part.walk():
            for place, _ in part.own:
                if place in wanted:
                    name = place[1]  # type: ignore[index]
                    self.places.append((part.subject, name, name in part.subject._parameters))
        tensors = [getattr(owner, key) for owner, key, _ in self.places]
        # Two places may have one tensor: it is packed once.
        first: dict[int, int] = {}
        self._layout: list[tuple[int, torch.Size, torch.dtype]] = []
        end = 0
        for tensor in tensors:
            if id(tensor) not in first:
                first[id(tensor)] = end
                end += padded(tensor.numel() * tensor.element_size())
            self._layout.append((first[id(tensor)], tensor.shape, tensor.dtype))
        self.bytes = end
        self.host = torch.empty(end, dtype=torch.uint8, pin_memory=pin and end > 0)
        self._host_values: list[Tensor] = []
        made: dict[int, Tensor] = {}
        for (owner, key, is_parameter), tensor, view in zip(self.places, tensors, self.views(self.host)):
            view.copy_(tensor.detach())
            if id(tensor) not in made:
                made[id(tensor)] = nn.Parameter(view, requires_grad=False) if is_parameter else view
            self._host_values.append(made[id(tensor)])
            (owner._parameters if is_parameter else owner._buffers)[key] = made[id(tensor)]  # type: ignore[assignment]

    def views(self, flat: Tensor) -> list[Tensor]:
        """The unit's tensors in a piece of memory of its size, in the order of its places."""
        found = []
        for offset, shape, dtype in self._layout:
            size = shape.numel() * dtype.itemsize
            found.append(flat[offset : offset + size].view(dtype).view(shape))
        return found

    def point_to(self, values: Iterable[Tensor]) -> None:
        """Makes the module compute with these tensors."""
        for (owner, key, is_parameter), value in zip(self.places, values):
            (owner._parameters if is_parameter else owner._buffers)[key] = value  # type: ignore[assignment]

    def point_to_host(self) -> None:
        """Gives the module its tensors in host memory back."""
        self.point_to(self._host_values)


@dataclass(eq=False)
class _Slot:
    memory: Tensor
    unit: Unit | None = None
    ready: Any = None  # an event: the copy is through
    free: Any = None  # an event: what used the slot is through


def _device_functions(device: torch.device) -> Any:
    functions = getattr(torch, device.type, None)
    if device.type == "cpu" or functions is None or not hasattr(functions, "Stream"):
        raise ModelError(f"offload: {device} has no streams; expected a device such as rdna or cuda")
    return functions


class LayerOffload:
    """Keeps a module's weights in host memory and brings them to a device layer by layer, `prefetch` layers ahead.

    `module`'s weights may lie anywhere; they end in pinned host memory (`pin=False`: pageable, which does not overlap).
    `largest_bytes`: parts above it are divided, where their structure allows (None: a sixteenth of the module, from 1
    to 64 MiB). `resident_bytes`: of the units, as many stay on the device as fit into it, the first ones of the module;
    all do where the slots of those that move would take no less. `prefetch` 0 brings each layer when it is called.
    Device memory: `device_bytes`. The module computes without gradients. One thread at a time.

    The order of layers is learned while they run; the first run goes by the order of definition. A layer that is not
    where it was expected is brought when it is called: that costs time, never a wrong result.
    """

    def __init__(
        self,
        module: nn.Module,
        device: str | torch.device,
        *,
        prefetch: int = 1,
        largest_bytes: int | None = None,
        resident_bytes: int = 0,
        pin: bool = True,
    ) -> None:
        if isinstance(prefetch, bool) or not isinstance(prefetch, int) or prefetch < 0:
            raise ModelError(f"prefetch: expected a number of layers, 0 or more, not {prefetch!r}")
        self.device = torch.device(device)
        if self.device.index is None and self.device.type != "cpu":
            self.device = torch.device(self.device.type, 0)
        self._functions = _device_functions(self.device)
        self.module = module
        self.prefetch = prefetch
        divided = units_of(module, largest_bytes)
        places = layout(divided, prefetch, resident_bytes)
        made = {id(group): Unit(group, pin) for group in divided if group.bytes}
        self.units = list(made.values())
        if not self.units:
            raise ModelError("offload: the module has no weights")
        self.resident = [made[id(group)] for group in places.resident]
        self.moving = [made[id(group)] for group in places.moving]
        self._next = {id(a): b for a, b in zip(self.moving, (*self.moving[1:], *self.moving[:1]))}
        self._count, self._largest = places.slots, places.slot_bytes
        self._slots: list[_Slot] = []
        self._where: dict[int, _Slot] = {}
        self._order: list[_Slot] = []  # the least recently used first
        self._stream: Any = None
        self._first: Unit | None = None  # what ran first, after the memory was taken
        self._last: Unit | None = None
        #: What was copied to the device so far, in bytes, and how often a layer came only when it was called.
        self.copied_bytes = 0
        self.late = 0
        self._hooks = []
        for group in divided:
            needed = [made[id(each)] for each in group.needs if each in places.moving]
            if needed:
                self._hooks.append(group.part.subject.register_forward_pre_hook(self._before(needed)))
                self._hooks.append(group.part.subject.register_forward_hook(self._after(needed)))
            else:  # what stays has to be there too, where other methods than the module's forward are called
                self._hooks.append(group.part.subject.register_forward_pre_hook(lambda *_: self.prepare()))
        self._hooks.append(module.register_forward_pre_hook(lambda *_: self.prepare()))

    @property
    def device_bytes(self) -> int:
        """Device memory that the weights take while the module runs."""
        return self._count * self._largest + sum(unit.bytes for unit in self.resident)

    @property
    def host_bytes(self) -> int:
        """Pinned memory of the host."""
        return sum(unit.bytes for unit in self.units)

    def prepare(self) -> None:
        """Takes the device memory and brings what stays there and the first layers; a run does it by itself."""
        if self._slots or (self.resident and self._where):
            return
        with torch.no_grad(), self._functions.device(self.device):
            self._stream = self._stream or self._functions.Stream(device=self.device)
            for unit in self.resident:
                memory = unit.host.to(self.device, non_blocking=True)
                self.copied_bytes += unit.bytes
                unit.point_to(unit.views(memory))
                self._where[id(unit)] = _Slot(memory, unit)
            self._slots = [
                _Slot(torch.empty(self._largest, dtype=torch.uint8, device=self.device)) for _ in range(self._count)
            ]
            # The slots' memory may have been used on this stream before.
            begin = self._functions.Event()
            begin.record(self._functions.current_stream(self.device))
            for slot in self._slots:
                slot.free = begin
            self._order = list(self._slots)
            coming = self._first or next(iter(self.moving), None)
            for _ahead in range(min(self.prefetch, len(self.moving))):
                if coming is not None and id(coming) not in self._where:
                    self._fetch(coming)
                coming = self._next.get(id(coming))

    def release(self) -> None:
        """Gives the device memory back, once the device is through with it; the weights stay in host memory."""
        if not self._where and not self._slots:
            return
        if self._stream is not None:
            # What the copy stream still writes must not be given to others.
            self._functions.current_stream(self.device).wait_stream(self._stream)
        for unit in self.units:
            unit.point_to_host()
        self._slots, self._where, self._order, self._last = [], {}, [], None

    def remove(self) -> None:
        """Ends the offload: the module has its weights in host memory and no hooks."""
        self.release()
        for hook in self._hooks:
            hook.remove()
        self._hooks = []

    def _fetch(self, unit: Unit) -> _Slot:
        """Begins the copy of a unit's weights into the least recently used slot."""
        slot = self._order.pop(0)
        self._order.append(slot)
        if slot.unit is not None:
            slot.unit.point_to_host()
            self._where.pop(id(slot.unit), None)
        slot.unit = unit
        with self._functions.stream(self._stream):
            self._stream.wait_event(slot.free)
            part = slot.memory[: unit.bytes]
            part.copy_(unit.host, non_blocking=True)
            slot.ready = self._functions.Event()
            slot.ready.record(self._stream)
        self.copied_bytes += unit.bytes
        unit.point_to(unit.views(part))
        self._where[id(unit)] = slot
        return slot

    def _before(self, needed: list[Unit]) -> Any:
        def hook(*_: object) -> None:
            self.prepare()
            for unit in needed:
                if self._last is None:
                    self._first = unit
                elif self._last is not unit:
                    self._next[id(self._last)] = unit
                self._last = unit
                self._use(self._where.get(id(unit)))  # those that are there are not the next to be written
            with torch.no_grad():
                for unit in needed:
                    slot = self._where.get(id(unit))
                    if slot is None:
                        self.late += 1
                        slot = self._fetch(unit)
                    self._functions.current_stream(self.device).wait_event(slot.ready)

        return hook

    def _use(self, slot: _Slot | None) -> None:
        if slot is not None:
            self._order.remove(slot)
            self._order.append(slot)

    def _after(self, needed: list[Unit]) -> Any:
        def hook(*_: object) -> None:
            slots = [self._where[id(unit)] for unit in needed if id(unit) in self._where]
            if len(slots) < len(needed):
                return
            event = self._functions.Event()
            event.record(self._functions.current_stream(self.device))
            for slot in slots:
                slot.free = event
            # The layers that come next, as long as they need no slot of one another.
            last = needed[-1]
            following: Unit | None = last
            for _ahead in range(self.prefetch):
                following = self._next.get(id(following))
                if following is None or following is last:
                    return
                known = self._where.get(id(following))
                with torch.no_grad():
                    if known is None:
                        self._fetch(following)
                    else:
                        self._use(known)

        return hook


def _whole(name: str, module: nn.Module, pin: bool) -> Unit:
    """All of a module as one unit."""
    part = part_of(module)
    return Unit(Group(name, part, [place for place, _ in part.places()], [], 0), pin)


class PartOffload:
    """Keeps the parts of a pipeline in pinned host memory; one at a time is on the device.

    `parts` are modules by name, or `LayerOffload`s of them, which bring themselves. `use` brings a part and lets go of
    the others.
    """

    def __init__(
        self, parts: Mapping[str, nn.Module | LayerOffload], device: str | torch.device, *, pin: bool = True
    ) -> None:
        self.device = torch.device(device)
        self._functions = _device_functions(self.device)
        self.parts: dict[str, Unit | LayerOffload] = {}
        for name, part in parts.items():
            self.parts[name] = part if isinstance(part, LayerOffload) else _whole(name, part, pin)
        self.present = ""
        self.copied_bytes = 0

    def use(self, name: str) -> None:
        """Makes a part ready on the device, and gives back what the others take there."""
        if name not in self.parts:
            raise ModelError(f"offload: there is no part {name!r}; there are {', '.join(self.parts)}")
        if self.present == name:
            return
        self.release()
        part = self.parts[name]
        if isinstance(part, Unit):
            with torch.no_grad(), self._functions.device(self.device):
                part.point_to(part.views(part.host.to(self.device, non_blocking=True)))
            self.copied_bytes += part.bytes
        self.present = name

    def release(self) -> None:
        """Gives back what all parts take on the device."""
        if not self.present:
            return
        part = self.parts[self.present]
        if isinstance(part, Unit):
            part.point_to_host()
        else:
            part.release()
        self.present = ""
