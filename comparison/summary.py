"""The summary of an experiment: what page and command line show, and what summary.json holds.

Missing numbers are NaN here and null in the file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass, replace
from math import nan
from typing import Any

import pandas as pd

from fmnas.comparison.analysis.checkpoints import Checkpoint, FinalNumbers, Target, checkpoints, final_table, targets
from fmnas.comparison.analysis.costs import LedgerRow, Pauses, Pending, ledger_rows
from fmnas.comparison.analysis.formatting import format_number, format_share, is_missing
from fmnas.comparison.analysis.hypervolume import Hypervolumes, compare_hypervolumes
from fmnas.comparison.analysis.paired_tests import ALL, LEVEL, Comparisons, compare
from fmnas.comparison.analysis.retrained import Retrained, reduced_settings, retrained_summary
from fmnas.comparison.analysis.sanity_checks import (
    SanityChecks,
    check_optimizers,
    failure_warnings,
    lost_trial_warnings,
    unused_method_warnings,
)
from fmnas.comparison.analysis.trials import Budget, PlannedRun, configuration_of, variable_columns
from fmnas.comparison.analysis.verdict import caution, describe_power, headline, retrained_caution, retrained_headline
from fmnas.search_spaces.records import FINISHED, WARM_START


@dataclass(frozen=True)
class Remark:
    """A sentence for page and summary. optimizer: the one that it is about; "" for a caution about the experiment."""

    text: str
    optimizer: str = ""


MINIMUM_TOLERANCE = 1e-5
"""How far below the stated minimum of a problem a result may be, relative to max(1, |minimum|)."""


@dataclass(frozen=True)
class ReportContext:
    """What a report shows in addition to the trials.

    name, problem: of the experiment.
    budget: of every optimizer in each repeat.
    environment: versions, commit, host, devices; may be nested.
    config_text: the resolved configuration, as YAML.
    pending: trials suggested and not ended. finished: whether every run has spent its budget.
    retrained: the table that `retrained_summary` takes, if there is one.
    full_training: epochs, images and seeds of a full training of the search, as `reduced_settings` takes them.
    hypotheses: which pairs are tested, as `compare` takes them.
    remarks: what the reader must know and the trials do not show.
    runs: all runs of the experiment, whether or not they have begun.
    by_design: how each optimizer chooses new configurations, as `check_optimizers` takes it.
    setup: what was measured, in sentences. settings: each optimizer's options, by its name.
    minimum: of the objective, where it is known. objectives: of a problem with two, their names and values in the
    reference point of the hypervolume. learning: run and trial -> the error after each epoch.
    files: links to files with the numbers.
    pauses: when no driver worked at the experiment; wall-clock times exclude them.
    """

    name: str
    problem: str
    budget: Budget
    environment: Mapping[str, Any]
    config_text: str
    pending: Sequence[Pending] = ()
    finished: bool = False
    retrained: pd.DataFrame | None = None
    hypotheses: str = ALL
    remarks: Sequence[Remark] = ()
    runs: Sequence[PlannedRun] = ()
    by_design: Mapping[str, str] = field(default_factory=dict)
    setup: Sequence[str] = ()
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    minimum: float | None = None
    learning: Mapping[tuple[str, int], Sequence[float]] = field(default_factory=dict)
    files: Sequence[str] = ()
    full_training: Mapping[str, int] = field(default_factory=dict)
    pauses: Pauses = field(default_factory=dict)
    objectives: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class FinalRow(FinalNumbers):
    """One optimizer's row of the `final_table`, with its best configuration.

    regret: mean minus the known minimum of the objective; NaN if it is not known.
    best_configuration: None without a full result. best_curve: its error after each epoch; empty if unknown.
    method_share: as in `SanityChecks`.
    """

    regret: float
    best_configuration: Mapping[str, Any] | None
    best_curve: tuple[float, ...]
    method_share: float

    @property
    def found_in(self) -> str:
        """Where the best configuration was found: "bo-fm/repeat-0, trial 3"."""
        return f"{self.best_run}, trial {self.best_trial}"


@dataclass(frozen=True)
class Incident:
    """A failure or note, with the number of the optimizer's trials that have it. what: their status, or "note"."""

    optimizer: str
    what: str
    text: str
    trials: int


