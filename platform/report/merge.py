"""Several run directories in one report: more repeats of the same optimizers, or more optimizers of the same repeats.

They must be alike in all that decides what a result is worth. A repeat is what its experiment's seed and its number say
it is: two directories with the same seed hold the same repeats, with the same initial designs, and their optimizers are
compared repeat by repeat; with another seed they hold other repeats, which get numbers of their own.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fmnas.comparison.analysis.paired_tests import ALL
from fmnas.comparison.analysis.trials import LAST_COLUMN, SOURCE, PlannedRun
from fmnas.comparison.summary import Remark, ReportContext, Summary
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment.provenance import data_digest, differing_files
from fmnas.platform.experiment.run_directory import RunDirectory, check_links, looked_at
from fmnas.platform.experiment.saved_problem import kept_space
from fmnas.platform.experiment.state import ExperimentState, read
from fmnas.platform.experiment.trial_result import run_name
from fmnas.platform.report.setup_section import competitor, differing, objective_settings
from fmnas.platform.report.write import Findings, findings_of, write_report_files

Repeat = tuple[int, int]
"""An experiment's seed and a repeat in it: what a repeat is, whatever directory holds it."""


class Member(NamedTuple):
    """A run directory and what its journal proves."""

    directory: RunDirectory
    state: ExperimentState

    @property
    def config(self) -> Config:
        """What it was run with."""
        return self.state.experiment.config


def report(roots: Sequence[Path], out: Path | None, say: Callable[[str], None]) -> tuple[Summary, RunDirectory]:
    """Write the report of run directories; the summary, and the folder with trials.csv, summary.json and report/.

    say: told each step as it begins.
    out: that folder. Without it, it is the run directory itself if there is one, else runs/report-NAMES.
    Raises RunDirectoryError for directories that cannot be compared, or an `out` that holds anything but
    an earlier report of this kind; it is looked at before anything is read.
    """
    in_place = len(roots) == 1 and out is None
    names = "-".join(root.name for root in roots)
    folder = RunDirectory(roots[0] if in_place else out or Path("runs") / f"report-{names}")
    if not in_place:
        _check_out(folder)
    found = read_findings(roots) if in_place else _merged(_sources(roots))
    return write_report_files(folder, found.trials, found.context, say), folder


def read_findings(roots: Sequence[Path]) -> Findings:
    """What the journals of run directories tell, of several as in one report; nothing is written.

    Raises RunDirectoryError for directories that cannot be read, or not be compared.
    """
    sources = _sources(roots)
    return findings_of(*sources[0]) if len(sources) == 1 else _merged(sources)


def _sources(roots: Sequence[Path]) -> list[Member]:
    return [Member(directory, read(directory)[0]) for directory in map(RunDirectory, roots)]


def _merged(sources: Sequence[Member]) -> Findings:
    _check_alike(sources)
    _check_independent(sources)
    numbers = _numbers(sources)
    found = [_renumbered(source, numbers) for source in sources]
    known = [each.trials for each in found if not each.trials.empty]
    trials = pd.concat(known, ignore_index=True) if known else found[0].trials
    return Findings(trials, _context(sources, [each.context for each in found]))


def _check_out(folder: RunDirectory) -> None:
    """Raise RunDirectoryError unless the folder is absent, empty, or holds an earlier report of this kind."""
    with looked_at(folder.root, "with --out DIR"):
        check_links(folder)
        if not folder.place.exists():
            return
        if not folder.place.is_dir():
            what = "is no folder"
        elif folder.journal.exists():
            what = "holds an experiment, whose own report this would replace"
        elif any(folder.place.iterdir()) and not _is_merged_report(folder):
            what = "is not empty, and what it holds is no report of fmnas: nothing in it is replaced"
        else:
            return
    raise RunDirectoryError(f"{folder.root} {what}: give another folder with --out DIR")


def _is_merged_report(folder: RunDirectory) -> bool:
    """Whether fmnas wrote a report here, and no experiment lies here whose journal is lost."""
    of_experiment = any(path.exists() for path in (folder.config, folder.environment, folder.retrained))
    if of_experiment or not folder.page.is_file():
        return False
    try:
        summary = json.loads(folder.summary.read_bytes())
    except (FileNotFoundError, ValueError):
        return False
    always = {"name", "problem", "budget", "optimizers", "headline", "caution"}
    return isinstance(summary, dict) and set(summary) >= always


def _check_alike(sources: Sequence[Member]) -> None:
    """Raise RunDirectoryError, naming what differs, unless all directories can be compared."""
    first = sources[0]
    for other in sources[1:]:
        lines = "\n".join(f"  {line}" for line in differing(_settings(first), _settings(other)))
        if lines:
            raise RunDirectoryError(
                f"{first.directory.root} and {other.directory.root} cannot be put into one report: they differ in\n"
                f"{lines}\nReport them one by one.{_same_budget(first, other)}"
            )


def _same_budget(*members: Member) -> str:
    """How to give both as many evaluations, where they have not; else empty."""
    fewer, more = sorted(members, key=lambda member: member.config.budget.evaluations)
    if fewer.config.budget.evaluations == more.config.budget.evaluations:
        return ""
    how = f"fmnas {fewer.directory.command('extend')} -o budget.evaluations={more.config.budget.evaluations}"
    return f" Where only budget.evaluations differs, `{how}` makes them alike."


