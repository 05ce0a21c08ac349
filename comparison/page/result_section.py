"""The first sections of the page: the curves, the final table, the table on the way there."""

from collections.abc import Mapping
from typing import Any

from fmnas.comparison.numbers.notation import MISSING, count, interval, number, with_error
from fmnas.comparison.numbers.resampling import shortcoming
from fmnas.comparison.page.html_parts import Pictures, Section, figures, filled, hint, joined, table
from fmnas.comparison.page.legend import legend
from fmnas.comparison.summary import FINAL_HEADER, Summary, final_rows

_CURVES = (
    "Thick lines: mean over repeats, with a band of 95% where there is one, else of one standard error; from where "
    "every repeat has a result to where the first of them ends. Thin lines, for up to four optimizers: single repeats. "
    "Dots: results at full fidelity. All are steps: between two results nothing is known to be better. Bands that do "
    "not touch are no test; the differences below are."
)


def curves_section(summary: Summary, pictures: Pictures) -> Section | None:
    """The best objective so far, a panel for each currency."""
    if "curves" not in pictures:
        return None
    body = joined(legend(summary["optimizers"]), figures(pictures["curves"]), hint(_CURVES))
    return Section("curves", "Best objective so far", body)


def result_section(summary: Summary, pictures: Pictures) -> Section | None:
    """The final table, and every repeat as a point."""
    if not summary["optimizers"]:
        return None
    values = [_each_repeat(row["values"]) for row in summary["optimizers"].values()]
    rows = [(*row, each) for row, each in zip(final_rows(summary), values, strict=True)]
    at = summary["compared_at"]
    told = (
        f"The best full-fidelity objective of each repeat after {at['epochs']} epochs; the lowest mean first. "
        "Model-based: the share of trials that a model chose; – for an optimizer that has none."
    )
    remarks = [hint(remark["text"]) for remark in summary.get("remarks") or () if remark["optimizer"]]
    shown = table((*FINAL_HEADER, "each repeat"), rows, "wide")
    return Section("result", "Result", joined(shown, hint(told), *remarks, figures(pictures.get("result", ()))))


def checkpoints_section(summary: Summary, _: Pictures) -> Section | None:
    """The same at a quarter, a half and all of the budget, with ranks."""
    if not summary.get("checkpoints"):
        return None
    steps = summary["checkpoints"]
    header, rows = ["optimizer"], {row["optimizer"]: [row["optimizer"]] for row in steps[-1]["rows"]}
    for step in steps:
        header += [f"at {step['share']:.0%}", "95% interval", "rank"]
        for row in step["rows"]:
            rows[row["optimizer"]] += [mean_of(row), interval(row["low"], row["high"]), count(row["rank"])]
    spent = ", ".join(f"{step['share']:.0%} are {count(step['evaluations'])} evaluations" for step in steps)
    told = (
        f"Of the budget at which all are compared, {spent}. Means with standard errors. Rank: the place within each "
        "repeat, 1 the lowest objective, averaged over repeats; ties share their places. Intervals: bootstrap over "
        f"repeats. {shortcoming(min(len(row['values']) for row in steps[-1]['rows']))}"
    )
    places = {row["optimizer"]: row["rank"] for row in steps[-1]["rows"]}
    ordered = sorted(rows, key=lambda name: (places[name] is None, places[name] or 0.0, name))
    return Section("checkpoints", "On the way", joined(filled(header, [rows[name] for name in ordered]), hint(told)))


def mean_of(row: Mapping[str, Any], name: str = "mean") -> str:
    """A mean with its standard error, as a summary's row holds them."""
    if row[name] is None:
        return MISSING
    return with_error(row[name], float("nan") if row["standard_error"] is None else row["standard_error"])


def _each_repeat(values: Mapping[str, float | None]) -> str:
    return "  ".join(number(value) for value in values.values())
