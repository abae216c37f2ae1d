"""Cards: trees of sysfs, the vendors' tools, the stub's profiles, and the backend that serves."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from unihal_workshop import DeviceError, GPUManager, find_card
from unihal_workshop.cards.profiles import CARDS, MIB
from unihal_workshop.cards.system import cards, libraries, profile_of


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture()
def tree(tmp_path: Path) -> Path:
    """A machine with an RX 580 of 8 GB, its connectors, and a card of Iluvatar."""
    card = "sys/class/drm/card0/device"
    write(
        tmp_path,
        {
            f"{card}/vendor": "0x1002\n",
            f"{card}/device": "0x67df\n",
            f"{card}/uevent": "DRIVER=amdgpu\nPCI_SLOT_NAME=0000:03:00.0\n",
            f"{card}/gpu_busy_percent": "37\n",
            f"{card}/mem_info_vram_total": f"{8 << 30}\n",
            f"{card}/mem_info_vram_used": f"{512 << 20}\n",
            f"{card}/pp_dpm_sclk": "0: 300Mhz\n1: 600Mhz\n2: 1340Mhz *\n",
            f"{card}/pp_dpm_mclk": "0: 300Mhz *\n1: 2000Mhz\n",
            f"{card}/hwmon/hwmon3/temp1_input": "61000\n",
            f"{card}/hwmon/hwmon3/power1_average": "98000000\n",
            "sys/class/drm/card0-HDMI-A-1/status": "connected\n",
            "sys/class/drm/card1/device/vendor": "0x1e3e\n",
            "sys/class/drm/card1/device/device": "0x0001\n",
            "sys/class/drm/card1/device/uevent": "DRIVER=iluvatar\nPCI_SLOT_NAME=0000:04:00.0\n",
            "sys/module/iluvatar/version": "4.2.0\n",
            "proc/sys/kernel/osrelease": "6.12.9-amd64\n",
            "usr/lib/x86_64-linux-gnu/libgallium-25.0.7.so": "",
            "opt/rocm/.info/version": "6.3.1-48\n",
            "usr/local/corex-4.1.2/version.txt": "CoreX 4.1.2\n",
        },
    )
    return tmp_path


def no_tool(command: Sequence[str]) -> str | None:
    return None


def test_what_sysfs_tells(tree: Path) -> None:
    amd, iluvatar = cards(tree, no_tool)
    assert (amd.node, amd.vendor, amd.pci_bus_id, amd.profile) == ("card0", "AMD", "0000:03:00.0", "rx580-8gb")
    assert (amd.driver.name, amd.driver.version) == ("AMDGPU", "of Linux 6.12.9-amd64")
    state = amd.telemetry
    assert (state.busy_percent, state.core_megahertz, state.memory_megahertz) == (37, 1340, 300)
    assert (state.celsius, state.watts) == (pytest.approx(61), pytest.approx(98))
    assert (state.memory_used, state.memory_total, state.source) == (512 << 20, 8 << 30, "sysfs")
    assert (iluvatar.driver.name, iluvatar.driver.version) == ("CoreX", "4.2.0")
    assert iluvatar.telemetry.source == "" and iluvatar.telemetry.celsius is None


def test_what_tools_tell(tree: Path) -> None:
    def tool(command: Sequence[str]) -> str | None:
        if command[0] == "ixsmi":
            return "12, 1500, 1200, 55, 140.5, 1024, 32768\n"
        return None

    _, iluvatar = cards(tree, tool)
    state = iluvatar.telemetry
    assert (state.busy_percent, state.celsius, state.watts, state.source) == (12, 55, 140.5, "ixsmi")
    assert (state.memory_used, state.memory_total) == (1024 * MIB, 32768 * MIB)

    (tree / "sys/class/drm/card0/device/gpu_busy_percent").unlink()

    def rocm(command: Sequence[str]) -> str | None:
        row = {"GPU use (%)": "44", "Temperature (Sensor edge) (C)": "50.0", "VRAM Total Memory (B)": "1"}
        return json.dumps({"card0": row}) if command[0] == "rocm-smi" else None

    amd, _ = cards(tree, rocm)
    # What sysfs told stays.
    assert (amd.telemetry.busy_percent, amd.telemetry.celsius) == (44, pytest.approx(61))
    assert amd.telemetry.memory_total == 8 << 30 and amd.telemetry.source == "sysfs+rocm-smi"


@pytest.mark.parametrize("text", ["", "no JSON", "{}", '{"card0": 3}', "1,2", "a, b, c, d, e, f, g"])
def test_tools_that_tell_nothing(tree: Path, text: str) -> None:
    for path in (tree / "sys/class/drm/card0/device").glob("*"):
        if path.is_file() and path.name not in ("vendor", "device", "uevent"):
            path.write_text("garbage")
    amd, iluvatar = cards(tree, lambda command: text)
    assert amd.telemetry.busy_percent is None and amd.profile == ""
    assert iluvatar.telemetry.busy_percent is None


def test_libraries(tree: Path, tmp_path: Path) -> None:
    found = {each.name: (each.version, each.source) for each in libraries(tree)}
    assert found["Mesa"] == ("25.0.7", "/usr/lib/x86_64-linux-gnu/libgallium-25.0.7.so")
    assert found["ROCm"] == ("6.3.1-48", "/opt/rocm/.info/version")
    assert found["CoreX"] == ("4.1.2", "/usr/local/corex-4.1.2")
    assert libraries(tmp_path / "nothing") == []


def test_a_package_tells_the_version_of_mesa(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "etc/OpenCL/vendors/rusticl.icd": "libRusticlOpenCL.so.1\n",
            "var/lib/dpkg/status": "Package: a\nVersion: 1\n\nPackage: mesa-opencl-icd\nArea: x\nVersion: 24.2.8-1\n",
        },
    )
    assert [(each.name, each.version) for each in libraries(tmp_path)] == [("Mesa", "24.2.8-1")]


def test_cards_that_only_the_kernel_knows(tree: Path) -> None:
    found = GPUManager(tree, no_tool).detect()
    assert next(iter(found)).stub  # the stub comes first, as unihal's device
    names = [each.name for each in found]
    assert "AMD Radeon RX 580 8 GB" in names and len(found) == 3
    amd = found[names.index("AMD Radeon RX 580 8 GB")]
    assert amd.device == "" and amd.card is CARDS["rx580-8gb"] and amd.memory == 8 << 30
    json.dumps(amd.as_dict())
    assert GPUManager(tree, no_tool).telemetry("0000:03:00.0").busy_percent == 37
    assert GPUManager(tree, no_tool).telemetry("0000:09:00.0").source == ""


def test_the_backend_and_why(monkeypatch: pytest.MonkeyPatch) -> None:
    manager = GPUManager()
    choice = manager.backend("rdna")
    assert choice.backend == "stub" and choice.devices == 1
    assert any(line.startswith("ROCm: not tried") for line in choice.why)
    assert any("chosen: UNIHAL_BACKEND=stub" in line for line in choice.why)
    with pytest.raises(DeviceError):
        manager.backend("rdnb")
    monkeypatch.setenv("HSA_OVERRIDE_GFX_VERSION", "10.3.0")
    overrides = manager.overrides()
    assert overrides["HSA_OVERRIDE_GFX_VERSION"][0] == "10.3.0" and "UNIHAL_BACKEND" in overrides
    opened = manager.initialize("rdna:0")
    assert opened.stub and opened.device == "rdna:0" and opened.memory > 0
    with pytest.raises(DeviceError, match="cannot be opened"):
        manager.initialize("rdna:77")


PROPERTIES = """
import json, unihal
p = unihal.device("rdna").properties
print(json.dumps([p.name, p.total_memory, p.max_allocation, p.compute_units, p.wavefront_size, p.clock_megahertz,
                  p.peak_gigaflops_float32, p.peak_gigabytes_per_second, p.launch_nanoseconds, p.vendor]))
