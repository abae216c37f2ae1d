"""PyTorch's op database: what has a kernel computes what PyTorch's CPU computes, and nothing falls back."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path

import op_database
import pytest
import torch
from op_rows import LEFT_OUT, ON_DEVICE

DTYPES = (
    torch.float32,
    torch.float16,
    torch.bfloat16,
    torch.float64,
    torch.int64,
    torch.int32,
    torch.uint8,
    torch.bool,
    torch.complex64,
)
#: In `make test` each op runs for float32, and those that have none of it for their first dtype.
SAMPLES = 1
#: In `make test-all` so many in these dtypes; all of all dtypes are `long`.
MORE_SAMPLES = 8
SOON = (torch.float32, torch.int64)
MANY_SAMPLES = 40


def _check(name: str, dtypes: tuple[torch.dtype, ...], samples: int, ways: str = "variants") -> Counter[str]:
    found: Counter[str] = Counter()
    for op in op_database.operators(name):
        for dtype in dtypes:
            if dtype not in op.supported_dtypes("cpu") or str(dtype)[6:] in " ".join(LEFT_OUT.get(name, {})).split():
                continue
            outcome = op_database.run(op, dtype, samples, ways)
            label = f"{name} {op.variant_test_name} {dtype}"
            assert not outcome.failures, f"{label}: {outcome.failures}"
            assert not outcome.fallbacks, f"{label}: {dict(outcome.fallbacks)}"
            found.update({"passed": outcome.passed, "of these random": outcome.drawn})
            found.update({way.split(": ", 1)[1]: count for way, count in outcome.left_out.items()})
    return found


def _report(what: str, found: Counter[str]) -> None:
    """Cases, and each class of those that are left out: shown by pytest -rP, and by -s."""
    assert found["passed"] > 0
    print(f"{what}: {dict(found.most_common())}")


@pytest.mark.parametrize("part", range(8))
def test_a_sample_in_float32(part: int) -> None:
    for name in ON_DEVICE[part::8]:
        _check(name, DTYPES[:1], SAMPLES)


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("dtype", "samples"),
    [
        *(pytest.param(dtype, MORE_SAMPLES, marks=pytest.mark.whole) for dtype in SOON),
        *(pytest.param(dtype, MANY_SAMPLES, marks=pytest.mark.long) for dtype in DTYPES),
    ],
    ids=str,
)
def test_all_samples(dtype: torch.dtype, samples: int) -> None:
    _report(str(dtype), sum((_check(name, (dtype,), samples) for name in ON_DEVICE), Counter()))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    "dtype",
    [pytest.param(torch.float32, marks=pytest.mark.whole), pytest.param(torch.complex64, marks=pytest.mark.long)],
    ids=str,
)
def test_views_of_samples(dtype: torch.dtype) -> None:
    """Expanded, turned, with gaps, negated, conjugated, channels last, without elements."""
    _report(f"views, {dtype}", sum((_check(name, (dtype,), 2, "views") for name in ON_DEVICE), Counter()))


@pytest.mark.timeout(1200)
@pytest.mark.parametrize(
    ("dtype", "every"),
    [
        pytest.param(torch.float64, 6, marks=pytest.mark.whole),
        *(pytest.param(dtype, 1, marks=pytest.mark.long) for dtype in (torch.float64, torch.complex128)),
    ],
    ids=str,
)
def test_transforms_of_samples(dtype: torch.dtype, every: int) -> None:
    """Derivatives of derivatives, forward mode, that of a gradient, vmap; and what is a view of the operand."""
    names = ON_DEVICE[::every]
    _report(f"transforms, {dtype}", sum((_check(name, (dtype,), 3, "transforms") for name in names), Counter()))


def test_a_division_of_whole_numbers_by_a_known_zero_is_refused() -> None:
    x = torch.arange(4, device=op_database.DEVICE)
    for function in (
        lambda t: t // 0,
        lambda t: t % 0,
        lambda t: torch.fmod(t, 0),
        lambda t: t.div(0, rounding_mode="trunc"),
    ):
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(x)
        with pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(x.cpu())


def test_without_kernels_ops_fall_back() -> None:
    program = (
        "import torch, unihal\n"
        f"x = torch.ones(3, 3, device='{op_database.DEVICE}')\n"
        "torch.cat([torch.nn.functional.gelu(x @ x + x)])\n"
        "names = {f.op for f in unihal.fallbacks()}\n"
        "assert {'add.out', 'mm.out', 'gelu.out', 'cat.out'} <= names, names\n"
    )
    environment = {**os.environ, "UNIHAL_TORCH_NO_KERNELS": "1"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)


@pytest.mark.whole
def test_the_control_without_kernels_fails() -> None:
    """Without the adapter's kernels the same cases fall back, and are no pass."""
    program = (
        "import torch, sys; sys.path.insert(0, sys.argv[1]); import op_database\n"
        "for name in ('add', 'mm', 'nn.functional.gelu', 'cat'):\n"
        "    outcome = op_database.run(op_database.operators(name)[0], torch.float32, 1)\n"
        "    assert outcome.fallbacks and not outcome.passed, outcome\n"
    )
    folder = str(Path(__file__).parent)
    environment = {**os.environ, "UNIHAL_TORCH_NO_KERNELS": "1"}
    subprocess.run([sys.executable, "-c", program, folder], check=True, env=environment)
