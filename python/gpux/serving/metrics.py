"""What Prometheus reads at /metrics."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)

CONTENT_TYPE = CONTENT_TYPE_LATEST


class Metrics:
    """One service's; a registry of its own, so that several services in a process do not meet."""

    def __init__(self) -> None:
        registry = self.registry = CollectorRegistry()
        self.requests = Counter("gpux_requests", "Requests by route and status", ["route", "status"], registry=registry)
        self.seconds = Histogram(
            "gpux_request_seconds", "From a request to its answer", ["route"], buckets=_SECONDS, registry=registry
        )
        self.batches = Histogram("gpux_batch_size", "Requests of a batch", ["model"], buckets=_SIZES, registry=registry)
        self.compute = Histogram(
            "gpux_inference_seconds", "A batch in a worker", ["model"], buckets=_SECONDS, registry=registry
        )
        self.waiting = Gauge("gpux_queue_length", "Requests that wait", ["model"], registry=registry)
        self.bytes = Gauge("gpux_model_bytes", "Weights of a loaded model", ["model"], registry=registry)
        self.workers = Gauge("gpux_workers", "Workers that are alive", registry=registry)
        self.restarts = Counter("gpux_worker_restarts", "Workers that died and were started again", registry=registry)
        self._http: dict[tuple[str, int], tuple[Counter, Histogram]] = {}
        self._models: dict[str, tuple[Histogram, Histogram]] = {}

    def observe_request(self, route: str, status: int, seconds: float) -> None:
        """An answer; `route` is the pattern, so that there are as many series as routes."""
        pair = self._http.get((route, status))
        if pair is None:
            pair = self._http[(route, status)] = (
                self.requests.labels(route, str(status)),
                self.seconds.labels(route),
            )
        pair[0].inc()
        pair[1].observe(seconds)

    def observe_batch(self, model: str, size: int, seconds: float) -> None:
        """A batch that a worker ran."""
        pair = self._models.get(model)
        if pair is None:
            pair = self._models[model] = (self.batches.labels(model), self.compute.labels(model))
        pair[0].observe(size)
        pair[1].observe(seconds)

    def text(self) -> bytes:
        """In Prometheus' format."""
        return generate_latest(self.registry)
