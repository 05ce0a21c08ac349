"""One evaluation of a trial in a worker: call the trainer, stop it at its deadline, validate its result."""

import inspect
import logging
import math
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from fmnas.platform.errors import LET_THROUGH, ExperimentFailed, Interruption, code_location, legible, one_line
from fmnas.platform.workers.cancellation import DeadlineExceeded, interruptible
from fmnas.platform.workers.pool import FailedEvaluation, Outcome, timed_out
from fmnas.platform.workers.system_metrics import SystemMonitor
from fmnas.search_spaces import Conditions, Evaluation, Trial
from fmnas.search_spaces.records import FAILED, LOST
from fmnas.trainers import DeviceFailedError, EvaluationStoppedError, Trainer, TrainerError, TrainingFailedError
from fmnas.trainers.contract import NotRecordedError, RecordedFailureError

logger = logging.getLogger(__name__)

COOPERATION_SECONDS = 2.0
"""How long a trainer that takes `stop` may run past its deadline before it is interrupted."""


def evaluate_trial(
    trainer: Trainer,
    trial: Trial,
    report: Callable[[int], None],
    check: Callable[[], None],
    seconds: float = math.inf,
    *,
    interrupt: bool = False,
    monitor: SystemMonitor | None = None,
    on_error: Callable[[Exception], None] = lambda error: None,
) -> Outcome:
    """Return the validated evaluation, or why it failed. It raises every Interruption but DeadlineExceeded.

    report: called after each epoch of each training, with the sum of epochs over all trainings.
    check: raises an Interruption once the trial must end; a trainer that takes `stop` then ends by itself.
    seconds: the deadline, for the reason. on_error: called with the exception of a trial that failed.
    interrupt: whether to raise the Interruption inside a trainer that does not end by itself.
    monitor: measures what the trial uses of the machine.
    Raises ExperimentFailed if a recorded problem lacks the configuration: no result can be made up for it.
    """
    measuring: AbstractContextManager[dict[str, float]] = monitor.measure() if monitor else nullcontext({})
    try:
        with _restore_settings(), measuring as metrics:
            evaluation = _call_trainer(trainer, trial, report, check, interrupt)
        return replace(evaluation, system_metrics=metrics) if monitor else evaluation
    except DeadlineExceeded:
        return timed_out(seconds)
    except NotRecordedError as error:
        raise ExperimentFailed(f"trial {trial.id}: {error}") from None
    except Exception as error:
        on_error(error)
        took = error.seconds if isinstance(error, RecordedFailureError) else None
        is_own = isinstance(error, TrainerError | TrainingFailedError)  # the user knows the classes of others
        reason = (legible(str(error))[:500] if is_own else "") or one_line(error)
        return FailedEvaluation(LOST if isinstance(error, DeviceFailedError) else FAILED, reason, took)


def _call_trainer(
    trainer: Trainer, trial: Trial, report: Callable[[int], None], check: Callable[[], None], interrupt: bool
) -> Evaluation:
    """Call the trainer with `report` and `stop` if its `evaluate` takes them."""
    parameters = inspect.signature(trainer.evaluate).parameters
    takes_any = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
    offered: dict[str, Any] = {"report": _sum_epochs(report), "stop": _stop_callback(check)}
    callbacks = {name: callback for name, callback in offered.items() if takes_any or name in parameters}
    grace = COOPERATION_SECONDS if "stop" in callbacks else 0.0
    try:
        with interruptible(check, grace) if interrupt else nullcontext():
            return validate_evaluation(trainer.evaluate(trial, **callbacks))
    except EvaluationStoppedError:
        check()
        raise  # the trainer stopped although `stop()` was False
    except (Exception, *LET_THROUGH):
        raise
    except BaseException as error:  # e.g. SystemExit, which would end this process silently
        raise TrainingFailedError(f"{one_line(error)}{code_location(error)}") from error


def _sum_epochs(report: Callable[[int], None]) -> Callable[[int, int, float], None]:
    epochs_by_seed: dict[int, int] = {}

    def report_epoch(seed: int, epochs: int, error: float) -> None:
        epochs_by_seed[seed] = epochs
        report(sum(epochs_by_seed.values()))

    return report_epoch


def _stop_callback(check: Callable[[], None]) -> Callable[[], bool]:
    def stop() -> bool:
        try:
            check()
        except Interruption:
            return True
        return False

    return stop


@contextmanager
def _restore_settings() -> Iterator[None]:
    """Restore what a trial may change: recursion limit, filters of warnings, torch's number of threads and dtype."""
    torch, limit, filters = sys.modules.get("torch"), sys.getrecursionlimit(), list(warnings.filters)
    threads, dtype = (torch.get_num_threads(), torch.get_default_dtype()) if torch else (0, None)
    try:
        yield
    finally:
        sys.setrecursionlimit(limit)
        if warnings.filters != filters:
            warnings.filters = filters
        if torch and (threads, dtype) != (torch.get_num_threads(), torch.get_default_dtype()):
            torch.set_num_threads(threads)
            torch.set_default_dtype(dtype)


def validate_evaluation(evaluation: Any) -> Evaluation:
    """Return the evaluation with numpy numbers converted to Python's, as the journal needs them.

    Raises TrainerError if it is not an Evaluation or holds a number that is not finite.
    """
    if not isinstance(evaluation, Evaluation):
        raise TrainerError(f"it returned {_show(evaluation)}, expected an Evaluation")
    evaluation = replace(evaluation, **{name: _to_builtin(value) for name, value in vars(evaluation).items()})
    for name, value in vars(evaluation).items():
        if name == "conditions":
            is_valid, expected = isinstance(value, Conditions | None), "Conditions or None"
        elif name in ("diverged", "extrapolated"):
            is_valid, expected = isinstance(value, bool), "True or False"
        elif name in ("files", "system_metrics"):
            is_valid, expected = isinstance(value, Mapping), "a mapping"
        elif name in ("seconds", "epochs"):  # they count against the budget
            is_valid, expected = _is_finite(value, 0) and value >= 0, "a number of at least 0"
        else:
            is_unknown = value is None and name in ("flops", "flops_ratio")
            is_valid, expected = is_unknown or _is_finite(value, 1 + (name == "seed_curves")), "a finite number"
        if not is_valid:
            raise TrainerError(f"it returned {name} = {_show(value)}, expected {expected}")
    return evaluation


def _is_finite(value: Any, depth: int) -> bool:
    """Whether a number, or every number of tuples that are nested at most `depth` deep, is finite."""
    if isinstance(value, tuple):
        return depth > 0 and all(_is_finite(part, depth - 1) for part in value)
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _to_builtin(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_to_builtin, value))
    return value.item() if isinstance(value, np.generic) else value


def _show(value: Any) -> str:
    return legible(repr(value))[:100]


def warm_up_torch(device: str) -> None:
    """Take a step of SGD and Adam if torch is loaded, whose first step imports much: not during the first trial.

    It draws no random numbers. A failure is only logged; the first trial reports it. device: as torch names it.
    """
    torch = sys.modules.get("torch")
    if torch is None:
        return
    try:
        with torch.enable_grad():
            weight = torch.zeros(1, 1, device=device, requires_grad=True)
            (weight @ weight).sum().backward()
            for optimizer in (torch.optim.SGD, torch.optim.Adam):
                optimizer([weight], lr=0.1).step()
    except Exception:
        logger.warning("torch could not take a step on %s before the first trial", device, exc_info=True)
