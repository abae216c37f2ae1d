"""What a run of the suite found, for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .outcome import Outcome, Status
from .sweep import ALL_DTYPES, COMPLEX, FLOATING, INTEGERS

#: Column heads: dtypes in as few letters as tell them apart.
_SHORT = {
    **{name: name.replace("uint", "u").replace("int", "i") for name in ALL_DTYPES if "int" in name},
    "float16": "f16",
    "bfloat16": "bf16",
    "float32": "f32",
    "float64": "f64",
    "complex64": "c64",
    "complex128": "c128",
}

#: The columns of each table; both fit in 80 characters. "" stands for checks that are about no dtype.
_TABLES = ((*FLOATING, *COMPLEX, "mixed", ""), ("bool", *INTEGERS))

_STATUSES: tuple[Status, ...] = ("passed", "gap", "failed")

_SHOWN_REASONS = 20


@dataclass
class Report:
    """The outcomes of a run."""

    device: str
    seed: int
    backend: str | None
    outcomes: list[Outcome] = field(default_factory=list)

    def count(self, status: str) -> int:
        """How many entries have a status."""
        return sum(outcome.status == status for outcome in self.outcomes)

    @property
    def passed(self) -> bool:
        """Whether nothing failed; declared gaps are no failures."""
        return self.count("failed") == 0

    def show(self, console: Console) -> None:
        """Prints the table, the gaps with their reasons, the failures, and a summary."""
        console.print(f"{escape(self.device)}, seed {self.seed}", highlight=False)
        for columns in _TABLES:
            console.print(self._table(columns))
        console.print(f"[dim]by op and dtype: passed, {_cell(0, 'declared gaps', 0)}, {_cell(0, 0, 'failed')}[/dim]\n")
        self._show_gaps(console)
        for outcome in self.outcomes:
            if outcome.status == "failed":
                console.print(
                    f"[red]failed[/red] {escape(outcome.name)}\n       {escape(outcome.message)}", highlight=False
                )
                console.print(
                    f"       [dim]again: {escape(self._command(outcome))}[/dim]", highlight=False, soft_wrap=True
                )
        verdict = "[green]conforms[/green]" if self.passed else "[red]does not conform[/red]"
        console.print(
            f"{verdict}: {len(self.outcomes)} cases, {self.count('passed')} passed, "
            f"{self.count('gap')} declared gaps, {self.count('failed')} failed, "
            f"{sum(outcome.seconds for outcome in self.outcomes):.0f} s",
            highlight=False,
        )

    def _table(self, dtypes: Sequence[str]) -> Table:
        cells = Counter((outcome.op, outcome.dtype, outcome.status) for outcome in self.outcomes)
        used = {(outcome.op, outcome.dtype) for outcome in self.outcomes}
        columns = [dtype for dtype in dtypes if any(dtype == seen for _, seen in used)]
        table = Table("op", box=box.SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
        for dtype in columns:
            table.add_column(_SHORT.get(dtype, dtype), justify="right", no_wrap=True)
        for op in dict.fromkeys(outcome.op for outcome in self.outcomes):
            if any((op, dtype) in used for dtype in columns):
                table.add_row(op, *(_cell(*(cells[op, dtype, status] for status in _STATUSES)) for dtype in columns))
        return table

    def _show_gaps(self, console: Console) -> None:
        reasons = Counter(outcome.message for outcome in self.outcomes if outcome.status == "gap")
        for reason, count in reasons.most_common(_SHOWN_REASONS):
            console.print(f"[yellow]gap[/yellow] {escape(reason)} [dim]({count})[/dim]", highlight=False)
        if len(reasons) > _SHOWN_REASONS:
            console.print(f"[yellow]gap[/yellow] {len(reasons) - _SHOWN_REASONS} more reasons: see --junit or --json")
        if reasons:
            console.print()

    def _command(self, outcome: Outcome) -> str:
        backend = f" --backend {self.backend}" if self.backend is not None else ""
        return f"unihal conformance{backend} --seed {self.seed} --case '{outcome.name}'"


def _cell(passed: int, gaps: int | str, failed: int | str) -> str:
    """Counts that can be told apart without colours: plain, in brackets, with an exclamation mark."""
    parts = [str(passed)] if passed else []
    parts += [f"[yellow]({gaps})[/yellow]"] if gaps else []
    parts += [f"[red]{failed}![/red]"] if failed else []
    return " ".join(parts)


def show_list(names: Sequence[str], console: Console) -> None:
    """Prints the names of all cases."""
    for name in names:
        console.print(escape(name), highlight=False, soft_wrap=True)
