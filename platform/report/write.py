"""The report of an experiment: trials.csv, summary.json and the folder report/ of its run directory."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

from fmnas.comparison.analysis.costs import Pending
from fmnas.comparison.analysis.retrained import read_retrained
from fmnas.comparison.analysis.trials import Budget, PlannedRun, ReportNotWritten
from fmnas.comparison.report import write_report
from fmnas.comparison.summary import Remark, ReportContext, Summary
from fmnas.platform.environment import driver_in_words
from fmnas.platform.errors import Ending, ExperimentFailed
from fmnas.platform.experiment.comparability import budget_change_notes, warm_start_notes
from fmnas.platform.experiment.events import grown
from fmnas.platform.experiment.journal import DriverWork
from fmnas.platform.experiment.provenance import alterations, read_environment
from fmnas.platform.experiment.run_directory import RunDirectory, write_json, write_text
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import trials_table
from fmnas.platform.problems import display_name
from fmnas.platform.report.setup_section import optimizer_notes, resolved_options, search_fidelity, setup_statements

PAGE_FILES = (
    *("../trials.csv", "../summary.json"),
    *("curves.csv", "mean_curves.csv", "tests.csv", "ledger.csv", "anytime.pdf"),
)
"""Files that the page links to, relative to it."""
OPTIONAL_STOPPING_NOTE = (
    "p-values are valid for a number of repeats and evaluations that was fixed before any result was seen; this "
    "experiment was extended afterwards, which makes false positives more likely."
)


@dataclass(frozen=True, eq=False)
class ReportInput:
    """What a report is made of: the table of trials, and everything else that the page shows."""

    trials: pd.DataFrame
    context: ReportContext


def report_input(directory: RunDirectory, state: ExperimentState) -> ReportInput:
    """Return the ended and cancelled trials of an experiment, and their context. Raises ReportError as `context_of`."""
    ended = (*state.outcomes, *state.cancelled())
    return ReportInput(trials_table(ended, state.experiment.problem.seeds), context_of(directory, state))


def write_results(directory: RunDirectory, state: ExperimentState, say: Callable[[str], None]) -> Summary:
    """Write the report of an experiment and return its summary. say: receives a line as each step begins."""
    return write_report_files(directory, report_input(directory, state), say)


def write_report_files(directory: RunDirectory, results: ReportInput, say: Callable[[str], None]) -> Summary:
    """Write trials.csv, summary.json and report/ into a folder, and return the summary.

    say: receives a line as each step begins. Raises ExperimentFailed if the files cannot be written.
    """
    say("writing tables")
    write_text(directory.trials, results.trials.to_csv(index=False))
    say("drawing figures and writing the page")
    try:
        summary = write_report(results.trials, results.context, directory.report)
    except ReportNotWritten as error:
        raise ExperimentFailed(f"{error}; the journal has all results") from error
    write_json(directory.summary, summary.to_json())
    return summary


def context_of(directory: RunDirectory, state: ExperimentState) -> ReportContext:
    """Return what a report shows in addition to the trials. Raises ReportError if retrained.csv is damaged."""
    config, problem = state.experiment.config, state.experiment.problem
    retrained, outdated = _retrained(directory.retrained, state)
    return ReportContext(
        name=config.name,
        problem=display_name(config.problem),
        budget=Budget(config.budget.evaluations, config.fidelity.epochs, config.budget.seconds),
        environment=_environment(directory, state),
        config_text=config.to_yaml(),
        pending=[Pending(run, opened.suggest_seconds) for run, opened in state.pending()],
        finished=state.status == Ending.FINISHED,
        retrained=retrained,
        hypotheses=config.hypotheses,
        remarks=[
            *optimizer_notes(config),
            *map(Remark, warm_start_notes(state.experiment)),
            *_version_notes(state),
            *map(Remark, alterations(state, directory)),
            *_extension_notes(state),
            *outdated,
        ],
        runs=[PlannedRun(run.name, run.optimizer_name, run.repeat) for run in state.runs.values()],
        by_design={entry.label: entry.implementation.optimizer.chooses for entry in config.optimizers},
        setup=setup_statements(config, problem),
        settings=resolved_options(config),
        minimum=problem.minimum,
        files=PAGE_FILES,
        full_training=search_fidelity(config),
        pauses={"": state.pauses},
        learning={(each.run, each.trial.id): each.evaluation.curve for each in state.outcomes if each.evaluation},
    )


def _version_notes(state: ExperimentState) -> list[Remark]:
    """Return a note if drivers of several versions of fmnas or torch worked at the experiment."""
    drivers = [driver for driver in state.drivers if driver["work"] == DriverWork.EXPERIMENT]
    versions = list(dict.fromkeys(map(driver_in_words, drivers)))
    return [Remark(f"Run with several versions: {', then '.join(versions)}.")] if len(versions) > 1 else []


def _extension_notes(state: ExperimentState) -> list[Remark]:
    """Return what was extended and when, which optimizers know two budgets, and what that does to p-values."""
    config = state.experiment.config
    notes: list[Remark] = []
    for record, n_ended in state.extensions:
        notes.append(Remark(f"Extended after {n_ended} ended trials: {grown(record['changes'])}."))
        labels = {entry["label"] for entry in record["config"]["optimizers"]}  # later extensions may add others
        budgets = budget_change_notes(record["changes"], config)
        notes += [Remark(text, label) for label, text in budgets.items() if label in labels]
    results_seen = any(n_ended for _, n_ended in state.extensions)
    has_tests = config.repeats > 1 and len(config.optimizers) > 1
    return [*notes, Remark(OPTIONAL_STOPPING_NOTE)] if results_seen and has_tests else notes


def _retrained(path: Path, state: ExperimentState) -> tuple[pd.DataFrame | None, list[Remark]]:
    """Return the rows of retrained.csv that are of current incumbents, and a note on the rows left out."""
    if not path.is_file():
        return None, []
    table, best = read_retrained(path), {outcome.run: outcome.trial.id for outcome in state.incumbents()}
    is_current = [best.get(run) == trial for run, trial in zip(table["run"], table["trial"], strict=True)]
    n_outdated = len(is_current) - sum(is_current)
    if not n_outdated:
        return table, []
    note = (
        f"{n_outdated} of {len(is_current)} retrained configurations are outdated (their runs have better ones now) "
        "and left out: `fmnas retrain` trains the current ones."
    )
    return table[is_current].reset_index(drop=True), [Remark(note)]


def _environment(directory: RunDirectory, state: ExperimentState) -> dict[str, Any]:
    """Return environment.json, and the versions of every driver if there were several."""
    keys = ("work", "fmnas", "commit", "python", "torch", "host")
    drivers = {str(i): {key: each.get(key) for key in keys} for i, each in enumerate(state.drivers, start=1)}
    return {**read_environment(directory), **({"drivers": drivers} if len(drivers) > 1 else {})}
