"""What AMD's compiler makes of the kernels, for cards that are not here: registers, memory and the hottest loops.

    python benchmarks/amd_code.py                          # the programs of `unihal cache warm`, each on each card
    python benchmarks/amd_code.py --summary                # a row for each kernel: the worst of its programs
    python benchmarks/amd_code.py --card gfx803 --kernel gemm_tile --dtype float16 --json out/amd.json
    python benchmarks/amd_code.py --models                 # also what ResNet-50, BERT-base and the demo compile
    python benchmarks/amd_code.py --source FOLDER          # programs that programs.py has left in a folder

It needs clang 19 and libclc 19 for AMD's GPUs, of Debian or in .venv (tests/fetch_amd_clang.sh), and no card: see
docs/benchmarks.md.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import programs
from programs import Program
from rich.console import Console
from rich.progress import track
from rich.table import Table

# -- how many waves a SIMD holds ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Hardware:
    """What the waves of an architecture share.

    From AMD's instruction set guides (GCN 3, RDNA 2, RDNA 3) and, for the granules, from LLVM's
    AMDGPUBaseInfo.cpp (getVGPRAllocGranule, getTotalNumVGPRs, getSGPRAllocGranule, getTotalNumSGPRs) and
    AMDGPUUsage.rst: a wave takes registers, and a group local memory, in whole granules, and a group's waves run on
    one compute unit (gfx803) or on one pair of them (the others, in their usual mode).
    """

    wave: int  # work-items
    most_waves: int  # of a SIMD
    vector_registers: int  # of a SIMD, for each lane
    vector_granule: int
    scalar_registers: int  # of a SIMD; 0: each wave has all that it can name
    scalar_granule: int
    local_memory: int  # bytes that the SIMDs below share
    local_granule: int
    simds: int
    most_groups: int  # on these SIMDs, of groups with more than a wave

    def waves(self, kernel: Code) -> tuple[int, str]:
        """The waves that a SIMD can hold of a kernel, 0 if not even one group fits, and what limits them."""
        limits = {"the hardware": self.most_waves}
        limits["vector registers"] = self.vector_registers // _up(max(kernel.vector_registers, 1), self.vector_granule)
        if self.scalar_registers:
            limits["scalar registers"] = self.scalar_registers // _up(kernel.scalar_registers, self.scalar_granule)
        group_waves = -(-kernel.group_size // self.wave)
        groups = min(limits.values()) * self.simds // group_waves
        if group_waves > 1 and self.most_groups < groups:
            limits["groups"] = self.most_groups * group_waves // self.simds
        if kernel.local_bytes:
            by_local = self.local_memory // _up(kernel.local_bytes, self.local_granule)
            limits["local memory"] = by_local * group_waves // self.simds
        reason = min(limits, key=lambda name: limits[name])
        return limits[reason], reason


def _up(value: int, granule: int) -> int:
    return -(-value // granule) * granule


HARDWARE = {
    "gfx803": Hardware(64, 10, 256, 4, 800, 16, 64 << 10, 512, 4, 16),
    "gfx1030": Hardware(32, 16, 1024, 16, 0, 1, 128 << 10, 512, 4, 32),
    "gfx1100": Hardware(32, 16, 1536, 24, 0, 1, 128 << 10, 1024, 4, 32),
}

# -- the compiler ---------------------------------------------------------------------------------------------------


class NoCompilerError(Exception):
    """There is no clang for AMD's GPUs."""


@dataclass(frozen=True)
class Compiler:
    """clang, and the OpenCL library that kernels are linked to."""

    clang: str
    library: str
    mca: str  # llvm-mca; it may not be there

    def assemble(self, program: Program, card: str) -> str:
        """The program as assembly text, with the metadata of its kernels."""
        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder, "program.cl"), Path(folder, "program.s")
            source.write_text(program.text)
            command = [
                self.clang, "-x", "cl", *program.options, "-O3", "-w", "--target=amdgcn-amd-amdhsa", f"-mcpu={card}",
                "-nogpulib", "-Xclang", "-mlink-builtin-bitcode", "-Xclang", self.library, "-Xclang",
                "-finclude-default-header", "-S", str(source), "-o", str(target),
            ]  # fmt: skip
            process = subprocess.run(command, capture_output=True, text=True, check=False)
            if process.returncode != 0:
                raise RuntimeError(f"{program.describe()} does not compile for {card}:\n{process.stderr}")
            return target.read_text()

    def cycles(self, code: Sequence[str], card: str) -> float | None:
        """llvm-mca's estimate of what one wave takes for a block of a loop, in cycles of each of many turns; None where
        there is no llvm-mca, or it does not know an instruction."""
        if not os.access(self.mca, os.X_OK):
            return None
        command = [self.mca, "--mtriple=amdgcn-amd-amdhsa", f"--mcpu={card}", f"--iterations={_TURNS}"]
        text = "".join(f"\t{line}\n" for line in code if not line.startswith(("s_cbranch", "s_branch")))
        process = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
        total = re.search(r"^Total Cycles: +(\d+)$", process.stdout, re.MULTILINE)
        return int(total[1]) / _TURNS if process.returncode == 0 and total else None


