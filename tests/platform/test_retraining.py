"""The loop that retrains, against a scripted pool: what is trained, with which seeds, and what becomes of failures."""

from collections import deque
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.display.modes import Happening, QuietScreen
from fmnas.platform.display.progress import RetrainingProgress
from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.experiment import derived_seed
from fmnas.platform.experiment.retrained import RetrainedRow, Scale, write_retrained
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.trial_result import Job, Outcome
from fmnas.platform.runner.driver import Clock, Stage
from fmnas.platform.runner.retraining import Retraining, _there, retraining_job, retraining_seed
from fmnas.platform.workers.cancellation import StopRequest
from fmnas.platform.workers.pool import Event, FailedEvaluation
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED, FINISHED, LOST
from fmnas.trainers.images.batches import streams

SCALE = Scale(epochs=5, images=40, seeds=2)
NUMBERS = st.integers(0, 2**32 - 1)


def outcome(run: str, number: int, objective: float | None, epochs: int = 3) -> Outcome:
    name, _, repeat = run.partition("/repeat-")
    trial = Trial(number, {"x": number}, epochs, "model", parent=1, seed=7, note="n", memo=(1.0,))
    evaluation = None if objective is None else Evaluation(objective, epochs, (objective, objective))
    status = FAILED if evaluation is None else FINISHED
    return Outcome(name, int(repeat), trial, status, evaluation, 0.0, 0.0, 1.0, "w")


class Watching(QuietScreen):
    """Remembers what happened."""

    def __init__(self) -> None:
        self.happened: list[Happening] = []

    def tell(self, happening: Happening) -> None:
        self.happened.append(happening)


class ScriptedPool:
    """Ends jobs in their order; `fate` says how."""

    def __init__(self, fate: Callable[[Job], str], capacity: int) -> None:
        self.fate, self.capacity = fate, capacity
        self.submitted: list[Job] = []
        self._flying: deque[Job] = deque()

    def submit(self, job: Job) -> str:
        self.submitted.append(job)
        self._flying.append(job)
        assert len(self._flying) <= self.capacity
        return "w"

    def next_event(self, timeout: float) -> Event | None:
        job = self._flying.popleft()
        fate = self.fate(job)
        if fate == "lose":
            return Event(job, "w", FailedEvaluation(LOST, "killed"))
        if fate == "fail":
            return Event(job, "w", FailedEvaluation(FAILED, "ValueError: no"))
        return Event(job, "w@here:1", Evaluation(0.4, job.trial.epochs, (0.25, 0.5), seconds=2.0))


CHOSEN = [outcome(f"{name}/repeat-{repeat}", 3 + repeat, 0.1) for name in ("bohb", "random") for repeat in (0, 1)]


class Scene:
    """A retraining and all that belongs to it."""

    def __init__(self, fate: Callable[[Job], str] = lambda job: "finish", capacity: int = 2, **workers: Any) -> None:
        self.pool, self.screen, self.stop = ScriptedPool(fate, capacity), Watching(), StopRequest()
        self.kept: list[RetrainedRow] = []
        progress = RetrainingProgress(self.screen, CHOSEN, {}, ("t", SCALE), lambda: capacity, elapsed=lambda: 0.0)
        stage = Stage(self.pool, progress, self.stop, Clock(now=lambda: 60.0))
        self.retraining = Retraining(CHOSEN, 0, SCALE, 15, WorkersConfig(**workers), stage, self.kept.append)

    def events(self, name: str) -> list[dict[str, Any]]:
        return [dict(happening.facts) for happening in self.screen.happened if happening.event == name]


@given(seed=NUMBERS, repeat=st.integers(0, 99), trial=st.integers(0, 999))
def test_fresh_seeds_are_a_function_of_three_numbers_and_never_a_searchs(seed: int, repeat: int, trial: int) -> None:
    fresh = retraining_seed(seed, repeat, trial)
    assert fresh == retraining_seed(seed, repeat, trial)
    assert fresh != retraining_seed(seed, repeat, trial + 1)
    assert fresh != retraining_seed(seed, repeat + 1, trial)
    assert fresh != retraining_seed(seed + 1, repeat, trial)
    assert 2**32 <= fresh < 2**63
    assert fresh % 2**32 != derived_seed(seed, repeat, trial)


