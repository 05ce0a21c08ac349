"""A worker whose device fails is replaced and its trial repeated; in this process, which has no other, the run ends."""

import os
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from support import begin

from fmnas.platform.config.schema import Config, WorkersConfig
from fmnas.platform.errors import Ending
from fmnas.platform.experiment.events import Cancelled, Ended
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.observer import Observers
from fmnas.platform.experiment.state import restore_state
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.runner.driver import Driver, RunContext
from fmnas.platform.runner.jobs import SearchJobs
from fmnas.platform.workers import factory
from fmnas.platform.workers.cancellation import DeadlineExceeded, StopRequest
from fmnas.platform.workers.factory import PoolSpec, open_pool
from fmnas.platform.workers.in_process import InProcessPool
from fmnas.platform.workers.pool import FailedEvaluation, JobEnded, Pool, timed_out
from fmnas.platform.workers.ray_pool import RayPool
from fmnas.platform.workers.ray_worker import Worker
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED, LOST
from fmnas.trainers import DeviceFailedError, Trainer
from fmnas.trainers.problem import Hardware

pytestmark = pytest.mark.slow

GONE = "cuda:0 does not answer any more: CUDA error: uncorrectable ECC error encountered"
JOB = Job("random/repeat-0", Trial(3, {"x": 1}, 2, "random"))


class Failing:
    """A trainer whose device fails with the first trial there is, and stays so until its process ends."""

    def __init__(self, note: Path, error: type[Exception]) -> None:
        self._note, self._error, self._poisoned = note, error, False

    def evaluate(self, trial: Trial) -> Evaluation:
        if not self._note.exists():
            self._note.write_text(str(os.getpid()))
            self._poisoned = True
        if self._poisoned:
            raise self._error(GONE)
        return Evaluation(1.0, epochs=trial.epochs)


def build(note: Path, error: type[Exception], data: None) -> Failing:
    return Failing(note, error)


def test_a_worker_whose_device_fails_is_lost_with_the_reason_and_never_used_again(
    ray: Any, tmp_path: Path, answer: Callable[[Pool, Job], JobEnded]
) -> None:
    pool = RayPool(ray, partial(build, tmp_path / "note", DeviceFailedError), None, WorkersConfig(), 1)
    event = answer(pool, JOB)
    assert isinstance(event.result, FailedEvaluation)
    assert event.result.status == LOST
    assert (event.job, event.result.reason) == (JOB, f"DeviceFailedError: {GONE}")
    assert event.worker.startswith("worker-0@")
    again = replace(JOB, attempt=2)
    event = answer(pool, again)
    assert isinstance(event.result, Evaluation)
    assert event.worker.rpartition(":")[2] != (tmp_path / "note").read_text()
    pool.close()


def test_in_this_process_the_experiment_ends_uncharged_and_a_resume_repeats_the_trial(
    configured: Callable[..., Config],
    drive: Callable[..., Any],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    config, journal = configured(optimizers=["random"], budget={"evaluations": 4}), tmp_path / "journal.jsonl"
    trainer, evaluated = build_experiment(config).problem.trainer, []

    class OnAGpu:
        def evaluate(self, trial: Trial) -> Evaluation:
            evaluated.append(trial.id)
            if len(evaluated) == 3:
                raise DeviceFailedError(GONE)
            return trainer.evaluate(trial)

    begin(journal, config)
    state = restore_state(build_experiment(config), read_journal(journal))
    with Journal(journal) as log:
        driver = Driver(state, SearchJobs(state), log, InProcessPool(OnAGpu()), Observers(), RunContext())
        status, reason = driver.run()
    assert (status, "random/repeat-0, trial 2: DeviceFailedError: cuda:0" in reason) == (Ending.FAILED, True)
    assert evaluated == [0, 1, 2], "it is not tried again in this process"
    assert "DeviceFailedError" in capsys.readouterr().err
    assert state.ledger.runs["random/repeat-0"].budget.spent == 2 * config.fidelity.epochs
    assert [type(event) for event in read_journal(journal)][-2:] == [Cancelled, Ended]
    status, state, _ = drive(config, journal)
    assert status == Ending.FINISHED
    assert [outcome.status for outcome in state.ledger.results] == ["finished"] * 4


class Greedy:
    """A trainer that takes memory; it fails with `error`, and its frame holds what it took."""

    def __init__(self, error: type[BaseException]) -> None:
        self._error, self.held = error, 0

    def evaluate(self, trial: Trial) -> Evaluation:
        trainer = self

        class Memory:
            def __init__(self) -> None:
                trainer.held += 1

            def __del__(self) -> None:
                trainer.held -= 1

        memory = Memory()
        try:
            raise self._error
        except RuntimeError as error:
            raise ValueError(f"of the trial, with {memory}") from error


@pytest.mark.parametrize("error", [RuntimeError, DeadlineExceeded])
def test_a_worker_gives_back_the_memory_of_a_job_without_a_result_at_once(
    monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    trainer = Greedy(error)
    worker = Worker(lambda data: trainer, None, None)  # type: ignore[arg-type,return-value]
    held: list[int] = []
    monkeypatch.setattr(torch.cuda, "empty_cache", lambda: held.append(trainer.held))
    answer = worker.evaluate(JOB.trial, 60.0, ("r", 1))
    if error is RuntimeError:
        assert isinstance(answer, FailedEvaluation)
        assert answer.reason.startswith("ValueError: of the trial, with")
        assert answer.status == FAILED
    else:
        assert answer == timed_out(60.0)
    assert held == [0], "what it held of the GPU was free before the cache was emptied, once"


def pool_of(config: Config) -> Any:
    return open_pool(PoolSpec(config, None, 1, 1), None, StopRequest(), print)


@pytest.mark.parametrize(("gpus", "device"), [(0, "cpu"), (0.25, "cuda")])
def test_in_this_process_a_trainer_has_the_device_that_was_promised(
    monkeypatch: pytest.MonkeyPatch, configured: Callable[..., Config], gpus: float, device: str
) -> None:
    assigned: list[Hardware] = []

    def build(data: None, hardware: Hardware) -> Trainer:
        assigned.append(hardware)
        return real.trainer

    real = factory.problem("func2c")
    monkeypatch.setattr(factory, "problem", lambda *_: replace(real, build=build))
    with pool_of(configured(workers={"kind": "in-process", "gpus": gpus, "cpus": 2, "arrangement": "stacked"})):
        assert assigned == [Hardware(device, 1, "stacked")]
