"""Mixed precision, torch.compile, DLPack, groups of processes."""

from __future__ import annotations

import copy
import os
import socket
import subprocess
import sys

import pytest
import torch
import unihal
from torch import nn

DEVICE = torch._C._get_privateuse1_backend_name()


def _model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.LayerNorm(144), nn.Linear(144, 10)
    )


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_and_grad_scaler_track_the_cpu(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    model, x, y = _model(), torch.randn(4, 3, 8, 8), torch.arange(4)
    before = unihal.fallbacks()
    found = {}
    for device in ("cpu", DEVICE):
        net = copy.deepcopy(model).to(device)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        scaler = torch.amp.GradScaler(device, init_scale=1024.0, enabled=dtype == torch.float16)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            with torch.autocast(device, dtype):
                out = net(x.to(device))
                loss = nn.functional.cross_entropy(out, y.to(device))
            assert out.dtype == dtype and loss.dtype == torch.float32
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        found[device] = losses
    torch.testing.assert_close(found[DEVICE], found["cpu"], rtol=0.03, atol=0.01)  # bfloat16 has 8 bits
    assert unihal.fallbacks() == before


def test_a_gradient_that_is_not_finite_leaves_the_step_out() -> None:
    weight = torch.ones(3, device=DEVICE, requires_grad=True)
    scaler = torch.amp.GradScaler(DEVICE, init_scale=16.0)
    optimizer = torch.optim.SGD([weight], 1.0)
    scaler.scale((weight * torch.tensor([1.0, float("inf"), 1.0], device=DEVICE)).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    assert weight.tolist() == [1.0, 1.0, 1.0] and scaler.get_scale() == 8.0


def test_dlpack() -> None:
    x = torch.arange(4.0, device=DEVICE)
    for number, y in enumerate((torch.from_dlpack(x), torch.from_dlpack(torch.utils.dlpack.to_dlpack(x)))):
        y[0] = 7 + number
        assert x[0].item() == 7 + number and y.device == x.device
    host = torch.ones(2)
    assert torch.from_dlpack(host).data_ptr() == host.data_ptr()


def test_the_dtypes_that_a_device_computes_with() -> None:
    found = torch.accelerator.get_device_capability()["supported_dtypes"]
    assert {torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64} <= set(found)
    assert torch.complex32 not in found
    assert getattr(torch, DEVICE).get_device_capability() == torch.accelerator.get_device_capability()


@pytest.mark.whole
def test_torch_compile() -> None:
    x = torch.rand(5, device=DEVICE)
    for backend in ("eager", "aot_eager"):
        y = torch.compile(lambda t: torch.sin(t) * 2, backend=backend)(x)
        assert torch.allclose(y.cpu(), torch.sin(x.cpu()) * 2)
    with pytest.raises(Exception, match="backend='aot_eager'"):
        torch.compile(lambda t: torch.cos(t) * 2)(x)


PROGRAM = """
import os, sys, torch, torch.distributed as dist
from unihal_torch.process_group import HostGroup
rank, backend, name = int(sys.argv[1]), *sys.argv[2:]
def through_the_host(store, rank, size, timeout):
    return HostGroup(dist.ProcessGroupGloo(store, rank, size, timeout))
dist.Backend.register_backend("host", through_the_host, devices=[name])
dist.init_process_group(backend, rank=rank, world_size=2)
torch.manual_seed(0)
model = torch.nn.Linear(4, 2).to(name)
wrapped = torch.nn.parallel.DistributedDataParallel(model)
x = torch.arange(8.0).reshape(2, 4)
wrapped(x[rank : rank + 1].to(name)).pow(2).mean().backward()
alone = torch.nn.Linear(4, 2)
torch.manual_seed(0)
alone = torch.nn.Linear(4, 2)
alone(x).pow(2).mean().backward()
assert torch.allclose(model.weight.grad.cpu(), alone.weight.grad, atol=1e-5), model.weight.grad
total = torch.full((3,), float(rank + 1), device=name)
dist.all_reduce(total)
assert total.tolist() == [3.0] * 3
parts = [torch.empty(2, device=name) for _ in range(2)]
dist.all_gather(parts, torch.full((2,), float(rank), device=name))
assert [part.tolist() for part in parts] == [[0.0, 0.0], [1.0, 1.0]]
dist.broadcast(total if rank == 0 else total.zero_(), 0)
assert total.tolist() == [3.0] * 3
dist.barrier()
dist.destroy_process_group()
"""


@pytest.mark.skipif(os.environ["UNIHAL_BACKEND"] != "stub", reason="two ranks share a device, which GPUs refuse")
@pytest.mark.parametrize("backend", ["unihal", pytest.param("host", marks=pytest.mark.whole)])
def test_two_processes_agree_with_one(backend: str) -> None:
    """Also as where a backend has no collectives."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = str(found.getsockname()[1])
    environment = {**os.environ, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
    ranks = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, str(rank), backend, DEVICE],
            env=environment,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in range(2)
    ]
    for rank in ranks:
        _, error = rank.communicate(timeout=120)
        assert rank.returncode == 0, error
