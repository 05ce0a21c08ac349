"""The commands of the command line, a function each. It returns the exit code; its docstring is the help text.

Heavy modules are imported inside the functions.
"""

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from fmnas.platform.display.console import make_console, print_error, print_line, reserve_stdout
from fmnas.platform.display.log import JSON, LINES, LIVE, QUIET, resolve_mode
from fmnas.platform.display.summary import ResultPrinter, print_problems_summary, print_summary
from fmnas.platform.errors import CheckResult, ConfigError, Ending, ExitCode, ExperimentFailed
from fmnas.platform.experiment.run_directory import RunDirectory, new_run_directory, run_directory
from fmnas.platform.experiment.trial_result import TrialResult
from fmnas.platform.workers.cancellation import StopRequest, stop_on_signals

if TYPE_CHECKING:
    from fmnas.integrations.exported import ExportedExperiment
    from fmnas.platform.config.schema import Config
    from fmnas.platform.display.progress import Progress
    from fmnas.platform.experiment.state import ExperimentState
    from fmnas.platform.registry import OptimizerEntry
    from fmnas.platform.runner.plan import ConfigChange


@dataclass
class Session:
    """What the commands that run something share. exit_code: set when the results are printed."""

    printer: ResultPrinter
    progress: "Progress"
    stop: StopRequest
    address: str | None
    exit_code: int = ExitCode.DONE

    def begin(self, directory: RunDirectory, text: str, resume_command: str = "") -> None:
        """Tell the user what begins. resume_command: the arguments of `fmnas` that continue it; default: resume DIR."""
        address = f" --address {shlex.quote(self.address)}" if self.address else ""
        command = f"{resume_command or directory.command('resume')}{address}"
        self.printer = replace(self.printer, directory=directory, resume_command=command)
        self.progress.on_message(text)

    def run(
        self,
        config: "Config | ConfigChange",
        directory: RunDirectory,
        retrain: Mapping[str, int] | None = None,
        is_uri_given: bool = False,
        saves: bool = False,
    ) -> None:
        """Run the experiment and print its results. is_uri_given: whether the user gave tracking.uri."""
        from fmnas.platform.observers import ResultsWriter, load_plugin_observers
        from fmnas.platform.runner.driver import RunContext
        from fmnas.platform.runner.run import run_experiment

        results = ResultsWriter(directory, self.progress.on_message, is_uri_given)
        has_lines = self.printer.mode in (LIVE, LINES)
        plugins = load_plugin_observers(self.progress.on_message)
        context = RunContext([self.progress, results, *plugins], self.stop, self.address, print_tracebacks=has_lines)
        run_result = run_experiment(config, directory, context, retrain, saves)
        self.exit_code = self.printer.print_result(results.result(run_result))


@contextmanager
def open_session(progress: str | None, address: str | None) -> Iterator[Session]:
    """Handle signals, and report in a mode until the end. With json and quiet, nothing else is on standard output."""
    mode = resolve_mode(progress, make_console())
    stdout = reserve_stdout() if mode in (JSON, QUIET) else nullcontext(sys.stdout)
    with stdout as file, stop_on_signals() as stop:
        from fmnas.platform.display.progress import Progress

        console = make_console(file)
        session = Session(ResultPrinter(mode, console), Progress(mode, console), stop, address)
        try:
            yield session
        except KeyboardInterrupt:
            session.exit_code = session.printer.print_end(Ending.INTERRUPTED)
        except ExperimentFailed as error:
            session.exit_code = session.printer.print_end(Ending.FAILED, str(error))
        finally:
            session.progress.close()


def run(config: str, overrides: Sequence[str], out: Path | None, address: str | None, progress: str | None) -> int:
    """Run an experiment."""
    with open_session(progress, address) as session:
        from fmnas.platform.config.load import load_config

        session.progress.on_message(f"reading {config}")
        settings = load_config(config, overrides, session.progress.on_message, address)
        directory = new_run_directory(out or Path("runs") / settings.name)
        session.begin(directory, f"{settings.summary_line}, into {directory.root}")
        session.run(settings, directory, is_uri_given=True)
    return session.exit_code


