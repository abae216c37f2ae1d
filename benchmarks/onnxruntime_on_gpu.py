"""Latency of ONNX models through unihal's execution provider, beside PyTorch eager in the same dtype.

    python benchmarks/onnxruntime_on_gpu.py [--models FOLDER] [--peer cuda|cpu] [--only TEXT] [--json FILE]
    python benchmarks/onnxruntime_on_gpu.py --export [--models FOLDER]

--export writes the networks of inference_models.py as ONNX files without their weights (a few hundred kilobytes): where
it is measured, the weights are made anew by torch.manual_seed, so that neither onnx nor much else has to be there:
onnxruntime (1.24 or later) and PyTorch.

A ratio is our time over the peer's, of one run that is waited for. Each round takes some runs on one side and as many
on the other; the ratio is the median of the rounds' ratios, a time the median of the rounds' times. Inputs and outputs
stay on the device on both sides. float32 is strict on both sides. The peer is a process of its own, without unihal.
Answers must agree, and nothing but arithmetic on shapes may run on the CPU. Exits with 1 if a row fails in one of
these; a ratio beyond 1.2 is shown, and no failure.

--scaling adds images or texts a second by batch. UNIHAL_BACKEND chooses the backend (default: stub).
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import traceback
from collections import Counter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
DEVICE_TYPES = {"corex": "iluvatar", "opencl": "polaris"}
# What is read when PyTorch is imported or a device is opened. PyTorch is here for weights and as the peer.
os.environ.setdefault("UNIHAL_BACKEND", "stub")
os.environ.setdefault("UNIHAL_GPU_MEASURE", "1")
os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"] = "0"

import inference_models  # noqa: E402
import numpy as np  # noqa: E402
import torch  # noqa: E402

OURS = DEVICE_TYPES.get(os.environ["UNIHAL_BACKEND"], "rdna")
TARGET = 1.2
DTYPES = {"float32": torch.float32, "float16": torch.float16}
#: Of the largest number of the answer.
TOLERANCE = {"float32": 1e-3, "float16": 2e-2}
#: Opset 23 has attention as one op; images may lie with the channels last up to 21 (the exporter's own choice is 20).
OPSETS = {"bert": 23, "llama": 23}
WARM_UP = 5
ALIGNMENT = 4096


# -- models without weights ---------------------------------------------------------------------------------


def export(folder: Path, name: str, dtype: str) -> None:
    """Writes NAME.DTYPE.onnx and NAME.DTYPE.json, which says what is at which place of the file of weights."""
    import onnx
    from onnx import numpy_helper

    sys.path.insert(0, str(ROOT / "tests" / "onnxruntime"))
    import networks

    module = inference_models.folded(inference_models.build(name, DTYPES[dtype]))
    state = {key: value.numpy() for key, value in module.state_dict().items()}
    feeds = inference_models.inputs(name, 2, np.dtype(dtype))
    model = networks.export(module, feeds, DTYPES[dtype], OPSETS.get(name), free_length=False)
    rows, offset = [], 0
    for tensor in model.graph.initializer:
        found = source_of(tensor.name, numpy_helper.to_array(tensor), state)
        if found is None:
            continue
        key, is_transposed = found
        size = state[key].nbytes
        rows.append({"key": key, "transposed": is_transposed, "offset": offset})
        tensor.ClearField("raw_data")
        tensor.data_location = onnx.TensorProto.EXTERNAL
        del tensor.external_data[:]
        place = {"location": f"{name}.{dtype}.weights", "offset": str(offset), "length": str(size)}
        for entry, value in place.items():
            tensor.external_data.add(key=entry, value=value)
        offset += (size + ALIGNMENT - 1) // ALIGNMENT * ALIGNMENT
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.{dtype}.onnx"
    path.write_bytes(model.SerializeToString())
    (folder / f"{name}.{dtype}.json").write_text(json.dumps({"bytes": offset, "tensors": rows}) + "\n")
    print(f"{path}: {path.stat().st_size / 1e3:.0f} kB, and {offset / 1e6:.0f} MB of weights that are left out")


def source_of(name: str, value: np.ndarray, state: dict[str, np.ndarray]) -> tuple[str, bool] | None:
    """Which entry of a state a weight is, and whether transposed; None for what is small and of the file itself."""
    if name in state and np.array_equal(state[name], value):
        return name, False
    if value.nbytes < 1024:
        return None
    for key, candidate in state.items():
        if candidate.shape == value.shape and np.array_equal(candidate, value):
            return key, False
        if value.ndim == 2 and candidate.shape == value.shape[::-1] and np.array_equal(candidate.T, value):
            return key, True
    return None


def weights(folder: Path, name: str, dtype: str) -> Path:
    """The model's path, after its weights were written beside it."""
    table = json.loads((folder / f"{name}.{dtype}.json").read_text())
    state = inference_models.folded(inference_models.build(name, DTYPES[dtype])).state_dict()
    with open(folder / f"{name}.{dtype}.weights", "wb") as file:
        file.truncate(table["bytes"])
        for row in table["tensors"]:
            value = state[row["key"]].numpy()
            file.seek(row["offset"])
            file.write(np.ascontiguousarray(value.T if row["transposed"] else value).tobytes())
    return folder / f"{name}.{dtype}.onnx"


