"""Three hosts on one machine; one is cut off and one dies during an experiment.

    python benchmarks/cluster.py [--quick] [--json FILE]

Each host is a Linux network namespace with its own address on a bridge, and runs a Ray node with two CPUs; this machine
runs the head, without CPUs, and the driver. An experiment of sleeping trials keeps four workers busy. One host's link
goes down; later it comes up, and the host is restarted; then every process of the other host is killed. It prints the
seconds until each loss was detected, and the outcomes of the trials. It needs root; exit code 2 if namespaces cannot be
created.
"""

import argparse
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ["RAY_AUTH_MODE"] = "disabled"  # the bridge leads nowhere else

from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import WorkersConfig
from fmnas.platform.experiment.events import FORMAT, Begun, Event, Finished, Lost
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.observer import Observer, Observers
from fmnas.platform.experiment.state import restore_state
from fmnas.platform.experiment.trial_result import TrialResult
from fmnas.platform.runner.driver import Driver, RunContext
from fmnas.platform.runner.jobs import SearchJobs
from fmnas.platform.workers.cluster import connect, live_nodes
from fmnas.platform.workers.ray_pool import RayPool
from fmnas.search_spaces import Evaluation, Trial
from fmnas.trainers.contract import Report, no_report

BRIDGE, SUBNET, PORT = "fmnas-br", "10.213.77", 46379
HOSTS = {"fmnas-a": f"{SUBNET}.2", "fmnas-b": f"{SUBNET}.3"}
HEAD = f"{SUBNET}.1"
RAY = str(Path(sys.executable).with_name("ray"))
HEALTH = {"initial_delay_ms": 0, "period_ms": 2000, "timeout_ms": 5000, "failure_threshold": 3}
"""What docs/cluster.md says to set on the head."""


class Sleeper:
    """Takes some seconds, and then the trial's number for the objective."""

    seconds = 1.0

    def __init__(self, data: None) -> None:
        pass

    def evaluate(self, trial: Trial, report: Report = no_report) -> Evaluation:
        """Nothing is computed."""
        time.sleep(self.seconds)
        return Evaluation(float(trial.id), epochs=trial.epochs)


def ip(arguments: str) -> str:
    """`ip ...`; raises CalledProcessError."""
    return subprocess.run(["ip", *arguments.split()], check=True, capture_output=True, text=True).stdout


def processes(host: str) -> list[int]:
    """Everything that runs in a namespace."""
    with contextlib.suppress(subprocess.CalledProcessError):
        return [int(pid) for pid in ip(f"netns pids {host}").split()]
    return []


def kill(host: str) -> None:
    """A power failure, as far as processes are concerned."""
    for pid in processes(host):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


def remove_network() -> None:
    """Hosts, what runs in them, and the bridge; whatever of them there is."""
    for host in HOSTS:
        kill(host)
        for command in (f"netns del {host}", f"link del {host}"):
            with contextlib.suppress(subprocess.CalledProcessError):
                ip(command)
    with contextlib.suppress(subprocess.CalledProcessError):
        ip(f"link del {BRIDGE}")


@contextlib.contextmanager
def network() -> Iterator[None]:
    """The bridge, and a namespace for each host: removed however the block is left."""
    if os.geteuid() or not shutil.which("ip"):
        print("network namespaces need root and the command ip (iproute2): nothing was run", file=sys.stderr)
        raise SystemExit(2)
    remove_network()  # of a run that was killed
    try:
        try:
            make_network()
        except subprocess.CalledProcessError as error:
            print(f"network namespaces cannot be made here: {error.stderr.strip()}: nothing was run", file=sys.stderr)
            raise SystemExit(2) from None
        yield
    finally:
        remove_network()


def make_network() -> None:
    """The link of a host is named as the host."""
    ip(f"link add {BRIDGE} type bridge")
    ip(f"addr add {HEAD}/24 dev {BRIDGE}")
    ip(f"link set {BRIDGE} up")
    for host, address in HOSTS.items():
        ip(f"netns add {host}")
        ip(f"link add {host} type veth peer name eth0 netns {host}")
        ip(f"link set {host} master {BRIDGE} up")
        ip(f"-n {host} addr add {address}/24 dev eth0")
        ip(f"-n {host} link set eth0 up")
        ip(f"-n {host} link set lo up")


def start_node(folder: Path, arguments: list[str], host: str = "") -> subprocess.Popen[bytes]:
    """`ray start`, in a namespace or on this machine; it stays in the foreground."""
    inside = ["ip", "netns", "exec", host] if host else []
    common = ["--block", "--object-store-memory=80000000", "--disable-usage-stats"]
    health = {f"RAY_health_check_{name}": str(value) for name, value in HEALTH.items()}
    with (folder / f"{host or 'head'}.log").open("ab") as log:
        return subprocess.Popen(
            [*inside, RAY, "start", *common, *arguments],
            env={**os.environ, **health, "RAY_enable_metrics_collection": "0"},
            stdout=log,
            stderr=log,
            start_new_session=True,
        )


def start_host(folder: Path, host: str) -> subprocess.Popen[bytes]:
    """A node of two CPUs."""
    arguments = [f"--address={HEAD}:{PORT}", f"--node-ip-address={HOSTS[host]}", "--num-cpus=2"]
    return start_node(folder, arguments, host)


