"""A bar on the terminal for a run, with previews as a file that a viewer reloads."""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from ..inference import Progress


class ProgressBar:
    """Call it with each Progress: `model.run(inputs, on_progress=bar)`, inside of `with ProgressBar() as bar:`.

    `preview`: a file (PNG) that gets each preview that is an image; ask for previews with `preview_every`. Texts are
    shown beside the bar. `console`: rich's, for tests and logs.
    """

    def __init__(self, preview: str | Path | None = None, console: Any = None) -> None:
        from rich import progress

        self.preview = None if preview is None else Path(preview)
        self._bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TimeElapsedColumn(),
            progress.TimeRemainingColumn(),
            progress.TextColumn("{task.fields[text]}"),
            console=console,
        )
        self._tasks: dict[str, Any] = {}

    def __enter__(self) -> ProgressBar:
        self._bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._bar.stop()

    def __call__(self, progress: Progress) -> None:
        """Shows how far the run is."""
        stage = progress.stage or "run"
        if stage not in self._tasks:
            self._tasks[stage] = self._bar.add_task(stage, total=progress.total or None, text="")
        text = progress.preview[-40:].replace("\n", " ") if isinstance(progress.preview, str) else ""
        self._bar.update(
            self._tasks[stage], completed=progress.step, total=progress.total or None, text=text.replace("[", "\\[")
        )
        if isinstance(progress.preview, np.ndarray) and self.preview is not None:
            save_image(progress.preview, self.preview)


def save_image(pixels: Any, path: str | Path) -> None:
    """Writes a uint8 array (height, width, 3) as a PNG; a file that is there is replaced in one step."""
    from PIL import Image

    array = np.asarray(pixels)
    if array.dtype != np.uint8 or array.ndim != 3 or array.shape[2] != 3:
        raise ValueError(f"expected uint8 pixels (height, width, 3), not {array.dtype} {array.shape}")
    path = Path(path)
    unfinished = path.with_name(f".{path.name}.part")
    Image.fromarray(array).save(unfinished, format="PNG")
    unfinished.replace(path)
