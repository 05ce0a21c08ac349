"""docs/results.md and its figures: each problem's own table beside the published one. See paper_tables.py."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from paper_tables import Taken

from fmnas.comparison.figures.canvas import PANEL, label, legend, logarithmic, plain, sheet
from fmnas.comparison.figures.palette import Style, styles
from fmnas.comparison.numbers.notation import MISSING, number, with_error
from fmnas.platform.config.config import load_config
from fmnas.platform.problems import PROBLEMS
from fmnas.trainers.problem import Problem

DPI = 100
WIDTH = 120
ROUNDING = 1e-12
PAPER_PROTOCOL = 0
"""The seed of the runs that repeat a paper's protocol."""
INTRODUCTION = """# Results: the papers' tables again

What `fmnas run paper/PROBLEM` finds, beside what was published. Made by `python benchmarks/paper_tables.py` from
`benchmarks/results/paper/`, where every incumbent of every run is kept with the configuration, the commit and the
versions; `python benchmarks/paper_tables.py take DIR` takes another run directory in. Nothing here is written by hand.

A value is the mean of the best objective after all evaluations, ± its standard error over the repeats (their standard
deviation, ddof 1, by the root of their number); lower is better. *Lower than bo-fm*: in how many of the repeats, which
begin from the same points, an optimizer ended lower than BO-FM did. *Within 0.1%*: how many repeats came so near the
known minimum, by its size; where it is 0, or not known, there is no telling. *Seconds* are those of one suggestion
after the initial design, the mean over a run, on one thread of two cores that had other work, too: they tell ten times
from once, not more. Published values are as printed.

Tables of another seed than the papers' protocol has were drawn from the operating system's entropy, run once, and are
all that was run with that seed: no method was chosen while looking at them. The lowest mean is an order and no verdict:
nothing is tested here; `fmnas report` on such a run is what tests.
"""
NEAR = 1e-3
"""By which share of its size a repeat may miss the minimum and count as near."""


def write_page(all_taken: Sequence[Taken], published: Mapping[str, Any], docs: Path) -> None:
    """Write docs/results.md and docs/results/NAME.png."""
    folder = docs / "results"
    folder.mkdir(parents=True, exist_ok=True)
    parts = [INTRODUCTION, overview(all_taken)]
    problems = [name for name in PROBLEMS if any(taken.facts.problem == name for taken in all_taken)]
    for problem in problems:
        about = published.get(problem, {})
        parts.append(f"## {problem}\n\n{PROBLEMS[problem].summary[0].upper()}{PROBLEMS[problem].summary[1:]}.")
        parts += [fill(about["note"], WIDTH)] if "note" in about else []
        for taken in (each for each in all_taken if each.facts.problem == problem):
            name = f"{problem}-{taken.facts.seed}" if taken.facts.seed != PAPER_PROTOCOL else problem
            figure(taken, folder / f"{name}.png")
            parts += [fill(protocol(taken), WIDTH), table(taken, about), f"![{problem}](results/{name}.png)"]
    (docs / "results.md").write_text("\n\n".join(part.strip() for part in parts) + "\n")


def overview(all_taken: Sequence[Taken]) -> str:
    """Who is first on each problem, in one table."""
    lines = ["| problem | repeats | lowest mean | bo-fm's place | of |", "|---|---|---|---|---|"]
    for taken in all_taken:
        order, names = ranked(taken), ", ".join(first(taken))
        place = MISSING if "bo-fm" not in order else "1" if "bo-fm" in first(taken) else str(order.index("bo-fm") + 1)
        lines.append(f"| {name_of(taken)} | {taken.facts.repeats} | {names} | {place} | {len(order)} |")
    return "\n".join(lines)


def first(taken: Taken) -> list[str]:
    """Those with the lowest mean; several where nothing but rounding tells them apart."""
    means = {name: float(taken.bests(name).mean()) for name in ranked(taken)}
    least = min(means.values())
    return [name for name, mean in means.items() if mean - least <= ROUNDING * abs(least)]


def name_of(taken: Taken) -> str:
    """A problem, and that its repeats are not the paper's."""
    return taken.facts.problem + ("" if taken.facts.seed == PAPER_PROTOCOL else f", seed {taken.facts.seed}")


def ranked(taken: Taken) -> list[str]:
    """Labels by their means, the lowest first."""
    means = {name: float(taken.bests(name).mean()) for name in taken.facts.optimizers}
    return sorted(means, key=lambda name: (means[name], name))


def protocol(taken: Taken) -> str:
    """How a table came about."""
    facts = taken.facts
    design = "the authors' points" if facts.initial_design == "authors" else f"{facts.initial} random points"
    seed = "" if facts.seed == PAPER_PROTOCOL else f" -o repeats={facts.repeats} -o seed={facts.seed}"
    return (
        f"`fmnas run paper/{facts.problem}{seed}`: {facts.repeats} repeats, {facts.evaluations} evaluations in all, "
        f"from {design}. {', '.join(facts.days)}; {'; '.join(facts.versions)}; commit {', '.join(facts.commits)}."
        f"{with_options(taken)}{not_run(taken)}"
    )


