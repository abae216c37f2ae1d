"""What every request passes, before and after its answer: who asks, how many are open, audit log, metrics, traces."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import orjson

from .metrics import Metrics
from .security import OPEN_PATHS, ApiKeys, AuditLog, refusal
from .tracing import Tracer

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
Application = Callable[[Message, Receive, Send], Awaitable[None]]


class Gate:
    """An ASGI application around another. `max_open` requests at a time at most; then 503, before a body is read."""

    def __init__(
        self,
        application: Application,
        metrics: Metrics,
        *,
        keys: ApiKeys | None,
        audit: AuditLog | None,
        tracer: Tracer | None,
        loopback: bool,
        max_open: int,
    ) -> None:
        self._application = application
        self._metrics = metrics
        self._keys = keys
        self._audit = audit
        self._tracer = tracer
        self._loopback = loopback
        self._max_open = max_open
        self._open = 0

    async def __call__(self, scope: Message, receive: Receive, send: Send) -> None:
        """ASGI's."""
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        start = time.perf_counter()
        headers = dict(scope["headers"])
        status = 500
        sent = 0
        who: str | None = None
        span = None
        if self._tracer is not None:
            texts = {key.decode("latin-1"): value.decode("latin-1") for key, value in headers.items()}
            span = self._tracer.begin(f"{scope['method']} {scope['path']}", texts)

        async def watch(message: Message) -> None:
            nonlocal status, sent
            if message["type"] == "http.response.start":
                status = message["status"]
            else:
                sent += len(message.get("body", b""))
            await send(message)

        self._open += 1
        try:
            problem = refusal(headers, self._loopback)
            if problem:
                await answer(watch, 403, problem)
            elif (
                self._keys is not None
                and scope["path"] not in OPEN_PATHS
                and (who := self._keys.name_of(headers)) is None
            ):
                await answer(
                    watch, 401, "an API key is needed: Authorization: Bearer KEY", {b"www-authenticate": b"Bearer"}
                )
            elif self._open > self._max_open:
                await answer(watch, 503, f"{self._max_open} requests are open already", {b"retry-after": b"1"})
            else:
                await self._application(scope, receive, watch)
        finally:
            self._open -= 1
            seconds = time.perf_counter() - start
            route = scope.get("route")
            pattern = getattr(route, "path", "other")
            self._metrics.observe_request(pattern, status, seconds)
            if self._audit is not None:
                client = scope.get("client")
                self._audit.write(
                    {
                        "request": headers.get(b"x-request-id", b"").decode("latin-1")[:100] or uuid.uuid4().hex,
                        "client": client[0] if client else None,
                        "key": who,
                        "method": scope["method"],
                        "path": scope["path"][:1000],
                        "status": status,
                        "seconds": round(seconds, 6),
                        "bytes_in": int(headers.get(b"content-length", b"0") or 0),
                        "bytes_out": sent,
                    }
                )
            if span is not None and self._tracer is not None:
                attributes = {
                    "http.request.method": scope["method"],
                    "url.path": scope["path"],
                    "http.route": pattern,
                    "http.response.status_code": status,
                }
                self._tracer.end(span, attributes)


async def answer(send: Send, status: int, text: str, headers: dict[bytes, bytes] | None = None) -> None:
    """An error as all of the service's: {"error": text}."""
    body = orjson.dumps({"error": text})
    fields = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*fields, *(headers or {}).items()]})
    await send({"type": "http.response.body", "body": body})
