"""From a state to the files of a run directory that people read: trials.csv, summary.json, report/."""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from fmnas.comparison.ledger import Pending
from fmnas.comparison.report import write_report
from fmnas.comparison.retrained import read_retrained
from fmnas.comparison.summary import ReportContext, Summary
from fmnas.comparison.trials import Budget
from fmnas.platform.driver import DONE
from fmnas.platform.outcomes import trials_table
from fmnas.platform.paths import RunDirectory, write_aside, write_json
from fmnas.platform.state import ExperimentState


def write_results(directory: RunDirectory, state: ExperimentState) -> Summary:
    """Write them all from the state; returns the summary."""
    return write_report_files(directory, trials_of(state), context_of(directory, state))


def write_report_files(directory: RunDirectory, trials: pd.DataFrame, context: ReportContext) -> Summary:
    """Write trials.csv, summary.json and report/ into a folder; returns the summary."""
    write_aside(directory.trials, trials.to_csv(index=False))
    summary = write_report(trials, context, directory.report)
    write_json(directory.summary, summary)
    return summary


def trials_of(state: ExperimentState) -> pd.DataFrame:
    """The table of trials: those that ended, and those that a stop cut off."""
    ended = (outcome for outcome, _ in (*state.outcomes, *state.cancelled()))
    return trials_table(ended, state.experiment.problem.seeds)


def context_of(directory: RunDirectory, state: ExperimentState) -> ReportContext:
    """What a report tells beside the trials. Raises ReportError where a retrained.csv is damaged."""
    config = state.experiment.config
    return ReportContext(
        name=config.name,
        problem=config.problem,
        budget=Budget(config.budget.evaluations, config.fidelity.epochs, config.budget.seconds),
        environment=_environment(directory),
        config_text=directory.config.read_text(),
        pending=[Pending(run.name, opened.suggest_seconds) for run, opened in state.pending()],
        finished=state.status == DONE,
        retrained=_retrained(directory.retrained),
        hypotheses=config.hypotheses,
    )


def _retrained(path: Path) -> pd.DataFrame | None:
    return read_retrained(path) if path.is_file() else None


def _environment(directory: RunDirectory) -> dict[str, Any]:
    if not directory.environment.is_file():
        return {}
    data: dict[str, Any] = json.loads(directory.environment.read_text())
    return data
