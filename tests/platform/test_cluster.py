"""A running cluster of several Ray nodes on this machine: nodes join, die and freeze, and so do drivers."""

import contextlib
import csv
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support import begin, events_of

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.errors import ClusterError, Ending
from fmnas.platform.experiment.events import Event, Finished, Lost, Started
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.observer import Observer, Observers
from fmnas.platform.experiment.state import restore_state
from fmnas.platform.experiment.trial_result import TrialResult
from fmnas.platform.runner.driver import Driver, RunContext
from fmnas.platform.runner.jobs import SearchJobs
from fmnas.platform.workers.cancellation import StopRequest
from fmnas.platform.workers.cluster import connect
from fmnas.platform.workers.ray_pool import RayPool
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.contract import Report, no_report

pytestmark = pytest.mark.slow

HEALTH = {"initial_delay_ms": 0, "period_ms": 500, "timeout_ms": 500, "failure_threshold": 3}
"""How soon the head considers a silent node dead; Ray's default is a minute."""

NODE = {"object_store_memory": 80 * 1024**2}


class Sleeper:
    """Takes a quarter of a second; the objective is the trial's id."""

    def __init__(self, data: None) -> None:
        pass

    def evaluate(self, trial: Trial, report: Report = no_report) -> Evaluation:
        time.sleep(0.25)
        return Evaluation(float(trial.id), epochs=trial.epochs)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    """A head without CPUs."""
    os.environ.setdefault("RAY_AUTH_MODE", "disabled")
    from ray import cloudpickle
    from ray.cluster_utils import Cluster

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the workers cannot import this file
    health = {f"health_check_{name}": value for name, value in HEALTH.items()}
    made = Cluster(True, head_node_args={**NODE, "num_cpus": 0, "include_dashboard": False, "_system_config": health})
    yield made
    made.shutdown()


@pytest.fixture
def ray(cluster: Any) -> Iterator[Any]:
    connected = connect(cluster.address)
    yield connected
    connected.shutdown()


def raylet(node: Any) -> int:
    return int(node.all_processes["raylet"][0].process.pid)


def tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(pid for child in children for pid in tree(int(child)))]


def send(pids: list[int], number: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


class Scripted(Observer):
    """Acts one after the other, each as soon as a trial ends and its condition holds."""

    def __init__(self, journal: Path, acts: list[tuple[Callable[[int], bool], Callable[[], None]]]) -> None:
        self._journal, self._acts, self._ended = journal, acts, 0
        self.places: list[int] = []  # how many events there were at each act

    def on_event(self, event: Event, result: TrialResult | None) -> None:
        self._ended += result is not None
        if result is not None and self._acts and self._acts[0][0](self._ended):
            self.places.append(len(read_journal(self._journal)))
            self._acts.pop(0)[1]()
            self._ended = 0


def running_after(events: list[Event]) -> list[int]:
    """How many trials were running after each event."""
    counts, running = [], 0
    for event in events:
        running += isinstance(event, Started) - isinstance(event, Finished | Lost)
        counts.append(running)
    return counts


def test_nodes_come_die_and_freeze(cluster: Any, ray: Any, tmp_path: Path) -> None:
    """Two nodes at first, of a CPU each; a third with two CPUs comes; one is killed; the third freezes, and thaws."""
    first, second = (cluster.add_node(**NODE, num_cpus=1) for _ in range(2))
    later: list[Any] = []
    frozen: list[int] = []
    stop = StopRequest()

    def freeze() -> None:
        frozen.extend(tree(raylet(later[0])))
        send(frozen, signal.SIGSTOP)

    data = {"name": "t", "problem": "func2c", "optimizers": [{"name": "random", "concurrency": 4}]}
    config = check_config({**data, "budget": {"evaluations": 10**6}, "fidelity": {"epochs": 1}}, "here")
    begin(tmp_path / "j", config)
    state = restore_state(build_experiment(config), read_journal(tmp_path / "j"))
    pool = RayPool(ray, Sleeper, None, WorkersConfig(), 4)
    # The number is of trials that have ended since the act before.
    acts: list[tuple[Callable[[int], bool], Callable[[], None]]] = [
        (lambda ended: pool.capacity == 2, lambda: later.append(cluster.add_node(**NODE, num_cpus=2))),
        (lambda ended: pool.capacity == 4, lambda: os.kill(raylet(second), signal.SIGKILL)),
        (lambda ended: pool.capacity == 3, freeze),
        (lambda ended: pool.capacity == 1, lambda: send(frozen, signal.SIGCONT)),
        (lambda ended: ended == 8, stop.request),
    ]
    script = Scripted(tmp_path / "j", acts)
    with Journal(tmp_path / "j") as journal:
        driver = Driver(state, SearchJobs(state), journal, pool, Observers([script]), RunContext(stop=stop))
        assert driver.run() == (Ending.INTERRUPTED, "")
    pool.close()
    for node in (first, *later):
        cluster.remove_node(node)
    events = read_journal(tmp_path / "j")
    counts, (grown, killed, stopped, thawed, _) = running_after(events), script.places
    assert max(counts[:grown]) == 2
    assert max(counts[grown:killed]) == 4
    losses = [(i, event) for i, event in enumerate(events) if isinstance(event, Lost)]
    assert len(losses) == 3, "one of the node that was killed, two of the one that froze"
    assert killed <= losses[0][0] < stopped <= losses[1][0] < losses[2][0] < thawed
    assert max(counts[thawed:]) == 1, "what thawed is not trusted again"
    finished = [event for event in events if isinstance(event, Finished)]
    assert Counter(event.trial_id for event in finished) == Counter(range(len(finished)))
    assert all(event.evaluation.objective == event.trial_id for event in finished)
    repeats = {o.trial.id: o.attempt - 1 for o in state.ledger.results if o.attempt > 1}
    assert repeats == Counter(event.trial_id for _, event in losses)
    (run,) = state.experiment.runs.values()
    assert sorted(trial.id for trial, _ in run.optimizer.history) == list(range(len(finished)))


def test_nothing_is_left_on_the_cluster_when_a_driver_is_killed_and_resumed(cluster: Any, tmp_path: Path) -> None:
    node, out = cluster.add_node(**NODE, num_cpus=2), tmp_path / "run"
    overrides = [f"problem={Path(__file__).with_name('sleeping.py')}:sleeps", "tracking.enabled=false"]
    overrides += ["optimizers=[{name: random, concurrency: 2}]", "initial_design=2", "budget.evaluations=6"]
    flags = [flag for override in (*overrides, "fidelity.epochs=10") for flag in ("-o", override)]
    fmnas = [sys.executable, "-m", "fmnas.platform.cli"]
    address = ["--address", cluster.address]
    process = subprocess.Popen([*fmnas, "run", "smoke", *flags, *address, "--out", str(out)])
    journal = out / "journal.jsonl"
    while not journal.exists() or journal.read_text().count('"event":"finished"') < 2:
        assert process.poll() is None
        time.sleep(0.05)
    process.kill()
    process.wait()
    ray = connect(cluster.address)
    try:
        while ray.available_resources().get("CPU") != 2.0:
            time.sleep(0.1)  # a worker that outlived its driver would keep its CPU
    finally:
        ray.shutdown()
    assert main(["resume", str(out), *address]) == 0
    with (out / "trials.csv").open() as file:
        assert Counter(row["trial"] for row in csv.DictReader(file)) == Counter(map(str, range(6)))
    finished = Counter(event.trial_id for event in events_of(journal, Finished))
    assert finished == Counter(range(6))
    cluster.remove_node(node)


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1:9", "no-such-host.invalid:6379", "10.0.0..1:6379", "127.0.0.1:²"],
)
def test_an_address_without_a_cluster_is_refused_at_once(address: str) -> None:
    with pytest.raises(ClusterError, match=f"--address {address}.*`ray start --head`"):
        connect(address)
