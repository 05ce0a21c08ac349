"""The report of an experiment: trials.csv, summary.json and the folder report/ of its run directory."""

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from os.path import relpath
from typing import Any
from urllib.parse import quote

import pandas as pd

from fmnas.comparison.analysis.costs import Pending
from fmnas.comparison.analysis.paired_tests import ALL
from fmnas.comparison.analysis.trials import Budget, PlannedRun, ReportError, ReportNotWritten
from fmnas.comparison.latex import problems_latex, results_latex
from fmnas.comparison.problems_report import ExperimentRecord, ProblemsSummary, write_problems_report
from fmnas.comparison.report import compute_results, write_report
from fmnas.comparison.summary import Remark, ReportContext, Summary
from fmnas.platform.environment import format_software
from fmnas.platform.errors import Ending, ExperimentFailed, RunDirectoryError
from fmnas.platform.experiment.comparability import budget_change_notes, format_extension, warm_start_notes
from fmnas.platform.experiment.events import DriverWork
from fmnas.platform.experiment.ledger import Ledger
from fmnas.platform.experiment.provenance import changed_file_notes, read_environment
from fmnas.platform.experiment.run_directory import RunDirectory, write_json, write_text
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import trials_table, utc_timestamp
from fmnas.platform.problems import display_name
from fmnas.platform.report.setup_section import optimizer_notes, resolved_options, search_fidelity, setup_statements

TABLES = "tables.tex"
"""The results as LaTeX tables, in the folder of the report."""
PAGE_FILES = (
    *("../trials.csv", "../summary.json"),
    *("results.csv", "curves.csv", "mean_curves.csv", "tests.csv", "ledger.csv", "anytime.pdf", TABLES),
)
"""Files that the page links to, relative to it."""
EXTENSION_NOTE = (
    "p-values are valid for a number of repeats and evaluations that was fixed before any result was seen; this "
    "experiment was extended afterwards, which makes false positives more likely."
)


@dataclass(frozen=True, eq=False)
class ReportInput:
    """What a report is made of: the table of trials, and everything else that the page shows."""

    trials: pd.DataFrame
    context: ReportContext


def report_input(directory: RunDirectory, state: ExperimentState) -> ReportInput:
    """Return the ended and cancelled trials of an experiment, and their context."""
    ended = (*state.ledger.results, *state.ledger.cancelled_results())
    return ReportInput(trials_table(ended, state.experiment.problem.seeds), context_of(directory, state))


def write_results(directory: RunDirectory, state: ExperimentState, notify: Callable[[str], None]) -> Summary:
    """Write the report of an experiment and return its summary. notify: receives a line as each step begins."""
    write_retrained(directory, state.ledger)
    return write_report_files(directory, report_input(directory, state), notify)


def write_report_files(directory: RunDirectory, results: ReportInput, notify: Callable[[str], None]) -> Summary:
    """Write trials.csv, summary.json and report/ into a folder, and return the summary.

    notify: receives a line as each step begins. Raises ExperimentFailed if the files cannot be written.
    """
    notify("writing tables")
    write_text(directory.trials, results.trials.to_csv(index=False))
    notify("drawing figures and writing the page")
    try:
        summary = write_report(results.trials, results.context, directory.report)
    except ReportNotWritten as error:
        raise ExperimentFailed(f"{error}; the journal has all results") from error
    write_text(directory.report / TABLES, results_latex(summary))
    write_json(directory.summary, summary.to_json())
    return summary


def write_problems_files(
    directory: RunDirectory,
    inputs: Sequence[ReportInput],
    records: Sequence[ExperimentRecord],
    notify: Callable[[str], None],
) -> ProblemsSummary:
    """Write the report over several problems and its summary.json; return the summary.

    inputs: one for each problem. records: one for each run directory.
    The optimizer that is tested against the others is that of the configurations' hypotheses, if they agree on one,
    else the first of the first configuration: it never depends on results. Raises RunDirectoryError for problems that
    cannot be compared, and ExperimentFailed if the files cannot be written.
    """
    notify(f"comparing optimizers over {len(inputs)} problems")
    hypotheses = {report.context.hypotheses for report in inputs}
    chosen = hypotheses.pop() if len(hypotheses) == 1 else ALL
    reference = inputs[0].context.runs[0].optimizer if chosen == ALL else chosen
    try:
        experiments = [compute_results(report.trials, report.context) for report in inputs]
        summary = write_problems_report(experiments, reference, directory.report, records)
    except ReportNotWritten as error:
        raise ExperimentFailed(f"{error}; the journals have all results") from error
    except ReportError as error:
        raise RunDirectoryError(str(error)) from None
    write_text(directory.report / TABLES, problems_latex(summary))
    write_json(directory.summary, summary.to_json())
    return summary


def experiment_record(directory: RunDirectory, state: ExperimentState, folder: RunDirectory) -> ExperimentRecord:
    """Return what the report over several problems, in `folder`, shows of an experiment."""
    config, has_page = state.config, directory.page.is_file()
    options = []
    for entry in config.optimizers:
        default = entry.implementation.validate_options({})
        changed = [f"{key} {value}" for key, value in entry.settings.items() if default.get(key) != value]
        options += [f"{entry.label}: {', '.join(changed)}"] if changed else []
    return ExperimentRecord(
        directory=relpath(directory.place, folder.report),
        page=quote(relpath(directory.page, folder.report), errors="surrogateescape") if has_page else "",
        problem=display_name(config.problem),
        repeats=config.repeats,
        evaluations=config.budget.evaluations,
        seed=config.seed,
        version=", then ".join(dict.fromkeys(format_software(driver.software) for driver in state.ledger.drivers)),
        options="; ".join(options),
    )


