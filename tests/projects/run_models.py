"""Runs models of a project from PyPI, unchanged and with random weights, on the CPU and on the device: the child of
test_paddle_projects.py.

    python run_models.py PROJECT [MODEL ...]

For each model a line of JSON comes: its name, and what differed or failed ("" for neither). Results and gradients of
inference mode are compared with the CPU's; in training mode, where dropout draws, a step has to run.
What the CPU cannot run (projects older than this Paddle) is told apart by "cpu:"."""

from __future__ import annotations

import importlib
import json
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from typing import Any

os.environ.setdefault("UNIHAL_BACKEND", "stub")
os.environ.setdefault("UNIHAL_STRICT", "1")
os.environ.setdefault("GLOG_minloglevel", "3")
warnings.simplefilter("ignore")

import numpy as np  # noqa: E402
import paddle  # noqa: E402

DEVICE = "iluvatar"
#: Rounding through some dozens of layers of random weights, of which the largest number of a tensor is the measure.
LIMIT = 2e-3

#: Random weights make gradients of some deep models as large as this, and what is left of them is rounding.
EXPLODED = 1e6

Inputs = tuple[tuple[Any, ...], dict[str, Any]]
Case = tuple[str, Callable[[], Any], Callable[[], Inputs]]


def numbers(*shape: int, seed: int = 0) -> Any:
    return np.random.RandomState(seed).uniform(-1, 1, shape).astype("float32")


def ids(*shape: int, high: int = 60, seed: int = 0) -> Any:
    return np.random.RandomState(seed).randint(1, high, shape).astype("int64")


def image(side: int, batch: int = 1) -> Callable[[], Inputs]:
    return lambda: ((numbers(batch, 3, side, side),), {})


# -- the projects


def paddleclas() -> Iterator[Case]:
    """The smallest model of each family."""
    backbones = importlib.import_module("paddleclas.ppcls.arch.backbone")
    sides = {
        "InceptionV3": 299, "InceptionV4": 299, "Xception41": 299, "CvT_13_224": 224, "SVTR_tiny": 0,
        "SwinTransformerV2_tiny_patch4_window8_256": 256, "MobileViT_XXS": 256, "MobileViTV2_x0_5": 256,
        "MobileViTV3_XXS": 256, "AdaFace_IR_18": 112, "MobileFaceNet": 112,
    }  # fmt: skip
    names = """AdaFace_IR_18 AlexNet CLIP_vit_base_patch32_224 CSPDarkNet53 CSWinTransformer_tiny_224 ConvNeXt_tiny
        CvT_13_224 DLA34 DLA46x_c DPN68 DSNet_tiny DarkNet53 DeiT_tiny_patch16_224 DeiT_tiny_distilled_patch16_224
        DenseNet121 ESNet_x0_25 EfficientNetB0 EfficientNetV2_S FasterNet_T0 GhostNet_x0_5 GoogLeNet HRNet_W18_C
        HarDNet39_ds InceptionV3 InceptionV4 LeViT_128S MicroNet_M0 MixNet_S MobileFaceNet MobileNeXt_x0_35
        MobileNetV1_x0_25 MobileNetV2_x0_25 MobileNetV3_small_x0_35 MobileNetV4_conv_small MobileNetV4_hybrid_medium
        MobileViTV2_x0_5 MobileViTV3_XXS MobileViT_XXS NextViT_small_224 PPHGNetV2_B0 PPHGNet_tiny PPLCNetV2_small
        PPLCNet_x0_25 PVT_V2_B0 PeleeNet ReXNet_1_0 RedNet26 RegNetX_200MF RepVGG_A0 Res2Net50_26w_4s
        ResNeSt50_fast_1s1x64d ResNeXt50_32x4d ResNet18 ResNet18_vd SE_ResNet18_vd SE_ResNeXt50_32x4d
        ShuffleNetV2_x0_25 SqueezeNet1_0 StarNet_S1 SwinTransformerV2_tiny_patch4_window8_256
        SwinTransformer_tiny_patch4_window7_224 TNT_small TinyNet_E VAN_B0 VGG11 ViT_small_patch16_224
        Xception41 alt_gvt_small pcpvt_small""".split()  # noqa: SIM905
    for name in names:
        side = sides.get(name, 224)
        yield name, lambda name=name: getattr(backbones, name)(), image(side)


