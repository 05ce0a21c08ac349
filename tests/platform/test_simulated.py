"""Simulated time: when trials start and end, whatever interrupts the simulation, and how little it costs."""

import heapq
import itertools
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import configured
from support import events_of

from fmnas.platform.cli import main
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import ConfigError, Ending, RunDirectoryError
from fmnas.platform.experiment.events import Asked, Event, Finished, Started
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.ledger import Ledger, fold
from fmnas.platform.experiment.observer import Observer
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.trial_result import Job, TrialResult
from fmnas.platform.runner.driver import Clock, RunContext
from fmnas.platform.runner.run import run_experiment
from fmnas.platform.workers.pool import FailedEvaluation
from fmnas.platform.workers.simulated import BEGINNING, SimulatedPool, SimulatedTime
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED, TIMED_OUT
from fmnas.trainers import TrainingFailedError
from fmnas.trainers.functions.synthetic import FunctionTrainer

EVOLUTION = {"name": "regularized-evolution", "population": 4, "tournament": 2}


def seconds_of(trial: Trial) -> float:
    """Invented: from 1 to 8, with ties, the same for the same trial of all optimizers; in proportion to the epochs."""
    return trial.epochs * (1 + trial.seed % 8)


@pytest.fixture(scope="module", autouse=True)
def _invented_seconds() -> Iterator[None]:
    evaluate = FunctionTrainer.evaluate

    def evaluate_slowly(self: FunctionTrainer, trial: Trial) -> Evaluation:
        return replace(evaluate(self, trial), seconds=seconds_of(trial))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FunctionTrainer, "evaluate", evaluate_slowly)
        yield


def simulation(count: int, **changes: Any) -> Config:
    """A small experiment with simulated workers, whose suggestions take no time."""
    workers = {"kind": "simulated", "count": count, "suggestions": "instant", **changes.pop("workers", {})}
    return configured(**{"tracking": {"enabled": False}, "workers": workers, **changes})


def random_search(count: int, trials: int, **changes: Any) -> Config:
    optimizers = [{"name": "random", "concurrency": count}]
    return simulation(count, optimizers=optimizers, budget={"evaluations": trials}, fidelity={"epochs": 1}, **changes)


def simulate(config: Config, root: Path, **context: Any) -> Ledger:
    result = run_experiment(config, RunDirectory(root), RunContext(**context))
    assert result.status in (Ending.FINISHED, Ending.INTERRUPTED), result.reason
    return result.state.ledger


def what_happened(ledger: Ledger) -> list[tuple[Any, ...]]:
    """Everything of each trial that does not say whether the simulation was interrupted, in the order of the ends."""
    return [
        (result.run, result.trial.id, result.trial.configuration, result.objective, result.finished_at)
        for result in ledger.results
    ]


@pytest.mark.parametrize("count", [1, 64])
def test_each_worker_takes_the_next_trial_when_its_trial_ends(count: int, tmp_path: Path) -> None:
    ledger = simulate(random_search(count, 100), tmp_path / "run")
    free, expected = [BEGINNING] * count, []
    for result in sorted(ledger.results, key=lambda result: result.trial.id):
        end = heapq.heappop(free) + seconds_of(result.trial)
        heapq.heappush(free, end)
        expected.append(end)
    assert [result.finished_at for result in ledger.results] == sorted(expected)
    by_trial = {result.trial.id: result.finished_at for result in ledger.results}
    assert [by_trial[i] for i in range(100)] == expected
    assert len({result.worker for result in ledger.results}) == count
    for result in ledger.results:
        assert result.finished_at - result.started_at == result.charged_seconds == seconds_of(result.trial)


def test_workers_that_no_run_can_use_change_nothing(tmp_path: Path) -> None:
    config = simulation(2, optimizers=["random", EVOLUTION])
    ledgers = [
        simulate(config.model_copy(update={"workers": config.workers.model_copy(update={"count": n})}), tmp_path / name)
        for n, name in ((2, "two"), (64, "many"), ("auto", "auto"))
    ]
    assert what_happened(ledgers[0]) == what_happened(ledgers[1]) == what_happened(ledgers[2])


