"""A Ray of our own: nobody else reaches it, nobody without its token is answered, and its death ends the experiment."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support import journal_dicts

from fmnas.platform.errors import ClusterError
from fmnas.platform.workers import cluster
from fmnas.platform.workers.cluster import connect, own_folder

FMNAS = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
LISTENS = "0A"
LOOPBACK = {"0100007F", "0000000000000000FFFF00000100007F"}
"""127.0.0.1 as /proc/net/tcp and tcp6 write it."""

INTRUDER = """
import logging, sys
import ray
from support import journal_dicts
try:
    ray.init(address=sys.argv[1], log_to_driver=False, logging_level=logging.ERROR)
    print(ray.get(ray.remote(num_cpus=0)(lambda: "ran").remote()))
except Exception as error:
    print(f"refused: {type(error).__name__}: {error}")
"""


@pytest.fixture(scope="module")
def ray() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RAY_AUTH_MODE", "disabled")  # what the environment says is of standing clusters
        patch.setenv("RAY_AUTH_TOKEN", "theirs")
        connected = connect(None)
    yield connected
    connected.shutdown()


STRANGERS = [{}, {"RAY_AUTH_MODE": "disabled"}, {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "0" * 64}]
"""Who has no token, who thinks that none is needed, and who has another one; all on this machine."""


@pytest.fixture(scope="module")
def intruders(ray: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[subprocess.Popen[str]]]:
    """Each stranger tries to run something there: a process that goes on trying while the next tests run."""
    address = ray.get_runtime_context().gcs_address
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")}
    clean |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"}
    clean["HOME"] = str(tmp_path_factory.mktemp("home"))
    tries = [
        subprocess.Popen(
            [sys.executable, "-c", INTRUDER, address],
            env={**clean, **stranger},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for stranger in STRANGERS
    ]
    yield tries
    for each in tries:
        with each:  # it is waited for, and its pipes are closed, also where no test has read them
            each.kill()


def tree(pid: int) -> list[int]:
    """A process and all that descend from it."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(each for child in children for each in tree(int(child)))]


def sockets(pid: int) -> set[str]:
    """The inodes of a process's sockets."""
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            match = re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor))
        except FileNotFoundError:
            continue
        found |= {match[1]} if match else set()
    return found


@pytest.mark.usefixtures("intruders")
def test_it_listens_on_the_loopback_alone() -> None:
    ours = set().union(*(sockets(pid) for pid in tree(os.getpid())))
    lines = [
        line.split() for name in ("tcp", "tcp6") for line in Path(f"/proc/net/{name}").read_text().splitlines()[1:]
    ]
    places = [line[1].split(":")[0] for line in lines if line[3] == LISTENS and line[9] in ours]
    assert len(places) >= 4, "its head, its node and its workers listen somewhere"
    assert set(places) <= LOOPBACK


def test_its_sockets_and_logs_lie_where_nobody_else_may_enter(ray: Any) -> None:
    node = ray._private.worker._global_node
    for path in (node.get_session_dir_path(), node.get_logs_dir_path(), node.raylet_socket_name):
        assert Path(path).is_relative_to(own_folder())
    guard = own_folder().parent.stat()
    assert (guard.st_mode & 0o777, guard.st_uid) == (0o700, os.getuid())


