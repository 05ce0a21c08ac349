"""The driver against a scripted pool: order, budgets, stops, and resuming after any event."""

import inspect
import itertools
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import ScriptedPool, asks, configured, drive, results
from support import begin, events_of

from fmnas.baselines.random_search import RandomSearch
from fmnas.optimizers import Optimizer
from fmnas.platform.cli import main
from fmnas.platform.display.progress import Progress
from fmnas.platform.errors import Ending
from fmnas.platform.experiment.events import Asked, Begun, Ended, Event
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.ledger import fold
from fmnas.platform.experiment.observer import Observer, Observers
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import restore_state
from fmnas.platform.experiment.trial_result import Job, TrialResult
from fmnas.platform.runner.driver import Clock, Driver, RunContext
from fmnas.platform.runner.jobs import SearchJobs
from fmnas.platform.runner.run import run_experiment
from fmnas.platform.workers.cancellation import StopRequest
from fmnas.platform.workers.factory import open_pool
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import CANCELLED
from fmnas.trainers.functions.synthetic import FunctionTrainer


def test_every_optimizer_spends_the_same_and_no_more(tmp_path: Path) -> None:
    status, state, _ = drive(configured(), tmp_path / "j")
    assert status == Ending.FINISHED
    for run in state.ledger.runs.values():
        assert run.budget.committed == 0
        assert 15 - 3 < run.budget.spent <= 15
        assert run.optimizer == "bohb" or run.budget.spent == 15


