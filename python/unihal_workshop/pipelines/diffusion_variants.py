"""Configurations of Stable Diffusion, full and distilled: shapes alone, for models with random weights."""

from __future__ import annotations

from typing import Any

_TEXT = {
    "vocab_size": 49408,
    "hidden_size": 768,
    "intermediate_size": 3072,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "max_position_embeddings": 77,
    "hidden_act": "quick_gelu",
    "projection_dim": 768,
}
_VAE = {
    "block_out_channels": [128, 256, 512, 512],
    "down_block_types": ["DownEncoderBlock2D"] * 4,
    "up_block_types": ["UpDecoderBlock2D"] * 4,
    "layers_per_block": 2,
    "latent_channels": 4,
    "sample_size": 512,
    "scaling_factor": 0.18215,
}
_UNET = {
    "sample_size": 64,
    "cross_attention_dim": 768,
    "attention_head_dim": 8,
    "block_out_channels": [320, 640, 1280, 1280],
    "down_block_types": ["CrossAttnDownBlock2D"] * 3 + ["DownBlock2D"],
    "up_block_types": ["UpBlock2D"] + ["CrossAttnUpBlock2D"] * 3,
    "layers_per_block": 2,
}
_SCHEDULE = {
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "beta_schedule": "scaled_linear",
    "num_train_timesteps": 1000,
    "steps_offset": 1,
}


def _variant(unet: dict[str, Any], scheduler: str = "dpm++", **more: Any) -> dict[str, Any]:
    return {
        "unet": {**_UNET, **unet},
        "vae": _VAE,
        "text_encoder": _TEXT,
        "schedule": _SCHEDULE,
        "scheduler": scheduler,
        **more,
    }


#: `sd15` is Stable Diffusion 1.5; `base`, `small` and `tiny` have the blocks that BK-SDM's distillation leaves of it;
#: `lcm` takes the guidance as an input, for 2 to 8 steps without a second half of the batch; `test` is for tests.
VARIANTS: dict[str, dict[str, Any]] = {
    "sd15": _variant({}),
    "base": _variant({"layers_per_block": 1}),
    "small": _variant({"layers_per_block": 1, "mid_block_type": None}),
    "tiny": _variant(
        {
            "layers_per_block": 1,
            "mid_block_type": None,
            "block_out_channels": [320, 640, 1280],
            "down_block_types": ["CrossAttnDownBlock2D"] * 3,
            "up_block_types": ["CrossAttnUpBlock2D"] * 3,
        }
    ),
    "lcm": _variant({"time_cond_proj_dim": 256}, "lcm"),
    "test": {
        "unet": {
            "sample_size": 8,
            "cross_attention_dim": 32,
            "attention_head_dim": 4,
            "block_out_channels": [32, 64],
            "down_block_types": ["CrossAttnDownBlock2D", "DownBlock2D"],
            "up_block_types": ["UpBlock2D", "CrossAttnUpBlock2D"],
            "layers_per_block": 1,
            "norm_num_groups": 8,
        },
        "vae": {
            "block_out_channels": [16, 32],
            "down_block_types": ["DownEncoderBlock2D"] * 2,
            "up_block_types": ["UpDecoderBlock2D"] * 2,
            "layers_per_block": 1,
            "latent_channels": 4,
            "norm_num_groups": 8,
            "sample_size": 16,
            "scaling_factor": 0.18215,
        },
        "text_encoder": {
            "vocab_size": 1000,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 4,
            "max_position_embeddings": 16,
            "projection_dim": 32,
        },
        "schedule": _SCHEDULE,
        "scheduler": "dpm++",
    },
}