@pytest.mark.parametrize("there", ["a link", "open to all", "of another"])
def test_a_folder_that_somebody_else_can_enter_is_not_used(
    there: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / f"fmnas-{os.getuid()}"
    if there == "a link":
        (tmp_path / "elsewhere").mkdir(mode=0o700)
        folder.symlink_to(tmp_path / "elsewhere")
    else:
        folder.mkdir(mode=0o700)
        folder.chmod(0o777 if there == "open to all" else 0o700)
    if there == "of another":
        other = os.getuid() + 1
        monkeypatch.setattr(os, "getuid", lambda: other)
        folder.rename(tmp_path / f"fmnas-{other}")
    monkeypatch.setattr(cluster, "Path", lambda name: tmp_path / Path(name).name)
    with pytest.raises(ClusterError, match=r"is not a folder for you alone.*remove it"):
        own_folder()


def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tmp").write_text("no folder")
    monkeypatch.setattr(cluster, "Path", lambda name: tmp_path / "tmp" / Path(name).name)
    with pytest.raises(ClusterError, match=r"cannot be made \(Not a directory\): is /tmp full or read-only"):
        own_folder()


def test_the_folders_of_old_clusters_are_removed_and_those_of_others_at_work_are_not(tmp_path: Path) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    names = {"old": f"session_1_{gone.pid}", "at work": f"session_1_{os.getpid()}", "new": f"session_2_{gone.pid}"}
    folders = {name: tmp_path / folder for name, folder in names.items()}
    for name, folder in folders.items():
        (folder / "logs").mkdir(parents=True)
        (folder / "logs" / "raylet.out").write_text("of now")
        (folder / "socket").symlink_to("nowhere")
        if name != "new":
            for path in (folder, *folder.rglob("*")):
                os.utime(path, (1e9, 1e9), follow_symlinks=False)
    (tmp_path / "session_latest").symlink_to(folders["old"])
    cluster._remove_old_sessions(tmp_path)
    assert [name for name, folder in folders.items() if folder.exists()] == ["at work", "new"]
    cluster._remove_old_sessions(tmp_path / "nowhere")


def begun(out: Path) -> "subprocess.Popen[str]":
    """A driver with a Ray of its own, and trials without end."""
    flags = ["-o", "optimizers=[random]", "-o", "tracking.enabled=false", "-o", "budget.evaluations=100000"]
    return subprocess.Popen(
        [*FMNAS, "run", "smoke", *flags, "--out", str(out)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_its_death_ends_the_experiment_which_can_be_resumed(tmp_path: Path) -> None:
    drivers = {
        process: begun(tmp_path / process) for process in ("raylet", "gcs_server")
    }  # both at once: half the wait
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
        assert "its workers with it" in errors
        assert re.search(
            rf"its logs are in {own_folder()}/session_[\d_-]+_{driver.pid}/logs\.", " ".join(errors.split())
        )
        assert "Traceback" not in errors
        records = journal_dicts(tmp_path / process / "journal.jsonl")
        assert (records[-1]["event"], records[-1]["status"]) == ("ended", "failed")
        assert "the Ray that it had started on this machine died" in records[-1]["reason"]
        assert (tmp_path / process / "summary.json").exists()


def test_who_does_not_know_its_token_is_refused(intruders: list[subprocess.Popen[str]]) -> None:
    for each in intruders:
        printed, errors = each.communicate(timeout=300)
        assert printed.startswith("refused: ")
        assert "InvalidAuthToken" in errors


def test_its_token_is_random_and_told_to_nobody_else(ray: Any) -> None:
    def token() -> str:
        return os.environ["RAY_AUTH_TOKEN"]

    inside = ray.get(ray.remote(num_cpus=0)(token).remote())
    assert re.fullmatch("[0-9a-f]{64}", inside)
    assert os.environ.get("RAY_AUTH_TOKEN") != inside


def test_a_second_one_in_the_same_process_has_another_token(ray: Any) -> None:
    """And a standing cluster is met afterwards as the environment says."""

    def token() -> str:
        return os.environ["RAY_AUTH_TOKEN"]

    first = ray.get(ray.remote(num_cpus=0)(token).remote())
    ray.shutdown()
    again = connect(None)
    assert again.get(again.remote(num_cpus=0)(token).remote()) != first


def test_a_ray_that_does_not_start_is_one_line_with_the_next_step(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def late(**_: Any) -> None:
        raise Exception("The current node timed out during startup.\nThis could happen because ...")  # as Ray has it

    monkeypatch.setattr(ray, "init", late)
    monkeypatch.setattr(cluster, "_take_environment", lambda *_, **__: None)
    with pytest.raises(ClusterError, match=r"Ray did not start .*node timed out.*logs.*Try again") as caught:
        connect(None)
    assert "\n" not in str(caught.value)
