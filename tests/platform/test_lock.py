"""One driver at a time: who is refused, who takes over, and that a lock never outlives its process for long."""

import errno
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment import lock
from fmnas.platform.experiment.lock import Holder, kept_up, locked, look

FMNAS = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
LONG = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "-o", "optimizers=[random]"]
LONG += ["-o", "budget.evaluations=100000"]

HOLD = """
import sys
from pathlib import Path
from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment.lock import locked
print("ready", flush=True)
sys.stdin.readline()
try:
    with locked(Path(sys.argv[1]), print):
        print("held", flush=True)
        sys.stdin.readline()
except RunDirectoryError:
    print("refused", flush=True)
"""


def hold(path: Path) -> "subprocess.Popen[str]":
    """A process that takes the lock at the first line from us, and keeps it until the second."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    return process


def go_on(process: "subprocess.Popen[str]") -> None:
    assert process.stdin is not None
    process.stdin.write("\n")
    process.stdin.flush()


def answer(process: "subprocess.Popen[str]") -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def leave(path: Path, **changes: object) -> Holder:
    """A lock file of another process."""
    holder = replace(Holder.this(), **changes)  # type: ignore[arg-type]
    path.write_text(json.dumps(asdict(holder)))
    return holder


def test_it_is_there_inside_and_gone_outside(tmp_path: Path) -> None:
    path, said = tmp_path / "lock", list[str]()
    with locked(path, said.append):
        assert json.loads(path.read_text())["pid"] == os.getpid()
    with pytest.raises(ZeroDivisionError), locked(path, said.append):
        raise ZeroDivisionError
    assert list(tmp_path.iterdir()) == []
    assert not said


def test_a_second_is_refused_and_touches_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    with locked(path, print):
        before = path.read_bytes()
        with pytest.raises(RunDirectoryError, match=f"process {os.getpid()} on"), locked(path, print):
            pass
        assert path.read_bytes() == before


def gone() -> int:
    """The pid of a process that is no more."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    return process.pid


@pytest.mark.parametrize("changes", [{"pid": None}, {"began": 1}, {"boot": "before", "pid": 1, "taken": 1.0}])
def test_the_lock_of_a_dead_process_is_taken_over_and_said(tmp_path: Path, changes: dict[str, object]) -> None:
    path, said = tmp_path / "lock", list[str]()
    dead = leave(path, **{name: gone() if value is None else value for name, value in changes.items()})
    with locked(path, said.append):
        assert look(path) == Holder.this()
    assert len(said) == 1
    assert f"process {dead.pid}" in said[0]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"host": "elsewhere", "pid": None}, ["on elsewhere", "stop it there", "remove", "lock"]),
        ({"namespace": "pid:[1]", "pid": None}, ["another container", "remove"]),
        # Clones, and containers that are given a name: their drivers may live, whatever boot they are of.
        ({"boot": "another"}, ["another machine of this name", "remove"]),
        ({"boot": "another", "taken": 1.0, "machine": "another"}, ["another machine of this name", "remove"]),
    ],
)
def test_of_what_cannot_be_seen_one_is_told_what_to_do(
    tmp_path: Path, changes: dict[str, object], words: list[str]
) -> None:
    path = tmp_path / "lock"
    leave(path, **{name: gone() if value is None else value for name, value in changes.items()})
    before = path.read_bytes()
    with pytest.raises(RunDirectoryError) as caught, locked(path, print):
        pass
    for word in words:
        assert word in str(caught.value)
    assert path.read_bytes() == before


def test_a_lock_of_an_older_fmnas_is_understood(tmp_path: Path) -> None:
    old = {name: value for name, value in asdict(Holder.this()).items() if name not in ("machine", "booted", "taken")}
    (tmp_path / "lock").write_text(json.dumps({**old, "boot": "before"}))
    said: list[str] = []
    with locked(tmp_path / "lock", said.append):
        assert "taking over" in said[0]


@pytest.mark.parametrize("does", ["read", "written"])
def test_a_lock_that_may_not_be_touched_is_said_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str) -> None:
    def refuse(*_: object, **__: object) -> str:
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    path = tmp_path / "lock"
    if does == "read":
        leave(path)
    monkeypatch.setattr(Path, "read_text" if does == "read" else "replace", refuse)
    monkeypatch.setattr(os, "link", refuse)
    here = Holder("host", 1, 1, "boot", "namespace")
    monkeypatch.setattr(Holder, "this", lambda: here)
    with pytest.raises(RunDirectoryError, match=f"cannot be {does}.*Permission denied") as caught, locked(path, print):
        pass
    assert "remove" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "nonsense", "[]", "{}", '{"host": "a", "pid": "x"}'])
