"""What the workshop refuses, each kind with the exit code of the command line and the status of HTTP that it means."""

from __future__ import annotations

from collections.abc import Sequence


class WorkshopError(Exception):
    """What went wrong, what was expected and what to do, for a person to read; the base of all errors of the workshop.

    `exit_code` is that of the program `workshop`, `status` that of an answer over HTTP.
    """

    exit_code = 1
    status = 500


class ConfigurationError(WorkshopError):
    """A setting, a file or a variable that makes no sense; `problems` has each by itself."""

    exit_code = 3
    status = 400

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class ModelError(WorkshopError):
    """A model that is missing, broken, unknown, or of a kind that the workshop cannot trace or run."""

    exit_code = 4
    status = 422


class InputError(WorkshopError):
    """Inputs that a model does not take: names, shapes, dtypes, values."""

    exit_code = 5
    status = 400


class DeviceError(WorkshopError):
    """A card that is unknown or not there, or a device that failed."""

    exit_code = 6
    status = 500


class DoesNotFitError(WorkshopError):
    """The model does not fit into the card's memory; the message has the report and what would make it fit."""

    exit_code = 7
    status = 507


class StageError(WorkshopError):
    """Stages of the profiler that end in another order than they began, or were never begun."""

    exit_code = 1
    status = 500
