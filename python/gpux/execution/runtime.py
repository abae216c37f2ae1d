"""GPUXRuntime: one model in this process."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..configuration.model_file import Preprocessing
from ..errors import InputError, ModelError, ProviderError
from ..inspection.files import open_model
from ..providers import (
    Choice,
    ProviderManager,
    SessionSettings,
    for_memory,
    make_session,
    plain_message,
    taken_providers,
    versions,
)
from ..tensors import Array, TensorSpec, check_inputs, check_types, flexible_batch, make_spec
from .inputs import random_inputs, read_inputs
from .measurement import Measurement, measure
from .preprocessing import TextEncoder


class GPUXRuntime:
    """Loads a model on the best provider, or on the one that `provider` names, and runs it.

    `memory` is a limit in bytes on the provider's device, `threads` those of one inference (0: ONNX Runtime's choice),
    `ordinal` the device among several. infer() may be called from several threads at a time; load_model() may not.
    """

    def __init__(
        self,
        provider: str = "auto",
        *,
        memory: int | None = None,
        threads: int = 0,
        ordinal: int = 0,
        manager: ProviderManager | None = None,
    ) -> None:
        self._manager = manager or ProviderManager()
        self.choice: Choice = for_memory(self._manager.get_best_provider(provider), memory)
        self._settings = SessionSettings(ordinal=ordinal, memory=memory, threads=threads)
        self._session: Any = None
        self._encoder: TextEncoder | None = None
        self.preprocessing = Preprocessing()
        self.inputs: dict[str, TensorSpec] = {}
        self.outputs: dict[str, TensorSpec] = {}

    def load_model(
        self, path: str | Path, preprocessing: Preprocessing | None = None, tokenizer: Path | None = None
    ) -> None:
        """Opens a model's file in place of the one before; ModelError says what is wrong with it."""
        checked = open_model(Path(path))
        session = make_session(checked.path, self.choice, self._settings)
        inputs = [make_spec(each.name, each.type, each.shape) for each in session.get_inputs()]
        outputs = [make_spec(each.name, each.type, each.shape) for each in session.get_outputs()]
        check_types(inputs, outputs)
        self._encoder = TextEncoder(tokenizer) if tokenizer is not None else None
        self.preprocessing = preprocessing or Preprocessing()
        self.inputs = {spec.name: spec for spec in inputs}
        self.outputs = {spec.name: spec for spec in outputs}
        self._session = session

    @property
    def encoder(self) -> TextEncoder | None:
        """The model's tokenizer, if it has one."""
        return self._encoder

    @property
    def joins_batches(self) -> bool:
        """Whether all inputs and outputs share a free first axis."""
        return flexible_batch(list(self.inputs.values()), list(self.outputs.values()))

    def infer(self, inputs: dict[str, Array], outputs: list[str] | None = None) -> dict[str, Array]:
        """Runs the model on arrays of its dtypes and shapes; gives all outputs, or those named, by name.

        InputError if the inputs are not what the model takes, ProviderError if it fails while it runs.
        """
        self._need_model()
        check_inputs(inputs, self.inputs)
        names = list(self.outputs) if outputs is None else outputs
        for name in names:
            if name not in self.outputs:
                raise InputError(f"the model has no output {name[:100]!r}; it has {', '.join(self.outputs)}")
        return dict(zip(names, self.run_unchecked(names, inputs)))

    def run_unchecked(self, names: list[str], inputs: dict[str, Array]) -> list[Array]:
        """The same without checks, for those who checked already."""
        try:
            results: list[Array] = self._session.run(names, inputs)
        except Exception as error:  # ONNX Runtime's classes have no common base
            raise ProviderError(f"the model failed on {self.choice.provider.title}: {plain_message(error)}") from None
        return results

    def infer_file(self, path: str | Path) -> dict[str, Array]:
        """Reads inputs from a file (.json, .npy, .npz, an image, a text) and runs the model on them."""
        self._need_model()
        return self.infer(read_inputs(Path(path), self.inputs, self.preprocessing, self._encoder))

    def benchmark(
        self,
        inputs: dict[str, Array] | None = None,
        *,
        runs: int = 100,
        warmup: int = 10,
        batch: int = 1,
        progress: Callable[[int], None] | None = None,
    ) -> Measurement:
        """Measures inferences one after the other; without inputs on random ones, `batch` for a free first axis."""
        self._need_model()
        if inputs is None:
            inputs = random_inputs(self.inputs, batch)
        check_inputs(inputs, self.inputs)
        names = list(self.outputs)
        first = next(iter(inputs.values()), None)
        size = first.shape[0] if self.joins_batches and first is not None else 1
        return measure(lambda: self.run_unchecked(names, inputs), runs, warmup, size, progress)

    def get_provider_info(self) -> dict[str, Any]:
        """Which provider was taken and why, what else there is, and versions; for JSON."""
        return {
            "provider": self.choice.name,
            "title": self.choice.provider.title,
            "session": taken_providers(self._session) if self._session is not None else [],
            "devices": self.choice.device_count,
            "warnings": list(self.choice.warnings),
            "available": self._manager.get_available_providers(),
            "missing": {state.provider.name: state.reason for state in self._manager.states() if not state.available},
            "versions": versions(),
        }

    def _need_model(self) -> None:
        if self._session is None:
            raise ModelError("no model is loaded: call load_model() first")
