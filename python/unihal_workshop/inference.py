"""Models that the workshop runs: the interface of one, and the registry of all.

    @register("my-model")
    class MyModel(BaseInference):
        def _load(self): ...
        def _run(self, inputs, run): ...

    model = create("my-model", "folder/of/the/model", device="rdna")
    result = model.run({"prompt": "a lighthouse"}, seed=1, on_progress=print)

The program `workshop`, its page and the optimizer know models by this interface alone.
"""

from __future__ import annotations

import importlib
import secrets
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from .errors import ModelError, WorkshopError
from .naming import nearest

MAX_SEED = (1 << 63) - 1


class Interrupted(WorkshopError):  # noqa: N818
    """Raised by `Run.step` in a model that was asked to stop; `BaseInference.run` makes an unfinished result of it."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come, at the end of a step.

    `step` steps of `total` are done (total 0: unknown) of the stage named `stage`; `seconds` since the run began.
    `preview` is what was made so far, as a person would look at it: a uint8 array of shape (height, width, 3), a text,
    or None where the step has none. Models make one only if `Run.wants_preview`.
    """

    step: int
    total: int
    stage: str
    seconds: float
    preview: Any = None


#: Called on the thread that runs the model; an exception that it raises ends the run.
OnProgress = Callable[[Progress], None]


@dataclass
class Result:
    """What a run made.

    `output` is the model's own: its class says what. After an interrupt `finished` is False and `output` what had been
    made until then (None if nothing). `seed` is the seed that was used, so that the run can be had again. `seconds` is
    the time of the run on the host's clock, the device's work included; `peak_bytes` the most device memory that was
    allocated during it (0: the device does not tell). `details` is for people and JSON: plain data.
    """

    output: Any
    seed: int
    finished: bool
    steps: int
    seconds: float
    peak_bytes: int = 0
    details: dict[str, Any] = field(default_factory=dict)


class Run:
    """One run of a model: its seed, its progress, whether it should stop. For the model that runs, on its thread.

    A preview is asked for with each `preview_every`-th step; 0: none.
    """

    def __init__(
        self, seed: int, on_progress: OnProgress | None, stop: threading.Event, preview_every: int = 0
    ) -> None:
        self.seed = seed
        self.steps = 0
        #: What was made so far: a model sets it, so that an interrupt does not lose it.
        self.partial: Any = None
        self.details: dict[str, Any] = {}
        self._on_progress = on_progress
        self._stop = stop
        self._preview_every = preview_every
        self._start = time.monotonic()

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._start

    def wants_preview(self, step: int) -> bool:
        """Whether somebody looks at a preview of this step (counted from 1)."""
        return self._on_progress is not None and self._preview_every > 0 and step % self._preview_every == 0

    def step(self, step: int, total: int, stage: str = "", preview: Any = None) -> None:
        """Tells that `step` of `total` steps are done. Raises Interrupted if the run was asked to stop."""
        self.steps = max(self.steps, step)
        if self._on_progress is not None:
            self._on_progress(Progress(step, total, stage, self.seconds, preview))
        self.check()

    def check(self) -> None:
        """Raises Interrupted if the run was asked to stop: for models whose steps are long."""
        if self._stop.is_set():
            raise Interrupted("The run was interrupted.")


