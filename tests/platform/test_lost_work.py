"""What attempts took that came to nothing, from journals written by hand, into trials.csv's column and the ledger."""

from typing import Any

import pytest

from fmnas.comparison import Budget, ledger_table
from fmnas.comparison.analysis.trials import typed_trials
from fmnas.platform.config.load import check_config
from fmnas.platform.experiment.events import asked_record, job_record
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import STARTED
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import Job, trials_table
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import CANCELLED, FAILED, FINISHED, LOST

RUN = "random/repeat-0"


def trial(number: int) -> Trial:
    return Trial(number, {"x1": 0.1 * number, "x2": 0.0, "h1": 0, "h2": 0}, 3, "random")


def job(number: int, attempt: int = 1) -> Job:
    return Job(RUN, trial(number), attempt)


def asked(number: int, at: float) -> dict[str, Any]:
    return asked_record(RUN, trial(number), 0.5, at)


def finished(number: int, attempt: int, at: float) -> dict[str, Any]:
    evaluation = Evaluation(1.0, epochs=3, seconds=2.0).to_dict()
    return job_record(FINISHED, job(number, attempt), "w", at, evaluation=evaluation)


def state_of(*records: dict[str, Any]) -> ExperimentState:
    data = {"name": "t", "problem": "func2c", "optimizers": ["random"], "initial_design": 3}
    config = check_config({**data, "budget": {"evaluations": 5}, "fidelity": {"epochs": 3}}, "here")
    state = ExperimentState(build_experiment(config))
    state.replay(records)
    return state


def lost(state: ExperimentState) -> dict[int, float]:
    return {outcome.trial.id: outcome.lost_seconds for outcome in (*state.outcomes, *state.cancelled())}


def start(number: int, attempt: int, at: float) -> dict[str, Any]:
    return job_record(STARTED, job(number, attempt), "w", at)


def test_attempts_on_lost_workers() -> None:
    state = state_of(
        asked(0, 9),
        start(0, 1, 10),
        job_record(LOST, job(0), "w", 14, reason="killed", final=False),
        start(0, 2, 20),
        job_record(LOST, job(0, 2), "w", 21, reason="killed", final=False),
        start(0, 3, 30),
        finished(0, 3, 33),
        asked(1, 33),
        start(1, 1, 34),
        finished(1, 1, 36),
    )
    assert lost(state) == {0: 5.0, 1: 0.0}
    trials = typed_trials(trials_table(state.outcomes, 0), "a test")
    (run,) = ledger_table(trials, Budget(5, 3)).to_dict("records")
    assert (run["lost_seconds"], run["train_seconds"], run["epochs"]) == (5.0, 4.0, 6)


def test_a_stop_cuts_an_attempt_off_and_a_resume_repeats_it() -> None:
    before = (asked(0, 9), start(0, 1, 10), job_record(CANCELLED, job(0), "w", 13, reason="stopped"))
    assert lost(state_of(*before)) == {0: 0.0}  # what its last attempt took is told by start and finish
    assert lost(state_of(*before, start(0, 2, 1000), finished(0, 2, 1002))) == {0: 3.0}


def test_what_ran_when_a_driver_died_is_lost_up_to_its_last_record() -> None:
    """Trial 0 and 1 ran; the last sign of life is 1's start. A new driver repeats both, much later."""
    state = state_of(
        asked(0, 9),
        start(0, 1, 10),
        asked(1, 11),
        start(1, 1, 16),
        start(0, 2, 1000),
        start(1, 2, 1001),
        finished(0, 2, 1003),
        finished(1, 2, 1004),
    )
    assert lost(state) == {0: 6.0, 1: 0.0}


@pytest.mark.parametrize("count", [0, 1, 2])
def test_pending_trials_are_those_asked_and_not_ended(count: int) -> None:
    records = [record for n in range(3) for record in (asked(n, 10 * n), start(n, 1, 10 * n + 1))]
    ended = [finished(n, 1, 50 + n) for n in range(3 - count)]
    pending = list(state_of(*records, *ended).pending())
    assert [(run, opened.suggest_seconds) for run, opened in pending] == [(RUN, 0.5)] * count


def test_a_failure_is_charged_by_a_clock_that_nobody_sets() -> None:
    """trials.csv has what was charged, however far the wall clock jumped meanwhile."""
    failed = job_record(FAILED, job(0), "w", 18_010, reason="ValueError", seconds=4.0)
    state = state_of(asked(0, 9), start(0, 1, 10), failed)
    (row,) = trials_table(state.outcomes, 0).to_dict("records")
    assert (row["train_seconds"], state.runs[RUN].budget.seconds_spent) == (4.0, 4.5)
