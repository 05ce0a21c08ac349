"""The driver against a scripted pool: order, budgets, losses, failures, stops, and resuming after any event."""

import json
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.optimizers import Optimizer
from fmnas.platform.config import Config, check_config
from fmnas.platform.driver import DONE, INTERRUPTED, Clock, Driver, Stage
from fmnas.platform.errors import ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment import build_experiment
from fmnas.platform.journal import Journal, read_journal
from fmnas.platform.outcomes import CANCELLED, FAILED, FINISHED, LOST, TIMED_OUT
from fmnas.platform.pool import Event, Failed, Finished, Job, Lost, TimedOut
from fmnas.platform.progress import ExperimentProgress
from fmnas.platform.screen import QuietScreen
from fmnas.platform.state import ExperimentState
from fmnas.platform.stop import StopRequest
from fmnas.platform.tracking import NoTracker
from fmnas.search_spaces import Evaluation, Trial

Fate = Callable[[Job], str]


def configured(**changes: Any) -> Config:
    data: dict[str, Any] = {
        "name": "t",
        "problem": "func2c",
        "optimizers": [
            {"name": "bo-fm"},
            {"name": "regularized-evolution", "population": 4, "tournament": 2},
            "bohb",
            "random",
        ],
        "initial_design": 3,
        "budget": {"evaluations": 5},
        "fidelity": {"epochs": 3},
    }
    return check_config({**data, **changes}, "here")


class ScriptedPool:
    """Evaluates in this process; `fate` says how each job ends, `pick` which of those in flight ends next."""

    def __init__(
        self, state: ExperimentState, capacity: int = 1, fate: Fate = lambda job: "finish", seed: int = 0
    ) -> None:
        self.capacity = capacity
        self._trainer = state.experiment.problem.trainer
        self._fate = fate
        self._rng = np.random.default_rng(seed)
        self._flying: deque[Job] = deque()
        self.most = 0

    def submit(self, job: Job) -> str:
        self._flying.append(job)
        self.most = max(self.most, len(self._flying))
        assert len(self._flying) <= self.capacity
        return "w"

    def next_event(self, timeout: float) -> Event | None:
        index = int(self._rng.integers(len(self._flying)))
        job = self._flying[index]
        del self._flying[index]
        fate = self._fate(job)
        if fate == "lose":
            return Lost(job, "w", "killed")
        if fate == "fail":
            return Failed(job, "w", "ValueError: no")
        if fate == "time out":
            return TimedOut(job, "w", "too slow")
        return Finished(job, "w", self._trainer.evaluate(job.trial))

    def close(self) -> None:
        pass


def drive(
    config: Config,
    journal: Path,
    capacity: int = 1,
    fate: Fate = lambda job: "finish",
    stop: StopRequest | None = None,
    elapsed: Callable[[], float] = lambda: 0.0,
) -> tuple[str, ExperimentState, ScriptedPool]:
    """Run to the end from whatever the journal holds."""
    state = ExperimentState(build_experiment(config))
    if journal.exists():
        state.replay(read_journal(journal))
    pool = ScriptedPool(state, capacity, fate)
    ticks = iter(range(10**9))
    clock = Clock(now=lambda: float(next(ticks)), elapsed=elapsed)
    with Journal(journal) as log:
        progress = ExperimentProgress(QuietScreen(), state)
        stage = Stage(pool, log, NoTracker(), progress, stop or StopRequest(), clock)
        status = Driver(state, config.workers, stage).run()
    return status, state, pool


def asks(journal: Path) -> list[tuple[str, str]]:
    """(run, trial as JSON) in the order asked."""
    return [(r["run"], json.dumps(r["trial"])) for r in read_journal(journal) if r["event"] == "asked"]


def results(journal: Path) -> dict[tuple[str, int], Any]:
    """(run, trial) -> objective; fails on a trial that finished twice."""
    found: dict[tuple[str, int], Any] = {}
    for record in read_journal(journal):
        if record["event"] == FINISHED:
            key = record["run"], record["trial"]
            assert key not in found
            found[key] = record["evaluation"]["objective"]
    return found


def test_every_optimizer_spends_the_same_and_no_more(tmp_path: Path) -> None:
    status, state, _ = drive(configured(), tmp_path / "j")
    assert status == DONE
    for run in state.runs.values():
        assert run.budget.committed == 0
        assert 15 - 3 < run.budget.spent <= 15
        assert run.optimizer_name == "bohb" or run.budget.spent == 15