def find_compiler() -> Compiler:
    """Of the system, or of tests/fetch_amd_clang.sh; NoCompilerError says what to do."""
    fetched = programs.ROOT / ".venv/amd-clang"
    for clang, library, mca in (
        ("/usr/bin/clang-19", "/usr/lib/clc", "/usr/bin/llvm-mca-19"),
        (f"{fetched}/bin/clang", f"{fetched}/usr/lib/clc", f"{fetched}/bin/llvm-mca"),
    ):
        found = Compiler(clang, f"{library}/amdgcn--amdhsa.bc", mca)
        if os.access(found.clang, os.X_OK) and os.access(found.library, os.R_OK):
            return found
    raise NoCompilerError(
        "there is no clang for AMD's GPUs; run tests/fetch_amd_clang.sh, or install Debian's clang-19 and libclc-19"
    )


# -- what is in the code --------------------------------------------------------------------------------------------

# LLVM says of each block after which label, or between which branches, it lies and in which loop: "=>  This Inner Loop
# Header: Depth=2" or "in Loop: Header=BB0_3 Depth=2".
_BLOCK = re.compile(r"^(?:\.LBB(\d+_\d+):|; %bb\.\d+:)")
_HEADER = re.compile(r"=>\s*This (?:Inner )?Loop Header: Depth=(\d+)")
_MEMBER = re.compile(r"in Loop: Header=BB(\d+_\d+) Depth=(\d+)")

# What multiplies and adds, in each half of an instruction that issues two (v_dual_fmac_f32 ... :: v_dual_mul_f32 ...).
_FMA = re.compile(
    r"v_(?:pk_|dual_)?(?:fma|fmac|mac|mad)_(?:mix)?\w*f(?:16|32|64)|v_(?:fma|mad)_mix|v_dot\d|v_wmma|v_mfma"
)
_MATRIX = re.compile(r"v_(?:wmma|mfma)")

# What a work-item loads or stores of the device's memory by one instruction: flat_load_dwordx4, global_store_b128,
# buffer_load_ubyte, global_load_d16_hi_b16.
_ACCESS = re.compile(r"(?:flat|global|buffer)_(load|store)_(?:d16_)?(?:hi_)?[su]?(byte|short|dword|[iub]\d+)(?:x(\d))?")
_BYTES = {"byte": 1, "short": 2, "dword": 4, "i8": 1, "u8": 1, "b8": 1, "i16": 2, "u16": 2, "b16": 2}

#: For llvm-mca: the start and the end of so many turns weigh nothing.
_TURNS = 100

#: How often a loop is taken to run for each run of what is around it.
_REPEATS = 8


@dataclass
class _Block:
    header: str  # of the innermost loop that it is in; empty: of none
    depth: int
    instructions: int = 0
    fmas: int = 0
    matrix: int = 0
    code: list[str] = dataclasses.field(default_factory=list)


@dataclass(frozen=True)
class Code:
    """A kernel of a program on a card."""

    card: str
    kernel: str
    program: str  # its macros
    group_size: int
    vector_registers: int
    scalar_registers: int
    spills: int  # registers, vector and scalar
    private_bytes: int  # of a work-item
    local_bytes: int  # of a work-group
    hot_depth: int  # of the hottest loop; 0: there is none, and what follows is of the largest block
    hot_instructions: int  # of the largest block of the hottest loop
    hot_fmas: int
    hot_matrix: int
    hot_cycles: float | None  # of one wave, by llvm-mca's estimate; None where there is none
    widest_load: int  # bytes of the device's memory that a work-item loads by one instruction; 0: it loads none
    widest_store: int

    @property
    def waves(self) -> tuple[int, str]:
        """The waves that a SIMD holds, and what limits them."""
        return HARDWARE[self.card].waves(self)

    @property
    def share(self) -> float:
        """Of FMAs in the hottest loop."""
        return self.hot_fmas / self.hot_instructions if self.hot_instructions else 0.0

    def as_json(self) -> dict[str, object]:
        waves, limit = self.waves
        return {**dataclasses.asdict(self), "waves_per_simd": waves, "limited_by": limit, "fma_share": self.share}


