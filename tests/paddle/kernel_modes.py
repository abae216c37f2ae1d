"""Runs generated calls of ops in one mode on the CPU and on a device: the child of test_kernel_modes.py.

    python kernel_modes.py MODE OF_EACH SHARE PROGRESS

Prints a JSON object: what differed, and the kernels, with dtypes, that Paddle chose for the device. MODE is "eager",
"new" or "old"; OF_EACH calls of each op are tried, and all variations of one op in SHARE. PROGRESS is a file that holds
the case at hand."""

from __future__ import annotations

import ctypes
import itertools
import json
import re
import sys
import warnings
import zlib
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import old_programs
import op_modes
import op_rows
import paddle
import test_double_gradients
import test_kernels
import test_more_kernels
import unihal
from comparison import DEVICE, TOLERANCE, Array, flatten, on, run, run_in_graph
from op_calls import OpCall, op_calls
from op_modes import NARROW, Results, UnbuildableError, replace

LIBRARY = ctypes.CDLL(f"{unihal.library_dir()}/libunihal_paddle.so")
for function in ("uhal_paddle_selections", "uhal_paddle_coverage"):
    getattr(LIBRARY, function).restype = ctypes.c_char_p

#: Ops whose numbers are drawn: shapes and dtypes are compared, and kernels that fill with what was in memory.
RANDOM = {
    "uniform", "uniform_", "gaussian", "randint", "randperm", "bernoulli", "dropout", "truncated_gaussian_random",
    "poisson",
    "exponential_", "multinomial", "binomial", "dirichlet", "standard_gamma", "standard_normal", "empty", "empty_like",
    "gumbel_softmax", "rrelu", "uniform_inplace", "uniform_inplace_", "gaussian_inplace", "gaussian_inplace_", "random",
    "random_", "class_center_sample", "shuffle_batch", "uniform_random_batch_size_like", "top_p_sampling",
}  # fmt: skip
#: Ops whose kernels have other names.
KERNELS = {
    "det": "determinant",
    "hardshrink": "hard_shrink",
    "reindex_graph": "graph_reindex",
    "embedding_with_scaled_gradient": "embedding",
}
#: Kernels that feed others.
HELPERS = {"cast", "assign", "full", "scale", "contiguous", "strided_copy", "fill", "full_like"}


def selections() -> set[tuple[str, str]]:
    return {tuple(line.split()) for line in LIBRARY.uhal_paddle_selections().decode().splitlines()}  # type: ignore[misc]


def table() -> dict[str, list[str]]:
    rows = json.loads(LIBRARY.uhal_paddle_coverage().decode())
    found: dict[str, list[str]] = {}
    for row in rows:
        if not row["skipped"]:
            found.setdefault(row["kernel"], []).extend(row["dtypes"])
    return found


def to_dtype(array: Array, dtype: str) -> Array:
    """Numbers of another dtype that mean about the same; float16 and bfloat16 stay float32 here."""
    if dtype in NARROW:
        dtype = "float32"
    whole = array.dtype.kind in "fc" and not dtype.startswith(("float", "complex"))
    if whole and dtype != "bool":
        array = np.round(3 * array.real)
    if dtype.startswith("uint"):
        array = np.abs(array)
    if dtype == "bool":
        return np.asarray(array > 0)
    if dtype.startswith("complex") and array.dtype.kind != "c":
        return (array + 0.5j * np.roll(array, 1)).astype(dtype)
    return array.astype(dtype)


def with_dtype(call: OpCall, base: str, dtype: str) -> OpCall:
    changed = replace(call.arguments, lambda a: to_dtype(a, dtype) if str(a.dtype) == base else a)
    wide = "float32" if dtype in NARROW else dtype
    named = tuple(
        getattr(paddle, wide) if isinstance(v, paddle.dtype) and str(v).endswith("." + base) else v for v in changed
    )
    return OpCall(call.op, named)