@dataclass(frozen=True)
class Summary:
    """What was compared, at what cost, with what result, and what that result can support.

    compared_at: the epochs at which all are compared. headline, caution: the result in words. optimizers: by name, the
    lowest mean first. ledger: a row per run. incidents: by optimizer. remarks: those of the context.
    minimum: that of the context, unless a result is below it.
    hypervolumes: of a problem with two objectives.
    """

    name: str
    problem: str
    budget: Budget
    compared_at: int
    headline: str
    caution: str
    optimizers: Mapping[str, FinalRow]
    tests: Comparisons
    checkpoints: tuple[Checkpoint, ...]
    targets: tuple[Target, ...]
    ledger: tuple[LedgerRow, ...]
    sanity_checks: tuple[SanityChecks, ...]
    retrained: Retrained | None
    incidents: tuple[Incident, ...]
    remarks: tuple[Remark, ...]
    minimum: float | None
    hypervolumes: Hypervolumes | None = None

    @property
    def evaluations(self) -> int:
        """The full evaluations after which all are compared."""
        return int(self.compared_at / self.budget.epochs_per_evaluation)

    def to_json(self) -> dict[str, Any]:
        """The plain JSON data of summary.json. Missing values are None, all keys are text."""
        budget, retrained, volumes = self.budget, self.retrained, self.hypervolumes
        changed = {
            "budget": {
                name: getattr(budget, name) for name in ("evaluations", "epochs_per_evaluation", "epochs", "seconds")
            },
            "compared_at": {
                "epochs": self.compared_at,
                "evaluations": self.compared_at / budget.epochs_per_evaluation,
            },
            "tests": _tests_json(self.tests),
            "targets": [{"target": t.target, "from": t.source, "rows": t.rows} for t in self.targets],
            "retrained": {**vars(retrained), "tests": _tests_json(retrained.tests)} if retrained else None,
            "hypervolumes": {**vars(volumes), "tests": _tests_json(volumes.tests)} if volumes else None,
        }
        return {name: _to_json(value) for name, value in (vars(self) | changed).items()}


def summarise(trials: pd.DataFrame, curves: pd.DataFrame, ledger: pd.DataFrame, context: ReportContext) -> Summary:
    """The summary of a table of trials, of its `anytime_curves` and its `ledger_table`."""
    budget, final = context.budget, final_table(curves, ledger, context.budget, context.finished)
    at, wrong_minimum = final.common_epochs, _minimum_warning(curves, context.minimum)
    context = replace(context, minimum=None) if wrong_minimum else context
    tests = compare({name: row.values for name, row in final.rows.items()}, context.hypotheses)
    checks = {row.optimizer: row for row in check_optimizers(trials, ledger, context.by_design)}
    retrained = retrained_summary(context.retrained, context.hypotheses)
    points = checkpoints(curves, at, budget) if len(curves) else []
    reduced = reduced_settings(retrained, context.full_training)
    waiting = _not_begun(ledger, context)
    headlines = [headline(final, tests, budget.seconds, waiting), retrained_headline(retrained)]
    if retrained and not reduced:  # test errors first: what a search measured is biased
        headlines = [headlines[1], f"In the search, {headlines[0]}"]
    cautions = [
        caution(final, tests, waiting),
        wrong_minimum,
        *unused_method_warnings(list(checks.values())),
        *failure_warnings(list(checks.values())),
        *lost_trial_warnings(ledger),
        *(remark.text for remark in context.remarks if not remark.optimizer),
        retrained_caution(retrained, reduced),
    ]
    return Summary(
        name=context.name,
        problem=context.problem,
        budget=budget,
        compared_at=at,
        headline=" ".join(filter(None, headlines)),
        caution=" ".join(text for text in cautions if text),
        optimizers={name: _final_row(row, checks[name], trials, context) for name, row in final.rows.items()},
        tests=tests,
        checkpoints=tuple(points),
        targets=tuple(targets(curves, points[-1])) if points else (),
        ledger=ledger_rows(ledger),
        sanity_checks=tuple(checks.values()),
        retrained=retrained,
        incidents=_incidents(trials),
        remarks=tuple(context.remarks),
        minimum=context.minimum,
        hypervolumes=compare_hypervolumes(curves, at, context.objectives, context.hypotheses),
    )


