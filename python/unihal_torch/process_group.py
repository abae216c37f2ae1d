"""What ``torch.distributed`` gets where a backend has no collectives: gloo through host memory."""

from __future__ import annotations

import atexit
import weakref
from typing import Any

import torch
from torch import distributed

# Their methods have overloads of C++, which subclasses in Python do not.
_c10d: Any = distributed.distributed_c10d
_Work: Any = distributed.Work
_ProcessGroup: Any = distributed.ProcessGroup


#: Those that live.
_groups: weakref.WeakSet[HostGroup] = weakref.WeakSet()


@atexit.register
def _end() -> None:
    """Ends gloo's threads, which must not drop tensors when Python is no more there."""
    for group in list(_groups):
        group._gloo = None


class _Done(_Work):  # type: ignore[misc]
    """Work that was waited for already, with its results."""

    def __init__(self, results: Any) -> None:
        super().__init__()
        self._future: torch.futures.Future[Any] = torch.futures.Future()
        self._future.set_result(results)

    def wait(self, timeout: Any = None) -> bool:
        """Returns at once."""
        return True

    def is_completed(self) -> bool:
        """True."""
        return True

    def get_future(self) -> torch.futures.Future[Any]:
        """The results; complete."""
        return self._future


class HostGroup(_ProcessGroup):  # type: ignore[misc]
    """A group of processes that moves tensors to host memory, lets gloo work on them, and moves them back.

    Each call ends when the results are there. What gloo lacks, this lacks.
    """

    def __init__(self, gloo: Any) -> None:
        super().__init__(gloo.rank(), gloo.size())
        self._gloo = gloo
        _groups.add(self)

    def getBackendName(self) -> str:  # noqa: N802
        """Called by PyTorch."""
        return "unihal"

    def _run(self, call: Any, results: Any, *arguments: Any) -> _Done:
        """Calls gloo with arguments on the host; nested lists ``results`` get what it wrote to their copies."""
        copies: dict[int, torch.Tensor] = {}

        def to_host(value: Any) -> Any:
            if isinstance(value, torch.Tensor):
                return copies.setdefault(id(value), value.detach().cpu())
            return [to_host(entry) for entry in value] if isinstance(value, list) else value

        def back(value: Any) -> None:
            if isinstance(value, torch.Tensor):
                if copies[id(value)] is not value and value.device.type != "cpu":
                    with torch.no_grad():
                        value.copy_(copies[id(value)])
                return
            for entry in value:
                back(entry)

        call(*[to_host(argument) for argument in arguments]).wait()
        back(results)
        return _Done(results)

    def allreduce(self, tensors: Any, opts: Any = None) -> _Done:
        """The reduction of all processes' tensors, in each."""
        return self._run(self._gloo.allreduce, tensors, tensors, opts or distributed.AllreduceOptions())

    def allreduce_coalesced(self, tensors: Any, opts: Any = None) -> _Done:
        """The same for several tensors."""
        for tensor in tensors:
            self._run(self._gloo.allreduce, [tensor], [tensor], _all(opts))
        return _Done(tensors)

    def broadcast(self, tensors: Any, opts: Any = None) -> _Done:
        """One process's tensors, in each."""
        return self._run(self._gloo.broadcast, tensors, tensors, opts or distributed.BroadcastOptions())

    def allgather(self, outputs: Any, inputs: Any, opts: Any = None) -> _Done:
        """All processes' tensors, in each."""
        return self._run(self._gloo.allgather, outputs, outputs, inputs, opts or _c10d.AllgatherOptions())

    def _allgather_base(self, output: torch.Tensor, value: torch.Tensor, opts: Any = None) -> _Done:
        parts = list(output.chunk(self.size()))
        return self._run(self._gloo.allgather, [parts], [parts], [value], opts or _c10d.AllgatherOptions())

    def gather(self, outputs: Any, inputs: Any, opts: Any = None) -> _Done:
        """All processes' tensors, in one."""
        return self._run(self._gloo.gather, outputs, outputs, inputs, opts or distributed.GatherOptions())

    def scatter(self, outputs: Any, inputs: Any, opts: Any = None) -> _Done:
        """One process's tensors, one to each."""
        return self._run(self._gloo.scatter, outputs, outputs, inputs, opts or distributed.ScatterOptions())

    def reduce(self, tensors: Any, opts: Any = None) -> _Done:
        """The reduction of all processes' tensors, in one."""
        return self._run(self._gloo.reduce, tensors, tensors, opts or distributed.ReduceOptions())

    def send(self, tensors: Any, rank: int, tag: int = 0) -> _Done:
        """Sends to a process."""
        return self._run(self._gloo.send, [], tensors, rank, tag)

    def recv(self, tensors: Any, rank: int, tag: int = 0) -> _Done:
        """Receives from a process."""
        return self._run(self._gloo.recv, tensors, tensors, rank, tag)

    def barrier(self, opts: Any = None) -> _Done:
        """Waits for all processes."""
        self._gloo.barrier().wait()
        return _Done([])


def _all(opts: Any) -> Any:
    result = distributed.AllreduceOptions()
    if opts is not None:
        result.reduceOp = opts.reduceOp
    return result
