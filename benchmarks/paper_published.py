"""How far our results are from the published ones: tables of docs/results.md. See paper_tables.py."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from paper_tables import Taken

from fmnas.comparison.analysis.formatting import MISSING, format_number

ERRORS = {"BO-FM": math.sqrt(5 / 4), "GEBO": math.sqrt(1 / 10)}
"""By paper: the standard error (ddof 1) of a mean, as a multiple of the printed spread.

BO-FM: five runs, a standard error with ddof 0. GEBO: ten runs, a standard deviation, taken to have ddof 1.
"""
INITIAL_DESIGNS = ("hybo",)
"""Optimizers whose published rows, all of GEBO's table, are their initial designs."""


def published_overview(all_taken: Sequence[Taken], published: Mapping[str, Any]) -> str:
    """Return a table for each paper, of its optimizers and problems that were run here; empty if there are none."""
    return "\n\n".join(filter(None, (_table_of(paper, all_taken, published) for paper in ERRORS)))


def _table_of(paper: str, all_taken: Sequence[Taken], published: Mapping[str, Any]) -> str:
    problems = [name for name, about in published.items() if about["source"].startswith(paper)]
    rows = (label for name in problems for label in published[name]["rows"])
    labels = dict.fromkeys(label for label in rows if label not in INITIAL_DESIGNS)
    columns = {
        name: {label: cell for label in labels if (cell := _cell(name, label, all_taken, published[name]))}
        for name in problems
    }
    columns = {name: cells for name, cells in columns.items() if cells}
    if not columns:
        return ""
    lines = [f"| {paper} | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for label in labels:
        cells = [column.get(label, MISSING) for column in columns.values()]
        if set(cells) != {MISSING}:
            lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _cell(problem: str, label: str, all_taken: Sequence[Taken], about: Mapping[str, Any]) -> str:
    """Return the difference, in the first table that has the optimizer; empty if none has."""
    taken = _first_with(problem, label, all_taken)
    if label not in about["rows"] or taken is None:
        return ""
    reached = taken.facts.evaluations_of(label)
    fewer = f" (at {reached})" if reached < taken.facts.evaluations else ""
    return f"{standard_errors_above(taken, label, about):+.1f}{fewer}"


def _first_with(problem: str, label: str, all_taken: Sequence[Taken]) -> Taken | None:
    """Return the first table of a problem that has an optimizer, if there is one."""
    return next((t for t in all_taken if t.facts.problem == problem and label in t.facts.optimizers), None)


def seconds_overview(all_taken: Sequence[Taken], published: Mapping[str, Any]) -> str:
    """Return a table of seconds per suggestion, here and published; empty if no such problem was run here."""
    tables = {name: _first_with(name, "gebo", all_taken) for name, about in published.items() if "seconds" in about}
    problems = {name: table for name, table in tables.items() if table}
    lines = [f"| here / there | {' | '.join(problems)} |", "|---" * (len(problems) + 1) + "|"]
    for label in dict.fromkeys(label for name in problems for label in published[name]["seconds"]):
        cells = (
            f"{format_number(table.seconds(label), 2)} / {published[name]['seconds'][label]}"
            for name, table in problems.items()
        )
        lines.append(f"| {label} | {' | '.join(cells)} |")
    return "\n".join(lines) if problems else ""


def standard_errors_above(taken: Taken, label: str, about: Mapping[str, Any]) -> float:
    """Return our mean minus the published one, in standard errors of this difference; negative: ours is lower."""
    bests = taken.bests(label)
    mean, spread = map(float, about["rows"][label])
    theirs = ERRORS[about["source"].split(",")[0]] * spread
    return float((bests.mean() - mean) / math.hypot(bests.std(ddof=1) / math.sqrt(len(bests)), theirs))
