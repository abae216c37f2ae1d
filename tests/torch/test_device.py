"""The device in PyTorch: its module, memory, streams, random state, copies, views, serialization, errors."""

from __future__ import annotations

import copy
import io
import os
import pickle
import warnings

import pytest
import torch
import unihal
from processes import run_python

DEVICE = torch._C._get_privateuse1_backend_name()  # rdna, or what the backend serves
ON = getattr(torch, DEVICE)


# -- appearance --------------------------------------------------------------------------------------------------------


def test_import_torch_alone_makes_the_device_appear() -> None:
    assert ON.is_available()
    assert ON.device_count() >= 1
    assert str(torch.accelerator.current_accelerator()) == DEVICE
    assert getattr(torch.ones(2, device=DEVICE), f"is_{DEVICE}")
    assert getattr(torch.ones(2), DEVICE)().device == torch.device(f"{DEVICE}:0")
    assert getattr(next(getattr(torch.nn.Linear(2, 2), DEVICE)().parameters()), f"is_{DEVICE}")


def test_properties() -> None:
    properties = ON.get_device_properties()
    assert properties.is_stub == (os.environ["UNIHAL_BACKEND"] == "stub") and properties.total_memory > 0
    assert ON.get_device_name(0) == properties.name
    with ON.device(0):
        assert ON.current_device() == 0
    with pytest.raises(RuntimeError, match=f"{DEVICE}:7"):
        ON.set_device(7)


# -- memory ------------------------------------------------------------------------------------------------------------


def test_memory_statistics() -> None:
    ON.reset_peak_memory_stats()
    before = ON.memory_allocated()
    x = torch.empty(1 << 20, device=DEVICE)
    assert ON.memory_allocated() - before >= 4 << 20
    assert torch.accelerator.memory_allocated() == ON.memory_allocated()
    del x
    assert ON.memory_allocated() == before
    assert ON.max_memory_allocated() - before >= 4 << 20
    assert ON.memory_reserved() >= before
    ON.empty_cache()
    free, total = ON.mem_get_info()
    assert 0 < free <= total
    assert "allocated_bytes" in ON.memory_summary()
    assert ON.memory_stats()["allocated_bytes.all.current"] == before


@pytest.mark.skipif(not hasattr(torch.accelerator, "empty_host_cache"), reason="PyTorch has it since 2.12")
def test_cached_host_memory_is_given_back() -> None:
    torch.empty(1 << 24).pin_memory()
    device = unihal.device(f"{DEVICE}:0")
    before = device.memory_stats("pinned").reserved_bytes
    kept = 0 if os.environ.get("UNIHAL_STUB") == "strict" else 4 << 24  # strict: each allocation is freed at once
    assert before >= kept
    torch.accelerator.empty_host_cache()
    assert device.memory_stats("pinned").reserved_bytes <= before - kept


