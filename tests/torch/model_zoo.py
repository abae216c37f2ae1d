"""Models of torchvision, transformers and diffusers, small and with random weights, and what they are fed."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional
from unihal_workshop.pipelines.torchvision import make_importable

Batch = dict[str, torch.Tensor]

VOCABULARY = 96


def torchvision_models() -> Any:
    """torchvision.models, also where torchvision's compiled half does not load."""
    make_importable()
    with contextlib.suppress(ImportError, RuntimeError):
        import torchvision.models

        return torchvision.models
    pytest.skip("there is no torchvision for this PyTorch")


def transformers() -> Any:
    """The package, for which torchvision has to be importable."""
    torchvision_models()
    transformers = pytest.importorskip("transformers")
    transformers.logging.set_verbosity_error()
    return transformers


def diffusers() -> Any:
    """The package, as transformers()."""
    transformers()
    return pytest.importorskip("diffusers")


@dataclass(frozen=True)
class Example:
    """A model, a batch for it and the loss of both."""

    model: Callable[[], nn.Module]
    batch: Callable[[], Batch]
    loss: Callable[[nn.Module, Batch], torch.Tensor]


def _images(count: int, size: int) -> Callable[[], Batch]:
    return lambda: {"x": torch.randn(count, 3, size, size), "y": torch.randint(0, 10, (count,))}


def _tokens() -> Batch:
    mask = torch.ones(4, 16, dtype=torch.long)
    mask[:, 12:] = 0
    return {"input_ids": torch.randint(3, VOCABULARY, (4, 16)), "attention_mask": mask}


def _classified(model: nn.Module, batch: Batch) -> torch.Tensor:
    return functional.cross_entropy(model(batch["x"]), batch["y"])


def _labelled(model: nn.Module, batch: Batch) -> torch.Tensor:
    return model(**batch, labels=batch["input_ids"]).loss


def _vision(make: Callable[[Any], nn.Module], count: int = 4, size: int = 64) -> Example:
    return Example(lambda: make(torchvision_models()), _images(count, size), _classified)


class UNet(nn.Module):
    """Two levels of convolutions with skips, as Ronneberger et al. (2015) have them."""

    def __init__(self) -> None:
        super().__init__()

        def block(inputs: int, outputs: int) -> nn.Module:
            return nn.Sequential(
                *(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()),
                *(nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU()),
            )

        self.down, self.low, self.up = block(3, 8), block(8, 16), block(16, 8)
        self.rise, self.head = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(8, 4, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        high = self.down(x)
        low = self.low(functional.max_pool2d(high, 2))
        return self.head(self.up(torch.cat([high, self.rise(low)], 1)))


class Recurrent(nn.Module):
    """An embedding, two recurrent layers and a head."""

    def __init__(self, kind: type[nn.RNNBase]) -> None:
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 16, padding_idx=0)
        self.layers = kind(16, 16, num_layers=2, bidirectional=True, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(self.embedding(x))[0].mean(1))


def _recurrent(kind: type[nn.RNNBase]) -> Example:
    return Example(
        lambda: Recurrent(kind),
        lambda: {"x": torch.randint(0, VOCABULARY, (4, 7)), "y": torch.randint(0, 10, (4,))},
        _classified,
    )


def _bert() -> nn.Module:
    package = transformers()
    return package.BertForMaskedLM(
        package.BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def gpt2() -> nn.Module:
    """A causal decoder with learned positions."""
    package = transformers()
    return package.GPT2LMHeadModel(
        package.GPT2Config(
            vocab_size=VOCABULARY,
            n_embd=32,
            n_layer=2,
            n_head=4,
            n_positions=64,
            resid_pdrop=0.0,
            embd_pdrop=0.0,
            attn_pdrop=0.0,
            bos_token_id=1,
            eos_token_id=2,
        )
    )


def llama() -> nn.Module:
    """A causal decoder with rotary positions, and fewer heads of keys than of queries."""
    package = transformers()
    return package.LlamaForCausalLM(
        package.LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            intermediate_size=64,
            pad_token_id=0,
        )
    )