def rounded(call: OpCall, dtype: str) -> OpCall:
    """With numbers that a narrow dtype has."""

    def narrowed(a: Array) -> Array:
        return paddle.to_tensor(a).astype(dtype).astype("float32").numpy() if a.dtype == np.float32 else a

    with on("cpu"):
        return OpCall(call.op, replace(call.arguments, narrowed))


def shapes(call: OpCall) -> Iterator[tuple[str, OpCall]]:
    """Where all tensors have one shape: no axis, an axis of nothing, and odd lengths."""
    arrays = [a for argument in call.arguments for a in flatten(argument) if isinstance(a, np.ndarray)]
    if not arrays or any(a.shape != arrays[0].shape or not a.ndim for a in arrays):
        return
    yield "no axis", OpCall(call.op, replace(call.arguments, lambda a: a.ravel()[1 % a.size].reshape(())))
    yield "nothing", OpCall(call.op, replace(call.arguments, lambda a: a[:0]))
    draw = np.random.RandomState(11)

    def longer(a: Array) -> Array:
        tiled = np.tile(a, (7, *[1] * (a.ndim - 1)))[:-1]
        return tiled * draw.uniform(0.9, 1, tiled.shape).astype(a.dtype) if a.dtype.kind == "f" else tiled

    yield "odd lengths", OpCall(call.op, replace(call.arguments, longer))


