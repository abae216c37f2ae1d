"""The service as a Ray Serve application: each replica is a whole service with workers of its own.

Needs `pip install "unihal[gpux-ray]"`; nothing else of GPUX imports this module.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from ..configuration.settings import Settings, Value
from ..errors import ServiceError
from ..registry.store import Registry, find_model
from ..serving.application import make_application
from ..serving.service import Service

# Seconds that an HTTP proxy of Ray may take to start, and after which the service counts as not started. Ray's own
# limit is 3 times 5 s: on a busy machine the process takes as long to import what it needs, and Ray kills it.
_PROXY_SECONDS = 60
_START_SECONDS = 300


@dataclass(frozen=True)
class Scale:
    """Replicas at least and at most, and the requests of one that Ray aims at."""

    least: int = 1
    most: int = 1
    requests: int = 16


class Replica:
    """What Ray runs in each replica's process."""

    async def __init__(self, values: dict[str, Any], models: list[str]) -> None:  # type: ignore[misc]
        settings = Settings({name: Value(value, "ray") for name, value in values.items()})
        self._service = Service(settings)
        registry = Registry(Path(values["registry"]))
        await self._service.start([find_model(model, registry) for model in models])
        self._application = make_application(self._service)

    async def __call__(self, request: Request) -> Response:
        """One request, through the same application as `gpux serve`."""
        start: MutableMapping[str, Any] = {}
        parts: list[bytes] = []

        async def send(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                start.update(message)
            else:
                parts.append(message.get("body", b""))

        await self._application(request.scope, request.receive, send)
        response = Response(b"".join(parts), start["status"])
        response.raw_headers = list(start["headers"])
        return response

    async def check_health(self) -> None:
        """Ray replaces a replica that raises here."""
        if not self._service.is_ready:
            raise ServiceError("no worker is alive")

    async def __del__(self) -> None:
        """Ray awaits it when a replica ends."""
        await self._service.stop()


def make_deployment(settings: Settings, models: list[str], scale: Scale, gpus: float) -> Any:
    """The application for serve.run(): `gpus` are those of one replica."""
    from ray import serve

    values = {**settings.as_dict(), "registry": str(settings.registry.resolve())}
    deployment = serve.deployment(
        Replica,
        name="gpux",
        max_ongoing_requests=2 * settings["queue_size"],
        autoscaling_config={
            "min_replicas": scale.least,
            "max_replicas": scale.most,
            "target_ongoing_requests": scale.requests,
        },
        graceful_shutdown_timeout_s=settings["grace"],
        ray_actor_options={"num_cpus": 1, "num_gpus": gpus},
    )
    return deployment.bind(values, models)


def run(settings: Settings, models: list[str], scale: Scale, gpus: float, address: str | None) -> str:
    """Starts the application on a Ray cluster (`address`), or on a local one; gives the address of its HTTP proxy.

    Returns when its HTTP proxies are healthy; raises ServiceError if they are not within five minutes.
    """
    if address is None:  # the processes of a local cluster inherit it
        os.environ.setdefault("RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S", str(_PROXY_SECONDS))
    import ray
    from ray import serve
    from ray.exceptions import RayActorError

    host, port = settings["host"], settings["port"]
    if not ray.is_initialized():
        ray.init(address=address, include_dashboard=False, log_to_driver=False, logging_level="error")
    # If the first proxy is late, Ray's controller lives on and starts another, which is waited for below.
    with contextlib.suppress(RayActorError, TimeoutError):
        serve.start(http_options={"host": host, "port": port})
    serve.run(make_deployment(settings, models, scale, gpus), name="gpux", route_prefix="/")
    _wait_for_proxies()
    return f"http://{host}:{port}"


def _wait_for_proxies() -> None:
    from ray import serve

    end = time.monotonic() + _START_SECONDS
    while True:
        proxies = {node: status.value for node, status in serve.status().proxies.items()}
        # Those of nodes that leave a cluster drain, and take no part.
        if "HEALTHY" in proxies.values() and not {"STARTING", "UNHEALTHY"} & set(proxies.values()):
            return
        if time.monotonic() > end:
            raise ServiceError(
                f"Ray's HTTP proxies are not healthy after {_START_SECONDS} s ({proxies}): see the log files of Ray "
                "Serve's proxies, and give a proxy more time by RAY_SERVE_PROXY_READY_CHECK_TIMEOUT_S"
            )
        time.sleep(0.1)
