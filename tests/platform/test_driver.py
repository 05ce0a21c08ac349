"""The driver against a scripted pool: order, budgets, stops, and resuming after any event."""

import itertools
import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.optimizers import Optimizer
from fmnas.platform.config.schema import Config
from fmnas.platform.display.modes import QuietScreen
from fmnas.platform.display.progress import ExperimentProgress
from fmnas.platform.errors import Ending, RunDirectoryError
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.mlflow.sync import Tracker
from fmnas.platform.runner.driver import Driver, Stage
from fmnas.platform.workers.cancellation import StopRequest
from fmnas.platform.workers.pool import Pool
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import CANCELLED
from fmnas.trainers.functions.synthetic import FunctionTrainer

Drive = Callable[..., tuple[str, ExperimentState, Any]]
Configured = Callable[..., Config]
Results = Callable[[Path], dict[tuple[str, int], Any]]
Asks = Callable[[Path], list[tuple[str, str]]]
ScriptedPool = Callable[[ExperimentState], Pool]
OPTIMIZERS = ("bo-fm", "regularized-evolution", "bohb", "random")  # of `configured`, in its order


def test_every_optimizer_spends_the_same_and_no_more(tmp_path: Path, drive: Drive, configured: Configured) -> None:
    status, state, _ = drive(configured(), tmp_path / "j")
    assert status == Ending.FINISHED
    for run in state.runs.values():
        assert run.budget.committed == 0
        assert 15 - 3 < run.budget.spent <= 15
        assert run.optimizer_name == "bohb" or run.budget.spent == 15


def test_no_optimizer_starts_a_trial_once_its_seconds_are_spent(
    tmp_path: Path, drive: Drive, configured: Configured, asks: Asks
) -> None:
    """Every suggestion takes a second, a training next to nothing: the fifth comes too late."""
    ticks = iter(range(10**9))
    config = configured(budget={"evaluations": 5, "seconds": 4.5})
    status, state, _ = drive(config, tmp_path / "j", elapsed=lambda: float(next(ticks)))
    assert status == Ending.FINISHED
    assert {run.name: run.ended for run in state.runs.values()} == {f"{o.name}/repeat-0": 4 for o in config.optimizers}
    assert {len([a for a in asks(tmp_path / "j") if a[0] == run]) for run in state.runs} == {4}


@pytest.mark.parametrize(("seconds", "trials"), [(2.0, 3), (2.5, 2)])
def test_training_takes_its_part_of_the_seconds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float, trials: int, drive: Drive, configured: Configured
) -> None:
    """Suggestions are free here; while 5 seconds are not spent, another trial starts."""
    evaluate = FunctionTrainer.evaluate

    def evaluate_slowly(self: FunctionTrainer, trial: Trial) -> Evaluation:
        return replace(evaluate(self, trial), seconds=seconds)

    monkeypatch.setattr(FunctionTrainer, "evaluate", evaluate_slowly)
    config = configured(budget={"evaluations": 5, "seconds": 5.0})
    status, state, _ = drive(config, tmp_path / "j")
    assert status == Ending.FINISHED
    assert {run.name: run.ended for run in state.runs.values()} == dict.fromkeys(state.runs, trials)
    assert {run.budget.seconds_spent for run in state.runs.values()} == {seconds * trials}


def test_what_a_failed_training_took_counts_as_its_seconds(
    tmp_path: Path, drive: Drive, configured: Configured
) -> None:
    """On the scripted clock a suggestion takes half a second, and a training from its start to its end another half."""
    config = configured(optimizers=["random"], budget={"evaluations": 5, "seconds": 3.0})
    ticks = itertools.count()
    _, state, _ = drive(config, tmp_path / "j", fate=lambda job: "fail", elapsed=lambda: next(ticks) / 2)
    (run,) = state.runs.values()
    assert (run.ended, run.budget.seconds_spent) == (3, 3.0)


def test_the_run_that_has_spent_least_goes_first(
    tmp_path: Path, drive: Drive, configured: Configured, asks: Asks
) -> None:
    """So an experiment that is cut compares runs that came equally far."""
    drive(configured(repeats=2), tmp_path / "j")
    order = [(run, int(json.loads(trial)["epochs"])) for run, trial in asks(tmp_path / "j")]
    assert [run for run, _ in order[:8]] == [f"{o}/repeat-{r}" for r in (0, 1) for o in OPTIMIZERS]
    spent = dict.fromkeys((run for run, _ in order), 0)
    for number, (run, epochs) in enumerate(order):
        on_their_way = {other for other, _ in order[number:]}
        assert spent[run] == min(spent[other] for other in on_their_way)
        spent[run] += epochs


def test_no_result_is_told_before_it_is_on_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: Drive, configured: Configured, results: Results
) -> None:
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


def test_the_runs_of_a_repeat_begin_with_the_same_results(
    tmp_path: Path, drive: Drive, configured: Configured, results: Results
) -> None:
    drive(configured(repeats=2), tmp_path / "j")
    found = results(tmp_path / "j")
    for repeat in (0, 1):
        for trial in range(3):
            values = {found[f"{name}/repeat-{repeat}", trial] for name in ("bo-fm", "regularized-evolution", "random")}
            assert len(values) == 1
    assert found["random/repeat-0", 0] != found["random/repeat-1", 0]


