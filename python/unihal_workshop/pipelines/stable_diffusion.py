"""Stable Diffusion on a small card: diffusers' pipeline, with parts in few bits, in host memory, or tiled.

model = StableDiffusionInference("folder/of/stable-diffusion-v1-5", bits=8, offload="parts", vae_tile=256)
result = model.run({"prompt": "a lighthouse at dusk", "steps": 20}, seed=1)
save_image(result.output, "lighthouse.png")
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor, nn

from ..errors import InputError, ModelError
from ..inference import Interrupted, PlanStage, Run
from ..naming import nearest
from .base import COMMON_OPTIONS, TorchPipeline, default_dtype
from .diffusion_variants import VARIANTS
from .tokens import WordTokenizer

SCHEDULERS = ("dpm++", "ddim", "lcm")


class Decode(nn.Module):
    """The way from latents to pixels of an AutoencoderKL, as a module: tiles and slices as the autoencoder is set."""

    def __init__(self, vae: Any) -> None:
        super().__init__()
        self.vae = vae

    def forward(self, latents: Tensor) -> Tensor:
        """(batch, 4, h, w) -> (batch, 3, 8 h, 8 w), about -1 to 1."""
        pixels: Tensor = self.vae.decode(latents / self.vae.config.scaling_factor, return_dict=False)[0]
        return pixels


def _pipeline_class() -> Any:
    from diffusers import StableDiffusionPipeline

    class Pipeline(StableDiffusionPipeline):
        """diffusers' pipeline on a device that is said, not guessed from where weights lie at the moment."""

        workshop_device = torch.device("cpu")

        @property
        def _execution_device(self) -> torch.device:
            return self.workshop_device

    return Pipeline


def _scheduler(name: str, schedule: Mapping[str, Any]) -> Any:
    import diffusers

    if name == "dpm++":
        return diffusers.DPMSolverMultistepScheduler.from_config(
            dict(schedule), algorithm_type="dpmsolver++", solver_order=2
        )
    if name == "ddim":
        return diffusers.DDIMScheduler.from_config(dict(schedule), clip_sample=False, set_alpha_to_one=False)
    return diffusers.LCMScheduler.from_config(dict(schedule))


