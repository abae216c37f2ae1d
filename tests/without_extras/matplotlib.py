"""Stands before the package of this name: see tests/conftest.py."""

raise ModuleNotFoundError("the tests' processes do without matplotlib", name="matplotlib")
