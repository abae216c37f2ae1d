"""What tests of older versions of Paddle have no reference for, or no function: `make test-paddle-versions` and its
sample leave it out, and say why. Each row has the versions and the tests by regular expressions."""

from __future__ import annotations

import re
from typing import NamedTuple


class LeftOut(NamedTuple):
    """Tests of some versions, and why."""

    versions: str
    test: str
    why: str


LEFT_OUT = [
    LeftOut(
        r"3\.[012]\..*",
        r".*attention.*",
        "causal attention has no CPU kernel to compare with, and no `scale`; attention is composed",
    ),
    LeftOut(r"3\.[01]\..*", r".*grid_sample nearest.*", "the CPU rounds halves away from zero there"),
    LeftOut(
        r"3\.[012]\..*",
        r".*test_what_a_graph_knows_at_run_time\[(slice, index|sum, axes of a list)\].*",
        "that Paddle does not build the graph, for the CPU neither",
    ),
    LeftOut(r"3\.[01]\..*", r".*float16.*", "the CPU rounds to float16 in another way there"),
    LeftOut(r"3\.0\..*", r".*test_complex.*\[where\]", "the CPU has no `where` of complex numbers there"),
    LeftOut(
        r"3\.[012]\..*", r".*test_top_p.*", "the function of its kernel has another name there, so it is not found"
    ),
    LeftOut(r"3\.[012]\..*", r".*(test_medians|nanmedian).*", "other operands: the gradient falls back"),
    LeftOut(r"3\.[012]\..*", r".*test_antialiasing.*", "`interpolate` has no `antialias` there"),
    LeftOut(r"3\.[012]\..*", r".*test_factor_gradients.*eig-complex.*", "other operands: the gradient falls back"),
    LeftOut(
        r"3\.0\..*",
        r".*test_equal_(operands|elements)_share_the_gradient.*",
        "the CPU shares it in another way there",
    ),
    LeftOut(
        r"3\.[012]\..*",
        r".*test_(device_api|distributed|graphs|kernel_modes|hostile|faults|profiler|indexing|einsum).*",
        "they test what Paddle 3.3 has, or compare with its CPU",
    ),
]


def why_left_out(version: str, test: str) -> str:
    """The reason, or nothing."""
    return next(
        (row.why for row in LEFT_OUT if re.fullmatch(row.versions, version) and re.fullmatch(row.test, test)), ""
    )
