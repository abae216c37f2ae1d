"""Copies the model that the package magika ships to model.onnx beside this file, and makes its input of a file.

pip install magika
python prepare.py FILE          writes input.npy: the file's first and last kilobyte
python prepare.py               reads what `gpux run magika --input input.npy --json` prints, and says the kind
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import sys
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parent
SIDE = 1024  # bytes at each end
PADDING = 256


def shipped() -> Path:
    """The folder of the model in the package."""
    found = importlib.util.find_spec("magika")
    if found is None or found.origin is None:
        sys.exit("magika is missing: pip install magika")
    return Path(found.origin).parent / "models/standard_v3_3"


def features(data: bytes) -> np.ndarray:
    """What the model takes of a file: bytes [1, 2048], without the white space around them, padded in the middle."""
    begin, end = list(data[:4096].lstrip()[:SIDE]), list(data[-4096:].rstrip()[-SIDE:])
    padded = begin + [PADDING] * (2 * SIDE - len(begin) - len(end)) + end
    return np.array([padded], np.int32)


def main() -> None:
    """The command."""
    if len(sys.argv) > 1:
        shutil.copy(shipped() / "model.onnx", FOLDER)
        np.save(FOLDER / "input.npy", features(Path(sys.argv[1]).read_bytes()))
        return
    labels = json.loads((shipped() / "config.min.json").read_text())["target_labels_space"]
    [scores] = json.load(sys.stdin)["outputs"]["target_label"]
    best = int(np.argmax(scores))
    print(f"{labels[best]} ({scores[best]:.3f})")


if __name__ == "__main__":
    main()
