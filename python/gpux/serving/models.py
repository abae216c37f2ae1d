"""Which models a service has loaded, under a memory budget."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import Any

from ..configuration.model_file import Preprocessing
from ..configuration.sizes import format_bytes
from ..errors import MemoryBudgetError, UnknownModelError
from ..execution.preprocessing import TextEncoder
from ..inspection.files import open_model
from ..naming import nearest, version_key
from ..registry.store import BuiltModel, Registry
from ..workers.pool import Pool
from ..workers.queueing import QueuedModel
from .metrics import Metrics


@dataclass(eq=False)
class ServedModel:
    """A version that was loaded; `queued` is None while it is unloaded for the room of others."""

    name: str
    version: str
    built: BuiltModel
    weight_bytes: int
    pinned: bool
    preprocessing: Preprocessing
    encoder: TextEncoder | None
    queued: QueuedModel | None
    used: float = 0.0
    facts: dict[str, Any] = field(default_factory=dict)
    peak_bytes: int = 0  # of a device, measured at loading and the inferences that try whether requests can be joined

    @property
    def bytes(self) -> int:
        """What the budget counts: weights, or what was measured if that is more."""
        return max(self.weight_bytes, self.peak_bytes)

    @property
    def key(self) -> str:
        """NAME:VERSION."""
        return f"{self.name}:{self.version}"


class ServedModels:
    """Loads from the registry into the pool. `budget` in bytes as ServedModel.bytes counts them, None for no limit.

    A model that does not fit makes the least recently used ones of those that are idle and not `pinned` leave; they
    come back when they are asked for.
    """

    def __init__(self, pool: Pool, registry: Registry, budget: int | None, metrics: Metrics) -> None:
        self.registry = registry
        self._pool = pool
        self._budget = budget
        self._metrics = metrics
        self._models: dict[str, dict[str, ServedModel]] = {}
        self._changing = asyncio.Lock()

    def all(self) -> list[ServedModel]:
        """Every version."""
        return [model for versions in self._models.values() for model in versions.values()]

    def find(self, name: str | None, version: str | None = None) -> ServedModel:
        """A version, the newest if none is named, the one model if there is only one; UnknownModelError otherwise."""
        if name is None:
            if len(self._models) != 1:
                known = ", ".join(sorted(self._models)) or "none is loaded"
                raise UnknownModelError(f"several models are served; name one with ?model=: {known}")
            name = next(iter(self._models))
        versions = self._models.get(name)
        if not versions:
            raise UnknownModelError(f"no model {name[:100]!r} is loaded{nearest(name[:100], self._models)}")
        if version is None:
            return versions[max(versions, key=version_key)] if len(versions) > 1 else next(iter(versions.values()))
        if version not in versions:
            raise UnknownModelError(f"{name} has no loaded version {version[:100]!r}{nearest(version[:100], versions)}")
        return versions[version]

    async def ready(self, model: ServedModel) -> QueuedModel:
        """The model's queue; a model that left for others comes back."""
        model.used = time.monotonic()
        if model.queued is not None:
            return model.queued
        async with self._changing:
            # It may have been loaded anew or unloaded while this waited.
            current = self.find(model.name, model.version)
            if current.queued is None:
                await self._put_in(current)
            assert current.queued is not None
            return current.queued

    async def load(self, built: BuiltModel, pinned: bool = False) -> ServedModel:
        """Loads a version, again if it is loaded already; ModelError and MemoryBudgetError leave all as it was."""
        async with self._changing:
            # Reading and checking takes its time, and requests go on.
            checked = await asyncio.to_thread(open_model, built.model)
            configuration = built.configuration.model if built.configuration is not None else None
            encoder = await asyncio.to_thread(TextEncoder, built.tokenizer) if built.tokenizer is not None else None
            model = ServedModel(
                built.name,
                built.version,
                built,
                checked.weight_bytes,
                pinned,
                configuration.preprocessing if configuration is not None else Preprocessing(),
                encoder,
                None,
            )
            earlier = self._models.get(model.name, {}).get(model.version)
            if earlier is not None:
                await self._take_out(earlier)
                model.pinned = pinned or earlier.pinned
            try:
                await self._put_in(model)
            except Exception:
                if earlier is not None:
                    await self._put_in(earlier)
                raise
            self._models.setdefault(model.name, {})[model.version] = model
            return model

    async def unload(self, name: str, version: str | None = None) -> None:
        """Forgets a version, or all of a model; what runs is answered, what waits is told to try elsewhere."""
        async with self._changing:
            model = self.find(name, version)
            for each in [model] if version is not None else list(self._models[name].values()):
                await self._take_out(each)
                del self._models[name][each.version]
            if not self._models[name]:
                del self._models[name]

    def used_bytes(self) -> int:
        """Of all that is loaded."""
        return sum(model.bytes for model in self.all() if model.queued is not None)

    async def _put_in(self, model: ServedModel) -> None:
        await self._make_room(model)
        configuration = model.built.configuration
        batch = configuration.model.runtime.batch_size if configuration is not None else None
        model.queued = await self._pool.load(model.key, str(model.built.model), batch)
        model.used = time.monotonic()
        model.peak_bytes = model.queued.device_bytes
        try:
            await self._make_room(model)
        except MemoryBudgetError:
            await self._take_out(model)
            raise
        self._metrics.bytes.labels(model.key).set(model.bytes)

    async def _take_out(self, model: ServedModel) -> None:
        if model.queued is not None:
            model.queued = None
            await self._pool.unload(model.key)
            self._metrics.bytes.labels(model.key).set(0)

    async def _make_room(self, model: ServedModel) -> None:
        """For a model before it is loaded, and again when it was measured."""
        if self._budget is None:
            return
        if model.bytes > self._budget:
            what = "takes" if model.peak_bytes > model.weight_bytes else "has weights of"
            raise MemoryBudgetError(
                f"{model.key} {what} {format_bytes(model.bytes)}, the budget is "
                f"{format_bytes(self._budget)}: raise memory_budget"
            )
        others = [each for each in self.all() if each is not model]

        def used() -> int:
            return sum(each.bytes for each in others if each.queued is not None)

        while used() + model.bytes > self._budget:
            idle = [each for each in others if each.queued is not None and each.queued.idle and not each.pinned]
            if not idle:
                raise MemoryBudgetError(
                    f"{model.key} needs {format_bytes(model.bytes)}; {format_bytes(used())} of "
                    f"{format_bytes(self._budget)} are taken by models that are in use or were named at the start"
                )
            await self._take_out(min(idle, key=lambda each: each.used))
