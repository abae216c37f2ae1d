"""A plan as a picture: memory over the ops of a run, by what it is for, and the card's line above."""

from __future__ import annotations

import html
from pathlib import Path

from ..errors import InputError
from .plan import Plan

MIB = 1 << 20
_WIDTH, _HEIGHT, _LEFT, _TOP, _BOTTOM = 1000, 320, 70, 24, 40
COLORS = ("#4878a8", "#8c6bb1", "#6aa84f", "#d79b3c", "#c0504d", "#888888", "#45a5a5")


def svg(plan: Plan) -> str:
    """The picture."""
    timeline = plan.timeline()
    sums = [sum(sizes) for sizes in timeline["bytes"]]
    most = max([plan.available_bytes, *sums, 1]) * 1.05
    last = max([*timeline["ops"], 1])

    def x(op: int) -> float:
        return float(_LEFT + max(0, op) / last * (_WIDTH - _LEFT - 10))

    def y(size: float) -> float:
        return float(_HEIGHT - _BOTTOM - size / most * (_HEIGHT - _TOP - _BOTTOM))

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" '
        'font-family="sans-serif" font-size="12">',
        f'<text x="{_LEFT}" y="14">{html.escape(plan.model)} on {html.escape(plan.card.title)}: '
        f"{'fits' if plan.fits else 'does not fit'}, peak {plan.peak_bytes / MIB:,.1f} MiB</text>",
    ]
    lower = [0] * len(sums)
    key = float(_LEFT)
    for index, name in enumerate(timeline["categories"]):
        sizes = [row[index] for row in timeline["bytes"]]
        if not any(sizes):
            continue
        upper = [base + size for base, size in zip(lower, sizes)]
        points = [f"{x(op):.1f},{y(size):.1f}" for op, size in zip(timeline["ops"], upper)]
        points += [f"{x(op):.1f},{y(size):.1f}" for op, size in reversed(list(zip(timeline["ops"], lower)))]
        parts.append(f'<polygon points="{" ".join(points)}" fill="{COLORS[index]}"><title>{name}</title></polygon>')
        parts.append(f'<rect x="{key}" y="{_HEIGHT - 16}" width="10" height="10" fill="{COLORS[index]}"/>')
        parts.append(f'<text x="{key + 14}" y="{_HEIGHT - 7}">{name}</text>')
        key += 110
        lower = upper
    limit = y(plan.available_bytes)
    parts += [
        f'<line x1="{_LEFT}" x2="{_WIDTH - 10}" y1="{limit:.1f}" y2="{limit:.1f}" stroke="#c22" '
        'stroke-dasharray="6 4"/>',
        f'<text x="2" y="{limit + 4:.1f}">{plan.available_bytes / MIB:,.0f} MiB</text>',
        f'<text x="2" y="{_HEIGHT - _BOTTOM}">0</text>',
        f'<text x="{_LEFT}" y="{_HEIGHT - 24}">ops of a run, {len(plan.replay.samples)} in all</text>',
        "</svg>",
    ]
    return "\n".join(parts)


def write_svg(path: Path, plan: Plan) -> None:
    """The picture into a file."""
    try:
        path.write_text(svg(plan), encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from None