@contextlib.contextmanager
def head(folder: Path) -> Iterator[None]:
    """The cluster's head, on this machine's end of the bridge."""
    arguments = ["--head", f"--port={PORT}", f"--node-ip-address={HEAD}", "--num-cpus=0", "--include-dashboard=false"]
    process = start_node(folder, [*arguments, f"--temp-dir={folder}/ray"])
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


@dataclass
class Story:
    """What happened. at: seconds since the epoch of each act. found: seconds from an act to each loss after it."""

    at: dict[str, float] = field(default_factory=dict)
    seconds_to_loss: dict[str, list[float]] = field(default_factory=dict)
    workers: dict[str, int] = field(default_factory=dict)
    finished: int = 0
    requeued: int = 0
    lost: int = 0
    observed: int = 0
    twice: int = 0

    def tell(self, events: list[Event], observed: int) -> None:
        """Add what the journal shows."""
        results = Counter((event.run, event.trial_id) for event in events if isinstance(event, Finished))
        self.finished, self.twice = len(results), sum(count - 1 for count in results.values())
        lost = [event for event in events if isinstance(event, Lost)]
        self.requeued, self.lost = sum(not event.final for event in lost), sum(event.final for event in lost)
        self.observed = observed
        for event in lost:
            act = max((act for act in self.at if self.at[act] <= event.at), key=lambda act: self.at[act])
            self.seconds_to_loss.setdefault(act, []).append(event.at - self.at[act])


class Acts(Observer):
    """Acts when a given number of trials has ended."""

    def __init__(self, acts: dict[int, tuple[str, Callable[[], Any]]], story: Story, pool: RayPool) -> None:
        self._acts, self._story, self._pool, self._ended = acts, story, pool, 0

    def on_event(self, event: Event, result: TrialResult | None) -> None:
        """Count the trials that ended, and act."""
        if result is None:
            return
        self._ended += 1
        name, act = self._acts.get(self._ended, ("", None))
        if act is not None:
            print(f"{self._ended} trials ended, {self._pool.capacity} workers are ready: {name}", file=sys.stderr)
            self._story.workers[name] = self._pool.capacity
            self._story.at[name] = time.time()
            act()


def experiment(trials: int, folder: Path) -> Story:
    """Run it while hosts are cut off, started and killed."""
    story, (first, second) = Story(), HOSTS
    ray = connect(f"{HEAD}:{PORT}")
    started = []
    for number, host in enumerate(HOSTS, start=2):  # one after the other: they share a folder for their sockets
        started.append(start_host(folder, host))
        wait_for(lambda number=number: len(live_nodes(ray)) == number, f"a node on {host}")

    def again() -> None:
        ip(f"link set {first} up")
        kill(first)
        started.append(start_host(folder, first))

    acts = {
        trials // 4: (f"the link of {first} goes down", lambda: ip(f"link set {first} down")),
        trials * 3 // 4: (f"the link of {first} comes up, and the host restarts", again),
        trials * 7 // 8: (f"everything on {second} is killed", lambda: kill(second)),
    }
    data = {"name": "hosts", "problem": "func2c", "optimizers": [{"name": "random", "concurrency": 4}]}
    config = check_config({**data, "budget": {"evaluations": trials}, "fidelity": {"epochs": 1}}, "hosts")
    pool = RayPool(ray, Sleeper, None, WorkersConfig(), 4)
    try:
        with Journal(folder / "journal.jsonl") as journal:
            journal.append(Begun("hosts", FORMAT, config.model_dump(mode="json"), time.time()))
            state = restore_state(build_experiment(config), read_journal(journal.path))
            Driver(state, SearchJobs(state), journal, pool, Observers([Acts(acts, story, pool)]), RunContext()).run()
    finally:
        pool.close()
        ray.shutdown()
        for host in HOSTS:
            kill(host)
        for process in started:
            process.wait()
    observed = sum(len(run.optimizer.history) for run in state.experiment.runs.values())
    story.tell(read_journal(folder / "journal.jsonl"), observed)
    return story


def listens() -> bool:
    """Whether the head does."""
    with contextlib.suppress(OSError):
        socket.create_connection((HEAD, PORT), 1.0).close()
        return True
    return False


def wait_for(true: Callable[[], bool], what: str) -> None:
    """Until it is, for at most a minute and a half."""
    ends = time.monotonic() + 90.0
    while not true():
        if time.monotonic() > ends:
            raise SystemExit(f"{what} did not start")
        time.sleep(0.2)


def main() -> None:
    """Run, count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="120 trials of a second, not 400")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    trials = 120 if arguments.quick else 400
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that the network is removed then, too
    with tempfile.TemporaryDirectory(prefix="fmn") as folder, network(), head(Path(folder)):
        wait_for(listens, "the head")
        story = experiment(trials, Path(folder))
    print(f"{'':<58} {'workers':>8} {'found after':>12} {'requeued':>9}")
    for name in story.at:
        seconds = story.seconds_to_loss.get(name, [])
        shown = f"{max(seconds):.1f} s" if seconds else ""
        print(f"{name:<58} {story.workers[name]:>8} {shown:>12} {len(seconds) or '':>9}")
    print(
        f"{trials} trials: {story.finished} finished, {story.observed} observed, {story.requeued} requeued, "
        f"{story.lost} lost, {story.twice} finished twice"
    )
    if arguments.json:
        arguments.json.write_text(json.dumps(asdict(story), indent=2))
    if story.twice or story.lost or story.finished != trials or story.observed != trials:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
