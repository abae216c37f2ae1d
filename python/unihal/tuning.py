"""Choosing between a backend's kernels for an op by measuring them: the extension ``uhal.tuning`` (unihal/tuning.h)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from statistics import median

from . import _core, errors, op_kinds, ops
from .buffer import Buffer
from .device import Device, DeviceLike
from .device import device as find_device
from .graphs import Graph, capture
from .stream import Event, Stream
from .tuning_problems import (
    DIRECTIONS,
    FORMS,
    Convolution,
    Direction,
    MatrixProduct,
    Problem,
    usual_convolutions,
    usual_products,
)

__all__ = [
    "DIRECTIONS",
    "FORMS",
    "Candidate",
    "Convolution",
    "Direction",
    "MatrixProduct",
    "Problem",
    "Tuned",
    "forget",
    "keep",
    "tune",
    "usual_convolutions",
    "usual_products",
]

#: A candidate is chosen only if it is faster than the default by more than two measurements of one thing differ: of two
#: launches, and after the rounds of the finalists.
_LEAST_GAIN = 1.03
_LEAST_FINAL_GAIN = 1.01

#: A candidate of which one launch takes longer than its time, and so many times as long as the default, is out at once.
_HOPELESS = 3

_ROUNDS = 5

#: Those that take at most so many times as long as the fastest are measured again, in more rounds: a GPU's clock
#: differs from one round to the next by as much as they do.
_CLOSE = 1.1
_FINAL_ROUNDS = 15

#: A launch that takes less may be waiting for the host, whose call takes some ten microseconds for each kernel.
_SHORT_SECONDS = 1e-4

#: Launches of a graph that measures a short kernel.
_GRAPH_LAUNCHES = 32

#: The default takes part in measurements as this number.
_DEFAULT = -1


@dataclass(frozen=True)
class Candidate:
    """One way to run an op, measured."""

    name: str
    #: Of one of many launches; of a short one the mean of that, which may be the host's, and of one in a graph.
    seconds: float


@dataclass(frozen=True)
class Tuned:
    """What came out for one problem."""

    problem: Problem
    #: What the choice depends on; empty where there is nothing to choose, and then nothing was measured.
    key: str
    default_seconds: float = 0
    #: Those that the device can run, from the fastest to the slowest.
    candidates: tuple[Candidate, ...] = ()
    #: The candidate that is used from now on; None: what the backend takes by itself.
    chosen: str | None = None
    #: What candidates that failed said (no memory for them, a compiler that gives up), by their names.
    failures: Mapping[str, str] = field(default_factory=dict)

    @property
    def gain(self) -> float:
        """How many times as fast the choice is as the default."""
        return self.default_seconds / self.candidates[0].seconds if self.chosen is not None else 1


def tune(on: DeviceLike, problems: Iterable[Problem], seconds: float = 0.05) -> Iterator[Tuned]:
    """Measures the candidates for each problem and chooses the fastest, for this process; ``keep`` keeps the choices.

    A problem is measured when the iterator is asked for its result, and stands for all that share its key. Other work
    on the device disturbs the measurements. Raises what the op would raise if it were launched: InvalidArgumentError
    for sizes that do not go together, UnimplementedError for a dtype that the device does not compute with. The
    choice that there was for a key stays if its measurement is broken off.

    :param seconds: device time for each candidate, which is measured in some rounds.
    """
    device = find_device(on)
    for problem in problems:
        with Stream(device) as stream:
            yield _Measurement(device, stream, problem).run(seconds)


def keep(on: DeviceLike) -> None:
    """Keeps the choices of a device on disk, for later processes."""
    _core.tuning_keep(find_device(on)._handle)


def forget(on: DeviceLike) -> None:
    """Drops the choices of a device, the kept ones too."""
    _core.tuning_forget(find_device(on)._handle)


def _choice(best: Mapping[int, float], seconds: float) -> int:
    """Of the times of the default and of candidates, measured in `seconds` each, the one to use: of those that do not
    differ the default, or the one that the backend names first, which is what a vendor's library thinks best."""
    fastest = min(best.values())
    if best[_DEFAULT] <= fastest * (_LEAST_FINAL_GAIN if best[_DEFAULT] <= seconds else _LEAST_GAIN):
        return _DEFAULT
    return min(number for number in best if number != _DEFAULT and best[number] <= _LEAST_FINAL_GAIN * fastest)


