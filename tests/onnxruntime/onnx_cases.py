"""The node tests of the onnx package on the device: which of them run, and how each ended.

    UNIHAL_BACKEND=stub python tests/onnxruntime/onnx_cases.py [PATTERN]

prints the cases that failed, and the numbers of those that passed and were left out, by reason.
"""

from __future__ import annotations

import ctypes
import importlib
import json
import re
import sys
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx
import onnxruntime
import unihal.onnxruntime
from onnx import TensorProto, helper, numpy_helper
from sessions import BITS, cpu_session, fallbacks, session

#: Cases whose expected answers ONNX Runtime's CPU provider does not give either: the device gives its. Checked below.
AS_ONNXRUNTIME = {
    "test_resize_downsample_scales_linear_align_corners",
    "test_resize_downsample_scales_cubic_align_corners",
}

#: Cases whose answers are random numbers of NumPy.
RANDOM = r"^test_(bernoulli\w*|training_dropout(_default)?(_mask)?)$"

#: Cases whose answers are sums in which large numbers cancel: what is left is compared with the largest.
CANCELLING = r"^test_(dft|stft)"

#: What can be seen of a case before it runs.
_NO_TENSOR = "an operand that is no tensor"


@dataclass
class Outcome:
    """How a case ended: "passed", "failed" or "left out", and why."""

    name: str
    state: str
    reason: str = ""


def covered() -> set[tuple[str, str]]:
    """Domains and names of the ops that have kernels."""
    library = ctypes.CDLL(unihal.onnxruntime.library())
    library.uhal_onnxruntime_coverage.restype = ctypes.c_char_p
    return {(row["domain"], row["op"]) for row in json.loads(library.uhal_onnxruntime_coverage().decode())}


def cases(pattern: str = "", modules: Iterable[str] = ()) -> Iterator[Any]:
    """The package's cases whose names match; with the names of modules only theirs, since all take 17 s to make."""
    import onnx.backend.test.case.node as collection

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of NumPy, about the cases' own overflows
        for module in modules:
            importlib.import_module(f"{collection.__name__}.{module}")
        found = collection._NodeTestCases if modules else collection.collect_testcases(None)
    return (case for case in found if re.search(pattern, case.name))


def array(value: Any) -> Any:
    """A data set's value for NumPy."""
    return numpy_helper.to_array(value) if isinstance(value, TensorProto) else np.asarray(value)


#: Types of 4 bits, and those of a byte as which tests hand them over.
FOUR_BITS = {TensorProto.INT4: TensorProto.INT8, TensorProto.UINT4: TensorProto.UINT8}


