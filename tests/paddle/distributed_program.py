"""What two processes do together, for test_distributed.py. Prints one JSON object."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import paddle
import paddle.distributed as dist
from paddle import nn

RANKS = 2
STEPS = 3


def values(rank: int) -> Any:
    return np.arange(1, 5, dtype=np.float32) * (rank + 1)


def network() -> Any:
    paddle.seed(3)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 8))


def adam_of(model: Any) -> Any:
    """An epsilon far above rounding: at the usual one a gradient that is nothing else would become a whole step."""
    return paddle.optimizer.AdamW(1e-2, epsilon=1e-4, parameters=model.parameters())


def batch(step: int, rank: int | None = None) -> Any:
    whole = np.random.RandomState(step).rand(8, 8).astype("float32")
    return paddle.to_tensor(whole if rank is None else whole[rank * 4 : rank * 4 + 4])


def trained(model: Any, optimizer: Any, rank: int | None) -> None:
    for step in range(STEPS):
        model(batch(step, rank)).square().mean().backward()
        optimizer.step()
        optimizer.clear_grad()


def weights(model: Any) -> list[list[float]]:
    return [parameter.numpy().ravel().tolist() for parameter in model.parameters()]


def collectives(rank: int) -> dict[str, Any]:
    results: dict[str, Any] = {}

    def note(name: str, work: Callable[[Any], Any]) -> None:
        result = work(paddle.to_tensor(values(rank)))
        tensors = result if isinstance(result, list) else [result]
        assert all(f"{dist.ParallelEnv().device_type}:{rank}" in str(t.place) for t in tensors), name
        results[name] = [t.astype("float32").numpy().tolist() for t in tensors]

    def in_place(call: Callable[..., Any], **keywords: Any) -> Callable[[Any], Any]:
        def work(x: Any) -> Any:
            call(x, **keywords)
            return x

        return work

    for reduction in ("SUM", "MAX", "MIN", "PROD", "AVG"):
        note(f"all_reduce {reduction}", in_place(dist.all_reduce, op=getattr(dist.ReduceOp, reduction)))
    for dtype in ("float16", "bfloat16", "float64", "int32", "int64", "uint8"):

        def cast_and_add(x: Any, dtype: str = dtype) -> Any:
            y = x.astype(dtype)
            dist.all_reduce(y)
            return y

        note(f"all_reduce {dtype}", cast_and_add)
    note("broadcast", in_place(dist.broadcast, src=1))

    def all_gather(x: Any) -> Any:
        parts: list[Any] = []
        dist.all_gather(parts, x)
        return parts

    def reduce_scatter(x: Any) -> Any:
        result = paddle.zeros([4])
        dist.reduce_scatter(result, [x, x * 10])
        return result

    def scatter(x: Any) -> Any:
        result = paddle.zeros([4])
        dist.scatter(result, [x, x * 10] if rank == 0 else None, src=0)
        return result

    def all_to_all(x: Any) -> Any:
        parts: list[Any] = []
        dist.alltoall(parts, [x, x * 10])
        return parts

    def uneven(x: Any) -> Any:
        sizes = [1, 3] if rank == 0 else [3, 1]
        result = paddle.zeros([4])
        dist.alltoall_single(result, x, in_split_sizes=sizes, out_split_sizes=sizes)
        return result

    def there_and_back(x: Any) -> Any:
        if rank == 0:
            dist.send(x, dst=1)
            dist.recv(x, src=1)
        else:
            other = paddle.zeros([4])
            dist.recv(other, src=0)
            dist.send(other * 3, dst=0)
        return x

    def both_ways(x: Any) -> Any:
        result = paddle.zeros([4])
        calls = [dist.P2POp(dist.isend, x, 1 - rank), dist.P2POp(dist.irecv, result, 1 - rank)]
        for task in dist.batch_isend_irecv(calls):
            task.wait()
        return result

    def in_a_group_of_its_own(x: Any) -> Any:
        dist.all_reduce(x, group=dist.new_group([0, 1]), sync_op=False).wait()
        dist.barrier()
        return x

    for work in (all_gather, reduce_scatter, scatter, all_to_all, uneven, there_and_back, both_ways):
        note(work.__name__, work)
    note("group", in_a_group_of_its_own)
    objects: list[Any] = []
    dist.all_gather_object(objects, {"rank": rank})
    results["objects"] = objects
    return results


def data_parallel(rank: int) -> Any:
    model = network()
    parallel = paddle.DataParallel(model)
    trained(parallel, adam_of(parallel), rank)
    return weights(model)


def sharded(level: str, rank: int) -> Any:
    from paddle.distributed.sharding import group_sharded_parallel

    model = network()
    wrapped, optimizer, _ = group_sharded_parallel(model, adam_of(model), level)
    trained(wrapped, optimizer, rank)
    if level == "p_g_os":
        wrapped.get_all_parameters()
    return weights(model)


def pipeline(rank: int) -> Any:
    """Losses and this stage's weights after some steps of two stages, with micro-batches."""
    from paddle.distributed import fleet
    from paddle.distributed.fleet.meta_parallel import LayerDesc, PipelineLayer

    strategy = fleet.DistributedStrategy()
    strategy.hybrid_configs = {"dp_degree": 1, "mp_degree": 1, "pp_degree": RANKS}
    strategy.pipeline_configs = {"accumulate_steps": 2, "micro_batch_size": 4}
    fleet.init(is_collective=True, strategy=strategy)
    layers = [LayerDesc(nn.Linear, 8, 16), LayerDesc(nn.Tanh), LayerDesc(nn.Linear, 16, 8), LayerDesc(nn.Tanh)]
    model = PipelineLayer(layers=layers, num_stages=RANKS, loss_fn=nn.MSELoss())
    whole = network()
    for mine, initial in zip(model.parameters(), whole.parameters()[2 * rank :], strict=False):
        mine.set_value(initial.numpy())
    wrapped = fleet.distributed_model(model)
    optimizer = fleet.distributed_optimizer(paddle.optimizer.SGD(0.1, parameters=wrapped.parameters()))
    losses = []
    for step in range(STEPS):
        loss = wrapped.train_batch([batch(step), batch(step)], optimizer)
        losses.append(float(loss.sum()) if rank == RANKS - 1 else 0.0)
    return {"losses": losses, "weights": weights(model)}


