"""What the process of a run tells the one that shows the demonstration: lines of JSON among the framework's output."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict, dataclass, field
from typing import Any

_MARK = "unihal-demo:"


@dataclass
class Epoch:
    """Progress: one pass over the training images was made."""

    epoch: int
    #: Mean training loss of the epoch, and the accuracy on held-out images after it.
    loss: float
    accuracy: float


@dataclass
class TopOp:
    """An op of the profiled epoch."""

    op: str
    calls: int
    milliseconds: float
    #: Part of the device time of all ops.
    share: float


@dataclass
class Result:
    """The end of a run."""

    backend: str
    device_name: str
    is_stub: bool
    seconds: float
    peak_memory_bytes: int | None
    fallbacks: int
    top_ops: list[TopOp] = field(default_factory=list)


@dataclass(frozen=True)
class Arguments:
    """How a run's process is started."""

    device: str
    epochs: int
    trace: str

    @property
    def on_cpu(self) -> bool:
        """Whether this is the run to compare with."""
        return self.device == "cpu"


def arguments() -> Arguments:
    """The arguments of a run's process."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", required=True, help="a unihal device type, or cpu")
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--trace", required=True, help="file for the trace of one further epoch")
    return Arguments(**vars(parser.parse_args()))


def send(message: Epoch | Result) -> None:
    """Writes a message."""
    entry = {"type": type(message).__name__, **asdict(message)}
    print(_MARK + json.dumps(entry), flush=True)


def receive(line: str) -> Epoch | Result | None:
    """The message in a line of output, or None for the framework's own lines."""
    if not line.startswith(_MARK):
        return None
    entry: dict[str, Any] = json.loads(line[len(_MARK) :])
    if entry.pop("type") == "Epoch":
        return Epoch(**entry)
    return Result(**{**entry, "top_ops": [TopOp(**op) for op in entry["top_ops"]]})
