"""``torch.distributed`` on the device: a process group over unihal's collectives.

    torch.distributed.init_process_group()             # takes it for tensors of the device, gloo for those of the CPU
    torch.distributed.init_process_group("unihal")     # the same, by name

Where the device's backend has no collectives, gloo works on copies in host memory (process_group.py).

Collectives run on a stream of their own, beside the computation: waiting for a work makes the current stream wait, not
the host. Sends and receives are submitted together, at the first wait or the next collective, so that two ranks can
send to each other. A rank works on the device of its first collective.
"""

# ruff: noqa: D102 (the methods are PyTorch's, and documented there)

from __future__ import annotations

import ctypes
import datetime
import importlib
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.distributed

from .process_group import HostGroup

# Their methods have overloads of C++, which subclasses in Python do not.
dist: Any = torch.distributed
_c10d: Any = dist.distributed_c10d
_create_work_from_future: Any = importlib.import_module("torch._C._distributed_c10d")._create_work_from_future

BACKEND = "unihal"

# The numbers of include/unihal/collectives.h and tensor.h; tests/torch/test_distributed.py compares them with unihal's.
KINDS = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "send", "receive")
REDUCTIONS = {
    dist.ReduceOp.SUM: 0,
    dist.ReduceOp.PRODUCT: 1,
    dist.ReduceOp.MIN: 2,
    dist.ReduceOp.MAX: 3,
    dist.ReduceOp.AVG: 4,
}
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "bfloat16", "float32", "float64", "complex64", "complex128", "float8_e4m3fn", "float8_e5m2"),
)
_NUMBERS = {getattr(torch, name): number for number, name in enumerate(DTYPES, 1)}
_ID_BYTES = 256

Work = Any
Tensors = Sequence[torch.Tensor]


class _Library:
    """The adapter's functions, whose texts are raised."""

    def __init__(self, library: ctypes.CDLL) -> None:
        self._library = library
        for name in ("id", "create", "destroy", "abort"):
            getattr(library, f"uhal_torch_communicator_{name}").restype = ctypes.c_char_p
        for name in ("collective", "group_start", "group_end"):
            getattr(library, f"uhal_torch_{name}").restype = ctypes.c_char_p

    def call(self, name: str, *arguments: Any) -> None:
        text = getattr(self._library, f"uhal_torch_{name}")(*arguments)
        if text is not None:
            raise dist.DistBackendError(text.decode(errors="replace"))

    def cancel(self) -> None:
        self._library.uhal_torch_group_cancel()


class _Message:
    """A send or a receive that is noted: (kind, tensor, peer, where to copy it to)."""

    def __init__(self, kind: str, tensor: torch.Tensor, dense: torch.Tensor, peer: int) -> None:
        self.kind, self.tensor, self.dense, self.peer = kind, tensor, dense, peer
        self.work: Work = None


class _PointToPoint(dist.Work):  # type: ignore[misc]
    """The work of a send or receive, which is submitted when somebody waits for it."""

    def __init__(self, group: ProcessGroup, message: _Message) -> None:
        super().__init__()
        self._group, self._message = group, message

    def _submitted(self) -> Work:
        if self._message.work is None:
            self._group._flush()
        if self._message.work is None:
            raise dist.DistBackendError("the sends and receives that this one was submitted with failed")
        return self._message.work

    def wait(self, timeout: datetime.timedelta = datetime.timedelta(0)) -> bool:
        return bool(self._submitted().wait())

    def is_completed(self) -> bool:
        return bool(self._submitted().is_completed())

    def is_success(self) -> bool:
        return bool(self._submitted().is_success())

    def synchronize(self) -> None:
        self.wait()

    def get_future(self) -> Any:
        return self._submitted().get_future()

    def result(self) -> list[torch.Tensor]:
        return [self._message.tensor]