class _Measurement:
    """The operands of a problem, and its candidates' times."""

    def __init__(self, device: Device, stream: Stream, problem: Problem) -> None:
        self._device, self._stream, self._problem = device, stream, problem
        self._op = (op_kinds.number(problem.kind), *problem.operands(self._make))
        self._launch = partial(_core.launch, self._stream._handle, *self._op)

    def _make(self, shape: Sequence[int], dtype: str) -> Buffer:
        # Not one number everywhere: a GPU's clock follows its power, and that follows the bits that change.
        most = 100.0 if dtype in ("int8", "uint8", "int32") else 1.0
        made = ops.random(shape, "float32", self._device, a=-most, b=most, key=1, stream=self._stream)
        return made if dtype == "float32" else ops.cast(made, dtype, stream=self._stream)

    def run(self, seconds: float) -> Tuned:
        """Measures all in turn, several times, and chooses."""
        _core.supports(self._device._handle, *self._op)
        key, described = _core.tuning_describe(self._device._handle, *self._op)
        names = {number: name for number, (name, usable) in enumerate(described) if usable}
        if not names:
            return Tuned(self._problem, "")
        before = _core.tuning_chosen(self._device._handle, *self._op)
        chosen = before if before in names else _DEFAULT
        try:
            best, failures = self._measure(names, seconds)
            chosen = _choice(best, seconds)
        finally:
            self._choose(chosen)
        candidates = [Candidate(names[number], time) for number, time in best.items() if number != _DEFAULT]
        candidates.sort(key=lambda candidate: candidate.seconds)
        return Tuned(self._problem, key, best[_DEFAULT], tuple(candidates), names.get(chosen), failures)

    def _measure(self, names: Mapping[int, str], seconds: float) -> tuple[dict[int, float], dict[str, str]]:
        """The time of the default and of each candidate that did not fail, the best one, and of those near the fastest
        the usual one, which is what a program sees; what the others said."""
        best = {_DEFAULT: self._first(_DEFAULT)}
        failures = {}
        for number, name in names.items():
            try:
                best[number] = self._first(number)
            except errors.Error as error:
                failures[name] = str(error)
        in_play = [number for number, time in best.items() if time <= max(seconds, _HOPELESS * best[_DEFAULT])]
        repeats = {number: max(1, min(1000, int(seconds / _ROUNDS / max(best[number], 1e-7)))) for number in in_play}
        with ExitStack() as graphs:
            graph_of = {number: self._capture(number, graphs) for number in in_play if best[number] < _SHORT_SECONDS}

            def measure(number: int) -> float:
                self._choose(number)
                count = repeats[number]
                launched = self._time(self._launch, count) / count
                if (graph := graph_of.get(number)) is None:
                    return launched
                replays = -(-count // _GRAPH_LAUNCHES)
                replayed = self._time(graph.replay, replays) / (replays * _GRAPH_LAUNCHES)
                # Programs launch as well as replay: where launches take the host as long, the fastest kernel wins.
                return (launched + replayed) / 2

            for turn in range(_ROUNDS):
                for number in repeats:
                    if turn == 0 or best[number] <= seconds:  # two launches that take longer say enough
                        best[number] = min(best[number], measure(number))
            finalists = [number for number in repeats if best[number] <= min(seconds, _CLOSE * min(best.values()))]
            times: dict[int, list[float]] = {number: [] for number in finalists}
            for turn in range(_FINAL_ROUNDS if len(finalists) > 1 else 0):
                for number in finalists if turn % 2 == 0 else reversed(finalists):
                    times[number].append(measure(number))
            best |= {number: median(of_it) for number, of_it in times.items() if of_it}
        return best, failures

    def _capture(self, number: int, graphs: ExitStack) -> Graph | None:
        """Launches of a candidate as a graph; None without graphs, and where a kernel cannot be captured."""
        self._choose(number)
        try:
            with capture(self._stream) as graph:
                for _ in range(_GRAPH_LAUNCHES):
                    self._launch()
        except errors.Error:
            return None
        return graphs.enter_context(graph)

    def _choose(self, number: int) -> None:
        _core.tuning_choose(self._device._handle, *self._op, number)

    def _first(self, number: int) -> float:
        """The time of a candidate's second launch; the first one may compile."""
        self._choose(number)
        self._time(self._launch, 1)
        return self._time(self._launch, 1)

    def _time(self, submit: Callable[[], None], count: int) -> float:
        with Event(self._device) as start, Event(self._device) as end:
            start.record(self._stream)
            for _ in range(count):
                submit()
            end.record(self._stream)
            end.synchronize()
            return start.elapsed_seconds(end)