def analyze(assembly: str, program: Program, card: str, compiler: Compiler) -> list[Code]:
    """The kernels of a program that were launched, or all of one that was not."""
    sizes = dict(program.kernels)
    found = []
    for fields in _metadata(assembly):
        name = fields["name"]
        if sizes and name not in sizes:
            continue
        blocks = _blocks(_body(assembly, name))
        hot = _hottest(blocks)
        widest = _widest(blocks)
        found.append(
            Code(
                card,
                name,
                program.describe(),
                sizes.get(name, int(fields["max_flat_workgroup_size"])),
                int(fields["vgpr_count"]),
                int(fields["sgpr_count"]),
                int(fields["vgpr_spill_count"]) + int(fields["sgpr_spill_count"]),
                int(fields["private_segment_fixed_size"]),
                int(fields["group_segment_fixed_size"]),
                hot.depth,
                hot.instructions,
                hot.fmas,
                hot.matrix,
                compiler.cycles(hot.code, card) if hot.depth else None,
                widest["load"],
                widest["store"],
            )
        )
    return found


def _metadata(assembly: str) -> Iterator[dict[str, str]]:
    """The scalar fields of each kernel's metadata: YAML of which only this is read."""
    text = assembly.partition("amdhsa.kernels:\n")[2].partition("amdhsa.target:")[0]
    for kernel in re.split(r"^  - ", text, flags=re.MULTILINE)[1:]:
        yield dict(re.findall(r"^(?:    )?\.(\w+): +(\S+)$", kernel, re.MULTILINE))


def _body(assembly: str, kernel: str) -> str:
    return assembly.partition(f"\n{kernel}:")[2].partition("\n.Lfunc_end")[0]


def _blocks(body: str) -> list[_Block]:
    blocks = [_Block("", 0)]
    label = ""
    for line in body.splitlines():
        start = _BLOCK.match(line)
        if start:
            blocks.append(_Block("", 0))
            label = start[1] or ""
        block = blocks[-1]
        if header := _HEADER.search(line):  # it may stand on a line of its own, after those of the loops around it
            block.header, block.depth = label, int(header[1])
        elif member := _MEMBER.search(line):
            block.header, block.depth = member[1], int(member[2])
        code = line.partition(";")[0].strip()
        if not line.startswith("\t") or not code or code.startswith("."):
            continue
        block.code.append(code)
        halves = code.split(" :: ")
        block.instructions += len(halves)
        block.fmas += sum(bool(_FMA.match(half)) for half in halves)
        block.matrix += sum(bool(_MATRIX.match(half)) for half in halves)
    return blocks


def _hottest(blocks: Sequence[_Block]) -> _Block:
    """The largest block of the hottest loop: that with the most instructions, each level of nesting counted _REPEATS
    times. A block, since a loop's branches are mostly cases of which one runs."""
    loops: dict[str, int] = {}
    for block in blocks:
        loops[block.header] = loops.get(block.header, 0) + block.instructions * _REPEATS**block.depth
    inside = {header: weight for header, weight in loops.items() if header} or loops
    hottest = max(inside, key=lambda header: inside[header])
    return max((block for block in blocks if block.header == hottest), key=lambda block: block.instructions)


def _widest(blocks: Sequence[_Block]) -> dict[str, int]:
    """The bytes of the widest load and of the widest store, of all blocks: where a loop does what is left at the end of
    wide ones, it is the hottest."""
    widest = {"load": 0, "store": 0}
    for line in (line for block in blocks for line in block.code):
        if access := _ACCESS.match(line):
            kind, unit, count = access.groups()
            size = _BYTES.get(unit) or int(unit[1:]) // 8
            widest[kind] = max(widest[kind], size * int(count or 1))
    return widest


def compile_all(compiler: Compiler, chosen: Sequence[Program], card: str, jobs: int = 0) -> list[Code]:
    """The kernels of programs on a card, in the order of their names."""
    with ThreadPoolExecutor(jobs or os.cpu_count() or 1) as pool:
        results = pool.map(lambda program: analyze(compiler.assemble(program, card), program, card, compiler), chosen)
        console = Console(stderr=True)
        rows = [code for codes in track(results, card, len(chosen), console=console, transient=True) for code in codes]
    return sorted(rows, key=lambda code: (code.kernel, code.program))


# -- programs -------------------------------------------------------------------------------------------------------


def model_programs(card: str, folder: Path) -> None:
    """Leaves in a folder what training ResNet-50 and BERT-base, and the demonstration, compile."""
    for framework in ("paddle", "tensorflow"):
        for model in ("resnet50", "transformer"):
            script = str(Path(__file__).with_name("training.py"))
            command = ["python", script, framework, model, "polaris", "--steps", "1"]
            programs.record(command, folder, card)
    # It fails, since nothing is learnt.
    programs.record(["unihal", "demo", "--epochs", "1", "--out", f"{folder}/demo"], folder, card, succeeds=False)