def test_equal_experiments_have_equal_times(tmp_path: Path) -> None:
    config = simulation(5, optimizers=[{"name": "random", "concurrency": 3}, {"name": "bohb", "concurrency": 2}])
    first, second = (simulate(config, tmp_path / name) for name in "ab")
    assert first.results == second.results
    assert {result.suggest_seconds for result in first.results} == {0.0}


def ticking(step: float) -> Clock:
    """A real clock on which an ask takes a step, as does a tell: it is read at the beginning and the end of each."""
    ticks = itertools.count()
    return Clock(elapsed=lambda: step * next(ticks))


def test_a_suggestion_takes_its_measured_seconds(tmp_path: Path) -> None:
    config = random_search(1, 10, workers={"suggestions": "measured"})
    ledger = simulate(config, tmp_path / "run", clock=ticking(0.5))
    assert [result.suggest_seconds for result in ledger.results] == [0.5] + [1.0] * 9  # with the tell before it
    total = sum(result.suggest_seconds + seconds_of(result.trial) for result in ledger.results)
    assert ledger.results[-1].finished_at == BEGINNING + total
    events = events_of(tmp_path / "run" / "journal.jsonl", Asked, Started, Finished)
    for asked, started in zip(events[::3], events[1::3], strict=True):
        assert asked.at == started.at


def test_workers_wait_for_an_optimizer_that_thinks_for_long(tmp_path: Path) -> None:
    """Of 64 workers few are busy, if a suggestion takes 8 seconds and no trial takes longer."""
    config = random_search(64, 80, workers={"suggestions": "measured"})
    ledger = simulate(config, tmp_path / "run", clock=ticking(8.0))
    starts = [result.started_at - BEGINNING for result in sorted(ledger.results, key=lambda result: result.trial.id)]
    assert starts == [8.0 * i for i in range(1, 65)] + [512.0 + 16.0 * i for i in range(1, 17)]  # a tell, an ask
    assert all(result.finished_at >= result.started_at + result.charged_seconds for result in ledger.results)


def test_the_seconds_of_a_budget_are_simulated(tmp_path: Path) -> None:
    config = random_search(1, 100)
    config = config.model_copy(update={"budget": config.budget.model_copy(update={"seconds": 40.0})})
    (run,) = simulate(config, tmp_path / "run").runs.values()
    assert 40.0 <= run.budget.seconds_spent < 48.0


