"""What two ranks do together, for test_distributed.py. Prints one JSON object."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

RANKS = 2
STEPS = 3
DEVICE = os.environ.get("UNIHAL_TORCH_DEVICE", "rdna")


def values(rank: int) -> torch.Tensor:
    return torch.arange(1.0, 5.0) * (rank + 1)


def network() -> nn.Module:
    torch.manual_seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Tanh(), nn.Linear(16, 8))


def batch(step: int, rank: int) -> torch.Tensor:
    return torch.rand(RANKS * 4, 8, generator=torch.Generator().manual_seed(step))[rank * 4 : rank * 4 + 4]


def weights(model: nn.Module) -> list[list[float]]:
    return [parameter.detach().cpu().flatten().tolist() for parameter in model.parameters()]


def collectives(rank: int) -> dict[str, Any]:
    place = torch.device(DEVICE, rank)
    results: dict[str, Any] = {}

    def note(name: str, work: Callable[[torch.Tensor], Any]) -> None:
        result = work(values(rank).to(place))
        tensors = result if isinstance(result, list) else [result]
        assert all(each.device == place for each in tensors), name
        results[name] = [each.to(torch.float32).cpu().flatten().tolist() for each in tensors]

    def in_place(call: Callable[..., Any], **keywords: Any) -> Callable[[torch.Tensor], torch.Tensor]:
        def work(x: torch.Tensor) -> torch.Tensor:
            call(x, **keywords)
            return x

        return work

    for op in ("SUM", "MAX", "MIN", "PRODUCT", "AVG"):
        note(f"all_reduce {op}", in_place(dist.all_reduce, op=getattr(dist.ReduceOp, op)))
    for dtype in (torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int64, torch.uint8):
        note(f"all_reduce {dtype}", lambda x, dtype=dtype: in_place(dist.all_reduce)(x.to(dtype)))
    note("broadcast", in_place(dist.broadcast, src=1))
    note("reduce", in_place(dist.reduce, dst=1))

    def strided(x: torch.Tensor) -> torch.Tensor:
        wide = torch.zeros(4, 2, device=place)
        wide[:, 0] = x
        dist.all_reduce(wide[:, 0])
        return wide

    def all_gather(x: torch.Tensor) -> list[torch.Tensor]:
        parts = [torch.empty_like(x) for _ in range(RANKS)]
        dist.all_gather(parts, x)
        return parts

    def all_gather_into_tensor(x: torch.Tensor) -> torch.Tensor:
        whole = torch.empty(RANKS * 4, device=place)
        dist.all_gather_into_tensor(whole, x)
        return whole

    def reduce_scatter(x: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(x)
        dist.reduce_scatter(result, [x, x * 10])
        return result

    def reduce_scatter_tensor(x: torch.Tensor) -> torch.Tensor:
        result = torch.empty(2, device=place)
        dist.reduce_scatter_tensor(result, x)
        return result

    def gather(x: torch.Tensor) -> list[torch.Tensor]:
        parts = [torch.empty_like(x) for _ in range(RANKS)] if rank == 1 else None
        dist.gather(x, parts, dst=1)
        return parts or []

    def scatter(x: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(x)
        dist.scatter(result, [x, x * 10] if rank == 0 else None, src=0)
        return result

    def all_to_all(x: torch.Tensor) -> list[torch.Tensor]:
        parts = [torch.empty_like(x) for _ in range(RANKS)]
        dist.all_to_all(parts, [x, x * 10])
        return parts

    def all_to_all_single(x: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(x)
        dist.all_to_all_single(result, x)
        return result

    def uneven(x: torch.Tensor) -> torch.Tensor:
        sizes = [1, 3] if rank == 0 else [3, 1]
        result = torch.empty_like(x)
        dist.all_to_all_single(result, x, sizes, sizes)
        return result

    def there_and_back(x: torch.Tensor) -> torch.Tensor:
        if rank == 0:
            dist.send(x, dst=1)
            dist.recv(x, src=1)
        else:
            other = torch.empty_like(x)
            dist.recv(other, src=0)
            dist.send(other * 3, dst=0)
        return x

    def both_ways(x: torch.Tensor) -> torch.Tensor:
        result = torch.empty_like(x)
        calls = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, result, 1 - rank)]
        for request in dist.batch_isend_irecv(calls):
            request.wait()
        return result

    def transposed(x: torch.Tensor) -> torch.Tensor:
        result = torch.empty(2, 2, device=place)
        requests = [dist.isend(x.view(2, 2).t(), 1 - rank), dist.irecv(result.t(), 1 - rank)]
        for request in requests:
            assert request is not None
            request.wait()
        return result

    def negated(x: torch.Tensor) -> torch.Tensor:
        numbers = torch.complex(x.cpu(), x.cpu() + 1).to(place).conj().imag
        assert numbers.is_neg()
        gathered = torch.empty(RANKS * 4, device=place)
        dist.all_gather_into_tensor(gathered, numbers)
        return gathered

    def asynchronous(x: torch.Tensor) -> torch.Tensor:
        work = dist.all_reduce(x, async_op=True)
        assert work is not None
        work.wait()
        return x + 1

    def in_a_group_of_its_own(x: torch.Tensor) -> torch.Tensor:
        group = dist.new_group([0, 1])
        dist.all_reduce(x, group=group)
        dist.barrier(group)
        return x

    for work in (strided, all_gather, all_gather_into_tensor, reduce_scatter, reduce_scatter_tensor, gather, scatter):
        note(work.__name__, work)
    for work in (all_to_all, all_to_all_single, uneven, there_and_back, both_ways, transposed, negated):
        note(work.__name__, work)
    for work in (asynchronous, in_a_group_of_its_own):
        note(work.__name__, work)
    on_cpu = values(rank)
    dist.all_reduce(on_cpu)
    results["cpu"] = on_cpu.tolist()
    objects: list[Any] = [None] * RANKS
    dist.all_gather_object(objects, {"rank": rank})
    results["objects"] = objects
    return results


def data_parallel(rank: int) -> Any:
    model = network().to(torch.device(DEVICE, rank))
    parallel = nn.parallel.DistributedDataParallel(model, [rank], bucket_cap_mb=1)
    optimizer = torch.optim.AdamW(parallel.parameters(), 1e-2)
    for step in range(STEPS):
        parallel(batch(step, rank).to(model[0].weight.device)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return weights(model)


def main() -> None:
    rank = int(os.environ["RANK"])
    getattr(torch, DEVICE).set_device(rank)
    dist.init_process_group()
    results = {"backend": dist.get_backend(), "collectives": collectives(rank), "data_parallel": data_parallel(rank)}
    dist.destroy_process_group()
    print("RESULT " + json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