def test_no_optimizer_starts_a_trial_once_its_seconds_are_spent(tmp_path: Path) -> None:
    """Every suggestion takes a second, a training next to nothing: the fifth comes too late."""
    ticks = iter(range(10**9))
    config = configured(budget={"evaluations": 5, "seconds": 4.5})
    status, state, _ = drive(config, tmp_path / "j", elapsed=lambda: float(next(ticks)))
    assert status == DONE
    assert {run.name: run.ended for run in state.runs.values()} == {f"{o.name}/repeat-0": 4 for o in config.optimizers}
    assert {len([a for a in asks(tmp_path / "j") if a[0] == run]) for run in state.runs} == {4}


def test_no_result_is_told_before_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(len(results(tmp_path / "j"))))
    told: list[int] = []
    tell = Optimizer.tell

    def note(self: Optimizer, trial: Trial, evaluation: Evaluation | float) -> None:
        told.append(synced[-1])
        tell(self, trial, evaluation)

    monkeypatch.setattr(Optimizer, "tell", note)
    drive(configured(optimizers=["random"]), tmp_path / "j")
    assert told == [1, 2, 3, 4, 5]


def test_the_runs_of_a_repeat_begin_with_the_same_results(tmp_path: Path) -> None:
    drive(configured(repeats=2), tmp_path / "j")
    found = results(tmp_path / "j")
    for repeat in (0, 1):
        for trial in range(3):
            values = {found[f"{name}/repeat-{repeat}", trial] for name in ("bo-fm", "regularized-evolution", "random")}
            assert len(values) == 1
    assert found["random/repeat-0", 0] != found["random/repeat-1", 0]


def test_the_incumbent_counts_full_fidelity_alone(tmp_path: Path) -> None:
    _, state, _ = drive(configured(optimizers=["bohb"]), tmp_path / "j")
    full = [o.evaluation.objective for o, _ in state.outcomes if o.evaluation and o.trial.epochs == 3]
    assert any(o.trial.epochs == 1 for o, _ in state.outcomes)
    assert state.runs["bohb/repeat-0"].incumbent == min(full)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_run_never_has_more_in_flight_than_its_concurrency(tmp_path: Path, concurrency: int) -> None:
    optimizers = [{"name": "random", "concurrency": concurrency}, {"name": "bohb", "concurrency": concurrency}]
    config = configured(optimizers=optimizers)
    _, state, pool = drive(config, tmp_path / "j", capacity=8)
    assert pool.most == 2 * concurrency
    assert all(12 < run.budget.spent <= 15 for run in state.runs.values())


def test_a_lost_worker_is_requeued_and_never_told(tmp_path: Path) -> None:
    lost: set[tuple[str, int]] = set()

    def lose_each_once(job: Job) -> str:
        key = job.run, job.trial.id
        first = key not in lost
        lost.add(key)
        return "lose" if first else "finish"

    _, state, _ = drive(configured(), tmp_path / "lossy", capacity=2, fate=lose_each_once)
    drive(configured(), tmp_path / "calm", capacity=2)
    assert {o.status for o, _ in state.outcomes} == {FINISHED}
    assert {o.attempt for o, _ in state.outcomes} == {2}
    assert results(tmp_path / "lossy") == results(tmp_path / "calm")


def test_a_trial_lost_too_often_is_given_up_uncharged(tmp_path: Path) -> None:
    config = configured(workers={"attempts": 2})
    _, state, _ = drive(config, tmp_path / "j", fate=lambda job: "lose" if job.trial.id == 1 else "finish")
    given_up = [o for o, _ in state.outcomes if o.status == LOST]
    assert {o.run for o in given_up} == set(state.runs)
    assert {o.attempt for o in given_up} == {2}
    for run in state.runs.values():
        assert 1 not in [trial.id for trial, _ in run.optimizer.history]
        assert run.budget.spent == sum(t.epochs for t, _ in run.optimizer.history)


