"""The application: routes of GPUX and of the Open Inference Protocol on a Service."""

from __future__ import annotations

import importlib.metadata
import logging
import time
from functools import lru_cache
from importlib import resources
from typing import Any

import orjson
from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException
from starlette.responses import PlainTextResponse

from ..errors import GPUXError, InputError, ServiceError, UnknownModelError
from ..execution.inputs import parse_json
from . import schemas
from .bodies import ClientLeftError, read_body
from .gate import Application, Gate
from .metrics import CONTENT_TYPE
from .predictions import read_prediction, write_prediction
from .protocol import HEADER_LENGTH, describe, read_request, write_response
from .security import PAGE_HEADERS
from .service import Service

_log = logging.getLogger("gpux")

_TRITON_TYPES = {"BYTES": "TYPE_STRING"}


@lru_cache(maxsize=1)
def version() -> str:
    """The version of the package."""
    try:
        return importlib.metadata.version("unihal")
    except importlib.metadata.PackageNotFoundError:
        return "0"


def as_json(value: Any, status: int = 200) -> Response:
    """An answer."""
    return Response(orjson.dumps(value), status, media_type="application/json")


def make_application(service: Service) -> Application:
    """The application behind its Gate."""
    application = FastAPI(title="GPUX", version=version(), docs_url=None, redoc_url=None)
    _add_errors(application)
    _add_predict(application, service)
    _add_inference(application, service)
    _add_state(application, service)
    _add_protocol(application, service)
    _add_repository(application, service)
    return Gate(
        application,
        service.metrics,
        keys=service.keys,
        audit=service.audit,
        tracer=service.tracer,
        loopback=service.loopback,
        max_open=2 * service.settings["queue_size"] + 64,
    )


def _add_errors(application: FastAPI) -> None:
    async def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, GPUXError)
        response = as_json({"error": str(error)}, error.status)
        if error.retry_after is not None:
            response.headers["retry-after"] = f"{error.retry_after:.0f}"
        if error.status == 413:
            response.headers["connection"] = "close"
        return response

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        headers = dict(error.headers or {})
        text = f"{request.method} {request.url.path[:200]}: {error.detail}"
        return Response(orjson.dumps({"error": text}), error.status_code, headers, "application/json")

    async def left(request: Request, error: Exception) -> Response:
        return Response(status_code=499)  # nobody reads it; for the log and the metrics

    async def broken(request: Request, error: Exception) -> Response:
        _log.error("%s %s", request.method, request.url.path, exc_info=error)
        return as_json({"error": "an error in the service; its log says which"}, 500)

    application.add_exception_handler(GPUXError, refused)
    application.add_exception_handler(HTTPException, unknown)
    application.add_exception_handler(ClientLeftError, left)
    application.add_exception_handler(Exception, broken)


def _add_predict(application: FastAPI, service: Service) -> None:
    kinds = ("image/png", "image/jpeg", "text/plain")

    @application.post(
        "/predict",
        openapi_extra=schemas.body(schemas.PREDICT, *kinds),
        responses=schemas.answers(400, 404, 413, 500, 504, 507),
    )
    async def predict(request: Request) -> Response:
        """Runs a model on JSON, an image or a text. Of several models, ?model=NAME&version=VERSION is meant."""
        start = time.perf_counter()
        query = request.query_params
        model = service.models.find(query.get("model"), query.get("version"))
        body = await read_body(request, service.max_body, service.timeout)
        queued = model.queued or await service.models.ready(model)
        arrays = await read_prediction(body, request.headers.get("content-type", ""), model, queued.inputs)
        names = tuple(queued.outputs)
        results = await service.infer(model, arrays, names)
        head = {"model": model.name, "version": model.version}
        head["milliseconds"] = round((time.perf_counter() - start) * 1e3, 3)  # type: ignore[assignment]
        return Response(write_prediction(head, names, results), media_type="application/json")


