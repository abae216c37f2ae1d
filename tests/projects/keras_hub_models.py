"""Small configurations of what keras_hub.models exports: how each model is built, and what it is called with.

A constructor's arguments are taken from SMALL by their names, and from a row of BACKBONES or TASKS where a family has
arguments of its own. Inputs follow from the names, shapes and dtypes of a model's own inputs, and from a row of INPUTS
where numbers of that kind make no sense. What has no row, or does not take what SMALL gives, fails in run_keras.py.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import keras_hub
import numpy as np
from keras_hub import layers, models
from keras_hub.src.models.mobilenetv5.mobilenetv5_builder import convert_arch_def_to_stackwise
from keras_hub.src.models.rqvae.rqvae_backbone import RQVAEBackbone
from keras_hub.src.models.vae.vae_backbone import VAEBackbone

#: What makes a model of a family small, under the names that constructors give it.
SMALL: dict[str, Any] = {
    "attention_bias": False, "attention_dropout": 0.1, "block_type": "basic_block", "decoder_hidden_dim": 32,
    "decoder_mlp_dim": 64, "decoder_num_heads": 4, "decoder_num_layers": 2, "embedding_dim": 16,
    "encoder_num_heads": 4, "encoder_num_layers": 2, "fusion_hidden_dim": 16, "global_attention_layer_indices": [1],
    "head_dim": 8, "head_size": 8, "hidden_dim": 32, "hidden_size": 32, "image_shape": (32, 32, 3), "image_size": 16,
    "intermediate_dim": 64, "intermediate_size": 64, "layer_norm_epsilon": 1e-5, "max_position_embeddings": 32,
    "mlp_bias": False, "mlp_dim": 64, "moe_intermediate_dim": 32, "num_attention_heads": 4, "num_classes": 3,
    "num_experts": 4, "num_frames": 2, "num_heads": 4, "num_key_value_heads": 2, "num_layers": 2,
    "num_query_heads": 4, "partial_rotary_factor": 1.0, "patch_size": 8, "projection_dim": 16,
    "projection_filters": 8, "rope_theta": 10000.0, "shared_expert_intermediate_dim": 32,
    "shared_expert_intermediate_size": 32, "top_k": 2, "vocab_size": 64, "vocabulary_size": 64,
}  # fmt: skip
#: Those that are given although the constructor has a default, which is large.
ALWAYS = ("image_shape", "max_position_embeddings", "layer_norm_epsilon")

BATCH, LENGTH = 2, 8

Maker = Callable[[], Any]


def given(make: Callable[..., Any], **row: Any) -> Any:
    """What a constructor makes of SMALL and a row."""
    parameters = inspect.signature(make).parameters
    wanted = {
        name: SMALL[name]
        for name, parameter in parameters.items()
        if name in SMALL and (parameter.default is parameter.empty or name in ALWAYS)
    }
    return make(**(wanted | row))


def resnet(**row: Any) -> Any:
    return given(
        models.ResNetBackbone,
        **{
            "input_conv_filters": [64], "input_conv_kernel_sizes": [7], "stackwise_num_filters": [64, 64, 64, 64],
            "stackwise_num_blocks": [1, 2, 1, 1], "stackwise_num_strides": [1, 2, 2, 2], "image_shape": (64, 64, 3),
        } | row,
    )  # fmt: skip


def mit() -> Any:
    return given(
        models.MiTBackbone, layerwise_depths=[1, 1], num_layers=2, layerwise_num_heads=[1, 2],
        layerwise_sr_ratios=[2, 1], max_drop_path_rate=0.1, layerwise_patch_sizes=[7, 3], layerwise_strides=[4, 2],
        hidden_dims=[8, 16],
    )  # fmt: skip


def hgnet(**row: Any) -> Any:
    return given(
        models.HGNetV2Backbone,
        **{
            "depths": [1, 1, 2, 1], "embedding_size": 8, "hidden_sizes": [16, 16, 32, 32], "stem_channels": [3, 8, 8],
            "hidden_act": "relu", "use_learnable_affine_block": True,
            "stackwise_stage_filters": [
                [8, 8, 16, 1, 3, 3], [16, 8, 16, 1, 3, 3], [16, 16, 32, 2, 3, 5], [32, 16, 32, 1, 3, 5],
            ],
            "apply_downsample": [False, True, True, True], "use_lightweight_conv_block": [False, False, True, True],
            "image_shape": (64, 64, 3),
        } | row,
    )  # fmt: skip


def d_fine() -> Any:
    return models.DFineBackbone(
        backbone=hgnet(out_features=["stage3", "stage4"]), decoder_in_channels=[16, 16], encoder_hidden_dim=16,
        num_denoising=0, num_labels=5, hidden_dim=16, learn_initial_query=False, num_queries=10,
        anchor_image_size=(64, 64), feat_strides=[16, 32], num_feature_levels=2, encoder_in_channels=[32, 32],
        encode_proj_layers=[1], num_attention_heads=4, encoder_ffn_dim=32, num_encoder_layers=1, hidden_expansion=0.5,
        depth_multiplier=0.5, eval_idx=-1, num_decoder_layers=2, decoder_attention_heads=4, decoder_ffn_dim=32,
        decoder_n_points=[2, 2], lqe_hidden_dim=16, num_lqe_layers=2, out_features=["stage3", "stage4"],
        image_shape=(64, 64, 3), seed=0,
    )  # fmt: skip


def two_towers(family: str) -> Any:
    """CLIP and its kind."""
    vision = given(getattr(models, f"{family}VisionEncoder"), image_shape=(16, 16, 3))
    text = given(getattr(models, f"{family}TextEncoder"), embedding_dim=32, max_sequence_length=LENGTH)
    return given(getattr(models, f"{family}Backbone"), vision_encoder=vision, text_encoder=text)


def blip2(language_model: Any) -> Any:
    vision = given(
        models.BLIP2VisionEncoder, use_patch_bias=True, use_class_token=True, use_mha_bias=True, use_mlp_bias=True,
        dropout_rate=0.1, initializer_range=0.02,
    )  # fmt: skip
    qformer = given(models.BLIP2QFormer, num_query_tokens=4, vision_dim=32, cross_attention_frequency=2, dropout=0.1)
    return models.BLIP2Backbone(vision_encoder=vision, qformer=qformer, language_model=language_model)


def blip2_opt() -> Any:
    return blip2(
        given(models.BLIP2CustomOPT, num_query_tokens=4, dropout=0.1, max_sequence_length=32, qformer_hidden_dim=32)
    )


def blip2_t5() -> Any:
    return blip2(given(models.BLIP2FlanT5, num_query_tokens=4, qformer_hidden_dim=32))


def mobilenet_v5() -> Any:
    return models.MobileNetV5Backbone(
        **convert_arch_def_to_stackwise([["er_r1_k3_s2_e2_c8"], ["uir_r1_a3_k5_s2_e2_c16", "mqa_r1_k3_h2_s1_d8_c16"]]),
        num_features=8, image_shape=(32, 32, 3), use_msfa=False,
    )  # fmt: skip


GEMMA3N: dict[str, Any] = {
    "text_vocab_size": 64, "text_hidden_size": 16, "num_hidden_layers": 2, "pad_token_id": 0, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 8, "intermediate_size": [32, 32], "hidden_activation": "gelu_approximate",
    "layer_types": ["full_attention", "sliding_attention"], "sliding_window": 4, "rope_theta": 10000.0,
    "max_position_embeddings": 16, "vocab_size_per_layer_input": 64, "hidden_size_per_layer_input": 4,
    "altup_num_inputs": 2, "laurel_rank": 2,
}  # fmt: skip


def gemma3_with_images() -> Any:
    vision = given(models.Gemma3VisionEncoder, output_dim=32, pool_size=1, patch_size=8)
    return given(models.Gemma3Backbone, vision_encoder=vision)


def gemma4_with_images() -> Any:
    vision = given(models.Gemma4VisionEncoder, output_dim=32, pool_size=1)
    return given(models.Gemma4Backbone, vision_encoder=vision)


def sam() -> Any:
    side = 32
    image = given(models.ViTDetBackbone, num_output_channels=8, window_size=2, image_shape=(side, side, 3))
    prompt = layers.SAMPromptEncoder(
        hidden_size=8, image_embedding_size=(4, 4), input_image_size=(side, side), mask_in_channels=4
    )
    decoder = layers.SAMMaskDecoder(
        num_layers=2, hidden_size=8, intermediate_dim=32, num_heads=4, embedding_dim=8, num_multimask_outputs=3,
        iou_head_depth=3, iou_head_hidden_dim=8,
    )  # fmt: skip
    return models.SAMBackbone(image_encoder=image, prompt_encoder=prompt, mask_decoder=decoder)


def sam3() -> Any:
    side = 56
    small = {"hidden_dim": 32, "intermediate_dim": 64, "num_heads": 2, "num_layers": 2}
    vision = layers.SAM3VisionEncoder(
        image_shape=(side, side, 3), patch_size=14, fpn_hidden_dim=32, fpn_scale_factors=[4.0, 2.0, 1.0, 0.5],
        pretrain_image_shape=(28, 28, 3), window_size=2, global_attn_indexes=[1], **small,
    )  # fmt: skip
    return models.SAM3PromptableConceptBackbone(
        vision_encoder=vision,
        text_encoder=layers.SAM3TextEncoder(vocabulary_size=64, embedding_dim=32, **small),
        geometry_encoder=layers.SAM3GeometryEncoder(roi_size=3, **small),
        detr_encoder=layers.SAM3DetrEncoder(**small),
        detr_decoder=layers.SAM3DetrDecoder(image_shape=(side, side, 3), patch_size=14, num_queries=5, **small),
        mask_decoder=layers.SAM3MaskDecoder(num_upsampling_stages=3, hidden_dim=32, num_heads=2),
    )


def vae() -> Any:
    return VAEBackbone([32] * 4, [1] * 4, [32] * 4, [1] * 4, sampler_method="mode")


def stable_diffusion_3() -> Any:
    text = {"num_layers": 2, "num_heads": 2, "intermediate_output_index": -2, "max_sequence_length": LENGTH}
    return models.StableDiffusion3Backbone(
        mmdit_patch_size=2, mmdit_hidden_dim=32, mmdit_num_layers=2, mmdit_num_heads=2, mmdit_position_size=16,
        mmdit_qk_norm="rms_norm", mmdit_dual_attention_indices=(0,), vae=vae(),
        clip_l=models.CLIPTextEncoder(
            vocabulary_size=64, embedding_dim=16, hidden_dim=16, intermediate_dim=32, name="clip_l", **text
        ),
        clip_g=models.CLIPTextEncoder(
            vocabulary_size=64, embedding_dim=32, hidden_dim=32, intermediate_dim=64, name="clip_g",
            intermediate_activation="gelu", **text,
        ),
        image_shape=(64, 64, 3),
    )  # fmt: skip


def depth_anything() -> Any:
    image = given(models.DINOV2Backbone, num_layers=4, image_shape=(64, 64, 3), position_embedding_shape=(64, 64))
    return models.DepthAnythingBackbone(
        image_encoder=image, reassemble_factors=[4, 2, 1, 0.5], neck_hidden_dims=[8, 8, 16, 16], fusion_hidden_dim=16,
        head_hidden_dim=8, head_in_index=-1, feature_keys=["stage1", "stage2", "stage3", "stage4"],
    )  # fmt: skip


def parseq() -> Any:
    image = given(models.ViTBackbone, image_shape=(16, 32, 3), patch_size=(4, 8), use_class_token=False, name="encoder")
    return given(
        models.PARSeqBackbone, image_encoder=image, max_label_length=LENGTH, num_decoder_layers=1, num_decoder_heads=4
    )


#: Arguments of backbones beside SMALL, or what builds one; "Name:variant" is a further configuration of a family.
BACKBONES: dict[str, dict[str, Any] | Maker] = {
    "AlbertBackbone": {"num_groups": 2, "num_inner_repetitions": 2},
    "BASNetBackbone": lambda: models.BASNetBackbone(
        resnet(image_shape=(None, None, 3), stackwise_num_filters=[64, 128, 256, 512]), num_classes=1,
        image_shape=(64, 64, 3),
    ),
    "BLIP2Backbone": blip2_opt,
    "BLIP2Backbone:t5": blip2_t5,
    **{
        f"{family}TextEncoder": {"embedding_dim": 32, "max_sequence_length": LENGTH}
        for family in ("CLIP", "MetaCLIP2", "SigLIP")
    },
    "CLIPBackbone": lambda: two_towers("CLIP"),
    "CSPNetBackbone": {
        "stem_filters": 8, "stem_kernel_size": 3, "stem_strides": 1, "stackwise_depth": [1, 2, 2],
        "stackwise_strides": [1, 2, 2], "stackwise_num_filters": [8, 16, 16], "block_type": "dark_block",
        "stage_type": "csp", "bottle_ratio": [0.5], "block_ratio": [1.0], "expand_ratio": [2.0],
    },
    "DFineBackbone": d_fine,
    "DINOV2Backbone": {"position_embedding_shape": (64, 64), "num_register_tokens": 2},
    "DINOV2Backbone:swiglu": {"position_embedding_shape": (64, 64), "use_swiglu_ffn": True},
    "DINOV3Backbone:gated": {"use_gated_mlp": True, "hidden_activation": "silu"},
    "DebertaV3Backbone": {"bucket_size": 8},
    "DeepLabV3Backbone": lambda: models.DeepLabV3Backbone(
        resnet(image_shape=(None, None, 3)), spatial_pyramid_pooling_key="P4", upsampling_size=4,
        dilation_rates=[6, 12, 18], low_level_feature_key="P2", projection_filters=8, image_shape=(64, 64, 3),
    ),
    "DenseNetBackbone": {"stackwise_num_repeats": [2, 2, 1], "growth_rate": 8},
    "DepthAnythingBackbone": depth_anything,
    "EdRecBackbone": {"num_layers_enc": 2, "num_layers_dec": 2},
    "EfficientNetBackbone": {
        "stackwise_width_coefficients": [1.0] * 4, "stackwise_depth_coefficients": [1.0] * 4,
        "stackwise_kernel_sizes": [3, 3, 5, 3], "stackwise_num_repeats": [1, 2, 1, 1],
        "stackwise_input_filters": [8, 8, 16, 16], "stackwise_output_filters": [8, 16, 16, 24],
        "stackwise_expansion_ratios": [1, 4, 4, 4], "stackwise_squeeze_and_excite_ratios": [0, 0, 0.25, 0.25],
        "stackwise_strides": [1, 2, 2, 1], "stackwise_block_types": ["fused", "fused", "unfused", "unfused"],
        "stackwise_force_input_filters": [0] * 4, "stackwise_nores_option": [False] * 4, "input_shape": (32, 32, 3),
        "num_features": 32,
    },
    "FluxBackbone": {
        "input_channels": 16, "mlp_ratio": 2.0, "depth": 1, "depth_single_blocks": 1, "axes_dim": [2, 2, 4],
        "theta": 10000, "use_bias": True, "guidance_embed": True, "image_shape": (6, 16), "text_shape": (5, 16),
        "image_ids_shape": (6, 3), "text_ids_shape": (5, 3), "y_shape": (16,),
    },
    "Gemma3Backbone": {
        "use_post_ffw_norm": True, "use_post_attention_norm": True, "use_sliding_window_attention": True,
        "sliding_window_size": 4, "num_layers": 6,
    },
    "Gemma3Backbone:images": gemma3_with_images,
    "Gemma3nBackbone": GEMMA3N,
    "Gemma4Backbone": {"sliding_window_size": 4, "num_layers": 6},
    "Gemma4Backbone:experts": {
        "enable_moe_block": True, "num_experts": 4, "num_experts_per_token": 2, "expert_intermediate_dim": 16,
    },
    "Gemma4Backbone:images": gemma4_with_images,
    "GemmaBackbone": {
        "attention_logit_soft_cap": 50.0, "use_sliding_window_attention": True, "sliding_window_size": 4,
        "use_post_ffw_norm": True, "use_post_attention_norm": True,
    },
    "GptOssBackbone": {"sliding_window": 4},
    "HGNetV2Backbone": hgnet,
    "MetaCLIP2Backbone": lambda: two_towers("MetaCLIP2"),
    "MiTBackbone": mit,
    "MistralBackbone": {"sliding_window": 4},
    "MixtralBackbone": {"sliding_window": 4},
    "MobileNetBackbone": {
        "stackwise_expansion": [[8, 12], [16, 24]], "stackwise_num_blocks": [2, 2],
        "stackwise_num_filters": [[8, 8], [16, 16]], "stackwise_kernel_size": [[3, 3], [5, 5]],
        "stackwise_num_strides": [[2, 1], [2, 1]], "stackwise_se_ratio": [[None, None], [0.25, 0.25]],
        "stackwise_activation": [["relu", "relu"], ["hard_swish", "hard_swish"]],
        "stackwise_padding": [[1, 1], [2, 2]], "output_num_filters": 32, "depthwise_filters": 8,
        "depthwise_stride": 2, "depthwise_residual": False, "last_layer_filter": 32, "squeeze_and_excite": 0.5,
        "input_num_filters": 8,
    },
    "MobileNetV5Backbone": mobilenet_v5,
    "MoonshineBackbone": {"filter_dim": 32},
    "PARSeqBackbone": parseq,
    "PaliGemmaBackbone": {
        "vit_patch_size": 8, "vit_num_heads": 4, "vit_hidden_dim": 32, "vit_num_layers": 2, "vit_intermediate_dim": 64,
    },
    "Qwen3MoeBackbone": {"head_dim": 8},
    "Qwen3_5Backbone": {
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"],
    },
    "Qwen3_5MoeBackbone": {
        "linear_num_key_heads": 2, "linear_num_value_heads": 4, "linear_key_head_dim": 8, "linear_value_head_dim": 8,
        "layer_types": ["linear_attention", "full_attention"],
    },
    "RQVAEBackbone": lambda: RQVAEBackbone(
        input_dim=16, encoder_layer_dims=[16], output_dim=8, decoder_layer_dims=[16], num_embeddings=8,
        num_quantizers=2,
    ),
    "RWKV7Backbone": {"gate_lora": 8, "mv_lora": 8, "aaa_lora": 8, "decay_lora": 8},
    "ResNetBackbone": resnet,
    "ResNetBackbone:bottleneck": lambda: resnet(block_type="bottleneck_block", use_pre_activation=True),
    "ResNetBackbone:vd": lambda: resnet(
        block_type="bottleneck_block_vd", input_conv_filters=[8, 8, 64], input_conv_kernel_sizes=[3, 3, 3]
    ),
    "RetinaNetBackbone": lambda: models.RetinaNetBackbone(
        resnet(image_shape=(None, None, 3)), min_level=3, max_level=5, use_p5=False, image_shape=(64, 64, 3)
    ),
    "SAM3PromptableConceptBackbone": sam3,
    "SAMBackbone": sam,
    "SegFormerBackbone": lambda: models.SegFormerBackbone(mit(), projection_filters=8),
    "SigLIPBackbone": lambda: two_towers("SigLIP"),
    "SmolLM3Backbone": {"rope_layer_enabled_list": [True, False], "layer_types": ["attention"] * 2},
    "StableDiffusion3Backbone": stable_diffusion_3,
    "SwinTransformerBackbone": {"embed_dim": 8, "depths": [2, 2], "num_heads": [2, 4], "window_size": 2,
                                "patch_size": 4},
    "T5GemmaBackbone": {
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in {
            "hidden_dim": 32, "intermediate_dim": 64, "num_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8, "layer_types": ["sliding_attention", "full_attention"],
        }.items()},
        "sliding_window": 4,
    },
    "T5Gemma2Backbone": {
        **{f"{side}_{name}": value for side in ("encoder", "decoder") for name, value in {
            "hidden_dim": 32, "intermediate_dim": 64, "num_layers": 2, "num_attention_heads": 4,
            "num_key_value_heads": 2, "head_dim": 8, "layer_types": ["sliding_attention", "full_attention"],
        }.items()},
        "sliding_window": 4,
    },
    "VAEBackbone": vae,
    "VGGBackbone": {"stackwise_num_repeats": [1, 2], "stackwise_num_filters": [8, 16]},
    "ViTDetBackbone": {"window_size": 2, "num_output_channels": 16},
    "VideoPrismBackbone": {
        "num_spatial_layers": 2, "num_temporal_layers": 1, "num_auxiliary_layers": 1, "num_text_layers": 2,
        "vocabulary_size": 64,
        "image_shape": (16, 16, 3),
    },
    "WhisperBackbone": {"num_mels": 8, "max_encoder_sequence_length": 32, "max_decoder_sequence_length": 32},
    "XceptionBackbone": {
        "stackwise_conv_filters": [[8, 16], [16, 24], [32, 32]], "stackwise_pooling": [True, True, False],
    },
}  # fmt: skip

#: What tasks take beside a backbone, SMALL's number of classes and no preprocessor.
TASKS: dict[str, dict[str, Any]] = {
    "VGGImageClassifier": {"pooling_hidden_dim": 32},
    "MobileNetImageClassifier": {"num_features": 32},
    "MobileNetV5ImageClassifier": {"head_hidden_size": 32},
    "RetinaNetObjectDetector": {"pre_logits_num_conv_layers": 1},
    "DepthAnythingDepthEstimator": {"depth_estimation_type": "relative"},
}

#: Language models that generate only with what a preprocessor gives: they are run, and do not.
DO_NOT_GENERATE = ("Gemma3CausalLM", "RWKV7CausalLM")

#: Those whose backbone is a variant.
BACKBONE_OF = {"BLIP2Seq2SeqLM": "BLIP2Backbone:t5"}

#: What is not run, by why.
WITHOUT: dict[str, list[str]] = {
    "abstract": ["Backbone", "FeaturePyramidBackbone"],
    "it asks a preprocessor for its tokenizer, which needs tensorflow-text": ["PARSeqCausalLM"],
    "no small configuration that its mask decoder takes was found yet": ["SAMImageSegmenter"],
    "another model calls it, and it does not run by itself": ["Gemma4AssistantCausalLM"],
}

# -- inputs


def ids(*shape: int, high: int = 60, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).randint(1, high, shape).astype("int32")


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def mask(batch: int, length: int, dtype: str) -> np.ndarray:
    """The last sequence ends early."""
    value = np.ones((batch, length), dtype)
    value[-1, -2:] = 0
    return value


def input_of(name: str, shape: tuple[int | None, ...], dtype: str, seed: int) -> np.ndarray:
    """Numbers, tokens or a mask, by what an input is called."""
    free = 16 if len(shape) == 4 else LENGTH
    batch, *rest = (BATCH if i == 0 else free if size is None else size for i, size in enumerate(shape))
    if "mask" in name and "position" not in name and len(rest) == 1:
        return mask(batch, rest[0], dtype)
    if name in ("mask_positions", "position_ids"):
        return np.tile(np.arange(rest[0], dtype=dtype), (batch, 1))
    if "segment" in name:
        return ids(batch, *rest, high=2, seed=seed) - 1 if dtype == "int32" else numbers(batch, *rest, seed=seed)
    if dtype.startswith("int"):
        return ids(batch, *rest, seed=seed).astype(dtype)
    return numbers(batch, *rest, seed=seed).astype(dtype)


def inputs_of(name: str, model: Any) -> Any:
    """What a model is called with."""
    if name in INPUTS:
        return INPUTS[name]()
    described = model.input
    if isinstance(described, list):
        described = {tensor.name: tensor for tensor in described}
    if not isinstance(described, dict):
        return input_of("", described.shape, described.dtype, 0)
    return {key: input_of(key, t.shape, t.dtype, i) for i, (key, t) in enumerate(sorted(described.items()))}


def with_an_image(**images: np.ndarray) -> dict[str, np.ndarray]:
    """Of each text the second to fifth token are an image's."""
    return images | {
        "token_ids": ids(BATCH, LENGTH),
        "padding_mask": mask(BATCH, LENGTH, "int32"),
        "vision_indices": np.tile(np.arange(1, 5, dtype="int32"), (BATCH, 1)),
        "vision_mask": np.tile(np.array([0, 1, 1, 1, 1, 0, 0, 0], "int32"), (BATCH, 1)),
    }


