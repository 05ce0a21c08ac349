"""One report of several run directories: more repeats of the same optimizers, or more optimizers of the same repeats.

Directories with the same experiment seed hold the same repeats, with the same initial designs, so their optimizers are
paired repeat by repeat. Directories with different seeds hold different repeats, which get different numbers.
If their budgets differ, all are compared at the smallest.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fmnas.comparison.analysis.costs import within_budget
from fmnas.comparison.analysis.paired_tests import ALL
from fmnas.comparison.analysis.retrained import seed_columns
from fmnas.comparison.analysis.trials import LAST_COLUMN, SOURCE, PlannedRun, typed_trials
from fmnas.comparison.problems_report import ProblemsSummary
from fmnas.comparison.summary import Remark, ReportContext, Summary
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import RunDirectoryError, legible
from fmnas.platform.experiment.comparability import format_differences, objective_settings
from fmnas.platform.experiment.configuration import optimizer_settings
from fmnas.platform.experiment.provenance import PROBLEM, data_hash, different_file_notes, is_in_memory, recorded_hashes
from fmnas.platform.experiment.run_directory import RunDirectory, check_links, readable
from fmnas.platform.experiment.state import ExperimentState, read_state
from fmnas.platform.experiment.trial_result import run_name
from fmnas.platform.problems import display_name, resolve_alias
from fmnas.platform.report.write import (
    ReportInput,
    experiment_record,
    report_input,
    write_problems_files,
    write_report_files,
)

Repeat = tuple[int, int]
"""Seed of an experiment, and number of a repeat in it: they identify a repeat across directories."""


class ReportSource(NamedTuple):
    """A run directory and the state that its journal gives."""

    directory: RunDirectory
    state: ExperimentState


def write_report_of(
    roots: Sequence[Path], out: Path | None, notify: Callable[[str], None]
) -> tuple[Summary | ProblemsSummary, RunDirectory]:
    """Write the report of run directories; return its summary and the folder of summary.json and report/.

    Directories of one problem are merged; if there are several problems, the report is over these.
    out: that folder; None: the run directory itself if there is one, else runs/report-NAMES. notify: receives a line as
    each step begins. Raises RunDirectoryError if the directories cannot be compared, or if `out` holds anything but an
    earlier report, which is checked before anything is read.
    """
    in_place = len(roots) == 1 and out is None
    names = "-".join(root.absolute().name for root in roots)
    folder = RunDirectory(roots[0] if in_place else out or Path("runs") / f"report-{names}")
    if not in_place:
        _check_out(folder)
    problems: dict[str, list[ReportSource]] = {}
    for source in _load_sources(roots):
        problems.setdefault(resolve_alias(source.state.config.problem), []).append(source)
    inputs = [report_input(*some[0]) if in_place else _merge(some) for some in problems.values()]
    if len(inputs) > 1:
        inputs = _remark_on_differences(inputs, list(problems.values()))
        records = [experiment_record(*source, folder) for some in problems.values() for source in some]
        return write_problems_files(folder, inputs, records, notify), folder
    return write_report_files(folder, inputs[0], notify), folder


def load_report_input(roots: Sequence[Path]) -> ReportInput:
    """Read the journals of run directories, merged if there are several; nothing is written.

    Raises RunDirectoryError for directories that cannot be read or compared.
    """
    sources = _load_sources(roots)
    return report_input(*sources[0]) if len(sources) == 1 else _merge(sources)


def _load_sources(roots: Sequence[Path]) -> list[ReportSource]:
    return [ReportSource(directory, read_state(directory)) for directory in map(RunDirectory, roots)]


def _merge(sources: Sequence[ReportSource]) -> ReportInput:
    _check_comparable(sources)
    _check_independent(sources)
    numbers = _number_repeats(sources)
    smallest = min(source.state.config.budget.evaluations for source in sources)
    inputs = [_limit_budget(source, _renumber(source, numbers), smallest) for source in sources]
    tables = [report.trials for report in inputs if not report.trials.empty]
    trials = pd.concat(tables, ignore_index=True) if tables else inputs[0].trials
    return ReportInput(trials, _merge_contexts(sources, [report.context for report in inputs]))


def _check_out(folder: RunDirectory) -> None:
    """Raise RunDirectoryError unless the folder is absent, empty, or holds an earlier merged report."""
    with readable(folder.root, "with --out DIR"):
        check_links(folder)
        if not folder.place.exists():
            return
        if not folder.place.is_dir():
            problem = "is not a folder"
        elif folder.journal.exists():
            problem = "holds an experiment, whose report would be overwritten"
        elif any(folder.place.iterdir()) and not _is_merged_report(folder):
            problem = "is not empty and not a report by fmnas"
        else:
            return
    raise RunDirectoryError(f"{folder.root} {problem}: give another folder with --out DIR")


def _is_merged_report(folder: RunDirectory) -> bool:
    """Whether a report is here, and no experiment whose journal is lost."""
    is_experiment = any(path.exists() for path in (folder.config, folder.environment, folder.retrained))
    return not is_experiment and folder.page.is_file() and folder.summary.is_file()


def _check_comparable(sources: Sequence[ReportSource]) -> None:
    """Raise RunDirectoryError, naming every setting that differs, unless all directories can be compared."""
    first, *rest = sources
    for other in rest:
        pair = f"{first.directory.root} and {other.directory.root}"
        ours, theirs = _settings(first), _settings(other)
        if ours["problem"] != theirs["problem"]:
            names = " and ".join(display_name(settings["problem"]) for settings in (ours, theirs))
            raise RunDirectoryError(
                f"{pair}: {names} are different problems: `fmnas report A B` compares over problems"
            )
        if is_in_memory(first.state.config):
            _check_same_function(first, other)
        if lines := list(format_differences(ours, theirs)):
            raise RunDirectoryError(
                f"{pair} cannot be put into one report: they differ in\n"
                + "".join(f"  {line}\n" for line in lines)
                + (_design_advice(first, other) if len(lines) == 1 else "")
                + "Report them one by one."
            )


def _check_same_function(first: ReportSource, other: ReportSource) -> None:
    """Raise RunDirectoryError if two directories of `minimize` are known to be of different functions of one name.

    Other versions of Python have other bytecode: then a remark is all that can be said.
    """
    ours, theirs = (recorded_hashes(source.state.ledger, PROBLEM) for source in (first, other))
    versions = {
        driver.software.python.rpartition(".")[0] for source in (first, other) for driver in source.state.ledger.drivers
    }
    if ours and theirs and not ours & theirs and len(versions) == 1:
        raise RunDirectoryError(
            f"{display_name(first.state.config.problem)} is a different function in {first.directory.root} and in "
            f"{other.directory.root}: report them one by one, or minimize one function in both"
        )


def _design_advice(first: ReportSource, other: ReportSource) -> str:
    """Return how to run one of two experiments again if only their numbers of random points differ, else ""."""
    less, more = sorted((first, other), key=lambda source: source.state.config.initial_points)
    points = less.state.config.initial_design
    if points == more.state.config.initial_design:
        return ""
    return (
        f"Run the one in {more.directory.root} again, into another directory, with -o initial_design={points}, or "
        f"initial_design={points!r} in `minimize`: by default the number follows from the evaluations.\n"
    )


def _remark_on_differences(
    inputs: Sequence[ReportInput], problems: Sequence[Sequence[ReportSource]]
) -> list[ReportInput]:
    """Return the inputs with remarks on options and files that differ between problems.

    Raises RunDirectoryError if an optimizer of all problems is another one on some.
    """
    remarks = [list(report.context.remarks) for report in inputs]
    entries = [
        {entry.label: (source.directory.root, entry) for source in sources for entry in source.state.config.optimizers}
        for sources in problems
    ]
    for label, (root, entry) in entries[0].items():
        if not all(label in of_problem for of_problem in entries):
            continue
        for of_problem, of_report in zip(entries, remarks, strict=True):
            other, same = of_problem[label]
            if same.implementation != entry.implementation:
                raise RunDirectoryError(
                    f"{label} is {entry.use or entry.name} in {root} and {same.use or same.name} in {other}: leave one "
                    "out, or run it again with another label"
                )
            if lines := list(format_differences(optimizer_settings(entry), optimizer_settings(same))):
                of_report.append(Remark(f"{label}: {'; '.join(lines)} (the first: in {root})", label))
    known = {remark.text for of_report in remarks for remark in of_report}
    notes = different_file_notes([source.state for sources in problems for source in sources])
    remarks[0] += [Remark(note) for note in notes if note not in known]
    return [
        ReportInput(report.trials, replace(report.context, remarks=of_report))
        for report, of_report in zip(inputs, remarks, strict=True)
    ]


def _settings(source: ReportSource) -> dict[str, Any]:
    """Return what must agree: the objective, how it is searched, and the settings of each optimizer by its label."""
    config, plain = source.state.config, source.state.config.model_dump(mode="json")
    return {
        **objective_settings(config, source.state.experiment.problem.space, data_hash(source.directory)),
        **{key: plain[key] for key in ("initial_design", "on_failure", "racing")},
        "budget": {key: limit for key, limit in plain["budget"].items() if key != "evaluations"},
        "checkpoints.continue_promoted": config.checkpoints.continue_promoted,
        "time": "simulated" if config.workers.is_simulated else "real",
        **{f"optimizer {optimizer.label}": optimizer_settings(optimizer) for optimizer in config.optimizers},
    }


def _check_independent(sources: Sequence[ReportSource]) -> None:
    """Raise RunDirectoryError if two repeats of an optimizer were warm-started from the same trials."""
    holders: dict[tuple[str, str, str, int], ReportSource] = {}
    for source in sources:
        for label, known in source.state.experiment.warm_starts.items():
            for repeat in range(source.state.config.repeats):
                key = label, known.experiment, known.label, repeat
                other = holders.setdefault(key, source)
                if other.state.config.seed != source.state.config.seed:
                    raise RunDirectoryError(
                        f"{other.directory.root} and {source.directory.root} both hold a repeat of {label} with a warm "
                        f"start from repeat {repeat} of {known.label} in {known.directory}: they are not independent. "
                        "Leave one directory out, or run one with a different warm_start"
                    )


def _number_repeats(sources: Sequence[ReportSource]) -> dict[Repeat, int]:
    """Give every repeat a number: the first directory keeps its own, different seeds get the next free ones."""
    numbers: dict[Repeat, int] = {}
    holders: dict[tuple[str, Repeat], Path] = {}
    for source in sources:
        seed, root = source.state.config.seed, source.directory.root
        for run in source.state.ledger.runs.values():
            repeat = seed, run.repeat
            holder = holders.setdefault((run.optimizer, repeat), root)
            if holder is not root:
                raise RunDirectoryError(
                    f"{holder} and {root} both hold repeat {run.repeat} of {run.optimizer} from seed {seed}. "
                    "Leave one directory out, or run one with a different seed"
                )
            numbers.setdefault(repeat, len(numbers))
    return numbers


def _renumber(source: ReportSource, numbers: Mapping[Repeat, int]) -> ReportInput:
    """Return the input of one directory with the repeats and runs of the merged report, and a column of its path."""
    report = report_input(*source)
    trials, context = report.trials, report.context
    repeats = {run.repeat: numbers[source.state.config.seed, run.repeat] for run in context.runs}
    names = {run.run: run_name(run.optimizer, repeats[run.repeat]) for run in context.runs}

    def renumber(table: pd.DataFrame) -> pd.DataFrame:
        return table.assign(repeat=table["repeat"].map(repeats).astype("Int64"), run=table["run"].map(names))

    if not trials.empty:
        trials = renumber(trials)
        trials.insert(list(trials.columns).index(LAST_COLUMN), SOURCE, legible(str(source.directory.root)))
    context = replace(
        context,
        retrained=None if context.retrained is None else renumber(context.retrained),
        pending=[replace(pending_trial, run=names[pending_trial.run]) for pending_trial in context.pending],
        runs=[PlannedRun(names[run.run], run.optimizer, repeats[run.repeat]) for run in context.runs],
        pauses={legible(str(source.directory.root)): context.pauses[""]},
        learning={(names[run], trial): curve for (run, trial), curve in context.learning.items()},
    )
    return ReportInput(trials, context)


def _limit_budget(source: ReportSource, report: ReportInput, evaluations: int) -> ReportInput:
    """Return the input with this budget, without the trials beyond it."""
    context, root, had = report.context, source.directory.root, source.state.config.budget.evaluations
    if had == evaluations:
        return report
    for label, known in source.state.experiment.warm_starts.items():
        if max(map(len, known.trials)) >= evaluations:
            raise RunDirectoryError(
                f"{label} in {root} has a warm start as long as the smallest budget, {evaluations} evaluations, and "
                f"no trial of its own within it. Extend the others: `fmnas extend DIR -o budget.evaluations={had}`"
            )
    budget = replace(context.budget, evaluations=evaluations)
    kept = within_budget(typed_trials(report.trials, str(root)), budget)
    knowing = (entry.label for entry in source.state.config.optimizers if entry.implementation.takes_budget)
    trained = "" if context.retrained is None else ", and so is the retraining"
    remarks = [
        *context.remarks,
        Remark(f"{root} had a budget of {had} evaluations: what came after {evaluations} is left out{trained}."),
        *(Remark(f"{label} in {root} knew a budget of {had} evaluations.", label) for label in knowing),
    ]
    context = replace(context, budget=budget, remarks=remarks, pending=(), retrained=None)
    return ReportInput(report.trials.reset_index(drop=True)[kept], context)


def _merge_contexts(sources: Sequence[ReportSource], contexts: Sequence[ReportContext]) -> ReportContext:
    names = [legible(str(source.directory.root)) for source in sources]
    retrained, notes = merge_retrained(contexts)
    hypotheses, remarks = _merge_hypotheses([source.state.config for source in sources])
    remarks += [*notes, *map(Remark, different_file_notes([source.state for source in sources]))]
    remarks += dict.fromkeys(remark for context in contexts for remark in context.remarks)
    return replace(
        contexts[0],
        name=" + ".join(dict.fromkeys(context.name for context in contexts)),
        environment={name: context.environment for name, context in zip(names, contexts, strict=True)},
        config_text="\n".join(f"# {name}\n{c.config_text}" for name, c in zip(names, contexts, strict=True)),
        pending=[pending_trial for context in contexts for pending_trial in context.pending],
        finished=all(context.finished for context in contexts),
        retrained=retrained,
        hypotheses=hypotheses,
        remarks=remarks,
        runs=[run for context in contexts for run in context.runs],
        by_design={name: design for context in contexts for name, design in context.by_design.items()},
        setup=list(dict.fromkeys(text for context in contexts for text in context.setup)),
        settings={name: options for context in contexts for name, options in context.settings.items()},
        learning={trial: curve for context in contexts for trial, curve in context.learning.items()},
        pauses={source: spans for context in contexts for source, spans in context.pauses.items()},
    )


def merge_retrained(contexts: Sequence[ReportContext]) -> tuple[pd.DataFrame | None, list[Remark]]:
    """Return the retrained configurations of all directories, or none and a note if their settings differ."""
    tables = [context.retrained for context in contexts if context.retrained is not None]
    settings = {(*table[["epochs", "images", "test_images"]].iloc[0], len(seed_columns(table))) for table in tables}
    if len(settings) > 1:
        note = "Retrained configurations are left out: they were retrained with different epochs, images or seeds."
        return None, [Remark(note)]
    return pd.concat(tables, ignore_index=True) if tables else None, []


def _merge_hypotheses(configs: Sequence[Config]) -> tuple[str, list[Remark]]:
    """Return the hypotheses that all configurations share, or all pairs and a note.

    A configuration of a single optimizer that leaves the default tests nothing, so it is ignored.
    """
    names = list(dict.fromkeys(c.hypotheses for c in configs if len(c.optimizers) > 1 or c.hypotheses != ALL))
    if len(names) < 2:
        return (names or [ALL])[0], []
    return ALL, [Remark(f"All pairs are tested: the configurations have different hypotheses ({', '.join(names)}).")]