class Sweep:
    def __init__(self, mode: str, share: int, progress: Path) -> None:
        self.mode, self.share, self.progress = mode, share, progress.open("w")
        self.findings: list[dict[str, str]] = []
        self.table = table()
        self.refusal: Exception | None = None
        self.skipped: dict[str, str] = {}
        self.chosen: set[tuple[str, str]] = set()

    def wanted(self, name: str) -> bool:
        return zlib.crc32(name.encode()) % self.share == 0

    def found(self, op: str, label: str, difference: str) -> None:
        self.findings.append({"op": op, "mode": self.mode, "label": label, "difference": difference[:500]})

    def note(self, text: str) -> None:
        self.progress.seek(0)
        self.progress.write(text.ljust(200))
        self.progress.flush()

    def reference(self, call: OpCall, dtype: str) -> Results | None:
        """The CPU's results: in the same mode, else in eager mode; of a dtype that it has not, those of a wider one."""
        forms = [rounded(call, dtype)] if dtype in NARROW else [call]
        if dtype in ("int8", "int16", "uint8", "int32"):
            forms.append(with_dtype(call, dtype, "int64"))
        self.refusal = None
        for mode in dict.fromkeys((self.mode, "eager")):
            for form in forms:
                try:
                    return op_modes.run(form, mode, "cpu", "", self.has_gradient(call))
                except UnbuildableError:
                    if mode == self.mode:
                        raise
                except Exception as error:
                    self.refusal = self.refusal or error
        return None

    def has_gradient(self, call: OpCall) -> bool:
        """Gradients of graphs would read what an op has written over."""
        return self.mode == "eager" or not call.op.endswith("_")

    def compare(self, call: OpCall, label: str, dtype: str, view: bool = False) -> None:
        if any(all(map(re.fullmatch, row, (self.mode, call.op, label))) for row in CRASHES_OF_PADDLE):
            return
        self.note(f"{call.op}: {label}")
        try:
            expected = self.reference(call, dtype)
        except UnbuildableError as error:
            if label == "as it is":
                self.skipped.setdefault(call.op, " ".join(str(error).split())[:200])
            return
        self.note(f"{call.op}: {label}, device")
        narrow = dtype if dtype in NARROW else ""
        if narrow and not any(getattr(a, "dtype", None) == np.float32 for a in flatten(list(call.arguments))):
            call = OpCall(call.op, tuple(getattr(paddle, narrow) if v is paddle.float32 else v for v in call.arguments))
        try:
            actual = op_modes.run(call, self.mode, DEVICE, narrow, self.has_gradient(call), view)
        except Exception as error:
            # What Paddle refuses on the CPU too; what has no kernel there may have none here.
            same = self.refusal is not None and (type(error) is type(self.refusal) or "(unihal)" not in str(error))
            if not same:
                self.found(call.op, label, f"{type(error).__name__}: {last_words(error)}")
            elif label == "as it is":
                self.skipped.setdefault(call.op, last_words(error)[:200])
            return
        finally:
            self.chosen |= selections()
        if expected is None:
            return
        for kind, ours, theirs in zip(("result", "gradient"), actual, expected, strict=True):
            for i, (a, b) in enumerate(zip(ours, theirs, strict=False)):
                difference = differs(a, b, dtype, call.op in RANDOM)
                if difference:
                    self.found(call.op, label, f"{kind} {i}: {difference}")

    def ops(self, calls: list[OpCall]) -> None:
        for call in calls:
            first = self.wanted(call.op)
            if not first and self.mode != "eager":
                continue
            before, self.chosen = self.chosen, set()
            self.compare(call, "as it is", "")
            kernel = self.kernel_of(call)
            bases = {dtype for name, dtype in self.chosen if name == kernel}
            self.chosen |= before
            if not first:
                continue
            if self.mode == "eager":
                self.compare(call, "view", "", view=True)
            for label, changed in shapes(call):
                self.compare(changed, label, "")
            for base in sorted(bases):
                for dtype in self.table.get(kernel, []):
                    if dtype != base:
                        self.compare(with_dtype(call, base, dtype), dtype, dtype)

    def kernel_of(self, call: OpCall) -> str:
        """The kernel whose dtypes are those of a call."""
        name = KERNELS.get(call.op, call.op.removesuffix("_"))
        chosen = {kernel for kernel, _ in self.chosen if not kernel.endswith("_grad")} - HELPERS
        return name if name in self.table or len(chosen) != 1 else chosen.pop()

    def functions(self) -> None:
        """Whole functions, in programs: for ops whose form there differs from that of paddle._C_ops."""
        cases = [(n, f, i, g, None) for n, f, i, g in op_rows.FUNCTIONS]
        if self.mode == "old":
            cases += [(c.name, c.function, c.inputs, c.gradient, c.tolerance) for c in test_kernels.CASES]
            cases += [(n, f, i, test_more_kernels.has_gradient(n), 2e-4) for n, f, i in test_more_kernels.CASES]
        for name, function, inputs, gradient, tolerance in cases:
            if self.wanted(name):
                run_on = partial(run_function, self.mode, function, inputs, gradient)
                self.compare_functions(name, run_on, tolerance)
        if self.mode == "old":
            for row in [*old_programs.OPS, *op_rows.OLD_OPS]:
                self.compare_functions(row[0], partial(run_old_op, row), None)

    def compare_functions(self, name: str, run_on: Callable[[str], Any], tolerance: float | None) -> None:
        if any(all(map(re.fullmatch, row, (self.mode, name, "function"))) for row in CRASHES_OF_PADDLE):
            return
        self.note(name)
        try:
            expected = run_on("cpu")
        except Exception:
            return
        try:
            actual = run_on(DEVICE)
        except Exception as error:
            self.found(name, "function", f"{type(error).__name__}: {last_words(error)}")
            return
        finally:
            self.chosen |= selections()
        for a, b in zip(actual[0] + actual[1], expected[0] + expected[1], strict=True):
            difference = differs(a, b, "", False, tolerance)
            if difference:
                self.found(name, "function", difference)

    def of_dtypes(self) -> None:
        """In eager mode, functions of tensors in each dtype of the table: what the op calls do not reach."""
        for name, function, inputs, gradient in op_rows.FUNCTIONS:
            for dtype in WIDTHS if self.wanted(name) else WIDTHS[:1]:
                differentiable = gradient and op_modes.is_differentiable(dtype)
                self.compare_functions(
                    f"{name} of {dtype}",
                    lambda d, f=function, i=inputs, t=dtype, g=differentiable: run_of_dtype(f, i, d, t, g),
                    TOLERANCE.get(dtype, 2e-5),
                )

    def second_gradients(self) -> None:
        if self.mode == "eager":
            for name, dtype in itertools.product(test_double_gradients.CASES, ("float64", "float16", "bfloat16")):
                function, inputs = test_double_gradients.CASES[name]
                if self.wanted(name):
                    self.compare_functions(
                        f"second gradient of {name} in {dtype}",
                        lambda d, f=function, i=inputs, t=dtype: (
                            within(t, test_double_gradients.second_gradients(f, i, d, t)),
                            [],
                        ),
                        # Of squares of sums of rounded numbers.
                        # The CPU divides by the size of a window in float32.
                        {"float64": 1e-6 if "pool" in name else 1e-9, "float16": 4e-2, "bfloat16": 3e-1}[dtype],
                    )
        for name, (function, inputs) in test_double_gradients.CASES.items():
            if self.mode != "eager" and not self.wanted(name):
                continue
            if self.mode == "eager":
                self.compare_functions(
                    f"second gradient of {name}",
                    lambda d, f=function, i=inputs: (
                        test_double_gradients.second_gradients(f, i, d, "float32"),
                        [],
                    ),
                    1e-4,
                )
            else:
                self.compare_functions(
                    f"second gradient of {name}",
                    lambda d, f=function, i=inputs: in_guard(self.mode, lambda: second_in_graph(f, i, d)),
                    1e-4,
                )


