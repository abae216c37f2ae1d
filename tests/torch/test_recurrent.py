"""Recurrent layers and random draws, which the op database has not or whose numbers differ by design."""

from __future__ import annotations

import pytest
import torch
import unihal

DEVICE = torch._C._get_privateuse1_backend_name()


@pytest.fixture(autouse=True)
def no_fallback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNIHAL_STRICT", "1")


@pytest.mark.parametrize("layer", [torch.nn.LSTM, torch.nn.GRU, torch.nn.RNN])
def test_layers_and_their_gradients_are_those_of_the_cpu(layer: type[torch.nn.Module]) -> None:
    before = [(f.op, f.count) for f in unihal.fallbacks()]
    torch.manual_seed(0)
    ours = layer(5, 7, 2, bidirectional=True, batch_first=True)
    theirs = layer(5, 7, 2, bidirectional=True, batch_first=True)
    theirs.load_state_dict(ours.state_dict())
    ours.to(DEVICE)
    x = torch.randn(3, 6, 5)
    expected = theirs(x)[0]
    actual = ours(x.to(DEVICE))[0]
    expected.square().sum().backward()
    actual.square().sum().backward()
    torch.testing.assert_close(actual.detach().cpu(), expected.detach(), rtol=1e-5, atol=1e-5)
    for a, e in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(a.grad.cpu(), e.grad, rtol=1e-4, atol=1e-4)
    assert [(f.op, f.count) for f in unihal.fallbacks()] == before


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_has_the_frequencies_of_the_weights(replacement: bool) -> None:
    torch.manual_seed(0)
    weights = torch.tensor([1.0, 0.0, 2.0, 7.0], device=DEVICE)
    if replacement:
        drawn = torch.multinomial(weights, 20000, True)
    else:
        drawn = torch.multinomial(weights.expand(20000, 4), 1).flatten()
        assert sorted(torch.multinomial(weights, 3).tolist()) == [0, 2, 3]
    shares = torch.bincount(drawn.cpu(), minlength=4) / 20000
    torch.testing.assert_close(shares, torch.tensor([0.1, 0.0, 0.2, 0.7]), rtol=0, atol=0.02)
    for bad in ([-1.0, 1.0], [float("nan"), 1.0], [0.0, 0.0]):
        with pytest.raises(RuntimeError):
            torch.multinomial(torch.tensor(bad, device=DEVICE), 1)


@pytest.mark.parametrize(
    ("fill", "median"),
    [
        (lambda t: t.log_normal_(0.5, 0.25), 1.6487),
        (lambda t: t.cauchy_(3.0, 0.5), 3.0),
        (lambda t: t.geometric_(0.2), 4.0),
    ],
)
def test_distributions_have_their_medians(fill, median: float) -> None:  # type: ignore[no-untyped-def]
    torch.manual_seed(0)
    numbers = fill(torch.empty(20001, device=DEVICE)).cpu()
    assert numbers.unique().numel() > 10
    assert abs(numbers.median().item() - median) < 0.05
