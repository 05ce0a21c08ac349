"""A reader may leave, a terminal close, a disk fill up: the experiment continues, with its own exit code."""

import errno
import io
import json
import os
import pty
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from support import journal_dicts, write_journal

from fmnas.platform.cli import main
from fmnas.platform.display.console import PLAIN, make_console, print_line, reserve_stdout
from fmnas.platform.display.log import JSON, LINES, LIVE, make_logger
from fmnas.platform.experiment.events import Asked
from fmnas.platform.experiment.journal import read_journal

pytestmark = pytest.mark.slow

FMNAS = [sys.executable, str(Path(__file__).with_name("one_figure.py"))]
LITTLE = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "-o", "optimizers=[random]"]


class Broken(io.StringIO):
    """Raises at every write after the first."""

    def __init__(self, error: int) -> None:
        super().__init__()
        self.writes, self.error = 0, error

    def write(self, text: str) -> int:
        self.writes += 1
        if self.writes > 1:
            raise OSError(self.error, os.strerror(self.error))
        return super().write(text)

    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize("mode", [LINES, LIVE, JSON])
@pytest.mark.parametrize("error", [errno.EPIPE, errno.ENOSPC, errno.EIO])
def test_no_output_raises(mode: str, error: int, capsys: pytest.CaptureFixture[str]) -> None:
    logger = make_logger(mode, make_console(Broken(error)))
    for i in range(3):
        logger.info("message %s", i)
        logger.warning("failure", extra={"event": "lost", "facts": {}})
    assert capsys.readouterr() == ("", "")


def run(out: Path, *arguments: str, stdout: Any) -> "subprocess.Popen[bytes]":
    command = [*FMNAS, "run", "smoke", *LITTLE, *arguments, "--out", str(out)]
    return subprocess.Popen(command, stdout=stdout, stderr=subprocess.PIPE)


@pytest.mark.parametrize(("mode", "is_full_disk"), [("lines", True), ("json", False)])
def test_an_experiment_outlives_its_reader(tmp_path: Path, mode: str, is_full_disk: bool) -> None:
    out = tmp_path / "run"
    if is_full_disk:
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


def build_environment() -> dict[str, str]:
    """The environment of a process that buffers its output, whatever that of the tests does."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}


def unread(*arguments: str) -> tuple[int, str]:
    """Exit code and errors of a command whose standard output is closed."""
    reader, writer = os.pipe()
    os.close(reader)
    command = [*FMNAS, *arguments]
    done = subprocess.run(
        command, env=build_environment(), stdout=writer, stderr=subprocess.PIPE, text=True, check=False
    )
    os.close(writer)
    return done.returncode, done.stderr


def test_a_command_without_a_reader_keeps_its_exit_code(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert main(["run", "smoke", *LITTLE, "--out", str(out)]) == 0
    assert unread("status", str(out)) == unread("status", str(out), "--json") == unread("--help") == (0, "")
    events = read_journal(out / "journal.jsonl")
    for i, event in enumerate(events):
        if isinstance(event, Asked):
            configuration = {**event.trial.configuration, "x1": 0.125}
            events[i] = replace(event, trial=replace(event.trial, configuration=configuration))
    write_journal(out / "journal.jsonl", events)
    assert unread("replay", str(out)) == (1, ""), "suggestions differ"


@pytest.mark.parametrize(
    "arguments",
    [
        ["config", "smoke", "-o", "optimizers=[random, {name: random, label: b}]"],
        ["list", "configs"],
        ["list", "problems"],
    ],
    ids=["more than a buffer", "more than a block", "less"],
)
def test_a_command_says_that_the_disk_of_its_output_is_full(arguments: list[str]) -> None:
    """Whether it notices while it prints, or when its buffer is written at the end."""
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [*FMNAS, *arguments],
            env=build_environment(),
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert done.stderr == "fmnas: [Errno 28] No space left on device: free some space and repeat the command\n"


MODES = ("lines", "quiet", "json")
RUN_IN_EACH_MODE = f"""
import os
import sys
from fmnas.comparison import figures
from fmnas.platform.cli import main

