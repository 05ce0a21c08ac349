"""The commands: each takes the parsed arguments and returns the exit code; its docstring is what `fmnas --help` says.

What they need is imported when they run.
"""

import argparse
import json
import shlex
import sys
from collections.abc import Callable, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass, replace
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from fmnas.platform.display.console import complain, output, print_summary, reserved_output, say, terminal
from fmnas.platform.display.modes import JSON, LINES, LIVE, QUIET, LineScreen, mode_for, open_screen
from fmnas.platform.display.summary import Teller
from fmnas.platform.errors import ConfigError, ExitCode, ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment.run_directory import RunDirectory, new_run_directory, run_directory
from fmnas.platform.workers.cancellation import stop_on_signals
from fmnas.search_spaces import FmnasError

if TYPE_CHECKING:
    from fmnas.platform.config.schema import Config
    from fmnas.platform.registry import OptimizerEntry

Say = Callable[[str], None]


@dataclass(frozen=True)
class _Request:
    """A run. resume_command: without `fmnas`. config, retrain: of `run_experiment`."""

    directory: RunDirectory
    resume_command: str
    config: "Config | Callable[[Config], Config]"
    retrain: Mapping[str, int] | None = None
    is_uri_given: bool = False


def _run_command(request: Callable[[argparse.Namespace, Say], _Request]) -> Callable[[argparse.Namespace], int]:
    """Return the command that runs what is requested, and prints its results.

    request: also gets a function that prints a line. Signals are handled before its imports, which take seconds.
    With JSON or quiet, standard output has what these promise and nothing else.
    """

    @wraps(request)
    def command(arguments: argparse.Namespace) -> int:
        mode = mode_for(arguments.progress, terminal())
        reserved = reserved_output() if mode in (JSON, QUIET) else nullcontext(sys.stdout)
        with reserved as file, stop_on_signals(notify=complain) as stop:
            console = terminal(output(file))
            screen, teller = open_screen(mode, console, file), Teller(mode, console, file=file)
            try:
                wanted = request(arguments, screen.say)
                teller = replace(teller, directory=wanted.directory, again=wanted.resume_command)
                from fmnas.platform.display.progress import Progress
                from fmnas.platform.observers import Results
                from fmnas.platform.runner.driver import RunContext
                from fmnas.platform.runner.run import run_experiment

                results = Results(wanted.directory, screen, wanted.is_uri_given)
                observers = [Progress(screen), results]
                context = RunContext(observers, stop, arguments.address, print_tracebacks=mode in (LIVE, LINES))
                run = run_experiment(wanted.config, wanted.directory, context, wanted.retrain)
                return teller.tell(results.result(run))
            except KeyboardInterrupt:
                return teller.interrupted()
            except ExperimentFailed as error:
                return teller.failed(error)
            finally:
                screen.close()

    return command


@_run_command
def run(arguments: argparse.Namespace, say: Say) -> _Request:
    """Run an experiment."""
    from fmnas.platform.config.load import load_config
    from fmnas.platform.config.uri import with_absolute_uri

    say(f"reading {arguments.config}")
    config = with_absolute_uri(load_config(arguments.config, arguments.overrides, say, arguments.address), Path.cwd())
    directory = new_run_directory(arguments.out or Path("runs") / config.name)
    say(f"{config.summary_line}, into {directory.root}")
    return _Request(directory, directory.command("resume"), config, is_uri_given=True)


@_run_command
def resume(arguments: argparse.Namespace, say: Say) -> _Request:
    """Go on after a crash or Ctrl-C.

    It imports the files that its configuration names: treat a run directory like a program.
    """
    directory = run_directory(arguments.directory, write=True)
    say(f"resuming {directory.root}")
    return _Request(directory, directory.command("resume"), lambda present: present)


@_run_command
def extend(arguments: argparse.Namespace, say: Say) -> _Request:
    """Let an experiment grow, e.g. -o repeats=9, and go on with it.

    It imports the files that its configuration names: treat a run directory like a program.
    """
    directory, overrides = run_directory(arguments.directory, write=True), arguments.overrides
    say(f"extending {directory.root}")
    from fmnas.platform.config.uri import with_absolute_uri
    from fmnas.platform.runner.extension import extended_config

    def extended(present: "Config") -> "Config":
        config = extended_config(present, overrides, directory.root)
        return config if config.tracking == present.tracking else with_absolute_uri(config, Path.cwd())

    shown = [each for each in overrides if not each.startswith("tracking")]  # that may hold a password
    again = shlex.join(["extend", str(directory.root), *(part for each in shown for part in ("-o", each))])
    is_uri_given = any(each.startswith(("tracking=", "tracking.uri=")) for each in overrides)
    return _Request(directory, again if shown else directory.command("resume"), extended, is_uri_given=is_uri_given)


