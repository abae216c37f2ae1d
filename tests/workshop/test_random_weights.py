"""Weights of configurations without a file: numbers of a table, with the moments that were asked for."""

from __future__ import annotations

import threading

import torch
from unihal_workshop.pipelines.random_weights import drawn_from_a_table


def test_moments_rows_and_repeats() -> None:
    drawn = []
    for _ in range(2):
        with drawn_from_a_table():
            wide = torch.nn.Linear(2048, 1500, dtype=torch.float16)  # more numbers than the table has
            normal = torch.empty(300_000).normal_(3, 2)
            narrow = torch.nn.init.trunc_normal_(torch.empty(1000, 64), std=0.5, a=-0.5, b=0.5)
        drawn.append((wide.weight.detach(), normal, narrow))
    for one, other in zip(*drawn, strict=True):
        assert torch.equal(one, other)
    weight, normal, narrow = drawn[0]
    bound = 2048**-0.5
    assert weight.abs().max() <= bound * 1.001 and abs(weight.float().std() / (bound / 3**0.5) - 1) < 0.01
    assert abs(normal.mean() - 3) < 0.02 and abs(normal.std() - 2) < 0.02
    assert narrow.abs().max() <= 0.5 and abs(narrow.mean()) < 0.01
    # The table comes again in the rows, each time elsewhere: none is another one's multiple.
    assert torch.linalg.matrix_rank(weight[:1024].float(), rtol=1e-5) == 1024


def test_what_is_drawn_as_ever() -> None:
    def draw() -> torch.Tensor:
        return torch.empty(4, 8).t().normal_(generator=torch.Generator().manual_seed(1))

    expected, found = draw(), []
    with drawn_from_a_table():
        assert torch.equal(draw(), expected)  # it is not contiguous
        contiguous = torch.empty(8, 4)
        other = threading.Thread(
            target=lambda: found.append(contiguous.normal_(generator=torch.Generator().manual_seed(1)))
        )
        other.start()
        other.join()
    assert torch.equal(found[0], torch.empty(8, 4).normal_(generator=torch.Generator().manual_seed(1)))
    assert "normal_" not in vars(torch.Tensor) and "uniform_" not in vars(torch.Tensor)
