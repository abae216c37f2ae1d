"""The interface of models and the registry."""

from __future__ import annotations

import threading
from typing import ClassVar

import numpy as np
import pytest
import tiny
import unihal_workshop as workshop
from unihal_workshop import BaseInference, InputError, ModelError, Progress, create, register, registered
from unihal_workshop.planning.offloading import brought
from unihal_workshop.planning.planner import trace_stages


def test_the_same_seed_gives_the_same_output() -> None:
    model = create("tiny")
    first, again, other = (model.run({"width": 16}, seed=seed) for seed in (1, 1, 2))
    assert first.finished and first.steps == 4 and first.seed == 1
    assert first.peak_bytes > 0
    assert np.array_equal(first.output, again.output) and not np.array_equal(first.output, other.output)
    drawn = model.run({"width": 16})
    assert np.array_equal(drawn.output, model.run({"width": 16}, seed=drawn.seed).output)


def test_progress_and_previews() -> None:
    seen: list[Progress] = []
    create("tiny").run({"width": 8}, on_progress=seen.append, preview_every=2)
    assert [(each.step, each.total, each.stage) for each in seen] == [(n, 4, "drawing") for n in (1, 2, 3, 4)]
    assert [each.preview is not None for each in seen] == [False, True, False, True]
    assert all(a.seconds <= b.seconds for a, b in zip(seen, seen[1:]))


def test_an_interrupt_keeps_what_was_made() -> None:
    model = create("endless")
    begun = threading.Event()

    def progress(at: Progress) -> None:
        if at.step == 5:
            begun.set()

    results: list[workshop.Result] = []
    thread = threading.Thread(target=lambda: results.append(model.run(on_progress=progress)))
    thread.start()
    assert begun.wait(30)
    model.interrupt()
    thread.join(30)
    assert not results[0].finished and results[0].steps >= 5
    assert results[0].output == f"counted to {results[0].steps}"


def test_an_error_of_the_model_passes() -> None:
    with pytest.raises(ValueError, match="thirteen"):
        create("tiny").run({"steps": 13})


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda: create("tony"), ModelError, "did you mean tiny"),
        (lambda: create("tiny", hiden=3), ModelError, "did you mean hidden"),
        (lambda: create("tiny").run({"widht": 3}), ModelError, "did you mean width"),
        (lambda: create("tiny").run(seed=-1), ModelError, "seed -1"),
        (lambda: register("tiny")(tiny.Endless), ModelError, "is taken by"),
        (lambda: register("x")(int), ModelError, "expected a subclass"),  # type: ignore[type-var]
        (lambda: create("tiny").replace_module("a", None), ModelError, "no part 'a'"),
        (lambda: workshop.plan(create("endless"), {}, "rx580-4gb"), ModelError, "cannot be planned"),
        (lambda: workshop.plan(create("tiny"), 3, "rx580-4gb"), InputError, "a mapping of names"),
    ],
)
def test_mistakes(call: object, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said):
        call()  # type: ignore[operator]


def test_a_required_input() -> None:
    @register("asks")
    class Asks(BaseInference):
        input_defaults: ClassVar = {"prompt": ("what to draw", None)}

        def _load(self) -> None:
            pass

        def _run(self, inputs: object, run: workshop.Run) -> object:
            return inputs

    assert registered()["asks"] is Asks
    with pytest.raises(ModelError, match="'prompt' is missing: what to draw"):
        create("asks").run()
    assert create("asks").run({"prompt": "x"}).output == {"prompt": "x"}


def test_a_plan_of_stages_is_the_runs_peak() -> None:
    inputs = {"width": 256}
    plan = workshop.plan(create("tiny", hidden=128), inputs, "rx580-4gb")
    result = create("tiny", hidden=128).run(inputs, seed=0)
    # The picture and its sum with the network's output are the model's own, beside the stage.
    beside = 2 * 256 * 256 * 3 * 4
    assert plan.peak_bytes <= result.peak_bytes <= plan.peak_bytes + 1.05 * beside


def test_stages_that_do_not_stay() -> None:
    import torch

    modules = [torch.nn.Linear(1024, 1024) for _ in range(2)]
    x = torch.empty(4, 1024, device="meta")

    def stages(resident: bool) -> list[workshop.PlanStage]:
        return [workshop.PlanStage(str(index), each, (x,), resident=resident) for index, each in enumerate(modules)]

    from unihal_workshop.planning.trace import replay

    both, alone = (replay(brought(trace_stages(stages(resident))).trace).peak_allocated for resident in (True, False))
    one = 1024 * 1024 * 4
    assert 2 * one < both < 2.1 * one and one < alone < 1.1 * one


def test_stages_of_one_module_have_its_weights_once() -> None:
    import torch
    from unihal_workshop.planning.trace import replay

    words, out = torch.nn.Embedding(4096, 256), torch.nn.Linear(256, 4096, bias=False)
    out.weight = words.weight  # tied between stages
    ids, x = (
        torch.empty(shape, dtype=dtype, device="meta") for shape, dtype in (((1, 4), torch.int64), ((1, 256), None))
    )
    for resident in (True, False):
        stages = [
            workshop.PlanStage("first", words, (ids,), resident=resident),
            workshop.PlanStage("again", words, (ids,), repeats=3, resident=resident),
            workshop.PlanStage("last", out, (x,), resident=resident),
        ]
        trace = trace_stages(stages)
        assert trace.total("weights") == 4096 * 256 * 4
        assert [op.times for op in trace.ops if op.name == "embedding"] == [1, 1.5, 1.5]
        moved = brought(trace)
        assert 4096 * 256 * 4 <= replay(moved.trace).peak_allocated < 1.1 * 4096 * 256 * 4
        # What is on the card stays there for the stage that has the same.
        assert moved.copied_bytes == (0 if resident else 4096 * 256 * 4)


def test_the_time_of_a_plan_is_of_all_steps() -> None:
    few, many = (workshop.plan(create("tiny"), {"steps": steps}, "rx580-4gb").seconds for steps in (2, 200))
    assert many == pytest.approx(100 * few)
