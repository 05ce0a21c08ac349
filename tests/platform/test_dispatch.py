"""The loop that keeps workers busy, with the plainest of subclasses: what becomes of jobs, whoever sends them."""

from collections import Counter, deque
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.runner.driver import Clock, Dispatcher, Flight, Stage
from fmnas.platform.workers.cancellation import StopRequest
from fmnas.platform.workers.pool import Event, FailedEvaluation
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import FAILED, LOST

FINISH, FAIL, LOSE = "finish", "fail", "lose"


class Pool:
    """Ends jobs in their order, as `fates` say, then finishes them. capacity: of each call of `next_event`."""

    def __init__(self, fates: Sequence[str] = (), capacities: Sequence[int] = (2,)) -> None:
        self._fates, self._capacities = deque(fates), deque(capacities)
        self._flying: deque[Job] = deque()
        self.capacity = self._capacities.popleft()
        self.submitted: list[Job] = []

    def submit(self, job: Job) -> str:
        self.submitted.append(job)
        self._flying.append(job)
        assert len(self._flying) <= self.capacity
        return "w"

    def next_event(self, timeout: float) -> Event | None:
        if self._capacities:
            self.capacity = self._capacities.popleft()
        if not self._flying:
            return None
        job, fate = self._flying.popleft(), self._fates.popleft() if self._fates else FINISH
        if fate == FINISH:
            return Event(job, "w", Evaluation(0.5))
        return (
            Event(job, "w", FailedEvaluation(FAILED, "ValueError: no"))
            if fate == FAIL
            else Event(job, "w", FailedEvaluation(LOST, "killed"))
        )


class Plain(Dispatcher):
    """Jobs waiting, and jobs that come later; what is lost is repeated while there are attempts."""

    too_many = "{count} of them, the last {last}"

    def __init__(self, pool: Pool, stop: StopRequest, later: int = 0, **workers: int) -> None:
        clock = Clock(now=lambda: 60.0, elapsed=lambda: 7.0)
        super().__init__(Stage(pool, None, stop, clock), WorkersConfig(**workers), map(job, range(3)))
        self._later = deque(map(job, range(3, 3 + later)))
        self.flights: list[Flight] = []
        self.ended: list[tuple[Event, Flight]] = []

    def _has_more(self) -> bool:
        return bool(self._later)

    def _next_job(self) -> Job | None:
        return self._later.popleft() if self._later else None

    def _started(self, flight: Flight) -> None:
        self.flights.append(flight)

    def _ended(self, event: Event, flight: Flight) -> str:
        self.ended.append((event, flight))
        repeated = is_lost(event) and event.job.attempt < self._workers.attempts
        return "" if isinstance(event.result, Evaluation) or repeated else event.result.reason


def is_lost(event: Event) -> bool:
    return isinstance(event.result, FailedEvaluation) and event.result.status == LOST


def job(number: int) -> Job:
    return Job("a", Trial(number, {}, 1, "random"))


def test_those_that_wait_go_first_and_all_are_done() -> None:
    stop, pool = StopRequest(), Pool()
    plain = Plain(pool, stop, later=2)
    assert plain.run() == Ending.FINISHED
    assert pool.submitted == [job(number) for number in range(5)]
    assert plain.flights == [Flight(each, "w", 7.0, 60.0) for each in pool.submitted]
    assert [flight for _, flight in plain.ended] == plain.flights
    assert not stop.heeded


@given(fates=st.lists(st.sampled_from([FINISH, FAIL, LOSE]), max_size=12), failures=st.integers(1, 4))
def test_a_job_ends_once_or_is_repeated_and_failures_in_a_row_end_all(fates: list[str], failures: int) -> None:
    pool = Pool(fates)
    plain = Plain(pool, StopRequest(), later=3, attempts=2, failures=failures)
    told = ""
    try:
        assert plain.run() == Ending.FINISHED
    except ExperimentFailed as error:
        told = str(error)
    in_a_row, ends, repeated = 0, Counter[int](), Counter[int]()
    for event, flight in plain.ended:
        assert event.job == flight.job
        again = is_lost(event) and event.job.attempt == 1
        (repeated if again else ends)[event.job.trial.id] += 1
        if not again:
            in_a_row = 0 if isinstance(event.result, Evaluation) else in_a_row + 1
    last = plain.ended[-1][0].job.trial.id
    assert told.startswith(f"{failures} of them, the last a, trial {last}: ") == (in_a_row == failures)
    if not told:
        assert ends == Counter(range(6))
        assert Counter(each.trial.id for each in pool.submitted) == ends + repeated


def test_workers_that_are_not_there_yet_are_waited_for() -> None:
    pool = Pool(capacities=(0, 0, 0, 1))
    assert Plain(pool, StopRequest()).run() == Ending.FINISHED
    assert len(pool.submitted) == 3


def test_a_stop_while_a_job_is_sought_leaves_it_waiting() -> None:
    stop, pool = StopRequest(), Pool(capacities=(4,))

    class Stopping(Plain):
        def _next_job(self) -> Job | None:
            stop.ask()
            return super()._next_job()

    assert Stopping(pool, stop, later=1).run() == Ending.INTERRUPTED
    assert pool.submitted == [job(number) for number in range(3)]


@pytest.mark.parametrize(("requests", "ended"), [(1, 2), (2, 1)])
def test_a_stop_waits_for_what_runs_and_a_second_does_not(requests: int, ended: int) -> None:
    stop = StopRequest()

    class Stopping(Plain):
        def _ended(self, event: Event, flight: Flight) -> str:
            stop.count = requests
            return super()._ended(event, flight)

    plain = Stopping(Pool(), stop)
    assert plain.run() == Ending.INTERRUPTED
    assert len(plain.ended) == ended
