"""Attention on matrix cores, without any: the kernels of attention_matrix.cl run on the host, where matrix_machine.h
runs a group's work-items in turn; mma_instructions.h and warpgroup_instructions.h do what NVIDIA's manual says of each
instruction, and wmma_instructions.h what RDNA3's does. So layouts, masks, edges and barriers are tested here; speed,
and that the manual is right, on a GPU.

Kernels are compiled in the shapes of csrc/kernels/ops/attention_matrix.cc."""

from __future__ import annotations

import ctypes
import dataclasses
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from unihal.conformance.number_format import FORMATS, round_to
from unihal.conformance.reference.attention import attention, attention_backward

ROOT = Path(__file__).parents[2]
sys.path.append(str(ROOT / "tests/gpu"))

from gpu_compilers import amd_clang, compile_hip, gpu_text  # noqa: E402
from kernel_on_host import DTYPES, HERE, KERNELS, dtype_macros, gpu_prelude, library, macro_text, with_includes  # noqa: E402

Array = NDArray[Any]

#: MatrixForm of csrc/kernels/queue.h.
FORMS = {"mma": 1, "wmma": 2, "warpgroup": 3}


@dataclass(frozen=True)
class Shape:
    """A row of kShapes."""

    form: str
    part: str
    head: int
    warps: int
    blocks: int
    tile: int
    own_in_registers: int
    step: int
    slice: int
    groups: int = 0
    ahead: int = 0
    paired: int = 0

    @property
    def rows(self) -> int:
        return self.warps // (2 if self.paired else 1) * self.blocks * 16

    @property
    def macros(self) -> dict[str, int]:
        own = {"HEAD": self.head, "WARPS": self.warps, "BLOCKS": self.blocks, "TILE": self.tile}
        own |= {"OWN_IN_REGISTERS": self.own_in_registers, "GROUPS": self.groups}
        own |= {"AHEAD": self.ahead, "PAIRED": self.paired}
        if self.part == "kForward":
            return own
        return own | {"BY_KEY": int(self.part == "kByKey"), "STEP": self.step, "SLICE": self.slice}


def shapes() -> list[Shape]:
    text = (KERNELS / "ops/attention_matrix.cc").read_text()
    number = r", (\d+)"
    rows = re.findall(rf"\{{k(\w+), Part::(\w+){number * 7}(?:{number})?(?:{number})?(?:{number})?\}}", text)
    assert len(rows) == len(re.findall(r"^    \{k\w+, Part::k\w+, \d", text, re.MULTILINE)) >= 48
    return [Shape(form.lower(), part, *(int(number or 0) for number in numbers)) for form, part, *numbers in rows]


ENTRIES = {
    "kForward": """
static void forward() {
  attention_matrix_forward(at(0), at(1), at(2), at(3), at(4), at(5), value<Forward>(6), value<float>(7),
                           value<int32>(8), value<int32>(9), value<int32>(10), value<int32>(11));
}
extern "C" void run_forward(unsigned groups, void** given) {
  arguments = given;
  on_host::launch(groups, GROUP, forward);
}
""",
    "gradient": """
static void statistics() {
  attention_matrix_statistics(at(0), at(1), at(2), at(3), at(4), value<Statistics>(5), value<int32>(6));
}
extern "C" void run_statistics(unsigned groups, void** given) {
  arguments = given;
  on_host::launch(groups, 128, statistics);
}
static void gradient() {
  attention_matrix_gradient(at(0), at(1), at(2), at(3), at(4), at(5), at(6), at(7), at(8), value<Backward>(9),
                            value<float>(10), value<float>(11), value<int32>(12), value<int32>(13));
}
extern "C" void run_gradient(unsigned groups, void** given) {
  arguments = given;
  on_host::launch(groups, GROUP, gradient);
}
""",
}


def macros_of(shape: Shape, dtype: str, vector: bool, mask: bool, wide: bool) -> str:
    """What the host defines: the spec of attention_matrix.cc."""
    macros = {
        "UHAL_HAS_FLOAT64": 1, "UHAL_COMPUTE_float": 1, "UHAL_WIDE_INDEX": int(wide), "UHAL_RANK": 4,
        "UHAL_MATRIX_FORM": FORMS[shape.form], **dtype_macros("X", dtype),
        "VECTOR": int(vector), "HAS_MASK": int(mask), **shape.macros,
    }  # fmt: skip
    return macro_text(macros)


