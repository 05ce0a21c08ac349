"""The best configurations, trained again: what is to be trained, and the loop that has it trained.

The trainings draw from seeds of their own: a pure function of the experiment's seed, repeat and trial, and far above
2**32, where the search's seeds end.
"""

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from fmnas.platform.config import WorkersConfig
from fmnas.platform.driver import DONE, INTERRUPTED, POLL_SECONDS, Clock
from fmnas.platform.errors import ExperimentFailed
from fmnas.platform.experiment import derived_seed
from fmnas.platform.outcomes import Outcome
from fmnas.platform.pool import Event, Finished, Job, Lost, Pool
from fmnas.platform.retrained import Retrained, Scale
from fmnas.platform.retraining_progress import RetrainingProgress
from fmnas.platform.state import ExperimentState
from fmnas.platform.stop import StopRequest

NAMESPACE = 0x66696E61 << 32
"""Added to the seeds: more than any number of trainings, so no stream of random numbers is a search's either."""


def incumbents(state: ExperimentState) -> list[Outcome]:
    """The best full-fidelity outcome of each run that has one, in the order of the runs; the first of equals."""
    best: dict[str, Outcome] = {}
    for outcome, _ in state.outcomes:
        evaluation = outcome.evaluation
        if evaluation is None or outcome.trial.epochs != state.experiment.epochs:
            continue
        before = best[outcome.run].evaluation if outcome.run in best else None
        if before is None or evaluation.objective < before.objective:
            best[outcome.run] = outcome
    return [best[run] for run in state.runs if run in best]


def retraining_seed(seed: int, repeat: int, trial: int) -> int:
    """What the new trainings of a trial derive their randomness from; `seed` is the experiment's."""
    return NAMESPACE + derived_seed(seed, repeat, trial, NAMESPACE >> 32)


def retraining_job(outcome: Outcome, seed: int, epochs: int) -> Job:
    """The incumbent's configuration with fresh seeds; `seed` is the experiment's."""
    fresh = retraining_seed(seed, outcome.repeat, outcome.trial.id)
    return Job(outcome.run, replace(outcome.trial, epochs=epochs, seed=fresh, note="", memo=()))


@dataclass(frozen=True)
class Place:
    """Where a retraining happens: the pool, whom it tells, and who may stop it. keep: puts a row on disk."""

    pool: Pool
    progress: RetrainingProgress
    stop: StopRequest
    keep: Callable[[Retrained], None]
    clock: Clock = field(default_factory=Clock)


class Retraining:
    """Trains the incumbents. test_images: how many there are, for the record."""

    def __init__(
        self, chosen: Sequence[Outcome], seed: int, scale: Scale, test_images: int, workers: WorkersConfig, place: Place
    ) -> None:
        self._chosen = {outcome.run: outcome for outcome in chosen}
        self._scale, self._test_images, self._workers, self._place = scale, test_images, workers, place
        self._waiting = deque(retraining_job(outcome, seed, scale.epochs) for outcome in chosen)
        self._flying: dict[str, float] = {}  # run -> when it was started
        self._failed: list[str] = []
        self._in_a_row = 0

    def run(self) -> str:
        """Go on until all are trained or a stop is asked for: DONE or INTERRUPTED.

        Raises ExperimentFailed when some failed; at once when `workers.failures` of them did in a row.
        """
        stop = self._place.stop
        stop.heeded = True
        try:
            while self._flying or (self._waiting and not stop.count):
                self._fill()
                event = self._place.pool.next_event(POLL_SECONDS)
                if event is not None:
                    self._handle(event)
                if stop.over(self._workers.grace_seconds):
                    return INTERRUPTED
        finally:
            stop.heeded = False
        if self._failed:
            raise ExperimentFailed(f"{len(self._failed)} retraining(s) failed, the last being {self._failed[-1]}")
        return INTERRUPTED if self._waiting else DONE

    def _fill(self) -> None:
        place = self._place
        while self._waiting and len(self._flying) < place.pool.capacity and not place.stop.count:
            job = self._waiting.popleft()
            worker = place.pool.submit(job)
            self._flying[job.run] = place.clock.now()
            place.progress.started(job, worker)

    def _handle(self, event: Event) -> None:
        job, progress = event.job, self._place.progress
        started = self._flying.pop(job.run)
        if isinstance(event, Finished):
            self._in_a_row = 0
            row = self._row(event, started)
            self._place.keep(row)
            progress.ended(row)
        elif isinstance(event, Lost) and job.attempt < self._workers.attempts:
            progress.lost(job, event.worker, event.reason)
            self._waiting.append(replace(job, attempt=job.attempt + 1))
        else:
            progress.failed(job, event.worker, event.reason)
            self._count_failure(f"{job.run}, trial {job.trial.id}: {event.reason}")

    def _count_failure(self, what: str) -> None:
        self._failed.append(what)
        self._in_a_row += 1
        if self._in_a_row >= self._workers.failures:
            raise ExperimentFailed(f"{self._in_a_row} retrainings in a row failed, the last being {what}")

    def _row(self, event: Finished, started: float) -> Retrained:
        outcome, trained = self._chosen[event.job.run], event.evaluation
        searched = outcome.evaluation
        assert searched is not None
        assert searched.error is not None
        return Retrained(
            run=outcome.run,
            optimizer=outcome.optimizer,
            repeat=outcome.repeat,
            trial=outcome.trial.id,
            selected_objective=searched.objective,
            selected_error=searched.error,
            errors=trained.errors,
            epochs=self._scale.epochs,
            images=self._scale.images,
            test_images=self._test_images,
            train_seconds=round(trained.seconds, 6),
            started_at=_iso(started),
            finished_at=_iso(self._place.clock.now()),
            worker=event.worker,
        )


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds")