def test_a_failed_trial_is_charged_and_told_as_the_penalty(tmp_path: Path) -> None:
    config = configured(optimizers=["random"])
    _, state, _ = drive(config, tmp_path / "j", fate=lambda job: "fail" if job.trial.id == 0 else "finish")
    (run,) = state.runs.values()
    outcome = next(o for o, _ in state.outcomes if o.trial.id == 0)
    assert (outcome.status, outcome.evaluation, outcome.reason) == (FAILED, None, "ValueError: no")
    assert run.optimizer.history[0][1].objective == state.experiment.problem.penalty
    assert run.budget.spent == 15
    assert run.incumbent is not None
    assert run.incumbent < state.experiment.problem.penalty


def test_too_many_failures_in_a_row_end_the_experiment(tmp_path: Path) -> None:
    with pytest.raises(ExperimentFailed, match=r"2 trials in a row failed, .*ValueError: no"):
        drive(configured(workers={"failures": 2}), tmp_path / "j", fate=lambda job: "fail")


def test_what_runs_when_the_experiment_fails_is_on_record_and_repeated_by_the_resume(tmp_path: Path) -> None:
    config = configured(optimizers=[{"name": "random", "concurrency": 3}], workers={"failures": 1})
    with pytest.raises(ExperimentFailed):
        drive(config, tmp_path / "j", capacity=3, fate=lambda job: "fail")
    state = ExperimentState(build_experiment(config))
    state.replay(read_journal(tmp_path / "j"))
    assert [outcome.status for outcome, _ in state.cancelled()] == [CANCELLED] * 2
    assert all("experiment failed" in outcome.reason for outcome, _ in state.cancelled())
    status, _, _ = drive(config, tmp_path / "j", capacity=3)
    assert status == DONE
    assert len(results(tmp_path / "j")) == 4


def test_an_optimizer_that_raises_ends_the_experiment_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(self: object, rng: object) -> None:
        raise ZeroDivisionError("inside")

    monkeypatch.setattr("fmnas.baselines.random_search.RandomSearch._suggest", broken)
    with pytest.raises(ExperimentFailed, match="random/repeat-0: the optimizer failed: ZeroDivisionError: inside"):
        drive(configured(optimizers=["random"]), tmp_path / "j")


def test_a_stop_starts_nothing_new_and_waits_for_what_runs(tmp_path: Path) -> None:
    stop = StopRequest()

    def stop_at_the_fourth(job: Job) -> str:
        if job.trial.id == 3:
            stop.ask()
        return "finish"

    status, state, _ = drive(configured(optimizers=["random"]), tmp_path / "j", fate=stop_at_the_fourth, stop=stop)
    assert status == INTERRUPTED
    assert len(state.outcomes) == 4
    assert not state.open


def test_two_stops_leave_what_runs_for_the_resume(tmp_path: Path) -> None:
    stop = StopRequest(count=0)

    def stop_twice(job: Job) -> str:
        stop.count = 2
        return "finish"

    config = configured(optimizers=[{"name": "random", "concurrency": 3}])
    status, state, _ = drive(config, tmp_path / "j", capacity=3, fate=stop_twice, stop=stop)
    assert status == INTERRUPTED
    assert len(state.open) == 2
    assert [o.status for o, _ in state.cancelled()] == [CANCELLED] * 2
    status, state, _ = drive(config, tmp_path / "j", capacity=3)
    assert status == DONE
    assert sorted(key[1] for key in results(tmp_path / "j")) == [0, 1, 2, 3, 4]
    assert sorted(o.attempt for o, _ in state.outcomes) == [1, 1, 1, 2, 2]
    assert not list(state.cancelled())


def test_a_second_stop_does_not_wait_for_an_optimizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = StopRequest()

    def think(self: object, rng: object) -> None:
        stop.count = 2
        while True:
            time.sleep(0.01)

    monkeypatch.setattr("fmnas.baselines.random_search.RandomSearch._suggest", think)
    status, state, _ = drive(configured(optimizers=["random"]), tmp_path / "j", stop=stop)
    assert status == INTERRUPTED
    assert len(state.outcomes) == 3  # the initial design


