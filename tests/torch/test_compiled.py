"""torch.compile with `aot_eager`: graphs of forward and gradient, whose strides PyTorch foretells."""

from __future__ import annotations

import contextlib
import copy
import itertools
from typing import Any

import op_database
import pytest
import torch
from op_rows import ON_DEVICE
from test_training import MODELS
from torch import nn
from torch._prims_common import check_significant_strides
from torch._subclasses.fake_tensor import DataDependentOutputException, DynamicOutputShapeException, FakeTensorMode
from torch.nn import functional
from torch.utils._pytree import tree_leaves, tree_map

DEVICE = torch._C._get_privateuse1_backend_name()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.whole if i else ()) for i, name in enumerate(MODELS)]
)
def test_a_compiled_model_has_the_eager_one_s_gradients(name: str) -> None:
    torch.manual_seed(0)
    make, inputs = MODELS[name]
    model, x, labels = make().to(DEVICE), inputs().to(DEVICE), torch.randint(0, 10, (8,), device=DEVICE)
    compiled = copy.deepcopy(model)
    losses = [functional.cross_entropy(run(x), labels) for run in (model, torch.compile(compiled, backend="aot_eager"))]
    for loss in losses:
        loss.backward()
    torch.testing.assert_close(losses[1], losses[0])
    for ours, theirs in zip(compiled.parameters(), model.parameters(), strict=True):
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.whole
def test_an_encoder_with_dropout_can_be_compiled() -> None:
    layer = nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True).to(DEVICE)
    torch.compile(layer, backend="aot_eager")(torch.randn(2, 8, 16, device=DEVICE)).square().sum().backward()
    assert all(bool(parameter.grad.isfinite().all()) for parameter in layer.parameters())


#: PyTorch foretells statistics that it leaves empty on the CPU and here.
FORETOLD_OTHERWISE = {"native_batch_norm", "_native_batch_norm_legit"}
SAMPLES = 3


@pytest.mark.whole
@pytest.mark.timeout(1200)
def test_results_are_as_pytorch_foretells_them() -> None:
    """Shapes, dtypes, devices and strides of each op, by the functions that a compiled graph is made with."""
    compared = 0
    for name in ON_DEVICE:
        for op in op_database.operators(name):
            if torch.float32 not in op.supported_dtypes("cpu") or name in FORETOLD_OTHERWISE:
                continue
            for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), SAMPLES):
                arguments = op_database.to_device((sample.input, sample.args, sample.kwargs))
                try:
                    real = op.op(arguments[0], *arguments[1], **arguments[2])
                except (RuntimeError, AssertionError):
                    continue  # what the CPU or this machine refuses too, which test_ops.py looks at
                compared += _compare(op, arguments, real)
    assert compared > 1000


def _compare(op: Any, arguments: Any, real: Any) -> int:
    with FakeTensorMode() as mode, contextlib.suppress(DataDependentOutputException, DynamicOutputShapeException):
        first, others, named = tree_map(
            lambda leaf: mode.from_tensor(leaf) if isinstance(leaf, torch.Tensor) else leaf, arguments
        )
        foretold = op.op(first, *others, **named)
        for ours, fake in zip(tree_leaves(real), tree_leaves(foretold), strict=True):
            if isinstance(ours, torch.Tensor):
                assert (ours.shape, ours.dtype, ours.device) == (fake.shape, fake.dtype, fake.device), op.name
                assert check_significant_strides(ours, fake)[0], (op.name, ours.stride(), fake.stride())
        return 1
    return 0
