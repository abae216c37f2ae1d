"""Generated calls of every kernel against Paddle's CPU: hostile shapes and attributes, ties, and per attribute one
variation that changes the CPU's result, so that a kernel which ignored the attribute would fail.

They run in child processes, since what is looked for may end one."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

import pytest
from comparison import DEVICE

# One in so many of the hostile calls, of one in so many ops, the same in each run: in `make test`, `make test-rest` and
# `make test-long`.
SHARES = ((960, 3), (8, 1), (1, 1))
STALLED_AFTER = 60


class Allowed(NamedTuple):
    """What may differ: calls, variations and findings by regular expressions, and why."""

    call: str
    label: str
    found: str
    why: str


ALLOWED = [
    Allowed(r"sqrt", r"ties", r"gradient", "the CPU's square root of -0 is 0"),
    Allowed(
        r"hardshrink",
        r"ties|threshold",
        r"result",
        "the CPU keeps what equals the threshold, against its documentation",
    ),
    Allowed(
        r".*",
        r"=.*(inf|nan|1e\+38)",
        r"^(result|gradient)|ValueError instead of None",
        "arithmetic of attributes that are not finite",
    ),
    Allowed(r"(floor_divide|remainder)", r"", r"EnforceNotMet", "integers divided by zero give zero on the device"),
    Allowed(r"(pow|scale) int", r"", r"result", "integers wrap; the CPU computes in float64 and saturates"),
    Allowed(r"(a?max|a?min|argm\w+)", r"empty", r"", "the CPU returns memory that nobody wrote"),
    Allowed(r"argm\w+", r"many axes", r"instead of ValueError", "the CPU takes at most six axes"),
    Allowed(r"lerp", r"many axes", r"instead of ValueError", "the CPU takes fewer axes"),
    Allowed(r"cumsum", r"flatten=True", r"instead of IndexError", "the axis of a flattened cumsum does not count"),
    Allowed(
        r".*(conv|pool)",
        r"",
        r"error \w+ instead of (MemoryError|RuntimeError|ValueError)",
        "another error for sizes that cannot be",
    ),
    Allowed(
        r"conv2d_transpose", r"dilation=", r"ValueError instead of None", "the CPU goes on with a dilation below 1"
    ),
    Allowed(
        r".*conv",
        r"weight",
        r"gradient|NotImpl|ValueError",
        "the CPU's gradient of an empty filter is garbage; dtypes differ",
    ),
    Allowed(
        r".*pool",
        r"=|empty",
        r"(ValueError|NotImplementedError) instead of None",
        "the CPU goes on with negative sizes",
    ),
    Allowed(
        r".*(pool)",
        r"=|empty",
        r"result",
        "an average of nothing is 0, not NaN; a maximum of nothing -inf, not the least float",
    ),
    Allowed(r"grid_sample", r"x empty last", r"ValueError instead of None", "the CPU samples images without pixels"),
    Allowed(
        r"grid_sample",
        r"special",
        r"^(result|gradient)",
        "places that are not finite read nothing; the CPU multiplies zeros by NaN, or sums infinities otherwise",
    ),
    Allowed(r"\w+_norm", r"eps(ilon)?=-", r"ValueError instead of None", "a negative epsilon is refused"),
    Allowed(
        r"\w+_norm",
        r"",
        r"CPU refuses a dtype|NotImpl|ValueError instead of RuntimeError",
        "parameters of another dtype, as AMP has them",
    ),
    Allowed(
        r"batch_norm",
        r"(mean|variance) (?!special)|x empty",
        r"",
        "the CPU looks at no shape or dtype of the statistics, and reads past their end",
    ),
    Allowed(r"group_norm", r"ties|empty", r"gradient", "the CPU divides by the scale, which is zero"),
    Allowed(
        r".*cross_entropy", r"label|float64", r"instead of OSError", "labels that are no integers are refused earlier"
    ),
    Allowed(r".*cross_entropy", r"(input|logits) empty", r"IndexError instead of None", "there is no class to choose"),
    Allowed(r"sigmoid_cross_entropy", r"ties", r"gradient", "the CPU's gradient at 0 is short by 1"),
    Allowed(r"binary_cross_entropy", r"pos_weight", r"dtype", "the weights of another dtype are converted"),
    Allowed(r"accuracy", r"ties", r"result", "the order of equals in top-k is not the CPU's"),
    Allowed(r"accuracy", r"label|empty|float16", r"", "labels lie in device memory, unread"),
    Allowed(
        r"expand|broadcast_to|expand_as",
        r"",
        r"error \w+ instead of (None|ValueError)",
        "the CPU returns an empty tensor for impossible sizes",
    ),
    Allowed(
        r"embedding",
        r"",
        r"(ValueError instead of (NotImplementedError|None))",
        "a dtype of indices is refused in other words",
    ),
    Allowed(
        r"gather",
        r"",
        r"error \w+ instead of \w+",
        "an axis or dtype is refused in other words; nothing is taken from nothing",
    ),
    Allowed(r"index_select", r"first=-", r"gradient", "the CPU adds the gradient of a negative index to another row"),
    Allowed(r"take_along_axis", r"indices|empty", r"", "the CPU reads indices of other dtypes as int64"),
    Allowed(
        r"scatter", r"longer|ones|empty", r"ValueError instead of None", "the CPU ignores updates without an index"
    ),
    Allowed(r"matmul", r"empty", r"ValueError instead of None", "shapes that do not broadcast"),
    Allowed(r"bernoulli", r"", r"instead of IndexError", "probabilities lie in device memory, unread"),
    Allowed(
        r"truncated_gaussian",
        r"low=|high=",
        r"NotImplementedError",
        "only two standard deviations, which initializers ask for",
    ),
    Allowed(r"erfinv$", r"ties", r"^result", "outside of its domain the CPU's is infinite"),
    Allowed(r"gammaincc$", r"ties|ones", r"^result", "the CPU's is 1 of shape 0, and does not broadcast y"),
    Allowed(r"i0e$", r"ties", r"^gradient", "the CPU's gradient at 0 is that of one side"),
    # NaN, infinities and the ends of float32's range.
    Allowed(r"copysign$", r"special", r"^gradient", "the CPU divides by the operand, and infinity by itself"),
    Allowed(r"erfinv$", r"special", r"^result", "outside of its domain the CPU's is infinite"),
    Allowed(r"i[01]$", r"special", r"^result", "where it overflows the CPU's is NaN"),
    Allowed(r"(di|poly)gamma$", r"special", r"^(result|gradient)", "the CPU's is NaN at infinity and of large numbers"),
    Allowed(r"i[01]e$", r"special", r"^gradient", "the CPU's gradient at 0 is that of one side"),
    Allowed(r"sqrt$", r"special", r"^(result|gradient)", "the CPU's square root of infinity is NaN"),
    Allowed(r"(abs|logaddexp)$", r"special", r"^gradient", "the CPU divides infinity by its absolute value"),
    Allowed(r"(hardswish|silu|swish)$", r"special", r"^gradient", "the CPU multiplies infinity by 0, and overflows"),
    Allowed(
        r"(leaky_relu|selu)$", r"special", r"^gradient", "the CPU's gradient at NaN is 0, or as of a positive number"
    ),
    Allowed(r"log_sigmoid$", r"special", r"^(result|gradient)", "the CPU subtracts infinities"),
    Allowed(r"log_softmax$|cross_entropy none$", r"special", r"^result", "the CPU clips logarithms at -64"),
    Allowed(r"relu$", r"special", r"^result", "the CPU makes 0 of NaN"),
    Allowed(r"softshrink$", r"special", r"^result", "the CPU multiplies infinity by 0"),
    Allowed(r"thresholded_relu$", r"special", r"^result", "the CPU multiplies infinity by 0"),
    Allowed(r"(not_)?equal( broadcast)?$", r"special", r"^result", "the CPU takes less than 1e-8 for nothing"),
    Allowed(r"isclose( nearly)?$", r"special", r"^result", "to the CPU everything is close to infinity"),
    Allowed(r"logsumexp$", r"special", r"^result", "the CPU subtracts infinities"),
    Allowed(
        r"arg(max|min)( flat)?$", r"special", r"^result", "NaN is the largest and the smallest, the first one counts"
    ),
    Allowed(
        r"max_pool[23]d( NHWC| and where)?$",
        r"special",
        r"^(result|gradient)",
        "the CPU ignores NaN, and stops at the least float",
    ),
    Allowed(
        r"(depthwise_)?conv[23]d(_transpose)?( grouped| NHWC| in any layout)?$",
        r"special",
        r"^(result|gradient)",
        "sums with infinities depend on the algorithm: padding and transforms multiply them by 0 and subtract them",
    ),
    Allowed(
        r"batch_norm",
        r"special",
        r"^(result|gradient)",
        "the CPU has the mean in the offset: infinities are subtracted",
    ),
    Allowed(r"layer_norm without$", r"special", r"^result", "the CPU's variance overflows"),
    Allowed(r"group_norm", r"(weight|bias|all) special", r"^gradient", "the CPU takes x from y, by bias and scale"),
    Allowed(r"instance_norm$", r"special", r"^gradient", "infinite scales: sums of infinities"),
    Allowed(r"swiglu$", r"special", r"^result", "half of the least float is rounded to 0"),
    Allowed(r"binary_cross_entropy_with_logits$", r"special", r"^gradient", "the CPU multiplies infinity by 0"),
    Allowed(r"sigmoid_cross_entropy_with_logits$", r"special", r"^result", "(1 - label) * x, of infinity and 1"),
    Allowed(r"sigmoid_cross_entropy_with_logits$", r"special", r"^gradient", "the CPU's gradient at 0 is short by 1"),
    Allowed(r"accuracy$", r"special", r"^result", "the order of equals in top-k is not the CPU's"),
    Allowed(r"cast$", r"special", r"^result", "what no integer can be is unspecified"),
    Allowed(r"dropout in inference", r"", r"", "in training its result is random"),
    Allowed(
        r"randperm|uniform|gaussian|randint|arange|full", r"", r"error \w+ instead of \w+Error", "sizes that cannot be"
    ),
    Allowed(r"sum", r"complex", r"NotImplementedError", "sums are not made complex"),
    Allowed(r"pad ", r"pad=", r"(Value|Runtime)Error instead of MemoryError", "another error for sizes that cannot be"),
    Allowed(r"pad ", r"x empty", r"ValueError instead of None", "there is nothing to pad with"),
    Allowed(r"pad|broadcast_tensors|masked_select", r"many axes", r"None instead of", "the CPU takes fewer axes"),
    Allowed(r"(isclose|allclose) of NaN", r"complex64", r"^result", "the CPU takes any complex NaN for close"),
    Allowed(
        r"take_along_axis",
        r"int16|uint8|float64",
        r"^result|ValueError instead of None",
        "the CPU takes no element by indices of these dtypes, and says nothing",
    ),
    Allowed(r"gammaincc", r"axes", r"^result", "the CPU does not broadcast, and reads past the end"),
    Allowed(r"polygamma", r"n=100", r"^result", "orders beyond 34 are NaN in float32 (docs/special-functions.md)"),
    Allowed(r"celu", r"alpha=", r"^gradient", "the CPU's gradient is NaN where exp(x / alpha) is infinite"),
    Allowed(r"label_smooth", r"", r"ValueError instead of None", "the CPU reads past the end of the prior"),
    Allowed(r"dot", r"empty", r"ValueError instead of None", "the CPU reads past the end of the shorter vector"),
    Allowed(
        r"crop|diag|diag_embed|unfold|interpolate|pad",
        r"=.*(21474|46116)",
        r"(Runtime|Value)Error instead of (MemoryError|ValueError)",
        "another error for sizes that cannot be",
    ),
    Allowed(
        r"arange float", r"step=", r"^result 0 differs \(values", "the CPU adds steps up, with all their roundings"
    ),
    Allowed(r"crop", r"x empty", r"ValueError instead of None", "the CPU reads past the end"),
    Allowed(
        r"crop", r"shape=.*46116860", r"ValueError instead of RuntimeError", "another error for sizes that cannot be"
    ),
    Allowed(r"reduce_as", r"target one more axis", r"^result", "the CPU reads past the end"),
    Allowed(r"reduce_as|fold", r"x empty", r"None instead of", "a sum of nothing is 0"),
    Allowed(r"scatter", r"x empty", r"IndexError instead of None", "there is no row to write to"),
    Allowed(r"gather column", r"empty", r"^result", "an index without elements may have two axes"),
    Allowed(r"nll_loss", r"label int32", r"refuses a dtype", "labels of either width, as on Paddle's GPU"),
    Allowed(r"norm (inf|0)", r"special", r"^(result|gradient)", "the CPU's maximum of NaN depends on the order"),
    Allowed(r"multi_dot", r"special", r"^(result|gradient)", "sums with infinities depend on the order of products"),
    Allowed(r"label_smooth", r"label ones", r"ValueError instead of None", "the CPU takes a prior of other classes"),
    Allowed(r"interpolate", r"scale_factor=", r"MemoryError instead of ValueError", "sizes that cannot be"),
    Allowed(r"interpolate", r"special", r"^(result|gradient)", "a pixel of weight 0 is multiplied by it, or left out"),
    Allowed(r"i?r?fft$", r"special", r"^(result|gradient)", "sums with infinities depend on the algorithm"),
    Allowed(r"a(cos|sin)h$", r"special", r"^gradient", "the CPU's gradient at infinity is NaN"),
    Allowed(r"swiglu$", r"special", r"^gradient", "where its exponential overflows the CPU's is 0"),
    Allowed(r"adaptive_max_pool2d$", r"special", r"^(result|gradient)", "the CPU ignores NaN"),
    Allowed(r"celu$", r"special", r"^gradient", "the CPU multiplies infinity by 0"),
    Allowed(r"cumprod$", r"special", r"^gradient", "the CPU divides and multiplies infinities in another order"),
    Allowed(r"maxout$", r"special", r"^(result|gradient)", "the CPU ignores NaN, and stops at the least float"),
    Allowed(r"logcumsumexp$", r"special", r"^(result|gradient)", "the CPU loses NaN, and stops at the least float"),
    Allowed(r"(un)?fold$", r"paddings=", r"ValueError instead of None", "negative paddings are refused"),
    Allowed(
        r"old_lrn",
        r"n=|data_format=",
        r"^error",
        "neighbours that are not there count as nothing; a layout of no meaning is an argument's error",
    ),
    Allowed(r"old_lrn", r"special", r"^result", "the CPU makes a power of its logarithm"),
    Allowed(r"old_cross_entropy", r"label u?int", r"CPU refuses a dtype", "integers of any width are labels"),
    Allowed(r"old_cross_entropy", r"fewer axes|flat", r"None instead of ValueError", "the CPU takes no vectors"),
    Allowed(
        r"assign|isclose|allclose|equal_all", r"", r"ValueError instead of RuntimeError|assign_value", "dtypes differ"
    ),
]

# No variation can tell these: fixed by the shapes of operands, a matter of Paddle's Python, or without effect.
UNTELLING = {
    "groups", "soft_label", "label_smoothing", "inplace", "sorted", "stable", "numeric_stable_mode", "use_input_stats",
    "norm_type", "normalized_shape", "broadcast", "mode",
    "flatten",  # needs another axis with it; "cumsum flat" of test_kernels.py has it
}  # fmt: skip


def is_allowed(entry: dict[str, str]) -> bool:
    if entry["difference"].startswith("no variation"):
        untold = {
            ("instance_norm", "momentum"),
            ("softmax_with_cross_entropy", "axis"),
            ("instance_norm", "data_format"),
            ("conv1d", "data_format"),
            ("conv3d", "data_format"),
            ("depthwise_conv2d", "data_format"),
            ("depthwise_conv2d", "groups"),
            ("avg_pool3d", "data_format"),
            ("fft", "norm"),
            *(("fold", name) for name in ("output_sizes", "kernel_sizes", "strides", "paddings", "dilations")),
            ("frame", "axis"),
            ("pixel_shuffle", "data_format"),
            ("pixel_unshuffle", "data_format"),
            ("prelu", "data_format"),
            ("smooth_l1_loss", "is_huber"),
            ("irfft", "norm"),
            ("rfft", "norm"),
        }
        return entry["label"] in UNTELLING or (entry["call"], entry["label"]) in untold
    return any(
        re.match(a.call, entry["call"])
        and re.search(a.label, entry["label"])
        and re.search(a.found, entry["difference"])
        for a in ALLOWED
    )


def run_child(results: Path, progress: Path, start: int, share: tuple[int, int]) -> tuple[int, str]:
    """The child's exit code, and the case it was at; -9 for one that stalls."""
    program = str(Path(__file__).with_name("hostile_program.py"))
    with (progress.with_suffix(".err")).open("w") as errors:
        child = subprocess.Popen(
            [sys.executable, "-W", "ignore", program, str(results), str(progress), str(start), *map(str, share)],
            stdout=errors,
            stderr=errors,
        )
        last, since = "", time.monotonic()
        while child.poll() is None:
            time.sleep(0.1)
            now = progress.read_text() if progress.exists() else ""
            if now != last:
                last, since = now, time.monotonic()
            elif time.monotonic() - since > STALLED_AFTER:
                child.kill()
    return child.wait(), progress.read_text().strip() if progress.exists() else ""


