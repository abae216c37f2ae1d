"""Choosing between a backend's kernels for an op by measuring them: the extension ``uhal.tuning`` (unihal/tuning.h)."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from . import _core, errors, op_kinds
from .buffer import Buffer
from .device import Device, DeviceLike
from .device import device as find_device
from .stream import Event, Stream

#: A candidate is chosen only if it is faster than the default by more than two measurements of one thing differ.
_LEAST_GAIN = 1.03

_ROUNDS = 5

#: The default takes part in measurements as this number.
_DEFAULT = -1


@dataclass(frozen=True)
class MatrixProduct:
    """The shape of a product: d (m, n) = a (m, k) @ b (k, n), ``batch`` times."""

    m: int
    n: int
    k: int
    #: For a and b: ``n`` as they are, ``t`` transposed in memory.
    form: str = "nn"
    dtype: str = "float32"
    batch: int = 1

    @classmethod
    def parse(cls, shape: str, form: str, dtype: str) -> MatrixProduct:
        """``"1024x512x2048"`` (m, n, k) or, with a batch in front, ``"16x128x128x64"``."""
        if not re.fullmatch(r"[1-9]\d*(x[1-9]\d*){2,3}", shape):
            raise errors.InvalidArgumentError(f"the shape '{shape}' is none; expected MxNxK or BATCHxMxNxK")
        if form not in FORMS:
            raise errors.InvalidArgumentError(f"the form '{form}' is none; expected one of {', '.join(FORMS)}")
        *batch, m, n, k = map(int, shape.split("x"))
        return cls(m, n, k, form, dtype, *batch)


FORMS = ("nn", "nt", "tn", "tt")


def usual_products(dtype: str = "float32") -> list[MatrixProduct]:
    """Of layers forward (nn, nt) and of their gradients (nt, tn), and of attention's heads."""
    squares = [
        MatrixProduct(size, size, size, form, dtype) for size in (256, 512, 1024, 2048, 4096) for form in FORMS[:3]
    ]
    dense = [
        MatrixProduct(rows, *shape, form, dtype)
        for rows in (64, 2048)
        for shape in ((768, 768), (3072, 768), (768, 3072), (1000, 2048))
        for form in FORMS[:3]
    ]
    heads = [
        MatrixProduct(128, 128, 64, "nt", dtype, 192),
        MatrixProduct(128, 64, 128, "nn", dtype, 192),
        MatrixProduct(128, 64, 128, "tn", dtype, 192),
    ]
    return [*squares, *dense, *heads]


@dataclass(frozen=True)
class Candidate:
    """One way to run an op, measured."""

    name: str
    seconds: float


@dataclass(frozen=True)
class Tuned:
    """What came out for one product."""

    product: MatrixProduct
    #: What the choice depends on; empty where there is nothing to choose, and then nothing was measured.
    key: str
    default_seconds: float = 0
    #: From the fastest to the slowest.
    candidates: tuple[Candidate, ...] = ()
    #: The candidate that is used from now on; None: what the backend takes by itself.
    chosen: str | None = None

    @property
    def gain(self) -> float:
        """How many times as fast the choice is as the default."""
        return self.default_seconds / self.candidates[0].seconds if self.chosen is not None else 1


def tune(on: DeviceLike, products: Iterable[MatrixProduct], seconds: float = 0.05) -> Iterator[Tuned]:
    """Measures the candidates for each product and chooses the fastest, for this process; ``keep`` keeps the choices.

    Other work on the device disturbs the measurements.

    :param seconds: device time for each candidate in each of the rounds.
    """
    device = find_device(on)
    for product in products:
        with _Measurement(device, product) as measurement:
            yield measurement.run(seconds)


def keep(on: DeviceLike) -> None:
    """Keeps the choices of a device on disk, for later processes."""
    _core.tuning_keep(find_device(on)._handle)


def forget(on: DeviceLike) -> None:
    """Drops the choices of a device, the kept ones too."""
    _core.tuning_forget(find_device(on)._handle)


class _Measurement:
    """The operands of a product, and its candidates' times."""

    def __init__(self, device: Device, product: MatrixProduct) -> None:
        self._device, self._product = device, product
        self._kind = op_kinds.number("matmul")
        self._stream = Stream(device)
        a = self._operand(product.m, product.k, product.form[0] == "t")
        b = self._operand(product.k, product.n, product.form[1] == "t")
        self._operands = ([a, b], [Buffer(self._shape(product.m, product.n), product.dtype, device)])

    def __enter__(self) -> _Measurement:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.close()

    def _shape(self, rows: int, columns: int) -> tuple[int, ...]:
        return (rows, columns) if self._product.batch == 1 else (self._product.batch, rows, columns)

    def _operand(self, rows: int, columns: int, transposed: bool) -> Buffer:
        shape = self._shape(columns, rows) if transposed else self._shape(rows, columns)
        buffer = Buffer(shape, self._product.dtype, self._device)
        _core.launch(self._stream._handle, op_kinds.number("fill"), [], [buffer], {"value": 0.5})
        axes = range(len(shape))
        return buffer.transpose(*axes[:-2], axes[-1], axes[-2]) if transposed else buffer

    def run(self, seconds: float) -> Tuned:
        """Measures all in turn, several times, and chooses."""
        key, described = _core.tuning_describe(self._device._handle, self._kind, *self._operands)
        if not key:
            return Tuned(self._product, "")
        names = {number: name for number, (name, usable) in enumerate(described) if usable}
        repeats = {number: self._repeats(number, seconds) for number in (_DEFAULT, *names)}
        best: dict[int, float] = {}
        for _ in range(_ROUNDS):
            for number, count in repeats.items():
                self._choose(number)
                best[number] = min(best.get(number, float("inf")), self._time(count) / count)
        candidates = sorted((Candidate(name, best[number]) for number, name in names.items()), key=lambda c: c.seconds)
        fastest = min(names, key=lambda number: best[number])
        chosen = fastest if best[_DEFAULT] > _LEAST_GAIN * best[fastest] else _DEFAULT
        self._choose(chosen)
        return Tuned(self._product, key, best[_DEFAULT], tuple(candidates), names.get(chosen))

    def _choose(self, number: int) -> None:
        _core.tuning_choose(self._device._handle, self._kind, *self._operands, number)

    def _repeats(self, number: int, seconds: float) -> int:
        """How many launches take so long; the first one, which may compile, does not count."""
        self._choose(number)
        self._time(1)
        return max(1, min(1000, int(seconds / _ROUNDS / max(self._time(1), 1e-7))))

    def _time(self, count: int) -> float:
        with Event(self._device) as start, Event(self._device) as end:
            start.record(self._stream)
            for _ in range(count):
                _core.launch(self._stream._handle, self._kind, *self._operands)
            end.record(self._stream)
            end.synchronize()
            return start.elapsed_seconds(end)