@_run_command
def retrain(arguments: argparse.Namespace, say: Say) -> _Request:
    """Train the best of every run anew, and measure it on test images.

    It imports the files that its configuration names: treat a run directory like a program.
    """
    directory = run_directory(arguments.directory, write=True)
    say(f"retraining the best of {directory.root}")
    options = {name: getattr(arguments, name) for name in ("epochs", "images", "seeds")}
    asked = {name: value for name, value in options.items() if value is not None}
    flags = "".join(f" --{name} {value}" for name, value in asked.items())
    return _Request(directory, f"{directory.command('retrain')}{flags}", lambda present: present, asked)


def status(arguments: argparse.Namespace) -> int:
    """How an experiment stands, also while a driver works."""
    from fmnas.platform.display.status import print_status, status_of

    facts = status_of(run_directory(arguments.directory))
    if arguments.json:
        print(json.dumps(facts, indent=2))  # noqa: T201
    else:
        print_status(facts, terminal())
    return ExitCode.DONE


def report(arguments: argparse.Namespace) -> int:
    """Table, figures and page of a run directory, or of several together."""
    console = terminal()
    in_place = arguments.out is None and len(arguments.directories) == 1
    for path in arguments.directories:
        run_directory(path, write=in_place)
    say(console, f"reading {', '.join(map(str, arguments.directories))}")
    from fmnas.platform.report.merge import write_report_of as write

    summary, directory = write(arguments.directories, arguments.out, partial(say, console))
    print_summary(summary, console)
    say(console, f"page            {directory.page}")
    return ExitCode.DONE


def replay(arguments: argparse.Namespace) -> int:
    """Ask every optimizer again, and say where its suggestions differ.

    It imports the files that its configuration names: treat a run directory like a program.
    """
    from fmnas.platform.config.errors import format_count
    from fmnas.platform.experiment.replay import replay_directory

    directory, console = run_directory(arguments.directory), terminal()
    counts, mismatches = replay_directory(directory, partial(say, console))
    for mismatch in mismatches:
        say(console, str(mismatch))
    for run, count in counts.items():
        differ = sum(mismatch.run == run for mismatch in mismatches)
        told = f"{differ} differ{'s' if differ == 1 else ''}" if differ else "all as recorded"
        say(console, f"{run}: {format_count(count, 'suggestion')} asked again, {told}")
    return ExitCode.FAILED if mismatches else ExitCode.DONE


def sync(arguments: argparse.Namespace) -> int:
    """Send to MLflow what it missed."""
    from fmnas.platform.observers import sync as send

    directory, console = run_directory(arguments.directory, write=True), terminal()
    sent = send(directory, LineScreen(console))
    tracking = sent.tracking
    counts = f"{tracking.written} trial(s) sent, {tracking.present} were there already, {tracking.missed} missed"
    if tracking.remark:
        say(console, tracking.remark)
    say(console, f"{sent.store}: {counts}")
    if tracking.missed or tracking.reason:
        complain(f"not all could be sent: {tracking.reason}; try again")
        return ExitCode.FAILED
    return ExitCode.DONE


def ui(arguments: argparse.Namespace) -> int:
    """Open MLflow's UI on the store of a run directory."""
    directory = run_directory(arguments.directory or _latest_tracked(Path("runs")))
    say(terminal(), f"starting MLflow's UI on the store of {directory.root}")
    from fmnas.platform.experiment.configuration import current_tracking
    from fmnas.platform.experiment.journal import read_events
    from fmnas.platform.experiment.ledger import fold
    from fmnas.platform.mlflow.credentials import tracking_uri
    from fmnas.platform.mlflow.ui import open_ui

    name, tracking = current_tracking(directory)
    uri, identity = tracking_uri(tracking, directory), fold(read_events(directory)).id
    open_ui(uri, arguments.port, tracking.experiment or name, identity, partial(say, terminal()))
    return ExitCode.DONE


def config(arguments: argparse.Namespace) -> int:
    """Print a configuration with every default, explained, and its cost."""
    from fmnas.platform.config.load import load_config
    from fmnas.platform.config.reference import to_commented_yaml
    from fmnas.platform.runner.preflight import cost_of, design_warnings, measured, warm_start_cost_note

    said: list[str] = []
    found = load_config(arguments.config, arguments.overrides, said.append)
    time = [f"Time: {measured(found)}"] if arguments.time else []
    told = [*said, f"Cost: {cost_of(found)}", *warm_start_cost_note(found), *time, *design_warnings(found)]
    sys.stdout.write(to_commented_yaml(found) + "".join(f"# {line}\n" for line in told))
    return ExitCode.DONE


