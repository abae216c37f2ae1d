"""Runs models of keras_hub, or what Keras 2 (tf_keras) has, on the CPU and on the device: the child of
test_tensorflow_projects.py.

    python run_keras.py hub|legacy [CASE ...] [--part I --of N]

For each case a line of JSON comes: its name, what differed or failed ("" for neither), and its seconds."""

from __future__ import annotations

import argparse
import gc
import importlib
import json
import time
from collections.abc import Callable, Iterator
from typing import Any

import keras_cases
import numpy as np
from keras_cases import Case


def generation_of(models: Any, name: str, inputs: Any) -> Callable[[Any], Any] | None:
    """Greedy generation, of a model that generates without a preprocessor."""
    kind = getattr(models, name, None)
    if kind is None or not issubclass(kind, (models.CausalLM, models.Seq2SeqLM)):
        return None

    def generate(model: Any) -> Any:
        model.compile(sampler="greedy")
        values = dict(inputs(model))
        prefix = "decoder_" if "decoder_token_ids" in values else ""
        mask = np.ones_like(values[f"{prefix}padding_mask"])
        mask[:, mask.shape[1] // 2 :] = 0  # to be generated
        values[f"{prefix}padding_mask"] = mask
        return model.generate(values, stop_token_ids=None)

    return generate


def hub() -> Iterator[Case]:
    import keras
    import keras_hub_models
    from keras_hub import models

    limits = keras_hub_models.TRAINING_LIMITS

    def run(name: str) -> str:
        inputs = lambda model: keras_hub_models.inputs_of(name, model)  # noqa: E731
        return keras_cases.run_model(
            keras,
            lambda: keras_hub_models.build(name),
            inputs,
            None if name in keras_hub_models.DO_NOT_GENERATE else generation_of(models, name, inputs),
            None if name in keras_hub_models.INFERENCE_ONLY else limits.get(name, keras_cases.LIMIT),
        )

    for name in keras_hub_models.all_models():
        yield name, lambda name=name: run(name)


def legacy() -> Iterator[Case]:
    yield from importlib.import_module("legacy_keras").legacy()


PROJECTS: dict[str, Callable[[], Iterator[Case]]] = {"hub": hub, "legacy": legacy}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("project", choices=PROJECTS)
    parser.add_argument("cases", nargs="*")
    parser.add_argument("--part", type=int, default=0, help="of so many, that each case is in one of")
    parser.add_argument("--of", type=int, default=1)
    arguments = parser.parse_args()
    clear = importlib.import_module("keras" if arguments.project == "hub" else "tf_keras").backend.clear_session
    for number, (name, run) in enumerate(PROJECTS[arguments.project]()):
        if name not in arguments.cases if arguments.cases else number % arguments.of != arguments.part:
            continue
        start = time.monotonic()
        found = run()
        seconds = round(time.monotonic() - start, 1)
        print(json.dumps({"model": name, "found": found, "seconds": seconds}), flush=True)
        clear()
        gc.collect()


if __name__ == "__main__":
    main()