@settings(max_examples=12)
@given(data=st.data())
def test_an_interrupted_simulation_continues_as_if_it_had_not_been(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The journal ends after any events, twice: trials are asked for, and end, as in the whole simulation."""
    folder = tmp_path_factory.mktemp("cut")
    optimizers = [{"name": "random", "concurrency": 3}, EVOLUTION | {"concurrency": 2}, "bohb"]
    config = simulation(5, optimizers=optimizers, repeats=2)
    whole = simulate(config, folder / "whole")
    for name in ("once", "twice"):
        shutil.copytree(folder / ("whole" if name == "once" else "once"), folder / name)
        journal = folder / name / "journal.jsonl"
        lines = journal.read_bytes().splitlines(keepends=True)
        cut = data.draw(st.integers(2, len(lines)))
        journal.write_bytes(b"".join(lines[:cut]))
        assert what_happened(simulate(config, folder / name)) == what_happened(whole)


class StopAfter(Observer):
    """Requests a stop after a number of results."""

    def __init__(self, results: int, ask: Callable[[], None]) -> None:
        self._left, self._ask = results, ask

    def on_event(self, event: Event, result: TrialResult | None) -> None:
        self._left -= result is not None
        if self._left == 0 and result is not None:
            self._ask()


def test_a_stopped_simulation_continues_as_if_it_had_not_been(tmp_path: Path) -> None:
    config = simulation(6, optimizers=[{"name": "random", "concurrency": 3}, EVOLUTION | {"concurrency": 3}])
    whole = simulate(config, tmp_path / "whole")
    context = RunContext()
    stopped = run_experiment(
        config, RunDirectory(tmp_path / "run"), replace(context, observers=[StopAfter(4, context.stop.request)])
    )
    assert (stopped.status, len(stopped.state.ledger.results)) == (Ending.INTERRUPTED, 4)
    assert len(list(stopped.state.ledger.cancelled_results())) == 5, "at once: nothing runs to its end meanwhile"
    ledger = simulate(config, tmp_path / "run")
    assert what_happened(ledger) == what_happened(whole)
    assert not ledger.pauses, "no simulated time passes without a driver"


def test_an_extension_continues_where_the_simulation_ended(tmp_path: Path) -> None:
    before = simulate(random_search(2, 6), tmp_path / "run").last_at
    ledger = simulate(random_search(2, 9), tmp_path / "run")
    assert [result.started_at >= before for result in ledger.results] == [False] * 6 + [True] * 3


class Answers:
    """A trainer that answers trial i with the i-th of these; an exception is raised."""

    space = None

    def __init__(self, *answers: Evaluation | Exception) -> None:
        self._answers = answers

    def evaluate(self, trial: Trial) -> Evaluation:
        answer = self._answers[trial.id]
        if isinstance(answer, Exception):
            raise answer
        return answer


def job(number: int) -> Job:
    return Job("random/repeat-0", Trial(number, {}, 1, "random"))


def pool_of(count: int, *answers: Evaluation | Exception, **options: Any) -> tuple[SimulatedPool, SimulatedTime]:
    time = SimulatedTime(100.0, options.pop("starts", None))
    return SimulatedPool(Answers(*answers), count, time, print_tracebacks=False, **options), time


def test_of_jobs_that_end_together_the_first_ends_first() -> None:
    pool, time = pool_of(4, *(Evaluation(float(i), seconds=[2, 1, 2, 1][i]) for i in range(4)))
    workers = [pool.submit(job(i)) for i in range(4)]
    assert len(set(workers)) == 4
    with pytest.raises(RuntimeError):
        pool.submit(job(4))
    ends = []
    while (event := pool.next_event(0.0)) is not None:
        ends.append((event.job.trial.id, time.now()))
        assert event.worker == workers[event.job.trial.id]
    assert ends == [(1, 101.0), (3, 101.0), (0, 102.0), (2, 102.0)]


def test_a_job_that_was_started_before_ends_as_then() -> None:
    starts = {("random/repeat-0", 0): 97.5}
    pool, time = pool_of(1, Evaluation(0.0, seconds=4.0), Evaluation(1.0, seconds=4.0), starts=starts)
    for number, end in ((0, 101.5), (1, 105.5)):
        pool.submit(job(number))
        assert pool.next_event(0.0) is not None
        assert time.now() == end


def test_a_job_that_exceeds_its_seconds_times_out_then() -> None:
    pool, time = pool_of(2, Evaluation(0.0, seconds=9.0), Evaluation(1.0, seconds=4.0), trial_seconds=5.0)
    for number in (0, 1):
        pool.submit(job(number))
    fast, slow = pool.next_event(0.0), pool.next_event(0.0)
    assert fast is not None
    assert fast.job.trial.id == 1
    assert slow is not None
    assert isinstance(slow.result, FailedEvaluation)
    assert (slow.result.status, slow.result.seconds, time.now()) == (TIMED_OUT, 5.0, 105.0)


def test_a_failed_trial_is_charged_the_seconds_that_it_took_here(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks = itertools.count()
    monkeypatch.setattr("fmnas.platform.workers.simulated.perf_counter", lambda: 2.0 * next(ticks))

    def fail(self: FunctionTrainer, trial: Trial) -> Evaluation:
        raise TrainingFailedError("no")

    monkeypatch.setattr(FunctionTrainer, "evaluate", fail)
    result = run_experiment(random_search(2, 4), RunDirectory(tmp_path / "run"), RunContext())
    assert [(one.status, one.charged_seconds) for one in result.state.ledger.results] == [(FAILED, 2.0)] * 4
    assert result.state.ledger.results[-1].finished_at == BEGINNING + 4.0


def test_a_journal_waits_for_the_disk_at_most_so_often(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced, now = [], [0.0]
    with Journal(tmp_path / "j", sync_seconds=1.0, elapsed=lambda: now[0]) as journal:
        monkeypatch.setattr("os.fsync", lambda descriptor: synced.append(now[0]))
        for step in range(12):
            now[0] = step / 4
            journal.append(Asked("r", Trial(step, {}, 1, "random"), 0.0, 0.0))
            assert (tmp_path / "j").read_bytes().count(b"\n") == step + 1, "written at once: only the disk may lack it"
        assert synced == [0.0, 1.0, 2.0]
    assert synced == [0.0, 1.0, 2.0, 2.75], "and at the end"


def test_a_simulated_journal_is_synced_seldom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = itertools.count()
    fsync = os.fsync
    monkeypatch.setattr("os.fsync", lambda descriptor: (next(synced), fsync(descriptor)))
    monkeypatch.setattr("fmnas.platform.runner.run.Journal", partial(Journal, elapsed=lambda: 0.0))
    simulate(random_search(4, 50), tmp_path / "run")
    assert next(synced) < 20, "not once for each of 50 results"


def run_command(*arguments: str) -> int:
    return main([*arguments, "--progress", "quiet"])


@pytest.fixture(scope="module")
def simulated_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The directory of a simulation by the command line."""
    folder = tmp_path_factory.mktemp("commands")
    path = folder / "experiment.json"
    data = simulation(64, optimizers=[{"name": "random", "concurrency": 3}, EVOLUTION], repeats=2)
    path.write_text(json.dumps(data.model_dump(mode="json")))
    assert run_command("run", str(path), "--out", str(folder / "run")) == 0
    return folder / "run"


def test_a_report_says_that_time_is_simulated(simulated_run: Path) -> None:
    page = (simulated_run / "report" / "index.html").read_text()
    assert "Time is simulated: 64 workers" in page
    assert "kind: simulated" in (simulated_run / "config.yaml").read_text()
    header, *rows = (simulated_run / "trials.csv").read_text().splitlines()
    workers = {row.split(",")[header.split(",").index("worker")] for row in rows}
    assert workers == {f"simulated-{i}" for i in range(8)}
    walls = (simulated_run / "report" / "ledger.csv").read_text().splitlines()
    place = walls[0].split(",").index("wall_seconds")
    ledger = fold(read_journal(simulated_run / "journal.jsonl"))
    assert len(ledger.results) == 20
    for line in walls[1:]:
        name, wall = line.split(",")[0], float(line.split(",")[place])
        assert wall == max(one.finished_at for one in ledger.results if one.run == name) - BEGINNING


def test_a_simulation_is_replayed(simulated_run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(simulated_run)]) == 0
    assert main(["status", str(simulated_run)]) == 0
    assert "finished" in capsys.readouterr().out