def context_of(directory: RunDirectory, state: ExperimentState) -> ReportContext:
    """Return what a report shows in addition to the trials."""
    config, problem = state.config, state.experiment.problem
    return ReportContext(
        name=config.name,
        problem=display_name(config.problem),
        budget=Budget(config.budget.evaluations, config.fidelity.epochs, config.budget.seconds),
        environment=_environment(directory, state),
        config_text=config.to_yaml(),
        pending=[Pending(run, opened.suggest_seconds) for run, opened in state.ledger.unfinished_trials()],
        finished=state.ledger.status == Ending.FINISHED,
        retrained=retrained_table(state.ledger),
        hypotheses=config.hypotheses,
        remarks=[
            *optimizer_notes(config),
            *map(Remark, warm_start_notes(config, state.experiment.warm_starts)),
            *_version_notes(state),
            *map(Remark, changed_file_notes(state)),
            *_extension_notes(state),
            *_outdated_notes(state),
        ],
        runs=[PlannedRun(run.name, run.optimizer, run.repeat) for run in state.ledger.runs.values()],
        by_design={entry.label: entry.implementation.optimizer.chooses for entry in config.optimizers},
        setup=setup_statements(config, problem),
        settings=resolved_options(config),
        minimum=None if config.fixed else problem.minimum,  # that of the whole space may be out of reach
        objectives=problem.objectives,
        files=PAGE_FILES,
        full_training=search_fidelity(config),
        pauses={"": state.ledger.pauses},
        learning={
            (result.run, result.trial.id): result.evaluation.curve
            for result in state.ledger.results
            if result.evaluation
        },
    )


def _version_notes(state: ExperimentState) -> list[Remark]:
    """Return a note if drivers of several versions of fmnas or torch worked at the experiment."""
    drivers = [driver.software for driver in state.ledger.drivers if driver.work == DriverWork.EXPERIMENT]
    versions = list(dict.fromkeys(map(format_software, drivers)))
    return [Remark(f"Run with several versions: {', then '.join(versions)}.")] if len(versions) > 1 else []


def _extension_notes(state: ExperimentState) -> list[Remark]:
    """Return what was extended and when, which optimizers know two budgets, and what that does to p-values."""
    config = state.config
    notes: list[Remark] = []
    for event, n_ended in state.ledger.extensions:
        notes.append(Remark(f"Extended after {n_ended} ended trials: {format_extension(event.changes)}."))
        labels = {entry["label"] for entry in event.config["optimizers"]}  # later extensions may add others
        budgets = budget_change_notes(event.changes, config)
        notes += [Remark(text, label) for label, text in budgets.items() if label in labels]
    results_seen = any(n_ended for _, n_ended in state.ledger.extensions)
    has_tests = config.repeats > 1 and len(config.optimizers) > 1
    return [*notes, Remark(EXTENSION_NOTE)] if results_seen and has_tests else notes


def _outdated_notes(state: ExperimentState) -> list[Remark]:
    """Return a note if incumbents that were retrained have been replaced by better ones."""
    ledger = state.ledger
    n_retrained = len(ledger.retrained.get(ledger.retrain_settings, {}))
    n_outdated = n_retrained - len(ledger.current_retrained())
    note = (
        f"{n_outdated} of {n_retrained} retrained configurations are outdated (their runs have better ones now) "
        "and left out: `fmnas retrain` trains the current ones."
    )
    return [Remark(note)] if n_outdated else []


def _environment(directory: RunDirectory, state: ExperimentState) -> dict[str, Any]:
    """Return environment.json, and the versions of every driver if there were several."""
    drivers = {
        str(i): {"work": driver.work, **asdict(driver.software)}
        for i, driver in enumerate(state.ledger.drivers, start=1)
    }
    return {**read_environment(directory), **({"drivers": drivers} if len(drivers) > 1 else {})}


def retrained_table(ledger: Ledger) -> pd.DataFrame | None:
    """Return the table of the incumbents that were retrained with the latest settings; None without any."""
    retrained, settings = ledger.current_retrained(), ledger.retrain_settings
    if not retrained:
        return None
    rows = [
        {
            "run": best.run,
            "optimizer": best.optimizer,
            "repeat": best.repeat,
            "trial": event.trial_id,
            "selected_objective": best.objective,
            "selected_error": best.error,
            "test_error": sum(event.errors) / len(event.errors),
            **{f"test_error_seed_{i}": error for i, error in enumerate(event.errors, start=1)},
            "epochs": settings.epochs,
            "images": settings.images,
            "test_images": event.test_images,
            "train_seconds": round(event.train_seconds, 6),
            "started_at": utc_timestamp(event.started_at),
            "finished_at": utc_timestamp(event.at),
            "worker": event.worker,
        }
        for best in ledger.incumbents()
        if (event := retrained.get(best.run))
    ]
    return pd.DataFrame(rows)


def write_retrained(directory: RunDirectory, ledger: Ledger) -> None:
    """Write retrained.csv, or remove one of outdated rows. Raises ExperimentFailed if the disk does not take it."""
    if (table := retrained_table(ledger)) is not None:
        write_text(directory.retrained, table.to_csv(index=False))
    else:
        directory.retrained.unlink(missing_ok=True)
