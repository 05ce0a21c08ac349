"""The table of all runs as it looks while they go on: as wide and as high as the terminal, never wider or higher.

A narrow terminal sees the columns that matter, whole; one that is too low for a row per run sees one per optimizer.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from fmnas.platform.display.console import GAP
from fmnas.platform.display.modes import LAST_EVENTS, as_time

ALL_COLUMNS_FROM = 100
"""Columns of a terminal from which on the table has all of its own."""
NARROW_COLUMNS = ("run", "", "best", "now", "left")
RUN_COLUMNS = ("run", "budget", "", "evaluations", "epochs", "best", "now", "left")
BESIDE = LAST_EVENTS + 6
"""Lines of a terminal that are not for rows: title, header, foot, last events, and what stood there before."""
LEAST_WIDTH = 12
"""As much of a name, and of what a run does, is shown on any terminal."""
FEWEST = 4
"""As many rows are shown on any terminal."""


class Doing(StrEnum):
    """What a run does."""

    SUGGESTING = "suggesting"
    TRAINING = "training"
    WAITING = "waiting"
    DONE = "done"


@dataclass(frozen=True)
class RunRow:
    """A run, or all of an optimizer's. spent, budget: epochs. full: those of a full training.

    best: the lowest full-fidelity objective so far. doing: None of several. now: the same in words, with the trials.
    left: seconds, None while unknown.
    """

    name: str
    optimizer: str
    spent: int
    budget: int
    full: int
    best: float | None
    doing: Doing | None
    now: str
    left: float | None


@dataclass(frozen=True)
class RunsTable:
    """title: what goes on. foot: how all of it stands."""

    title: str
    rows: Sequence[RunRow]
    foot: str

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """As the terminal is now; rich calls this."""
        shown = self.rows if len(self.rows) <= max(FEWEST, console.height - BESIDE) else folded(self.rows)
        header: Sequence[str] = RUN_COLUMNS if options.max_width >= ALL_COLUMNS_FROM else NARROW_COLUMNS
        if _needed(_full_widths(shown, header)) > options.max_width:  # the share beside the bar tells the same
            header = tuple(name for name in header if name != "budget")
        table = Table(box=None, pad_edge=False)
        for name, width in _widths(shown, header, options.max_width).items():
            right = name in ("", "epochs", "left", "best")
            table.add_column(name, no_wrap=True, justify="right" if right else "left", overflow="ellipsis", width=width)
        for row in shown:
            bar = ProgressBar(total=row.budget, completed=row.spent, width=16)
            table.add_row(*(bar if name == "budget" else _cell(row, name) for name in header))
        yield Text(self.title, no_wrap=True, overflow="ellipsis")
        yield table
        yield Text(self.foot)


def folded(rows: Sequence[RunRow]) -> list[RunRow]:
    """A row per optimizer: the best of its runs, how many do what, and the time of the slowest."""
    found = []
    for name in dict.fromkeys(row.optimizer for row in rows):
        mine = [row for row in rows if row.optimizer == name]
        known = [row.best for row in mine if row.best is not None]
        left = [row.left for row in mine if row.left is not None]
        whole = replace(
            mine[0],
            name=f"{name} x {len(mine)}",
            spent=sum(row.spent for row in mine),
            budget=sum(row.budget for row in mine),
            best=min(known, default=None),
            doing=None,
            now=", ".join(f"{count} {what}" for what, count in Counter(row.doing for row in mine).items()),
            left=max(left) if len(left) == len(mine) else None,
        )
        found.append(whole)
    return found


def _widths(rows: Sequence[RunRow], header: Sequence[str], whole: int) -> dict[str, int]:
    """Of each column: where there is not room for all, the names of runs and what they do are cut, and nothing else."""
    full = _full_widths(rows, header)
    excess = _needed(full) - whole
    doing = max(LEAST_WIDTH, full["now"] - max(0, excess))
    excess -= full["now"] - doing
    return {**full, "now": min(full["now"], doing), "run": max(LEAST_WIDTH, full["run"] - max(0, excess))}


def _full_widths(rows: Sequence[RunRow], header: Sequence[str]) -> dict[str, int]:
    """Of each column, with nothing cut."""
    return {name: max([len(name), *(len(_cell(row, name)) for row in rows)]) for name in header}


def _needed(widths: Mapping[str, int]) -> int:
    """The width of a table of such columns."""
    return sum(widths.values()) + GAP * (len(widths) - 1)


def as_number(value: float | None) -> str:
    """An objective or error with four significant digits, as the final table has it; a dash if there is none."""
    return "-" if value is None else f"{value:#.4g}".rstrip(".")


def _cell(row: RunRow, header: str) -> str:
    return {
        "run": row.name,
        "budget": " " * 16,
        "": f"{row.spent / row.budget:.0%}",
        "evaluations": f"{row.spent / row.full:.1f}/{row.budget / row.full:.0f}",
        "epochs": f"{row.spent}/{row.budget}",
        "best": as_number(row.best),
        "now": row.now,
        "left": as_time(row.left),
    }[header]