def test_the_incumbent_counts_full_fidelity_alone(tmp_path: Path, drive: Drive, configured: Configured) -> None:
    _, state, _ = drive(configured(optimizers=["bohb"]), tmp_path / "j")
    full = [o.evaluation.objective for o in state.outcomes if o.evaluation and o.trial.epochs == 3]
    assert any(o.trial.epochs == 1 for o in state.outcomes)
    assert state.runs["bohb/repeat-0"].incumbent == min(full)


@pytest.mark.parametrize("concurrency", [1, 3])
def test_a_run_never_has_more_in_flight_than_its_concurrency(
    tmp_path: Path, concurrency: int, drive: Drive, configured: Configured
) -> None:
    optimizers = [{"name": "random", "concurrency": concurrency}, {"name": "bohb", "concurrency": concurrency}]
    config = configured(optimizers=optimizers)
    _, state, pool = drive(config, tmp_path / "j", capacity=8)
    assert pool.most == 2 * concurrency
    assert all(12 < run.budget.spent <= 15 for run in state.runs.values())


def test_epochs_in_flight_count_when_the_next_run_is_chosen(
    tmp_path: Path, drive: Drive, configured: Configured, asks: Asks
) -> None:
    entries = [{"name": "random", "label": label, "concurrency": 3} for label in ("a", "b")]
    drive(configured(optimizers=entries), tmp_path / "j", capacity=6)
    assert [run for run, _ in asks(tmp_path / "j")][:6] == ["a/repeat-0", "b/repeat-0"] * 3


def test_a_stop_starts_nothing_new_and_waits_for_what_runs(
    tmp_path: Path, drive: Drive, configured: Configured
) -> None:
    stop = StopRequest()

    def stop_at_the_fourth(job: Job) -> str:
        if job.trial.id == 3:
            stop.ask()
        return "finish"

    status, state, _ = drive(configured(optimizers=["random"]), tmp_path / "j", fate=stop_at_the_fourth, stop=stop)
    assert status == Ending.INTERRUPTED
    assert len(state.outcomes) == 4
    assert not state.open


def test_two_stops_leave_what_runs_for_the_resume(
    tmp_path: Path, drive: Drive, configured: Configured, results: Results
) -> None:
    stop = StopRequest(count=0)

    def stop_twice(job: Job) -> str:
        stop.count = 2
        return "finish"

    config = configured(optimizers=[{"name": "random", "concurrency": 3}])
    status, state, _ = drive(config, tmp_path / "j", capacity=3, fate=stop_twice, stop=stop)
    assert status == Ending.INTERRUPTED
    assert len(state.open) == 2
    assert [o.status for o in state.cancelled()] == [CANCELLED] * 2
    status, state, _ = drive(config, tmp_path / "j", capacity=3)
    assert status == Ending.FINISHED
    assert sorted(key[1] for key in results(tmp_path / "j")) == [0, 1, 2, 3, 4]
    assert sorted(o.attempt for o in state.outcomes) == [1, 1, 1, 2, 2]
    assert not list(state.cancelled())


def test_a_second_stop_does_not_wait_for_an_optimizer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, drive: Drive, configured: Configured
) -> None:
    stop = StopRequest()

    def think(self: object, rng: object) -> None:
        stop.count = 2
        while True:
            time.sleep(0.01)

    monkeypatch.setattr("fmnas.baselines.random_search.RandomSearch._suggest", think)
    status, state, _ = drive(configured(optimizers=["random"]), tmp_path / "j", stop=stop)
    assert status == Ending.INTERRUPTED
    assert len(state.outcomes) == 3  # the initial design


def test_a_trial_asked_while_a_stop_comes_is_left_for_the_resume(
    tmp_path: Path, drive: Drive, configured: Configured, results: Results, scripted_pool: ScriptedPool
) -> None:
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
        stage = Stage(scripted_pool(state), ExperimentProgress(QuietScreen(), state), stop)
        assert Driver(state, stage, log, Tracker()).run() == Ending.INTERRUPTED
    assert [record["event"] for record in read_journal(tmp_path / "j")] == ["asked"]
    status, _, _ = drive(config, tmp_path / "j")
    assert status == Ending.FINISHED
    assert len(results(tmp_path / "j")) == 5


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory, drive: Drive, configured: Configured) -> Path:
    """The journal of a run that nothing disturbed."""
    journal = tmp_path_factory.mktemp("whole") / "j"
    drive(configured(), journal)
    return journal


@settings(max_examples=25)
@given(data=st.data())
def test_a_run_cut_anywhere_and_resumed_asks_what_it_would_have_asked(
    data: st.DataObject,
    uninterrupted: Path,
    tmp_path_factory: pytest.TempPathFactory,
    drive: Drive,
    configured: Configured,
    results: Results,
    asks: Asks,
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


def test_a_missing_suggestion_is_named_even_without_numbers(uninterrupted: Path, configured: Configured) -> None:
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
def test_a_record_of_nonsense_is_named(uninterrupted: Path, record: dict[str, Any], configured: Configured) -> None:
    state = ExperimentState(build_experiment(configured()))
    with pytest.raises(RunDirectoryError, match="line 6 of the journal"):
        state.replay([*read_journal(uninterrupted)[:4], record])