#: Name: dtype, data format and shape of the batch of all ranks, numbers that it lies around, and this rank's share.
NORMS: dict[str, tuple[str, str, tuple[int, ...], float, list[int]]] = {
    "image": ("float32", "NCHW", (8, 3, 5, 7), 0.0, [4, 4]),
    "channels last": ("float32", "NHWC", (8, 5, 7, 3), 0.0, [4, 4]),
    "vectors": ("float32", "NC", (8, 3), 0.0, [4, 4]),
    "sequence": ("float32", "NCL", (8, 3, 6), 0.0, [4, 4]),
    "volume": ("float32", "NCDHW", (8, 3, 2, 3, 4), 0.0, [4, 4]),
    "volume, channels last": ("float32", "NDHWC", (8, 2, 3, 4, 3), 0.0, [4, 4]),
    "uneven": ("float32", "NCHW", (8, 3, 5, 7), 0.0, [7, 1]),
    "one each": ("float32", "NC", (2, 3), 0.0, [1, 1]),
    "nothing on one": ("float32", "NCHW", (8, 3, 5, 7), 0.0, [8, 0]),
    "far from 0": ("float32", "NCHW", (8, 3, 5, 7), 100.0, [4, 4]),
    "float64": ("float64", "NCHW", (8, 3, 5, 7), 0.0, [4, 4]),
    "float16": ("float16", "NCHW", (8, 3, 5, 7), 0.0, [4, 4]),
    "bfloat16": ("bfloat16", "NHWC", (8, 5, 7, 3), 0.0, [4, 4]),
    "elements": ("float32", "NC", (8, 3), 0.0, [5, 3]),
}


class NormOfElements(paddle.sparse.nn.SyncBatchNorm):
    """Of a sparse tensor whose elements are the rows of a dense one."""

    def __init__(self, channels: int, data_format: str, momentum: float) -> None:
        assert data_format == "NC"
        super().__init__(channels, momentum=momentum)

    def forward(self, rows: Any) -> Any:
        places = paddle.arange(rows.shape[0]).unsqueeze(0)
        return super().forward(paddle.sparse.sparse_coo_tensor(places, rows, rows.shape, stop_gradient=False)).values()


def synchronized_norm(name: str) -> Callable[..., Any]:
    layer: Callable[..., Any] = NormOfElements if name == "elements" else nn.SyncBatchNorm
    return layer


