"""What can go wrong in the platform, how work ends, the exit code of each, and how an exception is told.

A FmnasError is wrong input, exit code 2; with ExperimentFailed, exit code 1, the experiment can be resumed.
"""

import re
import sysconfig
import traceback
from collections.abc import Callable
from enum import IntEnum, StrEnum
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from fmnas.search_spaces import FmnasError

Made = TypeVar("Made")
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))


class ExitCode(IntEnum):
    """What the command line returns: done; failed, and can be gone on with; nothing was touched; stopped."""

    DONE = 0
    FAILED = 1
    WRONG_INPUT = 2
    INTERRUPTED = 130


class Ending(StrEnum):
    """How a driver leaves: every budget is spent; a stop was asked for; too much failed. The last two may go on."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def exit_code(self) -> ExitCode:
        """Of the command."""
        codes = {Ending.FINISHED: ExitCode.DONE, Ending.INTERRUPTED: ExitCode.INTERRUPTED}
        return codes.get(self, ExitCode.FAILED)


class ConfigError(FmnasError):
    """A configuration file, an override or a command-line argument that makes no sense."""


class RunDirectoryError(FmnasError):
    """A run directory that exists, is missing, cannot be written or was changed."""


class ClusterError(FmnasError):
    """A Ray cluster that cannot be reached or lacks what was asked for."""


class BreakOff(BaseException):
    """Raised inside work that must end now; not an Exception, so that the work does not mistake it for its own."""


LET_THROUGH = (KeyboardInterrupt, BreakOff)
"""What ends this process's own work. Anything else that a user's code raises, a BaseException too, is its failure."""


class ExperimentFailed(Exception):  # noqa: N818  # it is an ending, not a mistake in a call
    """Something is broken that more trials will not mend: too many of them failed in a row, an optimizer, a disk."""


LONGEST = 200
"""How many characters of a value a message shows."""

_COLOUR_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
"""Control characters, and those that change the direction in which a terminal writes."""


def legible(text: str) -> str:
    """Text on one line, as any file and terminal takes it: without control characters, a lone surrogate spelt out."""
    plain = _CONTROLS.sub(" ", _COLOUR_CODES.sub("", text)).encode("utf-8", "backslashreplace").decode()
    return " ".join(plain.split())


def one_line(error: BaseException) -> str:
    """An exception as one line: its type and message."""
    text = legible(str(error))
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__


def explained(told: str, call: Callable[..., Made], /, *given: Any, **named: Any) -> Made:
    """What a call of a user's code returns. Raises ConfigError, which begins as told, for what is not one of ours."""
    try:
        return call(*given, **named)
    except (FmnasError, *LET_THROUGH):
        raise
    except BaseException as error:
        raise ConfigError(f"{told}: {one_line(error)}") from error


def own_line(error: BaseException) -> str:
    """Where in a user's own code an exception came from, as " (FILE, line N)"; empty where nowhere in it.

    Frames of fmnas, of installed packages and of Python's library are passed over.
    """
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _of_a_library(frame)]
    if not frames:
        return ""
    frame, line = frames[-1]
    return f" ({Path(frame.f_code.co_filename).name}, line {line})"


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an exception to standard error, without the calls of fmnas that lead to other code."""
    stack = error.__traceback__
    while stack is not None and _of_fmnas(stack.tb_frame):
        stack = stack.tb_next
    traceback.print_exception(type(error), error, stack or error.__traceback__)


def _of_a_library(frame: FrameType) -> bool:
    return _of_fmnas(frame) or frame.f_code.co_filename.startswith(("<", *_LIBRARIES))


def _of_fmnas(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "fmnas"


def cut(text: str) -> str:
    """A text's first LONGEST characters."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."