# -- both sides ------------------------------------------------------------------------------------------------


class Ours:
    """A model in ONNX Runtime on the device, for one batch; its input and its output stay there."""

    def __init__(self, path: Path, name: str, dtype: str, batch: int, options: argparse.Namespace) -> None:
        import onnxruntime
        import unihal.onnxruntime

        onnxruntime.set_default_logger_severity(3)
        chosen = onnxruntime.SessionOptions()
        chosen.intra_op_num_threads = 1  # its own threads have nothing to do
        unihal.onnxruntime.add_to(chosen, OURS, layout=options.layout, graph=options.graph)
        self.session = onnxruntime.InferenceSession(str(path), chosen)
        self.place = unihal.onnxruntime.memory(OURS)
        self.use(name, dtype, batch)

    def use(self, name: str, dtype: str, batch: int) -> None:
        import onnxruntime

        (key, value), *_ = inference_models.inputs(name, batch, np.dtype(dtype)).items()
        output = self.session.get_outputs()[0]
        shape = [batch, *output.shape[1:]]
        self.input = onnxruntime.OrtValue.ortvalue_from_numpy(value, *self.place)
        self.output = onnxruntime.OrtValue.ortvalue_from_shape_and_type(shape, np.dtype(dtype), *self.place)
        self.binding = self.session.io_binding()
        self.binding.bind_ortvalue_input(key, self.input)
        self.binding.bind_ortvalue_output(output.name, self.output)
        for _ in range(WARM_UP):
            self.session.run_with_iobinding(self.binding)

    def answer(self) -> np.ndarray:
        result: np.ndarray = self.output.numpy()
        return result

    def go(self, calls: int) -> float:
        """Seconds of a run; each is waited for."""
        start = time.perf_counter()
        for _ in range(calls):
            self.session.run_with_iobinding(self.binding)
        return (time.perf_counter() - start) / calls


class Eager:
    """The same network in PyTorch, as it is written."""

    def __init__(self, name: str, dtype: str, batch: int, place: str) -> None:
        torch.backends.cudnn.benchmark = True
        torch.backends.cudnn.allow_tf32 = torch.backends.cuda.matmul.allow_tf32 = False
        self.place = place
        self.module = inference_models.build(name, DTYPES[dtype]).to(place)
        (value,) = inference_models.inputs(name, batch, np.dtype(dtype)).values()
        self.input = torch.from_numpy(value).to(place)
        for _ in range(WARM_UP):
            self.output = self.run()

    def run(self) -> torch.Tensor:
        with torch.inference_mode():
            output: torch.Tensor = self.module(self.input)
        if self.place == "cuda":
            torch.cuda.synchronize()
        return output

    def go(self, calls: int) -> float:
        start = time.perf_counter()
        for _ in range(calls):
            self.run()
        return (time.perf_counter() - start) / calls


class Peer:
    """Eager in a process of its own."""

    def __init__(self, name: str, dtype: str, batch: int, place: str) -> None:
        self._folder = tempfile.TemporaryDirectory()
        self._file = Path(self._folder.name) / "answer.npy"
        words = [sys.executable, __file__, "--serve", json.dumps([name, dtype, batch, place, str(self._file)])]
        self._process = subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self._read()
        self.answer = np.load(self._file)

    def _read(self) -> float:
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        if not said:
            raise RuntimeError(f"the peer's process ended with {self._process.wait()}")
        return float(said)

    def go(self, calls: int) -> float:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        return self._read()

    def end(self) -> None:
        self._process.communicate()
        self._folder.cleanup()