def t5() -> nn.Module:
    """An encoder and a decoder with relative positions."""
    package = transformers()
    return package.T5ForConditionalGeneration(
        package.T5Config(
            vocab_size=VOCABULARY,
            d_model=32,
            num_layers=2,
            num_heads=4,
            d_kv=8,
            d_ff=64,
            dropout_rate=0.0,
            decoder_start_token_id=0,
        )
    )


def _image_classifier() -> nn.Module:
    package = transformers()
    return package.ViTForImageClassification(
        package.ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=4,
            intermediate_size=64,
            image_size=32,
            patch_size=8,
            num_labels=10,
        )
    )


def denoiser() -> nn.Module:
    """A conditional denoiser of latent images."""
    return diffusers().UNet2DConditionModel(
        sample_size=16,
        in_channels=4,
        out_channels=4,
        layers_per_block=1,
        norm_num_groups=8,
        block_out_channels=(16, 32),
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
        cross_attention_dim=16,
    )


def autoencoder() -> nn.Module:
    """An autoencoder of images with a latent distribution."""
    return diffusers().AutoencoderKL(
        down_block_types=("DownEncoderBlock2D",) * 2,
        up_block_types=("UpDecoderBlock2D",) * 2,
        block_out_channels=(16, 32),
        norm_num_groups=8,
    )


def _denoised(model: nn.Module, batch: Batch) -> torch.Tensor:
    guess = model(batch["noisy"], batch["step"], batch["prompt"]).sample
    return functional.mse_loss(guess, batch["noise"])


EXAMPLES: dict[str, Example] = {
    "resnet18": _vision(lambda models: models.resnet18(num_classes=10)),
    "resnet50": _vision(lambda models: models.resnet50(num_classes=10)),
    "mobilenet_v3": _vision(lambda models: models.mobilenet_v3_small(num_classes=10)),
    "efficientnet": _vision(lambda models: models.efficientnet_b0(num_classes=10)),
    "vit": _vision(lambda models: models.VisionTransformer(32, 8, 2, 4, 32, 64, num_classes=10), 4, 32),
    "swin": _vision(
        lambda models: models.SwinTransformer(
            [2, 2], 24, [2, 2], [2, 4], [4, 4], num_classes=10, stochastic_depth_prob=0
        ),
        4,
        32,
    ),
    "unet": Example(
        UNet,
        lambda: {"x": torch.randn(4, 3, 32, 32), "y": torch.randint(0, 4, (4, 32, 32))},
        _classified,
    ),
    "lstm": _recurrent(nn.LSTM),
    "gru": _recurrent(nn.GRU),
    "bert": Example(_bert, _tokens, _labelled),
    "gpt2": Example(gpt2, _tokens, _labelled),
    "llama": Example(llama, _tokens, _labelled),
    "t5": Example(t5, _tokens, _labelled),
    "vit of transformers": Example(
        _image_classifier,
        _images(4, 32),
        lambda model, batch: model(pixel_values=batch["x"], labels=batch["y"]).loss,
    ),
    "denoiser": Example(
        denoiser,
        lambda: {
            "noisy": torch.randn(2, 4, 16, 16),
            "noise": torch.randn(2, 4, 16, 16),
            "step": torch.tensor([3, 700]),
            "prompt": torch.randn(2, 5, 16),
        },
        _denoised,
    ),
    "autoencoder": Example(
        autoencoder,
        lambda: {"x": torch.randn(2, 3, 32, 32)},
        lambda model, batch: functional.mse_loss(model(batch["x"]).sample, batch["x"]),
    ),
}


def without_chance(model: nn.Module) -> nn.Module:
    """The model with nothing in it that draws numbers, which devices draw otherwise."""
    for part in model.modules():
        if type(part).__name__ in ("Dropout", "Dropout1d", "Dropout2d", "StochasticDepth"):
            part.p = 0.0
    return model
