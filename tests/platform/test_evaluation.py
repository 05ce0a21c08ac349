"""How a worker evaluates a trial: what a trainer is offered, what it reports, and how it ends when it must."""

import errno
import json
import random
import sys
import threading
import time
import traceback
import warnings
from asyncio import CancelledError
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.runner.driver import epochs_reached
from fmnas.platform.workers import evaluation as evaluations
from fmnas.platform.workers.cancellation import LOOK_SECONDS, PastDeadline, Stopped, StopRequest, deadline, late
from fmnas.platform.workers.evaluation import Evaluator, Unfinished, warm_up_torch
from fmnas.platform.workers.pool import InProcessPool
from fmnas.search_spaces import Evaluation, Real, Trial
from fmnas.search_spaces.records import FAILED, TIMED_OUT
from fmnas.trainers import EvaluationStoppedError, TrainerError, objective
from fmnas.trainers.contract import Report, Stop, ignore, never

TRIAL = Trial(0, {}, 3, "random")
JOB = Job("random/repeat-0", TRIAL)


class Cooperative:
    """Trains `trainings` times for the trial's epochs, which never end, and looks whether to stop."""

    def __init__(self, trainings: int = 2) -> None:
        self._trainings = trainings
        self.ended = ""

    def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
        for training in range(self._trainings):
            for epoch in range(trial.epochs):
                report(training, epoch + 1, 0.5)
        while not stop():
            time.sleep(0.001)
        self.ended = "by itself"
        raise EvaluationStoppedError("it was stopped")


class Deaf(Cooperative):
    """Takes `stop` and never looks."""

    def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
        try:
            time.sleep(60)
        except PastDeadline:
            self.ended = "broken off"
            raise
        return Evaluation(0.5)


class Old:
    """Takes a trial and nothing else."""

    def evaluate(self, trial: Trial) -> Evaluation:
        return Evaluation(0.5)


class Forwarding:
    """Takes whatever there is."""

    def evaluate(self, trial: Trial, **given_: Any) -> Evaluation:
        return Evaluation(float(sorted(given_) == ["report", "stop"]))


def unheard(epochs: int) -> None:
    """Nobody listens."""


def past() -> None:
    raise PastDeadline


def test_a_trainer_is_given_what_it_takes() -> None:
    assert Evaluator(Old()).evaluate(TRIAL, unheard, None) == Evaluation(0.5)  # type: ignore[arg-type]
    assert Evaluator(Forwarding()).evaluate(TRIAL, unheard, None) == Evaluation(1.0)


def test_a_trainer_that_looks_ends_itself_at_its_deadline() -> None:
    trainer, told = Cooperative(), list[int]()
    with pytest.raises(PastDeadline):
        Evaluator(trainer).evaluate(TRIAL, told.append, deadline(LOOK_SECONDS))
    assert trainer.ended == "by itself"
    assert told == [1, 2, 3, 4, 5, 6], "of both trainings together"


def test_it_does_so_in_any_thread() -> None:
    ended = []

    def run() -> None:
        try:
            Evaluator(Cooperative()).evaluate(TRIAL, unheard, past)
        except PastDeadline as error:
            ended.append(error)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ended