class StableDiffusionInference(TorchPipeline):
    """Pictures from texts, by Stable Diffusion 1.x and its distilled variants.

    `source`: a local folder as diffusers saves it; `{"variant": "sd15"}` (also `base`, `small`, `tiny`, `lcm`), or
    `{"unet": {...}, "vae": {...}, "text_encoder": {...}}` with configurations, for random weights; None is `sd15`.

    Besides the options of all pipelines: `scheduler` (`"dpm++"`, `"ddim"`, `"lcm"`; None: what the model brings),
    `vae_tile` (pixels of a side that are decoded at a time; 0: all), `attention_slice` (heads at a time; 0: all).

    `output` is uint8, (height, width, 3), or with several images (count, height, width, 3). The latents of the last run
    are `latents`, float32, (count, 4, height / 8, width / 8). Random numbers are drawn on the host: a seed gives the
    same noise on every device. After an interrupt the output is the picture that the steps so far come to.
    """

    description = "pictures from texts: Stable Diffusion 1.x and its distilled variants (diffusers)"
    input_defaults: ClassVar[Mapping[str, tuple[str, Any]]] = {
        "prompt": ("what the picture shows", "a lighthouse at dusk"),
        "negative_prompt": ("what it should not show", ""),
        "steps": ("denoising steps", 20),
        "guidance": ("how closely it keeps to the prompt; 1 or less: the prompt alone, in half the time", 7.5),
        "width": ("pixels, a multiple of 8", 512),
        "height": ("pixels, a multiple of 8", 512),
        "images": ("pictures of one run", 1),
    }
    option_defaults: ClassVar[Mapping[str, Any]] = {
        **COMMON_OPTIONS,
        "scheduler": None,
        "vae_tile": 0,
        "attention_slice": 0,
    }
    optimizations: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        **TorchPipeline.optimizations,
        "tiled VAE": {"vae_tile": 256},
        "sliced attention": {"attention_slice": 1},
        "no fusion": {"fuse": False},
    }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        chosen = self.options["scheduler"]
        if chosen is not None and chosen not in SCHEDULERS:
            raise ModelError(f"the option scheduler is {chosen!r}{nearest(str(chosen), SCHEDULERS)}")
        tile = self.options["vae_tile"]
        if isinstance(tile, bool) or not isinstance(tile, int) or tile < 0 or tile % 8 or 0 < tile < 32:
            raise ModelError(f"the option vae_tile is {tile!r}; expected 0 or a multiple of 8 pixels from 32")
        self.latents: np.ndarray[Any, Any] | None = None
        self._pipe: Any = None
        self._tokenizer: Any = None
        self._checker: Any = None
        self._preview_map: np.ndarray[Any, Any] | None = None

    # -- parts ------------------------------------------------------------------------------------------------------

    def _configuration(self) -> dict[str, Any]:
        """The configuration in `source`, or that of the folder's files."""
        folder = self.folder
        if folder is not None:
            found: dict[str, Any] = {}
            for part in ("unet", "vae", "text_encoder"):
                path = folder / part / "config.json"
                if not path.is_file():
                    raise ModelError(f"{path} is missing: expected a folder that diffusers saved")
                found[part] = json.loads(path.read_text(encoding="utf-8"))
            path = folder / "scheduler" / "scheduler_config.json"
            found["schedule"] = json.loads(path.read_text(encoding="utf-8")) if path.is_file() else {}
            return {**VARIANTS["sd15"], **found}
        given = self.given_configuration("sd15")
        known = {"variant", *VARIANTS["sd15"]}
        for key in given:
            if key not in known:
                raise ModelError(f"the configuration has {key!r}{nearest(key, known)}")
        variant = given.get("variant", "sd15")
        if variant not in VARIANTS:
            raise ModelError(f"there is no variant {variant!r}{nearest(str(variant), VARIANTS)}")
        merged = dict(VARIANTS[variant])
        for key, value in given.items():
            if key in ("unet", "vae", "text_encoder", "schedule"):
                merged[key] = {**merged[key], **value}
            elif key != "variant":
                merged[key] = value
        return merged

    def _make_parts(self) -> dict[str, nn.Module]:
        from diffusers import AutoencoderKL, UNet2DConditionModel
        from transformers import CLIPTextConfig, CLIPTextModel

        is_meta = torch.get_default_device().type == "meta"
        folder = self.folder
        if folder is not None and not is_meta:
            return self._load_folder()
        configuration = self._configuration()
        with default_dtype(self.torch_dtype):
            parts = {
                "text_encoder": CLIPTextModel(CLIPTextConfig(**_plain(configuration["text_encoder"]))),
                "unet": UNet2DConditionModel.from_config(_plain(configuration["unet"])),
                "vae": AutoencoderKL.from_config(_plain(configuration["vae"])),
            }
        # Rotary and position buffers keep the dtypes that the libraries gave them; floating parameters are one dtype.
        self._settings(parts)
        return parts

    def _load_folder(self) -> dict[str, nn.Module]:
        try:
            pipe = _pipeline_class().from_pretrained(
                str(self.folder), torch_dtype=self.torch_dtype, local_files_only=True
            )
        except (OSError, ValueError) as error:
            raise ModelError(f"{self.folder} could not be loaded: {error}") from error
        self._tokenizer = pipe.tokenizer
        self._checker = pipe.feature_extractor if pipe.safety_checker is not None else None
        parts = {"text_encoder": pipe.text_encoder, "unet": pipe.unet, "vae": pipe.vae}
        if pipe.safety_checker is not None:
            parts["safety_checker"] = pipe.safety_checker
        self._settings(parts)
        return parts

    def _settings(self, parts: Mapping[str, Any]) -> None:
        tile = self.options["vae_tile"]
        if tile:
            vae = parts["vae"]
            factor = 2 ** (len(vae.config.block_out_channels) - 1)
            vae.enable_tiling()
            vae.tile_sample_min_size, vae.tile_latent_min_size = tile, max(1, tile // factor)
        if self.options["attention_slice"]:
            parts["unet"].set_attention_slice(self.options["attention_slice"])

    def _assemble(self, parts: Mapping[str, Any]) -> None:
        configuration = self._configuration()
        brought = configuration.get("scheduler") or "dpm++"
        chosen = self.options["scheduler"] or (brought if brought in SCHEDULERS else "dpm++")
        schedule = {key: value for key, value in configuration["schedule"].items() if not key.startswith("_")}
        self._pipe = _pipeline_class()(
            vae=parts["vae"],
            text_encoder=parts["text_encoder"],
            tokenizer=self._tokenizer,
            unet=parts["unet"],
            scheduler=_scheduler(chosen, schedule),
            safety_checker=parts.get("safety_checker"),
            feature_extractor=self._checker,
            requires_safety_checker=parts.get("safety_checker") is not None,
        )
        self._pipe.workshop_device = torch.device(self.device)
        self._pipe.set_progress_bar_config(disable=True)

    def _unload(self) -> None:
        super()._unload()
        self._pipe = self._tokenizer = self._checker = self._preview_map = None

    # -- running ----------------------------------------------------------------------------------------------------

    def check_inputs(self, inputs: Mapping[str, Any]) -> dict[str, Any]:
        """The inputs with defaults; sizes and counts that make no picture are InputErrors."""
        given = super().check_inputs(inputs)
        for name in ("steps", "width", "height", "images"):
            value = given[name]
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                raise InputError(f"the input {name!r} is {value!r}; expected a whole number from 1")
        for name in ("width", "height"):
            if given[name] % 8:
                raise InputError(f"the input {name!r} is {given[name]}; expected a multiple of 8 pixels")
        if given["steps"] > 1000:
            raise InputError(f"the input 'steps' is {given['steps']}; models are trained on 1000")
        for name in ("prompt", "negative_prompt"):
            if not isinstance(given[name], str):
                raise InputError(f"the input {name!r} is {given[name]!r}; expected a text")
        guidance = given["guidance"]
        if isinstance(guidance, bool) or not isinstance(guidance, (int, float)) or not np.isfinite(guidance):
            raise InputError(f"the input 'guidance' is {guidance!r}; expected a number")
        return given

    def _is_guided(self, configuration: Mapping[str, Any], guidance: float) -> bool:
        """Whether the batch has a second half without the prompt: not where the guidance is an input of the UNet."""
        return guidance > 1 and configuration["unet"].get("time_cond_proj_dim") is None

    def _tokens(self, text: str) -> Tensor:
        config = self._parts["text_encoder"].config
        if self._tokenizer is None:
            numbers = WordTokenizer(config.vocab_size, config.max_position_embeddings).encode(text)
            return torch.tensor([numbers])
        ids: Tensor = self._tokenizer(
            text,
            padding="max_length",
            max_length=self._tokenizer.model_max_length,
            truncation=True,
            return_tensors="pt",
        ).input_ids
        return ids

    @torch.no_grad()
    def _run(self, inputs: Mapping[str, Any], run: Run) -> Any:
        steps, count = inputs["steps"], inputs["images"]
        guided = self._is_guided({"unet": self._pipe.unet.config}, inputs["guidance"])
        self.use("text_encoder")
        texts = [inputs["negative_prompt"], inputs["prompt"]] if guided else [inputs["prompt"]]
        ids = torch.cat([self._tokens(text) for text in texts]).to(self.device)
        embeddings = self._pipe.text_encoder(ids)[0]
        if run.wants_preview(0) or any(run.wants_preview(step) for step in range(1, steps + 1)):
            self._fit_preview()
        channels = self._pipe.unet.config.in_channels
        factor = self._pipe.vae_scale_factor
        shape = (count, channels, inputs["height"] // factor, inputs["width"] // factor)
        noise = torch.randn(shape, generator=torch.Generator().manual_seed(run.seed))
        latest: list[Tensor] = []

        def after_step(_: Any, step: int, __: Any, values: dict[str, Any]) -> dict[str, Any]:
            latest[:] = [values["latents"]]
            # Without a preview nothing asks the device, and the host runs ahead; an interrupt then comes a little late.
            preview = self._preview(values["latents"]) if run.wants_preview(step + 1) else None
            run.step(step + 1, steps, "denoise", preview)
            return values

        self.use("unet")
        try:
            latents = self._pipe(
                prompt_embeds=embeddings[-1:],
                negative_prompt_embeds=embeddings[:1] if guided else None,
                num_inference_steps=steps,
                guidance_scale=inputs["guidance"],
                num_images_per_prompt=count,
                latents=noise.to(self.device, self.torch_dtype),
                generator=torch.Generator().manual_seed(run.seed ^ 0x5DEECE66D),
                output_type="latent",
                callback_on_step_end=after_step,
            ).images
        except Interrupted:
            if latest:
                run.partial = self._pixels(latest[0])
            raise
        output = self._pixels(latents, run.details)
        run.details.update(
            {"steps": steps, "scheduler": type(self._pipe.scheduler).__name__, "size": [*output.shape[-3:-1]]}
        )
        return output

    def _pixels(self, latents: Tensor, details: dict[str, Any] | None = None) -> np.ndarray[Any, Any]:
        self.use("vae")
        # Several pictures one after the other: the decoder takes more memory than all else.
        decoded = [Decode(self._pipe.vae)(one).float().cpu() for one in latents.split(1)]
        pixels = torch.cat(decoded).div(2).add(0.5).clamp(0, 1)
        if "safety_checker" in self._parts and details is not None:
            self.use("safety_checker")
            checked, flags = self._pipe.run_safety_checker(
                pixels.mul(2).sub(1).to(self.device, self.torch_dtype), torch.device(self.device), self.torch_dtype
            )
            details["not_safe"] = [bool(flag) for flag in flags]
            pixels = checked.float().cpu().div(2).add(0.5).clamp(0, 1)
        self.latents = latents.float().cpu().numpy()
        array = pixels.mul(255).round().to(torch.uint8).permute(0, 2, 3, 1).contiguous().numpy()
        return array[0] if len(array) == 1 else array

    def output_array(self, output: Any) -> np.ndarray[Any, Any]:
        """What errors are measured on: the latents of the last run, before they are rounded to pixels."""
        if self.latents is None:
            raise ModelError("there was no run")
        return self.latents

    # -- previews ---------------------------------------------------------------------------------------------------

    def _fit_preview(self) -> None:
        """Finds the linear map from a latent to its colour that is nearest to the decoder, on a few random latents."""
        if self._preview_map is not None:
            return
        self.use("vae")
        size = 16
        latents = torch.randn((2, 4, size, size), generator=torch.Generator().manual_seed(0))
        latents = latents * torch.tensor([0.5, 1.0]).view(2, 1, 1, 1)
        pixels = Decode(self._pipe.vae)(latents.to(self.device, self.torch_dtype)).float().cpu()
        means = torch.nn.functional.adaptive_avg_pool2d(pixels, size)
        a = latents.permute(0, 2, 3, 1).reshape(-1, 4).numpy()
        a = np.concatenate([a, np.ones((len(a), 1), a.dtype)], 1)
        b = means.permute(0, 2, 3, 1).reshape(-1, 3).numpy()
        if np.isfinite(b).all():
            self._preview_map = np.linalg.lstsq(a, b, rcond=None)[0]
        else:
            self._preview_map = np.zeros((5, 3), np.float32)

    def _preview(self, latents: Tensor) -> np.ndarray[Any, Any] | None:
        """A small picture of latents: one pixel each."""
        if self._preview_map is None:
            return None
        values = latents[0].float().cpu().permute(1, 2, 0).numpy()
        colours = values @ self._preview_map[:4] + self._preview_map[4]
        colours = np.nan_to_num(colours)
        pixels: np.ndarray[Any, Any] = (np.clip(colours / 2 + 0.5, 0, 1) * 255).round().astype(np.uint8)
        return pixels

    # -- planning ---------------------------------------------------------------------------------------------------

    def plan_stages(self, inputs: Mapping[str, Any] | None = None) -> list[PlanStage]:
        """The text encoder once, the UNet a step, the decoder once; by shapes alone."""
        given = self.check_inputs(inputs or {})
        parts: Any = self.plan_parts()
        configuration = self._configuration()
        guided = self._is_guided(configuration, given["guidance"])
        unet, vae, text = parts["unet"], parts["vae"], parts["text_encoder"]
        factor = 2 ** (len(vae.config.block_out_channels) - 1)
        rows = given["images"] * (2 if guided else 1)
        dtype = self.torch_dtype
        with torch.device("meta"):
            ids = torch.empty((2 if guided else 1, text.config.max_position_embeddings), dtype=torch.int64)
            size = (given["height"] // factor, given["width"] // factor)
            sample = torch.empty((rows, unet.config.in_channels, *size), dtype=dtype)
            context = torch.empty((rows, text.config.max_position_embeddings, text.config.hidden_size), dtype=dtype)
            step: dict[str, Any] = {"encoder_hidden_states": context, "return_dict": False}
            if unet.config.time_cond_proj_dim is not None:
                step["timestep_cond"] = torch.empty((rows, unet.config.time_cond_proj_dim), dtype=dtype)
            time = torch.empty((), dtype=torch.int64)
            latents = torch.empty((1, unet.config.in_channels, *size), dtype=dtype)
        return [
            self.stage("text encoder", text, ids),
            self.stage("UNet", unet, sample, time, repeats=given["steps"], **step),
            self.stage("decoder", Decode(vae), latents, repeats=given["images"], part=vae),
        ]


def _plain(configuration: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration without what libraries write for themselves."""
    return {key: value for key, value in configuration.items() if not key.startswith("_") and key != "architectures"}
