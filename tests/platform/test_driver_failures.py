"""The driver against a scripted pool: lost workers, failures, timeouts, and what ends an experiment."""

from itertools import cycle
from pathlib import Path

import pytest
from scripted import configured, drive, results

from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.experiment.ledger import fold
from fmnas.platform.experiment.trial_result import Job
from fmnas.search_spaces.records import CANCELLED, FAILED, FINISHED, LOST, TIMED_OUT


class Cycle:
    """Fates of jobs in the order in which they end, again and again."""

    def __init__(self, fates: tuple[str, ...]) -> None:
        self._fates = cycle(fates)

    def __call__(self, job: Job) -> str:
        return next(self._fates)


def test_a_penalty_has_the_epochs_of_its_trial(tmp_path: Path) -> None:
    config = configured(optimizers=["bohb"], workers={"failures": 100})
    _, state, _ = drive(config, tmp_path / "j", fate=lambda job: "fail" if job.trial.epochs == 3 else "finish")
    evaluations = [
        (trial.epochs, evaluation.epochs)
        for trial, evaluation in state.experiment.runs["bohb/repeat-0"].optimizer.history
    ]
    assert set(evaluations) == {(1, 1), (3, 3)}


def test_a_trial_of_a_lost_worker_is_requeued_without_a_result(tmp_path: Path) -> None:
    lost: set[tuple[str, int]] = set()

    def lose_each_once(job: Job) -> str:
        key = job.run, job.trial.id
        first = key not in lost
        lost.add(key)
        return "lose" if first else "finish"

    _, state, _ = drive(configured(), tmp_path / "lossy", capacity=2, fate=lose_each_once)
    drive(configured(), tmp_path / "calm", capacity=2)
    assert {o.status for o in state.ledger.results} == {FINISHED}
    assert {o.attempt for o in state.ledger.results} == {2}
    assert results(tmp_path / "lossy") == results(tmp_path / "calm")


def test_a_trial_lost_too_often_is_given_up_uncharged(tmp_path: Path) -> None:
    config = configured(workers={"attempts": 2})
    _, state, _ = drive(config, tmp_path / "j", fate=lambda job: "lose" if job.trial.id == 1 else "finish")
    given_up = [o for o in state.ledger.results if o.status == LOST]
    assert {o.run for o in given_up} == set(state.ledger.runs)
    assert {o.attempt for o in given_up} == {2}
    for run in state.experiment.runs.values():
        assert 1 not in [trial.id for trial, _ in run.optimizer.history]
        spent = sum(trial.epochs for trial, _ in run.optimizer.history)
        assert state.ledger.runs[run.name].budget.spent == spent


@pytest.mark.parametrize(("policy", "fate"), [("penalty", "fail"), ("skip", "time out")])
def test_a_failure_and_a_timeout_are_charged_and_reported_as_configured(tmp_path: Path, policy: str, fate: str) -> None:
    config = configured(on_failure=policy)
    status, state, _ = drive(config, tmp_path / "j", fate=lambda job: fate if job.trial.id == 1 else "finish")
    assert status == Ending.FINISHED
    bad = [o for o in state.ledger.results if o.status != FINISHED]
    assert [(o.trial.id, o.status, bool(o.reason)) for o in bad] == [
        (1, {"fail": FAILED, "time out": TIMED_OUT}[fate], True)
    ] * len(state.ledger.runs)
    for run in state.ledger.runs.values():
        history = state.experiment.runs[run.name].optimizer.history
        objectives = {trial.id: evaluation.objective for trial, evaluation in history}
        assert objectives.get(1) == (100.0 if policy == "penalty" else None)
        assert run.budget.spent == sum(o.trial.epochs for o in state.ledger.results if o.run == run.name)
    assert fold(read_journal(tmp_path / "j")) == state.ledger


@pytest.mark.parametrize("bad", ["fail", "time out", "lose"])
def test_failures_with_results_between_them_never_end_the_experiment(tmp_path: Path, bad: str) -> None:
    """Two bad trials, one good one, and so on: more than the limit of three in all, never three in a row."""
    config = configured(optimizers=["random"], budget={"evaluations": 9}, workers={"failures": 3, "attempts": 1})
    status, state, _ = drive(config, tmp_path / "j", fate=Cycle((bad, bad, "finish")))
    assert status == Ending.FINISHED
    assert sum(outcome.status != FINISHED for outcome in state.ledger.results) > 5


def test_the_third_of_three_failures_in_a_row_ends_the_experiment_wherever_it_comes(tmp_path: Path) -> None:
    fate = Cycle(("fail", "fail", "finish", "fail", "finish", "time out", "fail", "fail"))
    with pytest.raises(ExperimentFailed, match=r"3 trials in a row failed, .*ValueError: no"):
        drive(configured(workers={"failures": 3}), tmp_path / "j", fate=fate)
    ends = [result.status for result in fold(read_journal(tmp_path / "j")).results]
    assert ends == [FAILED, FAILED, FINISHED, FAILED, FINISHED, TIMED_OUT, FAILED, FAILED]


def test_what_runs_when_the_experiment_fails_is_on_record_and_repeated_by_the_resume(tmp_path: Path) -> None:
    config = configured(optimizers=[{"name": "random", "concurrency": 3}], workers={"failures": 1})
    with pytest.raises(ExperimentFailed):
        drive(config, tmp_path / "j", capacity=3, fate=lambda job: "fail")
    cancelled = list(fold(read_journal(tmp_path / "j")).cancelled_results())
    assert [result.status for result in cancelled] == [CANCELLED] * 2
    assert all("experiment failed" in result.reason for result in cancelled)
    status, _, _ = drive(config, tmp_path / "j", capacity=3)
    assert status == Ending.FINISHED
    assert len(results(tmp_path / "j")) == 4


def test_an_optimizer_that_raises_ends_the_experiment_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, rng: object) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr("fmnas.baselines.random_search.RandomSearch._suggest", broken)
    with pytest.raises(ExperimentFailed, match="random/repeat-0: the optimizer failed: ZeroDivisionError: inside"):
        drive(configured(optimizers=["random"]), tmp_path / "j")


@pytest.mark.parametrize(("capacity", "lost"), [(1, 5), (3, 0), (3, 5)])
def test_a_last_trial_that_is_lost_for_good_is_followed_by_another(tmp_path: Path, capacity: int, lost: int) -> None:
    """Whichever it is, and whether or not others had spent the rest of the budget by then: it is not charged."""
    entry = {"name": "random", "concurrency": capacity}
    config = configured(optimizers=[entry], workers={"attempts": 1}, budget={"evaluations": 6})
    status, state, _ = drive(
        config, tmp_path / "j", capacity, fate=lambda job: "lose" if job.trial.id == lost else "finish"
    )
    (run,) = state.ledger.runs.values()
    assert (status, run.budget.spent, run.budget.epochs) == ("finished", 18, 18)
