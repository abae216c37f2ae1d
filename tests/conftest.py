"""Shared by all Python suites: an environment that does not depend on the developer's shell, with the stub
unless another backend is asked for (--unihal-backend)."""

from __future__ import annotations

import atexit
import gc
import os
import shutil
import tempfile
from pathlib import Path

import pytest

# UNIHAL_SITE names the build tree to test, where unihal is not installed; the others run whole suites on another
# backend, or under a check.
_KEPT = {
    "UNIHAL_SITE",
    "UNIHAL_BACKEND",
    "UNIHAL_OPENCL_DEVICE",
    "UNIHAL_CACHE",
    "UNIHAL_CACHE_DIR",
    "UNIHAL_STUB",
    "UNIHAL_CHECK_RACES",
    "UNIHAL_CHECK_MEMORY",
    "UNIHAL_TESTS_NEED_OPENCL",
    "UNIHAL_TESTS_LARGE",
    "UNIHAL_TESTS_HEADERS",
}

# Before any framework or unihal is imported.
for _name in [name for name in os.environ if name.startswith("UNIHAL_") and name not in _KEPT]:
    del os.environ[_name]
os.environ.setdefault("UNIHAL_BACKEND", "stub")

# Suites run side by side: a thread of OpenMP that waits for work must sleep, not keep a core from another suite, and
# NumPy's products, which the tests compute expected results with, are too small for threads.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

# Keras imports these packages where they are installed, for plots and wrappers that no test has: a third of the time in
# which TensorFlow is imported, in some fifty processes. Its sitecustomize.py is for all processes of the tests. What
# needs the packages removes PYTHONPATH (test_demo.py).
WITHOUT_EXTRAS = str(Path(__file__).with_name("without_extras"))
os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, [WITHOUT_EXTRAS, os.environ.get("PYTHONPATH")]))

# As sitecustomize.py says of the tests' processes.
gc.set_threshold(50_000, 20, 50)

# Frameworks keep files of their own in the user's home (Paddle writes the source of what to_static compiles there) and
# fail where it is read-only. That is theirs: the tests take a home of their own then.
if not os.access(os.path.expanduser("~"), os.W_OK):
    os.environ["HOME"] = tempfile.mkdtemp(prefix="unihal-home-")
    atexit.register(shutil.rmtree, os.environ["HOME"], ignore_errors=True)


@pytest.fixture(autouse=True, scope="module")
def only_new_objects_are_looked_at() -> None:
    """What was imported until here stays: a framework's hundred thousands of objects are not gone through again in each
    collection of garbage, of which many tests ask for one."""
    gc.collect()
    gc.freeze()


if os.environ.get("UNIHAL_STUB") == "strict" or os.environ.get("UNIHAL_CHECK_RACES") == "1":

    def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
        """Where races are looked for, one fails the test that made it."""
        for item in items:
            item.add_marker("unihal_no_race")
