"""The command line: fmnas run | resume | report | replay | sync | ui | list | doctor.

Exit codes: 0 done, 1 the experiment failed, 2 the input was wrong, 130 interrupted (resumable).
"""

import argparse
import os
import signal
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError
from fmnas.platform.paths import RunDirectory
from fmnas.platform.terminal import print_summary, terminal
from fmnas.search_spaces import FmnasError

if TYPE_CHECKING:
    from fmnas.platform.launch import Ending, Surroundings
    from fmnas.platform.stop import StopRequest

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit code."""
    parsed = _parser().parse_args(arguments)
    try:
        return int(parsed.command(parsed))
    except FmnasError as error:
        print(f"fmnas: {error}", file=sys.stderr)  # noqa: T201
        return WRONG_INPUT
    except ExperimentFailed as error:
        print(f"fmnas: the experiment failed: {error}", file=sys.stderr)  # noqa: T201
        return FAILED
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:  # the reader of our output went away, e.g. `| head`
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="fmnas", description="Which optimizer is better, on real trainings, at the same budget."
    )
    parser.add_argument("--version", action="version", version=f"fmnas {version('fmnas')}")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    run = commands.add_parser("run", help="run an experiment")
    run.add_argument("config", metavar="CONFIG", help="a YAML file, or the name of a shipped one")
    run.add_argument("-o", dest="overrides", metavar="KEY=VALUE", action="append", default=[], help="override a key")
    run.add_argument("--address", help="of a Ray cluster, or auto; default: a cluster of its own on this machine")
    run.add_argument("--out", type=Path, metavar="DIR", help="run directory; default: runs/NAME")
    run.set_defaults(command=_run)

    resume = commands.add_parser("resume", help="go on after a crash or Ctrl-C")
    resume.add_argument("directory", type=Path, metavar="DIR")
    resume.add_argument("--address", help="of a Ray cluster, or auto")
    resume.set_defaults(command=_resume)

    report = commands.add_parser("report", help="table, figures and page of a run directory, or of several together")
    report.add_argument("directories", type=Path, metavar="DIR", nargs="+")
    report.add_argument("--out", type=Path, metavar="DIR", help="default: in DIR; of several: runs/report-NAMES")
    report.set_defaults(command=_report)

    replay = commands.add_parser("replay", help="ask every optimizer again, and say where its suggestions differ")
    replay.add_argument("directory", type=Path, metavar="DIR")
    replay.set_defaults(command=_replay)

    sync = commands.add_parser("sync", help="send to MLflow what it missed")
    sync.add_argument("directory", type=Path, metavar="DIR")
    sync.set_defaults(command=_sync)

    ui = commands.add_parser("ui", help="open MLflow's UI on the store of a run directory")
    ui.add_argument("directory", type=Path, metavar="DIR", nargs="?", help="default: the latest below runs/")
    ui.add_argument("--port", type=int, default=5000)
    ui.set_defaults(command=_ui)

    listing = commands.add_parser("list", help="what there is, one line each")
    listing.add_argument("what", choices=["problems", "optimizers", "configs"])
    listing.set_defaults(command=_list)

    doctor = commands.add_parser("doctor", help="what this machine and cluster can do, and what is missing")
    doctor.add_argument("--address", help="of a Ray cluster, or auto")
    doctor.set_defaults(command=_doctor)
    return parser


def _run(arguments: argparse.Namespace) -> int:
    from fmnas.platform.config import load_config
    from fmnas.platform.launch import launch

    config = load_config(arguments.config, arguments.overrides)
    directory = RunDirectory(arguments.out or Path("runs") / config.name)
    return _drive(lambda around: launch(config, directory, around), directory, arguments.address)


def _resume(arguments: argparse.Namespace) -> int:
    from fmnas.platform.launch import resume

    directory = RunDirectory(arguments.directory)
    return _drive(lambda around: resume(directory, around), directory, arguments.address)


def _drive(start: "Callable[[Surroundings], Ending]", directory: RunDirectory, address: str | None) -> int:
    """Run an experiment to its ending, and tell of it."""
    from fmnas.platform.launch import Surroundings

    console = terminal()
    try:
        with _signals() as stop:
            return _tell(start(Surroundings(address, console, stop)), directory, console)
    except KeyboardInterrupt:
        if directory.journal.exists():
            _tell_resume(directory, console)
        return INTERRUPTED


def _report(arguments: argparse.Namespace) -> int:
    from fmnas.platform.merging import report

    console = terminal()
    summary, directory = report(arguments.directories, arguments.out)
    print_summary(summary, console)
    console.print(f"page            {directory.page}", soft_wrap=True, highlight=False)
    return DONE


def _replay(arguments: argparse.Namespace) -> int:
    from fmnas.platform.experiment import build_experiment
    from fmnas.platform.launch import begun_config, experiment_records
    from fmnas.platform.replay import in_words, replay

    directory, console = RunDirectory(arguments.directory), terminal()
    records = experiment_records(directory)
    config = begun_config(directory, records[0])
    replayed = replay(lambda: build_experiment(config), records[1:])
    for difference in replayed.differences:
        console.print(in_words(difference), soft_wrap=True, highlight=False, markup=False)
    for run, asks in replayed.asks.items():
        differ = sum(difference.run == run for difference in replayed.differences)
        told = f"{differ} differ" if differ else "all as recorded"
        console.print(f"{run}: {asks} suggestions asked again, {told}", soft_wrap=True, highlight=False)
    return FAILED if replayed.differences else DONE


def _sync(arguments: argparse.Namespace) -> int:
    from fmnas.platform.launch import Surroundings, sync
    from fmnas.platform.stop import StopRequest

    directory, console = RunDirectory(arguments.directory), terminal()
    sent = sync(directory, Surroundings(None, console, StopRequest()))
    tracking = sent.tracking
    counts = f"{tracking.written} trial(s) sent, {tracking.present} were there already, {tracking.missed} missed"
    console.print(f"{sent.store}: {counts}", soft_wrap=True, highlight=False)
    if tracking.missed or tracking.reason:
        print(f"fmnas: not all could be sent: {tracking.reason}; try again", file=sys.stderr)  # noqa: T201
        return FAILED
    return DONE


def _ui(arguments: argparse.Namespace) -> int:
    from fmnas.platform.config import load_config
    from fmnas.platform.mlflow_ui import open_ui

    directory = RunDirectory(arguments.directory or _latest(Path("runs")))
    directory.check_present()
    config = load_config(directory.config)
    tracking = config.tracking
    open_ui(tracking.uri or directory.store, arguments.port, experiment=tracking.experiment or config.name)
    return DONE


def _list(arguments: argparse.Namespace) -> int:
    lines: dict[str, str] = {}
    if arguments.what == "problems":
        from fmnas.platform.problems import ALIASES, PROBLEMS

        lines = {name: entry.summary for name, entry in PROBLEMS.items()}
        lines |= {alias: f"another name of {name}" for alias, name in ALIASES.items()}
    elif arguments.what == "optimizers":
        from fmnas.platform.methods import METHODS

        lines = {name: method.summary for name, method in METHODS.items()}
    else:
        from fmnas.platform.config import shipped_configs

        lines = {name: text.splitlines()[0].removeprefix("# ") for name, text in shipped_configs().items()}
    for name, text in lines.items():
        print(f"{name:<24}{text}")  # noqa: T201
    return DONE


def _doctor(arguments: argparse.Namespace) -> int:
    from fmnas.platform.doctor import examine

    console = terminal()
    findings = examine(arguments.address)
    for finding in findings:
        mark = "[green]ok[/]     " if finding.good else "[red]missing[/]"
        console.print(f"{mark}  {finding.what:<18} {finding.detail}", soft_wrap=True, highlight=False)
    return DONE if all(finding.good for finding in findings) else FAILED


@contextmanager
def _signals() -> "Iterator[StopRequest]":
    """Ctrl-C and SIGTERM ask the driver to stop; before it runs and after, the second of them ends the process."""
    from fmnas.platform.stop import StopRequest

    stop = StopRequest()

    def handle(number: int, frame: object) -> None:
        stop.ask()
        if stop.count > (2 if stop.heeded else 1):
            raise KeyboardInterrupt

    before = {number: signal.signal(number, handle) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _tell(ending: "Ending", directory: RunDirectory, console: Console) -> int:
    """Print the table and where everything is; the exit code of an ending."""
    print_summary(ending.summary, console)
    tracking = ending.tracking
    places = {"run directory": str(directory.root), "page": str(directory.page)}
    if tracking.store_experiment or tracking.missed:
        places |= {"MLflow store": ending.store, "open it with": f"{_called()} ui {directory.root}"}
    for what, place in places.items():
        console.print(f"{what:<15} {place}", soft_wrap=True, highlight=False)
    if tracking.missed:
        console.print(
            f"MLflow missed {tracking.missed} trial(s) ({tracking.reason}); the journal has them: "
            f"`{_called()} sync {directory.root}` sends them",
            soft_wrap=True,
        )
    if ending.status == "failed":
        print(f"fmnas: the experiment failed: {ending.reason}", file=sys.stderr)  # noqa: T201
        console.print(f"resume with     {_called()} resume {directory.root}", soft_wrap=True, highlight=False)
        return FAILED
    if ending.status == "interrupted":
        _tell_resume(directory, console)
        return INTERRUPTED
    return DONE


def _tell_resume(directory: RunDirectory, console: Console) -> None:
    console.print(f"interrupted; resume with     {_called()} resume {directory.root}", soft_wrap=True, highlight=False)


def _called() -> str:
    """How this command was called, so that what is printed can be typed: the virtual environment may not be active."""
    return sys.argv[0] if Path(sys.argv[0]).name == "fmnas" else "fmnas"


def _latest(folder: Path) -> Path:
    journals = sorted(folder.glob("*/journal.jsonl"), key=lambda path: path.stat().st_mtime)
    if not journals:
        raise RunDirectoryError(f"{folder} holds no run directory; name one: fmnas ui DIR")
    return journals[-1].parent


if __name__ == "__main__":
    sys.exit(main())
