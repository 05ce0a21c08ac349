"""Clean stops: what runs is finished or left for the resume, and the command to resume is printed."""

import csv
import json
import math
import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import nullcontext, suppress
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.platform.cli import main
from fmnas.platform.experiment.events import Asked, Cancelled, DriverStarted, Ended, Failed, Finished, Lost, Started
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.workers.cancellation import (
    CHECK_SECONDS,
    DeadlineExceeded,
    Stopped,
    StopRequest,
    deadline,
    interruptible,
    stop_on_signals,
)
from fmnas.platform.workers.cluster import connect

pytestmark = pytest.mark.slow

FMNAS = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
LITTLE = ["tracking.enabled=false", "budget.evaluations=12", "workers.count=1"]
SLEEPING = [f"problem={Path(__file__).with_name('sleeping.py')}:sleeps"]
ENDLESS = 1_000_000
"""Epochs of a trial that no test waits for."""


def test_the_first_request_gives_time_and_the_second_none() -> None:
    now = 100.0
    stop = StopRequest(elapsed=lambda: now)
    assert not stop.must_abandon(5.0)
    stop.request()
    assert not stop.must_abandon(5.0)
    now = 105.0
    assert stop.must_abandon(5.0)
    assert not stop.must_abandon(6.0)
    stop.request()
    assert stop.must_abandon(6.0)


def test_the_loop_takes_two_signals_and_any_other_work_none() -> None:
    with stop_on_signals() as stop:
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
        stop.count, stop.is_checked = 0, True
        signal.raise_signal(signal.SIGINT)
        signal.raise_signal(signal.SIGINT)
        assert stop.count == 2
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)


def test_a_sighup_that_nohup_ignores_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.count == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with stop_on_signals() as stop:
            stop.is_checked = True
            signal.raise_signal(signal.SIGHUP)
            assert stop.count == 1
    finally:
        signal.signal(signal.SIGHUP, before)


def raise_stopped() -> None:
    raise Stopped


def past_deadline() -> None:
    raise DeadlineExceeded


def test_a_block_is_interrupted_when_the_check_raises_and_only_then() -> None:
    with interruptible(lambda: None):
        time.sleep(2 * CHECK_SECONDS)
    with pytest.raises(Stopped), interruptible(raise_stopped):
        time.sleep(60)
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    time.sleep(2 * CHECK_SECONDS)  # nothing is checked any more


def test_an_interrupted_block_has_time_to_end_and_is_interrupted_again_if_it_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("fmnas.platform.workers.cancellation.RETRY_SECONDS", 4 * CHECK_SECONDS)
    cleaned_up = []

    def swallow() -> None:
        with suppress(DeadlineExceeded):
            time.sleep(60)
        time.sleep(2 * CHECK_SECONDS)
        cleaned_up.append(True)
        time.sleep(60)

    with pytest.raises(DeadlineExceeded), interruptible(past_deadline):
        swallow()
    assert cleaned_up


def test_a_block_is_interrupted_after_its_grace_time() -> None:
    start = time.monotonic()
    with pytest.raises(DeadlineExceeded), interruptible(past_deadline, CHECK_SECONDS):
        time.sleep(60)
    assert time.monotonic() >= start + 2 * CHECK_SECONDS


def test_no_other_thread_is_interrupted() -> None:
    ended = []

    def run() -> None:
        with interruptible(past_deadline):
            time.sleep(2 * CHECK_SECONDS)
            ended.append(True)

    thread = threading.Thread(target=run)
    thread.start()
    thread.join()
    assert ended


@given(seconds=st.floats(0, 1e9), passed=st.floats(0, 1e9))
def test_a_deadline_has_passed_after_its_seconds_and_not_before(seconds: float, passed: float) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fmnas.platform.workers.cancellation.time", SimpleNamespace(monotonic=lambda: 0.0))
        check, never = deadline(seconds), deadline(math.inf)
        patch.setattr("fmnas.platform.workers.cancellation.time", SimpleNamespace(monotonic=lambda: passed))
        never()
        with pytest.raises(DeadlineExceeded) if passed > seconds else nullcontext():
            check()


class Driver:
    """`fmnas run` of slow trials in another process."""

    def __init__(self, out: Path, *overrides: str) -> None:
        flags = [flag for override in (*LITTLE, *overrides) for flag in ("-o", override)]
        self.process = subprocess.Popen(
            [*FMNAS, "run", "smoke", *flags, "--out", str(out)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # under `nohup` it would be ignored
        )
        self._journal = out / "journal.jsonl"

    def wait_for(self, event: str, count: int = 1) -> None:
        """Until the journal holds that many of such events."""
        while not self._journal.exists() or self._journal.read_text().count(f'"event":"{event}"') < count:
            assert self.process.poll() is None, self.process.communicate()
            time.sleep(0.1)

    def end(self, seconds: float = 120) -> str:
        """Everything it printed. It must end within these seconds."""
        try:
            printed, _ = self.process.communicate(timeout=seconds)
        finally:
            self.process.kill()
        return printed


def check_interrupted(driver: Driver, out: Path, seconds: float = 120) -> list[dict[str, str]]:
    """Check that it stopped cleanly within these seconds, and return the rows of trials.csv."""
    printed = driver.end(seconds)
    assert driver.process.returncode == 130, printed
    assert f"fmnas resume {out}" in printed
    assert "Traceback" not in printed
    assert not (out / "driver.json").exists()
    with (out / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def test_one_sigterm_lets_what_runs_finish(tmp_path: Path) -> None:
    out = tmp_path / "run"
    driver = Driver(out, *SLEEPING, "optimizers=[random]", "workers.kind=in-process", "fidelity.epochs=8")
    driver.wait_for("started", 3)
    driver.process.send_signal(signal.SIGTERM)
    rows = check_interrupted(driver, out)
    kinds = [type(event) for event in read_journal(out / "journal.jsonl")]
    assert {row["status"] for row in rows} == {"finished"}
    assert kinds.count(Finished) == kinds.count(Started) == len(rows) < 12
    assert not {Lost, Cancelled, Failed} & set(kinds)


def check_left_for_the_resume(driver: Driver, out: Path, row: dict[str, str]) -> None:
    """Check the record of the one trial that was running, and that a resume, in process, begins with it."""
    assert (row["status"], row["trial"], row["attempt"]) == ("cancelled", "0", "1")
    assert "a resume repeats it" in row["reason"]
    config = (out / "config.yaml").read_text()
    (out / "config.yaml").write_text(config.replace("kind: ray", "kind: in-process"))
    again = subprocess.Popen([*FMNAS, "resume", str(out)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    driver.process = again
    driver.wait_for("started", 2)
    again.kill()
    again.wait()
    _begun, *events = read_journal(out / "journal.jsonl")
    asked, first, cancelled, ended, second = [event for event in events if not isinstance(event, DriverStarted)]
    assert isinstance(asked, Asked)
    assert isinstance(cancelled, Cancelled)
    assert isinstance(ended, Ended)
    assert ended.status == "interrupted"
    for attempt, event in ((1, first), (2, second)):
        assert isinstance(event, Started)
        assert (event.trial_id, event.attempt) == (0, attempt)


@pytest.mark.parametrize(
    ("grace", "signals"),
    [("0.5", [signal.SIGINT]), ("100000", [signal.SIGINT, signal.SIGTERM])],
    ids=["the time is over", "two signals"],
)
def test_what_has_no_time_left_is_on_record_and_left_for_the_resume(
    tmp_path: Path, grace: str, signals: list[signal.Signals]
) -> None:
    out = tmp_path / "run"
    endless = [f"fidelity.epochs={ENDLESS}", "workers.kind=in-process", f"workers.grace_seconds={grace}"]
    driver = Driver(out, *SLEEPING, "optimizers=[random]", *endless)
    driver.wait_for("started")
    for number in signals:
        driver.process.send_signal(number)
        time.sleep(0.5)  # two signals at once may come as one
    (row,) = check_interrupted(driver, out)
    check_left_for_the_resume(driver, out, row)


def start_on_ray(out: Path) -> tuple[Driver, list[psutil.Process]]:
    """A driver whose trial is running; it, and its descendants, Ray's processes among them."""
    endless = [f"fidelity.epochs={ENDLESS}", "workers.kind=ray", "workers.grace_seconds=1"]
    driver = Driver(out, *SLEEPING, "optimizers=[random]", *endless)
    driver.wait_for("started")
    process = psutil.Process(driver.process.pid)
    processes = [process, *process.children(recursive=True)]
    assert len(processes) > 5
    return driver, processes


def check_gone(processes: list[psutil.Process]) -> None:
    _, alive = psutil.wait_procs(processes, timeout=30)
    assert not [process for process in alive if process.status() != psutil.STATUS_ZOMBIE]


RAY_ENDS_A_DRIVER = 50
"""By itself Ray ends a driver a minute after its head."""


def test_a_closed_terminal_ends_the_driver_and_ray_and_leaves_what_runs_for_the_resume(tmp_path: Path) -> None:
    """Its signal goes to the driver's process group."""
    out = tmp_path / "run"
    driver, processes = start_on_ray(out)
    os.killpg(driver.process.pid, signal.SIGHUP)
    (row,) = check_interrupted(driver, out, RAY_ENDS_A_DRIVER)
    check_gone(processes)
    check_left_for_the_resume(driver, out, row)


def test_a_signal_of_systemd_ends_the_driver_and_ray(tmp_path: Path) -> None:
    """It goes to all of the driver's descendants; Ray may be gone before the driver."""
    out = tmp_path / "run"
    driver, processes = start_on_ray(out)
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.send_signal(signal.SIGTERM)
    printed = driver.end(RAY_ENDS_A_DRIVER)
    assert driver.process.returncode in {1, 130}, printed
    assert "resume" in printed.lower()
    assert "Traceback" not in printed
    with (out / "trials.csv").open() as file:
        assert {row["status"] for row in csv.DictReader(file)} <= {"cancelled", "lost", "running"}
    kinds = {type(event) for event in read_journal(out / "journal.jsonl")}
    assert kinds & {Lost, Cancelled}, "whichever the driver noticed first"
    assert not kinds & {Finished, Failed}
    check_gone(processes)


def test_a_sigterm_while_ray_starts_is_handled_by_our_handler(monkeypatch: pytest.MonkeyPatch) -> None:
    import ray

    def start(**_: object) -> None:
        signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(number))  # as Ray does
        signal.alarm(1000)
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(ray, "init", start)
    with stop_on_signals() as stop:
        ours = signal.getsignal(signal.SIGTERM)
        with pytest.raises(KeyboardInterrupt):
            connect(None)
        assert stop.count == 1
        assert signal.getsignal(signal.SIGTERM) is ours
        assert signal.alarm(0) == 0, "Ray's alarm is off"


def test_a_sigterm_while_the_configuration_is_read_ends_with_130_and_nothing_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt_reading(*_: object) -> None:
        signal.raise_signal(signal.SIGTERM)

    monkeypatch.setattr(
        "fmnas.platform.config.load.load_config", interrupt_reading
    )  # what a user waits for is said before it
    before = signal.getsignal(signal.SIGTERM)
    assert main(["run", "smoke", "--progress", "json", "--out", str(tmp_path / "run")]) == 130
    reading, ending = map(json.loads, capsys.readouterr().out.splitlines())
    assert reading["text"] == "reading smoke"
    assert ending["status"] == "interrupted"
    assert signal.getsignal(signal.SIGTERM) is before
    assert not (tmp_path / "run").exists()