def resume(directory: Path, address: str | None, progress: str | None) -> int:
    """Resume an experiment after a crash or Ctrl-C.

    Files that its configuration names are imported: treat a run directory like a program.
    """
    with open_session(progress, address) as session:
        run_dir = run_directory(directory, write=True)
        session.begin(run_dir, f"resuming {run_dir.root}")
        session.run(lambda present: present, run_dir)
    return session.exit_code


def extend(directory: Path, overrides: Sequence[str], address: str | None, progress: str | None) -> int:
    """Extend an experiment, e.g. by -o repeats=9, and resume it.

    Files that its configuration names are imported: treat a run directory like a program.
    """
    with open_session(progress, address) as session:
        run_dir = run_directory(directory, write=True)
        options = [part for text in overrides if not text.startswith("tracking") for part in ("-o", text)]
        command = shlex.join(["extend", str(run_dir.root), *options]) if options else ""
        session.begin(run_dir, f"extending {run_dir.root}", command)
        from fmnas.platform.experiment.configuration import extended_config

        is_uri_given = any(text.startswith(("tracking=", "tracking.uri=")) for text in overrides)

        def grow(present: "Config") -> "Config":
            extended = extended_config(present, overrides, run_dir.root)
            if extended == present:
                session.progress.on_message(f"nothing to add to {present.summary_line}")
            return extended

        session.run(grow, run_dir, is_uri_given=is_uri_given)
    return session.exit_code


def retrain(directory: Path, address: str | None, progress: str | None, save: bool, **options: int | None) -> int:
    """Train the incumbent of every run again, and evaluate it on the test set.

    With --save, each one becomes a folder with its weights and the network in plain torch: DIR/models/RUN.
    Files that its configuration names are imported: treat a run directory like a program.
    """
    with open_session(progress, address) as session:
        run_dir = run_directory(directory, write=True)
        chosen = {name: value for name, value in options.items() if value is not None}
        flags = "".join(f" --{name} {value}" for name, value in chosen.items()) + (" --save" if save else "")
        session.begin(run_dir, f"retraining the incumbents of {run_dir.root}", f"{run_dir.command('retrain')}{flags}")
        session.run(lambda present: present, run_dir, chosen, saves=save)
    return session.exit_code


def status(directory: Path, as_json: bool) -> int:
    """Show the status of an experiment, also while it runs."""
    from fmnas.platform.display.status import collect_status, print_status

    facts = collect_status(run_directory(directory))
    if as_json:
        print(json.dumps(facts, indent=2))  # noqa: T201
    else:
        print_status(facts, make_console())
    return ExitCode.DONE


def report(directories: Sequence[Path], out: Path | None) -> int:
    """Write the table, figures and page of a run directory, or of several together.

    Directories of one problem are put into one report; those of several problems are compared over these problems.
    """
    in_place = out is None and len(directories) == 1
    for path in directories:
        run_directory(path, write=in_place)
    _print(f"reading {', '.join(map(str, directories))}")
    from fmnas.comparison.summary import Summary
    from fmnas.platform.report.merge import write_report_of

    summary, folder = write_report_of(directories, out, _print)
    show: Callable[..., None] = print_summary if isinstance(summary, Summary) else print_problems_summary
    show(summary, make_console())
    _print(f"page            {folder.page}")
    return ExitCode.DONE


def record(directories: Sequence[Path], out: Path) -> int:
    """Write the results of run directories to one file, a problem whose evaluations are looked up.

    The directories must have the same objective. `problem: recorded:FILE` names the file in a configuration.
    """
    from fmnas.platform.recording import record_results

    record_results(directories, out, _print)
    return ExitCode.DONE


def pack(directory: Path, out: Path | None) -> int:
    """Write what a paper's supplement needs to an archive: configuration, journal, tables, hashes."""
    from fmnas.platform.packing import write_pack

    place = out or Path(f"{os.path.abspath(directory)}.zip")
    packed = write_pack(run_directory(directory), place, _print)
    _print(f"{place}: files = {packed.files}, bytes = {packed.size:,}, SHA-256 = {packed.digest}")
    return ExitCode.DONE


