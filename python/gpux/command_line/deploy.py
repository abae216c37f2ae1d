"""`gpux deploy`."""

from __future__ import annotations

import json
import signal
import threading
from pathlib import Path
from typing import Any, Optional

import typer

from ..configuration.settings import resolve
from ..errors import ConfigurationError
from ..registry.store import Registry, find_model

# Typer evaluates annotations, and Python 3.9 knows no `str | None`.
_Text = Optional[str]
_Number = Optional[int]
_File = Optional[Path]


def deploy(
    models: list[str] = typer.Argument(..., metavar="MODEL...", help="NAME or NAME:VERSION of the registry."),
    ray: bool = typer.Option(False, "--ray", help="Run the service as a Ray Serve application, until Ctrl-C."),
    docker: _File = typer.Option(None, help="Write a Dockerfile, a Kubernetes manifest and the models to this folder."),
    address: _Text = typer.Option(None, help="With --ray: the cluster's address; a local one is started without it."),
    replicas: int = typer.Option(1, min=0, help="With --ray: replicas at least."),
    max_replicas: _Number = typer.Option(None, min=1, help="With --ray: replicas at most."),
    gpus: float = typer.Option(0, min=0, help="With --ray: GPUs of one replica."),
    host: _Text = typer.Option(None, help="The address to listen at."),
    port: _Number = typer.Option(None, help="The port."),
    provider: _Text = typer.Option(None, help="The execution provider."),
    registry: _Text = typer.Option(None, help="The folder of built models."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON."),
) -> None:
    """Runs models on a Ray cluster, or writes what a container and a Kubernetes cluster need."""
    if ray == (docker is not None):
        raise ConfigurationError(["say where to: either --ray or --docker FOLDER"])
    found = [find_model(each, Registry(resolve({"registry": registry}).registry)) for each in models]
    options: dict[str, Any] = {"host": host, "port": port, "provider": provider, "registry": registry}
    settings = resolve(options, found[0].configuration)
    if docker is not None:
        from ..deployment.files import write_files

        written = [str(path) for path in write_files(docker, found, settings)]
        typer.echo(json.dumps({"written": written}) if as_json else "\n".join(f"wrote {path}" for path in written))
        return
    try:
        from ..deployment.ray_application import Scale, run

        most = max(max_replicas or replicas, replicas, 1)
        url = run(settings, models, Scale(replicas, most), gpus, address)
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "ray":
            raise
        raise ConfigurationError(["--ray needs Ray: pip install 'unihal[gpux-ray]'"]) from None
    typer.echo(json.dumps({"address": url, "models": models}) if as_json else f"serving {', '.join(models)} at {url}")
    stopped = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: stopped.set())
    stopped.wait()
    import ray as ray_module
    from ray import serve

    serve.shutdown()
    ray_module.shutdown()