def test_a_process_takes_its_share_of_memory() -> None:
    total = ON.mem_get_info()[1]
    ON.empty_cache()
    ON.set_per_process_memory_fraction(0.5)
    try:
        assert ON.mem_get_info()[1] == total // 2
        with pytest.raises(ON.OutOfMemoryError):
            torch.empty(total // 2 + 1, dtype=torch.uint8, device=DEVICE)
    finally:
        ON.set_per_process_memory_fraction(1)
    assert ON.mem_get_info()[1] == total


def test_out_of_memory_is_torch_s_own_error_with_a_report() -> None:
    with pytest.raises(torch.OutOfMemoryError, match="reserved"):
        torch.empty(1 << 60, dtype=torch.uint8, device=DEVICE)


def test_pinned_memory_and_non_blocking_copies() -> None:
    host = torch.arange(1000.0).pin_memory()
    assert host.is_pinned() and not torch.arange(3.0).is_pinned()
    x = host.to(DEVICE, non_blocking=True)
    back = torch.empty(1000).pin_memory()
    back.copy_(x * 2, non_blocking=True)
    ON.synchronize()
    assert torch.equal(back, host * 2)


# -- streams -----------------------------------------------------------------------------------------------------------


def test_streams_and_events() -> None:
    stream = ON.Stream()
    start, end = ON.Event(enable_timing=True), ON.Event(enable_timing=True)
    x = torch.ones(1000, device=DEVICE)
    assert ON.current_stream() != stream
    with ON.stream(stream):
        assert ON.current_stream() == stream
        start.record()
        stream.wait_stream(ON.default_stream())
        y = x * 3
        x.record_stream(stream)
        end.record()
    ON.current_stream().wait_event(end)
    assert y.sum().item() == 3000
    end.synchronize()
    assert end.query() and start.elapsed_time(end) >= 0
    stream.synchronize()
    assert stream.query()


# -- random numbers ----------------------------------------------------------------------------------------------------


def test_random_state() -> None:
    torch.manual_seed(7)
    first = torch.rand(100, device=DEVICE)
    assert ON.initial_seed() == 7
    state = ON.get_rng_state()
    second = torch.rand(100, device=DEVICE)
    ON.set_rng_state(state)
    assert torch.equal(second.cpu(), torch.rand(100, device=DEVICE).cpu())
    torch.manual_seed(7)
    assert torch.equal(first.cpu(), torch.rand(100, device=DEVICE).cpu())
    assert not torch.equal(first.cpu(), second.cpu())
    generator = torch.Generator(device=DEVICE)
    generator.manual_seed(7)
    assert torch.equal(first.cpu(), torch.rand(100, device=DEVICE, generator=generator).cpu())
    with torch.random.fork_rng(devices=[0], device_type=DEVICE):
        torch.rand(3, device=DEVICE)
    with pytest.raises(RuntimeError, match="16 bytes"):
        ON.set_rng_state(torch.zeros(3, dtype=torch.uint8))


def test_distributions() -> None:
    n = 100_000
    torch.manual_seed(0)
    uniform = torch.empty(n, device=DEVICE).uniform_(-1, 3)
    assert -1 <= uniform.min() and uniform.max() < 3 and abs(uniform.mean().item() - 1) < 0.02
    normal = torch.empty(n, device=DEVICE).normal_(2, 3)
    assert abs(normal.mean().item() - 2) < 0.05 and abs(normal.std().item() - 3) < 0.05
    assert abs(torch.empty(n, device=DEVICE).bernoulli_(0.25).mean().item() - 0.25) < 0.01
    assert abs(torch.empty(n, device=DEVICE).exponential_(2).mean().item() - 0.5) < 0.01
    whole = torch.randint(-3, 4, (n,), device=DEVICE)
    assert sorted(set(whole.tolist())) == list(range(-3, 4))
    assert sorted(torch.randperm(1000, device=DEVICE).tolist()) == list(range(1000))
    x = torch.ones(n, device=DEVICE, requires_grad=True)
    y = torch.nn.functional.dropout(x, 0.25)
    y.sum().backward()
    assert torch.equal(x.grad.cpu(), y.detach().cpu())
    assert abs(y.mean().item() - 1) < 0.01


# -- tensors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64, torch.bool, torch.complex64])
def test_copies_with_strides_and_dtypes(dtype: torch.dtype) -> None:
    x = (torch.arange(60).reshape(3, 4, 5) % 3).to(dtype)
    for view in (
        lambda t: t,
        lambda t: t.permute(2, 0, 1),
        lambda t: t[:, ::2],
        lambda t: t[1:, :, 3],
        lambda t: t[:0],
    ):
        assert torch.equal(view(x.to(DEVICE)).cpu(), view(x))
        assert torch.equal(view(x).to(DEVICE).cpu(), view(x))
        target = torch.zeros(3, 4, 5, dtype=torch.float64)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the imaginary part is left out
            expected = view(target.clone()).copy_(view(x))
            assert torch.equal(view(target.to(DEVICE)).copy_(view(x)).cpu(), expected)
            assert torch.equal(view(target.clone()).copy_(view(x.to(DEVICE))), expected)
            assert torch.equal(view(target.to(DEVICE)).copy_(view(x.to(DEVICE))).cpu(), expected)


def test_views_share_their_storage() -> None:
    x = torch.zeros(4, 6, device=DEVICE)
    x[1].fill_(1)
    x.t()[2] = 5
    x.view(-1)[-1] = 7
    x.unfold(0, 2, 1)[0, 0] += 1
    x.as_strided((2,), (7,))[1] = 9
    expected = torch.zeros(4, 6)
    expected[1].fill_(1)
    expected.t()[2] = 5
    expected.view(-1)[-1] = 7
    expected.unfold(0, 2, 1)[0, 0] += 1
    expected.as_strided((2,), (7,))[1] = 9
    assert torch.equal(x.cpu(), expected)
    assert x.view(torch.int32)[0, 0].item() == expected.view(torch.int32)[0, 0].item()


def test_resize_set_and_storage() -> None:
    x = torch.arange(6.0, device=DEVICE)
    x.resize_(2, 2)
    assert torch.equal(x.cpu(), torch.arange(4.0).reshape(2, 2))
    x.resize_(10)
    assert torch.equal(x[:6].cpu(), torch.arange(6.0))
    y = torch.empty(0, device=DEVICE).set_(x.untyped_storage(), 2, (2, 2), (2, 1))
    assert torch.equal(y.cpu(), torch.tensor([[2.0, 3], [4, 5]]))
    assert y.untyped_storage().device.type == DEVICE


def test_channels_last_and_empty() -> None:
    x = torch.randn(2, 3, 4, 5).to(memory_format=torch.channels_last)
    y = x.to(DEVICE)
    assert y.is_contiguous(memory_format=torch.channels_last)
    assert (y + 1).is_contiguous(memory_format=torch.channels_last)
    assert torch.equal(y.contiguous().cpu(), x.contiguous())
    nothing = torch.empty(0, 3, device=DEVICE)
    assert (nothing + 1).shape == (0, 3) and nothing.sum().item() == 0


def test_serialization_and_copies_of_objects(tmp_path: object) -> None:
    model = torch.nn.Linear(3, 2).to(DEVICE)
    stream = io.BytesIO()
    torch.save(model.state_dict(), stream)
    for location in ("cpu", DEVICE, None):
        stream.seek(0)
        loaded = torch.load(stream, map_location=location)
        assert loaded["weight"].device.type == (location or DEVICE)
        assert torch.equal(loaded["weight"].cpu(), model.weight.detach().cpu())
    assert torch.equal(copy.deepcopy(model).weight.cpu(), model.weight.cpu())
    assert torch.equal(pickle.loads(pickle.dumps(model.weight)).cpu(), model.weight.cpu())


def test_autograd_tools() -> None:
    x = torch.randn(3, 4, device=DEVICE, requires_grad=True)
    with torch.no_grad():
        assert not (x * 2).requires_grad
    with torch.inference_mode():
        assert (x * 2).is_inference()
    y = torch.utils.checkpoint.checkpoint(lambda t: torch.tanh(t) * t, x, use_reentrant=False)
    y.sum().backward()
    t = torch.tanh(x.detach().cpu())
    assert torch.allclose(x.grad.cpu(), t + x.detach().cpu() * (1 - t * t), atol=1e-5)
    gradient = torch.func.vmap(torch.func.grad(lambda v: (v * v).sum()))(x.detach())
    assert torch.allclose(gradient.cpu(), 2 * x.detach().cpu())


def test_a_tensor_prints() -> None:
    assert f"{DEVICE}:0" in repr(torch.arange(3.0, device=DEVICE))


def _load(index: int) -> torch.Tensor:
    return torch.full((4,), float(index))


class Numbers(torch.utils.data.Dataset):
    def __len__(self) -> int:
        return 8

    def __getitem__(self, index: int) -> torch.Tensor:
        return _load(index)


def test_a_data_loader_with_workers_and_pinned_memory() -> None:
    torch.ones(2, device=DEVICE).sum().item()
    loader = torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=1, pin_memory=True)
    total = sum(batch.to(DEVICE, non_blocking=True).sum().item() for batch in loader)
    assert total == 4 * sum(range(8))