def normalized(name: str, layer_of: Callable[..., Any], rank: int | None, dtype: str | None = None) -> dict[str, Any]:
    """What a layer with batch normalization of a row of NORMS gives, of all ranks' batch or of one rank's share."""
    own, data_format, shape, middle, shares = NORMS[name]
    dtype = dtype or own
    channels = shape[-1 if data_format[-1] == "C" and data_format != "NC" else 1]
    numbers = np.random.RandomState(5)
    x, dy = numbers.randn(*shape) + middle, numbers.randn(*shape)
    # What the dtype has of them, which all compute with.
    x, dy = (paddle.to_tensor(a.astype("float32")).astype(own).astype("float64").numpy() for a in (x, dy))
    if rank is not None:
        kept = slice(sum(shares[:rank]), sum(shares[: rank + 1]))
        x, dy = x[kept], dy[kept]
    layer = layer_of(channels, data_format=data_format, momentum=0.8)
    layer.weight.set_value(np.linspace(0.5, 2, channels).astype("float32"))
    layer.bias.set_value(np.linspace(-1, 1, channels).astype("float32"))
    layer._variance.set_value(np.linspace(1, 3, channels).astype("float32"))
    if dtype == "float64":
        layer.to(dtype=dtype)
    given = paddle.to_tensor(x).astype(dtype)
    given.stop_gradient = False
    y = layer(given)
    y.backward(paddle.to_tensor(dy).astype(dtype))
    layer.eval()
    tested = layer(given.detach())
    found = {"y": y, "dx": given.grad, "tested": tested, "dscale": layer.weight.grad, "dbias": layer.bias.grad}
    found |= {"mean": layer._mean, "variance": layer._variance}
    return {key: tensor.astype("float64").numpy().tolist() for key, tensor in found.items()}


def norm_in_a_graph(*arguments: Any, **options: Any) -> Any:
    return paddle.jit.to_static(nn.SyncBatchNorm(*arguments, **options), full_graph=True)


def convolutional(synchronized: bool) -> Any:
    """Without biases before the norms: their gradients are rounding."""
    paddle.seed(4)
    model = nn.Sequential(
        nn.Conv2D(1, 4, 3, padding=1, bias_attr=False),
        nn.BatchNorm2D(4),
        nn.ReLU(),
        nn.Conv2D(4, 2, 3, bias_attr=False),
        nn.BatchNorm2D(2),
    )
    return nn.SyncBatchNorm.convert_sync_batchnorm(model) if synchronized else model


def trained_on_images(model: Any, rank: int | None) -> None:
    """Batches as above, as images of 8 by 1, which are made 8 by 8."""
    optimizer = adam_of(model)
    for step in range(STEPS):
        rows = batch(step, rank)
        images = (rows.unsqueeze(1).unsqueeze(3) * rows.unsqueeze(1).unsqueeze(2)).exp()
        y = model(images)
        (y * y * images[:, :, 1:-1, 1:-1]).mean().backward()
        optimizer.step()
        optimizer.clear_grad()


def state(model: Any) -> list[list[float]]:
    """Parameters and running statistics."""
    return [value.numpy().ravel().tolist() for value in model.state_dict().values()]


def converted(rank: int) -> Any:
    model = convolutional(synchronized=True)
    trained_on_images(paddle.DataParallel(model), rank)
    return state(model)


def alone_among_others() -> dict[str, Any]:
    """Before the first collective of all ranks there are no statistics of all, and none are made up."""
    layer = nn.SyncBatchNorm(3)
    x = paddle.ones([2, 3, 4, 4])
    try:
        layer(x)
        trained = "not refused"
    except RuntimeError as error:
        trained = str(error)
    layer.eval()
    return {"trained": trained, "tested": float(layer(x).mean())}


def main() -> None:
    dist.init_parallel_env()
    rank = dist.get_rank()
    results: dict[str, Any] = {"device": paddle.get_device(), "alone": alone_among_others()}
    dist.barrier()
    results["norms"] = {name: normalized(name, synchronized_norm(name), rank) for name in NORMS}
    results["norm in a graph"] = normalized("image", norm_in_a_graph, rank)
    results["converted"] = converted(rank)
    results |= {"collectives": collectives(rank), "data_parallel": data_parallel(rank)}
    for level in ("os", "os_g", "p_g_os"):
        results[level] = sharded(level, rank)
    results["pipeline"] = pipeline(rank)
    print("RESULT " + json.dumps(results), flush=True)


if __name__ == "__main__":
    main()