def paddleseg() -> Iterator[Case]:
    models = importlib.import_module("paddleseg.models")

    def small() -> Any:
        return models.backbones.ResNet18_vd(output_stride=8)

    def hrnet() -> Any:
        return models.backbones.HRNet_W18_Small_V1()

    plain: dict[str, dict[str, Any]] = {
        "UNet": {}, "UNetPlusPlus": {"in_channels": 3}, "UNet3Plus": {"in_channels": 3}, "AttentionUNet": {},
        "U2Net": {}, "U2Netp": {}, "ENet": {}, "ESPNetV1": {}, "ESPNetV2": {}, "BiSeNetV2": {}, "FastSCNN": {},
        "HarDNet": {}, "SegNet": {}, "ESPNet": {}, "MSCSegNet": {}, "HRSegNetB16": {}, "DDRNet_23": {},
    }  # fmt: skip
    for name, options in plain.items():
        if hasattr(models, name):
            yield name, lambda name=name, o=options: getattr(models, name)(num_classes=4, **o), image(64)
    headed = {
        "FCN": (hrnet, {"backbone_indices": (-1,)}), "OCRNet": (hrnet, {"backbone_indices": [0]}),
        "DeepLabV3P": (small, {}), "DeepLabV3": (small, {"backbone_indices": (3,)}), "PSPNet": (small, {}),
        "ANN": (small, {}), "CCNet": (small, {}), "DANet": (small, {"backbone_indices": (2, 3)}),
        "DNLNet": (small, {}), "EMANet": (small, {"backbone_indices": (2, 3)}), "GCNet": (small, {}),
        "ISANet": (small, {}), "PointRend": (small, {}), "FastFCN": (small, {}), "SFNet": (small, {
            "backbone_indices": [0, 1, 2, 3], "enable_auxiliary_loss": False}), "DecoupledSegNet": (small, {}),
        "PFPNNet": (small, {"backbone_indices": [0, 1, 2, 3], "channels": 32}), "BiSeNetV1": (small, {}),
        "PPLiteSeg": (lambda: models.backbones.STDC1(), {}), "STDCSeg": (lambda: models.backbones.STDC1(), {}),
        "SegFormer": (lambda: models.backbones.MixVisionTransformer_B0(), {"embedding_dim": 32}),
    }  # fmt: skip
    for name, given in headed.items():
        if hasattr(models, name):
            backbone, options = given
            yield (
                name,
                lambda name=name, b=backbone, o=options: getattr(models, name)(num_classes=4, backbone=b(), **o),
                image(128),
            )
    for name in ("SwinTransformer_tiny_patch4_window7_224", "ViT_small_patch16_224", "TopTransformer_Tiny",
                 "MobileNetV3_small_x0_35", "Xception41_deeplab", "DenseNet121", "GhostNet_x0_5", "ShuffleNetV2_x0_25",
                 "CAE_base_patch16_224", "EfficientFormer_L1"):  # fmt: skip
        if hasattr(models.backbones, name):
            yield name, lambda name=name: getattr(models.backbones, name)(), image(224)


#: What makes a model of a family small, under the names that configurations give it.
SMALL = {
    "vocab_size": 64, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": 64, "embedding_size": 16, "d_model": 32, "d_kv": 8, "d_ff": 64, "num_layers": 2,
    "num_heads": 4, "encoder_layers": 2, "decoder_layers": 2, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "num_encoder_layers": 2,
    "num_decoder_layers": 2, "dim": 32, "depth": 2, "type_vocab_size": 2, "pad_token_id": 0, "ffn_hidden_size": 64,
    "n_layer": 2, "n_head": 4, "n_embed": 32, "num_key_value_heads": 4, "seq_length": 32, "fuse": False,
    "max_sequence_length": 64, "multi_query_group_num": 2, "kv_channels": 8, "word_embed_proj_dim": 32,
    "d_head": 8, "d_inner": 64, "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "emb_size": 16,
    "pooler_fc_size": 32, "embed_dim": 32, "num_local_experts": 2, "block_sizes": [1, 1, 1], "bos_token_id": 1,
    "eos_token_id": 2, "decoder_start_token_id": 1, "cls_token_id": 3, "sep_token_id": 4,
}  # fmt: skip


