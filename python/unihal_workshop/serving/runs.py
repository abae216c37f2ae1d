"""Runs that the page asked for: one at a time, in the order in which they came, on a thread of their own."""

from __future__ import annotations

import base64
import io
import itertools
import queue
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import InputError, WorkshopError
from ..inference import BaseInference, Progress, create

#: Runs that are remembered, and those that may wait.
_REMEMBERED, _WAITING = 32, 8


def shown(value: Any) -> dict[str, Any]:
    """An output or a preview as the page shows it: a picture as a data URL, everything else as a text."""
    shape = getattr(value, "shape", None)
    if shape is not None and str(getattr(value, "dtype", "")) == "uint8" and len(shape) in (3, 4) and shape[-1] == 3:
        from PIL import Image

        picture = value if len(shape) == 3 else value[0]
        data = io.BytesIO()
        Image.fromarray(picture).save(data, "PNG")
        return {"picture": "data:image/png;base64," + base64.b64encode(data.getvalue()).decode()}
    if value is None:
        return {"text": ""}
    return {"text": value if isinstance(value, str) else repr(value)[:20000]}


@dataclass
class RunState:
    """A run as the page sees it. `state`: waiting, running, done, interrupted or failed."""

    number: int
    model: str
    inputs: dict[str, Any]
    seed: int | None
    state: str = "waiting"
    step: int = 0
    total: int = 0
    stage: str = ""
    seconds: float = 0.0
    preview: dict[str, Any] | None = None
    output: dict[str, Any] | None = None
    error: str = ""
    used_seed: int | None = None
    peak_bytes: int = 0
    details: dict[str, Any] = field(default_factory=dict)

    def as_dict(self) -> dict[str, Any]:
        """Plain data, for JSON."""
        return dict(self.__dict__)


class Runs:
    """Models by name, and what runs of them. `make` makes a model that is asked for the first time."""

    def __init__(self, names: list[str], make: Callable[[str], BaseInference] = create, preview_every: int = 5) -> None:
        self.names = names
        self._make = make
        self._preview_every = preview_every
        self._models: dict[str, BaseInference] = {}
        self._states: dict[int, RunState] = {}
        self._numbers = itertools.count(1)
        self._queue: queue.Queue[RunState | None] = queue.Queue(_WAITING)
        self._lock = threading.Lock()
        self._present: RunState | None = None
        self._thread = threading.Thread(target=self._work, name="workshop-runs", daemon=True)
        self._thread.start()

    def model(self, name: str) -> BaseInference:
        """A model, not loaded before it runs. One that is not served is an InputError."""
        if name not in self.names:
            raise InputError(f"{name[:100]!r} is not served here: {', '.join(self.names) or 'no model is'}")
        with self._lock:
            if name not in self._models:
                self._models[name] = self._make(name)
            return self._models[name]

    def start(self, name: str, inputs: Mapping[str, Any], seed: int | None) -> RunState:
        """Puts a run into the queue."""
        given = self.model(name).check_inputs(inputs)
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 1 << 63):
            raise InputError(f"seed {seed!r}: expected a whole number from 0 on")
        state = RunState(next(self._numbers), name, given, seed)
        try:
            self._queue.put_nowait(state)
        except queue.Full:
            raise InputError(f"{_WAITING} runs wait already: try again when one has ended") from None
        with self._lock:
            self._states[state.number] = state
            ended = [number for number, each in self._states.items() if each.state not in ("waiting", "running")]
            for number in ended[: max(0, len(self._states) - _REMEMBERED)]:
                del self._states[number]
        return state

    def state(self, number: int) -> RunState:
        """How far a run is; an unknown one is an InputError."""
        with self._lock:
            if number not in self._states:
                raise InputError(f"there is no run {number}; the last {_REMEMBERED} are remembered")
            return self._states[number]

    def interrupt(self, number: int) -> RunState:
        """Stops a run after its present step, or before it begins."""
        state = self.state(number)
        with self._lock:
            if state.state == "waiting":
                state.state = "interrupted"
            elif state is self._present:
                self._models[state.model].interrupt()
        return state

    def close(self) -> None:
        """Ends the thread, after the present run's step."""
        with self._lock:
            if self._present is not None:
                self._models[self._present.model].interrupt()
            for state in self._states.values():
                if state.state == "waiting":
                    state.state = "interrupted"
        self._queue.put(None)
        self._thread.join(60)

    def _work(self) -> None:
        while True:
            state = self._queue.get()
            if state is None:
                return
            with self._lock:
                if state.state != "waiting":
                    continue
                state.state = "running"
                self._present = state
            try:
                self._run(state)
            finally:
                with self._lock:
                    self._present = None

    def _run(self, state: RunState) -> None:
        def progress(at: Progress) -> None:
            state.step, state.total, state.stage, state.seconds = at.step, at.total, at.stage, at.seconds
            if at.preview is not None:
                state.preview = shown(at.preview)

        try:
            result = self._models[state.model].run(
                state.inputs, seed=state.seed, on_progress=progress, preview_every=self._preview_every
            )
            state.output = shown(result.output)
            state.used_seed, state.seconds, state.peak_bytes = result.seed, result.seconds, result.peak_bytes
            state.details = result.details
            state.state = "done" if result.finished else "interrupted"
        except WorkshopError as error:
            state.error, state.state = str(error), "failed"
        except Exception as error:  # whatever a user's model raises is its answer, and no end of the service
            state.error, state.state = f"{type(error).__name__}: {error}", "failed"
