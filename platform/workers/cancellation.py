"""Stop requests by signals, deadlines, and work in this process that is interrupted because of either."""

import math
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from fmnas.platform.errors import Interruption

CHECK_SECONDS = 0.2
"""How often interruptible work is checked."""

RETRY_SECONDS = 10.0
"""How long interrupted work may take to clean up, e.g. to join its threads, before it is interrupted again."""


@dataclass
class StopRequest:
    """Requests to stop the driver: after one it starts nothing new, after two it stops at once.

    is_checked: whether the driver's loop checks this. elapsed: monotonic seconds. since: of the first request.
    """

    count: int = 0
    is_checked: bool = False
    elapsed: Callable[[], float] = time.monotonic
    since: float = field(default=math.inf, init=False)

    def request(self) -> None:
        """Add a request."""
        self.count += 1
        self.since = min(self.since, self.elapsed())

    def must_abandon(self, grace_seconds: float) -> bool:
        """Whether running work must be abandoned: after a second request, or after the grace time."""
        return self.count > 1 or self.elapsed() >= self.since + grace_seconds


class Stopped(Interruption):
    """Raised in work that a stop request ends."""


class DeadlineExceeded(Interruption):
    """Raised in work that has run past its deadline."""


def deadline(seconds: float) -> Callable[[], None]:
    """Return a check that raises DeadlineExceeded once `seconds`, which may be infinite, have passed from now."""
    ends = time.monotonic() + seconds

    def check() -> None:
        if time.monotonic() > ends:
            raise DeadlineExceeded

    return check


@contextmanager
def interruptible(check: Callable[[], None], grace_seconds: float = 0.0) -> Iterator[None]:
    """Call `check` every CHECK_SECONDS while the block runs; an Interruption that it raises is raised in the block.

    It is raised `grace_seconds` after `check` first raised, between two of Python's own instructions, so a long call
    into C ends first. If the block swallows it, as finalizers do, it is raised again after RETRY_SECONDS. Only the main
    thread can be interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    is_running, due = True, math.inf

    def on_alarm(number: int, frame: object) -> None:
        nonlocal due
        try:
            check()
        except Interruption:
            due = min(due, time.monotonic() + grace_seconds)
            if is_running and time.monotonic() >= due:
                signal.setitimer(signal.ITIMER_REAL, RETRY_SECONDS, RETRY_SECONDS)
                raise

    previous = signal.signal(signal.SIGALRM, on_alarm)
    signal.setitimer(signal.ITIMER_REAL, CHECK_SECONDS, CHECK_SECONDS)
    try:
        try:
            yield
        finally:
            is_running = False
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)


@contextmanager
def stop_on_signals(only: signal.Signals | None = None) -> Iterator[StopRequest]:
    """Turn SIGINT, SIGTERM and SIGHUP (unless ignored, as by `nohup`) into requests to stop.

    While the driver's loop runs, the third signal raises KeyboardInterrupt; before and after it, the first does.
    only: handle this signal alone.
    """
    stop = StopRequest()

    def handle(number: int, frame: object) -> None:
        stop.request()
        if stop.count > (2 if stop.is_checked else 0):
            raise KeyboardInterrupt

    handled = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) != signal.SIG_IGN:
        handled.append(signal.SIGHUP)
    previous = {number: signal.signal(number, handle) for number in handled if only in (None, number)}
    try:
        yield stop
    finally:
        for number, handler in previous.items():
            signal.signal(number, handler)
