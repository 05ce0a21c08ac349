"""The driver's loop with incumbents to retrain, on a scripted pool: what is trained, with which seeds, and failures."""

from collections import Counter, deque
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import Ending
from fmnas.platform.experiment.events import (
    FORMAT,
    Asked,
    Begun,
    Event,
    Finished,
    Retrained,
    RetrainingBegun,
    RetrainingFailed,
    RetrainingStarted,
    Started,
)
from fmnas.platform.experiment.experiment import build_experiment, derived_seed
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.ledger import Ledger, RetrainSettings, fold
from fmnas.platform.experiment.observer import Observers
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.report.write import _outdated_notes, retrained_table
from fmnas.platform.runner.driver import Clock, Driver, RunContext
from fmnas.platform.runner.jobs import RetrainingJobs, retraining_seed, retraining_trial
from fmnas.platform.workers.pool import FailedEvaluation, JobEnded
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED, LOST

SETTINGS = RetrainSettings(epochs=5, images=40, seeds=2)
NUMBERS = st.integers(0, 2**32 - 1)
FINISH, FAIL, LOSE = "finish", "fail", "lose"


def make_config(**workers: Any) -> Config:
    data = {"name": "t", "problem": "func2c", "optimizers": ["bohb", "random"], "repeats": 2, "workers": workers}
    return check_config({**data, "budget": {"evaluations": 6}, "fidelity": {"epochs": 3}}, "here")


def trial_of(run: str, number: int, objective: float) -> list[Event]:
    trial = Trial(number, {"x1": 0.0, "x2": 0.0, "h1": 0, "h2": 0}, 3, "model", parent=0, seed=7, note="n", memo=(1.0,))
    evaluation = Evaluation(objective, 3, (objective, objective))
    key = (run, number, 1, "w")
    return [Asked(run, trial, 0.0, 1.0), Started(*key, 2.0), Finished(*key, evaluation, 3.0)]


def search_events(config: Config) -> list[Event]:
    """A finished search: the incumbent of repeat r is trial 3 + r."""
    runs = [f"{name}/repeat-{repeat}" for repeat in (0, 1) for name in ("bohb", "random")]
    trials = [event for run in runs for event in trial_of(run, 3 + int(run[-1]), 0.1)]
    return [Begun("id", FORMAT, config.model_dump(mode="json"), 0.0), *trials]


class Pool:
    """Ends jobs in their order, as `fate` says. capacities: after each call of `next_event`, the last one stays."""

    def __init__(self, fate: Callable[[Job], str], capacities: Sequence[int] = (2,)) -> None:
        self.fate, self._capacities = fate, deque(capacities)
        self.capacity = self.size = self._capacities.popleft()
        self.submitted: list[Job] = []
        self._running: deque[Job] = deque()

    def progress(self) -> dict[tuple[str, int], int]:
        return {}

    def submit(self, job: Job) -> str:
        self.submitted.append(job)
        self._running.append(job)
        assert len(self._running) <= self.capacity
        return "w@here:1"

    def next_event(self, timeout: float) -> JobEnded | None:
        if self._capacities:
            self.capacity = self._capacities.popleft()
        if not self._running:
            return None
        job = self._running.popleft()
        results = {FAIL: FailedEvaluation(FAILED, "ValueError: no"), LOSE: FailedEvaluation(LOST, "killed")}
        trained = Evaluation(0.4, job.trial.epochs, (0.25, 0.5), seconds=2.0)
        return JobEnded(job, "w@here:1", results.get(self.fate(job), trained))


class Retraining:
    """A retraining of four incumbents."""

    def __init__(self, fate: Callable[[Job], str], capacities: Sequence[int] = (2,), **workers: Any) -> None:
        config = make_config(**workers)
        self.state = ExperimentState(build_experiment(config, with_optimizers=False), fold(search_events(config)))
        self.state.ledger.apply(RetrainingBegun(5, 40, 2, tuple(self.state.ledger.runs), 9.0))
        self.pool, self.context = Pool(fate, capacities), RunContext(clock=Clock(lambda: 60.0, lambda: 0.0))
        self.events: list[Event] = []

    def run(self) -> tuple[str, str]:
        jobs = RetrainingJobs(self.state, self.state.ledger.incumbents(), SETTINGS.epochs, test_images=15)
        with TemporaryDirectory() as folder, Journal(Path(folder) / "j") as journal:
            status = Driver(self.state, jobs, journal, self.pool, Observers(), self.context).run()
            self.events = read_journal(journal.path)
        return status

    def count(self, kind: type[Event]) -> int:
        return sum(isinstance(event, kind) for event in self.events)


@given(seed=NUMBERS, repeat=st.integers(0, 99), trial=st.integers(0, 999))
def test_fresh_seeds_are_a_function_of_three_numbers_and_never_a_searchs(seed: int, repeat: int, trial: int) -> None:
    fresh = retraining_seed(seed, repeat, trial)
    neighbours = [retraining_seed(seed, repeat, trial + 1), retraining_seed(seed, repeat + 1, trial)]
    assert fresh == retraining_seed(seed, repeat, trial)
    assert fresh not in [*neighbours, retraining_seed(seed + 1, repeat, trial)]
    assert 2**32 <= fresh < 2**63
    assert fresh % 2**32 != derived_seed(seed, repeat, trial)