def program(shape: Shape, dtype: str, vector: bool, mask: bool, wide: bool) -> str:
    return "\n".join(
        [
            f'#include "{HERE}/matrix_machine.h"',
            f'#define UHAL_MATRIX_INSTRUCTIONS "{HERE}/{shape.form}_instructions.h"',
            macros_of(shape, dtype, vector, mask, wide), gpu_prelude(),
            "#undef UHAL_LAUNCHED_LOCAL_MEMORY",
            "#define UHAL_LAUNCHED_LOCAL_MEMORY(type, name, count) "
            "type* const name = on_host::take_local_memory<type>(count);",
            with_includes(KERNELS / "prelude/common.h"), with_includes(KERNELS / "source/attention_matrix.cl"),
            "static void** arguments;",
            "static char* at(int i) { return (char*)arguments[i]; }",
            "template <class Type> static Type value(int i) { return *(Type*)arguments[i]; }",
            ENTRIES["kForward" if shape.part == "kForward" else "gradient"],
        ]
    )  # fmt: skip


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("matrix_kernels")


class Buffer:
    """An operand in its own memory, in the order of axes (B, M, H, D) that frameworks' projections leave."""

    def __init__(self, values: Array, dtype: str) -> None:
        self.shape, self.dtype = values.shape, dtype
        rounded = round_to(values, dtype).astype(np.float32)
        if values.ndim == 4:
            rounded = rounded.transpose(0, 2, 1, 3)
        rounded = np.ascontiguousarray(rounded)
        self.strides = rounded.strides
        if values.ndim == 4:
            self.strides = tuple(rounded.strides[i] for i in (0, 2, 1, 3))
        self.strides = tuple(0 if n == 1 else s // 4 for n, s in zip(values.shape, self.strides))
        if dtype == "bfloat16":
            raw = (rounded.view(np.uint32) >> 16).astype(np.uint16)
        elif dtype == "float16":
            raw = rounded.astype(np.float16).view(np.uint16)
        else:
            raw = rounded.view(np.uint32)
        # Aligned, and with what nobody may read or write before and behind it.
        self.bytes = np.full(raw.nbytes + 256, 0xFF, np.uint8)
        self.start = (-self.bytes.ctypes.data) % 64 + 64
        self.bytes[self.start : self.start + raw.nbytes] = raw.reshape(-1).view(np.uint8)
        self.size, self.kind, self.stored = raw.nbytes, raw.dtype, rounded.shape

    @property
    def address(self) -> int:
        return self.bytes.ctypes.data + self.start

    def values(self) -> Array:
        outside = np.concatenate([self.bytes[: self.start], self.bytes[self.start + self.size :]])
        assert (outside == 0xFF).all(), "something was written outside of an operand"
        raw = self.bytes[self.start : self.start + self.size].view(self.kind)
        if self.dtype == "bfloat16":
            floats = (raw.astype(np.uint32) << 16).view(np.float32)
        elif self.dtype == "float16":
            floats = raw.view(np.float16).astype(np.float32)
        else:
            floats = raw.view(np.float32)
        floats = floats.reshape(self.stored)
        return (floats.transpose(0, 2, 1, 3) if floats.ndim == 4 else floats).astype(np.float64)


def call(function: Any, groups: int, *given: Any) -> None:
    """Buffers, numpy arrays (structs) and numbers as a kernel's arguments."""
    kept: list[Any] = []
    addresses = (ctypes.c_void_p * len(given))()
    for i, one in enumerate(given):
        if isinstance(one, Buffer):
            addresses[i] = one.address
        elif one is None:
            addresses[i] = None
        elif isinstance(one, np.ndarray):
            addresses[i] = one.ctypes.data
        else:
            kept.append(np.asarray(one))
            addresses[i] = kept[-1].ctypes.data
    function(ctypes.c_uint(groups), addresses)


@dataclass(frozen=True)
class Problem:
    b: int
    h: int
    m: int
    n: int
    d: int
    e: int
    causal: int = 0
    mask: tuple[int, ...] | None = None
    scale: float = 0

    @property
    def vector(self) -> bool:
        return self.d % 8 == 0 and self.e % 8 == 0


def mask_of(problem: Problem, generator: np.random.Generator) -> Array | None:
    if problem.mask is None:
        return None
    shape = [own if keep else 1 for own, keep in zip((problem.b, problem.h, problem.m, problem.n), problem.mask)]
    return np.where(generator.random(shape) < 0.25, -np.inf, generator.normal(0, 1, shape))


def strides(buffer: Buffer | None) -> list[int]:
    if buffer is None:
        return [0] * 4
    return [*buffer.strides, *[0] * (4 - len(buffer.strides))]


def check(folder: Path, parts: dict[str, Shape], dtype: str, p: Problem, wide: bool = False) -> None:
    generator = np.random.default_rng([p.m, p.n, p.d])
    index = np.int64 if wide else np.int32
    arrays = [round_to(generator.normal(0, 1, shape), dtype) for shape in
              ((p.b, p.h, p.m, p.d), (p.b, p.h, p.n, p.d), (p.b, p.h, p.n, p.e), (p.b, p.h, p.m, p.e))]  # fmt: skip
    q, k, v, dy = arrays
    mask = mask_of(p, generator)
    mask = None if mask is None else round_to(mask, dtype)
    y, total = attention(q, k, v, mask, scale=p.scale, causal=p.causal)
    factor = p.scale or 1 / np.sqrt(p.d)
    log2 = np.float32(factor * np.log2(np.e))
    of_q, of_k, of_v, of_dy = (Buffer(array, dtype) for array in arrays)
    of_mask = None if mask is None else Buffer(mask, dtype)
    dtype_number = DTYPES[dtype]

    def build(shape: Shape) -> ctypes.CDLL:
        return library(folder, program(shape, dtype, p.vector, mask is not None, wide))

    unit = FORMATS[dtype].unit_roundoff
    tiny = FORMATS[dtype].smallest_subnormal
    forward = parts["kForward"]
    of_y, of_total = Buffer(np.full(y.shape, np.nan), dtype), Buffer(np.full(total.shape, np.nan), "float32")
    tiles = -(-p.m // forward.rows)
    of_strides = [x for one in (of_q, of_k, of_v, of_mask, of_y, of_total) for x in strides(one)]
    struct = np.array([p.h, tiles, 1, p.m, p.n, p.d, p.e, *of_strides], index)
    call(build(forward).run_forward, p.b * p.h * tiles, of_q, of_k, of_v, of_mask, of_y, of_total, struct, log2,
         np.int32(p.causal), np.int32(dtype_number), np.int32(12), np.int32(1))  # fmt: skip
    size, _ = attention(q, k, np.abs(v), mask, scale=p.scale, causal=p.causal)
    error = np.abs(of_y.values() - y)
    assert (error <= unit * np.abs(y) + (unit + 1e-5) * size + tiny * (1 + np.abs(v).max())).all(), error.max()
    hidden = np.isinf(total)
    assert (np.isneginf(of_total.values()) == hidden).all()
    assert np.abs(np.where(hidden, 0, of_total.values() - np.where(hidden, 0, total))).max(initial=0) < 1e-4

    given_y, given_total = Buffer(y, dtype), Buffer(total, "float32")
    padded = -(-p.m // 256) * 256
    sums, offsets = (Buffer(np.full((p.b, p.h, padded), np.nan), "float32") for _ in range(2))
    results = {name: Buffer(np.full(like.shape, np.nan), dtype) for name, like in (("dq", q), ("dk", k), ("dv", v))}
    for part in ("kByQuery", "kByKey"):
        shape = parts[part]
        built = build(shape)
        by_key = part == "kByKey"
        if not by_key:
            count = p.b * p.h * padded
            struct = np.array(
                [p.h, p.m, padded, p.e, count, *strides(given_y), *strides(of_dy), *strides(given_total)], index
            )
            call(
                built.run_statistics, -(-count // 16), given_y, of_dy, given_total, sums, offsets, struct, np.int32(12)
            )
        rows, others = (p.n, p.m) if by_key else (p.m, p.n)
        tiles, slices = -(-rows // shape.rows), -(-max(p.d, p.e) // shape.slice)
        own = [of_k, of_q, of_v, of_dy] if by_key else [of_q, of_k, of_dy, of_v]
        out = [results["dk"], results["dv"]] if by_key else [results["dq"], None]
        of_strides = strides(of_mask)
        if by_key:
            of_strides[2], of_strides[3] = of_strides[3], of_strides[2]
        of_strides = [*(x for one in own for x in strides(one)), *of_strides, *strides(out[0]), *strides(out[1])]
        struct = np.array([p.h, tiles, slices, rows, others, padded, p.d, p.e, *of_strides], index)
        call(built.run_gradient, p.b * p.h * tiles * slices, *own, of_mask, sums, offsets, *out, struct, log2,
             np.float32(factor), np.int32(p.causal), np.int32(dtype_number))  # fmt: skip
    rounded_y = given_y.values()
    expected = attention_backward(q, k, v, mask, rounded_y, total, dy, scale=p.scale, causal=p.causal)
    weights, _ = attention(
        q, k, np.broadcast_to(np.eye(p.n), (p.b, p.h, p.n, p.n)), mask, scale=p.scale, causal=p.causal
    )
    terms = np.abs(dy) @ np.swapaxes(np.abs(v), -1, -2) + np.sum(np.abs(rounded_y * dy), axis=-1, keepdims=True)
    dscores = weights * terms * abs(factor)
    across = np.swapaxes(dscores, -1, -2)
    sizes = (dscores @ np.abs(k), across @ np.abs(q), np.swapaxes(weights, -1, -2) @ np.abs(dy))
    least = tiny * (1 + abs(factor) * 10 * max(p.m, p.n))
    for (name, buffer), value, largest in zip(results.items(), expected, sizes):
        error = np.abs(buffer.values() - value)
        assert (error <= unit * np.abs(value) + (unit + 3e-5) * largest + least).all(), (
            name,
            np.nanmax(error),
            np.isnan(error).sum(),
        )


def first_shapes(form: str, features: int, last: bool = False) -> dict[str, Shape]:
    """Of each part the first shape with room for a head, or the last one."""
    found: dict[str, Shape] = {}
    for shape in shapes():
        if shape.form != form or shape.head < features:
            continue
        before = found.get(shape.part)
        if before is None or shape.head < before.head or (last and shape.head == before.head):
            found[shape.part] = shape
    return found


#: A sample of the problems for every run: causal with a mask, heads of odd sizes, more keys than queries.
SAMPLE = (
    ("bfloat16", Problem(1, 2, 67, 65, 33, 31, causal=1, mask=(1, 0, 1, 1))),
    ("float16", Problem(1, 1, 40, 130, 40, 40, causal=1, scale=0.75)),
)

#: The same for the form that has only operands in vectors; more than a tile of rows and of others.
WARPGROUP_SAMPLE = (
    ("bfloat16", Problem(1, 2, 130, 67, 40, 64, causal=1, mask=(1, 0, 1, 1))),
    ("float16", Problem(1, 1, 70, 130, 136, 192, causal=1)),
)

PROBLEMS = (
    ("float16", Problem(1, 1, 70, 200, 128, 104, causal=1, scale=0.75)),
    ("bfloat16", Problem(1, 2, 150, 150, 64, 64, causal=1)),
    ("bfloat16", Problem(2, 1, 70, 201, 64, 64)),
    ("float16", Problem(1, 1, 201, 70, 64, 48, causal=1)),
    ("float16", Problem(2, 2, 5, 7, 4, 6, causal=1, mask=(1, 0, 0, 1))),
    ("bfloat16", Problem(1, 1, 130, 131, 32, 32, mask=(0, 0, 1, 0), scale=-1.5)),
    *(("bfloat16", Problem(1, 1, 100, 90, size, size, causal=1)) for size in (80, 96, 128, 160, 192, 256)),
)


def name_of(value: Problem | str) -> str:
    return value if isinstance(value, str) else "x".join(str(size) for size in dataclasses.astuple(value)[:6])


def cases(sample: tuple[tuple[str, Problem], ...], forms: Iterable[str]) -> list[Any]:
    return [
        pytest.param(form, dtype, problem, id=f"{name_of(problem)}-{dtype}-{form}")
        for form in forms
        for dtype, problem in sample
        if form != "warpgroup" or problem.vector  # panels are filled 16 bytes at a time
    ]


@pytest.mark.parametrize(
    ("form", "dtype", "problem"), cases(SAMPLE, ("mma", "wmma")) + cases(WARPGROUP_SAMPLE, ("warpgroup",))
)
def test_kernels_compute_attention_and_its_gradient(folder: Path, form: str, dtype: str, problem: Problem) -> None:
    check(folder, first_shapes(form, max(problem.d, problem.e)), dtype, problem)


@pytest.mark.whole
@pytest.mark.parametrize(("form", "dtype", "problem"), cases(PROBLEMS, FORMS))
def test_kernels_compute_attention_of_all_shapes(folder: Path, form: str, dtype: str, problem: Problem) -> None:
    check(folder, first_shapes(form, max(problem.d, problem.e)), dtype, problem)


@pytest.mark.whole
@pytest.mark.parametrize("features", [128, 192, 256])
def test_kernels_in_little_local_memory(folder: Path, features: int) -> None:
    check(
        folder, first_shapes("mma", features, last=True), "float16", Problem(1, 1, 70, 75, features, features, causal=1)
    )


@pytest.mark.whole
def test_kernels_with_wide_indices(folder: Path) -> None:
    for form in FORMS:
        check(folder, first_shapes(form, 64), "bfloat16", Problem(1, 2, 33, 50, 64, 56, causal=1), wide=True)


@pytest.mark.parametrize(
    ("form", "features", "right", "wrong"),
    [
        ("mma", 64, "column >= sight->others)", "column >= sight->others - 1)"),
        ("mma", 64, "uhal_await_copies();\n    UHAL_BARRIER();\n    if (other", "UHAL_BARRIER();\n    if (other"),
        ("warpgroup", 64, "      AWAIT_PRODUCTS(1, scores, TILE);\n", ""),
        ("warpgroup", 64, "      AWAIT_PRODUCTS(0, average, HEAD);\n      SETTLE", "      SETTLE"),
        ("warpgroup", 192, "    UHAL_BARRIER();\n    if (team != 0) {", "    if (team != 0) {"),
    ],
    ids=["a key less", "no wait for copies", "no wait for scores", "no wait for averages", "no wait for weights"],
)
def test_a_mistake_in_a_kernel_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch, form: str, features: int, right: str, wrong: str
) -> None:
    read = with_includes

    def mistaken(path: Path) -> str:
        text = read(path)
        if path.name == "attention_matrix.cl" and text.count(right) != 1:
            raise ValueError(f"the kernel has not one of {right!r}")
        return text.replace(right, wrong)

    monkeypatch.setitem(globals(), "with_includes", mistaken)
    with pytest.raises(AssertionError):
        check(folder, first_shapes(form, features), "bfloat16", Problem(1, 1, 20, 200, features, features))


# -- what AMD's compiler makes of them -------------------------------------------------------------------------------


def machine_code(shape: Shape, dtype: str) -> str:
    text = gpu_text(with_includes(KERNELS / "source/attention_matrix.cl"), macros_of(shape, dtype, True, False, False))
    return compile_hip(text, "gfx1100", amd_clang(), as_assembly=True).decode()


#: Heads whose gradients have 6 and 18 scalar registers lie in lanes of a vector register for a while: an instruction
#: each, no memory.
SCALARS_SPILL = 256


def check_machine_code(shape: Shape, dtype: str) -> None:
    """All in registers, and the products by matrix instructions of the dtype."""
    assembly = machine_code(shape, dtype)
    instruction = {"float16": "v_wmma_f32_16x16x16_f16", "bfloat16": "v_wmma_f32_16x16x16_bf16"}[dtype]
    tiles = {"kForward": 2 * shape.tile, "kByQuery": 2 * shape.step, "kByKey": 2 * shape.step}[shape.part]
    tiles = tiles // 16 * (shape.head // 16)
    columns = shape.head if shape.part == "kForward" else shape.slice
    results = {"kForward": 0, "kByQuery": 1, "kByKey": 2}[shape.part] * shape.step // 16 * (columns // 16)
    least = shape.blocks * (tiles if shape.part == "kForward" else tiles + results)
    assert assembly.count(instruction) >= least, (shape, least)
    kept = ["vgpr_spill_count", "private_segment_fixed_size"]
    if shape.part == "kForward" or shape.head != SCALARS_SPILL:
        kept.append("sgpr_spill_count")
    for what in kept:
        assert set(re.findall(rf"\.{what}: +(\d+)", assembly)) == {"0"}, (shape, what)


@pytest.mark.parametrize("part", ["kForward", "kByQuery", "kByKey"])
def test_amd_has_matrix_instructions_and_no_spill(part: str) -> None:
    check_machine_code(first_shapes("wmma", 64)[part], "float16")


@pytest.mark.whole
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_amd_has_matrix_instructions_and_no_spill_in_all_shapes(dtype: str) -> None:
    for shape in shapes():
        if shape.form == "wmma":
            check_machine_code(shape, dtype)
