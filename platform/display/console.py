"""Where the command line prints: the terminal or a file, and standard output for other programs."""

import codecs
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout, suppress
from typing import Any, TextIO, cast

from rich.console import Console

FILE_WIDTH = 1000
"""Columns of a table in a file or pipe: enough to never cut a cell."""
PLAIN = "fmnas.plain"
"""The error handler of a stream without UTF-8: it writes similar signs of ASCII. A "?" for a dash reads as unknown."""
_PLAIN_SIGNS = {"–": "-", "−": "-", "±": "+-", "→": "->", "←": "<-", "…": "...", "×": "x", "≤": "<="}


def _to_plain(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    return "".join(_PLAIN_SIGNS.get(sign, "?") for sign in error.object[error.start : error.end]), error.end


codecs.register_error(PLAIN, _to_plain)


def make_console(file: TextIO | None = None) -> Console:
    """Return a console that never raises for a closed pipe or a full disk. file: standard output if None."""
    console = Console(file=cast(TextIO, BestEffortStream(file or sys.stdout)), emoji=False)
    if not console.is_terminal:
        console.width = FILE_WIDTH
    return console


def print_line(console: Console, text: str, style: str | None = None) -> None:
    """Print text unchanged: brackets are not markup. A terminal breaks it between words, a file has one line."""
    console.print(text, style=style, soft_wrap=not console.is_terminal, highlight=False, markup=False)


def print_error(text: str) -> None:
    """Print a line to standard error, if it is open."""
    with suppress(OSError):
        print(f"fmnas: {text}", file=sys.stderr)  # noqa: T201


class BestEffortStream:
    """A text file that discards everything after its first failed write.

    An experiment of days must not end because a reader left (`| head`), a terminal closed or a log's disk is full.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str) -> int:
        """Write text, or nothing after a failure."""
        try:
            return self._file.write(text)
        except OSError:
            self.discard_output()
            return len(text)

    def flush(self) -> None:
        """Flush, or discard the buffer if that fails."""
        try:
            self._file.flush()
        except OSError:
            self.discard_output()

    def discard_output(self) -> None:
        """Redirect the file to /dev/null."""
        with suppress(OSError, ValueError):  # a file without a descriptor has no buffer that is flushed at exit
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, self._file.fileno())
            os.close(null)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


@contextmanager
def reserve_stdout() -> Iterator[TextIO]:
    """Yield standard output, and redirect to standard error what other code and child processes print there."""
    stdout = sys.stdout
    stdout.flush()
    is_real = False
    with suppress(OSError):  # replaced by a test
        is_real = stdout.fileno() == 1
    before = os.dup(1)
    copied: AbstractContextManager[TextIO] = nullcontext(stdout)
    if is_real:
        copied = os.fdopen(os.dup(1), "w", encoding=stdout.encoding, errors=stdout.errors)
    os.dup2(2, 1)
    with copied as reserved:
        try:
            with redirect_stdout(sys.stderr):
                yield reserved
        finally:
            BestEffortStream(reserved).flush()
            os.dup2(before, 1)
            os.close(before)