class ProcessGroup(dist.ProcessGroup):  # type: ignore[misc]
    """A process group for tensors of one device of each rank; tensors of the CPU go to gloo."""

    def __init__(self, library: _Library, store: Any, rank: int, size: int, timeout: datetime.timedelta) -> None:
        super().__init__(rank, size)
        self._library = library
        self._store, self._timeout = store, timeout
        self._communicator: ctypes.c_void_p | None = None
        self._device: torch.device | None = None
        self._stream: torch.Stream | None = None
        self._messages: list[_Message] = []
        cpu = torch.device("cpu")
        # Asked itself, not by the base class: that one holds Python's lock during the call, while one of gloo's threads
        # that drops a tensor waits for it with gloo's own. Later versions' base class also calls ours by other names.
        self._gloo = dist.ProcessGroupGloo(dist.PrefixStore("host", store), rank, size, timeout=timeout)
        self._register_backend(cpu, dist.ProcessGroup.BackendType.GLOO, self._gloo)
        self._set_default_backend(dist.ProcessGroup.BackendType.GLOO)  # whose name PyTorch 2.15 asks for

    def _get_backend(self, device: torch.device) -> Any:
        """PyTorch 2.14 asks what it can do."""
        return super()._get_backend(device) if device.type == "cpu" else self

    def getBackendName(self) -> str:  # noqa: N802 (PyTorch's name)
        return BACKEND

    # -- the communicator

    def _open(self, device: torch.device) -> None:
        if self._communicator is not None:
            if device != self._device:
                raise ValueError(
                    f"rank {self.rank()} of this process group works on {self._device}, where its first collective "
                    f"was, and the tensor is on {device}; use another group, or move the tensor"
                )
            return
        id_ = ctypes.create_string_buffer(_ID_BYTES)
        if self.rank() == 0:
            self._library.call("communicator_id", device.index, id_)
            self._store.set("id", id_.raw)
        else:
            ctypes.memmove(id_, self._store.get("id"), _ID_BYTES)
        handle = ctypes.c_void_p()
        milliseconds = ctypes.c_int64(max(int(self._timeout.total_seconds() * 1000), 1))
        self._library.call(
            "communicator_create", device.index, self.rank(), self.size(), id_, milliseconds, ctypes.byref(handle)
        )
        self._communicator, self._device = handle, device
        self._stream = torch.Stream(device=device)

    def _launch(
        self,
        kind: str,
        dtype: torch.dtype,
        source: torch.Tensor | None,
        destination: torch.Tensor | None,
        count: int,
        reduction: int = 0,
        peer: int = 0,
    ) -> None:
        assert self._device is not None
        if dtype not in _NUMBERS:
            raise TypeError(f"{kind}: unihal has no dtype {dtype}")
        pointers = [ctypes.c_void_p(None if each is None else each.data_ptr()) for each in (source, destination)]
        self._library.call(
            "collective",
            self._communicator,
            self._device.index,
            KINDS.index(kind) + 1,
            _NUMBERS[dtype],
            reduction,
            peer,
            *pointers,
            ctypes.c_int64(count),
        )

    def _grouped(self, calls: Callable[[], Any]) -> None:
        self._library.call("group_start")
        try:
            calls()
        except BaseException:
            self._library.cancel()
            raise
        self._library.call("group_end")

    def _run(self, device: torch.device, used: Tensors, calls: Callable[[], Any], result: Any = None) -> Work:
        """Submits calls to the group's stream, after the current stream's work. `used`: what they read and write."""
        self._open(device)
        self._flush()
        return self._submit(device, used, calls, result)

    def _submit(self, device: torch.device, used: Tensors, calls: Callable[[], Any], result: Any) -> Work:
        stream = self._stream
        assert stream is not None
        stream.wait_stream(torch.accelerator.current_stream(device))
        for tensor in used:
            tensor.record_stream(stream)
        future: Any = torch.futures.Future(devices=[device])
        with stream:
            calls()
            future.set_result(list(used) if result is None else result)
        return _create_work_from_future(future)

    # -- collectives; `options` as PyTorch's C++ gives them

    def broadcast(self, tensors: Any, options: Any = None, *more: Any) -> Work:
        tensors, options = _listed(tensors), _of(options, dist.BroadcastOptions)
        if tensors[0].device.type == "cpu":
            return self._gloo.broadcast(tensors, options)
        root = options.rootRank

        def calls() -> None:
            for tensor in tensors:
                with _Dense(tensor) as dense:
                    self._launch("broadcast", tensor.dtype, dense, dense, tensor.numel(), peer=root)

        return self._run(tensors[0].device, tensors, calls)

    def allreduce(self, tensors: Any, options: Any = None, *more: Any) -> Work:
        tensors, options = _listed(tensors), _of(options, dist.AllreduceOptions)
        if tensors[0].device.type == "cpu":
            return self._gloo.allreduce(tensors, options)
        reduction = _reduction(options.reduceOp)

        def calls() -> None:
            for tensor in tensors:
                with _Dense(tensor) as dense:
                    self._launch("all_reduce", tensor.dtype, dense, dense, tensor.numel(), reduction)

        return self._run(tensors[0].device, tensors, calls)

    def allreduce_coalesced(self, tensors: Any, options: Any = None, *more: Any) -> Work:
        return self.allreduce(tensors, _all_reduce_options(options))

    def reduce(self, tensors: Any, options: Any = None, *more: Any) -> Work:
        tensors, options = _listed(tensors), _of(options, dist.ReduceOptions)
        if tensors[0].device.type == "cpu":
            return self._gloo.reduce(tensors, options)
        reduction, root = _reduction(options.reduceOp), options.rootRank

        def calls() -> None:
            for tensor in tensors:
                with _Dense(tensor) as dense:
                    self._launch("reduce", tensor.dtype, dense, dense, tensor.numel(), reduction, root)

        return self._run(tensors[0].device, tensors, calls)

    def _allgather_base(self, output: torch.Tensor, source: torch.Tensor, options: Any = None, *more: Any) -> Work:
        if source.device.type == "cpu":
            return self._gloo._allgather_base(output, source, _of(options, _c10d.AllgatherOptions))
        _expect_sizes("all_gather_into_tensor", output, source.numel() * self.size(), source)

        def calls() -> None:
            with _Dense(output) as dense:
                self._launch("all_gather", source.dtype, _plain(source), dense, source.numel())

        return self._run(source.device, [output, source], calls, [output])

    def allgather(self, outputs: Any, sources: Any, options: Any = None, *more: Any) -> Work:
        sources = _listed(sources)
        if sources[0].device.type == "cpu":
            return self._gloo.allgather(outputs, sources, _of(options, _c10d.AllgatherOptions))
        outputs = [outputs] if isinstance(outputs[0], torch.Tensor) else outputs

        def calls() -> None:
            for places, source in zip(outputs, sources, strict=True):
                if any(place.numel() != source.numel() for place in places):
                    raise ValueError("all_gather: tensors of different sizes are not gathered; pad them")
                whole = source.new_empty((self.size(), source.numel()))
                self._launch("all_gather", source.dtype, _plain(source), whole, source.numel())
                for place, part in zip(places, whole, strict=True):
                    place.copy_(part.view(place.shape))

        return self._run(sources[0].device, [*itertools.chain(*outputs), *sources], calls, outputs)

    def allgather_into_tensor_coalesced(self, outputs: Any, sources: Any, options: Any = None, *more: Any) -> Work:
        work: Work = None
        for output, source in zip(outputs, sources, strict=True):
            work = self._allgather_base(output, source, options)
        return work

    def _reduce_scatter_base(self, output: torch.Tensor, source: torch.Tensor, options: Any = None, *more: Any) -> Work:
        options = _of(options, dist.ReduceScatterOptions)
        if source.device.type == "cpu":
            return self._gloo._reduce_scatter_base(output, source, options)
        _expect_sizes("reduce_scatter_tensor", source, output.numel() * self.size(), output)
        reduction = _reduction(options.reduceOp)

        def calls() -> None:
            with _Dense(output) as dense:
                self._launch("reduce_scatter", source.dtype, _plain(source), dense, output.numel(), reduction)

        return self._run(source.device, [output, source], calls, [output])

    def reduce_scatter(self, outputs: Any, sources: Any, options: Any = None, *more: Any) -> Work:
        outputs, options = _listed(outputs), _of(options, dist.ReduceScatterOptions)
        if outputs[0].device.type == "cpu":
            return self._gloo.reduce_scatter(outputs, sources, options)
        sources = [sources] if isinstance(sources[0], torch.Tensor) else sources
        reduction = _reduction(options.reduceOp)

        def calls() -> None:
            for output, parts in zip(outputs, sources, strict=True):
                if any(part.numel() != output.numel() for part in parts):
                    raise ValueError("reduce_scatter: tensors of different sizes are not scattered; pad them")
                whole = torch.stack([part.reshape(-1) for part in parts])
                with _Dense(output) as dense:
                    self._launch("reduce_scatter", output.dtype, whole, dense, output.numel(), reduction)

        return self._run(outputs[0].device, [*outputs, *itertools.chain(*sources)], calls, outputs)

    def reduce_scatter_tensor_coalesced(self, outputs: Any, sources: Any, options: Any = None, *more: Any) -> Work:
        work: Work = None
        for output, source in zip(outputs, sources, strict=True):
            work = self._reduce_scatter_base(output, source, options)
        return work

    def alltoall_base(
        self,
        output: torch.Tensor,
        source: torch.Tensor,
        output_splits: Sequence[int],
        source_splits: Sequence[int],
        options: Any = None,
        *more: Any,
    ) -> Work:
        if source.device.type == "cpu":
            options = _of(options, dist.AllToAllOptions)
            return self._gloo.alltoall_base(output, source, output_splits, source_splits, options)
        outputs = _parts(output, output_splits, self.size())
        sources = _parts(_plain(source), source_splits, self.size())
        return self._exchange(outputs, sources, output)

    def alltoall(self, outputs: Any, sources: Any, options: Any = None, *more: Any) -> Work:
        if sources[0].device.type == "cpu":
            return self._gloo.alltoall(outputs, sources, _of(options, dist.AllToAllOptions))
        return self._exchange(list(outputs), list(sources), None)

    def _exchange(self, outputs: list[torch.Tensor], sources: list[torch.Tensor], whole: Any) -> Work:
        rank = self.rank()

        def calls() -> None:
            outputs[rank].copy_(sources[rank].view(outputs[rank].shape))
            dense = [_place_for(each) for each in outputs]
            sent = [_plain(each) for each in sources]

            def messages() -> None:
                for peer in range(self.size()):
                    if peer == rank:
                        continue
                    if sent[peer].numel() > 0:
                        self._launch("send", sent[peer].dtype, sent[peer], None, sent[peer].numel(), peer=peer)
                    if dense[peer].numel() > 0:
                        self._launch("receive", dense[peer].dtype, None, dense[peer], dense[peer].numel(), peer=peer)

            self._grouped(messages)
            for place, came in zip(outputs, dense, strict=True):
                if place is not came:
                    place.copy_(came)

        return self._run(sources[0].device, [*outputs, *sources], calls, outputs if whole is None else [whole])

    def gather(self, outputs: Any, sources: Any, options: Any = None, *more: Any) -> Work:
        sources, options = _listed(sources), _of(options, dist.GatherOptions)
        if sources[0].device.type == "cpu":
            return self._gloo.gather(outputs, sources, options)
        root, source = options.rootRank, sources[0]
        places = list(outputs[0]) if self.rank() == root else []
        mine = [source.new_empty(0)] * self.size()
        return self._exchange(
            places or list(mine), [source if peer == root else mine[0] for peer in range(self.size())], None
        )

    def scatter(self, outputs: Any, sources: Any, options: Any = None, *more: Any) -> Work:
        outputs, options = _listed(outputs), _of(options, dist.ScatterOptions)
        if outputs[0].device.type == "cpu":
            return self._gloo.scatter(outputs, sources, options)
        root, output = options.rootRank, outputs[0]
        nothing = output.new_empty(0)
        parts = list(sources[0]) if self.rank() == root else [nothing] * self.size()
        return self._exchange([output if peer == root else nothing for peer in range(self.size())], parts, output)

    def barrier(self, options: Any = None, *more: Any, opts: Any = None) -> Work:
        options = _of(options if options is not None else opts, dist.BarrierOptions)
        self._flush()
        options.device = torch.device("cpu")
        return self._gloo.barrier(options)

    # -- point to point

    def send(self, tensors: Any, peer: int, tag: int = 0) -> Work:
        tensor = _listed(tensors)[0]
        if tensor.device.type == "cpu":
            return self._gloo.send([tensor], peer, tag)
        return self._note("send", tensor, _plain(tensor), peer)

    def recv(self, tensors: Any, peer: int, tag: int = 0) -> Work:
        tensor = _listed(tensors)[0]
        if tensor.device.type == "cpu":
            return self._gloo.recv([tensor], peer, tag)
        return self._note("receive", tensor, _place_for(tensor), peer)

    def recv_anysource(self, tensors: Any, tag: int = 0) -> Work:
        tensor = _listed(tensors)[0]
        if tensor.device.type == "cpu":
            return self._gloo.recv_anysource([tensor], tag)
        raise NotImplementedError("recv without a sender is for tensors of the CPU: name the rank in src=")

    def _note(self, kind: str, tensor: torch.Tensor, dense: torch.Tensor, peer: int) -> Work:
        if peer == self.rank():
            raise ValueError(f"rank {peer} cannot {kind} to or from itself")
        self._open(tensor.device)
        message = _Message(kind, tensor, dense, peer)
        self._messages.append(message)
        return _PointToPoint(self, message)

    def _flush(self) -> None:
        """Submits the sends and receives that are noted, together."""
        messages, self._messages = self._messages, []
        if not messages:
            return

        def exchange() -> None:
            for message in messages:
                dense = message.dense
                source, target = (dense, None) if message.kind == "send" else (None, dense)
                self._launch(message.kind, dense.dtype, source, target, dense.numel(), peer=message.peer)

        def calls() -> None:
            self._grouped(exchange)
            for message in messages:
                if message.kind == "receive" and message.tensor is not message.dense:
                    message.tensor.copy_(message.dense)

        used = [each for message in messages for each in (message.tensor, message.dense)]
        work = self._submit(messages[0].dense.device, used, calls, None)
        for message in messages:
            message.work = work

    # What later versions of PyTorch call them.
    all_gather_single = _allgather_base
    all_gather_single_coalesced = allgather_into_tensor_coalesced
    reduce_scatter_single = _reduce_scatter_base
    reduce_scatter_single_coalesced = reduce_scatter_tensor_coalesced
    all_to_all_single = alltoall_base

    # -- the end

    def _start_coalescing(self, device: torch.device) -> None:
        pass

    def shutdown(self) -> None:
        """Waits for what is under way, and leaves."""
        self._flush()
        communicator, self._communicator = self._communicator, None
        if communicator is not None:
            self._library.call("communicator_destroy", communicator)

    def abort(self) -> None:
        """Ends the collectives of all ranks that can be reached, with errors."""
        if self._communicator is not None:
            self._library.call("communicator_abort", self._communicator)