def paddlenlp() -> Iterator[Case]:
    transformers = importlib.import_module("paddlenlp.transformers")
    names = """Albert Bart Bert BigBird Blenderbot BlenderbotSmall Bloom ChatGLM ChatGLMv2 CodeGen ConvBert CTRL
        DistilBert Electra Ernie ErnieCtm ErnieDoc ErnieGram ErnieM FNet Funnel GPT GPTJ Gemma Llama LayoutLM
        LayoutLMv2 LayoutXLM Luke MBart MegatronBert Mistral Mixtral MobileBert MPNet NeZha Nystromformer OPT PPMiniLM
        Pegasus ProphetNet QWen Qwen2 Reformer RemBert RoFormer RoFormerv2 Roberta RW Skep SqueezeBert T5 TinyBert
        UnifiedTransformer UNIMO XLM XLNet Yuan""".split()  # noqa: SIM905
    for name in names:
        yield name, lambda name=name: small_transformer(transformers, name), transformer_inputs(name)


def small_transformer(transformers: Any, name: str) -> Any:
    configuration = getattr(transformers, name + "Config")()
    for key, value in SMALL.items():
        if key in vars(configuration) or key in getattr(configuration, "attribute_map", {}):
            setattr(configuration, key, value)
    return getattr(transformers, name + "Model")(configuration)


def transformer_inputs(name: str) -> Callable[[], Inputs]:
    both = ("Bart", "Blenderbot", "BlenderbotSmall", "MBart", "Pegasus", "ProphetNet", "T5")
    if name in both:
        return lambda: ((), {"input_ids": ids(2, 12), "decoder_input_ids": ids(2, 8, seed=1)})
    return lambda: ((), {"input_ids": ids(2, 16)})


def ppdiffusers() -> Iterator[Case]:
    diffusers = importlib.import_module("ppdiffusers")
    time = np.array([3, 7], "int64")
    blocks = {"block_out_channels": (32, 64), "layers_per_block": 1, "norm_num_groups": 8}
    yield (
        "UNet2DModel",
        lambda: diffusers.UNet2DModel(
            sample_size=16,
            down_block_types=("DownBlock2D", "AttnDownBlock2D"),
            up_block_types=("AttnUpBlock2D", "UpBlock2D"),
            **blocks,
        ),
        lambda: ((numbers(2, 3, 16, 16), time), {}),
    )
    yield (
        "UNet2DConditionModel",
        lambda: diffusers.UNet2DConditionModel(
            sample_size=16,
            cross_attention_dim=32,
            attention_head_dim=8,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
            **blocks,
        ),
        lambda: ((numbers(2, 4, 16, 16), time, numbers(2, 5, 32, seed=1)), {}),
    )
    yield (
        "AutoencoderKL",
        lambda: diffusers.AutoencoderKL(
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, **blocks
        ),
        lambda: ((numbers(1, 3, 16, 16),), {}),
    )
    yield (
        "VQModel",
        lambda: diffusers.VQModel(
            down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2, **blocks
        ),
        lambda: ((numbers(1, 3, 16, 16),), {}),
    )
    yield (
        "DiTTransformer2DModel",
        lambda: diffusers.Transformer2DModel(
            num_attention_heads=2,
            attention_head_dim=16,
            in_channels=4,
            num_layers=2,
            sample_size=8,
            patch_size=2,
            norm_type="ada_norm_zero",
            num_embeds_ada_norm=10,
            norm_elementwise_affine=False,
            activation_fn="gelu-approximate",
        ),
        lambda: ((numbers(2, 4, 8, 8),), {"timestep": time, "class_labels": time}),
    )
    yield (
        "ControlNetModel",
        lambda: diffusers.ControlNetModel(
            cross_attention_dim=32,
            attention_head_dim=8,
            down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
            conditioning_embedding_out_channels=(16, 32),
            **blocks,
        ),
        lambda: ((numbers(2, 4, 16, 16), time, numbers(2, 5, 32), numbers(2, 3, 32, 32)), {}),
    )
    yield (
        "UNet1DModel",
        lambda: diffusers.UNet1DModel(
            sample_size=32,
            block_out_channels=(32, 32, 64),
            extra_in_channels=16,
        ),
        lambda: ((numbers(2, 2, 64), time), {}),
    )
    yield (
        "PriorTransformer",
        lambda: diffusers.PriorTransformer(
            num_attention_heads=2, attention_head_dim=8, num_layers=2, embedding_dim=16, num_embeddings=5
        ),
        lambda: ((numbers(2, 16), time, numbers(2, 16, seed=1), numbers(2, 5, 16, seed=2)), {}),
    )


