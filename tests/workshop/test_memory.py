"""MemoryManager: what is in use, what was registered, the cap, and rules of thumb."""

from __future__ import annotations

import io

import pytest
import torch
import unihal
from unihal_workshop import DeviceError, InputError, MemoryManager, find_card


def test_statistics() -> None:
    manager = MemoryManager()
    manager.reset_peak()
    before = manager.get_stats()
    tensor = torch.empty(4 << 20, dtype=torch.uint8, device="rdna")
    during = manager.get_stats()
    assert during.allocated - before.allocated == 4 << 20
    assert during.total > during.reserved >= during.allocated and during.free == during.total - during.reserved
    del tensor
    after = manager.get_stats()
    assert after.allocated == before.allocated and after.peak == manager.peak >= during.allocated
    assert after.ram_total > after.ram_available > 0 and after.process > 1 << 20
    assert set(after.as_dict()) >= {"allocated", "peak", "ram_total"}


def test_registered_allocations() -> None:
    manager = MemoryManager()
    manager.register_allocation("cache", 1 << 20)
    with manager.allocation("latents", 3 << 20):
        assert manager.get_stats().registered == {"cache": 1 << 20, "latents": 3 << 20}
        text = io.StringIO()
        manager.print_stats(text)
        assert "latents" in text.getvalue() and "3.0 MiB, registered" in text.getvalue()
    manager.register_allocation("cache", 0)
    assert manager.get_stats().registered == {}
    for wrong in (-1, 1.5, True):
        with pytest.raises(InputError, match="number of bytes"):
            manager.register_allocation("x", wrong)  # type: ignore[arg-type]


def test_the_cap_is_the_cards() -> None:
    manager = MemoryManager(reserve=4000 << 20)
    try:
        assert manager.limit(find_card("rx580-4gb")) == 96 << 20
        assert manager.get_stats().total == 96 << 20
        with pytest.raises(torch.OutOfMemoryError):
            torch.empty(100 << 20, dtype=torch.uint8, device="rdna")
    finally:
        unihal.device("rdna").set_memory_limit(0)


def test_recommendations() -> None:
    manager = MemoryManager()
    card = find_card("rx580-4gb")
    fits = {row.name: row.fits for row in manager.get_recommendations(4000, card)}
    assert fits == {"as it is": False, "8 bit": True, "4 bit": True, "offload": True, "hybrid": True}
    assert all(row.fits for row in manager.get_recommendations(100, card))
    assert not any(row.fits for row in manager.get_recommendations(1e6, card))
    needed = [row.needed_mb for row in manager.get_recommendations(4000, card)]
    assert needed == sorted(needed, reverse=True)
    assert manager.get_recommendations(100)[0].fits
    for wrong in (0, -3, float("inf"), "4"):
        with pytest.raises(InputError, match="number of MiB above 0"):
            manager.get_recommendations(wrong, card)  # type: ignore[arg-type]


def test_without_a_device() -> None:
    manager = MemoryManager("cpu")
    stats = manager.get_stats()
    assert stats.total == stats.allocated == manager.peak == 0 and stats.ram_total > 0
    manager.reset_peak()
    with pytest.raises(DeviceError, match="no device cpu"):
        manager.limit(find_card("rx580-4gb"))
    with pytest.raises(DeviceError, match="name a card"):
        manager.get_recommendations(100)
    with pytest.raises(DeviceError, match="no device rdna:9"):
        MemoryManager("rdna:9").get_stats()
    with pytest.raises(InputError):
        MemoryManager(reserve=-1)