figures.FIGURES = figures.FIGURES[1:2]
folder, *arguments = sys.argv[1:]
for mode in {MODES}:
    if not os.fork():
        sys.exit(main([*arguments, "--progress", mode, "--out", os.path.join(folder, mode)]))
    assert os.wait()[1] == 0, mode
"""


def test_a_command_runs_with_a_closed_standard_output(tmp_path: Path) -> None:
    """A process per mode; they share the imports."""
    command = [sys.executable, "-c", RUN_IN_EACH_MODE, str(tmp_path), "run", "smoke", *LITTLE]
    closed = ["sh", "-c", '"$@" >&-', "sh", *command]
    done = subprocess.run(closed, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert [(tmp_path / mode / "summary.json").is_file() for mode in MODES] == [True] * 3


def test_a_closed_terminal_stops_the_experiment_as_ctrl_c_does(tmp_path: Path) -> None:
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


def _own_terminal() -> None:
    """Make standard input the controlling terminal, whose end sends SIGHUP, even if the tests ignore that."""
    import fcntl
    import termios

    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


def test_a_terminal_without_utf_8_shows_the_table(tmp_path: Path) -> None:
    command = [*FMNAS, "run", "smoke", *LITTLE, "-o", "budget.evaluations=5", "--progress", "quiet"]
    environment = {**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "0"}
    done = subprocess.run([*command, "--out", str(tmp_path / "run")], env=environment, capture_output=True, check=True)
    (row,) = (line.split() for line in done.stdout.decode("ascii").splitlines() if line.startswith("random   "))
    assert (row[2], row[-1]) == ("-", "-"), "one repeat has no standard error, and random search no method"
    assert "?" not in done.stdout.decode("ascii")


def test_signs_that_a_stream_lacks_become_similar_ones() -> None:
    assert "1 – 2 ± 3 → ü".encode("ascii", PLAIN) == b"1 - 2 +- 3 -> ?"


TALKING = """
import os
from fmnas.search_spaces import Real
from fmnas.trainers import objective

print("printed at import")

@objective([Real("x", 0, 1)])
def talks(configuration):
    print("printed in a trial")
    os.write(1, b"written in a trial\\n")
    return configuration["x"]
"""


@pytest.mark.parametrize("mode", ["json", "quiet"])
def test_output_of_user_code_is_not_on_standard_output(tmp_path: Path, mode: str) -> None:
    (tmp_path / "talks.py").write_text(TALKING)
    changes = [f"problem={tmp_path / 'talks.py'}:talks", "initial_design=1", "budget.evaluations=3"]
    options = [*LITTLE, *(flag for change in changes for flag in ("-o", change))]
    command = [*FMNAS, "run", "smoke", *options, "--progress", mode, "--out", str(tmp_path / "run")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    if mode == "json":
        assert [json.loads(line)["event"] for line in done.stdout.splitlines()][-1] == "end"
    else:
        assert done.stdout.split()[0] == "optimizer"
    for words in ("printed at import", "printed in a trial", "written in a trial"):
        assert words not in done.stdout
        assert words in done.stderr


def test_standard_output_is_restored(capfd: pytest.CaptureFixture[str]) -> None:
    with reserve_stdout() as stdout:
        sys.stdout.write("to errors\n")
        os.write(1, b"to errors\n")
        print("to output", file=stdout)
    sys.stdout.write("after\n")
    assert capfd.readouterr() == ("to output\nafter\n", "to errors\nto errors\n")


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_terminal_breaks_lines_between_words_and_a_file_never(is_terminal: bool) -> None:
    text = "8 repeats of 4 optimizers: no verdict is possible, 9 are needed"
    file = io.StringIO()
    print_line(Console(file=file, width=30, force_terminal=is_terminal, color_system=None), text)
    lines = file.getvalue().splitlines()
    assert " ".join(line.strip() for line in lines) == text
    assert max(map(len, lines)) <= 30 if is_terminal else len(lines) == 1