def test_a_fresh_seed_gives_no_stream_that_its_lower_half_gives() -> None:
    fresh = retraining_seed(0, 0, 0)
    searched = {streams(fresh % 2**32, number).order.initial_seed() for number in range(50)}
    assert not searched & {streams(fresh, number).order.initial_seed() for number in range(50)}


def test_a_job_has_the_configuration_and_nothing_of_the_searchs_chance() -> None:
    job = retraining_job(CHOSEN[1], seed=9, epochs=5)
    assert (job.run, job.attempt) == ("bohb/repeat-1", 1)
    assert job.trial == Trial(4, {"x": 4}, 5, "model", parent=1, seed=retraining_seed(9, 1, 4))


def test_every_one_is_trained_once_and_kept_before_it_is_told() -> None:
    scene = Scene()
    assert scene.retraining.run() == Ending.FINISHED
    assert [job.run for job in scene.pool.submitted] == [each.run for each in CHOSEN]
    assert [row.run for row in scene.kept] == [each.run for each in CHOSEN]
    row = scene.kept[3]
    assert row == RetrainedRow(
        run="random/repeat-1",
        optimizer="random",
        repeat=1,
        trial=4,
        selected_objective=0.1,
        selected_error=0.1,
        errors=(0.25, 0.5),
        epochs=5,
        images=40,
        test_images=15,
        train_seconds=2.0,
        started_at="1970-01-01T00:01:00.000+00:00",
        finished_at="1970-01-01T00:01:00.000+00:00",
        worker="w@here:1",
    )
    assert (row.error, row.scale) == (0.375, SCALE)
    assert [told["done"] for told in scene.events("ended")] == [1, 2, 3, 4]
    assert scene.events("ended")[0]["test_error"] == 0.375
    assert not scene.stop.heeded


def test_what_cannot_be_kept_is_not_told() -> None:
    scene = Scene()

    def full(row: RetrainedRow) -> None:
        raise ExperimentFailed("the disk is full")

    scene.retraining._keep = full
    with pytest.raises(ExperimentFailed, match="the disk is full"):
        scene.retraining.run()
    assert not scene.events("ended")


def test_a_lost_worker_is_tried_again_and_given_up_in_the_end() -> None:
    once = Scene(lambda job: "lose" if job.attempt == 1 and job.run == "random/repeat-0" else "finish")
    assert once.retraining.run() == Ending.FINISHED
    assert len(once.kept) == 4
    assert [(told["run"], told["attempt"]) for told in once.events("lost")] == [("random/repeat-0", 1)]
    always = Scene(lambda job: "lose" if job.run == "random/repeat-0" else "finish", attempts=2)
    with pytest.raises(ExperimentFailed, match=r"1 retraining\(s\) failed, .*random/repeat-0, trial 3: killed"):
        always.retraining.run()
    assert len(always.kept) == 3
    assert [told["attempt"] for told in always.events("failed")] == [2]


def test_one_failure_does_not_keep_the_others_from_being_trained() -> None:
    scene = Scene(lambda job: "fail" if job.run == "bohb/repeat-0" else "finish")
    with pytest.raises(ExperimentFailed, match="bohb/repeat-0, trial 3: ValueError: no"):
        scene.retraining.run()
    assert len(scene.kept) == 3


def test_too_many_failures_in_a_row_end_it() -> None:
    scene = Scene(lambda job: "fail", capacity=1, failures=2)
    with pytest.raises(ExperimentFailed, match="2 retrainings in a row failed"):
        scene.retraining.run()
    assert len(scene.pool.submitted) == 2


@pytest.mark.parametrize(("requests", "trained"), [(1, 2), (2, 1)])
def test_a_stop_waits_for_what_runs_and_a_second_does_not(requests: int, trained: int) -> None:
    scene = Scene(lambda job: "finish")

    def stop(job: Job) -> str:
        if not scene.stop.count:
            scene.stop.count = requests
        return "finish"

    scene.pool.fate = stop
    assert scene.retraining.run() == Ending.INTERRUPTED
    assert len(scene.kept) == trained


def test_a_row_is_kept_only_for_the_trial_that_is_still_the_best(tmp_path: Path) -> None:
    scene = Scene()
    scene.retraining.run()
    older, *others = scene.kept
    directory = RunDirectory(tmp_path)
    write_retrained(directory.retrained, [replace(older, trial=older.trial + 1), *others])
    assert _there(directory, CHOSEN, SCALE) == {row.run: row for row in others}