def test_a_trial_asked_while_a_stop_comes_is_left_for_the_resume(tmp_path: Path) -> None:
    stop = StopRequest()
    config = configured(optimizers=["random"])
    state = ExperimentState(build_experiment(config))
    (run,) = state.runs.values()
    ask = run.optimizer.ask

    def ask_while_stopped() -> Any:
        stop.ask()
        return ask()

    run.optimizer.ask = ask_while_stopped  # type: ignore[method-assign]
    with Journal(tmp_path / "j") as log:
        stage = Stage(ScriptedPool(state), log, NoTracker(), ExperimentProgress(QuietScreen(), state), stop)
        assert Driver(state, config.workers, stage).run() == INTERRUPTED
    assert [record["event"] for record in read_journal(tmp_path / "j")] == ["asked"]
    status, _, _ = drive(config, tmp_path / "j")
    assert status == DONE
    assert len(results(tmp_path / "j")) == 5


@pytest.mark.parametrize("policy", ["penalty", "skip"])
@pytest.mark.parametrize("fate", ["fail", "time out"])
def test_a_failure_and_a_timeout_are_charged_and_told_as_the_configuration_says(
    tmp_path: Path, policy: str, fate: str
) -> None:
    config = configured(on_failure=policy)
    status, state, _ = drive(config, tmp_path / "j", fate=lambda job: fate if job.trial.id == 1 else "finish")
    assert status == DONE
    bad = [o for o, _ in state.outcomes if o.status != FINISHED]
    assert [(o.trial.id, o.status, bool(o.reason)) for o in bad] == [
        (1, {"fail": FAILED, "time out": TIMED_OUT}[fate], True)
    ] * len(state.runs)
    for run in state.runs.values():
        told = {trial.id: evaluation.objective for trial, evaluation in run.optimizer.history}
        assert told.get(1) == (state.experiment.problem.penalty if policy == "penalty" else None)
        assert run.budget.spent == sum(o.trial.epochs for o, _ in state.outcomes if o.run == run.name)
    again = ExperimentState(build_experiment(config))
    again.replay(read_journal(tmp_path / "j"))
    assert again.outcomes == state.outcomes


def test_too_many_timeouts_in_a_row_end_the_experiment(tmp_path: Path) -> None:
    with pytest.raises(ExperimentFailed, match=r"2 trials in a row failed, .*too slow"):
        drive(configured(workers={"failures": 2}), tmp_path / "j", fate=lambda job: "time out")


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a run that nothing disturbed."""
    journal = tmp_path_factory.mktemp("whole") / "j"
    drive(configured(), journal)
    return journal


@settings(max_examples=25)
@given(data=st.data())
def test_a_run_cut_anywhere_and_resumed_asks_what_it_would_have_asked(
    data: st.DataObject, uninterrupted: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    lines = uninterrupted.read_bytes().splitlines(keepends=True)
    cut = data.draw(st.integers(0, len(lines)))
    torn = data.draw(st.integers(0, 40))
    journal = tmp_path_factory.mktemp("cut") / "j"
    rest = lines[cut][:torn] if cut < len(lines) else b""
    journal.write_bytes(b"".join(lines[:cut]) + rest)
    drive(configured(), journal)
    assert results(journal) == results(uninterrupted)
    assert sorted(asks(journal)) == sorted(asks(uninterrupted))


def test_a_missing_suggestion_is_named_even_without_numbers(uninterrupted: Path) -> None:
    records = read_journal(uninterrupted)
    place = next(i for i, record in enumerate(records) if record["event"] == "asked" and i > 4)
    damaged = records[:place] + records[place + 1 :]
    with pytest.raises(RunDirectoryError, match=r"line \d+ of the journal .* does not follow") as caught:
        ExperimentState(build_experiment(configured())).replay(damaged)
    line = int(str(caught.value).split()[1])
    assert line > place
    ExperimentState(build_experiment(configured())).replay(damaged[: line - 2])  # what it says is whole, is


@pytest.mark.parametrize(
    "record",
    [
        {"event": "asked"},
        {"event": "asked", "run": "nobody", "trial": {}},
        {"event": "finished", "run": "random/repeat-0", "trial": 99},
        {"event": "finished", "run": "random/repeat-0", "trial": [1]},
        {"event": "started", "run": 5, "trial": None},
        {"event": "lost"},
        {"event": "invented"},
        {"event": None},
    ],
)
def test_a_record_of_nonsense_is_named(uninterrupted: Path, record: dict[str, Any]) -> None:
    state = ExperimentState(build_experiment(configured()))
    with pytest.raises(RunDirectoryError, match="line 6 of the journal"):
        state.replay([*read_journal(uninterrupted)[:4], record])
