"""Listens: uvicorn around the application, from the first signal to the last answer."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from types import FrameType

import uvicorn

from ..configuration.settings import Settings
from ..errors import BusyError, ServiceError
from ..registry.store import BuiltModel
from .application import make_application
from .security import tls_options
from .service import Service

#: Told the address when requests are answered.
OnReady = Callable[[str, Service], None]


class _Server(uvicorn.Server):
    """uvicorn's server, which tells the service when it begins to go down."""

    def __init__(self, config: uvicorn.Config, service: Service, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._service = service
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self._on_ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._service.drain()
        super().handle_exit(sig, frame)


def run(settings: Settings, models: Sequence[BuiltModel], on_ready: OnReady) -> None:
    """Serves until SIGINT or SIGTERM, and then until what runs is answered or `grace` is over.

    Errors of the settings, the models and the address come before anything is listened to.
    """
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING, format="gpux: %(message)s")
    tls = tls_options(settings)
    listener = listen(settings["host"], settings["port"])
    # uvicorn raises the signal again once it has ended; what comes after, the end of the workers, is ours.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)
    try:
        with listener:
            runner = loop_factory()
            with asyncio.Runner(loop_factory=runner) as loop:
                loop.run(_serve(settings, models, on_ready, listener, tls))
    except KeyboardInterrupt:
        raise BusyError("interrupted while it started") from None


async def _serve(
    settings: Settings,
    models: Sequence[BuiltModel],
    on_ready: OnReady,
    listener: socket.socket,
    tls: dict[str, object],
) -> None:
    service = Service(settings)
    try:
        await service.start(models)
        host, port = listener.getsockname()[:2]
        shown = f"[{host}]" if ":" in host else host
        address = f"{'https' if tls else 'http'}://{shown}:{port}"
        config = uvicorn.Config(
            make_application(service),
            log_config=None,
            log_level="warning",
            access_log=False,
            lifespan="off",
            server_header=False,
            proxy_headers=False,
            timeout_keep_alive=75,
            timeout_graceful_shutdown=max(1, int(settings["grace"])),
            **tls,  # type: ignore[arg-type]
        )
        server = _Server(config, service, lambda: on_ready(address, service))
        # One that comes before uvicorn takes them over ends the service too; one that it raises again does no harm.
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, server.handle_exit)
        await server.serve(sockets=[listener])
    finally:
        await service.stop()


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def listen(host: str, port: int) -> socket.socket:
    """A socket that listens at an address; one that cannot be had is a ServiceError."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listener = socket.create_server((host, port), family=family, backlog=2048)
    except (OSError, UnicodeError) as error:
        raise ServiceError(f"{host}:{port} cannot be listened to: {error}") from None
    # Answers are small and come in one piece: waiting for more of them costs up to 40 ms.
    with contextlib.suppress(OSError):
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return listener


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes uvloop's event loops, None where there is none."""
    try:
        import uvloop
    except ImportError:  # not on Windows
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory
