"""Drivers and workers killed at random moments: lost trials, duplicate trials, different suggestions.

    python benchmarks/chaos.py [--kills N] [--seed N] [--quick] [--json FILE]

Drivers: small synthetic experiments with every optimizer, each run once undisturbed, and once more with `kill -9` at
random moments and a resume after each, until it is done. Workers: a small training on a Ray cluster of this machine,
of whose busy workers one is killed again and again. Starts: drivers killed in their first seconds, while MLflow makes
its store in the run directory; each is resumed, and MLflow must then have every trial.

Counted against the undisturbed run of the same seed: finished trials that are no longer there, or with another value;
trials there twice; and suggestions that are not the same (all runs have one trial in flight). For workers also the
seconds from the kill to the moment when the trial is given to a worker again. For starts, "lost" is what MLflow has
not, and "twice" what it has more than once.
"""

import argparse
import contextlib
import importlib
import json
import os
import random
import signal
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

from fmnas.platform.cli import main as fmnas
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.experiment.events import FORMAT, Asked, Begun, Event, Finished
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.observer import Observers
from fmnas.platform.experiment.state import restore_state
from fmnas.platform.experiment.trial_result import Job
from fmnas.platform.runner.driver import Driver, RunContext
from fmnas.platform.runner.jobs import SearchJobs
from fmnas.platform.workers.cluster import connect
from fmnas.platform.workers.in_process import InProcessPool
from fmnas.platform.workers.pool import JobEnded, Pool
from fmnas.platform.workers.ray_pool import RayPool
from fmnas.platform.workers.ray_worker import build_trainer
from fmnas.search_spaces import Evaluation
from fmnas.search_spaces.records import LOST
from fmnas.trainers.problem import Hardware

SYNTHETIC = ["workers.kind=in-process", "tracking.enabled=false", "budget.evaluations=12"]
TRAINING = {
    "name": "chaos",
    "problem": "joint",
    "optimizers": ["random", "regularized-evolution", "bohb"],
    "initial_design": 3,
    "seeds": 1,
    "fidelity": {"epochs": 3},
    "data": {"name": "digits", "train": 200, "validation": 64},
    "workers": {"attempts": 10**6},
}

LOADED = (
    "fmnas.optimizers.bofm",
    "fmnas.baselines.bohb",
    "fmnas.comparison.report",
    "hpbandster.optimizers.iterations",
    "hpbandster.optimizers.config_generators.bohb",
)
"""What a driver loads when it needs it: before the first is forked, so that it is killed at work and not loading."""


ENDED_TRIALS = """
    select a.value, b.value from runs join tags a using (run_uuid) join tags b using (run_uuid)
    where a.key = 'fmnas.run' and b.key = 'fmnas.trial' and end_time is not null"""


@dataclass
class Damage:
    """What was found. seconds: from each kill of a worker to the next dispatch of its trial."""

    kills: int = 0
    finished: int = 0
    lost: int = 0
    duplicates: int = 0
    divergent: int = 0
    seconds: list[float] = field(default_factory=list)

    def compare(self, whole: list[Event], events: list[Event], seen: set[tuple[str, int, float]]) -> None:
        """Add what an experiment shows. seen: the results that were on record at some kill."""
        results, expected = _results(events), set(_results(whole))
        self.finished += len(expected)
        self.lost += len((seen | expected) - set(results))
        self.duplicates += sum(count - 1 for count in Counter((run, trial) for run, trial, _ in results).values())
        self.divergent += len(_asks(whole) ^ _asks(events))


def _results(events: list[Event]) -> list[tuple[str, int, float]]:
    """(run, trial, objective) of every finished trial."""
    return [(e.run, e.trial_id, e.evaluation.objective) for e in events if isinstance(e, Finished)]


def _asks(events: list[Event]) -> set[tuple[str, str]]:
    return {(e.run, json.dumps(e.trial.to_dict())) for e in events if isinstance(e, Asked)}


def command(*arguments: str) -> int:
    """Fork a process that runs `fmnas`, so that nothing is imported again; return its pid."""
    pid = os.fork()
    if pid:
        return pid
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere), contextlib.redirect_stderr(nowhere):
        code = fmnas(list(arguments))
    os._exit(code)