_FINAL_CELLS: Mapping[str, Callable[[FinalRow], str]] = {
    "mean objective": lambda row: format_number(row.mean),
    "standard error": lambda row: format_number(row.standard_error, digits=2),
    "mean regret": lambda row: format_number(nan if row.regret == row.mean else row.regret),  # with a minimum of 0
    "repeats": lambda row: str(row.repeats),
    "best": lambda row: format_number(row.best),
    "its error": lambda row: format_number(row.best_error),
    "evaluations": lambda row: f"{row.evaluations:.1f}",
    "epochs": lambda row: f"{row.epochs:.0f}",
    "by method": lambda row: format_share(row.method_share),
}
FINAL_HEADER = ("optimizer", *_FINAL_CELLS)


def final_rows(summary: Summary) -> list[tuple[str, ...]]:
    """The final table as text, a row per optimizer, columns FINAL_HEADER."""
    return [(name, *(cell(row) for cell in _FINAL_CELLS.values())) for name, row in summary.optimizers.items()]


def _not_begun(ledger: pd.DataFrame, context: ReportContext) -> list[str]:
    """The optimizers of an unfinished experiment with runs that have not begun."""
    begun = set(ledger["run"])
    return [] if context.finished else list(dict.fromkeys(r.optimizer for r in context.runs if r.run not in begun))


def _minimum_warning(curves: pd.DataFrame, minimum: float | None) -> str:
    """A sentence if a result is below the stated minimum by more than MINIMUM_TOLERANCE; else empty."""
    lowest = curves["incumbent"].min()
    if minimum is None or not lowest < minimum - MINIMUM_TOLERANCE * max(1.0, abs(minimum)):
        return ""
    return (
        f"A result, {lowest:.10g}, is below the known minimum of the problem, {minimum:.10g}: that is wrong, or the "
        "objective is noisy. No regret is shown."
    )


def _final_row(row: FinalNumbers, checks: SanityChecks, trials: pd.DataFrame, context: ReportContext) -> FinalRow:
    configuration: dict[str, Any] | None = None
    curve: tuple[float, ...] = ()
    if row.best_run is not None and row.best_trial is not None:
        here = (trials["run"] == row.best_run) & (trials["trial"] == row.best_trial) & (trials["status"] == FINISHED)
        configuration = configuration_of(trials[here].iloc[0], variable_columns(trials))
        curve = tuple(context.learning.get((row.best_run, row.best_trial), ()))
    return FinalRow(
        **vars(row),
        regret=row.mean - (nan if context.minimum is None else context.minimum),
        best_configuration=configuration,
        best_curve=curve,
        method_share=checks.method_share,
    )


def _incidents(trials: pd.DataFrame) -> tuple[Incident, ...]:
    failures = trials[trials["status"] != FINISHED].assign(what=lambda t: t["status"], text=lambda t: t["reason"])
    noted = trials[(trials["note"] != "") & (trials["origin"] != WARM_START)]  # a warm start's note is its source
    notes = noted.assign(what="note", text=lambda t: t["note"])
    groups = pd.concat([failures, notes]).groupby(["optimizer", "what", "text"], sort=True)
    return tuple(Incident(*row) for row in groups.size().reset_index(name="trials").itertuples(index=False, name=None))


def _tests_json(tests: Comparisons) -> dict[str, Any]:
    return {"level": LEVEL, "correction": "holm", "power": describe_power(tests), **vars(tests)}


def _to_json(value: Any) -> Any:
    """A value as JSON data: records as dictionaries, numpy scalars as numbers, missing values as None, keys as text."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return {str(key): _to_json(of_key) for key, of_key in value.items()}
    if isinstance(value, list | tuple):
        return [_to_json(element) for element in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if is_missing(value) else value
