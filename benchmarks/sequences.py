"""Recurrent layers and connectionist temporal classification beside a peer in the same run.

    python benchmarks/sequences.py [--only NAME] [--json FILE]

On the stub (the default) the peer is Paddle's CPU, on another backend PyTorch on the same GPU (cuDNN). A row is a
layer's forward and all its gradients, or the loss with its gradient; a ratio is the device's time over the peer's.
"""

from __future__ import annotations

import argparse
import json
import os
import pathlib
from collections.abc import Callable
from typing import Any, Literal

import measure
import numpy as np

os.environ.setdefault("UNIHAL_BACKEND", "stub")
ON_HOST = os.environ["UNIHAL_BACKEND"] == "stub"
if ON_HOST:
    import paddle
else:
    import torch

    torch.backends.cudnn.version()  # the cuDNN that PyTorch brings, before unihal opens the system's
import unihal  # noqa: E402
from unihal import Buffer, ops  # noqa: E402

DEVICE_TYPES = {"opencl": "polaris", "corex": "iluvatar"}
GATES = {"lstm": 4, "gru": 3, "tanh": 1}
#: Steps, sequences, inputs and units of a layer; steps, sequences, classes and labels of a loss.
LAYER = (50, 32, 128, 128) if ON_HOST else (100, 64, 512, 512)
LOSS = (200, 16, 40, 30) if ON_HOST else (500, 64, 64, 60)


def layer(mode: Literal["lstm", "gru", "tanh"], device: Any) -> tuple[Callable[[], None], Callable[[], Any]]:
    """Our layer's forward and backward, and the peer's."""
    steps, batch, inputs, hidden = LAYER
    width = GATES[mode] * hidden
    random = np.random.default_rng(0)

    def put(*shape: int) -> Buffer:
        return Buffer.from_numpy((random.uniform(-1, 1, shape) / np.sqrt(hidden)).astype("float32"), device)

    x, w, r, bias = put(steps * batch, inputs), put(width, inputs), put(1, width, hidden), put(1, width)
    dy, h0 = put(1, steps, batch, hidden), put(1, batch, hidden)

    def ours() -> None:
        gates = ops.matmul(x, w.T).reshape(1, steps, batch, width)
        result = ops.rnn(gates, r, h0, mode=mode, bias=bias)
        gradients = ops.rnn_backward(dy, r, result, h0, mode=mode)
        dx, dproduct = (each.reshape(steps * batch, width) for each in (gradients.dx, gradients.dproduct))
        ops.matmul(dx, w)
        ops.matmul(dx.T, x)
        ops.sum(dx, 0)
        later = dproduct[batch:]
        before = result.y.reshape(steps * batch, hidden)[: (steps - 1) * batch]
        first = ops.matmul(dproduct[:batch].T, h0.reshape(batch, hidden))
        ops.matmul(later.T, before, first)
        device.synchronize()

    if ON_HOST:
        with_paddle = {"lstm": paddle.nn.LSTM, "gru": paddle.nn.GRU, "tanh": paddle.nn.SimpleRNN}[mode]
        paddle.set_device("cpu")
        network = with_paddle(inputs, hidden, time_major=True)
        given = paddle.to_tensor(x.numpy().reshape(steps, batch, inputs))
        given.stop_gradient = False
        slope = paddle.to_tensor(dy.numpy()[0])

        def peer() -> None:
            paddle.autograd.backward([network(given)[0]], [slope])
            network.clear_gradients()

        return ours, peer
    import torch

    modules = {"lstm": torch.nn.LSTM, "gru": torch.nn.GRU, "tanh": torch.nn.RNN}
    torch.backends.cudnn.allow_tf32 = False
    module = modules[mode](inputs, hidden).cuda()
    tensor = torch.from_numpy(x.numpy().reshape(steps, batch, inputs)).cuda().requires_grad_()
    gradient = torch.from_numpy(dy.numpy()[0]).cuda()

    def torch_peer() -> None:
        module(tensor)[0].backward(gradient)
        torch.cuda.synchronize()

    return ours, torch_peer


def loss(device: Any) -> tuple[Callable[[], None], Callable[[], Any]]:
    """Our loss with its gradient, and the peer's."""
    steps, batch, classes, count = LOSS
    random = np.random.default_rng(0)
    logits = random.normal(size=(steps, batch, classes)).astype("float32")
    labels = random.integers(1, classes, (batch, count)).astype("int32")
    lengths = [np.full(batch, steps, "int64"), np.full(batch, count, "int64")]
    given = [Buffer.from_numpy(each, device) for each in (logits, labels, *lengths)]

    def ours() -> None:
        ops.ctc_loss(*given)
        device.synchronize()

    if ON_HOST:
        paddle.set_device("cpu")
        tensor, *others = (paddle.to_tensor(each) for each in (logits, labels, *lengths))
        tensor.stop_gradient = False

        def peer() -> None:
            paddle.nn.functional.ctc_loss(tensor, *others, reduction="sum").backward()
            tensor.clear_gradient()

        return ours, peer
    import torch

    theirs = torch.from_numpy(logits).cuda().requires_grad_()
    targets, *sizes = (torch.from_numpy(each).cuda() for each in (labels.astype("int64"), *lengths))

    def torch_peer() -> None:
        probabilities = torch.nn.functional.log_softmax(theirs, 2)
        torch.nn.functional.ctc_loss(probabilities, targets, *sizes, reduction="sum").backward()
        torch.cuda.synchronize()

    return ours, torch_peer


ROWS: dict[str, Callable[[Any], tuple[Callable[[], None], Callable[[], Any]]]] = {
    "lstm": lambda device: layer("lstm", device),
    "gru": lambda device: layer("gru", device),
    "tanh": lambda device: layer("tanh", device),
    "ctc_loss": loss,
}


def row(name: str, device: Any) -> dict[str, Any]:
    ours, peer = ROWS[name](device)
    seconds = measure.alternate({"unihal": ours, "peer": peer}, rounds=6)
    return {
        "benchmark": f"{name} {'x'.join(map(str, LOSS if name == 'ctc_loss' else LAYER))} float32",
        "unit": "ms",
        "device": seconds["unihal"] * 1e3,
        "peer": seconds["peer"] * 1e3,
        "peer_name": "Paddle's CPU" if ON_HOST else "PyTorch",
        "ratio": seconds["unihal"] / seconds["peer"],
        "target": 1.0 if ON_HOST else 1.5,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--only", choices=ROWS, help="this row only")
    parser.add_argument("--json", type=pathlib.Path, help="write the rows to a file")
    options = parser.parse_args()
    backend = os.environ["UNIHAL_BACKEND"]
    device = unihal.device(f"{DEVICE_TYPES.get(backend, 'rdna')}:0")
    rows = [row(name, device) for name in ROWS if options.only in (None, name)]
    for each in rows:
        print(
            f"{each['benchmark']:36} {each['device']:9.3f} ms, {each['peer_name']} {each['peer']:9.3f} ms, "
            f"ratio {each['ratio']:.2f} (at most {each['target']:g})"
        )
    if options.json is not None:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