def ppsci() -> Iterator[Case]:
    arch = importlib.import_module("ppsci.arch")
    column = lambda *names: lambda: (({n: numbers(8, 1, seed=i) for i, n in enumerate(names)},), {})  # noqa: E731
    for activation in ("tanh", "siren", "silu", "stan", "gelu", "swish", "cos", "leaky_relu", "selu", "softplus"):
        yield (
            f"MLP {activation}",
            lambda a=activation: arch.MLP(("x", "y"), ("u",), 3, 16, a),
            column("x", "y"),
        )
    yield (
        "MLP normed",
        lambda: arch.MLP(("x", "y"), ("u",), 3, 16, weight_norm=True, skip_connection=True),
        column("x", "y"),
    )
    yield "ModifiedMLP", lambda: arch.ModifiedMLP(("x", "y"), ("u",), 3, 16), column("x", "y")
    yield (
        "PirateNet",
        lambda: arch.PirateNet(("x", "y"), ("u",), 2, 16, fourier={"dim": 16, "scale": 1.0}),
        column("x", "y"),
    )
    yield (
        "DeepONet",
        lambda: arch.DeepONet("u", ("y",), "G", 5, 8, 2, 2, 16, 16),
        lambda: (({"u": numbers(4, 5), "y": numbers(4, 1)},), {}),
    )
    grid = lambda *shape: lambda: (({"x": numbers(*shape)},), {})  # noqa: E731
    yield "TFNO1dNet", lambda: arch.TFNO1dNet(("x",), ("y",), 4, 8, in_channels=2, n_layers=2), grid(2, 2, 16)
    yield "TFNO2dNet", lambda: arch.TFNO2dNet(("x",), ("y",), 4, 4, 8, in_channels=2, n_layers=2), grid(2, 2, 16, 16)
    yield "UNONet", lambda: arch.UNONet(
        ("x",), ("y",), 2, 1, 8, uno_out_channels=[8, 8], uno_n_modes=[[4, 4], [4, 4]],
        uno_scalings=[[1, 1], [1, 1]], n_layers=2,
    ), grid(2, 2, 16, 16)  # fmt: skip
    yield "SFNONet", lambda: arch.SFNONet(("x",), ("y",), (4, 4), 8, in_channels=2, n_layers=2), grid(2, 2, 16, 32)
    yield (
        "AFNONet",
        lambda: arch.AFNONet(("x",), ("y",), (16, 16), (4, 4), 2, 2, 16, 2, num_blocks=4),
        grid(2, 2, 16, 16),
    )
    yield "UNetEx", lambda: arch.UNetEx("x", "y", 2, 1, 3, (4, 8), layers=2), grid(2, 2, 16, 16)
    yield "ResNet USCNN", lambda: arch.USCNN(("x",), ("y",), [8, 8], 2, 1, 8, 8), grid(2, 2, 8, 8)
    yield (
        "LorenzEmbedding",
        lambda: arch.LorenzEmbedding(("x",), ("y",), input_size=3, hidden_size=16, embed_size=8),
        (grid(2, 6, 3)),
    )
    yield "PhysformerGPT2", lambda: arch.PhysformerGPT2(("x",), ("y",), 2, 16, 8, 2), grid(2, 6, 8)
    yield "EpnnNet", lambda: arch.Epnn(("x",), ("y",), (4, 4), (4, 4), 1, (4, 4), (1, 1)), grid(2, 4)


