"""Serves the page on this machine until SIGINT or SIGTERM."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import uvicorn
from gpux.errors import ServiceError
from gpux.serving.security import is_loopback
from gpux.serving.server import listen, loop_factory

from ..cards.gpu import GPUManager
from ..errors import ConfigurationError, DeviceError
from .application import make_application
from .runs import Runs


def serve(
    runs: Runs, manager: GPUManager, card: str, reserve: int, host: str, port: int, on_ready: Callable[[str], None]
) -> None:
    """Serves; `on_ready` is told the address. Whoever reaches the page may run models, so it stays on this machine."""
    if not is_loopback(host):
        raise ConfigurationError(
            [f"serve.host {host}: the page listens on this machine only (127.0.0.1); `gpux serve` is for others"]
        )
    try:
        listener = listen(host, port)
    except ServiceError as error:
        raise DeviceError(str(error)) from error
    application = make_application(runs, manager, card, reserve)

    class Server(uvicorn.Server):
        async def startup(self, sockets: object = None) -> None:
            await super().startup(sockets)  # type: ignore[arg-type]
            address, number = listener.getsockname()[:2]
            on_ready(f"http://{f'[{address}]' if ':' in address else address}:{number}")

    config = uvicorn.Config(
        application, log_config=None, log_level="warning", access_log=False, lifespan="off", server_header=False,
        proxy_headers=False, timeout_graceful_shutdown=5,
    )  # fmt: skip
    try:
        with listener, asyncio.Runner(loop_factory=loop_factory()) as loop:
            loop.run(Server(config).serve(sockets=[listener]))
    except KeyboardInterrupt:
        pass
    finally:
        runs.close()
