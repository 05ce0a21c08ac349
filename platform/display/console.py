"""What the command line prints on: a terminal, or a file; and the final table as it looks there."""

import os
import sys
from collections.abc import Container, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout, suppress
from typing import TYPE_CHECKING, Any, TextIO, cast

from rich.cells import cell_len
from rich.console import Console
from rich.measure import Measurement
from rich.table import Table

if TYPE_CHECKING:
    from fmnas.comparison.analysis.retrained import Retrained
    from fmnas.comparison.summary import Summary

FILE_WIDTH = 120
"""Columns of a text that goes to a file; a table may be wider there."""
GAP = 2
"""Columns between those of a table."""
SPARED = ("repeats", "epochs", "its error", "evaluations", "by method", "best")
"""The columns of the final table that a narrow terminal does without, the first of them first."""


def print_summary(summary: "Summary", console: Console) -> None:
    """The final table, what it shows, and what it does not."""
    console.print()
    _print_final(summary, console)
    console.print()
    for text, style in ((summary.headline, None), (summary.caution, "dim")):
        console.print(text, style=style, highlight=False, markup=False)
    console.print()
    if summary.retrained:
        _print_retrained(summary.retrained, console)


def _print_retrained(retrained: "Retrained", console: Console) -> None:
    """The test errors of the best configurations, trained again, and which of their differences a test supports."""
    from fmnas.comparison.analysis.formatting import format_interval, format_number, join_names

    alike = f"epochs = {retrained.epochs}, images = {retrained.images}, fresh seeds = {retrained.seeds}"
    scale = f"not all in the same way, they differ in {join_names(retrained.differ)}" if retrained.differ else alike
    headers = ("optimizer", "validation error", "test error", "standard error", "95% interval")
    means = plain_table(headers, {"optimizer"}, "bold")
    for row in retrained.means:
        values = (
            format_number(row.selected_error),
            format_number(row.error),
            format_number(row.standard_error, digits=2),
        )
        means.add_row(row.optimizer, *values, format_interval(row.low, row.high))
    pairs = plain_table(("test errors", "difference", "p corrected", "verdict"), {"test errors", "verdict"}, "bold")
    for pair in retrained.tests.pairs:
        differences = (format_number(pair.difference, digits=2), format_number(pair.p_corrected, digits=2))
        pairs.add_row(f"{pair.first} - {pair.second}", *differences, pair.verdict)
    console.print(f"The best of every run, trained again: {scale}", highlight=False)
    for table in (means, pairs) if retrained.tests.pairs else (means,):
        _print_table(table, console)
        console.print()


def _print_final(summary: "Summary", console: Console) -> None:
    """The final table: all of it in a file, what there is room for in a terminal, which is told of the others."""
    from fmnas.comparison.page.tables import results_table

    found = results_table(summary)
    every = dict(zip(found.header, zip(*found.rows, strict=True), strict=False))
    columns, widths = _fitting(every, console.width if console.is_terminal else sys.maxsize)
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name, width in zip(columns, widths, strict=True):
        table.add_column(name, justify="right" if table.columns else "left", width=width, overflow="fold")
    for row in zip(*columns.values(), strict=True):
        table.add_row(*row)
    _print_table(table, console)
    hidden = [name for name in every if name not in columns]
    if hidden:
        say(console, f"No room for: {', '.join(hidden)}.", "dim")


def _fitting(columns: Mapping[str, Sequence[str]], room: int) -> tuple[dict[str, Sequence[str]], list[int]]:
    """The columns of a table that fit, by header, and their widths.

    Headers break between their words first; then columns are left out, as SPARED has them; at last names break.
    """
    shown = dict(columns)
    for spared in (None, *SPARED):
        shown.pop(spared or "", None)
        for broken in (False, True):
            widths = [
                max(cell_len(text) for text in (*(header.split() if broken else [header]), *values))
                for header, values in shown.items()
            ]
            if _whole(widths) <= room:
                return shown, widths
    return shown, [max(1, width - (_whole(widths) - room)) if i == 0 else width for i, width in enumerate(widths)]


def _whole(widths: Sequence[int]) -> int:
    """The width of a table of such columns."""
    return sum(widths) + GAP * (len(widths) - 1)


def _print_table(table: Table, console: Console) -> None:
    """A terminal has the width it has; a file has that of the table, if it is wider."""
    if not console.is_terminal:
        boundless = console.options.update(max_width=sys.maxsize)
        needed = Measurement.get(console, boundless, table).maximum
        console = Console(file=console.file, width=max(console.width, needed))
    console.print(table)


@contextmanager
def reserved_output() -> Iterator[TextIO]:
    """Standard output for the caller alone: in the block, what anybody else prints there goes to standard error.

    Yields the file to print on. Processes that start in the block inherit this, too.
    """
    stdout = sys.stdout
    stdout.flush()
    try:
        real = stdout.fileno() == 1
    except OSError:  # no real file, as in a test
        real = False
    before = os.dup(1)
    opened = os.fdopen(os.dup(1), "w", encoding=stdout.encoding, errors=stdout.errors) if real else nullcontext(stdout)
    os.dup2(2, 1)
    with opened as own:
        try:
            with redirect_stdout(sys.stderr):
                yield own
        finally:
            PatientOutput(own).flush()
            os.dup2(before, 1)
            os.close(before)


class PatientOutput:
    """A text file that swallows what it cannot write: from then on all goes nowhere.

    An experiment of days must not end because a reader went away (`| head`), a terminal was closed or the disk that
    holds a log is full.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """All of it, or nothing from now on."""
        try:
            return self._file.write(text)
        except OSError:
            self.give_up()
            return len(text)

    def flush(self) -> None:
        """As far as it goes."""
        try:
            self._file.flush()
        except OSError:
            self.give_up()

    def give_up(self) -> None:
        """From now on all goes nowhere."""
        with suppress(OSError, ValueError):  # one without a descriptor has no buffer that fails at the end
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, self._file.fileno())
            os.close(nowhere)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


def say(console: Console, text: str, style: str | None = None) -> None:
    """A line as it is: of one piece, however long, and whatever brackets and numbers are in it."""
    console.print(text, style=style, soft_wrap=True, highlight=False, markup=False)


def plain_table(headers: Sequence[str], left: Container[str], style: str = "") -> Table:
    """A table without lines, whose columns are not broken. left: those of texts; numbers stand at the right."""
    table = Table(box=None, pad_edge=False, header_style=style)
    for header in headers:
        table.add_column(header, no_wrap=True, justify="left" if header in left else "right")
    return table


def complain(text: str) -> None:
    """A line to standard error. Where nobody reads it, the exit code says it too."""
    with suppress(OSError):
        print(f"fmnas: {text}", file=sys.stderr)  # noqa: T201


def output(file: TextIO | None = None) -> TextIO:
    """A file, for who must not end with it; standard output if None."""
    return cast(TextIO, PatientOutput(file or sys.stdout))


def terminal(file: TextIO | None = None) -> Console:
    """The terminal; a file or pipe has no width of its own and gets a wide one. file: standard output if None."""
    console = _Console(file=file)
    return console if console.is_terminal else _Console(file=file, width=max(FILE_WIDTH, console.width))


class _Console(Console):
    """Says nothing more once its reader went away, and leaves the exit code to the command; rich would make it 1."""

    def on_broken_pipe(self) -> None:
        """What is left in the file's buffer goes nowhere."""
        self.quiet = True
        PatientOutput(cast(TextIO, self.file)).give_up()
