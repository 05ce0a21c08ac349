"""From a state to the files of a run directory that people read: trials.csv, summary.json, report/."""

import json
from typing import Any

from fmnas.comparison.report import write_report
from fmnas.comparison.summary import ReportContext, Summary
from fmnas.comparison.trials import Budget
from fmnas.platform.outcomes import trials_table
from fmnas.platform.paths import RunDirectory, write_aside, write_json
from fmnas.platform.state import ExperimentState


def write_results(directory: RunDirectory, state: ExperimentState) -> Summary:
    """Write them all from the state; returns the summary."""
    ended = (outcome for outcome, _ in (*state.outcomes, *state.cancelled()))
    table = trials_table(ended, state.experiment.problem.seeds)
    write_aside(directory.trials, table.to_csv(index=False))
    config = state.experiment.config
    context = ReportContext(
        name=config.name,
        problem=config.problem,
        budget=Budget(config.budget.evaluations, config.fidelity.epochs),
        environment=_environment(directory),
        config_text=directory.config.read_text(),
    )
    summary = write_report(table, context, directory.report)
    write_json(directory.summary, summary)
    return summary


def _environment(directory: RunDirectory) -> dict[str, Any]:
    if not directory.environment.is_file():
        return {}
    data: dict[str, Any] = json.loads(directory.environment.read_text())
    return data