def not_run(taken: Taken) -> str:
    """Which of the configuration's optimizers have not been run, if there are some."""
    planned = [entry.label for entry in load_config(f"paper/{taken.facts.problem}").optimizers]
    missing = [name for name in planned if name not in taken.facts.optimizers]
    return f" Not run: {', '.join(missing)}." if missing else ""


def with_options(taken: Taken) -> str:
    """The options of those that have some."""
    given = {name: {k: v for k, v in each.items() if k != "name"} for name, each in taken.facts.optimizers.items()}
    words = [
        f"{name} is {taken.facts.optimizers[name]['name']} with {', '.join(f'{k} = {v}' for k, v in options.items())}"
        for name, options in given.items()
        if options
    ]
    return f" {'; '.join(words)}." if words else ""


def table(taken: Taken, about: Mapping[str, Any]) -> str:
    """Ours by rank, then what was published of others alone."""
    theirs = about.get("rows", {}) if taken.facts.seed == PAPER_PROTOCOL else {}
    head = f"published ({about['source']})" if theirs else "published"
    lines = [f"| optimizer | here | lower than bo-fm | within 0.1% | seconds | {head} |", "|---|---|---|---|---|---|"]
    for name in ranked(taken):
        bests = taken.bests(name)
        told = [name, plus_minus(bests), ahead(taken, name), near(taken, name)]
        cells = [*told, number(taken.seconds(name), 2), printed(theirs.get(name))]
        lines.append("| " + " | ".join(cells) + " |")
    for name, pair in theirs.items():
        if name not in taken.facts.optimizers:
            lines.append(f"| {name} | {' | '.join([MISSING] * 4)} | {printed(pair)} |")
    return "\n".join(lines)


def plus_minus(values: "np.ndarray[Any, Any]") -> str:
    """The mean and its standard error, which is 0 where nothing but rounding tells the values apart."""
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    return f"{number(mean, 6)} ± 0" if error < ROUNDING * abs(mean) else with_error(mean, error)


def printed(pair: Sequence[str] | None) -> str:
    """A published mean and spread, digit by digit."""
    return " ± ".join(pair) if pair else MISSING


def ahead(taken: Taken, name: str) -> str:
    """In how many repeats it ended lower than BO-FM."""
    if name == "bo-fm" or "bo-fm" not in taken.facts.optimizers:
        return MISSING
    lower = taken.bests(name) < taken.bests("bo-fm")
    return f"{int(lower.sum())} of {len(lower)}"


def near(taken: Taken, name: str) -> str:
    """In how many repeats it came within NEAR of the minimum."""
    minimum, bests = minimum_of(taken.facts.problem), taken.bests(name)
    return f"{int((bests - minimum <= NEAR * abs(minimum)).sum())} of {len(bests)}" if minimum else MISSING


def figure(taken: Taken, path: Path) -> None:
    """Mean incumbents against evaluations; above the minimum, on a logarithmic axis, where that is known."""
    shown = [name for name in taken.facts.optimizers if not name.startswith("bo-fm-")]
    minimum = minimum_of(taken.facts.problem)
    look, drawn = styles(shown), sheet(PANEL[0] * 2.2, PANEL[1] * 1.6)
    axes, lines = drawn.subplots(), {name: mean_line(taken, name) for name in shown}
    for name, line in lines.items():
        _draw(axes, line - (minimum or 0.0), look[name])
    plain(axes)
    if minimum is not None:
        least = min(float((line - minimum).min()) for line in lines.values())
        top = max(float((line - minimum).max()) for line in lines.values())
        logarithmic(axes, max(least, top * 1e-8) / 1.5, top * 1.5)
    label(axes, "evaluations", "mean best objective" + ("" if minimum is None else ", above the minimum"))
    legend(drawn, look, {})
    drawn.savefig(path, dpi=DPI)


def _draw(axes: Any, line: "pd.Series[float]", style: Style) -> None:
    axes.step(
        line.index, line, where="post", color=style.colour, linestyle=style.line, linewidth=1.6, marker=style.marker,
        markevery=max(1, len(line) // 6), markersize=4.5,
    )  # fmt: skip


def mean_line(taken: Taken, name: str) -> "pd.Series[float]":
    """The mean over repeats of the best so far, from where all have the initial design."""
    rows = taken.curves[taken.curves["optimizer"] == name]
    grid = range(1, taken.facts.evaluations + 1)
    runs = rows.pivot_table(index="evaluation", columns="repeat", values="best").reindex(grid).ffill()
    return runs.mean(axis=1).loc[max(1, taken.facts.initial) :]


def minimum_of(name: str) -> float | None:
    """Of a problem that has no data, if it is known."""
    found = PROBLEMS[name].found
    return found.minimum if isinstance(found, Problem) else None
