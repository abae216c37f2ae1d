"""Shared by the workshop's tests: the stub, an environment of their own, and nothing on the device between tests."""

from __future__ import annotations

import os
from collections.abc import Iterator

for _name in [name for name in os.environ if name.startswith(("WORKSHOP_", "UNIHAL_STUB"))]:
    del os.environ[_name]
os.environ["UNIHAL_BACKEND"] = "stub"
os.environ["UNIHAL_STRICT"] = "1"  # an op without a kernel is an error, in child processes too

import pytest  # noqa: E402
import torch  # noqa: E402

# PyTorch's fused encoder layer has no kernel of unihal's, and would run on the host.
torch.backends.mha.set_fastpath_enabled(False)


@pytest.fixture(scope="session", autouse=True)
def _own_folders(tmp_path_factory: pytest.TempPathFactory) -> None:
    """No test reads the user's configuration."""
    os.environ["XDG_CONFIG_HOME"] = str(tmp_path_factory.mktemp("config"))


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    torch.manual_seed(0)
    yield