def serve(words: str) -> None:
    """The process of a Peer: says 0 when it is ready, then answers each line."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)  # whatever else is printed is no answer
    name, dtype, batch, place, file = json.loads(words)
    side = Eager(name, dtype, batch, place)
    np.save(file, side.output.float().cpu().numpy())
    answers.write("0\n")
    for line in sys.stdin:
        answers.write(f"{side.go(int(line))}\n")


# -- rows -----------------------------------------------------------------------------------------------------


def fallbacks() -> Counter[str]:
    import unihal

    return Counter({f"{entry.op}[{entry.dtype}]: {entry.reason}": entry.count for entry in unihal.fallbacks()})


def measure(path: Path, name: str, dtype: str, batch: int, options: argparse.Namespace) -> dict[str, Any]:
    """A row: both sides' times, and what went wrong."""
    before = fallbacks()
    peer = Peer(name, dtype, batch, options.peer)
    try:
        ours = Ours(path, name, dtype, batch, options)
        once = max(1e-6, ours.go(2), peer.go(2))
        calls = max(2, int(options.seconds / options.rounds / once / 2))
        rounds = []
        for number in range(options.rounds):
            sides = [("ours", ours.go), ("peer", peer.go)]
            rounds.append({side: go(calls) for side, go in (sides if number % 2 == 0 else sides[::-1])})
    finally:
        peer.end()
    result: dict[str, Any] = {side: statistics.median(r[side] for r in rounds) for side in ("ours", "peer")}
    result["ratio"] = statistics.median(r["ours"] / r["peer"] for r in rounds)
    answer = ours.answer().astype(np.float64)
    largest = np.abs(peer.answer).max()
    result["difference"] = float(np.abs(answer - peer.answer).max() / largest)
    if not result["difference"] <= TOLERANCE[dtype]:
        result["error"] = f"the answers differ by {result['difference']:.2g} of the largest number"
    if left := fallbacks() - before:
        result["error"] = "ran on the CPU: " + "; ".join(left)
    if options.scaling:
        result["per_second"] = {}
        for count in options.scaling:
            if options.graph:  # of one batch, and of the tensors that it was captured with
                ours = Ours(path, name, dtype, count, options)
            else:
                ours.use(name, dtype, count)
            calls = max(2, int(0.3 / max(1e-6, ours.go(2))))
            result["per_second"][count] = count / ours.go(calls)
    return result


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=Path, default=ROOT / "build" / "onnx_models", help="folder of the ONNX files")
    parser.add_argument("--export", action="store_true", help="write them; needs onnx and onnxscript")
    parser.add_argument("--peer", choices=("cuda", "cpu"), default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--only", default="", help="rows whose title contains this")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 8])
    parser.add_argument("--scaling", type=int, nargs="*", default=[], help="batches of which the throughput is shown")
    parser.add_argument("--layout", choices=("auto", "nchw", "nhwc"), default="auto", help="the provider's option")
    parser.add_argument(
        "--graph", action="store_true", help="the provider's option: runs are captured and launched as one"
    )
    parser.add_argument("--rounds", type=int, default=12, help="at least 2")
    parser.add_argument("--seconds", type=float, default=4, help="of measurement, each row")
    parser.add_argument("--json", type=Path, help="file for the rows")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve)
        return 0
    plan = [
        (f"{name}, {dtype}, batch {batch}", name, dtype, batch)
        for name in inference_models.MODELS
        for dtype in DTYPES
        for batch in options.batches
    ]
    plan = [row for row in plan if options.only in row[0]]
    if options.export:
        for name, dtype in dict.fromkeys((name, dtype) for _, name, dtype, _ in plan):
            export(options.models, name, dtype)
        return 0
    import onnxruntime
    import unihal

    print(
        f"ONNX Runtime {onnxruntime.__version__} on {OURS} ({os.environ['UNIHAL_BACKEND']}, "
        f"{unihal.device(f'{OURS}:0').properties.name}) beside PyTorch {torch.__version__} on {options.peer}"
    )
    rows = []
    for title, name, dtype, batch in plan:
        try:
            row = measure(weights(options.models, name, dtype), name, dtype, batch, options)
        except Exception as error:  # the other rows are worth having
            traceback.print_exc()
            row = {"error": f"{type(error).__name__}: {error}"}
        rows.append({"title": title, "target": TARGET, **row})
        text = f"{title:<34}"
        if "ratio" in row:
            text += f"{1e3 * row['ours']:9.3f} {1e3 * row['peer']:9.3f} ms  ratio {row['ratio']:.3f}"
            text += f", wanted {TARGET}{'' if row['ratio'] <= TARGET else ' MISSED'}; differ by {row['difference']:.1e}"
        if "per_second" in row:
            text += "; per second " + ", ".join(f"{count}: {value:.0f}" for count, value in row["per_second"].items())
        print(text + (f"  FAILED: {row['error']}" if "error" in row else ""), flush=True)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=2) + "\n")
    failed = [row["title"] for row in rows if "error" in row]
    if failed or not rows:
        print("failed: " + ("; ".join(failed) or "no row of that name"))
    return 1 if failed or not rows else 0


if __name__ == "__main__":
    sys.exit(main())