def for_numpy(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with casts for what NumPy has not: of inputs of 4 bits, and of outputs, which become float32."""
    result = onnx.ModelProto()
    result.CopyFrom(model)
    for value in result.graph.input:
        kind = value.type.tensor_type.elem_type
        if kind in FOUR_BITS:
            value.type.tensor_type.elem_type = FOUR_BITS[kind]
            name = value.name
            value.name = f"{name}_of_bytes"
            result.graph.node.insert(0, helper.make_node("Cast", [value.name], [name], to=kind))
    for output in result.graph.output:
        if output.type.tensor_type.elem_type in (*BITS, *FOUR_BITS):
            output.type.tensor_type.elem_type = TensorProto.FLOAT
            name = output.name
            output.name = f"{name}_as_float32"
            result.graph.node.append(helper.make_node("Cast", [name], [output.name], to=TensorProto.FLOAT))
    return result


def feed(value: Any, info: onnx.ValueInfoProto) -> onnxruntime.OrtValue:
    """An input as ONNX Runtime takes it."""
    kind = info.type.tensor_type.elem_type
    if kind in BITS:
        return onnxruntime.OrtValue.ortvalue_from_numpy_with_onnx_type(array(value).view(BITS[kind]), kind)
    numbers = array(value)
    if numbers.dtype.name in ("int4", "uint4"):
        numbers = numbers.astype(numbers.dtype.name.replace("4", "8"))
    return onnxruntime.OrtValue.ortvalue_from_numpy(numbers)


def compare(case: Any, outputs: list[np.ndarray], infos: list[onnx.ValueInfoProto], expected: list[Any]) -> str:
    """What differs; "" if nothing."""
    for output, info, value in zip(outputs, infos, expected, strict=True):
        wanted = array(value)
        narrow = info.type.tensor_type.elem_type in (TensorProto.FLOAT16, *BITS)
        if output.shape != wanted.shape:
            return f"{info.name} has the shape {output.shape}, expected {wanted.shape}"
        if info.type.tensor_type.elem_type not in (*BITS, *FOUR_BITS) and output.dtype != wanted.dtype:
            return f"{info.name} is {output.dtype}, expected {wanted.dtype}"
        rtol = max(case.rtol, {True: 2e-3, False: 0}[narrow])
        atol = max(case.atol or 0, 1e-3 if narrow else 1e-7)
        if info.type.tensor_type.elem_type == TensorProto.BFLOAT16:
            rtol = atol = 2e-2
        if re.search(CANCELLING, case.name):
            atol = 1e-6 * np.abs(wanted).max()
        if not np.allclose(output.astype(np.float64), wanted.astype(np.float64), rtol, atol, equal_nan=True):
            return f"{info.name} differs: {output.ravel()[:4]}, expected {wanted.ravel()[:4]}"
    return ""


def is_function(domain: str, name: str) -> bool:
    """Whether ONNX says how an op is made of others, which ONNX Runtime puts in its place."""
    if domain:
        return False
    try:
        schema = onnx.defs.get_schema(name, domain=domain)
    except onnx.defs.SchemaError:
        return False
    return bool(schema.has_function or schema.has_context_dependent_function)


def run(case: Any, ops: set[tuple[str, str]]) -> Outcome:
    """Runs a case on the device, without the CPU."""
    used = {("" if node.domain == "ai.onnx" else node.domain, node.op_type) for node in case.model.graph.node}
    own = {(function.domain, function.name) for function in case.model.functions}
    missing = sorted(name for domain, name in used - ops - own if name != "Constant" and not is_function(domain, name))
    if missing:
        return Outcome(case.name, "left out", f"{missing[0]} has no kernel")
    values = [*case.model.graph.input, *case.model.graph.output]
    if any(not value.type.HasField("tensor_type") for value in values):
        return Outcome(case.name, "left out", _NO_TENSOR)
    if re.search(RANDOM, case.name):
        return Outcome(case.name, "left out", "it expects NumPy's random numbers")
    model = for_numpy(case.model)
    inputs, expected = case.data_sets[0]
    before, refusal = fallbacks(), ""
    try:
        made = session(model)
    except onnxruntime.capi.onnxruntime_pybind11_state.Fail as error:
        refusal = str(error)
    except Exception as error:
        # What ONNX Runtime itself does not take is no case of ours.
        try:
            cpu_session(model)
        except Exception:
            return Outcome(case.name, "left out", "ONNX Runtime does not take the model")
        return Outcome(case.name, "failed", str(error)[:200])
    if refusal:  # the session went with its error, and what it left to the CPU is counted
        left = [f"{key[0]}: {key[2]}" for key, count in fallbacks().items() if count > before.get(key, 0)]
        if left:
            return Outcome(case.name, "left out", left[0])
        if "explicitly disabled" in refusal and any(
            name in ("Shape", "Size") or is_function(domain, name) for domain, name in used
        ):
            return Outcome(case.name, "left out", "it computes with shapes, which stay on the CPU")
        return Outcome(case.name, "failed", refusal[:200])
    feeds = {info.name: feed(value, info) for info, value in zip(model.graph.input, inputs, strict=False)}
    try:
        outputs = [value.numpy() for value in made.run_with_ort_values(None, feeds)]
    except Exception as error:
        return Outcome(case.name, "failed", str(error)[:200])
    difference = compare(case, outputs, list(case.model.graph.output), expected)
    if difference and case.name in AS_ONNXRUNTIME:
        theirs = [value.numpy() for value in cpu_session(model).run_with_ort_values(None, feeds)]
        same = all(np.allclose(a, b, 1e-4, 1e-5) for a, b in zip(outputs, theirs, strict=True))
        return Outcome(
            case.name, "left out" if same else "failed", "ONNX Runtime's CPU provider differs in the same way"
        )
    return Outcome(case.name, "failed" if difference else "passed", difference)


def main() -> None:
    """The command."""
    ops = covered()
    outcomes = [run(case, ops) for case in cases(sys.argv[1] if len(sys.argv) > 1 else "")]
    for outcome in outcomes:
        if outcome.state == "failed":
            print(f"{outcome.name}: {outcome.reason}")
    for reason, count in Counter(o.reason for o in outcomes if o.state == "left out").most_common():
        print(f"{count:>6}  left out: {reason}")
    states = Counter(outcome.state for outcome in outcomes)
    print(f"{len(outcomes)} cases: " + ", ".join(f"{count} {state}" for state, count in sorted(states.items())))


if __name__ == "__main__":
    main()