def test_a_job_has_the_configuration_and_nothing_of_the_searchs_chance() -> None:
    best = Retraining(lambda job: FINISH).state.ledger.incumbents()[2]
    trial = retraining_trial(best, seed=9, epochs=5)
    assert (best.run, best.trial.id) == ("bohb/repeat-1", 4)
    assert trial == Trial(4, best.trial.configuration, 5, "model", parent=0, seed=retraining_seed(9, 1, 4))


def test_every_incumbent_is_trained_once_and_is_a_row() -> None:
    retraining = Retraining(lambda job: FINISH)
    assert retraining.run() == (Ending.FINISHED, "")
    assert [job.run for job in retraining.pool.submitted] == list(retraining.state.ledger.runs)
    assert (retraining.count(RetrainingStarted), retraining.count(Retrained)) == (4, 4)
    assert not retraining.context.stop.is_checked
    table = retrained_table(retraining.state.ledger)
    assert table is not None
    assert table.to_dict("records")[3] == {
        "run": "random/repeat-1",
        "optimizer": "random",
        "repeat": 1,
        "trial": 4,
        "selected_objective": 0.1,
        "selected_error": 0.1,
        "test_error": 0.375,
        "test_error_seed_1": 0.25,
        "test_error_seed_2": 0.5,
        "epochs": 5,
        "images": 40,
        "test_images": 15,
        "train_seconds": 2.0,
        "started_at": "1970-01-01T00:01:00.000+00:00",
        "finished_at": "1970-01-01T00:01:00.000+00:00",
        "worker": "w@here:1",
    }


def test_a_row_is_kept_only_for_the_trial_that_is_still_the_best() -> None:
    retraining = Retraining(lambda job: FINISH)
    retraining.run()
    ledger = retraining.state.ledger
    assert set(ledger.current_retrained(SETTINGS)) == set(ledger.runs)
    assert _outdated_notes(retraining.state) == []
    for event in trial_of("random/repeat-1", 5, 0.05):
        ledger.apply(event)
    assert set(ledger.runs) - set(ledger.current_retrained(SETTINGS)) == {"random/repeat-1"}
    assert not ledger.current_retrained(RetrainSettings(9, 40, 2))
    table = retrained_table(ledger)
    assert table is not None
    assert set(table["run"]) == set(ledger.runs) - {"random/repeat-1"}
    (note,) = _outdated_notes(retraining.state)
    assert "1 of 4" in note.text
    assert retrained_table(Ledger()) is None


def test_a_lost_worker_is_tried_again_and_given_up_in_the_end() -> None:
    once = Retraining(lambda job: LOSE if job.attempt == 1 and job.run == "random/repeat-0" else FINISH)
    assert once.run() == (Ending.FINISHED, "")
    assert (once.count(Retrained), once.count(RetrainingFailed)) == (4, 1)
    always = Retraining(lambda job: LOSE if job.run == "random/repeat-0" else FINISH, attempts=2)
    status, reason = always.run()
    assert (status, "random/repeat-0, trial 3: killed" in reason) == (Ending.FAILED, True)
    failed = [event for event in always.events if isinstance(event, RetrainingFailed)]
    assert [(event.attempt, event.final) for event in failed] == [(1, False), (2, True)]


@settings(max_examples=30)
@given(fates=st.lists(st.sampled_from([FINISH, FAIL, LOSE]), max_size=12), failures=st.integers(1, 4))
def test_a_job_ends_once_or_is_repeated_and_failures_in_a_row_end_all(fates: list[str], failures: int) -> None:
    script = deque(fates)
    retraining = Retraining(lambda job: script.popleft() if script else FINISH, attempts=2, failures=failures)
    status, _ = retraining.run()
    in_a_row, has_failed, ends = 0, False, Counter[str]()
    for event in retraining.events:
        if isinstance(event, Retrained) or (isinstance(event, RetrainingFailed) and event.final):
            ends[event.run] += 1
        if isinstance(event, Retrained):
            in_a_row = 0
        elif isinstance(event, RetrainingFailed) and event.final:
            in_a_row, has_failed = in_a_row + 1, True
        assert in_a_row < failures or event is retraining.events[-1]
    assert set(ends.values()) <= {1}
    assert status == (Ending.FAILED if has_failed else Ending.FINISHED)
    assert len(ends) == 4 or in_a_row == failures


def test_it_waits_while_no_worker_is_ready() -> None:
    retraining = Retraining(lambda job: FINISH, capacities=(0, 0, 1, 0, 0, 2))
    assert retraining.run() == (Ending.FINISHED, "")
    assert retraining.count(Retrained) == 4


@pytest.mark.parametrize(("requests", "trained"), [(1, 2), (2, 1)])
def test_a_stop_waits_for_what_runs_and_a_second_does_not(requests: int, trained: int) -> None:
    retraining = Retraining(lambda job: FINISH)

    def stop(job: Job) -> str:
        if not retraining.context.stop.count:
            retraining.context.stop.count = requests
        return FINISH

    retraining.pool.fate = stop
    assert retraining.run() == (Ending.INTERRUPTED, "")
    assert retraining.count(Retrained) == trained
