"""OpenTelemetry traces, if an endpoint is configured."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from ..errors import ConfigurationError


class Tracer:
    """A span for each request, under the caller's trace (the header traceparent)."""

    def __init__(self, endpoint: str) -> None:
        try:
            from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
            from opentelemetry.sdk.resources import Resource
            from opentelemetry.sdk.trace import TracerProvider
            from opentelemetry.sdk.trace.export import BatchSpanProcessor
            from opentelemetry.trace import SpanKind
            from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
        except ImportError as error:
            raise ConfigurationError(
                [f"otlp_endpoint needs OpenTelemetry ({error.name} is missing): pip install 'unihal[gpux-telemetry]'"]
            ) from None
        parts = urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.netloc:
            raise ConfigurationError(
                [f"otlp_endpoint: {endpoint!r}: expected an address such as http://localhost:4318"]
            )
        if parts.path in ("", "/"):
            endpoint = endpoint.rstrip("/") + "/v1/traces"
        self._provider = TracerProvider(resource=Resource.create({"service.name": "gpux"}))
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(endpoint=endpoint)))
        self._tracer = self._provider.get_tracer("gpux")
        self._propagator = TraceContextTextMapPropagator()
        self._kind = SpanKind.SERVER

    def begin(self, name: str, headers: Mapping[str, str]) -> Any:
        """A span; end() takes it."""
        return self._tracer.start_span(name, context=self._propagator.extract(dict(headers)), kind=self._kind)

    def end(self, span: Any, attributes: Mapping[str, Any]) -> None:
        """Ends a span with what is known of the answer."""
        for key, value in attributes.items():
            span.set_attribute(key, value)
        if int(attributes.get("http.response.status_code", 0)) >= 500:
            from opentelemetry.trace import Status, StatusCode

            span.set_status(Status(StatusCode.ERROR))
        span.end()

    def close(self) -> None:
        """Sends what is left."""
        self._provider.shutdown()


def make_tracer(endpoint: str) -> Tracer | None:
    """For the setting, or the variable that OpenTelemetry itself knows; None if neither is set."""
    endpoint = endpoint or os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT", "")
    return Tracer(endpoint) if endpoint else None
