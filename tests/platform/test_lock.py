"""One driver at a time: a second is refused, a killed one leaves the lock free, and driver.json says who works."""

import errno
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from fmnas.platform.cli import main
from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment import lock
from fmnas.platform.experiment.lock import driver_lock, heartbeat, read_driver
from fmnas.platform.experiment.run_directory import RunDirectory

pytestmark = pytest.mark.slow

HOLD = """
import sys
from pathlib import Path
from fmnas.platform.experiment.lock import driver_lock
from fmnas.platform.experiment.run_directory import RunDirectory
with driver_lock(RunDirectory(Path(sys.argv[1])), "experiment"):
    print("held", flush=True)
    sys.stdin.readline()
"""


@pytest.fixture
def directory(tmp_path: Path) -> RunDirectory:
    return RunDirectory(tmp_path)


@pytest.fixture
def holder(directory: RunDirectory) -> Iterator["subprocess.Popen[str]"]:
    """Another process that holds the lock until it is killed or gets a line."""
    command = [sys.executable, "-c", HOLD, str(directory.root)]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdin is not None
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()
    process.wait()
    process.stdin.close()
    process.stdout.close()


def test_a_second_driver_is_refused_with_the_name_of_the_first(
    directory: RunDirectory, holder: "subprocess.Popen[str]"
) -> None:
    driver = read_driver(directory)
    assert driver is not None
    assert (driver["pid"], driver["work"]) == (holder.pid, "experiment")
    with (
        pytest.raises(RunDirectoryError, match=f"process {holder.pid} on .*repeat this command"),
        driver_lock(directory, "x"),
    ):
        pass
    assert read_driver(directory) == driver


def test_a_second_thread_of_this_process_is_told_that_it_is_one(directory: RunDirectory) -> None:
    refused = pytest.raises(RunDirectoryError, match="another thread of this process")
    with driver_lock(directory, "x"), refused, driver_lock(directory, "x"):
        pass


def test_a_killed_driver_leaves_the_lock_free(directory: RunDirectory, holder: "subprocess.Popen[str]") -> None:
    holder.send_signal(signal.SIGKILL)
    holder.wait()
    assert directory.driver.exists()
    assert read_driver(directory) is None
    with driver_lock(directory, "retraining"):
        assert json.loads(directory.driver.read_text())["pid"] == os.getpid()
    assert not directory.driver.exists()


def test_the_lock_is_released_however_the_context_ends(directory: RunDirectory) -> None:
    for _ in range(2):
        with pytest.raises(KeyboardInterrupt), driver_lock(directory, "experiment"):
            raise KeyboardInterrupt
        assert read_driver(directory) is None


def test_the_lock_is_released_on_a_disk_that_became_read_only(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    with driver_lock(directory, "experiment"):
        monkeypatch.setattr(Path, "unlink", refuse)
    assert directory.driver.exists()
    assert read_driver(directory) is None


def test_a_heartbeat_updates_what_is_known_of_the_driver(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lock, "HEARTBEAT_SECONDS", 0.01)
    facts = {"workers": 1}
    with driver_lock(directory, "experiment"), heartbeat(directory, lambda: facts):
        for workers in (1, 2):
            facts["workers"] = workers
            while json.loads(directory.driver.read_text()).get("workers") != workers:
                time.sleep(0.01)


def test_where_the_lock_cannot_be_checked_the_heartbeat_decides(
    directory: RunDirectory, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Unreadable:
        def __init__(self, *_: object, **__: object) -> None:
            raise PermissionError

    monkeypatch.setattr(lock, "FileLock", Unreadable)
    for age, is_alive in ((1.0, True), (lock.STALE_SECONDS + 1, False)):
        directory.driver.write_text(json.dumps({"host": "h", "pid": 1, "heartbeat": time.time() - age}))
        assert (read_driver(directory) is not None) == is_alive


@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_a_damaged_driver_file_is_ignored(directory: RunDirectory, content: str) -> None:
    directory.driver.write_text(content)
    assert read_driver(directory) is None


def test_a_file_system_without_locks_is_refused(directory: RunDirectory, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in place of the lock would outlive a driver that was killed."""

    def flock(*_: object) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr("fcntl.flock", flock)
    with pytest.raises(RunDirectoryError, match=r"driver\.lock cannot be locked"), driver_lock(directory, "x"):
        pass


def test_commands_that_write_are_refused_while_a_driver_works(
    directory: RunDirectory, holder: "subprocess.Popen[str]", capsys: pytest.CaptureFixture[str]
) -> None:
    directory.journal.write_text("")
    for command in ("resume", "sync", "retrain"):
        assert main([command, str(directory.root)]) == 2
        assert f"process {holder.pid}" in capsys.readouterr().err