def test_another_file_of_that_name_is_not_taken(tmp_path: Path, text: str) -> None:
    (tmp_path / "lock").write_text(text)
    with pytest.raises(RunDirectoryError, match="no lock of fmnas"), locked(tmp_path / "lock", print):
        pass
    assert (tmp_path / "lock").read_text() == text


def test_of_many_at_a_stale_lock_one_gets_it(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    leave(path, pid=gone())
    processes = [hold(path) for _ in range(4)]
    for process in processes:
        go_on(process)
    last = [[word for word in (answer(process), answer(process)) if word][-1] for process in processes]
    for process in processes:
        process.kill()
        process.communicate()
    assert sorted(last) == ["held", "refused", "refused", "refused"]


@contextmanager
def driver(out: Path) -> "Iterator[subprocess.Popen[str]]":
    """A long experiment that has begun."""
    process = subprocess.Popen([*FMNAS, "run", "smoke", *LONG, "--out", str(out)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    for line in process.stdout:
        if "trial 3" in line:
            break
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.parametrize("command", ["resume", "run"])
def test_a_second_driver_is_refused_while_the_first_goes_on(tmp_path: Path, command: str) -> None:
    out = tmp_path / "run"
    with driver(out) as first:
        arguments = ["resume", str(out)] if command == "resume" else ["run", "smoke", *LONG, "--out", str(out)]
        second = subprocess.run([*FMNAS, *arguments], capture_output=True, text=True)
        assert first.poll() is None
    assert second.returncode == 2
    assert "Traceback" not in second.stderr
    if command == "resume":
        assert f"process {first.pid} on" in second.stderr
        assert f"kill {first.pid}" in second.stderr


def test_after_a_killed_driver_the_next_takes_over(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with driver(out) as first:
        pass
    assert (out / "driver.lock").exists()
    second = subprocess.Popen([*FMNAS, "resume", str(out)], stdout=subprocess.PIPE, text=True)
    assert second.stdout is not None
    assert "going on with" in second.stdout.readline()
    line = second.stdout.readline()
    second.terminate()
    rest, _ = second.communicate(timeout=60)
    assert f"process {first.pid} on" in line
    assert "taking over" in line
    assert second.returncode == 130, rest
    assert not (out / "driver.lock").exists()


def test_a_note_is_kept_up_while_the_work_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fmnas.platform.experiment.lock.NOTE_SECONDS", 0.01)
    path, now = tmp_path / "driver.lock", {"epoch": 0}

    def noted() -> object:
        found = look(path)
        return None if found is None else found.facts.get("epoch")

    with locked(path, print) as note:
        with kept_up(note, lambda: dict(now)):
            assert noted() == 0
            written = path.stat().st_mtime_ns
            time.sleep(0.1)
            assert path.stat().st_mtime_ns == written, "what has not changed is not written"
            now["epoch"] = 7
            while noted() != 7:
                time.sleep(0.01)
        now["epoch"] = 9
        time.sleep(0.1)
        assert noted() == 7, "nobody writes any more"


def test_a_lock_that_was_meddled_with_does_not_end_the_keeping_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("fmnas.platform.experiment.lock.NOTE_SECONDS", 0.01)
    path, asked = tmp_path / "driver.lock", list[int]()

    def facts() -> dict[str, int]:
        asked.append(len(asked))
        return {"epoch": len(asked)}

    with locked(path, print) as note, kept_up(note, facts):
        path.write_text("nonsense")
        before = len(asked)
        for _ in range(500):
            if len(asked) > before + 2:
                break
            time.sleep(0.01)
        assert len(asked) > before + 2
        path.unlink()


def test_a_process_that_proc_does_not_show_is_not_dead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another user's, where /proc is mounted with hidepid."""
    leave(tmp_path / "lock")

    def not_permitted(pid: int, signal: int) -> None:
        raise PermissionError(errno.EPERM, "Operation not permitted")

    began = lock._began
    monkeypatch.setattr(lock, "_began", lambda pid: None)
    monkeypatch.setattr(os, "kill", not_permitted)
    found = look(tmp_path / "lock")
    assert found is not None
    assert not found.dead
    with pytest.raises(RunDirectoryError, match="a driver works in"), locked(tmp_path / "lock", print):
        pass
    monkeypatch.setattr(lock, "_began", began)


def test_of_two_hosts_at_once_one_gets_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither sees the other's lock when it looks, and no lock of the folder reaches from one to the other."""
    path, looked = tmp_path / "lock", []

    def nothing_yet(place: Path) -> Any:
        looked.append(place)
        return None if len(looked) == 1 else read(place)

    read = lock.look
    leave(path, host="another")
    monkeypatch.setattr(lock, "look", nothing_yet)
    with pytest.raises(RunDirectoryError, match=r"a driver works in .* on another"), locked(path, print):
        pass
    assert json.loads(path.read_text())["host"] == "another"
    assert os.listdir(tmp_path) == ["lock"]