"""


@pytest.mark.parametrize("name", CARDS)
def test_the_cards_are_the_stubs_profiles(name: str) -> None:
    card = CARDS[name]

    def told(variables: dict[str, str]) -> list[object]:
        environment = {**os.environ, **variables}
        output = subprocess.run([sys.executable, "-c", PROPERTIES], env=environment, check=True, capture_output=True)
        result: list[object] = json.loads(output.stdout)
        return result

    figures = [card.compute_units, card.wavefront, card.clock_megahertz, card.peak_gigaflops]
    figures += [card.gigabytes_per_second, card.launch_nanoseconds, card.vendor]
    theirs = told({"UNIHAL_BACKEND": "stub", "UNIHAL_STUB_PROFILE": name})
    assert str(theirs[0]).startswith(card.title)
    assert theirs[1:3] == [card.memory - card.driver_reserve, card.max_allocation] and theirs[3:] == figures
    with card.stub_environment() as variables:
        ours = told(variables)
    assert ours[1:3] == [card.available(), card.largest()] and ours[3:] == figures


def test_profiles_by_id_and_memory() -> None:
    assert profile_of(0x1002, 0x67DF, 4 << 30) == "rx580-4gb"
    assert profile_of(0x1002, 0x67DF, None) == ""
    assert profile_of(0x1002, 0x73BF, None) == "rx6800xt"
    assert profile_of(0x8086, 0x1, None) == ""


def test_a_card_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(CARDS["rx580-4gb"].profile_text(700 * MIB).replace("compute_units: 36", "compute_units: 36 # mine"))
    card = find_card(path)
    assert card.memory == 4 << 30 and card.available() == (4096 - 700) * MIB and card.compute_units == 36
    for wrong, said in (
        ("memori: 4 GiB\n", ":1: unknown key 'memori'; did you mean memory"),
        ("name: x\nname: y\n", ":2: name stands here a second time"),
        ("name: x\n", "memory is missing"),
        (CARDS["rx580-4gb"].profile_text().replace(f"memory: {4 << 30} B", "memory: 4"), "expected a number with B"),
        (CARDS["rx580-4gb"].profile_text().replace("6175", "fast"), "expected a number"),
    ):
        path.write_text(wrong)
        with pytest.raises(DeviceError, match=said):
            find_card(path)
    with pytest.raises(DeviceError, match="cannot be read"):
        find_card(tmp_path / "missing.yml")
