"""How what happens reaches someone: a live table, a line each, JSON for programs, or nothing until the end.

Whoever reads may go away: what is told then is lost, and the experiment goes on.
"""

import json
import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TextIO

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from fmnas.platform.display.console import output, say
from fmnas.platform.errors import ConfigError

if TYPE_CHECKING:
    from fmnas.platform.experiment.ledger import RunProgress


def time_left(runs: Sequence[tuple[float, float]], seconds: float) -> float | None:
    """Seconds until runs that work side by side are over, of each what was done in so many `seconds` and what is ahead.

    No sooner than the slowest of them at its own pace; None while nothing is done.
    """
    done, ahead = (sum(each[part] for each in runs) for part in (0, 1))
    if done <= 0:
        return None
    return max(seconds / done * ahead, *(seconds / mine * left for mine, left in runs if mine > 0))


def spent_of(runs: Collection["RunProgress"]) -> dict[str, Any]:
    """The facts of what runs have spent of their budgets together."""
    spent, whole = sum(run.budget.spent for run in runs), sum(run.budget.epochs for run in runs)
    return {"spent_epochs": spent, "budget_epochs": whole, "spent_share": round(spent / whole, 6)}


def as_time(seconds: float | None) -> str:
    """e.g. 4:05 or 1:04:05; a dash if unknown."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"


def as_reached(epoch: int | None, epochs: int, seconds: float) -> str:
    """How far a trial is after so many seconds, e.g. epoch 7 of 25, 41 s; the seconds alone where no epoch is known."""
    passed = f"{seconds:.0f} s"
    return passed if epoch is None else f"epoch {epoch} of {epochs}, {passed}"


LIVE, LINES, JSON, QUIET = "live", "lines", "json", "quiet"
PROGRESS_MODES = (LIVE, LINES, JSON, QUIET)

LAST_EVENTS = 5
"""How many of them stand below a live table."""


@dataclass(frozen=True)
class Happening:
    """Something that happened: its name and facts for programs, and a line for people; without one they do not see it.

    bad: whether it should stay visible above a live table. shown_live: whether that shows its line at all.
    """

    event: str
    facts: Mapping[str, Any] = field(default_factory=dict)
    line: str = ""
    bad: bool = False
    shown_live: bool = True


class Screen:
    """Where it is shown; what a kind of screen has no method for, nobody sees."""

    def show(self, table: Callable[[], RenderableType]) -> None:
        """From now on this is what goes on; called whenever it is drawn."""

    def tell(self, happening: Happening) -> None:
        """Something happened."""

    def say(self, text: str) -> None:
        """Something a person should know."""

    def close(self) -> None:
        """Nothing goes on any more; what is told from now on stays."""


class QuietScreen(Screen):
    """Nothing: what matters is said at the end."""


class LineScreen(Screen):
    """A line each: for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def tell(self, happening: Happening) -> None:
        """Its line."""
        if happening.line:
            self.say(happening.line)

    def say(self, text: str) -> None:
        """A line of its own; at a terminal that is narrower it breaks between words."""
        if self._console.is_terminal:
            self._console.print(text, highlight=False, markup=False)
        else:
            say(self._console, text)


class LiveScreen(LineScreen):
    """A table redrawn in place with the last events below it; what is bad stays above it."""

    def __init__(self, console: Console) -> None:
        super().__init__(console)
        self._last: deque[str] = deque(maxlen=LAST_EVENTS)
        self._live: Live | None = None

    def show(self, table: Callable[[], RenderableType]) -> None:
        """Begin to draw it."""

        def draw() -> RenderableType:
            return Group(table(), *(Text(line, style="dim", overflow="ellipsis", no_wrap=True) for line in self._last))

        self._live = Live(get_renderable=draw, console=self._console, refresh_per_second=4, transient=True)
        self._live.start()

    def tell(self, happening: Happening) -> None:
        """Below the table, or above it."""
        if happening.bad or self._live is None:
            super().tell(happening)
        elif happening.line and happening.shown_live:
            self._last.append(happening.line)

    def close(self) -> None:
        """Take the table away."""
        if self._live is not None:
            self._live.stop()
            self._live = None


class JsonScreen(Screen):
    """A JSON object per line: `event`, `at` (seconds since the epoch) and its facts."""

    def __init__(self, file: TextIO | None = None, now: Callable[[], float] = time.time) -> None:
        """file: standard output if None."""
        self._file, self._now = output(file), now

    def tell(self, happening: Happening) -> None:
        """One line, at once."""
        record = {"event": happening.event, "at": round(self._now(), 3), **happening.facts}
        print(json.dumps(record, default=str), file=self._file, flush=True)

    def say(self, text: str) -> None:
        """An event of its own: said."""
        self.tell(Happening("said", {"text": text}))


def mode_for(given: str | None, console: Console) -> str:
    """The mode asked for; if none is, live at a terminal and lines elsewhere. Raises ConfigError for live elsewhere."""
    if given == LIVE and not console.is_terminal:
        raise ConfigError("--progress live: the output is not a terminal; take lines, json or quiet")
    return given or (LIVE if console.is_terminal else LINES)


def open_screen(mode: str, console: Console, file: TextIO | None = None) -> Screen:
    """The screen of one of PROGRESS_MODES. file: for JSON; standard output if None."""
    if mode == JSON:
        return JsonScreen(file)
    if mode == QUIET:
        return QuietScreen()
    return LiveScreen(console) if mode == LIVE else LineScreen(console)