class BaseInference(ABC):
    """A model that can be loaded, run and interrupted.

    `source` says where the model comes from: a local folder or file, or a mapping that is a configuration (the weights
    are then random, from `seed` 0); None is the class's own default configuration. Nothing is ever downloaded. `device`
    is PyTorch's (`"rdna"`, `"cpu"`) or the framework's own name; `dtype` is `"float32"`, `"float16"`, `"bfloat16"` or
    None for the class's choice on that device. `options` are the class's; `option_defaults` has each with its default,
    and an unknown one is a ModelError that names the nearest.

    One run at a time: a second one from another thread waits. `interrupt` may be called from any thread.
    """

    #: The name in the registry; `register` sets it.
    name: ClassVar[str] = ""
    #: One line for lists of models.
    description: ClassVar[str] = ""
    #: What `run` takes, by name, each with what it is for and its default (None: required); plain data.
    input_defaults: ClassVar[Mapping[str, tuple[str, Any]]] = {}
    #: Options of the constructor by name, each with its default.
    option_defaults: ClassVar[Mapping[str, Any]] = {}
    #: The input that counts the samples of a run, where a plan should look for how many fit at most; "" if none does.
    batch_input: ClassVar[str] = ""

    def __init__(
        self,
        source: str | Path | Mapping[str, Any] | None = None,
        *,
        device: str = "rdna",
        dtype: str | None = None,
        **options: Any,
    ) -> None:
        for option in options:
            if option not in self.option_defaults:
                known = nearest(option, self.option_defaults)
                raise ModelError(f"{self.name or type(self).__name__} has no option {option!r}{known}")
        self.source = source
        self.device = device
        self.dtype = dtype
        self.options: dict[str, Any] = {**self.option_defaults, **options}
        self.loaded = False
        self._running = threading.RLock()
        self._stop = threading.Event()

    # -- what a model is --------------------------------------------------------------------------------------------

    @abstractmethod
    def _load(self) -> None:
        """Makes the model ready on its device. Called once, before the first run, by one thread."""

    @abstractmethod
    def _run(self, inputs: Mapping[str, Any], run: Run) -> Any:
        """Runs the model; gives its output.

        `inputs` has every name of `input_defaults`. Random numbers come from `run.seed` alone. Calls `run.step` after
        each step, and sets `run.partial` to what was made so far; lets Interrupted pass.
        """

    def _unload(self) -> None:  # noqa: B027 - most models have nothing but what `modules` refers to
        """Lets go of the model's memory."""

    def modules(self) -> dict[str, Any]:
        """The parts that hold weights, by name (`{"unet": module, ...}`), of a loaded model: what an optimizer changes.

        Each is a `torch.nn.Module`, or what the framework of the class has in its place.
        """
        return {}

    def replace_module(self, name: str, module: Any) -> None:
        """Puts another module in the place of a part of `modules()`."""
        raise ModelError(f"{self.name or type(self).__name__} has no part {name!r} that could be replaced")

    def plan_stages(self, inputs: Mapping[str, Any] | None = None) -> list[PlanStage]:
        """How a run goes through the parts, for the planner: in order, each part with the inputs that it will see.

        Needs no device and no weights: parts may be on the device `meta`. Empty: the model cannot be planned.
        """
        return []

    def batch_of(self, inputs: Mapping[str, Any]) -> int | None:
        """The samples of a run at a time; None where they are not counted."""
        count = inputs.get(self.batch_input)
        return count if isinstance(count, int) and not isinstance(count, bool) else None

    # -- what a user calls ------------------------------------------------------------------------------------------

    def load(self) -> None:
        """Loads the model if it is not loaded yet."""
        with self._running:
            if not self.loaded:
                self._load()
                self.loaded = True

    def unload(self) -> None:
        """Lets go of the model's memory; the next run loads it again."""
        with self._running:
            if self.loaded:
                self._unload()
                self.loaded = False

    def run(
        self,
        inputs: Mapping[str, Any] | None = None,
        *,
        seed: int | None = None,
        on_progress: OnProgress | None = None,
        preview_every: int = 0,
    ) -> Result:
        """Runs the model on `inputs`, loading it if need be.

        The same seed gives the same output on the same device; None draws one. `preview_every` N asks for a preview
        with each N-th progress (0: none). After `interrupt` the result has what had been made, and `finished` is False.
        """
        given = self.check_inputs(inputs or {})
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed <= MAX_SEED):
            raise ModelError(f"seed {seed!r}: expected a whole number from 0 to {MAX_SEED}")
        with self._running:
            self._stop.clear()
            self.load()
            run = Run(secrets.randbelow(1 << 31) if seed is None else seed, on_progress, self._stop, preview_every)
            finished = True
            meter = _peak_meter(self.device)
            try:
                output = self._run(given, run)
            except Interrupted:
                output, finished = run.partial, False
            peak = meter()
            return Result(output, run.seed, finished, run.steps, run.seconds, peak, run.details)

    def interrupt(self) -> None:
        """Asks the run in progress to stop after its present step; without an effect if none is. From any thread."""
        self._stop.set()

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs with the defaults of those left out; an unknown or missing one is a ModelError that names it."""
        for key in inputs:
            if key not in self.input_defaults:
                raise ModelError(
                    f"{self.name or type(self).__name__} has no input {key!r}{nearest(key, self.input_defaults)}"
                )
        given = {key: inputs.get(key, default) for key, (_, default) in self.input_defaults.items()}
        for key, value in given.items():
            if value is None and key not in inputs and self.input_defaults[key][1] is None:
                raise ModelError(f"the input {key!r} is missing: {self.input_defaults[key][0]}")
        return given


@dataclass(frozen=True)
class PlanStage:
    """A part of a run, for the planner: `module` is called `repeats` times with `args` and `kwargs`.

    Tensors in them may be on any device, `meta` included: shapes and dtypes count. `resident`: the part's weights stay
    on the card for the whole run; otherwise they are there during their own stage only (offload), whole, or with a
    `prefetch` layer by layer, as many ahead, of which `resident_bytes` stay. `part` is the module whose weights come
    and go, where `module` is one around it. A module that several stages have takes its memory once.
    """

    name: str
    module: Any
    args: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    repeats: int = 1
    resident: bool = True
    part: Any = None
    prefetch: int | None = None
    resident_bytes: int = 0


def _peak_meter(device: str) -> Callable[[], int]:
    """Begins to measure the peak of a PyTorch device's allocations; the function that is returned tells it in bytes."""
    kind = device.partition(":")[0]
    if kind == "cpu":
        return lambda: 0
    import torch

    module = getattr(torch, kind, None)
    if module is None or not hasattr(module, "reset_peak_memory_stats"):
        return lambda: 0
    module.synchronize()
    module.reset_peak_memory_stats()

    def peak() -> int:
        module.synchronize()
        return int(module.max_memory_allocated())

    return peak


