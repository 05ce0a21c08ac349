"""How a worker evaluates a trial: it hears of its epochs, ends it when it must end, and checks what comes of it."""

import inspect
import logging
import math
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from fmnas.platform.errors import LET_THROUGH, BreakOff, legible, one_line, own_line
from fmnas.platform.workers.cancellation import PastDeadline, late, watched
from fmnas.search_spaces import Conditions, Evaluation, Trial
from fmnas.search_spaces.records import FAILED, LOST, TIMED_OUT
from fmnas.trainers import DeviceFailedError, EvaluationStoppedError, Trainer, TrainerError, TrainingFailedError

logger = logging.getLogger(__name__)

COOPERATION_SECONDS = 2.0
"""How long a trainer that looks whether to stop may take to do so before it is broken off."""


def warm_up_torch(device: str) -> None:
    """Take a step of SGD and of Adam with one weight, if torch is loaded: its first step in a process imports a lot.

    Without this, those seconds are on the clock of the first trial. Random states stay as they are; a failure is left
    to the first trial, which has a reason to report it. device: as torch names it.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            weight = torch.zeros(1, 1, device=device, requires_grad=True)
            (weight @ weight).sum().backward()
            for kind in (torch.optim.SGD, torch.optim.Adam):
                kind([weight], lr=0.1).step()
    except Exception:
        logger.warning("torch could not take a step on %s before the first trial", device, exc_info=True)
    finally:
        random.setstate(states[0])
        np.random.set_state(states[1])


@dataclass(frozen=True)
class Unfinished:
    """Why there is no evaluation. status: FAILED, TIMED_OUT or LOST. reason: in one line."""

    status: str
    reason: str


def timed_out(seconds: float) -> Unfinished:
    """Of a job that was ended after so many seconds."""
    return Unfinished(TIMED_OUT, f"it ran past budget.trial_seconds = {seconds:g} and was ended")


class Evaluator:
    """A trainer, and whether it takes `report` and `stop`: one that somebody else wrote may take neither."""

    def __init__(self, trainer: Trainer) -> None:
        self._trainer = trainer
        parameters = inspect.signature(trainer.evaluate).parameters
        anything = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())
        self._taken = [name for name in ("report", "stop") if anything or name in parameters]

    def evaluate(self, trial: Trial, tell: Callable[[int], None], check: Callable[[], None] | None) -> Evaluation:
        """The trainer's evaluation, whole and finite.

        tell: called after each epoch of each training, with the epochs that all of them have done together.
        check: raises a BreakOff, in any thread, once the trial must end; None if it never must. A trainer that takes
        `stop` ends itself; it is broken off like any other where it has not after COOPERATION_SECONDS.
        Raises what the trainer raises, TrainerError for what is no result, and the BreakOff.
        """
        offered: dict[str, Any] = {"report": _counted(tell), "stop": _asked(check)}
        given = {name: offered[name] for name in self._taken}
        if check is None:
            return self._evaluated(trial, given)
        try:
            with watched(late(check, COOPERATION_SECONDS if "stop" in given else 0.0)):
                return self._evaluated(trial, given)
        except EvaluationStoppedError:
            check()
            raise  # nobody had told it to

    def result(
        self,
        trial: Trial,
        tell: Callable[[int], None],
        check: Callable[[], None] | None,
        seconds: float,
        raised: Callable[[Exception], None],
    ) -> Evaluation | Unfinished:
        """The same, or why there is none. seconds: its deadline. raised: told what the trial raised, with its stack."""
        try:
            with settings_restored():
                return self.evaluate(trial, tell, check)
        except PastDeadline:
            return timed_out(seconds)
        except Exception as error:
            raised(error)
            return Unfinished(LOST if isinstance(error, DeviceFailedError) else FAILED, one_line(error))

    def _evaluated(self, trial: Trial, given: dict[str, Any]) -> Evaluation:
        try:
            return checked(self._trainer.evaluate(trial, **given))
        except SystemExit as error:  # it would end this process without a word
            raise TrainingFailedError(f"it called sys.exit({error.code!r})") from error
        except (Exception, *LET_THROUGH):
            raise
        except BaseException as error:  # e.g. asyncio.CancelledError
            raise TrainingFailedError(f"{one_line(error)}{own_line(error)}") from error


@contextmanager
def settings_restored() -> Iterator[None]:
    """At the end of the block, put back settings of this process that the next trial must not inherit.

    These are the recursion limit, the filters of warnings and, where torch is loaded, its threads and default dtype.
    """
    torch, limit, filters = sys.modules.get("torch"), sys.getrecursionlimit(), list(warnings.filters)
    threads, dtype = (torch.get_num_threads(), torch.get_default_dtype()) if torch else (0, None)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if warnings.filters != filters:  # not catch_warnings, which would show again what was shown once
            warnings.filters = filters
        if torch and threads != torch.get_num_threads():
            torch.set_num_threads(threads)
        if torch and dtype != torch.get_default_dtype():
            torch.set_default_dtype(dtype)


def _counted(tell: Callable[[int], None]) -> Callable[[int, int, float], None]:
    """The report that tells how many epochs all trainings have done."""
    done: dict[int, int] = {}

    def report(seed: int, epochs: int, error: float) -> None:
        done[seed] = epochs
        tell(sum(done.values()))

    return report


def _asked(check: Callable[[], None] | None) -> Callable[[], bool]:
    """The stop that says yes where `check` raises."""

    def stop() -> bool:
        try:
            if check is not None:
                check()
        except BreakOff:
            return True
        return False

    return stop


def checked(evaluation: Any) -> Evaluation:
    """What a trainer returned, if it is a result. Raises TrainerError for anything else, and for a NaN or infinity."""
    if not isinstance(evaluation, Evaluation):
        raise TrainerError(f"it returned {legible(repr(evaluation))[:100]}, which is no Evaluation")
    if not isinstance(evaluation.conditions, Conditions | None):
        raise TrainerError(f"it returned conditions = {legible(repr(evaluation.conditions))[:100]}, which are none")
    evaluation = replace(evaluation, **{name: _of_python(value) for name, value in vars(evaluation).items()})
    for name, value in _numbers(evaluation.to_dict()):
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise TrainerError(f"it returned {name} = {legible(repr(value))[:100]}, which is no finite number")
    if not isinstance(evaluation.diverged, bool):
        raise TrainerError(
            f"it returned diverged = {legible(repr(evaluation.diverged))[:100]}: it must be True or False"
        )
    return evaluation


def _of_python(value: Any) -> Any:
    """A number of numpy's, alone or among others, as Python's own: the journal holds nothing else."""
    if isinstance(value, list | tuple):
        return tuple(map(_of_python, value))
    return value.item() if isinstance(value, np.generic) else value


def _numbers(fields: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in fields.items():
        if isinstance(value, list | tuple):
            yield from ((f"{name}[{i}]", each) for i, each in enumerate(value))
        elif name not in ("diverged", "conditions") and (value is not None or name not in ("flops", "flops_ratio")):
            yield name, value
