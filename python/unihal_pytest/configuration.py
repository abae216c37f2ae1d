"""Which backend serves a test run, or what stands in for hardware: from options and ini values to unihal's environment
variables.

Nothing here imports unihal: pytest loads this in every run where unihal is installed.
"""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

MODES = ("fast", "strict")
FRAMEWORKS = ("paddle", "tensorflow")

#: Key of an option and of its ini value: "--unihal-stub" and "unihal_stub".
BACKEND, STUB, PROFILE, SEED = "backend", "stub", "profile", "seed"

_VARIABLES = {
    BACKEND: "UNIHAL_BACKEND",
    STUB: "UNIHAL_STUB",
    PROFILE: "UNIHAL_STUB_PROFILE",
    SEED: "UNIHAL_STUB_SEED",
}
_LARGEST_SEED = 2**64 - 1


@dataclass(frozen=True)
class Wishes:
    """What was asked for, by key; nothing is empty."""

    values: dict[str, str]

    def __bool__(self) -> bool:
        return bool(self.values)

    def describe(self) -> str:
        """A line for pytest's header."""
        if (backend := self.values.get(BACKEND, "stub")) != "stub":
            return f"unihal: the backend {backend} serves all devices"
        mode = self.values.get(STUB) or os.environ.get("UNIHAL_STUB") or "fast"
        text = f"unihal: the stub ({mode}) stands in for hardware"
        if seed := os.environ.get("UNIHAL_STUB_SEED"):
            text += f", seed {seed}"
        if profile := os.environ.get("UNIHAL_STUB_PROFILE"):
            text += f", profile {profile}"
        return text


def add_options(parser: pytest.Parser) -> None:
    """Options, and an ini value for each."""
    group = parser.getgroup("unihal", "devices of unihal")
    group.addoption(
        "--unihal-backend", metavar="NAME", help="the backend that serves all devices: stub, opencl, hip or corex"
    )
    group.addoption("--unihal-stub", choices=MODES, help="let unihal's stub stand in for hardware, in this mode")
    group.addoption(
        "--unihal-profile", metavar="NAME", help="the stub takes memory and limits of this card, or of a YAML file"
    )
    group.addoption("--unihal-seed", metavar="N", type=_seed, help="seed of the strict stub's random delays")
    parser.addini("unihal_backend", "as --unihal-backend", default="")
    parser.addini("unihal_stub", "fast or strict: as --unihal-stub", default="")
    parser.addini("unihal_profile", "as --unihal-profile; a file is relative to pytest's root folder", default="")
    parser.addini("unihal_seed", "as --unihal-seed", default="")
    parser.addini("unihal_device", "the device of the fixture strict_device", default="rdna:0")


def read_wishes(config: pytest.Config, options: argparse.Namespace) -> Wishes:
    """What was asked for; an option goes before its ini value. Nonsense in the ini file is a UsageError."""
    values = {}
    for key in (BACKEND, STUB, PROFILE, SEED):
        ini = str(config.getini(f"unihal_{key}")).strip()
        option = getattr(options, f"unihal_{key}")
        if option is not None:
            values[key] = str(option)
        elif ini:
            values[key] = _checked(key, ini)
    values = _without_contradiction(values, options)
    if PROFILE in values:
        # A test may change the working directory before the first device is used.
        base = config.invocation_params.dir if options.unihal_profile is not None else config.rootpath
        values[PROFILE] = _absolute(values[PROFILE], base)
    return Wishes(values)


def apply(wishes: Wishes) -> None:
    """Sets the environment; a UsageError if something that reads it has started with something else."""
    variables = {_VARIABLES[key]: value for key, value in wishes.values.items()}
    variables.setdefault("UNIHAL_BACKEND", "stub")
    changed = {name: value for name, value in variables.items() if os.environ.get(name) != value}
    if changed:
        _require_that_nothing_started(changed)
        os.environ.update(changed)


def _require_that_nothing_started(changed: dict[str, str]) -> None:
    # A framework enumerates its devices when it is imported. Of unihal only the import of its native part is seen,
    # which reads nothing yet; but whoever imported it this early may have gone on.
    started = [name for name in (*FRAMEWORKS, "unihal._core") if name in sys.modules]
    if started:
        settings = " ".join(f"{name}={value}" for name, value in changed.items())
        modules = " and ".join(name.partition(".")[0] for name in started)
        raise pytest.UsageError(
            "--unihal-backend, --unihal-stub, --unihal-profile and --unihal-seed come too late: "
            f"{modules} was imported before pytest read them, by a plugin (`-p`, PYTEST_PLUGINS) or by the program "
            "that called pytest.main(). Import it in a conftest.py or in the tests instead, or set in the "
            f"environment: {settings}"
        )


def _without_contradiction(values: dict[str, str], options: argparse.Namespace) -> dict[str, str]:
    """Of a backend other than the stub, and settings of the stub, what was said by option; not both."""
    of_stub = [key for key in (STUB, PROFILE, SEED) if key in values]
    if values.get(BACKEND, "stub") == "stub" or not of_stub:
        return values
    by_option = options.unihal_backend is not None
    for key in of_stub:
        if by_option == (getattr(options, f"unihal_{key}") is not None):
            raise pytest.UsageError(
                f"the backend {values[BACKEND]!r} was asked for, and unihal_{key} is a setting of the stub: leave one "
                "of them out"
            )
    return {key: value for key, value in values.items() if (key == BACKEND) == by_option}


def _seed(text: str) -> str:
    if not (text.isascii() and text.isdigit()) or int(text) > _LARGEST_SEED:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 to {_LARGEST_SEED}")
    return text


def _checked(key: str, value: str) -> str:
    if key == STUB and value not in MODES:
        raise pytest.UsageError(f"unihal_stub is {value!r} in pytest's configuration; expected {' or '.join(MODES)}")
    if key == SEED:
        try:
            return _seed(value)
        except argparse.ArgumentTypeError as error:
            raise pytest.UsageError(f"unihal_seed in pytest's configuration: {error}") from None
    return value


def _absolute(profile: str, base: Path) -> str:
    # The rule by which the stub tells a file from a built-in name.
    is_file = "/" in profile or profile.endswith((".yaml", ".yml"))
    return str(base / profile) if is_file else profile
