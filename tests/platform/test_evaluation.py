"""How a worker evaluates a trial: what a trainer is offered, what it reports, and how it ends when it must."""

import errno
import json
import sys
import time
import traceback
import warnings
from asyncio import CancelledError
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.platform.experiment.observer import mean_epochs_done
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.workers import evaluation
from fmnas.platform.workers.cancellation import CHECK_SECONDS, DeadlineExceeded, Stopped, StopRequest, deadline
from fmnas.platform.workers.evaluation import evaluate_trial, validate_evaluation, warm_up_torch
from fmnas.platform.workers.in_process import InProcessPool
from fmnas.platform.workers.pool import FailedEvaluation, timed_out
from fmnas.search_spaces import Evaluation, Real, Trial
from fmnas.search_spaces.records import FAILED, TIMED_OUT
from fmnas.trainers import EvaluationStoppedError, TrainerError, objective
from fmnas.trainers.contract import Report, Stop, never_stop, no_report

TRIAL = Trial(0, {}, 3, "random")
JOB = Job("random/repeat-0", TRIAL)
X_JOB = Job("random/repeat-0", Trial(0, {"x": 0.5}, 1, "random"))
DONE = Evaluation(0.5)


class Scripted:
    """A trainer that takes `report` and `stop` and does what a function does with them."""

    def __init__(self, function: Callable[[Report, Stop], Any]) -> None:
        self._function = function

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        self._function(report, stop)
        return DONE


def wait_for_stop(report: Report, stop: Stop) -> None:
    """Run until `stop`."""
    while not stop():
        time.sleep(0.001)
    raise EvaluationStoppedError("it was stopped")


class Raising:
    """Takes a trial and nothing else, and raises."""

    def __init__(self, error: BaseException) -> None:
        self._error = error

    def evaluate(self, trial: Trial) -> Evaluation:
        raise self._error


class Forwarding:
    """Takes whatever there is."""

    def evaluate(self, trial: Trial, **options: Any) -> Evaluation:
        return Evaluation(float(sorted(options) == ["report", "stop"]))


def raise_past_deadline() -> None:
    raise DeadlineExceeded


def raise_stopped() -> None:
    raise Stopped


def run(trainer: Any, check: Callable[[], None] = lambda: None, **options: Any) -> Evaluation | FailedEvaluation:
    return evaluate_trial(trainer, TRIAL, lambda epochs: None, check, **options)


def run_in_process(trainer: Any, job: Job = JOB, **options: Any) -> Evaluation | FailedEvaluation:
    pool = InProcessPool(trainer, **options)
    pool.submit(job)
    event = pool.next_event(0.0)
    assert event is not None
    return event.result


def test_a_trainer_is_given_what_it_takes() -> None:
    assert run(Raising(ValueError("no"))) == FailedEvaluation(FAILED, "ValueError: no")
    assert run(Forwarding()) == Evaluation(1.0)


@pytest.mark.parametrize("interrupt", [True, False])
def test_a_trainer_that_takes_stop_ends_by_itself_at_its_deadline(interrupt: bool) -> None:
    check = deadline(CHECK_SECONDS)
    assert run(Scripted(wait_for_stop), check, seconds=7.0, interrupt=interrupt) == timed_out(7.0)
    with pytest.raises(Stopped):
        run(Scripted(wait_for_stop), raise_stopped, interrupt=interrupt)


def test_one_that_does_not_is_interrupted_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluation, "COOPERATION_SECONDS", 2 * CHECK_SECONDS)
    start = time.monotonic()
    result = run(Scripted(lambda report, stop: time.sleep(60)), raise_past_deadline, interrupt=True)
    assert isinstance(result, FailedEvaluation)
    assert result.status == TIMED_OUT
    assert time.monotonic() >= start + 2 * CHECK_SECONDS


def test_one_that_stops_unasked_has_failed() -> None:
    result = run(Raising(EvaluationStoppedError("enough")))
    assert isinstance(result, FailedEvaluation)
    assert result.status == FAILED
    assert "enough" in result.reason


@given(reports=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=30))
def test_epochs_are_those_of_every_trainings_last_report(reports: list[tuple[int, int]]) -> None:
    def train(report: Report, stop: Stop) -> None:
        for training, epochs in reports:
            report(training, epochs, 0.5)

    sums: list[int] = []
    evaluate_trial(Scripted(train), TRIAL, sums.append, lambda: None)
    assert sums == [sum(dict(reports[: count + 1]).values()) for count in range(len(reports))]


def test_in_process_the_pool_knows_the_epochs_of_its_job() -> None:
    seen: list[dict[tuple[str, int], int]] = []

    def train(report: Report, stop: Stop) -> None:
        seen.append(dict(pool.progress()))
        report(0, 3, 0.5)
        report(1, 2, 0.5)
        seen.append(dict(pool.progress()))
        seen.append(mean_epochs_done(pool, 2))
        wait_for_stop(report, stop)

    pool = InProcessPool(Scripted(train), trial_seconds=0.01)
    pool.submit(JOB)
    event = pool.next_event(0.0)
    assert event is not None
    assert event.result == timed_out(0.01)
    assert seen == [{}, {("random/repeat-0", 0): 5}, {("random/repeat-0", 0): 2}]
    assert pool.progress() == {}