def test_simulated_and_real_time_are_not_mixed(
    simulated_run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(simulated_run, tmp_path / "run")
    config = tmp_path / "run" / "config.yaml"
    config.write_text(config.read_text().replace("kind: simulated", "kind: in-process"))
    assert run_command("resume", str(tmp_path / "run")) == 2
    assert "workers.kind" in capsys.readouterr().err
    path = tmp_path / "real.yaml"
    path.write_text(config.read_text().replace("\nseed: 0", "\nseed: 1").replace("suggestions: instant", ""))
    assert run_command("run", str(path), "--out", str(tmp_path / "real")) == 0
    assert main(["report", str(simulated_run), str(tmp_path / "real"), "--out", str(tmp_path / "both")]) == 2
    assert "time = " in capsys.readouterr().err


def test_simulated_retraining_is_refused_for_a_problem_without_test_data(simulated_run: Path) -> None:
    with pytest.raises(RunDirectoryError, match="test set"):
        run_experiment(simulation(1), RunDirectory(simulated_run), RunContext(), {"epochs": 1})


def test_suggestions_that_take_no_time_are_for_simulated_workers() -> None:
    for kind in ("auto", "in-process", "ray"):
        with pytest.raises(ConfigError, match=r"workers\.suggestions"):
            configured(workers={"kind": kind, "suggestions": "instant"})
