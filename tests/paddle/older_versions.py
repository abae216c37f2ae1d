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
    LeftOut(
        r"3\.[01]\..*",
        r".*(\[(floor_divide of tenths|lgamma of negative)-float16\]|test_master_weights.*-float16\]|"
        r"test_recurrent.*test_dtypes\[float16-(GRU|RNN_TANH)\])",
        "the CPU rounds to float16 towards zero there",
    ),
    LeftOut(
        r"3\.2\..*",
        r".*test_a_saved_layer_is_loaded_and_trains_on",
        "a process that trains loaded layers crashes after some dozens of them, without a device of ours too",
    ),
    LeftOut(r"3\.0\..*", r".*test_complex.*\[(where|masked_fill)(-.*)?\]", "the CPU has no complex `where` there"),
    LeftOut(r"3\.0\..*", r".*test_complex_kernels.*\[cumsum-.*\]", "the CPU has no complex `cumsum` there"),
    LeftOut(r"3\.0\..*", r".*test_complex_kernels.*test_powers.*", "the CPU has no complex `elementwise_pow` there"),
    LeftOut(
        r"3\.0\..*",
        r".*test_factor_gradients.*test_gradients\[(power|svd|lu|lu_solve)-complex\]",
        "the CPU has no complex `matrix_power`, `svd` and `lu` there",
    ),
    LeftOut(
        r"3\.0\..*",
        r".*test_factor_gradients.*test_least_squares\[gelsy\]",
        "the CPU has residuals with gelsy there, as with gelsd; later none",
    ),
    LeftOut(r"3\.0\..*", r".*\[gather axis 1\]", "the CPU adds the gradients of the first row to every row there"),
    LeftOut(r"3\.0\..*", r".*\[power of zeros\]", "the CPU's gradients of zeros to zero are NaN there"),
    LeftOut(
        r"3\.0\..*",
        r".*test_what_a_graph_knows_at_run_time\[expand_as\]",
        "the CPU's gradient in a graph is zero there, though the eager one is not",
    ),
    LeftOut(r"3\.0\..*", r".*test_levels_of_a_pyramid.*", "the CPU fails at an image without boxes there"),
    LeftOut(
        r"3\.0\..*",
        r".*test_norms_of_an_input_without_a_gradient\[group\]",
        "the CPU fails without the gradient of the input there",
    ),
    LeftOut(r"3\.[01]\..*", r".*test_medians_of_nothing", "the CPU refuses medians of nothing there"),
    LeftOut(r"3\.[012]\..*", r".*test_antialiasing.*", "`interpolate` has no `antialias` there"),
    LeftOut(
        r"3\.0\..*",
        r".*(test_equal_operands_share_the_gradient|test_equal_elements_share_the_gradient\[(max|min)-).*",
        "the CPU gives it whole to the second operand, and to every equal element of `max` and `min`, there",
    ),
    LeftOut(r"3\.[012]\..*", r".*test_kernel_modes.*", "it calls every function that Paddle 3.3 has"),
    LeftOut(r"3\.[012]\..*", r".*test_distributed.*", "fleet's strategy has no `hybrid_configs` to set there"),
    LeftOut(r"3\.[01]\..*", r".*test_faults.*", "`paddle.device` has no `empty_cache` there"),
    LeftOut(r"3\.[01]\..*", r".*test_hostile.*", "the CPU ends the process in some of the calls there"),
    LeftOut(
        r"3\.0\..*",
        r".*test_indexing.*(\[.*-(last axis|two apart from the first)-broadcast\]|gradients_that_are_views)",
        "values of fewer axes are not broadcast there, on the CPU neither",
    ),
    LeftOut(r"3\.0\..*", r".*test_einsum.*", "the CPU ends the process at a product of nothing there"),
]


def why_left_out(version: str, test: str) -> str:
    """The reason, or nothing."""
    return next(
        (row.why for row in LEFT_OUT if re.fullmatch(row.versions, version) and re.fullmatch(row.test, test)), ""
    )