class _Dense:
    """A dense tensor for another one, into which it is copied back."""

    def __init__(self, tensor: torch.Tensor) -> None:
        self._tensor = tensor
        self._dense = _plain(tensor)

    def __enter__(self) -> torch.Tensor:
        return self._dense

    def __exit__(self, kind: Any, *_: Any) -> None:
        if kind is None and self._dense is not self._tensor:
            self._tensor.copy_(self._dense)


def _is_plain(tensor: torch.Tensor) -> bool:
    """Whether its memory has its numbers in their order: no gaps, and no conjugation or sign that is only noted."""
    return tensor.is_contiguous() and not tensor.is_conj() and not tensor.is_neg()


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a copy that is plain."""
    return (
        tensor
        if _is_plain(tensor)
        else tensor.clone(memory_format=torch.contiguous_format).resolve_conj().resolve_neg()
    )


def _place_for(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor, or a plain place for what is then copied into it."""
    return tensor if _is_plain(tensor) else tensor.new_empty(tensor.shape)


def _listed(tensors: Any) -> list[torch.Tensor]:
    return [tensors] if isinstance(tensors, torch.Tensor) else list(tensors)


def _of(options: Any, default: Callable[[], Any]) -> Any:
    """PyTorch leaves options out, or gives the op of a reduction alone."""
    if options is None:
        return default()
    if isinstance(options, dist.ReduceOp | dist.ReduceOp.RedOpType):
        made = default()
        made.reduceOp = options
        return made
    return options


