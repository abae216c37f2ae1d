"""Requests that wait for a worker, and which of them go together."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from ..tensors import Array, TensorSpec

Result = "list[Array]"


@dataclass(eq=False)
class Request:
    """Inputs in the order of the model's, the outputs that are asked for, and who waits for them."""

    arrays: list[Array]
    outputs: tuple[str, ...]
    future: asyncio.Future[list[Array]]
    arrived: float
    rows: int
    attempts: int = 0
    timer: asyncio.TimerHandle | None = None

    @property
    def given_up(self) -> bool:
        """Answered already: it took too long, or its client left."""
        return self.future.done()

    def group(self) -> Any:
        """Requests with the same can be joined."""
        return self.outputs, tuple(array.shape[1:] for array in self.arrays)


@dataclass(eq=False)
class Statistics:
    """Counts since a model was loaded; seconds are sums."""

    succeeded: int = 0
    failed: int = 0
    batches: int = 0
    queue_seconds: float = 0.0
    compute_seconds: float = 0.0


@dataclass(eq=False)
class QueuedModel:
    """A loaded model with its queue. `not_joined` is why its requests run one by one, empty if they need not."""

    key: str
    path: str
    inputs: dict[str, TensorSpec]
    outputs: dict[str, TensorSpec]
    not_joined: str
    batch_size: int
    batch_delay: float
    device_bytes: int = 0  # that were taken of the device while it was loaded and tried; 0 if not known
    queue: deque[Request] = field(default_factory=deque)
    waiting: int = 0  # of the queue, those that are not given up
    running: int = 0
    statistics: Statistics = field(default_factory=Statistics)

    @property
    def idle(self) -> bool:
        """Whether nothing waits or runs."""
        return self.waiting == 0 and self.running == 0

    def head(self) -> Request | None:
        """The oldest request that somebody still waits for."""
        while self.queue and self.queue[0].given_up:
            self.queue.popleft()
        return self.queue[0] if self.queue else None

    def due(self) -> float:
        """When the oldest request has waited long enough for others; 0 if at once."""
        head = self.head()
        if head is None or self.batch_size == 1 or self.not_joined or head.attempts or self.waiting >= self.batch_size:
            return 0.0
        return head.arrived + self.batch_delay if self.batch_delay else 0.0

    def take(self) -> list[Request]:
        """The next batch: the oldest request and those that go with it; one that saw a worker die goes alone."""
        head = self.head()
        if head is None:
            return []
        self.queue.popleft()
        batch = [head]
        if self.batch_size > 1 and not self.not_joined and not head.attempts and self.queue:
            group, rows = head.group(), head.rows
            others: deque[Request] = deque()
            while self.queue and rows < self.batch_size:
                request = self.queue.popleft()
                if request.given_up:
                    continue
                if request.attempts or request.group() != group or rows + request.rows > self.batch_size:
                    others.append(request)
                else:
                    batch.append(request)
                    rows += request.rows
            self.queue.extendleft(reversed(others))
        self.waiting -= len(batch)
        self.running += len(batch)
        return batch