def verify(pack: Path, replay: bool) -> int:
    """Check an archive of `fmnas pack`: its hashes, its journal, and its tables against the journal.

    Nothing that it names is imported. With --replay its optimizers are asked again, and the files and modules that its
    configuration names are imported: treat such an archive like a program.
    """
    from fmnas.platform.verification import verify_pack

    n_failed, _ = _print_results(verify_pack(pack, replay, _print))
    return ExitCode.FAILED if n_failed else ExitCode.DONE


def export(directory: Path, optuna: str | None, deepcave: Path | None) -> int:
    """Write the trials for other tools: as studies into a storage of Optuna, or as runs of DeepCAVE into a folder."""
    from fmnas.integrations.deepcave import export_runs
    from fmnas.integrations.optuna_storage import export_studies
    from fmnas.platform.experiment.state import read_state

    if optuna is None and deepcave is None:
        raise ConfigError("fmnas export: say what to write: --optuna URL, --deepcave FOLDER, or both")
    experiment = _exported_experiment(read_state(run_directory(directory)))
    if not experiment.runs:
        raise ConfigError(f"{directory}: no trial has ended yet, so there is nothing to export")
    studies = () if optuna is None else export_studies(experiment, optuna)
    runs = () if deepcave is None else export_runs(experiment, deepcave)
    for name, trials in chain(studies, runs):
        _print(f"{name}: trials = {trials}")
    return ExitCode.DONE


def _exported_experiment(state: "ExperimentState") -> "ExportedExperiment":
    """Return what `fmnas.integrations` exports: the trials that ended, in their order."""
    from fmnas.integrations.exported import ExportedExperiment, ExportedRun
    from fmnas.platform.problems import display_name

    config, ledger = state.config, state.ledger
    trials: dict[str, list[TrialResult]] = {name: [] for name in ledger.runs}
    for result in ledger.results:
        trials[result.run].append(result)
    runs = [ExportedRun(run.optimizer, run.repeat, trials[name]) for name, run in ledger.runs.items() if trials[name]]
    facts = {"experiment": ledger.id, "problem": display_name(config.problem), "fixed": dict(config.fixed)}
    return ExportedExperiment(config.name, state.experiment.subspace.free, config.fidelity.epochs, runs, facts)


def replay(directory: Path) -> int:
    """Ask every optimizer again, and show where its suggestions differ.

    Files that its configuration names are imported: treat a run directory like a program.
    """
    from fmnas.platform.experiment.replay import replay_directory

    counts, mismatches = replay_directory(run_directory(directory), _print)
    for mismatch in mismatches:
        _print(str(mismatch))
    for name, count in counts.items():
        n_different = sum(mismatch.run == name for mismatch in mismatches)
        _print(f"{name}: suggestions = {count}, different = {n_different}")
    return ExitCode.FAILED if mismatches else ExitCode.DONE


def sync(directory: Path) -> int:
    """Log to MLflow what it lacks."""
    from fmnas.platform.observers import sync as sync_experiment

    result = sync_experiment(run_directory(directory, write=True), _print)
    tracking = result.tracking
    counts = f"trials logged = {tracking.written}, up to date = {tracking.present}, failed = {tracking.missed}"
    if tracking.remark:
        _print(tracking.remark)
    _print(f"{result.store}: {counts}")
    if tracking.missed or tracking.reason:
        print_error(f"MLflow is not up to date ({tracking.reason}): try again")
        return ExitCode.FAILED
    return ExitCode.DONE


def ui(directory: Path, port: int) -> int:
    """Open MLflow's UI on the store of a run directory."""
    run_dir = run_directory(directory)
    _print(f"starting MLflow's UI on the store of {run_dir.root}")
    from fmnas.platform.experiment.configuration import require_tracking
    from fmnas.platform.experiment.state import read_state
    from fmnas.platform.mlflow.credentials import tracking_uri
    from fmnas.platform.mlflow.ui import open_ui

    state = read_state(run_dir)
    tracking = state.config.tracking
    require_tracking(tracking, run_dir)
    experiment = tracking.experiment or state.config.name
    open_ui(tracking_uri(tracking, run_dir), port, experiment, state.ledger.id, _print)
    return ExitCode.DONE


