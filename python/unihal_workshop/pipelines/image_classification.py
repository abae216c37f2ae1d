"""What a picture shows: ResNet and ViT, from a folder or with random weights.

model = ImageClassification("folder/of/a/resnet")
print(model.run({"images": "cat.png"}).output[0])
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import InputError, ModelError
from ..inference import PlanStage, Run
from .base import COMMON_OPTIONS, TorchPipeline, default_dtype
from .transformers_configuration import transformers_configuration

#: Configurations of transformers, for random weights.
VARIANTS: dict[str, dict[str, Any]] = {
    "resnet50": {"model_type": "resnet", "num_labels": 1000},
    "vit-base": {"model_type": "vit", "num_labels": 1000, "image_size": 224},
    "test": {
        "model_type": "resnet",
        "num_labels": 10,
        "embedding_size": 16,
        "hidden_sizes": [16, 32],
        "depths": [1, 1],
        "layer_type": "basic",
    },
}

#: Of ImageNet, which most folders are trained on; a folder's own preprocessor_config.json wins.
MEAN, DEVIATION = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class ImageClassification(TorchPipeline):
    """Classes of pictures, by a classifier of transformers (ResNet, ViT, ConvNeXt, ...).

    `source`: a local folder as transformers saves it; `{"variant": "resnet50"}` (also `vit-base`), or a configuration
    with its `model_type`, for random weights; None is `resnet50`. `batch` is an option: pictures at a time, 0: all.

    `output` is a list with one entry a picture, a list of `{"label", "index", "probability"}`, the likeliest first.
    `logits` of the last run are float32, (pictures, classes). After an interrupt the pictures so far are the output.
    """

    description = "classes of pictures: ResNet, ViT and other classifiers of transformers"
    input_defaults: ClassVar[Mapping[str, tuple[str, Any]]] = {
        "images": (
            "a file, a list of files, or a uint8 array (count, height, width, 3); a number: so many of noise",
            1,
        ),
        "top": ("classes of each picture", 5),
    }
    option_defaults: ClassVar[Mapping[str, Any]] = {**COMMON_OPTIONS, "batch": 0, "size": 224}
    batch_input: ClassVar[str] = "images"

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        for name, least in (("batch", 0), ("size", 16)):
            value = self.options[name]
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ModelError(f"the option {name} is {value!r}; expected a whole number from {least}")
        self.logits: np.ndarray[Any, Any] | None = None
        self._mean, self._deviation = MEAN, DEVIATION

    def _configuration(self) -> Any:
        return transformers_configuration(self, VARIANTS, "resnet50", "'resnet' or 'vit'")

    def _make_parts(self) -> dict[str, nn.Module]:
        from transformers import AutoModelForImageClassification

        folder = self.folder
        if folder is not None and torch.get_default_device().type != "meta":
            path = folder / "preprocessor_config.json"
            if path.is_file():
                given = json.loads(path.read_text(encoding="utf-8"))
                self._mean = tuple(given.get("image_mean", MEAN))
                self._deviation = tuple(given.get("image_std", DEVIATION))
            try:
                model = AutoModelForImageClassification.from_pretrained(
                    str(folder), dtype=self.torch_dtype, local_files_only=True
                )
            except (OSError, ValueError) as error:
                raise ModelError(f"{folder} could not be loaded: {error}") from error
            return {"classifier": model}
        try:
            with default_dtype(self.torch_dtype):
                return {"classifier": AutoModelForImageClassification.from_config(self._configuration())}
        except ValueError as error:
            raise ModelError(f"no classifier: {error}") from error

    # -- pictures ---------------------------------------------------------------------------------------------------

    def _pictures(self, images: Any, seed: int) -> Tensor:
        """uint8 (count, size, size, 3), cut square and scaled."""
        size = self.options["size"]
        if isinstance(images, int) and not isinstance(images, bool):
            if images < 1:
                raise InputError(f"the input 'images' is {images}; expected 1 or more")
            generator = torch.Generator().manual_seed(seed)
            return torch.randint(0, 256, (images, size, size, 3), generator=generator, dtype=torch.uint8)
        if isinstance(images, (str, Path)):
            images = [images]
        if isinstance(images, Sequence):
            if not images:
                raise InputError("the input 'images' is an empty list")
            return torch.stack([torch.from_numpy(self._file(path, size)) for path in images])
        array = np.asarray(images)
        if array.ndim == 3:
            array = array[None]
        if array.dtype != np.uint8 or array.ndim != 4 or array.shape[3] != 3 or 0 in array.shape:
            raise InputError(f"'images': expected uint8 (count, height, width, 3), not {array.dtype} {array.shape}")
        return torch.stack([torch.from_numpy(self._fit(picture, size)) for picture in array])

    def _file(self, path: Any, size: int) -> np.ndarray[Any, Any]:
        from PIL import Image, UnidentifiedImageError

        if not isinstance(path, (str, Path)):
            raise InputError(f"'images' has {path!r}; expected paths of files")
        try:
            with Image.open(path) as picture:
                return self._fit(np.asarray(picture.convert("RGB")), size)
        except (OSError, UnidentifiedImageError) as error:
            raise InputError(f"{path} is no picture that can be read: {error}") from error

    @staticmethod
    def _fit(array: np.ndarray[Any, Any], size: int) -> np.ndarray[Any, Any]:
        from PIL import Image

        if array.shape[:2] == (size, size):
            return np.array(array)
        side = min(array.shape[:2])
        top, left = (array.shape[0] - side) // 2, (array.shape[1] - side) // 2
        square = Image.fromarray(np.ascontiguousarray(array[top : top + side, left : left + side]))
        return np.array(square.resize((size, size), Image.Resampling.BILINEAR))

    # -- running ----------------------------------------------------------------------------------------------------

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs with defaults; `top` has to be a whole number from 1."""
        given = super().check_inputs(inputs)
        top = given["top"]
        if isinstance(top, bool) or not isinstance(top, int) or top < 1:
            raise InputError(f"the input 'top' is {top!r}; expected a whole number from 1")
        return given

    @torch.no_grad()
    def _run(self, inputs: Mapping[str, Any], run: Run) -> Any:
        pictures = self._pictures(inputs["images"], run.seed)
        self.use("classifier")
        model: Any = self._parts["classifier"]
        mean = torch.tensor(self._mean).view(1, 3, 1, 1)
        deviation = torch.tensor(self._deviation).view(1, 3, 1, 1)
        batches = pictures.split(self.options["batch"] or len(pictures))
        found: list[np.ndarray[Any, Any]] = []
        run.partial = []
        for number, batch in enumerate(batches):
            # On the host: the card holds pictures in the model's dtype only.
            pixels = batch.permute(0, 3, 1, 2).to(torch.float32) / 255
            pixels = ((pixels - mean) / deviation).to(self.torch_dtype).contiguous().to(self.device)
            found.append(model(pixels).logits.float().cpu().numpy())
            run.partial = run.partial + self._classes(found[-1], inputs["top"])
            run.step(number + 1, len(batches), "classify")
        self.logits = np.concatenate(found)
        run.details["pictures"] = len(pictures)
        return run.partial

    def _classes(self, logits: np.ndarray[Any, Any], top: int) -> list[list[dict[str, Any]]]:
        labels = getattr(self._parts["classifier"].config, "id2label", {}) or {}
        chances = np.exp(logits - logits.max(1, keepdims=True))
        chances /= chances.sum(1, keepdims=True)
        return [
            [
                {"label": str(labels.get(int(i), int(i))), "index": int(i), "probability": float(row[i])}
                for i in np.argsort(-row, kind="stable")[:top]
            ]
            for row in chances
        ]

    def output_array(self, output: Any) -> np.ndarray[Any, Any]:
        """What errors are measured on: the logits of the last run."""
        if self.logits is None:
            raise ModelError("there was no run")
        return self.logits

    def batch_of(self, inputs: Mapping[str, Any]) -> int | None:
        """All pictures at a time, unless the option says how many."""
        return None if self.options["batch"] else super().batch_of(inputs)

    # -- planning ---------------------------------------------------------------------------------------------------

    def plan_stages(self, inputs: Mapping[str, Any] | None = None) -> list[PlanStage]:
        """The classifier on a batch; by shapes alone."""
        images = self.check_inputs(inputs or {})["images"]
        if isinstance(images, (str, Path)):
            count = 1
        elif isinstance(images, int):
            count = images
        else:
            count = 1 if getattr(images, "ndim", 4) == 3 else len(images)
        batch = min(count, self.options["batch"] or count)
        size = self.options["size"]
        with torch.device("meta"):
            pixels = torch.empty((batch, 3, size, size), dtype=self.torch_dtype)
        module = self.plan_parts()["classifier"]
        return [self.stage("classifier", module, pixels, repeats=-(-count // batch), return_dict=False)]