def wait(pid: int) -> int:
    """Its exit code; negative: the signal that ended it."""
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def kill_drivers(kills: int, rng: random.Random, folder: Path) -> Damage:
    """Kill drivers `kills` times."""
    damage = Damage()
    while damage.kills < kills:
        seed = rng.randrange(10**6)
        flags = [flag for override in (*SYNTHETIC, f"seed={seed}") for flag in ("-o", override)]
        whole, broken = folder / f"{seed}-whole", folder / f"{seed}-broken"
        began = time.monotonic()
        if wait(command("run", "smoke", *flags, "--out", str(whole))):
            raise SystemExit(f"{whole}: the undisturbed run did not end well")
        draw_seconds = partial(rng.uniform, 0, (time.monotonic() - began) / 2)
        seen = kill_until_done(damage, kills, broken, flags, draw_seconds)
        damage.compare(read_journal(whole / "journal.jsonl"), read_journal(broken / "journal.jsonl"), seen)
        if wait(command("replay", str(broken))):
            damage.divergent += 1
    return damage


def kill_until_done(
    damage: Damage, kills: int, out: Path, flags: list[str], draw_seconds: Callable[[], float]
) -> set[tuple[str, int, float]]:
    """One experiment to its end; every result that was on record when its driver was killed.

    draw_seconds: draws how long after its start a driver is killed.
    """
    seen: set[tuple[str, int, float]] = set()
    while True:
        begun = (out / "journal.jsonl").exists() and bool(read_journal(out / "journal.jsonl"))
        if not begun and out.exists():  # killed before the first event: there is nothing to resume
            for path in sorted(out.rglob("*"), reverse=True):
                path.unlink()
            out.rmdir()
        pid = command("resume", str(out)) if begun else command("run", "smoke", *flags, "--out", str(out))
        if damage.kills < kills:
            time.sleep(draw_seconds())
            os.kill(pid, signal.SIGKILL)
        code = wait(pid)
        if code == 0:
            return seen
        if code != -signal.SIGKILL:
            raise SystemExit(f"{out}: the driver ended with code {code}")
        damage.kills += 1
        if (out / "journal.jsonl").exists():
            seen |= set(_results(read_journal(out / "journal.jsonl")))


class Killing:
    """A pool on Ray whose busy workers are killed at random moments, one at a time."""

    def __init__(self, pool: Pool, damage: Damage, kills: int, rng: random.Random) -> None:
        self._pool, self._damage, self._kills, self._rng = pool, damage, kills, rng
        self._pids: dict[str, int] = {}  # worker -> its process, once it has answered
        self._killed: dict[tuple[str, int], float] = {}  # (run, trial) -> when, in monotonic seconds
        self._flying: dict[tuple[str, int], str] = {}

    @property
    def capacity(self) -> int:
        """The pool's."""
        return self._pool.capacity

    @property
    def size(self) -> int:
        """The pool's."""
        return self._pool.size

    def submit(self, job: Job) -> str:
        """Give it to the pool; perhaps kill the worker that gets it, a moment later."""
        key = job.run, job.trial.id
        if key in self._killed:
            self._damage.seconds.append(time.monotonic() - self._killed.pop(key))
        worker = self._pool.submit(job)
        self._flying[key] = worker
        if self._damage.kills < self._kills and worker in self._pids:
            threading.Timer(self._rng.uniform(0, 0.2), self._kill, [key, worker, self._pids[worker]]).start()
        return worker

    def next_event(self, timeout: float) -> JobEnded | None:
        """The pool's."""
        event = self._pool.next_event(timeout)
        if event is not None:
            worker = self._flying.pop((event.job.run, event.job.trial.id))
            if isinstance(event.result, Evaluation):
                self._killed.pop((event.job.run, event.job.trial.id), None)
                self._pids[worker] = int(event.worker.rpartition(":")[2])
            elif event.result.status == LOST:
                self._pids.pop(worker, None)
        return event

    def _kill(self, key: tuple[str, int], worker: str, pid: int) -> None:
        if self._flying.get(key) == worker and self._damage.kills < self._kills:
            self._killed[key] = time.monotonic()
            self._damage.kills += 1
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def drive(config: Config, pool: Pool, journal: Path) -> list[Event]:
    """Run an experiment on a pool, and return its events."""
    with Journal(journal) as log:
        log.append(Begun("chaos", FORMAT, config.model_dump(mode="json"), time.time()))
        state = restore_state(build_experiment(config), read_journal(journal))
        Driver(state, SearchJobs(state), log, pool, Observers(), RunContext()).run()
    return read_journal(journal)


