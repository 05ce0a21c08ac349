"""Whoever reads may go away, close the terminal or fill the disk: the experiment goes on, with its own exit code."""

import errno
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support import journal_dicts

from fmnas.platform.display.console import PatientOutput, reserved_output, terminal
from fmnas.platform.display.modes import Happening, JsonScreen, LineScreen, LiveScreen, Screen
from fmnas.platform.experiment.journal import Journal

FMNAS = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
LITTLE = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "-o", "optimizers=[random]"]


class Broken(io.StringIO):
    """Takes so many writes, and then none."""

    def __init__(self, writes: int, error: int) -> None:
        super().__init__()
        self.left, self.error = writes, error

    def write(self, text: str) -> int:
        self.left -= 1
        if self.left < 0:
            raise OSError(self.error, os.strerror(self.error))
        return super().write(text)

    def isatty(self) -> bool:
        return True


SCREENS: dict[str, Callable[[Any], Screen]] = {
    "lines": lambda file: LineScreen(terminal(file)),
    "live": lambda file: LiveScreen(terminal(file)),
    "json": JsonScreen,
}


@pytest.mark.parametrize("mode", SCREENS)
@pytest.mark.parametrize("error", [errno.EPIPE, errno.ENOSPC, errno.EIO])
def test_a_screen_never_raises(mode: str, error: int) -> None:
    screen = SCREENS[mode](PatientOutput(Broken(1, error)))
    screen.show(lambda: "a table")
    for i in range(3):
        screen.tell(Happening("ended", {"i": i}, f"line {i}", bad=i == 1))
        screen.say("said")
    screen.close()


def run(out: Path, *arguments: str, stdout: Any) -> "subprocess.Popen[bytes]":
    command = [*FMNAS, "run", "smoke", *LITTLE, *arguments, "--out", str(out)]
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE)


@pytest.mark.parametrize("mode", ["lines", "json"])
@pytest.mark.parametrize("where", ["a pipe", "a full disk"])
def test_an_experiment_outlives_its_reader(tmp_path: Path, mode: str, where: str) -> None:
    out = tmp_path / "run"
    if where == "a full disk":
        with open("/dev/full", "w") as full:
            process = run(out, "--progress", mode, stdout=full)
    else:
        process = run(out, "--progress", mode, stdout=subprocess.PIPE)
        assert process.stdout is not None
        process.stdout.readline()
        process.stdout.close()
    with process:
        assert process.stderr is not None
        errors = process.stderr.read().decode()
    assert (process.returncode, errors) == (0, "")
    assert json.loads((out / "summary.json").read_text())["optimizers"]
    assert journal_dicts(out / "journal.jsonl")[-1]["status"] == "finished"


def test_a_command_whose_reader_went_away_keeps_its_exit_code(tmp_path: Path) -> None:
    out = tmp_path / "run"
    with run(out, stdout=subprocess.DEVNULL) as process:
        assert process.wait(60) == 0
    assert unread("status", str(out)) == unread("status", str(out), "--json") == unread("replay", str(out)) == (0, "")
    assert unread("list", "configs") == unread("--help") == (0, "")  # which fit into a buffer
    journal = out / "journal.jsonl"
    records = journal_dicts(journal)
    journal.unlink()
    with Journal(journal) as changed:
        for record in records:
            if record["event"] == "asked":
                record["trial"]["configuration"]["x1"] = 0.125
            changed.append(record)
    assert unread("replay", str(out)) == (1, "")  # its own: suggestions differ