#: Where Paddle ends the process before any kernel runs.
CRASHES_OF_PADDLE = [
    ("old", r"split(_with_num)?", "nothing"),
    (".*", r"fake_.*", "nothing"),
    (".*", r"unique(_consecutive)?", "nothing"),
    ("eager", r"numbers? for (rows|a slice|a mask) of complex128", "function"),
]


#: Dtypes besides float32 that functions are tried in.
WIDTHS = (
    "float64", "float16", "bfloat16", "complex64", "complex128", "bool", "int8", "uint8", "int16", "int32", "int64",
)  # fmt: skip


def within(dtype: str, arrays: list[Array]) -> list[Array]:
    """What is about to overflow is alike."""
    return [a.clip(-5e4, 5e4) for a in arrays] if dtype == "float16" else arrays


def run_of_dtype(function: Callable[..., Any], inputs: Any, device: str, dtype: str, gradient: bool) -> Any:
    """What is float32 in another dtype; of float16 and bfloat16 the CPU gets the same numbers in float32."""
    with on(device):
        leaves, tensors = [], []
        for array in inputs:
            tensor = paddle.to_tensor(to_dtype(array, dtype) if array.dtype == np.float32 else array)
            if dtype in NARROW and array.dtype == np.float32:
                tensor = tensor.astype(dtype)
                tensor = tensor.astype("float32") if device == "cpu" else tensor
            if gradient and array.dtype == np.float32:
                tensor.stop_gradient = False
                leaves.append(tensor)
            tensors.append(tensor)
        results = [r for r in flatten(function(*tensors)) if isinstance(r, paddle.Tensor)]
        roots = [r for r in results if not r.stop_gradient] if leaves else []
        if roots:
            weights = [op_modes.weight(r.shape, op_modes.dtype_of(r)) for r in roots]
            paddle.autograd.backward(roots, [paddle.to_tensor(w).astype(r.dtype) for w, r in zip(weights, roots)])
        gradients = [leaf.grad for leaf in leaves if roots and leaf.grad is not None]
        wide = [op_modes.wide(part) for part in [*results, *gradients]]
        return [a.astype("float32") if dtype in NARROW and a.dtype.kind == "f" else a for a in wide], []