def chosen_programs(arguments: argparse.Namespace, card: str) -> list[Program]:
    """What the command line asks for."""
    if arguments.source:
        return programs.read(arguments.source)
    found = programs.warm(card, arguments.dtype)
    if arguments.models:
        with tempfile.TemporaryDirectory() as folder:
            model_programs(card, Path(folder))
            known = {program.text for program in found}
            more = [program for program in programs.read(Path(folder)) if program.text not in known]
            print(f"{card}: {len(more)} programs of models that `unihal cache warm` does not compile", file=sys.stderr)
            found += more
    return found


# -- tables ---------------------------------------------------------------------------------------------------------

COLUMNS = (
    "group", "vector", "scalar", "spills", "private", "local", "waves", "limited by", "load", "store", "loop", "FMAs",
    "cycles",
)  # fmt: skip


def _cells(code: Code) -> tuple[str, ...]:
    waves, limit = code.waves
    return (
        str(code.group_size), str(code.vector_registers), str(code.scalar_registers), str(code.spills or ""),
        str(code.private_bytes or ""), str(code.local_bytes or ""), str(waves), limit, str(code.widest_load or ""),
        str(code.widest_store or ""), str(code.hot_instructions), f"{code.share:.0%}" if code.hot_fmas else "",
        "" if code.hot_cycles is None else f"{code.hot_cycles:.0f}",
    )  # fmt: skip


def table_of_all(card: str, codes: Sequence[Code]) -> Table:
    table = Table("kernel", *COLUMNS, "program", title=card)
    for code in codes:
        table.add_row(code.kernel, *_cells(code), code.program)
    return table


def table_of_kernels(card: str, codes: Sequence[Code]) -> Table:
    """A row for each kernel: the worst of its programs in each column."""
    titles = ("programs", "vector", "scalar", "spills", "private", "local", "waves", "load", "store", "FMAs", "cycles")
    table = Table("kernel", *titles, title=card)
    for kernel in dict.fromkeys(code.kernel for code in codes):
        own = [code for code in codes if code.kernel == kernel]
        shares = [code.share for code in own]
        worst = [max(getattr(code, name) for code in own) for name in _WORST]
        waves = [code.waves[0] for code in own]
        loads = [code.widest_load for code in own]
        stores = [code.widest_store for code in own]
        cycles = [code.hot_cycles for code in own if code.hot_cycles is not None]
        table.add_row(
            kernel, str(len(own)), *(str(value) for value in worst[:2]), *(str(value or "") for value in worst[2:]),
            _range(min(waves), max(waves), "d"), _range(min(loads), max(loads), "d"),
            _range(min(stores), max(stores), "d"), _range(min(shares), max(shares), ".0%") if max(shares) else "",
            _range(min(cycles), max(cycles), ".0f") if cycles else "",
        )  # fmt: skip
    return table


_WORST = ("vector_registers", "scalar_registers", "spills", "private_bytes", "local_bytes")


def _range(least: float, most: float, form: str) -> str:
    first, last = format(least, form), format(most, form)
    return first if first == last else f"{first} to {last}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--card", action="append", choices=programs.CARDS, help="default: all")
    parser.add_argument("--dtype", action="append", choices=programs.DTYPES, help="default: float32")
    parser.add_argument("--kernel", default="", help="only kernels whose name has this in it")
    parser.add_argument("--models", action="store_true", help="needs both frameworks")
    parser.add_argument("--source", type=Path, metavar="FOLDER")
    parser.add_argument("--summary", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--jobs", type=int, default=0, help="compilers at a time; default: one per core")
    arguments = parser.parse_args()
    arguments.dtype = arguments.dtype or list(programs.DTYPES[:1])
    try:
        compiler = find_compiler()
    except NoCompilerError as error:
        sys.exit(f"amd_code.py: {error}")
    console = Console(width=None if sys.stdout.isatty() else 220)
    everything: list[Code] = []
    for card in arguments.card or programs.CARDS:
        chosen = chosen_programs(arguments, card)
        if arguments.kernel:
            chosen = [one for one in chosen if any(arguments.kernel in name for name, _ in one.kernels)]
        codes = compile_all(compiler, chosen, card, arguments.jobs)
        everything += codes
        console.print((table_of_kernels if arguments.summary else table_of_all)(card, codes))
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps([code.as_json() for code in everything], indent=1) + "\n")
    private = sum(code.private_bytes > 0 for code in everything)
    spills = sum(code.spills > 0 for code in everything)
    print(f"{len(everything)} kernels compiled: {private} use private memory, {spills} spill registers")


if __name__ == "__main__":
    main()