def list_(arguments: argparse.Namespace) -> int:
    """What there is, one line each."""
    if arguments.options and arguments.what != "optimizers":
        raise ConfigError(
            f"--options: {arguments.what} have none; `fmnas list optimizers --options` shows those that there are"
        )
    if arguments.what == "problems":
        from fmnas.platform.problems import ALIASES, PROBLEMS
        from fmnas.platform.registry import find_plugins

        lines = {name: entry.summary for name, entry in PROBLEMS.items()} | find_plugins("fmnas.problems")
        lines |= {alias: f"another name of {name}" for alias, name in ALIASES.items()}
    elif arguments.what == "optimizers":
        from fmnas.platform.registry import OPTIMIZERS, find_plugins

        lines = {name: row.summary for name, row in OPTIMIZERS.items()}
        if arguments.options:
            lines = {name: f"{told}: {_options(OPTIMIZERS[name])}" for name, told in lines.items()}
        lines |= find_plugins("fmnas.optimizers")
    else:
        from fmnas.platform.config.source import shipped_configs

        lines = {name: text.splitlines()[0].removeprefix("# ") for name, text in shipped_configs().items()}
    width = max([22, *map(len, lines)]) + 2
    for name, text in lines.items():
        print(f"{name:<{width}}{text}")  # noqa: T201
    return ExitCode.DONE


def doctor(arguments: argparse.Namespace) -> int:
    """What this machine and cluster can do, and what is missing."""
    from fmnas.platform.doctor import run_checks

    console, passed = terminal(), True
    for result in run_checks(arguments.address):
        passed = passed and result.passed
        word, colour = ("ok", "green") if result.passed else ("missing", "red")
        _print_verdict(console, word, colour, f"{result.name:<18} {result.detail}")
        sys.stdout.flush()  # the next check may take seconds
    return ExitCode.DONE if passed else ExitCode.FAILED


def check(arguments: argparse.Namespace) -> int:
    """Whether an optimizer keeps the contract, a line for each rule."""
    from fmnas.platform.check import Verdict, load_candidate
    from fmnas.platform.check import check as findings_of

    it, console = load_candidate(arguments.optimizer, arguments.overrides), terminal()
    colours = {Verdict.HOLDS: "green", Verdict.BROKEN: "red", Verdict.SKIPPED: "yellow"}
    verdicts = []
    for finding in findings_of(it, arguments.seconds):
        verdicts.append(finding.verdict)
        detail = f": {finding.detail}" if finding.detail else ""
        _print_verdict(console, finding.verdict, colours[finding.verdict], f"{finding.rule}{detail}")
    broken = verdicts.count(Verdict.BROKEN)
    told = f"{broken} of {len(verdicts)} rules broken" if broken else "it keeps every rule"
    say(console, f"{arguments.optimizer}: {told}")
    return ExitCode.FAILED if broken else ExitCode.DONE


def _print_verdict(console: Console, word: str, colour: str, told: str) -> None:
    console.print(Text.assemble((f"{word:<7}", colour), f"  {told}"), soft_wrap=True, highlight=False)


def _options(row: "OptimizerEntry") -> str:
    """With their defaults, and what is to choose from; and the one key beside them that not every optimizer takes."""
    from fmnas.optimizers.options import get_choices, get_options

    known, words = get_options(row.optimizer), []
    for name, value in row.validate_options({}).items():
        others = [str(each) for each in get_choices(known[name].annotation) if each != value]
        words.append(f"{name} {value} (or {', '.join(others)})" if others else f"{name} {value}")
    told = ", ".join(words) or "no options"
    return told if row.takes_initial_design else f"{told}; no warm_start"


def _latest_tracked(folder: Path) -> Path:
    """The latest run directory of which MLflow was told; the latest of all where there is none such."""
    from fmnas.platform.experiment.configuration import current_tracking

    journals = sorted(folder.glob("*/journal.jsonl"), key=lambda path: path.stat().st_mtime, reverse=True)
    if not journals:
        raise RunDirectoryError(f"{folder} holds no run directory; name one: fmnas ui DIR")
    for journal in journals:
        with suppress(FmnasError):
            current_tracking(run_directory(journal.parent))
            return journal.parent
    return journals[0].parent