def ppdet() -> Iterator[Case]:
    importlib.import_module("ppdet.modeling")
    create = importlib.import_module("ppdet.core.workspace").create
    names = """YOLOv3 FasterRCNN MaskRCNN SSD FCOS RetinaNet PPYOLOE PicoDet SOLOv2 TTFNet CenterNet CascadeRCNN DETR
        DeformableDETR DINO GFL YOLOX YOLOF PPYOLOEWithAuxHead S2ANet SparseRCNN CornerNet FCOSR TOOD HigherHRNet
        TopDownHRNet""".split()  # noqa: SIM905
    for name in names:

        def batch(name: str = name) -> Inputs:
            return ((detection_batch(),), {})

        yield name, lambda name=name: create(name), batch
    for name in """BlazeNet CSPDarkNet CSPResNet ConvNeXt DLA DarkNet ESNet FocalNet GhostNet HarDNet HRNet
        LCNet LiteHRNet MobileNetV1 MobileNet MobileNetV3 MobileOne PPHGNetV2 Res2Net ResNet SENet ShuffleNetV2
        SwinTransformer TransNeXt VGG VisionTransformer""".split():  # noqa: SIM905
        module = importlib.import_module("ppdet.modeling.backbones")
        if hasattr(module, name):
            yield (
                f"backbone {name}",
                lambda name=name: getattr(importlib.import_module("ppdet.modeling.backbones"), name)(),
                lambda: (({"image": numbers(1, 3, 224, 224)},), {}),
            )


def pgl() -> Iterator[Case]:
    """Layers of graph networks on one graph, and pools over two joined ones."""
    library = importlib.import_module("pgl")
    layers = library.nn

    def edges(nodes: int = 20, count: int = 60, seed: int = 3) -> Any:
        return np.random.RandomState(seed).randint(0, nodes, (count, 2)).astype("int64")

    class OnGraph(paddle.nn.Layer):
        """A layer of pgl with the graph as tensors of the place that computes."""

        def __init__(self, layer: Any, joined: bool = False) -> None:
            super().__init__()
            self.layer, self.joined = layer, joined

        def forward(self, x: Any, *more: Any) -> Any:
            if self.joined:
                parts = [library.Graph(edges(10, 30, seed), num_nodes=10) for seed in (3, 4)]
                graph = library.Graph.batch(parts).tensor()
            else:
                graph = library.Graph(edges(), num_nodes=20).tensor()
            return self.layer(graph, x, *more)

    features = lambda: ((numbers(20, 8),), {})  # noqa: E731
    still = {"feat_drop": 0.0, "attn_drop": 0.0}
    of_nodes: dict[str, Callable[[], Any]] = {
        "GCNConv": lambda: layers.GCNConv(8, 16, activation="relu"),
        "GATConv": lambda: layers.GATConv(8, 4, num_heads=2, **still),
        "GATv2Conv": lambda: layers.GATv2Conv(8, 4, num_heads=2, **still),
        "APPNP": lambda: layers.APPNP(k_hop=3, self_loop=True),
        "GPRConv": lambda: layers.GPRConv(8, 16, 4, k_hop=3),
        "GCNII": lambda: layers.GCNII(8, activation="relu", k_hop=3),
        "TransformerConv": lambda: layers.TransformerConv(8, 4, num_heads=2, gate=True, **still),
        "GINConv": lambda: layers.GINConv(8, 16, activation="relu", train_eps=True),
        "SGCConv": lambda: layers.SGCConv(8, 16, k_hop=2),
        "SSGCConv": lambda: layers.SSGCConv(8, 16, k_hop=2),
        "NGCFConv": lambda: layers.NGCFConv(8, 8),
        "LightGCNConv": lambda: layers.LightGCNConv(),
        **{
            f"GraphSageConv {function}": lambda function=function: layers.GraphSageConv(8, 16, function)
            for function in ("sum", "mean", "max", "min")
        },
    }
    for name, make in of_nodes.items():
        if hasattr(layers, name.split()[0]):
            yield name, lambda make=make: OnGraph(make()), features
    yield "PinSageConv", lambda: OnGraph(layers.PinSageConv(8, 16)), lambda: (
        (numbers(20, 8), numbers(60, 1, seed=1)), {})  # fmt: skip
    of_graphs: dict[str, Callable[[], Any]] = {
        **{f"GraphPool {kind}": lambda kind=kind: layers.GraphPool(kind) for kind in ("sum", "mean", "max", "min")},
        "GraphNorm": lambda: layers.GraphNorm(),
        "Set2Set": lambda: layers.Set2Set(8, 3),
        "GlobalAttention": lambda: layers.GlobalAttention(paddle.nn.Linear(8, 1), paddle.nn.Linear(8, 16)),
    }
    for name, make in of_graphs.items():
        yield name, lambda make=make: OnGraph(make(), joined=True), features