def _add_inference(application: FastAPI, service: Service) -> None:
    async def run(request: Request, name: str, version: str | None) -> Response:
        model = service.models.find(name, version)
        body = await read_body(request, service.max_body, service.timeout)
        queued = model.queued or await service.models.ready(model)
        asked = read_request(body, request.headers.get(HEADER_LENGTH), queued.inputs, queued.outputs)
        results = await service.infer(model, asked.arrays, asked.outputs)
        content, headers = write_response({"model_name": model.name, "model_version": model.version}, asked, results)
        return Response(content, headers=headers)

    extra = schemas.body(schemas.INFER, "application/octet-stream")
    kinds = ("application/json", "application/octet-stream")
    responses = schemas.answers(400, 404, 413, 500, 504, 507, kinds=kinds)

    @application.post("/v2/models/{name}/infer", openapi_extra=extra, responses=responses)
    async def infer(request: Request, name: str) -> Response:
        """The Open Inference Protocol: runs the newest version."""
        return await run(request, name, None)

    @application.post("/v2/models/{name}/versions/{version}/infer", openapi_extra=extra, responses=responses)
    async def infer_version(request: Request, name: str, version: str) -> Response:
        """The Open Inference Protocol: runs a version."""
        return await run(request, name, version)


def _add_state(application: FastAPI, service: Service) -> None:
    page = resources.files(__package__).joinpath("page.html").read_bytes()

    @application.get("/", include_in_schema=False)
    async def root() -> Response:
        """The page to try a model."""
        return Response(page, headers=PAGE_HEADERS, media_type="text/html")

    @application.get("/health", responses=schemas.answers())
    async def health() -> Response:
        """Whether requests are answered: 200, or 503."""
        return as_json(service.health(), 200 if service.is_ready else 503)

    @application.get("/info", responses=schemas.answers())
    async def info() -> Response:
        """Models, provider, workers, limits."""
        return as_json(service.info())

    @application.get("/metrics", response_class=PlainTextResponse, responses=schemas.answers(kinds=("text/plain",)))
    async def metrics() -> Response:
        """For Prometheus."""
        return Response(service.metrics_text(), headers={"content-type": CONTENT_TYPE})


def _add_protocol(application: FastAPI, service: Service) -> None:
    @application.get("/v2", responses=schemas.answers())
    async def server() -> Response:
        """What this server is."""
        extensions = ["binary_tensor_data", "model_repository", "statistics", "model_configuration"]
        return as_json({"name": "gpux", "version": version(), "extensions": extensions})

    @application.get("/v2/health/live", responses=schemas.answers())
    async def live() -> Response:
        """200 while the process answers."""
        return as_json({"live": True})

    @application.get("/v2/health/ready", responses=schemas.answers())
    async def ready() -> Response:
        """200 if requests are answered, else 503."""
        return as_json({"ready": service.is_ready}, 200 if service.is_ready else 503)

    async def metadata(name: str, wanted: str | None) -> Response:
        model = service.models.find(name, wanted)
        queued = await service.models.ready(model)
        versions = sorted(each.version for each in service.models.all() if each.name == name)
        return as_json(
            {
                "name": model.name,
                "versions": versions,
                "platform": "onnxruntime_onnx",
                "inputs": [describe(spec) for spec in queued.inputs.values()],
                "outputs": [describe(spec) for spec in queued.outputs.values()],
            }
        )

    async def model_ready(name: str, wanted: str | None) -> Response:
        model = service.models.find(name, wanted)
        fine = service.is_ready and model.queued is not None
        return as_json({"name": model.name, "ready": fine}, 200 if fine else 503)

    async def configuration(name: str, wanted: str | None) -> Response:
        model = service.models.find(name, wanted)
        queued = await service.models.ready(model)
        joined = queued.batch_size if not queued.not_joined else 0
        sides = {}
        for side, specs in (("input", queued.inputs), ("output", queued.outputs)):
            sides[side] = [_configured(describe(spec), joined > 0) for spec in specs.values()]
        return as_json({"name": model.name, "platform": "onnxruntime_onnx", "max_batch_size": joined, **sides})

    async def statistics(name: str, wanted: str | None) -> Response:
        model = service.models.find(name, wanted)
        counts = (await service.models.ready(model)).statistics
        durations = {"queue": counts.queue_seconds, "compute_infer": counts.compute_seconds}
        stats = {key: {"count": counts.succeeded, "ns": int(value * 1e9)} for key, value in durations.items()}
        stats["success"] = {"count": counts.succeeded, "ns": int(sum(durations.values()) * 1e9)}
        stats["fail"] = {"count": counts.failed, "ns": 0}
        row = {
            "name": model.name,
            "version": model.version,
            "inference_count": counts.succeeded,
            "execution_count": counts.batches,
            "inference_stats": stats,
        }
        return as_json({"model_stats": [row]})

    for ending, function in (
        ("", metadata),
        ("/ready", model_ready),
        ("/config", configuration),
        ("/stats", statistics),
    ):
        _add_for_model(application, ending, function)


