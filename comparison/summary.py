"""The summary of an experiment: what page and command line show, and what summary.json holds.

Missing numbers are NaN here and null in the file.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, is_dataclass
from typing import Any

import pandas as pd

from fmnas.comparison.analysis.checkpoints import Checkpoint, FinalNumbers, checkpoints, final_table
from fmnas.comparison.analysis.costs import LedgerRow, Pauses, Pending, ledger_rows
from fmnas.comparison.analysis.efficiency import Area, Equivalent, Target, areas, equivalents, targets
from fmnas.comparison.analysis.formatting import is_missing, number, share
from fmnas.comparison.analysis.paired_tests import ALL, LEVEL, Comparisons, compare
from fmnas.comparison.analysis.retrained import Retrained, retrained_summary, shortfalls
from fmnas.comparison.analysis.sanity_checks import (
    Honesty,
    clock_remarks,
    honesty,
    lost_trials,
    spoilt_trials,
    unused_methods,
)
from fmnas.comparison.analysis.tradeoff import Tradeoff, tradeoffs
from fmnas.comparison.analysis.trials import Budget, PlannedRun, configuration_of, variable_columns
from fmnas.comparison.analysis.verdict import caution, headline, power, retrained_caution, retrained_headline
from fmnas.search_spaces.records import FINISHED, WARM_START


@dataclass(frozen=True)
class Remark:
    """A sentence for page and summary. optimizer: whom it is about; "" for all of it: then it is a caution."""

    text: str
    optimizer: str = ""


@dataclass(frozen=True)
class ReportContext:
    """What a report tells beside the trials.

    name, problem: of the experiment.
    budget: what every optimizer may spend per repeat.
    environment: versions, commit, host, devices; may be nested.
    config_text: the configuration as resolved, as YAML.
    pending: trials asked and not ended. finished: whether every run has spent its budget.
    retrained: the table of `read_retrained`, if there is one. searched: what the search's own trainings had, as
    `shortfalls` takes it.
    hypotheses: which pairs are tested, as `compare` takes it.
    remarks: what the reader must know and no trial tells, as `Remark` describes it.
    runs: all that the experiment has, begun or not.
    by_design: what chooses each optimizer's new configurations, as `honesty` takes it.
    setup: what was measured, in sentences. settings: each optimizer's options, by its name.
    minimum: of the objective, where it is known. learning: of trials, by run and number, the error after each epoch.
    files: beside the page, for a reader who wants the numbers.
    pauses: when no driver worked at the experiment; no wall-clock time counts them.
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
    searched: Mapping[str, int] = field(default_factory=dict)
    pauses: Pauses = field(default_factory=dict)


@dataclass(frozen=True)
class FinalRow(FinalNumbers):
    """One optimizer's row of the `final_table`, with its best configuration and what chose its trials, as in `Honesty`.

    best_configuration: None without a full result. best_curve: its error after each epoch; empty where it has none.
    """

    best_configuration: Mapping[str, Any] | None
    best_curve: tuple[float, ...]
    has_model: bool
    method_share: float

    @property
    def found_in(self) -> str:
        """Of the best configuration: "bo-fm/repeat-0, trial 3"."""
        return f"{self.best_run}, trial {self.best_trial}"


@dataclass(frozen=True)
class Incident:
    """What went wrong or was noted in so many trials of an optimizer. what: their status, or "note"."""

    optimizer: str
    what: str
    text: str
    trials: int


