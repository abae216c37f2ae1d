"""Models of a few layers that the workshop's tests register and run."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from unihal_workshop import BaseInference, PlanStage, Run, register


@register("tiny")
class Tiny(BaseInference):
    """Draws a picture of noise, a bit more of it in each step."""

    description = "noise, step by step"
    input_defaults: ClassVar = {"steps": ("how often", 4), "width": ("pixels", 64), "word": ("ignored", "a word")}
    option_defaults: ClassVar = {"hidden": 64, "bits": 0}

    def _make(self) -> torch.nn.Module:
        hidden = self.options["hidden"]
        return torch.nn.Sequential(torch.nn.Linear(3, hidden), torch.nn.ReLU(), torch.nn.Linear(hidden, 3))

    def _load(self) -> None:
        torch.manual_seed(0)
        self.network = self._make().to(self.device)

    def _run(self, inputs: Mapping[str, Any], run: Run) -> Any:
        if inputs["steps"] == 13:
            raise ValueError("thirteen")
        generator = torch.Generator().manual_seed(run.seed)
        picture = torch.rand(inputs["width"], inputs["width"], 3, generator=generator).to(self.device)
        with torch.no_grad():
            for step in range(1, inputs["steps"] + 1):
                picture = picture + 0.1 * self.network(picture)
                run.partial = self._shown(picture)
                run.step(step, inputs["steps"], "drawing", run.partial if run.wants_preview(step) else None)
        return run.partial

    @staticmethod
    def _shown(picture: torch.Tensor) -> Any:
        return (picture.clamp(0, 1) * 255).to(torch.uint8).cpu().numpy().astype(np.uint8)

    def plan_stages(self, inputs: Mapping[str, Any] | None = None) -> list[PlanStage]:
        given = self.check_inputs(inputs or {})
        with torch.device("meta"):
            network = self._make()
        picture = torch.empty(given["width"], given["width"], 3, device="meta")
        return [PlanStage("drawing", network, (picture,), repeats=given["steps"])]


@register("endless")
class Endless(BaseInference):
    """Counts until it is interrupted."""

    description = "a count without an end"
    input_defaults: ClassVar = {"mark": ("a file that is made when it has begun", "")}

    def _load(self) -> None:
        pass

    def _run(self, inputs: Mapping[str, Any], run: Run) -> Any:
        import time

        step = 0
        while True:
            step += 1
            run.partial = f"counted to {step}"
            if inputs["mark"] and step == 3:
                Path(inputs["mark"]).touch()
            run.step(step, 0, "counting")
            time.sleep(0.01)