def test_training_takes_its_part_of_the_seconds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Suggestions are free here; while 5 seconds are not spent, another trial starts."""
    evaluate = FunctionTrainer.evaluate

    def evaluate_slowly(self: FunctionTrainer, trial: Trial) -> Evaluation:
        return replace(evaluate(self, trial), seconds=2.5)

    monkeypatch.setattr(FunctionTrainer, "evaluate", evaluate_slowly)
    status, state, _ = drive(configured(budget={"evaluations": 5, "seconds": 5.0}), tmp_path / "j")
    assert status == Ending.FINISHED
    assert {(run.ended, run.budget.seconds_spent) for run in state.ledger.runs.values()} == {(2, 5.0)}


def test_what_a_failed_training_took_counts_as_its_seconds(tmp_path: Path) -> None:
    """On the scripted clock an ask, a training from its start to its end, and a tell take half a second each."""
    config = configured(optimizers=["random"], budget={"evaluations": 5, "seconds": 4.0})
    ticks = itertools.count()
    _, state, _ = drive(config, tmp_path / "j", fate=lambda job: "fail", elapsed=lambda: next(ticks) / 2)
    (run,) = state.ledger.runs.values()
    assert (run.ended, run.budget.seconds_spent) == (3, 4.0)


def test_the_run_that_has_spent_least_goes_first(tmp_path: Path) -> None:
    """So an experiment that is cut compares runs that came equally far."""
    optimizers = ["random", "bohb"]
    drive(configured(repeats=2, optimizers=optimizers), tmp_path / "j")
    order = [(run, int(json.loads(trial)["epochs"])) for run, trial in asks(tmp_path / "j")]
    assert [run for run, _ in order[:4]] == [f"{name}/repeat-{r}" for r in (0, 1) for name in optimizers]
    spent = dict.fromkeys((run for run, _ in order), 0)
    for number, (run, epochs) in enumerate(order):
        on_their_way = {other for other, _ in order[number:]}
        assert spent[run] == min(spent[other] for other in on_their_way)
        spent[run] += epochs


def test_no_result_reaches_the_optimizer_before_it_is_on_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[int] = []
    monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(len(results(tmp_path / "j"))))
    results_on_disk: list[int] = []
    tell = Optimizer.tell

    def note(self: Optimizer, trial: Trial, evaluation: Evaluation | float) -> None:
        results_on_disk.append(synced[-1])
        tell(self, trial, evaluation)

    monkeypatch.setattr(Optimizer, "tell", note)
    drive(configured(optimizers=["random"]), tmp_path / "j")
    assert results_on_disk == [1, 2, 3, 4, 5]


def test_the_runs_of_a_repeat_begin_with_the_same_results(tmp_path: Path) -> None:
    optimizers = ["random", {"name": "regularized-evolution", "population": 4, "tournament": 2}]
    drive(configured(repeats=2, optimizers=optimizers), tmp_path / "j")
    objectives = results(tmp_path / "j")
    for repeat, trial in itertools.product(("repeat-0", "repeat-1"), range(3)):
        assert objectives[f"random/{repeat}", trial] == objectives[f"regularized-evolution/{repeat}", trial]
    assert objectives["random/repeat-0", 0] != objectives["random/repeat-1", 0]


def test_the_incumbent_counts_full_fidelity_alone(tmp_path: Path) -> None:
    _, state, _ = drive(configured(optimizers=["bohb"]), tmp_path / "j")
    full = [o.evaluation.objective for o in state.ledger.results if o.evaluation and o.trial.epochs == 3]
    assert any(o.trial.epochs == 1 for o in state.ledger.results)
    assert state.ledger.runs["bohb/repeat-0"].incumbent == min(full)


def test_a_run_never_has_more_in_flight_than_its_concurrency(tmp_path: Path) -> None:
    config = configured(optimizers=[{"name": "random", "concurrency": 3}, {"name": "bohb", "concurrency": 1}])
    _, state, pool = drive(config, tmp_path / "j", capacity=8)
    assert pool.most == 4
    assert all(12 < run.budget.spent <= 15 for run in state.ledger.runs.values())


def test_epochs_in_flight_count_when_the_next_run_is_chosen(tmp_path: Path) -> None:
    entries = [{"name": "random", "label": label, "concurrency": 3} for label in ("a", "b")]
    drive(configured(optimizers=entries), tmp_path / "j", capacity=6)
    assert [run for run, _ in asks(tmp_path / "j")][:6] == ["a/repeat-0", "b/repeat-0"] * 3


def test_a_stop_starts_nothing_new_and_waits_for_what_runs(tmp_path: Path) -> None:
    stop = StopRequest()

    def stop_at_the_fourth(job: Job) -> str:
        if job.trial.id == 3:
            stop.request()
        return "finish"

    status, state, _ = drive(configured(optimizers=["random"]), tmp_path / "j", fate=stop_at_the_fourth, stop=stop)
    assert status == Ending.INTERRUPTED
    assert len(state.ledger.results) == 4
    assert not state.ledger.pending


def test_two_stops_leave_what_runs_for_the_resume(tmp_path: Path) -> None:
    stop = StopRequest(count=0)

    def stop_twice(job: Job) -> str:
        stop.count = 2
        return "finish"

    config = configured(optimizers=[{"name": "random", "concurrency": 3}])
    status, state, _ = drive(config, tmp_path / "j", capacity=3, fate=stop_twice, stop=stop)
    assert status == Ending.INTERRUPTED
    assert len(state.ledger.pending) == 2
    assert [o.status for o in state.ledger.cancelled_results()] == [CANCELLED] * 2
    status, state, _ = drive(config, tmp_path / "j", capacity=3)
    assert status == Ending.FINISHED
    assert sorted(key[1] for key in results(tmp_path / "j")) == [0, 1, 2, 3, 4]
    assert sorted(o.attempt for o in state.ledger.results) == [1, 1, 1, 2, 2]
    assert not list(state.ledger.cancelled_results())


def test_a_second_stop_does_not_wait_for_an_optimizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stop = StopRequest()

    def think(self: object, rng: object) -> None:
        stop.count = 2
        while True:
            time.sleep(0.01)

    monkeypatch.setattr("fmnas.baselines.random_search.RandomSearch._suggest", think)
    status, state, _ = drive(configured(optimizers=["random"]), tmp_path / "j", stop=stop)
    assert status == Ending.INTERRUPTED
    assert len(state.ledger.results) == 3  # the initial design


def test_a_trial_asked_while_a_stop_comes_is_left_for_the_resume(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stop, config, ask = StopRequest(), configured(optimizers=["random"]), Optimizer.ask

    def ask_while_stopped(self: Optimizer) -> Any:
        stop.request()
        return ask(self)

    with monkeypatch.context() as patch:
        patch.setattr(Optimizer, "ask", ask_while_stopped)
        assert drive(config, tmp_path / "j", stop=stop)[0] == Ending.INTERRUPTED
    assert [type(event) for event in read_journal(tmp_path / "j")] == [Begun, Asked, Ended]
    status, _, _ = drive(config, tmp_path / "j")
    assert status == Ending.FINISHED
    assert len(results(tmp_path / "j")) == 5


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The journal of a run that nothing disturbed."""
    journal = tmp_path_factory.mktemp("whole") / "j"
    drive(configured(), journal)
    return journal


