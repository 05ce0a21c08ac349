"""Helpers that tests share."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from fmnas.platform.config.schema import Config
from fmnas.platform.experiment.events import FORMAT, Begun, Event, event_to_dict
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_journal
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState, load_state, restore_state
from fmnas.platform.experiment.warm_start import NO_WARM_STARTS, WarmStartData


def journal_dicts(path: Path) -> list[dict[str, Any]]:
    """Return the events of a journal as plain data."""
    return [event_to_dict(event) for event in read_journal(path)]


def events_of(path: Path, *kinds: type[Event]) -> list[Any]:
    """Return the events of a journal that are of these types."""
    return [event for event in read_journal(path) if isinstance(event, kinds)]


def write_journal(path: Path, events: list[Event]) -> None:
    """Write a new journal of these events."""
    path.unlink(missing_ok=True)
    with Journal(path) as journal:
        for event in events:
            journal.append(event)


def begun_event(config: Config, warm_starts: Mapping[str, WarmStartData] = NO_WARM_STARTS) -> Begun:
    """Return the first event of an experiment."""
    return Begun("id", FORMAT, config.model_dump(mode="json"), 0.0, dict(warm_starts))


def begin(path: Path, config: Config, warm_starts: Mapping[str, WarmStartData] = NO_WARM_STARTS) -> None:
    """Write the first event of an experiment to a journal."""
    with Journal(path) as journal:
        journal.append(begun_event(config, warm_starts))


def restore_run(root: Path) -> ExperimentState:
    """Return the state of a run directory with optimizers that have all of its results."""
    directory = RunDirectory(root)
    state = load_state(directory)
    experiment = build_experiment(state.config, state.ledger.warm_starts)
    return restore_state(experiment, read_journal(directory.journal))


def curves_of_ends(**ends: list[float]) -> pd.DataFrame:
    """A report's table of two repeats: every optimizer has 9 after one epoch, and its end after three."""
    rows = [
        {
            "run": f"{name}/repeat-{repeat}",
            "optimizer": name,
            "repeat": repeat,
            "trial": trial,
            "epochs": epochs,
            "evaluations": epochs,
            "objective": value,
            "incumbent": value,
        }
        for name, values in ends.items()
        for repeat, end in enumerate(values)
        for trial, (epochs, value) in enumerate([(1, 9.0), (3, end)])
    ]
    return pd.DataFrame(rows)