def unread(*arguments: str) -> tuple[int, str]:
    """Exit code and errors of a command of whose output nobody reads a word."""
    reader, writer = os.pipe()
    os.close(reader)
    buffered = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    done = subprocess.run(
        [*FMNAS, *arguments], env=buffered, stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    return done.returncode, done.stderr


def test_a_terminal_that_is_closed_stops_the_experiment_as_ctrl_c_does(tmp_path: Path) -> None:
    out = tmp_path / "run"
    ours, theirs = pty.openpty()
    command = [*FMNAS, "run", "smoke", *LITTLE, "-o", "budget.evaluations=100000", "--out", str(out)]
    process = subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True, preexec_fn=_own_terminal
    )
    os.close(theirs)
    journal = out / "journal.jsonl"
    while not journal.exists() or journal.read_text().count('"event":"finished"') < 3:
        assert process.poll() is None
        os.set_blocking(ours, False)
        try:
            os.read(ours, 65536)
        except BlockingIOError:
            time.sleep(0.05)
    os.close(ours)
    assert process.wait(60) == 130
    assert journal_dicts(journal)[-1]["status"] == "interrupted"
    assert (out / "summary.json").exists()
    assert not (out / "driver.lock").exists()


def _own_terminal() -> None:
    """Its standard input becomes its controlling terminal, whose end is told by SIGHUP, also where tests ignore it."""
    import fcntl
    import termios

    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_what_nohup_ignores_stays_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    from fmnas.platform.workers.cancellation import stop_on_signals

    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with stop_on_signals() as stop:
            signal.raise_signal(signal.SIGHUP)
            assert stop.count == 0
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with stop_on_signals() as stop:
            stop.heeded = True
            signal.raise_signal(signal.SIGHUP)
            assert stop.count == 1
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("encoding", ["latin-1", "ascii"])
def test_a_terminal_that_lacks_a_letter_shows_another(tmp_path: Path, encoding: str) -> None:
    """The final table has a dash that no such terminal knows."""
    command = [*FMNAS, "run", "smoke", *LITTLE, "-o", "budget.evaluations=5", "--out", str(tmp_path / "run")]
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "PYTHONUTF8": "0"}
    done = subprocess.run(command, env=environment, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert b"random" in done.stdout


TALKING = """
import os
from fmnas.search_spaces import Real
from fmnas.trainers import objective
from support import journal_dicts

print("printed at import")

@objective([Real("x", 0, 1)])
def talks(configuration):
    print("printed in a trial")
    os.write(1, b"written in a trial\\n")
    return configuration["x"]
"""


@pytest.mark.parametrize("mode", ["json", "quiet"])
def test_what_a_function_prints_does_not_reach_the_output_that_a_program_reads(tmp_path: Path, mode: str) -> None:
    (tmp_path / "talks.py").write_text(TALKING)
    changes = [f"problem={tmp_path / 'talks.py'}:talks", "initial_design=1", "budget.evaluations=3"]
    options = [*LITTLE, *(flag for change in changes for flag in ("-o", change))]
    command = [*FMNAS, "run", "smoke", *options, "--progress", mode, "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if mode == "json":
        assert [json.loads(line)["event"] for line in done.stdout.splitlines()][-1] == "ending"
    else:
        assert done.stdout.split()[0] == "optimizer"
    for words in ("printed at import", "printed in a trial", "written in a trial"):
        assert words not in done.stdout
        assert words in done.stderr


def test_standard_output_is_as_it_was_after_it_was_reserved(capfd: pytest.CaptureFixture[str]) -> None:
    with reserved_output() as own:
        sys.stdout.write("to errors\n")
        os.write(1, b"to errors\n")
        print("to output", file=own)
    sys.stdout.write("after\n")
    assert capfd.readouterr() == ("to output\nafter\n", "to errors\nto errors\n")


def test_lines_break_between_words_at_a_terminal_and_nowhere_in_a_file() -> None:
    text = "8 repeats of 4 optimizers: no verdict is possible, 9 are needed"
    for is_terminal in (True, False):
        file = io.StringIO()
        console = Console(file=file, width=30, force_terminal=is_terminal, color_system=None)
        LineScreen(console).say(text)
        lines = file.getvalue().splitlines()
        assert " ".join(line.strip() for line in lines) == text
        assert max(map(len, lines)) <= 30 if is_terminal else len(lines) == 1
