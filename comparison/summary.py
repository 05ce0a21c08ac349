"""The summary of an experiment as plain data: what summary.json holds, and what page and command line print."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import pandas as pd

from fmnas.comparison.numbers.efficiency import areas, equivalents, targets
from fmnas.comparison.numbers.honesty import clock_remarks, honesty, unused_models
from fmnas.comparison.numbers.ledger import Pending
from fmnas.comparison.numbers.notation import MISSING, number
from fmnas.comparison.numbers.paired_tests import ALL, LEVEL, Comparisons, compare
from fmnas.comparison.numbers.retrained import errors_by_repeat, retrained_summary
from fmnas.comparison.numbers.standings import checkpoints, final_table
from fmnas.comparison.numbers.trials import Budget, PlannedRun, configuration_of, variable_columns
from fmnas.comparison.numbers.verdict import caution, headline, power, retrained_caution, retrained_headline

Summary = dict[str, Any]
"""Plain JSON data; missing values are None. The keys are those of `summarise`."""

FINAL_HEADER = (
    "optimizer",
    "mean objective",
    "standard error",
    "repeats",
    "best",
    "its error",
    "evaluations",
    "epochs",
    "model-based",
)


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
    retrained: the table of `read_retrained`, if there is one.
    hypotheses: which pairs are tested, as `compare` takes it.
    remarks: what the reader must know and no trial tells, as `Remark` describes it.
    runs: all that the experiment has, begun or not. methods: the method behind an optimizer's name, where it is
    another.
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
    methods: Mapping[str, str] = field(default_factory=dict)


def summarise(trials: pd.DataFrame, curves: pd.DataFrame, ledger: pd.DataFrame, context: ReportContext) -> Summary:
    """The summary: what was compared, at what cost, with what result, and what that result can support.

    headline, caution: the result in words. optimizers: name -> a row of the final table, best_configuration and
    has_model; the lowest mean first. ledger: a row per run. incidents: what went wrong or was noted, how often, by
    optimizer. clocks: what is odd about the times of day. remarks: those of the context.
    checkpoints, tests, area, targets, equivalents, honesty, retrained: as `Checkpoint`, `Comparisons`, `Area`,
    `Target`, `Equivalent`, `Honesty` and `retrained_summary` describe them; `retrained` has tests of its own, of the
    test errors.
    """
    budget, final = context.budget, final_table(curves, ledger, context.budget, context.finished)
    at = int(final["common_epochs"].iloc[0]) if len(final) else 0
    tests = compare({str(row["optimizer"]): row["values"] for _, row in final.iterrows()}, context.hypotheses)
    shown = [name for name in final.columns if name not in ("optimizer", "common_epochs", "budget_epochs")]
    records, clocks = honesty(trials, ledger, context.methods), clock_remarks(trials)
    has_model = {record.optimizer: record.has_model for record in records}
    again, again_tests = _retrained(context)
    means = again["means"] if again else []
    cautions = [
        caution(final, tests),
        *unused_models(records),
        *clocks,
        *(remark.text for remark in context.remarks if not remark.optimizer),
        retrained_caution(means, again_tests, tests),
    ]
    return {
        "name": context.name,
        "problem": context.problem,
        "budget": {
            "evaluations": budget.evaluations,
            "epochs_per_evaluation": budget.epochs_per_evaluation,
            "epochs": budget.epochs,
            "seconds": budget.seconds,
        },
        "compared_at": {"epochs": at, "evaluations": at / budget.epochs_per_evaluation},
        "headline": f"{headline(final, tests, budget.seconds)} {retrained_headline(means, again_tests)}".rstrip(),
        "caution": " ".join(text for text in cautions if text),
        "optimizers": {
            str(row["optimizer"]): {
                **_plain(row[shown].to_dict()),
                "best_configuration": _best(trials, row),
                "has_model": has_model[str(row["optimizer"])],
            }
            for _, row in final.iterrows()
        },
        "tests": _tests(tests),
        **_progress(curves, at, budget),
        "ledger": _plain(ledger.to_dict("records")),
        "honesty": _plain([asdict(each) for each in records]),
        "retrained": _plain({**again, "tests": _tests(again_tests)}) if again else None,
        "clocks": clocks,
        "incidents": _incidents(trials),
        "remarks": [asdict(remark) for remark in context.remarks],
    }


def _tests(tests: Comparisons) -> dict[str, Any]:
    plain = {"level": LEVEL, "correction": "holm", "power": power(tests)}
    return plain | _plain(asdict(tests))


def _retrained(context: ReportContext) -> tuple[dict[str, Any] | None, Comparisons]:
    """The summary of the retrained configurations, and the tests of their errors: the same hypotheses, paired alike."""
    found = retrained_summary(context.retrained)
    errors = errors_by_repeat(context.retrained) if found and context.retrained is not None else {}
    return found, compare(errors, context.hypotheses)


def _progress(curves: pd.DataFrame, at: int, budget: Budget) -> dict[str, Any]:
    """How the optimizers stood on the way to the epochs at which they are compared."""
    points = checkpoints(curves, at, budget) if len(curves) else []
    reached = [asdict(target) for target in targets(curves, points[-1])] if points else []
    return {
        "checkpoints": _plain([asdict(point) for point in points]),
        "area": _plain([asdict(area) for area in areas(curves, at / budget.epochs_per_evaluation)]),
        "targets": _plain([{"target": t["target"], "from": t["source"], "rows": t["rows"]} for t in reached]),
        "equivalents": _plain([asdict(each) for each in equivalents(curves, points)]),
    }


def final_rows(summary: Summary) -> list[tuple[str, ...]]:
    """The final table as text, a row per optimizer, columns FINAL_HEADER."""
    return [
        (
            name,
            number(row["mean"]),
            number(row["standard_error"], digits=2),
            str(row["repeats"]),
            number(row["best"]),
            number(row["best_error"]),
            f"{row['evaluations']:.1f}",
            f"{row['epochs']:.0f}",
            f"{row['model_share']:.0%}" if row.get("has_model", True) else MISSING,
        )
        for name, row in summary["optimizers"].items()
    ]


def _best(trials: pd.DataFrame, row: "pd.Series[Any]") -> dict[str, Any] | None:
    """The configuration of an optimizer's best trial."""
    here = trials[(trials["run"] == row["best_run"]) & (trials["trial"] == row["best_trial"])]
    finished = here[here["status"] == "finished"]
    return _plain(configuration_of(finished.iloc[0], variable_columns(trials))) if len(finished) else None


def _incidents(trials: pd.DataFrame) -> list[dict[str, Any]]:
    kinds = [trials[trials["status"] != "finished"].assign(what=lambda t: t["status"], text=lambda t: t["reason"])]
    kinds.append(trials[trials["note"] != ""].assign(what="note", text=lambda t: t["note"]))
    counted = pd.concat(kinds).groupby(["optimizer", "what", "text"], sort=True).size()
    return [dict(_plain(row)) for row in counted.reset_index(name="trials").to_dict("records")]


def _plain(value: Any) -> Any:
    """The value as JSON data: numpy scalars as Python's, missing ones as None, keys as text."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    if hasattr(value, "item"):
        value = value.item()
    if value is pd.NA or (isinstance(value, float) and value != value):
        return None
    return value
