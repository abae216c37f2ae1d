"""What PyTorch says where there is no device, another one is wished for, or its version has no adapter."""

from __future__ import annotations

import os

import pytest
import unihal_torch
from processes import run_python


def run(program: str, **variables: str | None) -> str:
    result = run_python(program, **variables)
    assert result.returncode == 0, result.stderr
    return result.stdout


@pytest.mark.skipif(os.environ["UNIHAL_BACKEND"] != "stub", reason="there may be hardware")
def test_without_hardware_torch_is_as_if_unihal_were_not_installed() -> None:
    out = run(
        "import torch\n"
        "assert not torch.rdna.is_available() and torch.rdna.device_count() == 0\n"
        "assert not torch.iluvatar.is_available() and not torch.accelerator.is_available()\n"
        "assert torch._C._get_privateuse1_backend_name() == 'privateuseone'\n"
        "try: torch.rdna.synchronize()\n"
        "except RuntimeError as error: print(error)\n",
        UNIHAL_BACKEND="",
        UNIHAL_TORCH_DEVICE="rdna",
    )
    assert "unihal doctor" in out


def test_another_type_is_asked_for_by_the_environment() -> None:
    out = run(
        "import torch\n"
        "print(torch.ones(2, device='iluvatar').device, torch.iluvatar.is_available(), torch.rdna.is_available())\n"
        "try: torch.rdna.set_device(0)\n"
        "except RuntimeError as error: print(error)\n",
        UNIHAL_TORCH_DEVICE="iluvatar",
        UNIHAL_BACKEND="stub",
    )
    assert out.startswith("iluvatar:0 True False")
    assert "UNIHAL_TORCH_DEVICE=rdna" in out


@pytest.mark.parametrize(
    ("wish", "present", "expected"),
    [
        ("", {"rdna": 1, "iluvatar": 2}, ("rdna", 1)),
        ("", {"iluvatar": 2}, ("iluvatar", 2)),
        ("", {"polaris": 1}, ("polaris", 1)),
        ("", {}, ("rdna", 0)),
        ("iluvatar", {"rdna": 1}, ("iluvatar", 0)),
        ("polaris", {"rdna": 1, "polaris": 3}, ("polaris", 3)),
    ],
)
def test_the_first_type_that_has_a_device_unless_one_is_named(
    wish: str, present: dict[str, int], expected: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(unihal_torch.VARIABLE, wish)
    monkeypatch.setattr(unihal_torch, "_count", lambda name: present.get(name, 0))
    assert unihal_torch.chosen_type() == expected


def test_an_unknown_type_is_said_and_torch_works_on() -> None:
    out = run(
        "import warnings; warnings.simplefilter('ignore')\nimport torch, unihal_torch\n"
        "print(torch.ones(2).sum().item(), unihal_torch.reason)",
        UNIHAL_TORCH_DEVICE="cuda",
    )
    assert "2.0" in out and "rdna, iluvatar, polaris" in out


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("9.9.1+cpu", "PyTorch 9.9.1+cpu is not supported, 2.11 to 2.15 are"),
        pytest.param("built for none", "this unihal was built for no version: build it again", marks=pytest.mark.whole),
    ],
)
def test_a_version_without_an_adapter_is_refused_and_torch_works_on(version: str, message: str) -> None:
    """By the import itself: torch.__version__ is what the adapter is chosen by."""
    out = run(
        "import warnings, os; os.environ['TORCH_DEVICE_BACKEND_AUTOLOAD'] = '0'\n"
        "import torch, unihal_torch\n"
        f"if {version!r}[0] == '9': torch.__version__ = {version!r}\n"
        "else: unihal_torch.adapters = dict\n"
        "with warnings.catch_warnings(record=True) as said:\n"
        "    warnings.simplefilter('always')\n"
        "    unihal_torch.autoload()\n"
        "assert unihal_torch.library is None and len(said) == 1 and unihal_torch.reason in str(said[0].message)\n"
        "assert not torch.rdna.is_available() and torch.ones(2).sum().item() == 2\n"
        "print(unihal_torch.reason)"
    )
    assert message in out