def _settings(source: Member) -> dict[str, Any]:
    """What must agree where both have it: what an objective is, how it is searched, each optimizer by its label."""
    config, plain = source.config, source.config.model_dump(mode="json")
    return {
        **objective_settings(config, kept_space(source.directory), data_digest(source.directory)),
        **{key: plain[key] for key in ("budget", "initial_design", "on_failure")},
        "checkpoints.continue_promoted": config.checkpoints.continue_promoted,
        **{f"optimizer {each.label}": competitor(each) for each in config.optimizers},
    }


def _check_independent(sources: Sequence[Member]) -> None:
    """Raise RunDirectoryError where two repeats of an optimizer begin with the same trials of an earlier experiment."""
    holders: dict[tuple[str, str, str, int], Member] = {}
    for source in sources:
        for label, known in source.state.experiment.knowledge.items():
            for repeat in range(source.config.repeats):
                key = label, known.experiment, known.label, repeat
                other = holders.setdefault(key, source)
                if other.config.seed != source.config.seed:
                    raise RunDirectoryError(
                        f"{other.directory.root} and {source.directory.root} both hold a repeat of {label} that begins "
                        f"with repeat {repeat} of {known.label} in {known.directory}: they are not independent, as "
                        "repeats must be. Leave one directory out, or run one with a warm_start of its own"
                    )


def _numbers(sources: Sequence[Member]) -> dict[Repeat, int]:
    """A number for every repeat: the first directory's keep theirs, those of another seed get the next free ones."""
    numbers: dict[Repeat, int] = {}
    holders: dict[tuple[str, Repeat], Path] = {}
    for source in sources:
        seed, here = source.config.seed, source.directory.root
        for run in source.state.runs.values():
            repeat = seed, run.repeat
            holder = holders.get((run.optimizer_name, repeat))
            if holder is not None:
                raise RunDirectoryError(
                    f"{holder} and {here} both hold repeat {run.repeat} of {run.optimizer_name} from seed {seed}: "
                    "it is one repeat, not two. Leave one directory out, or run one with another seed"
                )
            holders[run.optimizer_name, repeat] = here
            numbers.setdefault(repeat, len(numbers))
    return numbers


def _renumbered(source: Member, numbers: Mapping[Repeat, int]) -> Findings:
    """What a directory's journal tells, its repeats and runs called as in the report, and where each trial is from."""
    found = findings_of(*source)
    trials, context = found.trials, found.context
    repeats = {run.repeat: numbers[source.config.seed, run.repeat] for run in context.runs}
    runs = [
        PlannedRun(run_name(run.optimizer, repeats[run.repeat]), run.optimizer, repeats[run.repeat])
        for run in context.runs
    ]
    names = {old.run: new.run for old, new in zip(context.runs, runs, strict=True)}

    def numbered(table: pd.DataFrame) -> pd.DataFrame:
        if table.empty:
            return table
        return table.assign(repeat=table["repeat"].map(repeats).astype("Int64"), run=table["run"].map(names))

    if not trials.empty:
        trials = numbered(trials)
        trials.insert(list(trials.columns).index(LAST_COLUMN), SOURCE, str(source.directory.root))
    context = replace(
        context,
        retrained=None if context.retrained is None else numbered(context.retrained),
        pending=[replace(each, run=names[each.run]) for each in context.pending],
        runs=runs,
        pauses={str(source.directory.root): context.pauses[""]},
        learning={(names[run], trial): curve for (run, trial), curve in context.learning.items()},
    )
    return Findings(trials, context)


def _context(sources: Sequence[Member], contexts: Sequence[ReportContext]) -> ReportContext:
    names = [str(source.directory.root) for source in sources]
    retrained = [context.retrained for context in contexts if context.retrained is not None]
    hypotheses, remarks = _hypotheses([source.config for source in sources])
    remarks += map(Remark, differing_files(sources))
    remarks += dict.fromkeys(remark for context in contexts for remark in context.remarks)
    return replace(
        contexts[0],
        name=" + ".join(dict.fromkeys(context.name for context in contexts)),
        environment={name: context.environment for name, context in zip(names, contexts, strict=True)},
        config_text="\n".join(f"# {name}\n{c.config_text}" for name, c in zip(names, contexts, strict=True)),
        pending=[each for context in contexts for each in context.pending],
        finished=all(context.finished for context in contexts),
        retrained=pd.concat(retrained, ignore_index=True) if retrained else None,
        hypotheses=hypotheses,
        remarks=remarks,
        runs=[run for context in contexts for run in context.runs],
        by_design={name: design for context in contexts for name, design in context.by_design.items()},
        setup=list(dict.fromkeys(sentence for context in contexts for sentence in context.setup)),
        settings={name: options for context in contexts for name, options in context.settings.items()},
        learning={trial: curve for context in contexts for trial, curve in context.learning.items()},
        pauses={source: spans for context in contexts for source, spans in context.pauses.items()},
    )


def _hypotheses(configs: Sequence[Config]) -> tuple[str, list[Remark]]:
    """What all of them test, or all pairs with a word on why. One that holds a single optimizer has no say on pairs."""
    said = list(dict.fromkeys(c.hypotheses for c in configs if len(c.optimizers) > 1 or c.hypotheses != ALL))
    if len(said) < 2:
        return (said or [ALL])[0], []
    told = f"All pairs are tested: the configurations differ in their hypotheses ({', '.join(said)})."
    return ALL, [Remark(told)]