class Calling(paddle.nn.Layer):
    """A network whose own call takes lists or gives NumPy's arrays, by a function of its parts."""

    def __init__(self, network: Any, call: Callable[..., Any]) -> None:
        super().__init__()
        self.network, self.call = network, call

    def forward(self, *inputs: Any) -> Any:
        return self.call(self.network, *inputs)


def paddlex() -> Iterator[Case]:
    """The networks that paddlex (and paddleocr 3, which calls it) builds in Paddle, by their default configurations or
    small ones. Its pipelines and predictors are left out, since they begin with weights from a download."""
    inference = "paddlex.inference.models"

    def part(path: str) -> Any:
        return importlib.import_module(f"{inference}.{path}")

    def of(path: str, name: str, **options: Any) -> Callable[[], Any]:
        """A network of a configuration class of the same name."""

        def make() -> Any:
            network = getattr(part(path), name)
            return network(network.config_class(**options))

        return make

    def headed(make: Callable[[], Any]) -> Callable[[], Any]:
        return lambda: Calling(make(), lambda network, x: network.head(network.model(x)))

    def line(width: int = 160) -> Callable[[], Inputs]:
        return lambda: ((numbers(1, 3, 48, width),), {})

    for name in ("PPOCRV5MobileDet", "PPOCRV5ServerDet", "PPOCRV6SmallDet", "PPOCRV6MediumDet"):
        yield name, headed(of("text_detection.modeling", name)), image(96)
    for name in ("PPOCRV5MobileRec", "PPOCRV5ServerRec", "PPOCRV6SmallRec", "PPOCRV6TinyRec"):
        yield name, headed(of("text_recognition.modeling", name, head_out_channels=60)), line()
    yield "PPLCNet", lambda: Calling(
        of("image_classification.modeling.pplcnet", "PPLCNet")(), lambda network, x: network.encoder(x)
    ), image(96)  # fmt: skip
    yield "HGNetV2", lambda: Calling(
        of("image_classification.modeling.hgnetv2", "HGNetV2ForImageClassification")(),
        lambda network, x: network.encoder(network.embedder(x)),
    ), image(96)  # fmt: skip
    yield "UVDocNet", lambda: Calling(
        of("image_unwarping.modeling.uvdoc", "UVDocNet")(),
        lambda network, x: network.head(paddle.concat(network.backbone(x), axis=1)),
    ), image(128)  # fmt: skip
    yield "SLANet", lambda: Calling(
        of("table_structure_recognition.modeling.slanet", "SLANet", max_text_length=6)(),
        lambda network, x: network([x]),
    ), image(96)  # fmt: skip
    sight = {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "image_size": 128, "window_size": 3,
        "global_attn_indexes": [1], "mlp_dim": 64,
    }  # fmt: skip
    yield "SLANeXt", lambda: Calling(
        of("table_structure_recognition.modeling.slanext", "SLANeXt", vision_config=sight, max_text_length=6)(),
        lambda network, x: network([x]),
    ), image(128)  # fmt: skip
    writing = {
        "vocab_size": 60, "d_model": 32, "decoder_layers": 2, "decoder_ffn_dim": 64, "decoder_attention_heads": 4,
        "max_position_embeddings": 16,
    }  # fmt: skip
    yield "PPFormulaNet, a step", lambda: Calling(
        of("formula_recognition.modeling.pp_formulanet", "PPFormulaNet", vision_config=sight, text_config=writing)(),
        lambda network, x, words: network._decode_step(words, network._encode(x), [{}, {}], 0),
    ), lambda: ((numbers(1, 3, 128, 128), ids(1, 6)), {})  # fmt: skip
    yield "PPFormulaNet, greedy", lambda: Calling(
        of("formula_recognition.modeling.pp_formulanet", "PPFormulaNet", vision_config=sight, text_config=writing)(),
        lambda network, x: network([x]),
    ), image(128)  # fmt: skip
    fewer = {"num_queries": 20, "decoder_layers": 2}
    detectors = {"rt_detr": "RTDETR", "pp_doclayout_v2": "PPDocLayoutV2", "pp_doclayout_v3": "PPDocLayoutV3"}
    for path, name in detectors.items():
        yield name, lambda path=path, name=name: Calling(
            of(f"object_detection.modeling.{path}", name, **fewer)(), lambda network, x: network.model(x)
        ), image(128)  # fmt: skip
    language = {
        "vocab_size": 64, "hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4,
        "num_key_value_heads": 2, "max_position_embeddings": 64, "seq_length": 32, "head_dim": 8,
    }  # fmt: skip
    words = lambda: ((), {"input_ids": ids(2, 12)})  # noqa: E731
    yield "Qwen2ForCausalLM", of("doc_vlm.modeling.qwen2", "Qwen2ForCausalLM", **language), words
    documents = "doc_vlm.modeling.paddleocr_vl"

    def ernie() -> Any:
        place = paddle.get_device()
        paddle.set_device("cpu")  # the configuration looks its name up among those that paddlex knows
        configuration = part(f"{documents}._config").PaddleOCRVLConfig(
            **language, rope_scaling={"type": "default", "mrope_section": [1, 1, 2]}
        )
        paddle.set_device(place)
        return part(f"{documents}._ernie").Ernie4_5Model(configuration)

    def text() -> Inputs:
        places = np.broadcast_to(np.arange(12), (3, 1, 12)).astype("int64")
        return (), {"input_ids": ids(1, 12), "position_ids": places, "attention_mask": np.ones((1, 12), "int64")}

    yield "PaddleOCR-VL, Ernie 4.5", ernie, text

    def siglip() -> Any:
        configuration = part(f"{documents}._config").PaddleOCRVisionConfig(
            hidden_size=32, intermediate_size=64, num_hidden_layers=2, num_attention_heads=4, image_size=56
        )
        return Calling(
            part(f"{documents}._siglip").SiglipVisionModel(configuration),
            lambda network, x, at: network(
                x, position_ids=at, image_grid_thw=[(1, 4, 6)], interpolate_pos_encoding=True, use_rope=True,
                return_pooler_output=False, vision_return_embed_list=True, cu_seqlens=paddle.to_tensor([0, 24]),
            ).last_hidden_state,
        )  # fmt: skip

    yield "PaddleOCR-VL, SigLIP", siglip, lambda: ((numbers(1, 24, 3, 14, 14), np.arange(24)[None]), {})

    def whisper() -> Any:
        speech = part("multilingual_speech_recognition.processors")
        return speech.Whisper(speech.ModelDimensions(20, 30, 32, 4, 2, 64, 16, 32, 4, 2))

    yield "Whisper", whisper, lambda: ((numbers(2, 20, 60), ids(2, 8)), {})