def all_differences(folder: Path, share: tuple[int, int]) -> list[dict[str, str]]:
    results, progress = folder / "results", folder / "progress"
    start, crashes = 0, []
    while True:
        code, at = run_child(results, progress, start, share)
        if code == 0 and at == "done":
            break
        match = re.match(r"(\d+) (\w+) (.*): (.*)", at)
        assert match, progress.with_suffix(".err").read_text()[-3000:]
        crashes.append({"call": match[3], "label": match[4], "difference": f"the {match[2]} ended the process: {code}"})
        assert sum("device ended" in crash["difference"] for crash in crashes) < 5, crashes
        assert len(crashes) < 100, crashes
        start = int(match[1]) + 1
    return crashes + [json.loads(line) for line in results.read_text().splitlines()]


@pytest.mark.skipif(DEVICE != "iluvatar", reason="what the adapter makes of a call does not depend on the backend")
@pytest.mark.timeout(3600)  # the processes have watches of their own
@pytest.mark.parametrize(
    "share",
    [
        pytest.param(share, id=str(share[0]), marks=marks)
        for share, marks in zip(SHARES, ([], pytest.mark.whole, pytest.mark.long), strict=True)
    ],
)
def test_generated_calls_do_what_the_cpu_does(share: tuple[int, int], tmp_path: Path) -> None:
    found = [entry for entry in all_differences(tmp_path, share) if not is_allowed(entry)]
    assert not found, "\n".join(f"{e['call']} | {e['label']} | {e['difference']}" for e in found)


def test_what_is_allowed_is_no_crash() -> None:
    assert not is_allowed(
        {"call": "tile", "label": "repeat_times=[-1, -1]", "difference": "the device ended the process: -11"}
    )
