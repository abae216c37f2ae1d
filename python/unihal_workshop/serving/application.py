"""The page and what it asks for, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, MutableMapping
from importlib import resources
from typing import Any

import anyio.to_thread
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, Response
from gpux.serving.security import PAGE_HEADERS, refusal

from ..cards.gpu import GPUManager
from ..cards.profiles import CARDS, SYSTEM_RESERVE
from ..errors import InputError, WorkshopError
from ..planning.planner import plan
from .runs import Runs

MAX_BODY = 1 << 20
_Scope = MutableMapping[str, Any]
_Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
_Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Application = Callable[[_Scope, _Receive, _Send], Awaitable[None]]


def make_application(runs: Runs, manager: GPUManager, card: str, reserve: int = SYSTEM_RESERVE) -> Application:
    """The application: nobody but this machine's own page may ask it."""
    application = FastAPI(title="workshop", docs_url=None, redoc_url=None, openapi_url=None)
    page = (resources.files("unihal_workshop.serving") / "page.html").read_text(encoding="utf-8")

    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, WorkshopError)
        return JSONResponse({"error": str(error)}, error.status)

    application.add_exception_handler(WorkshopError, refused)

    @application.get("/")
    async def root() -> Response:
        """The page."""
        return Response(page, headers=PAGE_HEADERS, media_type="text/html")

    @application.get("/api/state")
    async def state() -> Response:
        """Cards that are here, profiles to plan for, and the models with their inputs."""
        found = await anyio.to_thread.run_sync(_state, runs, manager, card)
        return JSONResponse(found)

    @application.post("/api/plan")
    async def plan_of(request: Request) -> Response:
        """The plan of a model on a card, with its timeline."""
        body = await _body(request)
        model = runs.model(_text(body, "model"))
        inputs = model.check_inputs(_mapping(body, "inputs"))
        wanted = _text(body, "card")
        if wanted not in CARDS:
            raise InputError(f"there is no card {wanted[:100]!r}: {', '.join(CARDS)}")
        made = await anyio.to_thread.run_sync(lambda: plan(model, inputs, wanted, reserve=reserve))
        return JSONResponse({**made.as_dict(), "timeline": made.timeline(), "report": str(made)})

    @application.post("/api/run")
    async def run(request: Request) -> Response:
        """Starts a run; /api/run/NUMBER tells how far it is."""
        body = await _body(request)
        begun = await anyio.to_thread.run_sync(
            lambda: runs.start(_text(body, "model"), _mapping(body, "inputs"), body.get("seed"))
        )
        return JSONResponse(begun.as_dict())

    @application.get("/api/run/{number}")
    async def progress(number: int) -> Response:
        """How far a run is, with its last preview, and what it made."""
        return JSONResponse(runs.state(number).as_dict())

    @application.post("/api/run/{number}/interrupt")
    async def interrupt(number: int) -> Response:
        """Stops a run after its present step; what it made until then stays."""
        return JSONResponse(runs.interrupt(number).as_dict())

    return _own_page_only(application)


def _own_page_only(application: FastAPI) -> Application:
    async def gate(scope: _Scope, receive: _Receive, send: _Send) -> None:
        if scope["type"] == "http":
            reason = refusal(dict(scope["headers"]), loopback=True)
            if reason:
                await JSONResponse({"error": reason}, 403)(scope, receive, send)
                return
        await application(scope, receive, send)

    return gate


def _state(runs: Runs, manager: GPUManager, card: str) -> dict[str, Any]:
    return {
        "card": card,
        "cards": [profile.as_dict() for profile in CARDS.values()],
        "gpus": [gpu.as_dict() for gpu in manager.detect()],
        "backend": dict(manager.backend().__dict__),
        "libraries": [dict(library.__dict__) for library in manager.libraries()],
        "models": [
            {
                "name": name,
                "description": runs.model(name).description,
                "inputs": {
                    key: {"meaning": meaning, "default": default}
                    for key, (meaning, default) in runs.model(name).input_defaults.items()
                },
            }
            for name in runs.names
        ],
    }


async def _body(request: Request) -> dict[str, Any]:
    content = b""
    async for piece in request.stream():
        content += piece
        if len(content) > MAX_BODY:
            raise InputError(f"a request has {MAX_BODY} bytes at most")
    try:
        body = json.loads(content)
    except (ValueError, RecursionError):
        raise InputError("expected an object of JSON") from None
    if not isinstance(body, dict):
        raise InputError("expected an object of JSON")
    return body


def _text(body: dict[str, Any], name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str):
        raise InputError(f"{name}: expected a text")
    return value


def _mapping(body: dict[str, Any], name: str) -> dict[str, Any]:
    value = body.get(name, {})
    if not isinstance(value, dict):
        raise InputError(f"{name}: expected an object of JSON")
    return value
