"""Trying a model's optimizations: each by itself, or a search for the fastest that keeps to limits. All are measured.

optimizer = Optimizer("stable-diffusion", None, device="rdna", inputs={"prompt": "a lighthouse", "steps": 2})
optimizer.each()
best = optimizer.search(Limits(memory_bytes=3 << 30, error=0.05))
print(optimizer.to_markdown())
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import ModelError
from ..inference import BaseInference, create, model_class


@dataclass(frozen=True)
class Limits:
    """What a result has to keep to; None: no limit.

    `memory_bytes`: the most device memory of a run, `seconds` its time, `error` the norm of the output's change over
    the norm of the output.
    """

    memory_bytes: int | None = None
    seconds: float | None = None
    error: float | None = None

    def excess(self, trial: Trial) -> list[str]:
        """What a trial does not keep to, in words; empty if it keeps to all."""
        if trial.failure:
            return [trial.failure]
        found = []
        if self.memory_bytes is not None and trial.peak_bytes > self.memory_bytes:
            found.append(f"{trial.peak_bytes / 2**20:.1f} MiB of {self.memory_bytes / 2**20:.1f}")
        if self.seconds is not None and trial.seconds > self.seconds:
            found.append(f"{trial.seconds:.2f} s of {self.seconds:.2f}")
        if self.error is not None and trial.error > self.error:
            found.append(f"error {trial.error:.2e} of {self.error:.2e}")
        return found


@dataclass
class Trial:
    """One measured choice: names of optimizations, and the options that they set.

    `seconds` of a run (the best of the repeats), `peak_bytes` of device memory during it, `weight_bytes` of the model's
    parts wherever they lie, `error` against the reference's output. `failure`: why it could not run ("" if it did).
    """

    names: tuple[str, ...]
    options: dict[str, Any]
    seconds: float = 0.0
    peak_bytes: int = 0
    weight_bytes: int = 0
    error: float = 0.0
    failure: str = ""

    @property
    def title(self) -> str:
        """The names together."""
        return " + ".join(self.names) or "as it is"


def error_between(expected: Any, found: Any) -> float:
    """The norm of the difference of two arrays over the norm of the first; infinite if one of them is not finite."""
    a, b = (np.asarray(value, dtype=np.float64) for value in (expected, found))
    if a.shape != b.shape:
        return float("inf")
    if not np.isfinite(b).all():
        return float("inf")
    size = float(np.linalg.norm(a))
    difference = float(np.linalg.norm(a - b))
    return difference / size if size else float(difference > 0)


@dataclass
class Optimizer:
    """Measures a registered model (its name or class) under choices of its optimizations.

    A model class lists them in `optimizations`: a name, and the options (`dtype` included) that it sets. `source`,
    `device`, `dtype` and `options` are those of the model as it is; `inputs` and `seed` of each run. The reference of
    errors is the model as it is, or with `reference` options in place of some; where as it is it cannot run, with its
    weights offloaded. `repeats`: runs a trial, besides one
    that is not counted. A trial loads the model anew and lets go of it afterwards.
    """

    model: str | type[BaseInference]
    source: str | Path | Mapping[str, Any] | None = None
    device: str = "rdna"
    dtype: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    inputs: Mapping[str, Any] = field(default_factory=dict)
    seed: int = 0
    repeats: int = 1
    reference: Mapping[str, Any] | None = None
    on_trial: Callable[[Trial], None] | None = None
    #: All trials so far, the model as it is first.
    trials: list[Trial] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._expected: np.ndarray[Any, Any] | None = None
        if self.repeats < 1:
            raise ModelError(f"repeats: expected 1 or more, not {self.repeats}")

    @property
    def optimizations(self) -> Mapping[str, Mapping[str, Any]]:
        """What the model can be tried with, by name."""
        found: Mapping[str, Mapping[str, Any]] = getattr(self._class(), "optimizations", {})
        return found

    def _class(self) -> type[BaseInference]:
        return model_class(self.model) if isinstance(self.model, str) else self.model

    def _options_of(self, names: Sequence[str]) -> dict[str, Any] | None:
        """The options of several optimizations; None if they contradict one another."""
        merged: dict[str, Any] = {}
        for name in names:
            if name not in self.optimizations:
                raise ModelError(f"{name!r} is no optimization of this model: {', '.join(self.optimizations)}")
            for key, value in self.optimizations[name].items():
                if key in merged and merged[key] != value:
                    return None
                merged[key] = value
        return merged

    def _make(self, options: Mapping[str, Any]) -> BaseInference:
        merged = {**self.options, **options}
        dtype = merged.pop("dtype", self.dtype)
        if isinstance(self.model, str):
            return create(self.model, self.source, device=self.device, dtype=dtype, **merged)
        return self.model(self.source, device=self.device, dtype=dtype, **merged)

    def _measure(self, trial: Trial) -> np.ndarray[Any, Any] | None:
        model = self._make(trial.options)
        array: np.ndarray[Any, Any] | None = None
        try:
            results = [model.run(self.inputs, seed=self.seed) for _ in range(self.repeats + 1)][1:]
            trial.seconds = min(result.seconds for result in results)
            trial.peak_bytes = max(result.peak_bytes for result in results)
            as_array = getattr(model, "output_array", np.asarray)
            array = np.asarray(as_array(results[-1].output), dtype=np.float32)
            weights = getattr(model, "weight_bytes", None)
            trial.weight_bytes = weights() if weights is not None else 0
        except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
            trial.failure = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
        finally:
            model.unload()
            del model
            if not self.device.startswith("cpu"):
                gc.collect()  # a module's hooks refer to it: its memory on the card would stay
        return array

    def try_options(self, names: Sequence[str], options: Mapping[str, Any]) -> Trial:
        """Measures the model with these options under these names, and adds the trial to the table."""
        if self._expected is None and self.reference is not None:
            ideal = Trial(("reference",), dict(self.reference))
            self._expected = self._measure(ideal)
            if self._expected is None:
                raise ModelError(f"the reference could not run: {ideal.failure}")
        trial = Trial(tuple(names), dict(options))
        array = self._measure(trial)
        if array is not None:
            if self._expected is None and names:
                raise ModelError("the model as it is comes first: it is what errors are measured against")
            if self._expected is None:
                self._expected = array
            trial.error = error_between(self._expected, array)
        elif not names and self._expected is None and not self._find_reference():
            raise ModelError(f"the model as it is could not run: {trial.failure}; give a `reference` that can")
        self.trials.append(trial)
        if self.on_trial is not None:
            self.on_trial(trial)
        return trial

    def _find_reference(self) -> bool:
        """The model with its weights elsewhere gives the same output, where as it is it does not fit into the card."""
        for options in self.optimizations.values():
            if set(options) == {"offload"} and self._expected is None:
                self._expected = self._measure(Trial(("reference",), dict(options)))
        return self._expected is not None

    def try_names(self, *names: str) -> Trial | None:
        """Measures optimizations together (a repeated one is not measured twice); None if they contradict."""
        key = frozenset(names)
        for trial in self.trials:
            if frozenset(trial.names) == key:
                return trial
        options = self._options_of(names)
        if options is None:
            return None
        if names and not self.trials:
            self.try_names()
        return self.try_options(names, options)

    def each(self) -> list[Trial]:
        """Measures the model as it is and each optimization by itself."""
        self.try_names()
        for name in self.optimizations:
            self.try_names(name)
        return self.trials

    def search(self, limits: Limits, *, most_trials: int = 24) -> Trial | None:
        """The fastest found that keeps to the limits; None if none does.

        Step by step: to what was chosen so far each optimization is added in turn; as long as memory is above its
        limit the one that takes least memory (and keeps to the error) is chosen, then the one that is fastest, until
        none is better, or `most_trials` were measured. A search that is not exhaustive: the table shows what was tried.
        """
        current = self.try_names()
        assert current is not None
        while len(self.trials) < most_trials:
            candidates = []
            for name in self.optimizations:
                if name in current.names or len(self.trials) >= most_trials:
                    continue
                trial = self.try_names(*current.names, name)
                if trial is not None and not trial.failure:
                    candidates.append(trial)
            allowed = [t for t in candidates if limits.error is None or t.error <= limits.error]
            fitting = [t for t in allowed if not limits.excess(t)]
            if fitting:
                best = min(fitting, key=lambda t: t.seconds)
                if not limits.excess(current) and best.seconds >= current.seconds:
                    break
            elif not allowed or not limits.excess(current):
                break
            else:
                best = min(allowed, key=lambda t: t.peak_bytes)
                if not current.failure and best.peak_bytes >= current.peak_bytes:
                    break
            current = best
        kept = [trial for trial in self.trials if not limits.excess(trial)]
        return min(kept, key=lambda t: t.seconds) if kept else None

    def to_dict(self) -> list[dict[str, Any]]:
        """The table as plain data, for JSON."""
        return [{"title": trial.title, **asdict(trial)} for trial in self.trials]

    def to_markdown(self, limits: Limits | None = None) -> str:
        """The table of trials; with `limits` a column says which keep to them."""
        head = ["optimizations", "s", "peak MiB", "weights MiB", "error"] + (["limits"] if limits else [])
        lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
        for trial in self.trials:
            if trial.failure:
                row = [trial.title, trial.failure, "", "", ""]
            else:
                row = [
                    trial.title,
                    f"{trial.seconds:.3f}",
                    f"{trial.peak_bytes / 2**20:.1f}",
                    f"{trial.weight_bytes / 2**20:.1f}",
                    f"{trial.error:.2e}",
                ]
            if limits:
                row.append(", ".join(limits.excess(trial)) or "kept")
            lines.append("| " + " | ".join(cell.replace("|", "/") for cell in row) + " |")
        return "\n".join(lines)

    def save(self, path: str | Path, limits: Limits | None = None) -> None:
        """Writes the table as a Markdown file."""
        Path(path).write_text(self.to_markdown(limits) + "\n", encoding="utf-8")