def _all_reduce_options(options: Any) -> Any:
    made = dist.AllreduceOptions()
    if options is not None:
        made.reduceOp = options.reduceOp
    return made


def _reduction(op: Any) -> int:
    for known, number in REDUCTIONS.items():
        if op == known:
            return number
    raise NotImplementedError(f"the reduction {op} is not one of sum, product, minimum, maximum, average")


def _expect_sizes(name: str, whole: torch.Tensor, expected: int, part: torch.Tensor) -> None:
    if whole.numel() != expected or whole.dtype != part.dtype:
        raise ValueError(
            f"{name}: a tensor of {whole.numel()} elements of {whole.dtype}; expected {expected} of {part.dtype}"
        )


def _parts(whole: torch.Tensor, splits: Sequence[int], size: int) -> list[torch.Tensor]:
    if not splits and whole.shape[0] % size != 0:
        raise ValueError(f"all_to_all_single: {whole.shape[0]} rows do not go to {size} ranks in equal parts")
    return list(torch.split(whole, list(splits) if splits else whole.shape[0] // size))


def install(name: str, library: ctypes.CDLL) -> None:
    """Registers the backend for a device type."""

    def create(store: Any, rank: int, size: int, timeout: datetime.timedelta) -> Any:
        adapter = _Library(library)
        try:
            adapter.call(
                "communicator_id", torch.accelerator.current_device_index(), ctypes.create_string_buffer(_ID_BYTES)
            )
        except dist.DistBackendError:  # the same on all ranks: it is the backend that has none
            return HostGroup(dist.ProcessGroupGloo(store, rank, size, timeout=timeout))
        return ProcessGroup(adapter, store, rank, size, timeout)

    dist.Backend.register_backend(BACKEND, create, devices=[name])