# -- the registry ----------------------------------------------------------------------------------------------------

#: Models that come with the workshop: where their class is, imported when one is first asked for.
BUILT_IN: dict[str, str] = {
    "image-classification": "unihal_workshop.pipelines.image_classification:ImageClassification",
    "stable-diffusion": "unihal_workshop.pipelines.stable_diffusion:StableDiffusionInference",
    "text-generation": "unihal_workshop.pipelines.text_generation:TextGeneration",
}

_registered: dict[str, type[BaseInference]] = {}
_Model = TypeVar("_Model", bound=type[BaseInference])


def _place(model: type[BaseInference]) -> tuple[str, str]:
    """The file and the name of a class: a file may be imported a second time, under another name."""
    module = sys.modules.get(model.__module__)
    return str(getattr(module, "__file__", None) or model.__module__), model.__qualname__


def register(name: str) -> Callable[[_Model], _Model]:
    """A decorator that puts a subclass of BaseInference into the registry. A name that is taken is a ModelError."""

    def put(model: _Model) -> _Model:
        if not (isinstance(model, type) and issubclass(model, BaseInference)):
            raise ModelError(f"register({name!r}): expected a subclass of BaseInference, not {model!r}")
        present = _registered.get(name)
        if present is not None and _place(present) != _place(model):
            raise ModelError(f"the name {name!r} is taken by {present.__module__}.{present.__qualname__}")
        model.name = name
        _registered[name] = model
        return model

    return put


def registered() -> dict[str, type[BaseInference] | str]:
    """All names, each with its class, or with `module:class` of one that was not imported yet."""
    return {**BUILT_IN, **_registered}


def model_class(name: str) -> type[BaseInference]:
    """The class of a name; an unknown one is a ModelError with the nearest."""
    if name not in _registered and name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        try:
            found = getattr(importlib.import_module(module), attribute)
        except ImportError as error:
            raise ModelError(
                f"{name} needs a package that is missing: {error}; pip install 'unihal[workshop]'"
            ) from error
        register(name)(found)
    if name not in _registered:
        raise ModelError(f"there is no model {name!r}{nearest(name, registered())}")
    return _registered[name]


def create(name: str, source: str | Path | Mapping[str, Any] | None = None, **arguments: Any) -> BaseInference:
    """A model by its name, not loaded yet; arguments as of BaseInference."""
    return model_class(name)(source, **arguments)
