"""Shared by GPUX' tests: an environment of their own, and services that run as long as a module's tests."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from service import Service, serve
from sources import affine, image_sum, mixing, slow, texts

for _name in [name for name in os.environ if name.startswith(("GPUX_", "OTEL_"))]:
    del os.environ[_name]
# Without the stub unihal has no device where there is no hardware: tests run on the CPU provider, unless they ask for
# unihal's.
os.environ.pop("UNIHAL_BACKEND", None)


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads the user's configuration or registry."""
    home = tmp_path_factory.mktemp("home")
    os.environ["XDG_CONFIG_HOME"] = str(home / "config")
    os.environ["XDG_DATA_HOME"] = str(home / "data")


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of models, one for each maker in sources.py."""
    folder = tmp_path_factory.mktemp("models")
    for maker in (affine, mixing, slow, texts, image_sum):
        maker(folder / f"{maker.__name__}.onnx")
    return folder


@pytest.fixture(scope="module")
def service(files: Path) -> Iterator[Service]:
    """`gpux serve` with all of them, for tests that leave it as it is."""
    models = [str(files / f"{name}.onnx") for name in ("affine", "mixing", "texts", "image_sum", "slow")]
    with serve(*models, "--timeout", "2", "--max-body", "200K") as running:
        yield running
        assert running.process.poll() is None, "the service ended"
