"""What GPUX refuses, each kind with the exit code of the command line and the status of HTTP that it means."""

from __future__ import annotations

from collections.abc import Sequence


class GPUXError(Exception):
    """What went wrong, what was expected and what to do, for a person to read; the base of all errors of GPUX.

    `exit_code` is that of the program `gpux`, `status` that of an answer over HTTP, and `retry_after` the seconds after
    which the same request may succeed (None: it will not).
    """

    exit_code = 1
    status = 500
    retry_after: float | None = None


class ConfigurationError(GPUXError):
    """A configuration file, a setting or an environment variable that makes no sense; `problems` has each by itself."""

    exit_code = 3
    status = 500

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = list(problems)


class ModelError(GPUXError):
    """A model file that is missing, broken, hostile, or not what the configuration says."""

    exit_code = 4
    status = 422


class InputError(GPUXError):
    """Inputs that a model does not take: names, shapes, dtypes, values."""

    exit_code = 5
    status = 400


class ProviderError(GPUXError):
    """An execution provider that is missing or failed, or a model that failed while it ran."""

    exit_code = 6
    status = 500


class UnknownModelError(GPUXError):
    """No model of this name and version."""

    exit_code = 7
    status = 404


class ServiceError(GPUXError):
    """The service cannot be started, or refuses what is asked of it."""

    exit_code = 8
    status = 500


class BusyError(ServiceError):
    """The queue is full, a worker died, or the service is going down: the request may be tried again."""

    status = 503
    retry_after = 1.0


class RequestTimeoutError(ServiceError):
    """The answer took longer than `timeout`."""

    status = 504


class TooLargeError(InputError):
    """A body, an image or a file beyond the limit."""

    status = 413


class MemoryBudgetError(ServiceError):
    """A model that does not fit into the memory budget, though all that is idle was unloaded."""

    status = 507