# -- fallbacks ---------------------------------------------------------------------------------------------------------


def test_a_fallback_is_counted_and_right() -> None:
    x = torch.rand(10, device=DEVICE)
    out = torch.empty(10, device=DEVICE)
    before = sum(f.count for f in unihal.fallbacks() if f.op.startswith("special_airy_ai"))
    torch.special.airy_ai(x, out=out)
    result = torch.special.airy_ai(x)
    assert torch.allclose(result.cpu(), torch.special.airy_ai(x.cpu()))
    assert torch.equal(out.cpu(), result.cpu())
    found = [f for f in unihal.fallbacks() if f.op.startswith("special_airy_ai")]
    assert sum(f.count for f in found) - before == 2
    assert all((f.framework, f.dtype, f.reason) == ("pytorch", "float32", "no kernel is registered") for f in found)


def test_a_fallback_of_an_op_of_tensors_and_numbers_writes_where_it_should() -> None:
    """Such ops are called with their C++ signature, and not boxed."""
    x = torch.tensor([-3, 1, 5], device=DEVICE)
    hardtanh, start = torch._C._nn.hardtanh, len(unihal.fallbacks())
    out, own = torch.empty(0, dtype=x.dtype, device=DEVICE), x.clone()
    assert hardtanh(x, -1, 2, out=out) is out and torch.nn.functional.hardtanh_(own, -1, 2) is own
    assert hardtanh(x, -1, 2).tolist() == out.tolist() == own.tolist() == [-1, 1, 2]
    names = {f.op for f in unihal.fallbacks()[start:]}
    assert names == {"hardtanh", "hardtanh_", "hardtanh.out"}


def test_a_fallback_is_an_error_under_strict() -> None:
    result = run_python(
        f"import torch\nx = torch.rand(3, device='{DEVICE}')\n"
        "try: torch.special.airy_ai(x)\n"
        "except NotImplementedError as error: assert 'special_airy_ai' in str(error), error\n"
        "else: raise SystemExit('no error')\n",
        UNIHAL_STRICT="1",
    )
    assert result.returncode == 0, result.stderr


def test_errors_are_those_of_the_cpu() -> None:
    cases = [
        lambda d: torch.ones(2, 3, device=d) @ torch.ones(2, 3, device=d),
        lambda d: torch.ones(2, device=d) + torch.ones(3, device=d),
        lambda d: torch.ones(2, device=d).sum(5),
        lambda d: torch.ones(2, dtype=torch.int32, device=d).mean(),
        lambda d: torch.ones(2, device=d, dtype=torch.int32).add_(1.5),
        lambda d: torch.cat([torch.ones(2, 3, device=d), torch.ones(2, 4, device=d)]),
        lambda d: torch.ones(4, 4, device=d)[torch.ones(3, dtype=torch.bool, device=d)],
        lambda d: torch.empty(-1, device=d),
        lambda d: torch.ones(3, device=d).view(2, 2),
    ]
    for case in cases:
        with pytest.raises((RuntimeError, IndexError, TypeError)) as theirs:
            case("cpu")
        with pytest.raises(theirs.type):
            case(DEVICE)
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device=DEVICE) + torch.ones(2)