@settings(max_examples=10)
@given(data=st.data())
def test_a_run_cut_anywhere_and_resumed_asks_what_it_would_have_asked(
    data: st.DataObject,
    uninterrupted: Path,
    tmp_path_factory: pytest.TempPathFactory,
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


def test_the_live_ledger_is_the_folded_journal(tmp_path: Path) -> None:
    fates = itertools.cycle(["finish", "lose", "fail", "finish", "time out"])
    config = configured(workers={"failures": 100})
    _, state, _ = drive(config, tmp_path / "j", capacity=3, fate=lambda job: next(fates))
    assert fold(read_journal(tmp_path / "j")) == state.ledger


class Recorder(Observer):
    """Records the results, and raises after that if it is to fail."""

    def __init__(self, fails: bool = False) -> None:
        self.calls: list[Any] = []
        self._fails = fails

    def _note(self, what: Any) -> None:
        self.calls.append(what)
        if self._fails:
            raise ValueError("an observer's mistake")

    def on_event(self, event: Event, result: TrialResult | None) -> None:
        self._note((event, result))

    def on_suggesting(self, run: str) -> None:
        self._note(run)


def test_observers_see_every_event_and_their_exceptions_end_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    config = configured(optimizers=["random"])
    begin(tmp_path / "j", config)
    state = restore_state(build_experiment(config), read_journal(tmp_path / "j"))
    broken, recorder = Recorder(fails=True), Recorder()
    with Journal(tmp_path / "j") as journal:
        observers = Observers([broken, recorder])
        driver = Driver(state, SearchJobs(state), journal, ScriptedPool(state), observers, RunContext())
        assert driver.run() == (Ending.FINISHED, "")
    seen = [call for call in recorder.calls if isinstance(call, tuple)]
    assert [event for event, _ in seen] == read_journal(tmp_path / "j")[1:]
    assert [result for _, result in seen if result] == state.ledger.results
    assert [call for call in recorder.calls if isinstance(call, str)] == ["random/repeat-0", ""] * 5
    assert broken.calls == recorder.calls
    assert len(caplog.records) == 1


def test_no_worker_is_held_while_the_results_are_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    @contextmanager
    def open_recorded(*arguments: Any) -> Iterator[Any]:
        with open_pool(*arguments) as pool:
            yield pool
        calls.append("workers are gone")

    class Last(Observer):
        def on_end(self, status: str, reason: str) -> None:
            calls.append(status)

    monkeypatch.setattr("fmnas.platform.runner.plan.open_pool", open_recorded)
    config = configured(optimizers=["random"], workers={"kind": "in-process"})
    run_experiment(config, RunDirectory(tmp_path / "run"), RunContext([Last()]))
    assert calls == ["workers are gone", "finished"]


def test_the_time_of_observers_is_not_that_of_suggestions(tmp_path: Path) -> None:
    class Slow(Observer):
        seconds = 0.0

        def on_suggesting(self, run: str) -> None:
            self.seconds += 10.0

    config, slow = configured(optimizers=["random"]), Slow()
    begin(tmp_path / "j", config)
    state = restore_state(build_experiment(config), read_journal(tmp_path / "j"))
    context = RunContext(clock=Clock(now=lambda: 1e9, elapsed=lambda: slow.seconds))
    with Journal(tmp_path / "j") as journal:
        Driver(state, SearchJobs(state), journal, ScriptedPool(state), Observers([slow]), context).run()
    assert slow.seconds == 100.0
    assert [event.suggest_seconds for event in events_of(tmp_path / "j", Asked)] == [0.0] * 5


def test_the_seconds_of_a_tell_are_added_to_the_next_suggestion_of_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, tell = [0.0], RandomSearch.tell

    def tell_slowly(self: RandomSearch, trial: Trial, result: Evaluation) -> None:
        now[0] += 3.0
        tell(self, trial, result)

    monkeypatch.setattr(RandomSearch, "tell", tell_slowly)
    config = configured(optimizers=["random", "regularized-evolution"])
    drive(config, tmp_path / "j", elapsed=lambda: now[0])
    asked = events_of(tmp_path / "j", Asked)
    assert [event.suggest_seconds for event in asked if event.run == "random/repeat-0"] == [0.0] + [3.0] * 4
    assert {event.suggest_seconds for event in asked if event.run != "random/repeat-0"} == {0.0}


def test_an_optimizer_and_a_reader_are_few_calls_away(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Functions of ours from `main` on, with the last one: eight to `ask`, nine to an observer."""
    depths: dict[str, int] = {}

    def measure(kind: type, name: str) -> None:
        original = getattr(kind, name)

        def record_depth(*arguments: Any) -> Any:
            modules = [str(caller.frame.f_globals["__name__"]) for caller in inspect.stack(0)]
            if arguments[-1] is not None:  # of events, those with a result
                depths[name] = 1 + sum(module.startswith("fmnas.") for module in modules)
            return original(*arguments)

        monkeypatch.setattr(kind, name, record_depth)

    measure(Optimizer, "ask")
    measure(Progress, "on_event")
    flags = ["workers.kind=in-process", "tracking.enabled=false", "optimizers=[random]"]
    assert (
        main(["run", "smoke", "--out", str(tmp_path / "run"), *(part for flag in flags for part in ("-o", flag))]) == 0
    )
    assert depths == {"ask": 8, "on_event": 9}