#: Inference alone is compared: their gradients on the CPU, of convolutions in many groups, take minutes.
INFERENCE_ONLY = ("DFineBackbone", "DFineObjectDetector")

#: Tens of batch norms over a few pixels each make rounding grow: on the CPU by itself one unit in the last place of the
#: images is 0.06 of a gradient.
TRAINING_LIMITS = {"BASNetBackbone": 0.25, "BASNetImageSegmenter": 0.25}


def sound() -> dict[str, np.ndarray]:
    length = 2048
    return {
        "encoder_input_values": numbers(BATCH, length, 1),
        "encoder_padding_mask": np.ones((BATCH, length), bool),
        "decoder_token_ids": ids(BATCH, LENGTH),
        "decoder_padding_mask": mask(BATCH, LENGTH, "bool"),
    }


def prompt() -> dict[str, np.ndarray]:
    return {
        "pixel_values": numbers(BATCH, 56, 56, 3),
        "token_ids": ids(BATCH, LENGTH),
        "padding_mask": mask(BATCH, LENGTH, "bool"),
        "boxes": np.abs(numbers(BATCH, 1, 5)),
        "box_labels": np.ones((BATCH, 1), "int32"),
    }


INPUTS: dict[str, Callable[[], Any]] = {
    **dict.fromkeys(("MoonshineBackbone", "MoonshineAudioToText"), sound),
    **dict.fromkeys(("SAM3PromptableConceptBackbone", "SAM3PromptableConceptImageSegmenter"), prompt),
    "Gemma3Backbone:images": lambda: with_an_image(images=numbers(BATCH, 1, 16, 16, 3)),
    "Gemma4Backbone:images": lambda: with_an_image(
        pixel_values=numbers(BATCH, 1, 4, 192),
        pixel_position_ids=np.tile(np.array([[0, 0], [0, 1], [1, 0], [1, 1]], "int32"), (BATCH, 1, 1, 1)),
        position_ids=np.tile(np.arange(LENGTH, dtype="int32"), (BATCH, 1)),
    ),
}

# -- what the package exports


def exported(base: type) -> list[str]:
    """The names of what keras_hub.models exports, without aliases."""
    values = {value: name for name, value in vars(models).items() if inspect.isclass(value) and issubclass(value, base)}
    return sorted(name for value, name in values.items() if value.__name__ == name)


def all_models() -> list[str]:
    """Backbones with their variants, then tasks."""
    skipped = {name for group in WITHOUT.values() for name in group}
    backbones = set(exported(models.Backbone)) - skipped | set(BACKBONES)
    tasks = [name for name in exported(models.Task) if getattr(models, name).backbone_cls is not None]
    return sorted(backbones) + sorted(set(tasks) - skipped)


def build(name: str) -> Any:
    """A model in its small configuration."""
    row = BACKBONES.get(name, {})
    if callable(row):
        return row()
    kind = getattr(models, name.partition(":")[0])
    if issubclass(kind, models.Backbone):
        return given(kind, **row)
    backbone = build(BACKBONE_OF.get(name, kind.backbone_cls.__name__))
    return given(kind, backbone=backbone, **({"preprocessor": None} | TASKS.get(name, {})))


VERSION = keras_hub.__version__
