"""A service's parts, put together from the settings: started, asked and stopped."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import providers
from ..configuration.settings import Settings
from ..errors import BusyError
from ..execution.preprocessing import image_input
from ..naming import split_reference
from ..registry.store import BuiltModel, Registry
from ..tensors import Array
from ..workers.pool import Observer, Pool, PoolSettings
from .metrics import Metrics
from .models import ServedModel, ServedModels
from .security import ApiKeys, AuditLog, is_loopback
from .tracing import Tracer, make_tracer


class Service:
    """What the application calls. Belongs to one event loop between start() and stop()."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.metrics = Metrics()
        self.keys = ApiKeys(Path(settings["api_keys"])) if settings["api_keys"] else None
        self.audit = AuditLog(Path(settings["audit_log"])) if settings["audit_log"] else None
        self.tracer: Tracer | None = make_tracer(settings["otlp_endpoint"])
        self.loopback = is_loopback(settings["host"])
        self.max_body: int = settings["max_body"]
        self.timeout: float = settings["timeout"]
        self.draining = False
        self.pool = Pool(
            PoolSettings(
                provider=settings["provider"],
                memory=settings["gpu_memory"],
                threads=settings["threads"],
                workers=settings["max_workers"],
                batch_size=settings["batch_size"],
                batch_delay=settings["batch_delay"],
                queue_size=settings["queue_size"],
                timeout=settings["timeout"],
            ),
            Observer(self.metrics.observe_batch, self.metrics.restarts.inc),
        )
        self.registry = Registry(settings.registry)
        self.models = ServedModels(self.pool, self.registry, settings["memory_budget"], self.metrics)

    async def start(self, models: Sequence[BuiltModel]) -> None:
        """Starts the workers and loads models that then stay; what fails ends the start."""
        await self.pool.start()
        for built in models:
            await self.models.load(built, pinned=True)

    def drain(self) -> None:
        """From now on not ready: a load balancer sends no more."""
        self.draining = True

    async def stop(self) -> None:
        """Ends the workers, sends the traces, closes the log."""
        await self.pool.stop()
        if self.tracer is not None:
            await asyncio.to_thread(self.tracer.close)
        if self.audit is not None:
            self.audit.close()

    @property
    def is_ready(self) -> bool:
        """Whether requests are answered: not going down, and a worker lives."""
        return not self.draining and self.pool.alive > 0

    async def infer(self, model: ServedModel, arrays: list[Array], outputs: tuple[str, ...]) -> list[Array]:
        """Runs checked inputs; BusyError, RequestTimeoutError or the model's error."""
        queued = model.queued or await self.models.ready(model)
        return await self.pool.submit(queued, arrays, outputs)

    async def load(self, name: str, version: str | None) -> ServedModel:
        """Loads NAME or NAME:VERSION of the registry, the newest version if none is named."""
        if self.draining:
            raise BusyError("the service is going down")
        if version is None:
            name, version = split_reference(name)
        return await self.models.load(self.registry.get(name, version))

    def metrics_text(self) -> bytes:
        """In Prometheus' format."""
        self.metrics.workers.set(self.pool.alive)
        for model in self.models.all():
            self.metrics.waiting.labels(model.key).set(model.queued.waiting if model.queued is not None else 0)
        return self.metrics.text()

    def health(self) -> dict[str, Any]:
        """For GET /health."""
        state = "going down" if self.draining else "ok" if self.pool.alive else "no worker is alive"
        return {"status": state, "workers": self.pool.alive, "workers_wanted": self.pool.size}

    def info(self) -> dict[str, Any]:
        """For GET /info: no paths, no keys."""
        return {
            "provider": self.pool.facts,
            "versions": providers.versions(),
            "workers": {"alive": self.pool.alive, "wanted": self.pool.size, "restarts": self.pool.restarts},
            "limits": {
                name: self.settings[name]
                for name in ("batch_size", "batch_delay", "queue_size", "timeout", "max_body", "memory_budget")
            },
            "models": [self.describe(model) for model in self.models.all()],
        }

    @staticmethod
    def describe(model: ServedModel) -> dict[str, Any]:
        """A model, and what the page needs to make a form of it."""
        queued = model.queued
        inputs = list(queued.inputs.values()) if queued is not None else []
        accepts = ["json"]
        if len(inputs) == 1 and image_input(inputs) is not None:
            accepts.append("image")
        if model.encoder is not None or (len(inputs) == 1 and inputs[0].dtype == "string"):
            accepts.append("text")
        return {
            "name": model.name,
            "version": model.version,
            "loaded": queued is not None,
            "weight_bytes": model.weight_bytes,
            "bytes": model.bytes,
            "accepts": accepts,
            "batching": queued is not None and not queued.not_joined and queued.batch_size > 1,
            "not_joined": queued.not_joined if queued is not None else "",
            "inputs": [spec.as_dict() for spec in inputs],
            "outputs": [spec.as_dict() for spec in queued.outputs.values()] if queued is not None else [],
        }
