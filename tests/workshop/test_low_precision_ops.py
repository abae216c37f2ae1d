"""torch.ops.unihal: products with weights of few bits, those weights as numbers, norms with an activation."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
import unihal
import unihal_torch.low_precision as low_precision
from torch.nn import functional

DEVICE = torch._C._get_privateuse1_backend_name()
OPS = torch.ops.unihal

#: How far a product in a dtype may be from the one in float64, in parts of the largest sum of magnitudes.
TOLERANCE = {torch.float32: 2e-6, torch.float16: 4e-3, torch.bfloat16: 3e-2}


def weights(channels: int, columns: int, bits: int, block: int, points: str) -> dict[str, Any]:
    """Stored weights with all that belongs to them, and what they stand for in float64."""
    blocks = -(-columns // block) if block else 1
    most = 256 if bits == 8 else 16
    numbers = torch.randint(0, most, (channels, columns))
    scales = (torch.rand(channels, blocks) * 0.1 + 0.01).half()
    stored = numbers.to(torch.uint8)
    zeros: torch.Tensor = torch.full((channels, blocks), 8.0)
    given = None
    if points == "packed":
        whole = torch.randint(0, most, (channels, blocks), dtype=torch.uint8)
        zeros, given = whole.double(), whole if bits == 8 else low_precision.pack_halves(whole)
    elif points == "floating":
        zeros = torch.rand(channels, blocks) * 8
        given = zeros

    def wide(tensor: torch.Tensor) -> torch.Tensor:
        return tensor.double().repeat_interleave(block or columns, 1)[:, :columns]

    return {
        "weight": stored if bits == 8 else low_precision.pack_halves(stored),
        "scales": scales,
        "zero_points": given,
        "dense": (numbers.double() - wide(zeros)) * wide(scales),
        "numbers": (bits, block, 8.0),
    }


def to(value: Any, device: str) -> Any:
    return None if value is None else value.to(device)


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("bits", [8, 4])
@pytest.mark.parametrize(("columns", "block"), [(96, 32), (70, 16), (33, 0)])
def test_products_and_numbers(device: str, bits: int, columns: int, block: int) -> None:
    before = unihal.fallbacks()
    for points, dtype, rows in itertools.product(("none", "packed", "floating"), TOLERANCE, ((1,), (2, 5), (20,))):
        made = weights(24, columns, bits, block, points)
        x, bias = torch.randn(*rows, columns).to(dtype), torch.randn(24).to(dtype)
        stored = [to(made[name], device) for name in ("weight", "scales", "zero_points")]
        found = OPS.matmul_quantized(x.to(device), *stored, bias.to(device), *made["numbers"], "silu")
        assert found.dtype == dtype and found.device.type == device
        expected = functional.silu(x.double() @ made["dense"].T + bias.double())
        size = (x.double().abs() @ made["dense"].abs().T + bias.double().abs()).max()
        error = (found.cpu().double() - expected).abs().max() / size
        assert error < TOLERANCE[dtype], (points, dtype, rows, error)
        dense = OPS.dequantize_weight(*stored, columns, *made["numbers"], dtype)
        torch.testing.assert_close(
            dense.cpu().double(), made["dense"], atol=float(made["dense"].abs().max()) * TOLERANCE[dtype], rtol=0
        )
    assert unihal.fallbacks() == before


@pytest.mark.parametrize("activation", sorted(low_precision.ACTIVATIONS))
def test_activations(activation: str) -> None:
    x = torch.randn(2, 8, 5, 3)
    weight, bias = torch.randn(8), torch.randn(8)
    expected = low_precision.ACTIVATIONS[activation](
        functional.group_norm(x.double(), 4, weight.double(), bias.double(), 1e-5)
    )
    found = OPS.group_norm_activation(x.to(DEVICE), 4, weight.to(DEVICE), bias.to(DEVICE), 1e-5, activation)
    torch.testing.assert_close(found.cpu().double(), expected, atol=1e-5, rtol=1e-5)
    half = OPS.group_norm_activation(x.to(DEVICE).half(), 4, None, None, 1e-5, activation)
    plain = low_precision.ACTIVATIONS[activation](functional.group_norm(x.double(), 4))
    torch.testing.assert_close(half.cpu().double(), plain, atol=4e-3, rtol=4e-3)


def test_channels_last_stays_so() -> None:
    x = torch.randn(2, 8, 5, 3).to(memory_format=torch.channels_last)
    found = OPS.group_norm_activation(x.to(DEVICE), 4, None, None, 1e-5, "relu")
    assert found.is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(found.cpu(), functional.group_norm(x, 4).relu(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_rms_norm(dtype: torch.dtype) -> None:
    x, weight = torch.randn(3, 4, 32).to(dtype), torch.randn(32).to(dtype)
    wide = x.double()
    expected = wide * torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6) * weight.double()
    for device in ("cpu", DEVICE):
        found = OPS.rms_norm(x.to(device), weight.to(device), 1e-6)
        limit = {torch.float32: 1e-5, torch.float16: 5e-3, torch.bfloat16: 4e-2}[dtype]
        torch.testing.assert_close(found.cpu().double(), expected, atol=limit, rtol=limit)


def test_nothing_gives_nothing() -> None:
    made = weights(4, 32, 8, 0, "none")
    stored = [to(made[name], DEVICE) for name in ("weight", "scales", "zero_points")]
    assert OPS.matmul_quantized(torch.empty(0, 32, device=DEVICE), *stored, None, *made["numbers"], "none").shape == (
        0,
        4,
    )
    assert OPS.rms_norm(torch.empty(0, 8, device=DEVICE), None, 1e-6).shape == (0, 8)
    assert OPS.group_norm_activation(torch.empty(0, 8, 2, device=DEVICE), 4, None, None, 1e-5, "none").shape == (
        0,
        8,
        2,
    )


WRONG = {
    "bits": (ValueError, "expected 8 or 4", {"bits": 5}),
    "block": (ValueError, "power of two from 16", {"block": 24}),
    "columns": (RuntimeError, "columns", {"columns": 31}),
    "scales": (RuntimeError, "scales: expected", {"scales": torch.ones(4, 2)}),
    "scales' dtype": (TypeError, "floating", {"scales": torch.ones(4, 1, dtype=torch.int32)}),
    "weights' dtype": (TypeError, "uint8", {"weight": torch.ones(4, 32)}),
    "activation": (ValueError, "activation 'swish'", {"activation": "swish"}),
}


@pytest.mark.parametrize("device", ["cpu", DEVICE])
@pytest.mark.parametrize("wrong", sorted(WRONG))
def test_what_is_wrong_is_the_same_error_on_both(wrong: str, device: str) -> None:
    kind, text, change = WRONG[wrong]
    given = {
        "weight": torch.zeros(4, 32, dtype=torch.uint8),
        "scales": torch.ones(4, 1),
        "bits": 8,
        "block": 0,
        "columns": 32,
        "activation": "none",
        **change,
    }
    with pytest.raises(kind, match=text):
        OPS.matmul_quantized(
            torch.ones(2, given["columns"], device=device),
            given["weight"].to(device),
            given["scales"].to(device),
            None,
            None,
            given["bits"],
            given["block"],
            0.0,
            given["activation"],
        )


def test_operands_on_two_devices_are_refused() -> None:
    with pytest.raises(RuntimeError, match="scales: on cpu"):
        OPS.matmul_quantized(
            torch.ones(2, 32, device=DEVICE),
            torch.zeros(4, 32, dtype=torch.uint8, device=DEVICE),
            torch.ones(4, 1),
            None,
            None,
            8,
            0,
            0.0,
            "none",
        )


@pytest.mark.parametrize("activation", ["none", "silu"])
@pytest.mark.parametrize("bits", [8, 4])
def test_gradients_go_to_the_input(bits: int, activation: str) -> None:
    made = weights(24, 64, bits, 32, "none")
    x, bias = torch.randn(5, 64), torch.randn(24)
    exact = x.double().requires_grad_()
    loss = low_precision.ACTIVATIONS[activation](exact @ made["dense"].T + bias.double()).square().sum()
    loss.backward()
    found = x.to(DEVICE).requires_grad_()
    stored = [to(made[name], DEVICE) for name in ("weight", "scales", "zero_points")]
    OPS.matmul_quantized(found, *stored, bias.to(DEVICE), *made["numbers"], activation).square().sum().backward()
    assert exact.grad is not None and found.grad is not None
    error = (found.grad.cpu().double() - exact.grad).norm() / exact.grad.norm()
    assert error < 1e-5


def test_gradients_of_norms() -> None:
    for op, arguments in (
        (OPS.rms_norm, (torch.randn(8), 1e-6)),
        (OPS.group_norm_activation, (4, torch.randn(8), torch.randn(8), 1e-5, "silu")),
    ):
        x = torch.randn(3, 8)
        found = []
        for device in ("cpu", DEVICE):
            own = x.detach().to(device).requires_grad_()
            moved = [to(a, device) if isinstance(a, torch.Tensor) else a for a in arguments]
            op(own, *moved).square().sum().backward()
            assert own.grad is not None
            found.append(own.grad.cpu())
        torch.testing.assert_close(found[1], found[0], atol=1e-5, rtol=1e-4)


def test_traces_know_the_shapes() -> None:
    made = weights(24, 64, 4, 32, "packed")
    meta = [made[name].to("meta") for name in ("weight", "scales", "zero_points")]
    x = torch.empty(2, 3, 64, device="meta", dtype=torch.float16)
    y = OPS.matmul_quantized(x, *meta, None, *made["numbers"], "none")
    assert y.shape == (2, 3, 24) and y.dtype == torch.float16
    dense = OPS.dequantize_weight(*meta, 64, *made["numbers"], torch.bfloat16)
    assert dense.shape == (24, 64) and dense.dtype == torch.bfloat16
    assert OPS.rms_norm(x, None, 1e-6).shape == x.shape


def test_halves_are_packed_and_come_back() -> None:
    for columns in (1, 2, 7, 16):
        numbers = torch.randint(0, 16, (3, columns), dtype=torch.uint8)
        packed = low_precision.pack_halves(numbers)
        assert packed.shape == (3, -(-columns // 2))
        assert torch.equal(low_precision.unpack_halves(packed, columns), numbers)
    with pytest.raises(TypeError, match="uint8"):
        low_precision.pack_halves(torch.ones(2))