@dataclass(frozen=True)
class Summary:
    """What was compared, at what cost, with what result, and what that result can support.

    compared_at: the epochs at which all are compared. headline, caution: the result in words. optimizers: by name, the
    lowest mean first. ledger: a row per run. clocks: what is odd about the times of day. incidents: by optimizer.
    remarks, minimum: those of the context. tradeoff: error against FLOPs; empty where there are none.
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
    area: tuple[Area, ...]
    targets: tuple[Target, ...]
    equivalents: tuple[Equivalent, ...]
    ledger: tuple[LedgerRow, ...]
    honesty: tuple[Honesty, ...]
    retrained: Retrained | None
    clocks: tuple[str, ...]
    incidents: tuple[Incident, ...]
    remarks: tuple[Remark, ...]
    tradeoff: tuple[Tradeoff, ...]
    minimum: float | None

    def to_json(self) -> dict[str, Any]:
        """As plain JSON data: what summary.json holds. Missing values are None, all keys are text."""
        budget, again = self.budget, self.retrained
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
            "retrained": {**vars(again), "tests": _tests_json(again.tests)} if again else None,
        }
        return {name: _plain(value) for name, value in (vars(self) | changed).items()}


def summarise(trials: pd.DataFrame, curves: pd.DataFrame, ledger: pd.DataFrame, context: ReportContext) -> Summary:
    """The summary of a table of trials, of its `anytime_curves` and its `ledger_table`."""
    budget, final = context.budget, final_table(curves, ledger, context.budget, context.finished)
    at = final.common_epochs
    tests = compare({name: row.values for name, row in final.rows.items()}, context.hypotheses)
    records, clocks = honesty(trials, ledger, context.by_design), clock_remarks(trials)
    chosen = {record.optimizer: record for record in records}
    again = retrained_summary(context.retrained, context.hypotheses)
    points = checkpoints(curves, at, budget) if len(curves) else []
    begun = set(ledger["run"])
    waiting = dict.fromkeys(run.optimizer for run in context.runs if run.run not in begun)
    cautions = [
        caution(final, tests, () if context.finished else list(waiting)),
        *unused_methods(records),
        *spoilt_trials(records),
        *lost_trials(ledger),
        *clocks,
        *(remark.text for remark in context.remarks if not remark.optimizer),
        retrained_caution(again, tests, shortfalls(context.retrained, context.searched)),
    ]
    return Summary(
        name=context.name,
        problem=context.problem,
        budget=budget,
        compared_at=at,
        headline=f"{headline(final, tests, budget.seconds)} {retrained_headline(again)}".rstrip(),
        caution=" ".join(text for text in cautions if text),
        optimizers={name: _final_row(row, chosen[name], trials, context) for name, row in final.rows.items()},
        tests=tests,
        checkpoints=tuple(points),
        area=tuple(areas(curves, at / budget.epochs_per_evaluation)),
        targets=tuple(targets(curves, points[-1])) if points else (),
        equivalents=tuple(equivalents(curves, points)),
        ledger=ledger_rows(ledger),
        honesty=tuple(records),
        retrained=again,
        clocks=tuple(clocks),
        incidents=_incidents(trials),
        remarks=tuple(context.remarks),
        tradeoff=tuple(tradeoffs(trials, curves, at, budget)),
        minimum=context.minimum,
    )


_FINAL_CELLS: Mapping[str, Callable[[FinalRow], str]] = {
    "mean objective": lambda row: number(row.mean),
    "standard error": lambda row: number(row.standard_error, digits=2),
    "repeats": lambda row: str(row.repeats),
    "best": lambda row: number(row.best),
    "its error": lambda row: number(row.best_error),
    "evaluations": lambda row: f"{row.evaluations:.1f}",
    "epochs": lambda row: f"{row.epochs:.0f}",
    "by method": lambda row: share(row.method_share),
}
FINAL_HEADER = ("optimizer", *_FINAL_CELLS)


def final_rows(summary: Summary) -> list[tuple[str, ...]]:
    """The final table as text, a row per optimizer, columns FINAL_HEADER."""
    cells = _FINAL_CELLS.values()
    return [(name, *(cell(row) for cell in cells)) for name, row in summary.optimizers.items()]


def _final_row(row: FinalNumbers, record: Honesty, trials: pd.DataFrame, context: ReportContext) -> FinalRow:
    configuration: dict[str, Any] | None = None
    curve: tuple[float, ...] = ()
    if row.best_run is not None and row.best_trial is not None:
        here = (trials["run"] == row.best_run) & (trials["trial"] == row.best_trial) & (trials["status"] == FINISHED)
        configuration = configuration_of(trials[here].iloc[0], variable_columns(trials))
        curve = tuple(context.learning.get((row.best_run, row.best_trial), ()))
    return FinalRow(
        **vars(row),
        best_configuration=configuration,
        best_curve=curve,
        has_model=record.has_model,
        method_share=record.method_share,
    )


def _incidents(trials: pd.DataFrame) -> tuple[Incident, ...]:
    kinds = [trials[trials["status"] != FINISHED].assign(what=lambda t: t["status"], text=lambda t: t["reason"])]
    noted = trials[(trials["note"] != "") & (trials["origin"] != WARM_START)]  # those say where they are from
    kinds.append(noted.assign(what="note", text=lambda t: t["note"]))
    counted = pd.concat(kinds).groupby(["optimizer", "what", "text"], sort=True).size().reset_index(name="trials")
    return tuple(Incident(*row) for row in counted.itertuples(index=False, name=None))


def _tests_json(tests: Comparisons) -> dict[str, Any]:
    return {"level": LEVEL, "correction": "holm", "power": power(tests), **vars(tests)}


def _plain(value: Any) -> Any:
    """As JSON data: records as their fields, numpy scalars as Python's, missing values as None, keys as text."""
    if is_dataclass(value):
        value = vars(value)
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    return None if is_missing(value) else value
