"""Runs entries of the suite on a device."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import _core, errors, op_kinds
from ..checks import clear_races, races
from .case import Array, Case, Check, Entry, Expected
from .layout import repeats
from .memory import Placed, place_operand
from .number_format import decode, is_inexact, round_to
from .outcome import GapError, Outcome, Status
from .session import Session
from .tolerance import Arithmetic, compute_type, error_bound, mismatches

#: In what the parts of complex numbers are stored.
_REAL = {"complex64": "float32", "complex128": "float64"}


class _MismatchError(Exception):
    """What is wrong with a result."""


def run(session: Session, entry: Entry) -> Outcome:
    """Runs one entry. Whatever goes wrong in it is its outcome."""
    start = time.perf_counter()
    status: Status = "passed"
    message = ""
    try:
        if isinstance(entry, Check):
            entry.function(session)
        else:
            reason = _run_case(session, entry)
            if reason is not None:
                status, message = "gap", reason
        _refuse_races()
    except GapError as gap:
        status, message = "gap", str(gap)
    except (_MismatchError, AssertionError) as failure:
        status, message = "failed", str(failure)
    except Exception as error:
        status, message = "failed", f"{type(error).__name__}: {error}"
    return Outcome(entry.op, entry.name, entry.dtype, status, message, time.perf_counter() - start)


def _refuse_races() -> None:
    """Races are looked for where the device has that check in force, as the stub's strict mode has."""
    found = races()
    clear_races()
    if found:
        raise _MismatchError(f"{len(found)} races, the first one: {found[0]}")


def _run_case(session: Session, case: Case) -> str | None:
    """None if the case passed, else the reason for which the backend declares it unsupported."""
    generator = session.generator(case.name)
    inputs = [None if operand is None else place_operand(session, operand, generator) for operand in case.inputs]
    shared = dict(case.in_place)
    outputs = [
        inputs[shared[number]]
        if number in shared
        else (None if operand is None else place_operand(session, operand, generator))
        for number, operand in enumerate(case.outputs)
    ]
    try:
        reason = _launch(session, case, inputs, outputs)
        if reason is None:
            _verify(session, case, inputs, outputs)
        return reason
    finally:
        for placed in [*inputs, *outputs]:
            if placed is not None:
                placed.allocation.close()


def _views(operands: Sequence[Placed | None]) -> list[_core.View | None]:
    return [None if placed is None else placed.view for placed in operands]


def _launch(
    session: Session, case: Case, inputs: Sequence[Placed | None], outputs: Sequence[Placed | None]
) -> str | None:
    """Asks whether the op is supported and launches it; both must give the same answer.

    Where the host runs what the device refuses, only what both refuse is a gap.
    """
    kind = op_kinds.number(case.op)
    views = (_views(inputs), _views(outputs))
    reason = None
    try:
        ask = _core.can_run if session.with_host else _core.supports
        ask(session.device._handle, kind, *views, case.attributes)
    except errors.UnimplementedError as error:
        reason = str(error)
    try:
        _core.launch(session.stream._handle, kind, *views, case.attributes)
    except errors.UnimplementedError as error:
        if reason is None:
            raise _MismatchError(f"undeclared gap: supports accepts the op, but launch refuses it: {error}") from None
        for placed in outputs:
            if placed is not None and np.any(placed.download(session) != placed.before):
                raise _MismatchError("launch refused the op, yet an output was changed") from None
        return reason
    if reason is not None:
        session.stream.synchronize()
        raise _MismatchError(f"unexpected pass: launch runs what supports refuses because: {reason}")
    _synchronize(session, case)
    return None


def _synchronize(session: Session, case: Case) -> None:
    seen = ""
    try:
        session.stream.synchronize()
    except errors.Error as error:
        if error.status != case.stream_error:
            raise
        seen = error.status
    if seen != case.stream_error:
        raise _MismatchError(f"the stream must report {case.stream_error}, but reports nothing")
    session.stream.synchronize()


def _verify(session: Session, case: Case, inputs: Sequence[Placed | None], outputs: Sequence[Placed | None]) -> None:
    present = [placed for placed in [*inputs, *outputs] if placed is not None]
    arithmetic = Arithmetic(
        compute_type(placed.operand.dtype for placed in present),
        repeating=any(repeats(placed.operand.layout) for placed in present),
    )
    read = [None if placed is None else placed.values_before() for placed in inputs]
    read += [
        placed.values_before()
        for number, placed in enumerate(outputs)
        if placed is not None and placed.operand.values is not None and number not in dict(case.in_place)
    ]
    with np.errstate(all="ignore"):
        wanted = case.reference(read)
        written: list[Array | None] = []
        for number, (placed, expected) in enumerate(zip(outputs, wanted)):
            if placed is None:
                written.append(None)
                continue
            image = placed.download(session)
            stored = placed.stored(image)
            values = decode(stored, placed.stored_dtype)
            written.append(values)
            damage = placed.damage(image, written=True)
            if damage:
                raise _MismatchError(f"output {number}: {damage}")
            if expected is not None:
                _compare(f"output {number}", stored, values, expected, placed.stored_dtype, arithmetic)
        if case.relations is not None:
            for relation in case.relations(read, written):
                dtype = case.dtype if np.iscomplexobj(relation.actual) else _REAL.get(case.dtype, case.dtype)
                _compare_values(relation.what, relation.actual, relation.expected, dtype, arithmetic)
    for number, placed in enumerate(inputs):
        if placed is None or number in dict(case.in_place).values():
            continue
        damage = placed.damage(placed.download(session), written=False)
        if damage:
            raise _MismatchError(f"input {number}: {damage}")


def _compare(what: str, stored: Array, values: Array, expected: Expected, dtype: str, arithmetic: Arithmetic) -> None:
    if dtype == "bool" and stored.size and stored.view(np.uint8).max() > 1:
        raise _MismatchError(f"{what}: a bool is stored as {stored.view(np.uint8).max()}, expected 0 or 1")
    _compare_values(what, values, expected, dtype, arithmetic)


def _compare_values(what: str, actual: Array, expected: Expected, dtype: str, arithmetic: Arithmetic) -> None:
    wrong = mismatches(actual, expected, dtype, arithmetic)
    if not wrong.any():
        return
    index = np.unravel_index(np.argmax(wrong), wrong.shape)
    value = np.broadcast_to(expected.values, actual.shape)[index]
    allowed = ""
    if expected.roundings == 0 or not is_inexact(dtype):
        value = round_to(value, dtype)
    else:
        bound = np.broadcast_to(error_bound(expected, dtype, arithmetic), actual.shape)[index]
        allowed = f", off by {abs(actual[index] - value):.3g} where {bound:.3g} is allowed"
    raise _MismatchError(
        f"{what} at {[int(i) for i in index]} is {_number(actual[index])}, expected {_number(value)}{allowed}; "
        f"{np.count_nonzero(wrong)} of {wrong.size} elements are wrong"
    )


def _number(value: Any) -> str:
    return f"{value:.9g}" if isinstance(value, (float, np.floating)) else str(value)
