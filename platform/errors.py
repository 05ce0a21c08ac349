"""Errors of the platform, exit codes, results of checks, and how exceptions are shown to the user.

A FmnasError is wrong input (exit code 2). After an ExperimentFailed (exit code 1) the experiment can be resumed.
"""

import re
import sysconfig
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

from fmnas.search_spaces import FmnasError

Result = TypeVar("Result")
LONGEST = 200
"""Characters of a value that a message shows."""
_LIBRARIES = tuple(sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
_COLOUR_CODES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]+")
"""Control characters, and characters that change the writing direction of a terminal."""


class ExitCode(IntEnum):
    """Exit codes of the command line. After WRONG_INPUT nothing was written; FAILED and INTERRUPTED can be resumed."""

    DONE = 0
    FAILED = 1
    WRONG_INPUT = 2
    INTERRUPTED = 130


class Ending(StrEnum):
    """How a driver ended."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    FAILED = "failed"

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of the command."""
        return {"finished": ExitCode.DONE, "interrupted": ExitCode.INTERRUPTED}.get(self, ExitCode.FAILED)


@dataclass(frozen=True)
class CheckResult:
    """The result of a check. passed: None if it was skipped. detail: what was found, or how to fix it."""

    name: str
    passed: bool | None
    detail: str = ""


class ConfigError(FmnasError):
    """Raised for an invalid configuration file, override or command-line argument."""


class RunDirectoryError(FmnasError):
    """Raised for a run directory that is missing, exists already, cannot be written, or was changed."""


class ClusterError(FmnasError):
    """Raised if a Ray cluster cannot be reached or has too few resources."""


class Interruption(BaseException):
    """Raised inside work that must end now; not an Exception, so that user code does not catch it."""


class ExperimentFailed(Exception):  # noqa: N818  # the state of an experiment, not a mistake in a call
    """Raised when an experiment cannot continue: too many failed trials, a failing optimizer, or a full disk."""


LET_THROUGH = (KeyboardInterrupt, Interruption)
"""What ends this process's own work. Everything else that user code raises, even a BaseException, is its failure."""


def legible(text: str) -> str:
    """Return text on one line, without control characters and colours; lone surrogates are escaped."""
    plain = _CONTROLS.sub(" ", _COLOUR_CODES.sub("", text)).encode("utf-8", "backslashreplace").decode()
    return " ".join(plain.split())


def one_line(error: BaseException) -> str:
    """Return the type and message of an exception on one line."""
    text = legible(str(error))
    return f"{type(error).__name__}: {text}"[:500] if text else type(error).__name__


def call_user_code(message: str, call: Callable[..., Result], /, *arguments: Any, **named: Any) -> Result:
    """Call user code and return its result. Raises ConfigError, starting with `message`, if it fails."""
    try:
        return call(*arguments, **named)
    except (FmnasError, *LET_THROUGH):
        raise
    except BaseException as error:
        raise ConfigError(f"{message}: {one_line(error)}") from error


def code_location(error: BaseException) -> str:
    """Return where in user code an exception was raised, as " (FILE, line N)"; empty if in no user code."""
    frames = [(frame, line) for frame, line in traceback.walk_tb(error.__traceback__) if not _is_library(frame)]
    if not frames:
        return ""
    frame, line = frames[-1]
    return f" ({Path(frame.f_code.co_filename).name}, line {line})"


def print_traceback(error: BaseException) -> None:
    """Print the traceback of an exception to standard error, without the calls of fmnas that lead to user code."""
    stack = error.__traceback__
    while stack is not None and _is_fmnas(stack.tb_frame):
        stack = stack.tb_next
    traceback.print_exception(type(error), error, stack or error.__traceback__)


def truncate(text: str) -> str:
    """Return the first LONGEST characters of a text."""
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}..."


def _is_library(frame: FrameType) -> bool:
    return _is_fmnas(frame) or frame.f_code.co_filename.startswith(("<", *_LIBRARIES))


def _is_fmnas(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] == "fmnas"
