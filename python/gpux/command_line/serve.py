"""`gpux serve`."""

from __future__ import annotations

import json
from typing import Any, Optional

import typer

from ..configuration.settings import resolve
from ..registry.store import Registry, find_model
from . import views

# Typer evaluates annotations, and Python 3.9 knows no `str | None`.
_Text = Optional[str]
_Number = Optional[int]
_Seconds = Optional[float]


def serve(
    models: Optional[list[str]] = typer.Argument(  # noqa: UP045
        None, metavar="[MODEL]...", help="What is loaded at the start; others by the repository's API."
    ),
    host: _Text = typer.Option(None, help="The address to listen at; 127.0.0.1 unless asked for."),
    port: _Number = typer.Option(None, help="The port; 0: a free one."),
    provider: _Text = typer.Option(None, help="The execution provider."),
    gpu_memory: _Text = typer.Option(None, help="Memory that a provider may take on its device, for example 2GB."),
    max_workers: _Number = typer.Option(None, help="Worker processes; default: one a device."),
    threads: _Number = typer.Option(None, help="Threads of one inference on the CPU."),
    batch_size: _Number = typer.Option(None, help="Requests that are joined at most; 1: none."),
    batch_delay: _Seconds = typer.Option(None, help="Seconds that a request waits for others."),
    queue_size: _Number = typer.Option(None, help="Requests of a model that wait at most."),
    timeout: _Seconds = typer.Option(None, help="Seconds until 504."),
    grace: _Seconds = typer.Option(None, help="Seconds for running requests at the end."),
    max_body: _Text = typer.Option(None, help="Size of a request at most, for example 64M."),
    memory_budget: _Text = typer.Option(None, help="Memory of all loaded models at most."),
    api_keys: _Text = typer.Option(None, help="A file of lines NAME KEY."),
    tls_certificate: _Text = typer.Option(None, help="A PEM file: HTTPS."),
    tls_key: _Text = typer.Option(None, help="Its key."),
    tls_client_ca: _Text = typer.Option(None, help="Clients need a certificate that this one signed."),
    audit_log: _Text = typer.Option(None, help="A file: a line of JSON for each request."),
    otlp_endpoint: _Text = typer.Option(None, help="Where OpenTelemetry traces go."),
    registry: _Text = typer.Option(None, help="The folder of built models."),
    as_json: bool = typer.Option(False, "--json", help="Print the address as JSON."),
) -> None:
    """Serves models over HTTP until Ctrl-C."""
    from ..serving.server import run
    from ..serving.service import Service

    options: dict[str, Any] = {
        "host": host,
        "port": port,
        "provider": provider,
        "gpu_memory": gpu_memory,
        "max_workers": max_workers,
        "threads": threads,
        "batch_size": batch_size,
        "batch_delay": batch_delay,
        "queue_size": queue_size,
        "timeout": timeout,
        "grace": grace,
        "max_body": max_body,
        "memory_budget": memory_budget,
        "api_keys": api_keys,
        "tls_certificate": tls_certificate,
        "tls_key": tls_key,
        "tls_client_ca": tls_client_ca,
        "audit_log": audit_log,
        "otlp_endpoint": otlp_endpoint,
        "registry": registry,
    }
    found = [find_model(each, Registry(resolve({"registry": registry}).registry)) for each in models or ()]
    # Of several models the first one's gpux.yml says host, port and workers.
    settings = resolve(options, found[0].configuration if found else None)

    def ready(address: str, service: Service) -> None:
        views.warn(service.pool.facts.get("warnings", ()))
        if not service.loopback and service.keys is None and not settings["tls_client_ca"]:
            views.warn([f"anybody who reaches {settings['host']} may use this service: set api_keys or tls_client_ca"])
        names = [model.key for model in service.models.all()]
        if as_json:
            typer.echo(json.dumps({"address": address, "models": names, "provider": service.pool.facts["provider"]}))
        else:
            typer.echo(f"serving {', '.join(names) or 'no model yet'} at {address} on {service.pool.facts['title']}")

    run(settings, found, ready)
