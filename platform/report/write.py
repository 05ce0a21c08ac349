"""From a state to the files of a run directory that people read: trials.csv, summary.json, report/."""

from collections.abc import Callable, Mapping
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
from fmnas.platform.experiment.events import grown
from fmnas.platform.experiment.journal import DriverWork
from fmnas.platform.experiment.provenance import alterations, read_environment
from fmnas.platform.experiment.run_directory import RunDirectory, write_json, write_text
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import trials_table
from fmnas.platform.problems import display_name
from fmnas.platform.report.setup_section import remarks_of, searched_of, settings_of, setup_of, warm_starts_of
from fmnas.platform.runner.extension import two_budgets

PAGE_FILES = (
    "../trials.csv",
    "../summary.json",
    "curves.csv",
    "mean_curves.csv",
    "tests.csv",
    "ledger.csv",
    "anytime.pdf",
)
"""Those of a run directory that a reader of its page will want first, as the page finds them."""
PEEKED = (
    "A p-value is right for a size that was chosen before results were seen: who adds to an experiment until it shows "
    "something will see something, so choose the final size beforehand, and say how often it was extended."
)


@dataclass(frozen=True, eq=False)
class Findings:
    """What a report is made of: the table of trials, and what it tells beside them."""

    trials: pd.DataFrame
    context: ReportContext


def findings_of(directory: RunDirectory, state: ExperimentState) -> Findings:
    """Of the state: trials that ended, and those that a stop cut off. Raises ReportError as `context_of`."""
    ended = (*state.outcomes, *state.cancelled())
    return Findings(trials_table(ended, state.experiment.problem.seeds), context_of(directory, state))


def write_results(directory: RunDirectory, state: ExperimentState, say: Callable[[str], None]) -> Summary:
    """Write them all from the state; returns the summary. say: told each step as it begins."""
    found = findings_of(directory, state)
    return write_report_files(directory, found.trials, found.context, say)


def write_report_files(
    directory: RunDirectory, trials: pd.DataFrame, context: ReportContext, say: Callable[[str], None]
) -> Summary:
    """Write trials.csv, summary.json and report/ into a folder; returns the summary. say: told each step as it begins.

    Raises ExperimentFailed where the disk will not take them.
    """
    say("writing tables")
    write_text(directory.trials, trials.to_csv(index=False))
    say("drawing figures and writing the page")
    try:
        summary = write_report(trials, context, directory.report)
    except ReportNotWritten as error:
        raise ExperimentFailed(f"{error}; the journal has it all") from error
    write_json(directory.summary, summary.to_json())
    return summary


def context_of(directory: RunDirectory, state: ExperimentState) -> ReportContext:
    """What a report tells beside the trials. Raises ReportError where a retrained.csv is damaged."""
    config = state.experiment.config
    retrained, outdated = _retrained(directory.retrained, state)
    return ReportContext(
        name=config.name,
        problem=display_name(config.problem),
        budget=Budget(config.budget.evaluations, config.fidelity.epochs, config.budget.seconds),
        environment=_environment(directory, state),
        config_text=config.to_yaml(),  # and not the file: an older one may hold a password
        pending=[Pending(run, opened.suggest_seconds) for run, opened in state.pending()],
        finished=state.status == Ending.FINISHED,
        retrained=retrained,
        hypotheses=config.hypotheses,
        remarks=[
            *remarks_of(config),
            *map(Remark, warm_starts_of(state.experiment)),
            *_of_versions(state),
            *map(Remark, alterations(state, directory)),
            *_of_extensions(state),
            *outdated,
        ],
        runs=[PlannedRun(run.name, run.optimizer_name, run.repeat) for run in state.runs.values()],
        by_design={entry.label: entry.implementation.optimizer.chooses for entry in config.optimizers},
        setup=setup_of(config, state.experiment.problem),
        settings=settings_of(config),
        minimum=state.experiment.problem.minimum,
        files=PAGE_FILES,
        searched=searched_of(config),
        pauses={"": state.pauses},
        learning={(each.run, each.trial.id): each.evaluation.curve for each in state.outcomes if each.evaluation},
    )


def _of_versions(state: ExperimentState) -> list[Remark]:
    """That another fmnas or torch went on with what one had begun."""
    worked = [driver for driver in state.drivers if driver["work"] == DriverWork.EXPERIMENT]
    versions = list(dict.fromkeys(driver_in_words(driver) for driver in worked))
    if len(versions) < 2:
        return []
    return [Remark(f"Several versions worked at this experiment, one after the other: {', then '.join(versions)}.")]


def _of_extensions(state: ExperimentState) -> list[Remark]:
    """That the experiment grew, what that does to its tests, and whom it made hear of two budgets."""
    found: list[Remark] = []
    for record, ended in state.extensions:
        changes = record["changes"]
        what = f"The experiment was extended after {ended} of its trials had ended: {grown(changes)}."
        found.append(Remark(what))
        there = {entry["label"] for entry in record["config"]["optimizers"]}  # others may have come later
        told = two_budgets(changes, state.experiment.config)
        found += [Remark(text, label) for label, text in told.items() if label in there]
    config, peeked = state.experiment.config, any(ended for _, ended in state.extensions)
    tested = config.repeats > 1 and len(config.optimizers) > 1  # else there is no p to speak of
    return [*found, Remark(PEEKED)] if peeked and tested else found


def _retrained(path: Path, state: ExperimentState) -> tuple[pd.DataFrame | None, list[Remark]]:
    """The rows of what is best in each run now, and a word on those that are left out."""
    if not path.is_file():
        return None, []
    table, best = read_retrained(path), {outcome.run: outcome.trial.id for outcome in state.incumbents()}
    current = [best.get(run) == trial for run, trial in zip(table["run"], table["trial"], strict=True)]
    older = len(current) - sum(current)
    if not older:
        return table, []
    told = (
        f"{older} of {len(current)} retrained configurations are not the best of their runs any more, and are left out "
        "here: `fmnas retrain` trains those that are."
    )
    return table[current].reset_index(drop=True), [Remark(told)]


def last_driver(state: ExperimentState, directory: RunDirectory) -> Mapping[str, Any]:
    """With what the last driver worked; by environment.json, which is of the first, where the journal does not say."""
    if state.drivers:
        return state.drivers[-1]
    environment = read_environment(directory)
    packages = environment.get("packages")
    if not isinstance(packages, dict):
        return {}
    found = {name: packages.get(name) for name in ("fmnas", "torch")}
    return {**found, **{name: environment.get(name) for name in ("commit", "python", "host")}}


def _environment(directory: RunDirectory, state: ExperimentState) -> dict[str, Any]:
    """environment.json, and every driver that worked here since."""
    shown = ("work", "fmnas", "commit", "python", "torch", "host")
    drivers = {str(i): {key: each.get(key) for key in shown} for i, each in enumerate(state.drivers, start=1)}
    return {**read_environment(directory), **({"drivers": drivers} if len(drivers) > 1 else {})}
