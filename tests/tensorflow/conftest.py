"""Sets the process up before TensorFlow is imported: the stub (or --unihal-backend), and the plugin of this build.

An installed unihal is found by TensorFlow itself; else the build tree named by UNIHAL_SITE (default: build/dev/site)
serves.
"""

import importlib.metadata
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def _plugin_environment() -> dict[str, str]:
    environment = {
        "UNIHAL_BACKEND": os.environ.get("UNIHAL_BACKEND", "stub"),
        "UNIHAL_STRICT": "1",  # a fallback is an error in every test
        "NVIDIA_TF32_OVERRIDE": "0",  # on NVIDIA's cards too results are compared as float32's
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "TF_ENABLE_ONEDNN_OPTS": "0",  # the reference is TensorFlow's own arithmetic
    }
    try:
        importlib.metadata.distribution("unihal")
    except importlib.metadata.PackageNotFoundError:
        site = Path(os.environ.get("UNIHAL_SITE", ROOT / "build" / "dev" / "site"))
        environment["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"] = str(site / "tensorflow-plugins")
    return environment


os.environ.update(_plugin_environment())

# This process too does without what Keras would import (tests/conftest.py).
sys.path.insert(0, str(ROOT / "tests" / "without_extras"))

# Memory is exact, and races are found, on the strict stub only.
collect_ignore = [] if os.environ.get("UNIHAL_STUB") == "strict" else ["test_strict.py"]


@pytest.fixture
def soft_placement() -> Iterator[None]:
    """For tests with input pipelines, shapes and counters, which belong on the CPU; UNIHAL_STRICT=1 still forbids
    fallbacks. A policy of mixed precision ends with the test."""
    import keras
    import tensorflow as tf

    tf.config.set_soft_device_placement(True)
    yield
    tf.config.set_soft_device_placement(False)
    keras.config.set_dtype_policy("float32")