def paddleaudio() -> Iterator[Case]:
    """What prepares sound for networks; the rest of the package reads files."""
    layers = importlib.import_module("paddleaudio.features")
    sound = lambda: ((numbers(2, 4000),), {})  # noqa: E731
    yield "Spectrogram", lambda: layers.Spectrogram(n_fft=256), sound
    yield "MelSpectrogram", lambda: layers.MelSpectrogram(sr=8000, n_fft=256, n_mels=20), sound
    yield "LogMelSpectrogram", lambda: layers.LogMelSpectrogram(sr=8000, n_fft=256, n_mels=20), sound
    yield "MFCC", lambda: layers.MFCC(sr=8000, n_fft=256, n_mels=20, n_mfcc=13), sound


def detection_batch() -> dict[str, Any]:
    boxes = np.array([[[10, 12, 40, 44], [50, 20, 90, 70]]], "float32")
    return {
        "image": numbers(1, 3, 128, 128), "im_shape": np.array([[128, 128]], "float32"),
        "scale_factor": np.ones((1, 2), "float32"), "im_id": np.array([[0]], "int64"),
        "gt_bbox": boxes, "gt_class": np.array([[[1], [2]]], "int32"), "is_crowd": np.zeros((1, 2, 1), "int32"),
        "pad_gt_mask": np.ones((1, 2, 1), "float32"), "gt_num": np.array([2], "int32"),
    }  # fmt: skip


PROJECTS = {
    "paddleclas": paddleclas,
    "paddleseg": paddleseg,
    "paddlenlp": paddlenlp,
    "ppdiffusers": ppdiffusers,
    "ppsci": ppsci,
    "ppdet": ppdet,
    "pgl": pgl,
    "paddlex": paddlex,
    "paddleaudio": paddleaudio,
}

# -- running them