def _add_for_model(application: FastAPI, ending: str, function: Any) -> None:
    """A route of a model, and of a version of it."""
    responses = schemas.answers(404, 422, 507)

    async def newest(name: str) -> Response:
        response: Response = await function(name, None)
        return response

    async def one(name: str, version: str) -> Response:
        response: Response = await function(name, version)
        return response

    title = function.__name__.replace("_", " ")
    newest.__doc__ = f"The {title} of the newest version."
    one.__doc__ = f"The {title} of a version."
    base = "/v2/models/{name}"
    application.get(f"{base}{ending}", responses=responses, operation_id=f"{function.__name__}_newest")(newest)
    application.get(f"{base}/versions/{{version}}{ending}", responses=responses, operation_id=function.__name__)(one)


def _configured(tensor: dict[str, Any], without_batch: bool) -> dict[str, Any]:
    kind = tensor["datatype"]
    return {
        "name": tensor["name"],
        "data_type": _TRITON_TYPES.get(kind, f"TYPE_{kind}"),
        "dims": tensor["shape"][1:] if without_batch else tensor["shape"],
    }


def _add_repository(application: FastAPI, service: Service) -> None:
    async def parameters(request: Request) -> dict[str, Any]:
        body = await read_body(request, service.max_body, service.timeout)
        value = parse_json(body) if body.strip() else {}
        if not isinstance(value, dict) or not isinstance(value.get("parameters", {}), dict):
            raise InputError('expected an object, with "parameters" an object')
        return {**value, **value.get("parameters", {})}

    def wanted_version(values: dict[str, Any]) -> str | None:
        wanted = values.get("version")
        if wanted is not None and not isinstance(wanted, str):
            raise InputError("version is no text")
        return wanted

    extra = schemas.body(schemas.REPOSITORY, required=False)

    @application.post("/v2/repository/index", openapi_extra=extra, responses=schemas.answers(400, 413, 504))
    async def index(request: Request) -> Response:
        """The models of the registry, and whether they are loaded; with {"ready": true} only those."""
        values = await parameters(request)
        loaded = {(model.name, model.version): model.queued is not None for model in service.models.all()}
        known = {(name, each) for name in service.registry.names() for each in service.registry.versions(name)}
        rows = []
        for name, each in sorted(known | set(loaded)):
            state = loaded.get((name, each))
            reason = "" if state else "unloaded for the room of others" if state is False else "not loaded"
            if state or not values.get("ready"):
                rows.append(
                    {"name": name, "version": each, "state": "READY" if state else "UNAVAILABLE", "reason": reason}
                )
        return as_json(rows)

    @application.post(
        "/v2/repository/models/{name}/load",
        openapi_extra=extra,
        responses=schemas.answers(400, 404, 413, 422, 500, 504, 507),
    )
    async def load(request: Request, name: str) -> Response:
        """Loads a model of the registry: its newest version, or {"parameters": {"version": ...}}."""
        values = await parameters(request)
        if any(key == "config" or key.startswith("file:") for key in values):
            raise InputError("config and files are not taken over HTTP: build the model with `gpux build`")
        try:
            model = await service.load(name, wanted_version(values))
        except GPUXError as error:
            if isinstance(error, (InputError, UnknownModelError, ServiceError)) or error.status in (422, 507):
                raise
            raise ServiceError(str(error)) from None
        return as_json({"name": model.name, "version": model.version})

    @application.post(
        "/v2/repository/models/{name}/unload",
        openapi_extra=extra,
        responses=schemas.answers(400, 404, 413, 504),
    )
    async def unload(request: Request, name: str) -> Response:
        """Unloads all versions of a model, or {"parameters": {"version": ...}}."""
        values = await parameters(request)
        await service.models.unload(name, wanted_version(values))
        return as_json({"name": name})