def kill_workers(kills: int, rng: random.Random, folder: Path) -> Damage:
    """Kill workers `kills` times."""
    damage = Damage()
    ray = connect(None)
    while damage.kills < kills:
        seed = rng.randrange(10**6)
        config = check_config({**TRAINING, "seed": seed, "budget": {"evaluations": 8}}, "chaos")
        task = build_experiment(config).problem
        data = task.load()
        whole = drive(config, InProcessPool(task.build(data, Hardware())), folder / f"{seed}-calm")
        build = partial(build_trainer, config.problem, config.problem_settings, Hardware())
        pool = RayPool(ray, build, data, config.workers, 2)
        killing = Killing(pool, damage, kills, rng)
        try:
            damage.compare(whole, drive(config, killing, folder / f"{seed}-killed"), set())
        finally:
            pool.close()
    ray.shutdown()
    return damage


def kill_starts(kills: int, rng: random.Random, folder: Path, seconds: float = 10.0) -> Damage:
    """Kill drivers `kills` times, at moments spread over their first seconds; MLflow is on."""
    damage = Damage()
    # Not forked: drivers are killed while they import MLflow, too.
    called = [sys.executable, "-m", "fmnas.platform.cli"]
    while damage.kills < kills:
        out = folder / f"start-{damage.kills}"
        flags = ["-o", "workers.kind=in-process", "-o", "optimizers=[random]", "--progress", "quiet"]
        with subprocess.Popen([*called, "run", "smoke", *flags, "--out", out], stdout=subprocess.DEVNULL) as driver:
            while not (out / "journal.jsonl").exists() and driver.poll() is None:
                time.sleep(0.01)
            time.sleep((damage.kills + rng.random()) / kills * seconds)
            driver.kill()
        damage.kills += 1
        subprocess.run([*called, "resume", out, "--progress", "quiet"], check=True, stdout=subprocess.DEVNULL)
        expected = {(run, str(trial)) for run, trial, _ in _results(read_journal(out / "journal.jsonl"))}
        with contextlib.closing(sqlite3.connect(out / "mlflow.db")) as store:
            stored = Counter(store.execute(ENDED_TRIALS).fetchall())
        damage.finished += len(expected)
        damage.lost += len(expected - set(stored))
        damage.duplicates += sum(count - 1 for count in stored.values())
    return damage


def main() -> None:
    """Kill, count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=100, help="of drivers, and of workers; of starts a tenth")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--quick", action="store_true", help="5 kills of each, 3 of starts")
    parser.add_argument("--only", choices=("drivers", "workers", "starts"), help="one part alone")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    kills = 5 if arguments.quick else arguments.kills
    for module in LOADED:
        importlib.import_module(module)
    # Drivers first: they are forked, and Ray's threads would not come along.
    parts = {
        "drivers": (kill_drivers, kills),
        "starts": (kill_starts, 3 if arguments.quick else max(3, kills // 10)),
        "workers": (kill_workers, kills),
    }
    with tempfile.TemporaryDirectory() as folder:
        chosen = {name: part for name, part in parts.items() if arguments.only in (None, name)}
        damage = {name: kill(n, random.Random(arguments.seed), Path(folder)) for name, (kill, n) in chosen.items()}
    print(f"{'':>8} {'kills':>6} {'finished':>9} {'lost':>5} {'twice':>6} {'divergent asks':>15}")
    for who, of in damage.items():
        print(f"{who:>8} {of.kills:>6} {of.finished:>9} {of.lost:>5} {of.duplicates:>6} {of.divergent:>15}")
    if "workers" in damage:
        seconds = damage["workers"].seconds
        print(
            f"from a worker's death to the next dispatch of its trial: median {statistics.median(seconds):.3f} s, "
            f"worst {max(seconds):.3f} s, of {len(seconds)}"
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({who: asdict(part) for who, part in damage.items()}, indent=2))


if __name__ == "__main__":
    main()