def tensors_of(value: Any) -> list[Any]:
    """All tensors in what a model gives: dictionaries, lists, objects with fields."""
    if isinstance(value, paddle.Tensor):
        return [value]
    if isinstance(value, dict):
        value = [value[key] for key in sorted(value, key=str)]
    elif hasattr(value, "to_tuple"):
        value = value.to_tuple()
    if hasattr(value, "sample") and not isinstance(value, (list, tuple)):
        value = [value.sample]
    return [t for item in value for t in tensors_of(item)] if isinstance(value, (list, tuple)) else []


def on_device(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return paddle.to_tensor(value)
    if isinstance(value, dict):
        return {key: on_device(item) for key, item in value.items()}
    return value


def step(network: Any, inputs: Inputs) -> tuple[list[Any], dict[str, Any]]:
    """Results, and the gradient of each parameter, of a scalar that is made of all results."""
    positional, named = inputs
    results = tensors_of(network(*[on_device(a) for a in positional], **{k: on_device(v) for k, v in named.items()}))
    floating = [r for r in results if r.dtype in (paddle.float32, paddle.float64) and not r.stop_gradient]
    gradients: dict[str, Any] = {}
    if floating:
        sum(
            (r.astype("float32") * r.astype("float32")).mean() + r.astype("float32").mean() for r in floating
        ).backward()
        gradients = {n: p.grad.numpy() for n, p in network.named_parameters() if p.grad is not None}
        network.clear_gradients()
    return [r.numpy() for r in results], gradients


def last_words(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[-300:]}"


def far(ours: Any, theirs: Any) -> float:
    """The largest difference in relation to the largest number."""
    if ours.shape != theirs.shape:
        return float("inf")
    if theirs.size == 0:
        return 0.0
    if theirs.dtype.kind not in "fc":
        return float(not np.array_equal(ours, theirs))
    both = np.isfinite(theirs) & np.isfinite(ours)
    if not np.array_equal(np.isfinite(theirs), np.isfinite(ours)):
        return float("inf")
    scale = max(float(np.abs(theirs[both]).max(initial=0)), 1e-3)
    return float(np.abs(ours - theirs)[both].max(initial=0)) / scale


def compare(make: Callable[[], Any], inputs: Callable[[], Inputs]) -> str:
    outcome: dict[str, Any] = {}
    weights: dict[str, Any] = {}
    for device in ("cpu", DEVICE):
        paddle.set_device(device)
        paddle.seed(1)
        np.random.seed(1)
        try:
            with paddle.utils.unique_name.guard():  # some give their parameters names of their own
                network = make()
            network.eval()
            if device == "cpu":
                weights = {name: value.numpy() for name, value in network.state_dict().items()}
            else:
                network.set_state_dict({name: paddle.to_tensor(value) for name, value in weights.items()})
            outcome[device] = step(network, inputs())
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            return f"{'cpu' if device == 'cpu' else 'device'}: {last_words(error)}"
    (ours, our_gradients), (theirs, their_gradients) = outcome[DEVICE], outcome["cpu"]
    if not theirs:
        return "gives no tensors, so that nothing is compared"
    if len(ours) != len(theirs):
        return f"{len(ours)} results instead of {len(theirs)}"
    for i, (a, b) in enumerate(zip(ours, theirs)):
        if far(a, b) > LIMIT:
            return f"result {i} differs by {far(a, b):.2g}"
    if our_gradients.keys() != their_gradients.keys():
        return "gradients of other parameters"
    largest = max((float(np.abs(g).max(initial=0)) for g in their_gradients.values()), default=1.0)
    exploded = not largest < EXPLODED
    for name, gradient in our_gradients.items():
        if exploded:
            break
        difference = float(np.abs(gradient - their_gradients[name]).max(initial=0)) / max(largest, 1e-6)
        if not difference <= LIMIT:
            return f"the gradient of {name} differs by {difference:.2g}"
    try:  # as it trains: what inference mode leaves out
        network.train()
        step(network, inputs())
    except Exception as error:
        if not isinstance(error, NotImplementedError) and "unihal" not in str(error):
            return ""  # what training asks for is not among the inputs
        traceback.print_exc(file=sys.stderr)
        return f"training: {last_words(error)}"
    return ""


def main() -> None:
    project, *wanted = sys.argv[1:]
    for name, make, inputs in PROJECTS[project]():
        if wanted and name not in wanted:
            continue
        print(json.dumps({"project": project, "model": name, "found": compare(make, inputs)}), flush=True)


if __name__ == "__main__":
    main()