def test_in_process_a_stopped_job_stays_running() -> None:
    pool = InProcessPool(Scripted(wait_for_stop), stop=StopRequest(count=2))
    pool.submit(JOB)
    assert pool.next_event(0.0) is None
    with pytest.raises(RuntimeError):
        pool.submit(JOB)


def test_numpy_numbers_are_recorded_as_pythons() -> None:
    result = validate_evaluation(
        Evaluation(
            np.float32(0.5),  # type: ignore[arg-type]
            np.int64(3),  # type: ignore[arg-type]
            (np.float64(0.25),),
            flops=np.int64(7),  # type: ignore[arg-type]
            curve=[np.float32(0.5)],  # type: ignore[arg-type]
            diverged=np.True_,  # type: ignore[arg-type]
            seed_curves=[[np.float64(0.25)]],  # type: ignore[list-item, arg-type]
        )
    )
    assert result == Evaluation(0.5, 3, (0.25,), flops=7, curve=(0.5,), diverged=True, seed_curves=((0.25,),))
    assert Evaluation.from_dict(json.loads(json.dumps(result.to_dict()))).objective == 0.5


@pytest.mark.parametrize(
    "fields",
    [
        {"objective": np.float64("nan")},
        {"diverged": 1.0},
        {"extrapolated": 0},
        {"errors": (np.inf,)},
        {"seed_curves": ((0.1, np.nan),)},
        {"seconds": -1.0},
        {"epochs": -1},
    ],
)
def test_the_invalid_field_of_a_result_is_named(fields: dict[str, Any]) -> None:
    (name,) = fields
    with pytest.raises(TrainerError, match=f"it returned {name}"):
        validate_evaluation(replace(DONE, **fields))


def test_a_first_step_of_torch_that_fails_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    pytest.importorskip("torch")
    warm_up_torch("no-such-device")
    assert "no-such-device" in caplog.text


def test_what_a_trial_sets_in_its_process_is_restored_for_the_next() -> None:
    import torch

    def settings() -> tuple[Any, ...]:
        return torch.get_num_threads(), torch.get_default_dtype(), sys.getrecursionlimit(), list(warnings.filters)

    def change_settings(report: Report, stop: Stop) -> None:
        torch.set_num_threads(torch.get_num_threads() + 2)
        torch.set_default_dtype(torch.float64)
        sys.setrecursionlimit(sys.getrecursionlimit() + 100)
        warnings.simplefilter("ignore")
        inside.append(settings())
        if len(inside) > 1:
            raise ValueError

    inside: list[tuple[Any, ...]] = []
    before = settings()
    for _ in range(2):
        run(Scripted(change_settings))
        assert settings() == before
    assert all(one != other for one, other in zip(inside[0], before, strict=True))


class OwnExit(BaseException):
    """Neither an Exception nor one of Python's own."""


@pytest.mark.parametrize("error", [CancelledError("why"), OwnExit("why"), GeneratorExit("why"), SystemExit("why")])
def test_a_trial_that_raises_no_exception_has_failed(error: BaseException) -> None:
    result = run(Raising(error))
    assert isinstance(result, FailedEvaluation)
    assert result.status == FAILED
    assert "why" in result.reason


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Stopped()])
def test_what_ends_the_process_is_raised(error: BaseException) -> None:
    with pytest.raises(type(error)):
        run(Raising(error))


def test_in_process_a_traceback_begins_with_the_call_of_the_function(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(configuration: Any) -> float:
        raise ValueError("no such column")

    run_in_process(objective([Real("x", 0, 1)])(fails).trainer, X_JOB)
    printed = capsys.readouterr().err
    assert printed.count("  File ") == 1
    assert f'"{__file__}", line ' in printed
    assert printed.endswith("ValueError: no such column\n")


def test_in_process_an_invalid_result_prints_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    result = run_in_process(objective([Real("x", 0, 1)])(lambda configuration: float("nan")).trainer, X_JOB)
    assert isinstance(result, FailedEvaluation)
    assert "nan" in result.reason
    assert capsys.readouterr().err == ""


def test_in_process_a_trial_fails_even_if_its_traceback_cannot_be_printed(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(traceback, "print_exception", fail)
    assert run_in_process(Raising(ValueError("no"))) == FailedEvaluation(FAILED, "ValueError: no")


class Rewriting:
    """Writes into the trial that it was given."""

    def evaluate(self, trial: Trial) -> Evaluation:
        trial.configuration["x"] = -1.0  # type: ignore[index]
        return DONE


def test_in_process_a_trainer_cannot_change_what_the_driver_knows_of_a_trial() -> None:
    pool, job = InProcessPool(Rewriting()), Job("random/repeat-0", Trial(0, {"x": 0.5}, 1, "random"))
    pool.submit(job)
    event = pool.next_event(0.0)
    assert event is not None
    assert event.result == DONE
    assert event.job.trial.configuration == {"x": 0.5}
