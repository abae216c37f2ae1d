"""Shared by all Python suites: an environment that does not depend on the developer's shell, with the stub."""

from __future__ import annotations

import os

# UNIHAL_SITE names the build tree to test, where unihal is not installed.
_KEPT = {"UNIHAL_SITE"}

# Before any framework or unihal is imported.
for _name in [name for name in os.environ if name.startswith("UNIHAL_") and name not in _KEPT]:
    del os.environ[_name]
os.environ["UNIHAL_BACKEND"] = "stub"