def in_guard(mode: str, work: Callable[[], Any]) -> Any:
    paddle.enable_static()
    try:
        with paddle.pir_utils.IrGuard() if mode == "new" else paddle.pir_utils.OldIrGuard():
            return work()
    finally:
        paddle.disable_static()


def run_function(mode: str, function: Callable[..., Any], inputs: Any, gradient: bool, device: str) -> Any:
    if mode == "eager":
        return run(function, inputs, device, "float32", gradient)
    return in_guard(mode, lambda: run_in_graph(function, inputs, device, gradient))


def run_old_op(row: Any, device: str) -> Any:
    return in_guard("old", lambda: old_programs.run(op_modes.place_of(device), *row)), []


def second_in_graph(function: Callable[..., Any], inputs: Any, device: str) -> Any:
    main = paddle.static.Program()
    with on(device), paddle.static.program_guard(main, paddle.static.Program()):
        given = [paddle.static.data(f"x{i}", array.shape, str(array.dtype)) for i, array in enumerate(inputs)]
        for tensor in given:
            tensor.stop_gradient = False
        result = function(*given)
        first = paddle.static.gradients([(result * result).sum()], given)
        second = paddle.static.gradients([sum((g * g).sum() for g in first)], given)
        feed = {f"x{i}": array for i, array in enumerate(inputs)}
        fetched = paddle.static.Executor(op_modes.place_of(device)).run(main, feed=feed, fetch_list=[*first, *second])
    return fetched, []


def last_words(error: Exception) -> str:
    """What an error says behind the stack that graphs put in front."""
    text = " ".join(str(error).split())
    return text[text.find("(unihal)") :][:300] if "(unihal)" in text else text[-300:]


def differs(ours: Any, theirs: Any, dtype: str, random: bool, tolerance: float | None = None) -> str:
    if ours is None or theirs is None:
        return "" if ours is theirs else "one is None"
    if ours.shape != theirs.shape:
        return f"shape {ours.shape} instead of {theirs.shape}"
    if dtype not in NARROW and ours.dtype != theirs.dtype and theirs.dtype != np.int64:
        return f"dtype {ours.dtype} instead of {theirs.dtype}"
    if random or theirs.size == 0:
        return ""
    if theirs.dtype.kind not in "fc":
        same = np.array_equal(ours, theirs.astype(ours.dtype))
        return "" if same else f"{ours.ravel()[:6]} instead of {theirs.ravel()[:6]}"
    # A float64 of the CPU may be computed with factors in float32.
    limit = tolerance or (1e-6 if theirs.dtype in ("float64", "complex128") else TOLERANCE.get(dtype, 2e-5))
    with np.errstate(all="ignore"):
        finite = np.isfinite(theirs)
        scale = max(1.0, float(np.max(np.abs(theirs), initial=0.0, where=finite)))
        same = (np.abs(ours - theirs) <= limit * scale) | (ours == theirs) | (np.isnan(ours) & np.isnan(theirs))
        if dtype == "float16":
            same |= np.isinf(ours) & (np.abs(theirs) > np.finfo(np.float16).max)
    return "" if np.all(same) else f"{ours[~same].ravel()[:4]} instead of {theirs[~same].ravel()[:4]}"


def main() -> None:
    mode, of_each, share, progress = sys.argv[1:]
    warnings.simplefilter("ignore")
    paddle.disable_static()  # which old_programs.py turned on
    sweep = Sweep(mode, int(share), Path(progress))
    calls = op_calls(int(of_each))
    selections()
    sweep.ops(calls)
    sweep.functions()
    if mode == "eager":
        sweep.of_dtypes()
    sweep.second_gradients()
    print(
        json.dumps(
            {"findings": sweep.findings, "skipped": sweep.skipped, "chosen": sorted(sweep.chosen), "table": sweep.table}
        )
    )


if __name__ == "__main__":
    main()
