"""The pool: workers, loaded models, and requests brought together. All of it belongs to one event loop.

Each request that submit() takes is answered: by its result, by the model's error, by RequestTimeoutError, or, if two
workers died while they ran it or the pool closes, by BusyError, after which it may be sent again.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .. import errors
from ..errors import BusyError, GPUXError, ModelError, ProviderError, RequestTimeoutError, ServiceError
from ..tensors import Array, TensorSpec
from .process import WorkerProcess
from .queueing import QueuedModel, Request
from .wire import Message

_log = logging.getLogger("gpux")

LOAD_TIMEOUT = 600.0
_MAX_ATTEMPTS = 2
# Seconds before a restart: the first, and the most. It doubles with each worker that died before it answered anything.
_BACKOFF = (0.05, 10.0)


@dataclass(frozen=True)
class PoolSettings:
    """`workers` None: one a device. `timeout` in seconds; `queue_size` requests a model."""

    provider: str = "auto"
    memory: int | None = None
    threads: int = 0
    workers: int | None = None
    batch_size: int = 8
    batch_delay: float = 0.0
    queue_size: int = 256
    timeout: float = 30.0


@dataclass(eq=False)
class _Slot:
    """A place for a worker: the process may change, the device stays."""

    index: int
    process: WorkerProcess
    models: set[str] = field(default_factory=set)
    alive: bool = False
    batch: list[Request] | None = None
    model: QueuedModel | None = None
    identifier: int = 0
    deaths: int = 0  # since it last answered


@dataclass(eq=False)
class Observer:
    """Who wants to know; for metrics."""

    batch: Callable[[str, int, float], None] = lambda key, size, seconds: None
    restart: Callable[[], None] = lambda: None


class Pool:
    """See above. start() first, stop() last."""

    def __init__(self, settings: PoolSettings, observer: Observer | None = None) -> None:
        self.settings = settings
        self.models: dict[str, QueuedModel] = {}
        self.restarts = 0
        self._observer = observer or Observer()
        self._slots: list[_Slot] = []
        self._closing = False
        self._tasks: set[asyncio.Task[None]] = set()
        self._wake: asyncio.TimerHandle | None = None
        self._loop: Any = None

    # -- workers -------------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Starts the workers; the first says how many devices there are."""
        self._loop = asyncio.get_running_loop()
        first = self._add_slot()
        await self._start_slot(first)
        count = self.settings.workers or first.process.facts["devices"]
        others = [self._add_slot() for _ in range(count - 1)]
        await asyncio.gather(*(self._start_slot(slot) for slot in others))

    @property
    def facts(self) -> dict[str, Any]:
        """What the workers' provider is."""
        return self._slots[0].process.facts if self._slots else {}

    @property
    def alive(self) -> int:
        """Workers that run."""
        return sum(slot.alive for slot in self._slots)

    @property
    def size(self) -> int:
        """Workers that should run."""
        return len(self._slots)

    def pids(self) -> list[int]:
        """Of the workers that live."""
        return [pid for slot in self._slots if (pid := slot.process.pid) is not None]

    def close(self) -> None:
        """Refuses new requests from now on; those that were taken go on."""
        self._closing = True

    async def stop(self) -> None:
        """Ends the workers; what still waits gets a BusyError."""
        self._closing = True
        for task in self._tasks:
            task.cancel()
        for model in self.models.values():
            for request in model.queue:
                _fail(request, BusyError("the service is going down"))
            model.queue.clear()
        for slot in self._slots:
            for request in slot.batch or ():
                _fail(request, BusyError("the service is going down"))
        await asyncio.gather(*(slot.process.stop() for slot in self._slots))

    def _add_slot(self) -> _Slot:
        index = len(self._slots)
        settings = {
            "provider": self.settings.provider,
            "ordinal": index,
            "memory": self.settings.memory,
            "threads": self.settings.threads,
        }
        process = WorkerProcess(
            settings, lambda message, arrays: self._answered(slot, message, arrays), lambda: self._died(slot)
        )
        slot = _Slot(index, process)
        self._slots.append(slot)
        return slot

    async def _start_slot(self, slot: _Slot) -> None:
        await slot.process.start()
        slot.models = set()
        failed: set[str] = set()
        # Models may be loaded and unloaded meanwhile.
        while missing := [each for each in self.models.values() if each.key not in slot.models | failed]:
            model = missing[0]
            try:
                await self._load_in(slot, model.key, model.path)
            except GPUXError as error:
                _log.error("worker %d cannot load %s again: %s", slot.index, model.key, error)
                if slot.process.pid is None:
                    raise
                failed.add(model.key)
        slot.alive = True
        self._dispatch()

    def _died(self, slot: _Slot) -> None:
        """What it ran goes back to the front of its queue, and a new process comes."""
        was_alive, slot.alive = slot.alive, False
        batch, model = slot.batch, slot.model
        slot.batch = slot.model = None
        if batch is not None and model is not None:
            model.running -= len(batch)
            for request in reversed(batch):
                request.attempts += 1
                if request.given_up:
                    continue
                if request.attempts >= _MAX_ATTEMPTS:
                    model.statistics.failed += 1
                    _fail(request, BusyError("two workers died while they ran this request"))
                else:
                    model.queue.appendleft(request)
                    model.waiting += 1
        if self._closing:
            for request in batch or ():
                _fail(request, BusyError("the service is going down"))
        if was_alive and not self._closing:
            self._restart_later(slot)
        self._dispatch()

    def _restart_later(self, slot: _Slot) -> None:
        slot.deaths += 1
        delay = min(_BACKOFF[0] * 2 ** (slot.deaths - 1), _BACKOFF[1])
        _log.warning("worker %d died; a new one starts in %.2f s", slot.index, delay)
        self.restarts += 1
        self._observer.restart()
        self._spawn(self._restart(slot, delay))

    async def _restart(self, slot: _Slot, delay: float) -> None:
        await asyncio.sleep(delay)
        try:
            await self._start_slot(slot)
        except (GPUXError, OSError) as error:
            _log.error("worker %d could not be started: %s", slot.index, error)
            if not self._closing:
                self._restart_later(slot)

    def _spawn(self, coroutine: Any) -> None:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- models --------------------------------------------------------------------------------------------------------

    async def load(self, key: str, path: str, batch_size: int | None = None) -> QueuedModel:
        """Loads a model in every worker that lives; in none if one of them refuses it (ModelError)."""
        for attempt in range(_MAX_ATTEMPTS):
            slots = [slot for slot in self._slots if slot.alive]
            if not slots:
                raise BusyError("no worker is alive at the moment")
            answers = await asyncio.gather(*(self._load_in(slot, key, path) for slot in slots), return_exceptions=True)
            failures = [answer for answer in answers if isinstance(answer, BaseException)]
            if not failures or attempt or not all(isinstance(failure, BusyError) for failure in failures):
                break
            # A worker died, perhaps not of this model: once more, when there is one again.
            await self._some_worker()
        if failures:
            for slot in slots:
                slot.models.discard(key)
                if slot.alive:
                    slot.process.send(("unload", slot.process.new_identifier(), key))
            if isinstance(failures[0], BusyError):
                raise ModelError(f"a worker died or hung while it loaded {key}: it was not loaded")
            raise failures[0]
        facts: dict[str, Any] = answers[0]  # type: ignore[assignment]
        model = QueuedModel(
            key,
            path,
            {each["name"]: TensorSpec.from_dict(each) for each in facts["inputs"]},
            {each["name"]: TensorSpec.from_dict(each) for each in facts["outputs"]},
            facts["not_joined"],
            batch_size or self.settings.batch_size,
            self.settings.batch_delay,
            max(answer["device_bytes"] for answer in answers if isinstance(answer, dict)),
        )
        self.models[key] = model
        # A worker that started meanwhile did not know of it.
        for slot in self._slots:
            if slot.alive and key not in slot.models:
                await self._load_in(slot, key, path)
        return model

    async def _some_worker(self) -> None:
        """Waits until a worker is alive, for as long as a request would."""
        end = self._loop.time() + self.settings.timeout
        while self.alive == 0 and self._loop.time() < end:
            await asyncio.sleep(0.02)

    async def unload(self, key: str) -> None:
        """Forgets a model; what waits for it gets a BusyError."""
        model = self.models.pop(key, None)
        if model is None:
            return
        for request in model.queue:
            _fail(request, BusyError(f"{key} was unloaded"))
        model.queue.clear()
        model.waiting = 0
        for slot in self._slots:
            slot.models.discard(key)
            if slot.alive:
                slot.process.send(("unload", slot.process.new_identifier(), key))

    async def _load_in(self, slot: _Slot, key: str, path: str) -> dict[str, Any]:
        answer = await slot.process.ask("load", key, path, timeout=LOAD_TIMEOUT)
        if answer[0] == "failed":
            raise _error(answer[2], answer[3])
        slot.models.add(key)
        facts: dict[str, Any] = answer[2]
        return facts

    # -- requests ------------------------------------------------------------------------------------------------------

    def submit(self, model: QueuedModel, arrays: list[Array], outputs: tuple[str, ...]) -> asyncio.Future[list[Array]]:
        """Queues a request whose inputs were checked, in the order of the model's; BusyError if the queue is full."""
        if self._closing:
            raise BusyError("the service is going down")
        if model.waiting >= self.settings.queue_size:
            raise BusyError(f"{model.waiting} requests wait for {model.key} already: try again later")
        if self.models.get(model.key) is not model:
            raise BusyError(f"{model.key} was unloaded")
        loop = self._loop
        future: asyncio.Future[list[Array]] = loop.create_future()
        rows = arrays[0].shape[0] if arrays and arrays[0].ndim else 1
        request = Request(arrays, outputs, future, loop.time(), rows)
        request.timer = loop.call_later(self.settings.timeout, self._timed_out, model, request)
        model.queue.append(request)
        model.waiting += 1
        self._dispatch()
        return future

    def _timed_out(self, model: QueuedModel, request: Request) -> None:
        if request.given_up:
            return
        if request in model.queue:
            model.waiting -= 1
        model.statistics.failed += 1
        if self.alive == 0:
            _fail(request, BusyError("no worker is alive at the moment"))
        else:
            _fail(request, RequestTimeoutError(f"{model.key} gave no answer within {self.settings.timeout:g} s"))

    def _dispatch(self) -> None:
        """Gives what is due to the workers that are free."""
        for slot in self._slots:
            if not slot.alive or slot.batch is not None:
                continue
            model = self._next_model(slot)
            if model is None:
                continue
            batch = model.take()
            slot.batch, slot.model = batch, model
            slot.identifier = slot.process.new_identifier()
            now = self._loop.time()
            model.statistics.queue_seconds += sum(now - request.arrived for request in batch)
            message = ("infer", slot.identifier, model.key, list(batch[0].outputs), len(batch))
            slot.process.send(message, [array for request in batch for array in request.arrays])
            self._loop.call_later(self.settings.timeout + 0.1, self._end_hung, slot, slot.identifier)

    def _next_model(self, slot: _Slot) -> QueuedModel | None:
        """The model whose oldest request has waited longest, among those that are due; sets the clock for the next."""
        best: QueuedModel | None = None
        arrived = soonest = float("inf")
        now = self._loop.time()
        for model in self.models.values():
            if not model.queue or model.key not in slot.models:
                continue
            head = model.head()
            if head is None:
                continue
            due = model.due()
            if due > now:
                soonest = min(soonest, due)
            elif head.arrived < arrived:
                best, arrived = model, head.arrived
        if best is None and soonest < float("inf"):
            if self._wake is not None:
                self._wake.cancel()
            self._wake = self._loop.call_at(soonest, self._dispatch)
        return best

    def _end_hung(self, slot: _Slot, identifier: int) -> None:
        """A worker that runs one batch for longer than anybody waits is ended, so that others get their turn."""
        if slot.batch is not None and slot.identifier == identifier:
            _log.error("worker %d hangs in %s", slot.index, slot.model.key if slot.model else "nothing")
            slot.process.kill()

    def _answered(self, slot: _Slot, message: Message, arrays: list[Array]) -> None:
        """Gives the results of a batch to those who wait."""
        if message[1] != slot.identifier or slot.batch is None or slot.model is None:
            return
        batch, model = slot.batch, slot.model
        slot.batch = slot.model = None
        slot.deaths = 0
        model.running -= len(batch)
        if message[0] == "failed":
            for request in batch:
                _fail(request, _error(message[2], message[3]))
            self._dispatch()
            return
        _, _, failures, seconds = message
        statistics = model.statistics
        statistics.batches += 1
        statistics.compute_seconds += seconds
        offset = 0
        for request, failure in zip(batch, failures):
            if failure is not None:
                statistics.failed += 1
                _fail(request, ProviderError(failure))
                continue
            width = len(request.outputs)
            if not request.future.done():
                request.future.set_result(arrays[offset : offset + width])
                statistics.succeeded += 1
            if request.timer is not None:
                request.timer.cancel()
            offset += width
        self._observer.batch(model.key, len(batch), seconds)
        self._dispatch()


def _fail(request: Request, error: GPUXError) -> None:
    if request.timer is not None:
        request.timer.cancel()
    if not request.future.done():
        request.future.set_exception(error)


def _error(name: str, text: str) -> GPUXError:
    """A worker's error by its class's name."""
    found = getattr(errors, name, ServiceError)
    if not issubclass(found, GPUXError) or found is errors.ConfigurationError:
        return ServiceError(text)
    return found(text)