def test_one_that_does_not_is_broken_off_later(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(evaluations, "COOPERATION_SECONDS", 2 * LOOK_SECONDS)
    trainer = Deaf()
    with pytest.raises(PastDeadline):
        Evaluator(trainer).evaluate(TRIAL, unheard, past)
    assert trainer.ended == "broken off"


def test_one_that_stops_unasked_has_failed() -> None:
    class Quitting(Cooperative):
        def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
            raise EvaluationStoppedError("enough")

    for check in (None, lambda: None):
        with pytest.raises(EvaluationStoppedError, match="enough"):
            Evaluator(Quitting()).evaluate(TRIAL, unheard, check)


@given(reports=st.lists(st.tuples(st.integers(0, 3), st.integers(1, 9)), max_size=30))
def test_epochs_are_those_of_every_trainings_last_report(reports: list[tuple[int, int]]) -> None:
    class Reporting(Cooperative):
        def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
            for training, epochs in reports:
                report(training, epochs, 0.5)
            return Evaluation(0.5)

    told: list[int] = []
    Evaluator(Reporting()).evaluate(TRIAL, told.append, None)
    assert told == [sum(dict(reports[: count + 1]).values()) for count in range(len(reports))]


@given(seconds=st.integers(0, 10**6), first=st.integers(0, 10**6), passed=st.integers(0, 10**6))
def test_a_late_check_raises_so_many_seconds_after_it_first_would_have(seconds: int, first: int, passed: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        clock = SimpleNamespace(monotonic=lambda: first)
        patch.setattr("fmnas.platform.workers.cancellation.time", clock)
        check = late(past, seconds)
        with nullcontext() if seconds else pytest.raises(PastDeadline):
            check()
        clock.monotonic = lambda: first + passed
        with nullcontext() if passed < seconds else pytest.raises(PastDeadline):
            check()


@pytest.fixture
def slow_pool() -> Callable[..., tuple[InProcessPool, list[dict[tuple[str, int], int]]]]:
    """slow_pool(**limits): a pool whose trainer looks, and what it knew of its job in the middle of it."""

    def make(**limits: Any) -> tuple[InProcessPool, list[dict[tuple[str, int], int]]]:
        seen: list[dict[tuple[str, int], int]] = []

        class Seen(Cooperative):
            def evaluate(self, trial: Trial, report: Report = ignore, stop: Stop = never) -> Evaluation:
                seen.append(dict(pool.progress()))
                report(0, 3, 0.5)
                report(1, 2, 0.5)
                seen.append(dict(pool.progress()))
                seen.append(epochs_reached(pool, 2))
                return super().evaluate(trial, ignore, stop)

        pool = InProcessPool(Seen(), **limits)
        return pool, seen

    return make


def test_in_process_the_pool_knows_how_far_its_job_is(slow_pool: Callable[..., Any]) -> None:
    pool, seen = slow_pool(trial_seconds=0.01)
    pool.submit(JOB)
    event = pool.next_event(0.0)
    assert isinstance(event.result, Unfinished)
    assert event.result.status == TIMED_OUT
    assert seen == [{}, {("random/repeat-0", 0): 5}, {("random/repeat-0", 0): 2}]
    assert pool.progress() == {}


def test_in_process_a_stop_is_obeyed_by_one_that_looks_and_its_job_stays_in_flight(
    slow_pool: Callable[..., Any],
) -> None:
    stop = StopRequest(count=2)
    pool, _ = slow_pool(stop=stop)
    pool.submit(JOB)
    assert pool.next_event(0.0) is None
    with pytest.raises(RuntimeError, match="in flight"):
        pool.submit(JOB)


def test_a_break_off_for_a_stop_is_no_missed_deadline() -> None:
    def stopped() -> None:
        raise Stopped

    with pytest.raises(Stopped):
        Evaluator(Cooperative()).evaluate(TRIAL, unheard, stopped)
    pool = InProcessPool(Forwarding())
    pool.submit(JOB)
    event = pool.next_event(0.0)
    assert event is not None
    assert isinstance(event.result, Evaluation)


class Numpy:
    """Returns an evaluation of numpy's numbers."""

    def __init__(self, **fields: Any) -> None:
        self._fields = fields

    def evaluate(self, trial: Trial) -> Evaluation:
        return Evaluation(**{"objective": np.float32(0.5), "epochs": np.int64(3), **self._fields})


def test_numbers_of_numpys_go_on_record_as_pythons() -> None:
    fields = {"errors": (np.float64(0.25),), "flops": np.int64(7), "curve": [np.float32(0.5)], "diverged": np.True_}
    found = Evaluator(Numpy(**fields)).evaluate(TRIAL, lambda epochs: None, None)
    assert found == Evaluation(0.5, 3, (0.25,), flops=7, curve=(0.5,), diverged=True)
    assert Evaluation.from_dict(json.loads(json.dumps(found.to_dict()))).objective == 0.5


@pytest.mark.parametrize("fields", [{"objective": np.float64("nan")}, {"diverged": 1.0}, {"errors": (np.inf,)}])
def test_what_is_no_result_is_named(fields: dict[str, Any]) -> None:
    (name,) = fields
    with pytest.raises(TrainerError, match=f"it returned {name}"):
        Evaluator(Numpy(**fields)).evaluate(TRIAL, lambda epochs: None, None)


def test_a_trial_fails_whether_or_not_somebody_reads_why(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(traceback, "print_exception", full)
    pool = InProcessPool(Interrupting(ValueError("no")), traced=True)
    pool.submit(JOB)
    event = pool.next_event(0.0)
    assert isinstance(event.result, Unfinished)
    assert event.result.status == FAILED
    assert event.result.reason == "ValueError: no"


def test_the_first_step_of_torch_leaves_no_trace() -> None:
    """No random state, default or switch of the process is another after it, and gradients may be off before it."""
    torch = pytest.importorskip("torch")

    def states() -> tuple[object, ...]:
        numbers = np.random.get_state()
        arrays = (numbers[1].tobytes(), torch.get_rng_state().numpy().tobytes())
        switches = (torch.get_num_threads(), torch.get_default_dtype(), torch.is_grad_enabled())
        return random.getstate(), numbers[0], numbers[2:], *arrays, *switches

    with torch.no_grad():
        before = states()
        warm_up_torch("cpu")
        assert states() == before


def test_a_device_that_fails_at_the_first_step_fails_no_worker() -> None:
    pytest.importorskip("torch")
    warm_up_torch("no-such-device")


def test_what_a_trial_sets_in_its_process_is_put_back_for_the_next() -> None:
    import torch

    def settings() -> tuple[Any, ...]:
        return torch.get_num_threads(), torch.get_default_dtype(), sys.getrecursionlimit(), list(warnings.filters)

    class Setting(Numpy):
        def evaluate(self, trial: Trial) -> Evaluation:
            torch.set_num_threads(torch.get_num_threads() + 2)
            torch.set_default_dtype(torch.float64)
            sys.setrecursionlimit(sys.getrecursionlimit() + 100)
            warnings.simplefilter("ignore")
            inside.append(settings())
            if trial.id:
                raise ValueError
            return super().evaluate(trial)

    inside: list[tuple[Any, ...]] = []
    before = settings()
    for number in (0, 1):
        Evaluator(Setting()).result(replace(TRIAL, id=number), unheard, None, 1.0, lambda error: None)
        assert settings() == before
    assert all(one != other for one, other in zip(inside[0], before, strict=True))


class Interrupting(Numpy):
    """Raises what no trial may keep for itself, or what one must."""

    def __init__(self, error: BaseException) -> None:
        super().__init__()
        self._error = error

    def evaluate(self, trial: Trial) -> Evaluation:
        raise self._error


class OwnExit(BaseException):
    """Neither an Exception nor of Python's own."""


@pytest.mark.parametrize("error", [CancelledError("by whom"), OwnExit("by whom"), GeneratorExit("by whom")])
def test_a_trial_that_raises_no_exception_has_failed(error: BaseException) -> None:
    result = Evaluator(Interrupting(error)).result(TRIAL, unheard, None, 1.0, lambda error: None)
    assert isinstance(result, Unfinished)
    assert result.status == FAILED
    assert f"{type(error).__name__}: by whom" in result.reason


@pytest.mark.parametrize("error", [KeyboardInterrupt(), Stopped()])
def test_what_ends_the_process_is_let_through(error: BaseException) -> None:
    with pytest.raises(type(error)):
        Evaluator(Interrupting(error)).result(TRIAL, unheard, None, 1.0, lambda error: None)


def test_what_turns_the_direction_of_writing_is_left_out_of_a_reason() -> None:
    error = ValueError("a\u202eb\u2066c\u200fd \x1b[31me")
    result = Evaluator(Interrupting(error)).result(TRIAL, unheard, None, 1.0, lambda error: None)
    assert isinstance(result, Unfinished)
    assert result.reason == "ValueError: a b c d e"


def test_in_process_a_traceback_begins_with_the_call_of_the_function(capsys: pytest.CaptureFixture[str]) -> None:
    def fails(configuration: Any) -> float:
        raise ValueError("no such column")

    pool = InProcessPool(objective([Real("x", 0, 1)])(fails).trainer)
    pool.submit(Job("random/repeat-0", Trial(0, {"x": 0.5}, 1, "random")))
    assert pool.next_event(0.0) is not None
    said = capsys.readouterr().err
    assert said.count("  File ") == 1
    assert f'"{__file__}", line ' in said
    assert said.endswith("ValueError: no such column\n")


def test_in_process_a_result_that_is_none_prints_no_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    pool = InProcessPool(objective([Real("x", 0, 1)])(lambda configuration: float("nan")).trainer)
    pool.submit(Job("random/repeat-0", Trial(0, {"x": 0.5}, 1, "random")))
    event = pool.next_event(0.0)
    assert isinstance(event.result, Unfinished)
    assert "nan" in event.result.reason
    assert capsys.readouterr().err == ""
