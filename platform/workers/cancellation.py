"""Stopping on request: who asked, how long what runs may take, and how work in this process is broken off."""

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import FrameType

from fmnas.platform.errors import BreakOff

LOOK_SECONDS = 0.2
"""How often work in this process is looked after."""

AGAIN_SECONDS = 10.0
"""How long work has to end, and to wait for its threads, before it is broken off again."""


@dataclass
class StopRequest:
    """What signals ask of the driver: 1, start nothing new; 2 or more, stop at once.

    heeded: whether someone looks at it. elapsed: monotonic seconds. since: when the first came.
    """

    count: int = 0
    heeded: bool = False
    elapsed: Callable[[], float] = time.monotonic
    since: float | None = field(default=None, init=False)

    def ask(self) -> None:
        """One more request."""
        self.count += 1
        if self.since is None:
            self.since = self.elapsed()

    def over(self, grace_seconds: float) -> bool:
        """Whether what still runs must be left: a second request came, or the grace time has passed."""
        if self.since is None or self.count > 1:
            return self.count > 1
        return self.elapsed() >= self.since + grace_seconds


class Stopped(BreakOff):
    """Because of a stop request."""


class PastDeadline(BreakOff):
    """Because it took too long."""


def deadline(seconds: float) -> Callable[[], None]:
    """A check for `watched`: PastDeadline once so many seconds, perhaps infinitely many, have passed from now."""
    ends_by = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > ends_by:
            raise PastDeadline

    return check


def late(check: Callable[[], None], seconds: float) -> Callable[[], None]:
    """The check, heeded so many seconds after it first raised: the work was told, and may end by itself until then."""
    first: float | None = None

    def check_late() -> None:
        nonlocal first
        try:
            check()
        except BreakOff:
            first = time.monotonic() if first is None else first
            if time.monotonic() >= first + seconds:
                raise

    return check_late


@contextmanager
def watched(check: Callable[[], None]) -> Iterator[None]:
    """While in the block, `check` runs every LOOK_SECONDS and may end the block by raising a BreakOff.

    Python runs it between two of its own instructions, so one long call into C ends first. So does an import, and the
    entry or exit of a context: half a module, or a switch that is not set back, would be left to whoever comes next.
    What the block does to end itself is left in peace for AGAIN_SECONDS; by then the BreakOff may have been swallowed,
    as Python does in finalizers, and is raised again. Only the main thread can be watched; in any other the block runs
    to its end.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    inside, around = True, _half_done(sys._getframe(2))  # whose block it is, past this frame and contextlib's

    def look(number: int, frame: FrameType | None) -> None:
        if not inside or _half_done(frame) > around:
            return
        try:
            check()
        except BreakOff:
            signal.setitimer(signal.ITIMER_REAL, AGAIN_SECONDS, AGAIN_SECONDS)
            raise

    before = signal.signal(signal.SIGALRM, look)
    signal.setitimer(signal.ITIMER_REAL, LOOK_SECONDS, LOOK_SECONDS)
    try:
        try:
            yield
        finally:
            inside = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _half_done(frame: FrameType | None) -> int:
    """The calls from here outwards that import, or enter or leave a context."""
    count = 0
    while frame is not None:
        code = frame.f_code
        count += code.co_name in ("__enter__", "__exit__") or code.co_filename.startswith("<frozen importlib")
        frame = frame.f_back
    return count


@contextmanager
def stopped_by_signals(
    alone: signal.Signals | None = None, say: Callable[[str], None] | None = None
) -> Iterator[StopRequest]:
    """Ctrl-C, SIGTERM and a terminal that is closed (SIGHUP, unless `nohup` ignores it) ask the driver to stop.

    While the driver's loop runs it stops by itself, and the third signal raises KeyboardInterrupt; before the loop and
    after it, the first does.
    alone: the one signal of them that is to be heeded. say: told of it before KeyboardInterrupt is raised.
    """
    stop = StopRequest()

    def handle(number: int, frame: object) -> None:
        stop.ask()
        if stop.count > (2 if stop.heeded else 0):
            if say is not None:
                say("stopping")
            raise KeyboardInterrupt

    heeded = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        heeded.append(signal.SIGHUP)
    before = {number: signal.signal(number, handle) for number in heeded if alone in (None, number)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
