"""What the driver costs: trials that do nothing, per second; bytes of journal per trial; seconds to resume.

    python benchmarks/overhead.py [--quick] [--json FILE]

Every trial is asked, journalled three times with fsync, dispatched, observed and logged to MLflow (SQLite, in a
thread). In-process, the pool only counts its jobs; on Ray, workers of this machine answer at once. Seconds are of the
loop, from the first suggestion to the last result; the last column is until MLflow has all, for which nothing waits.
The optimizer is random search. A resume reads the journal and applies it; MLflow is not asked.
"""

import argparse
import json
import os
import tempfile
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")


from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config, WorkersConfig
from fmnas.platform.experiment.events import FORMAT, Begun
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.observer import Observers
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import restore_state
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.mlflow.client import MlflowExperiment, prepare_own_store
from fmnas.platform.mlflow.reconciler import Reconciler
from fmnas.platform.mlflow.settings import TrackingSettings
from fmnas.platform.mlflow.sync import MlflowSync
from fmnas.platform.runner.driver import Driver, RunContext
from fmnas.platform.runner.jobs import SearchJobs
from fmnas.platform.workers.cluster import connect
from fmnas.platform.workers.pool import JobEnded, Pool
from fmnas.platform.workers.ray_pool import RayPool
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.contract import Report, Stop, never_stop, no_report


class Idle:
    """A trainer that does nothing."""

    def __init__(self, data: None = None) -> None:
        pass

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        """The trial's number."""
        report(0, trial.epochs, 0.0)
        return Evaluation(float(trial.id), epochs=trial.epochs)


class Counting:
    """A pool without workers: jobs are answered in the order in which they came."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._jobs: deque[Job] = deque()

    def submit(self, job: Job) -> str:
        """Take it."""
        self._jobs.append(job)
        return "nobody"

    def next_event(self, timeout: float) -> JobEnded | None:
        """Answer the oldest."""
        job = self._jobs.popleft()
        return JobEnded(job, "nobody", Idle().evaluate(job.trial))


@dataclass
class Row:
    """A line of the table. flushed: seconds until MLflow had all; None without it."""

    where: str
    workers: int
    trials: int
    loop: float
    flushed: float | None

    def show(self) -> str:
        """Of the table."""
        milliseconds, rate = 1000 * self.loop / self.trials, self.trials / self.loop
        flushed = "" if self.flushed is None else f"{1000 * self.flushed / self.trials:.1f} ms"
        return f"{self.where:<22} {self.workers:>7} {self.trials:>7} {milliseconds:>9.2f} ms {rate:>9.0f} {flushed:>12}"


def make_config(workers: int, trials: int) -> Config:
    """Random search alone, over the problem with the most values per trial that needs no data: the cell's."""
    optimizers = [{"name": "random", "concurrency": workers}]
    data = {"name": "overhead", "problem": "joint", "optimizers": optimizers}
    return check_config({**data, "budget": {"evaluations": trials}, "fidelity": {"epochs": 1}}, "overhead")


def mlflow(folder: Path) -> MlflowSync:
    """Log to SQLite; the database is made before the clock runs."""
    uri = f"sqlite:///{folder}/mlflow.db"
    settings = TrackingSettings(uri, "overhead", "overhead", artifacts=folder / "files", is_own=True)
    prepare_own_store(settings)
    MlflowExperiment(settings)
    return MlflowSync(Reconciler(settings, RunDirectory(folder)), flush_seconds=3600.0)


def drive(pool: Pool, config: Config, folder: Path, tracked: bool) -> tuple[float, float | None]:
    """Seconds of the loop, and until everything was flushed."""
    while not pool.capacity:
        pool.next_event(0.5)
    with Journal(folder / "journal.jsonl") as journal:
        journal.append(Begun("overhead", FORMAT, config.model_dump(mode="json"), time.time()))
        state = restore_state(build_experiment(config), read_journal(journal.path))
        tracker = mlflow(folder) if tracked else None
        if tracker is not None:
            tracker.start()
        began = time.perf_counter()
        Driver(state, SearchJobs(state), journal, pool, Observers(), RunContext()).run()
        loop = time.perf_counter() - began
    if tracker is None:
        return loop, None
    report = tracker.finish("finished", len(state.ledger.results))
    if report.missed:
        raise SystemExit(f"MLflow missed {report.missed}: {report.reason}")
    return loop, time.perf_counter() - began


def resume(config: Config, journal: Path) -> float:
    """Seconds until the state is there again."""
    began = time.perf_counter()
    ledger = restore_state(build_experiment(config), read_journal(journal)).ledger
    if ledger.pending or len(ledger.results) != config.budget.evaluations:
        raise SystemExit(f"{journal}: {len(ledger.results)} results came back")
    return time.perf_counter() - began


def on_ray(counts: list[int], trials: int, folder: Path) -> list[Row]:
    """With that many workers, which share the CPUs."""
    rows, ray = [], connect(None)
    try:
        for count in counts:
            workers = WorkersConfig(cpus=0.01)
            pool = RayPool(ray, Idle, None, workers, count)
            while pool.capacity < count:  # all are built, so that the loop alone is measured
                pool.next_event(0.5)
                time.sleep(0.01)
            place = folder / f"ray-{count}"
            place.mkdir()
            rows.append(Row("Ray, MLflow", count, trials, *drive(pool, make_config(count, trials), place, True)))
            pool.close()
    finally:
        ray.shutdown()
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer trials, and no 100 workers on Ray")
    parser.add_argument("--ray-workers", type=int, nargs="+", default=None, help="default: 1 10 100")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    many, few = (1000, 200) if arguments.quick else (10_000, 1000)
    counts = arguments.ray_workers or ([1, 2] if arguments.quick else [1, 10, 100])
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for workers in (1, 10, 100):
            place = folder / f"in-process-{workers}"
            place.mkdir()
            config = make_config(workers, many)
            rows.append(Row("in-process", workers, many, *drive(Counting(workers), config, place, False)))
        seconds = resume(config, place / "journal.jsonl")
        size = (place / "journal.jsonl").stat().st_size
        place = folder / "tracked"
        place.mkdir()
        rows.append(Row("in-process, MLflow", 10, few, *drive(Counting(10), make_config(10, few), place, True)))
        rows += on_ray(counts, few, folder)
    print(f"{'':<22} {'workers':>7} {'trials':>7} {'per trial':>12} {'per s':>9} {'MLflow has all':>12}")
    for row in rows:
        print(row.show())
    print(f"journal: {size / many:.0f} bytes per trial, {size / many / 100:.1f} MB per 10,000 trials")
    print(f"resume of {many} trials: {seconds:.2f} s")
    if arguments.json:
        results = {"rows": [asdict(row) for row in rows], "journal_bytes": size, "resume_seconds": seconds}
        arguments.json.write_text(json.dumps(results, indent=2))


if __name__ == "__main__":
    main()
