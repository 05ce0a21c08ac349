"""A local Ray: it listens on the loopback, requires its token, and its death ends the experiment."""

import os
import re
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import events_of

from fmnas.platform.cli import main
from fmnas.platform.errors import ClusterError
from fmnas.platform.experiment.events import Ended, Finished
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.workers import cluster
from fmnas.platform.workers.cluster import connect, session_directory

pytestmark = pytest.mark.slow

SLEEPING = f"problem={Path(__file__).with_name('sleeping.py')}:sleeps"
FMNAS = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
LISTENS = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
"""127.0.0.1 in /proc/net/tcp and tcp6."""

INTRUDER = """
import logging, sys
import ray
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)
    print(ray.get(ray.remote(num_cpus=0)(lambda: "ran").remote()))
except Exception as error:
    print(f"refused: {type(error).__name__}: {error}")
"""


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")  # the environment applies to running clusters
        patch.setenv("RAY_AUTH_TOKEN", "theirs")
        connected = connect(None)
    yield connected
    connected.shutdown()


INTRUDERS = [{}, {"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}]
"""The environments of processes of this machine: without a token, with authentication disabled, with another token."""


@pytest.fixture(scope="module")
def intruders(ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[subprocess.Popen[str]]]:
    """Processes that try to run something there, while the next tests run."""
    address = ray.get_runtime_context().gcs_address
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    clean |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    clean["HOME"] = str(tmp_path_factory.mktemp("home"))
    command = [sys.executable, "-c", INTRUDER, address]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    processes = [subprocess.Popen(command, env={**clean, **environment}, **pipes) for environment in INTRUDERS]
    yield processes
    for process in processes:
        with process:
            process.kill()


def tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(descendant for child in children for descendant in tree(int(child)))]


def sockets(pid: int) -> set[str]:
    """Return the inodes of a process's sockets."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor))
        except FileNotFoundError:
            continue
        inodes |= {match[1]} if match else set()
    return inodes


@pytest.mark.usefixtures("intruders")
def test_it_listens_on_the_loopback_alone() -> None:
    ours = set().union(*(sockets(pid) for pid in tree(os.getpid())))
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    addresses = [line[1].split(":")[0] for line in lines if line[3] == LISTENS and line[9] in ours]
    assert len(addresses) >= 4, "its head, its node and its workers listen"
    assert set(addresses) <= LOOPBACK


def test_its_sockets_and_logs_are_in_a_directory_that_no_other_user_may_enter(ray: Any) -> None:
    logs = ray._private.worker._global_node.get_logs_dir_path()
    assert Path(logs).is_relative_to(session_directory())
    opened = [line.split()[-1] for line in Path("/proc/net/unix").read_text().splitlines() if "raylet" in line]
    assert any(Path(path).is_relative_to(session_directory()) for path in opened)
    status = session_directory().parent.stat()
    assert (status.st_mode & 0o777, status.st_uid) == (0o700, os.getuid())


@pytest.mark.parametrize("kind", ["link", "open to all", "another user's"])
def test_a_directory_that_another_user_can_enter_is_not_used(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    directory = tmp_path / f"fmnas-{os.getuid()}"
    if kind == "link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        directory.symlink_to(tmp_path / "elsewhere")
    else:
        directory.mkdir(mode=0o700)
        directory.chmod(0o777 if kind == "open to all" else 0o700)
    if kind == "another user's":
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
        directory = directory.rename(tmp_path / f"fmnas-{other}")
    monkeypatch.setattr(cluster, "Path", lambda name: tmp_path / Path(name).name)
    with pytest.raises(ClusterError, match=f"{directory}.* 0700"):
        session_directory()


def test_a_directory_that_cannot_be_created_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").write_text("a file")
    monkeypatch.setattr(cluster, "Path", lambda name: tmp_path / "tmp" / Path(name).name)
    with pytest.raises(ClusterError, match=r"Not a directory.*--address"):
        session_directory()


def test_its_death_ends_the_experiment_which_can_be_resumed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = [SLEEPING, "optimizers=[random]", "tracking.enabled=false", "budget.evaluations=300"]
    flags = [flag for override in (*overrides, "workers.kind=ray", "fidelity.epochs=1") for flag in ("-o", override)]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    drivers = {
        process: subprocess.Popen([*FMNAS, "run", "smoke", *flags, "--out", str(tmp_path / process)], **pipes)
        for process in ("raylet", "gcs_server")  # both at once: half the wait
    }
    for process, driver in drivers.items():
        journal = tmp_path / process / "journal.jsonl"
        while not journal.exists() or journal.read_text().count('"event":"finished"') < 3:
            assert driver.poll() is None
            time.sleep(0.1)
        names = {pid: Path(f"/proc/{pid}/comm").read_text().strip() for pid in tree(driver.pid)}
        (victim,) = (pid for pid, name in names.items() if name == process)
        os.kill(victim, signal.SIGKILL)
    for process, driver in drivers.items():
        _, errors = driver.communicate(timeout=120)
        assert driver.returncode == 1
        logs = rf"{session_directory()}/session_[\d_-]+_{driver.pid}/logs\."
        assert re.search(logs, " ".join(errors.split()))
        assert "Traceback" not in errors
        last = read_journal(tmp_path / process / "journal.jsonl")[-1]
        assert isinstance(last, Ended)
        assert last.status == "failed"
        assert re.search(logs, last.reason)
        assert (tmp_path / process / "summary.json").exists()
    config = tmp_path / "raylet" / "config.yaml"
    config.write_text(config.read_text().replace("kind: ray", "kind: in-process"))
    monkeypatch.setattr("time.sleep", lambda seconds: None)  # what is left takes no time here
    assert main(["resume", str(tmp_path / "raylet"), "--progress", "quiet"]) == 0
    finished = Counter(event.trial_id for event in events_of(tmp_path / "raylet" / "journal.jsonl", Finished))
    assert finished == Counter(range(300))


def test_who_does_not_know_its_token_is_refused(intruders: list[subprocess.Popen[str]]) -> None:
    for process in intruders:
        printed, errors = process.communicate(timeout=300)
        assert printed.startswith("refused: ")
        assert "InvalidAuthToken" in errors


def test_only_its_processes_know_its_token(ray: Any) -> None:
    def token() -> str:
        return os.environ["RAY_AUTH_TOKEN"]

    known = ray.get(ray.remote(num_cpus=0)(token).remote())
    assert re.fullmatch("[0-9a-f]{64}", known)
    assert os.environ.get("RAY_AUTH_TOKEN") != known


def test_a_ray_that_does_not_start_is_one_line_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    tokens: set[str] = set()

    def time_out(**_: Any) -> None:
        tokens.add(os.environ["RAY_AUTH_TOKEN"])
        raise Exception("The current node timed out during startup.\nThis could happen because ...")  # as Ray has it

    monkeypatch.setattr(ray, "init", time_out)
    for _ in range(2):
        with pytest.raises(ClusterError, match=r"node timed out.*logs.*--address") as caught:
            connect(None)
        assert "\n" not in str(caught.value)
    assert len(tokens) == 2, "each start has a token of its own"
