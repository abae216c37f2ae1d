"""A worker process as the service sees it: started, spoken to, and seen to die."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Sequence
from typing import Any

from ..errors import BusyError
from ..tensors import Array
from .wire import HEADER, Message, decode, encode, lengths

OnMessage = Callable[[Message, "list[Array]"], None]


class _Channel(asyncio.Protocol):
    """Takes frames apart as bytes arrive."""

    def __init__(self, on_message: OnMessage, on_close: Callable[[], None]) -> None:
        self._on_message = on_message
        self._on_close = on_close
        self._received = bytearray()

    def data_received(self, data: bytes) -> None:
        received = self._received
        received += data
        while len(received) >= HEADER.size:
            body_length, data_length = lengths(received)
            start = HEADER.size + body_length
            end = start + data_length
            if len(received) < end:
                return
            body, content = bytes(received[HEADER.size : start]), bytes(received[start:end])
            del received[:end]
            self._on_message(*decode(body, content))

    def connection_lost(self, exc: Exception | None) -> None:
        self._on_close()


class WorkerProcess:
    """One worker. All methods belong to the event loop's thread.

    `on_message` gets what nobody awaits (answers of inferences), `on_death` is called once, after a start that worked,
    when the process is gone for whatever reason but stop().
    """

    def __init__(self, settings: dict[str, Any], on_message: OnMessage, on_death: Callable[[], None]) -> None:
        self._settings = settings
        self._on_message = on_message
        self._on_death = on_death
        self._process: subprocess.Popen[bytes] | None = None
        self._transport: asyncio.Transport | None = None
        self._waiting: dict[int, asyncio.Future[Message]] = {}
        self._next = 1
        self._stopping = False
        self._ready = False
        self.facts: dict[str, Any] = {}

    @property
    def pid(self) -> int | None:
        """The process's id while it lives."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    async def start(self, timeout: float = 120.0) -> None:
        """Starts the process and waits until it is ready; BusyError if it is not in time or ends before."""
        ours, theirs = socket.socketpair()
        loop = asyncio.get_running_loop()
        ready: asyncio.Future[Message] = loop.create_future()
        self._waiting[0] = ready
        self._stopping = self._ready = False
        with theirs:
            command = [sys.executable, "-m", "gpux.workers.worker", str(theirs.fileno()), json.dumps(self._settings)]
            self._process = subprocess.Popen(command, pass_fds=[theirs.fileno()], stdin=subprocess.DEVNULL)
        ours.setblocking(False)
        transport, _ = await loop.create_unix_connection(lambda: _Channel(self._received, self._closed), sock=ours)
        self._transport = transport
        try:
            self.facts = (await asyncio.wait_for(ready, timeout))[2]
        except asyncio.TimeoutError:
            self.kill()
            raise BusyError("a worker process was not ready in time") from None
        self._ready = True

    async def ask(self, kind: str, *parts: Any, timeout: float) -> Message:
        """Sends a message and waits for its answer. BusyError if the worker dies or is silent."""
        identifier = self.new_identifier()
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[identifier] = future
        self.send((kind, identifier, *parts))
        try:
            return await asyncio.wait_for(future, timeout)
        except asyncio.TimeoutError:
            self.kill()
            raise BusyError(f"a worker did not answer to {kind} within {timeout:g} s and was ended") from None
        finally:
            self._waiting.pop(identifier, None)

    def new_identifier(self) -> int:
        """For a message whose answer goes to `on_message`."""
        self._next += 1
        return self._next

    def send(self, message: Message, arrays: Sequence[Array] = ()) -> None:
        """Sends without waiting; a worker that is gone is told by `on_death`."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.writelines(encode(message, arrays))

    def kill(self) -> None:
        """Ends the process at once; `on_death` follows."""
        if self._process is not None:
            self._process.kill()

    async def stop(self) -> None:
        """Lets the process end by itself, or ends it after two seconds."""
        self._stopping = True
        if self._transport is not None:
            self._transport.close()
        process = self._process
        if process is None:
            return
        for _ in range(200):
            if process.poll() is not None:
                return
            await asyncio.sleep(0.01)
        process.kill()
        process.wait()

    def _received(self, message: Message, arrays: list[Array]) -> None:
        future = self._waiting.get(message[1])
        if future is None:
            self._on_message(message, arrays)
        elif not future.done():
            future.set_result(message)

    def _closed(self) -> None:
        if self._process is not None and not self._stopping:
            self._process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(1)
        for future in self._waiting.values():
            if not future.done():
                future.set_exception(BusyError("a worker process died"))
        self._waiting.clear()
        if self._ready and not self._stopping:
            self._ready = False
            self._on_death()
