"""fmnas status | replay | sync | ui | list | doctor: the commands that look, and train nothing."""

import argparse
import json
import sys
from pathlib import Path

from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.exit_codes import DONE, FAILED
from fmnas.platform.screen import LineScreen
from fmnas.platform.terminal import terminal


def status(arguments: argparse.Namespace) -> int:
    """How an experiment stands; nothing is written, and no driver disturbed."""
    from fmnas.platform.given import run_directory
    from fmnas.platform.status import print_status, status_of

    facts = status_of(run_directory(arguments.directory))
    if arguments.json:
        print(json.dumps(facts, indent=2))  # noqa: T201
    else:
        print_status(facts, terminal())
    return DONE


def replay(arguments: argparse.Namespace) -> int:
    """Every optimizer is asked again."""
    from fmnas.platform.experiment import build_experiment
    from fmnas.platform.given import run_directory
    from fmnas.platform.journal import experiment_records
    from fmnas.platform.launch import begun_config
    from fmnas.platform.replay import in_words
    from fmnas.platform.replay import replay as ask_again

    directory, console = run_directory(arguments.directory), terminal()
    records = experiment_records(directory)
    config = begun_config(directory, records)
    replayed = ask_again(lambda: build_experiment(config), records[1:])
    for difference in replayed.differences:
        console.print(in_words(difference), soft_wrap=True, highlight=False, markup=False)
    for run, asks in replayed.asks.items():
        differ = sum(difference.run == run for difference in replayed.differences)
        told = f"{differ} differ" if differ else "all as recorded"
        console.print(f"{run}: {asks} suggestions asked again, {told}", soft_wrap=True, highlight=False, markup=False)
    return FAILED if replayed.differences else DONE


def sync(arguments: argparse.Namespace) -> int:
    """What MLflow missed is sent."""
    from fmnas.platform.given import run_directory
    from fmnas.platform.launch import Surroundings
    from fmnas.platform.launch import sync as send
    from fmnas.platform.stop import StopRequest

    directory, console = run_directory(arguments.directory, write=True), terminal()
    sent = send(directory, Surroundings(None, LineScreen(console), StopRequest()))
    tracking = sent.tracking
    counts = f"{tracking.written} trial(s) sent, {tracking.present} were there already, {tracking.missed} missed"
    if tracking.remark:
        console.print(tracking.remark, soft_wrap=True, highlight=False, markup=False)
    console.print(f"{sent.store}: {counts}", soft_wrap=True, highlight=False, markup=False)
    if tracking.missed or tracking.reason:
        print(f"fmnas: not all could be sent: {tracking.reason}; try again", file=sys.stderr)  # noqa: T201
        return FAILED
    return DONE


def ui(arguments: argparse.Namespace) -> int:
    """MLflow's UI."""
    from fmnas.platform.config import load_config
    from fmnas.platform.config_errors import of_another_version
    from fmnas.platform.given import run_directory
    from fmnas.platform.mlflow_file import find_files_again
    from fmnas.platform.mlflow_ui import open_ui
    from fmnas.platform.tracking_uri import tracking_uri

    directory = run_directory(arguments.directory or _latest(Path("runs")))
    config = load_config(directory.config, advice=of_another_version())
    uri, experiment = tracking_uri(config, directory), config.tracking.experiment or config.name
    if config.tracking.uri is None:
        find_files_again(uri, directory.artifacts)
    open_ui(uri, arguments.port, experiment=experiment)
    return DONE


def list_(arguments: argparse.Namespace) -> int:
    """What there is."""
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


def doctor(arguments: argparse.Namespace) -> int:
    """What this machine can do."""
    from rich.text import Text

    from fmnas.platform.doctor import examine

    console = terminal()
    findings = examine(arguments.address)
    for finding in findings:
        mark = ("ok     ", "green") if finding.good else ("missing", "red")
        line = Text.assemble(mark, f"  {finding.what:<18} {finding.detail}")
        console.print(line, soft_wrap=True, highlight=False)
    return DONE if all(finding.good for finding in findings) else FAILED


def _latest(folder: Path) -> Path:
    journals = sorted(folder.glob("*/journal.jsonl"), key=lambda path: path.stat().st_mtime)
    if not journals:
        raise RunDirectoryError(f"{folder} holds no run directory; name one: fmnas ui DIR")
    return journals[-1].parent