def config(config: str, overrides: Sequence[str], address: str | None, out: Path | None = None) -> int:
    """Print a configuration with every default, explained, and its cost; it is planned as by run."""
    from fmnas.platform.config.load import load_config
    from fmnas.platform.config.reference import to_commented_yaml
    from fmnas.platform.experiment.comparability import format_cost
    from fmnas.platform.runner.plan import plan_new

    lines: list[str] = []
    loaded = load_config(config, overrides, lines.append, address)
    lines.append(f"Cost: {format_cost(loaded)}")
    plan_new(loaded, 0.0, lines.append)
    sys.stdout.write(to_commented_yaml(loaded) + "".join(f"# {line}\n" for line in lines))
    return ExitCode.DONE


def list_(what: str, options: bool) -> int:
    """List problems, optimizers, shipped configurations or observers of other packages, one line each."""
    if options and what != "optimizers":
        raise ConfigError(f"--options: only for `fmnas list optimizers`, not for {what}")
    if what == "configs":
        from fmnas.platform.config.source import shipped_configs

        lines = {name: text.splitlines()[0].removeprefix("# ") for name, text in shipped_configs().items()}
    else:
        from fmnas.platform.problems import ALIASES, PROBLEMS
        from fmnas.platform.references import find_plugins
        from fmnas.platform.registry import OPTIMIZERS

        known: dict[str, Mapping[str, Any]] = {"problems": PROBLEMS, "optimizers": OPTIMIZERS}
        lines = {name: entry.summary for name, entry in known.get(what, {}).items()}
        if options:
            lines = {name: f"{text}: {_format_options(OPTIMIZERS[name])}" for name, text in lines.items()}
        elif what == "problems":
            lines |= {alias: f"alias of {name}" for alias, name in ALIASES.items()}
        lines |= {name: use for name, use in find_plugins(f"fmnas.{what}").items() if name not in lines}
    width = max([22, *map(len, lines)]) + 2
    for name, text in lines.items():
        print(f"{name:<{width}}{text}")  # noqa: T201
    return ExitCode.DONE


def _format_options(entry: "OptimizerEntry") -> str:
    """Return the options of an optimizer with their defaults and allowed values."""
    from fmnas.optimizers.options import get_choices, get_options

    parameters, texts = get_options(entry.optimizer), []
    for name, value in entry.validate_options({}).items():
        alternatives = [str(choice) for choice in get_choices(parameters[name].annotation) if choice != value]
        texts.append(f"{name} {value} (or {', '.join(alternatives)})" if alternatives else f"{name} {value}")
    options = ", ".join(texts) or "no options"
    return options if entry.takes_initial_design else f"{options}; no warm_start"


def doctor(address: str | None) -> int:
    """Check the installation: packages, GPUs, data, the Ray cluster and the disk."""
    from fmnas.platform.doctor import run_checks

    n_failed, _ = _print_results(run_checks(address))
    return ExitCode.FAILED if n_failed else ExitCode.DONE


def check(optimizer: str, overrides: Sequence[str], seconds: float) -> int:
    """Check that an optimizer follows the rules of the ask/tell contract, a line each."""
    from fmnas.platform.check import check as check_rules
    from fmnas.platform.check import load_candidate

    n_failed, count = _print_results(check_rules(load_candidate(optimizer, overrides), seconds))
    _print(f"{optimizer}: {n_failed} of {count} rules broken")
    return ExitCode.FAILED if n_failed else ExitCode.DONE


def _print_results(results: Iterable[CheckResult]) -> tuple[int, int]:
    """Print the results of checks, a line each, at once: the next one may take seconds. Return (failed, all)."""
    words = {True: ("ok     ", "green"), None: ("skipped", "yellow"), False: ("FAILS  ", "red")}
    passed = []
    for result in results:
        detail = f": {result.detail}" if result.detail else ""
        line = Text.assemble(words[result.passed], f"  {result.name}{detail}")
        make_console().print(line, soft_wrap=True, highlight=False)
        sys.stdout.flush()
        passed.append(result.passed)
    return passed.count(False), len(passed)


def _print(text: str) -> None:
    """Print a line to standard output."""
    print_line(make_console(), text)
