"""docs/results.md and its figures: each problem's own table beside the published one. See paper_tables.py."""

from collections.abc import Collection, Mapping, Sequence
from functools import cache
from pathlib import Path
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd
from paper_kernels import has_all_kernels, kernel_overview
from paper_overall import draw_overall, overall_table
from paper_published import published_overview, seconds_overview
from paper_tables import Competitor, Taken

from fmnas.comparison.analysis.formatting import MISSING, format_number, format_share, format_with_error
from fmnas.comparison.figures.canvas import PANEL_SIZE, add_legend, new_figure, set_labels, set_log_scale, style_axes
from fmnas.comparison.figures.palette import Style, styles
from fmnas.platform.config.load import load_config
from fmnas.platform.config.schema import Config
from fmnas.platform.problems import PROBLEMS
from fmnas.trainers.functions.synthetic import PUBLISHED_NOISE
from fmnas.trainers.problem import Problem

DATA = Path(__file__).resolve().parent / "data"
DPI = 100
WIDTH = 120
ROUNDING = 1e-12
PAPER_PROTOCOL = 0
"""The seed of the runs that repeat a paper's protocol."""
TUNED_ON = ("func2c", "func3c", "ackley5c")
"""Problems on whose points of seeds 0 to 59, by the authors' recipe, the constants of bo-fm's default were chosen."""
TWO_COLUMNS = 200
"""A table of this number of evaluations has a column at half of them, too."""
NOISY = ("func2c", "func3c", "ackley5c", "ackley53c", "ackley53c_gebo")
"""Problems whose objective has PUBLISHED_NOISE added."""
NEAR = 1e-3
"""By which share of its size a repeat may miss the minimum and count as near."""


def write_page(all_taken: Sequence[Taken], published: Mapping[str, Any], docs: Path) -> None:
    """Write docs/results.md and docs/results/NAME.png."""
    (docs / "results").mkdir(parents=True, exist_ok=True)
    for taken in all_taken:
        figure(taken, docs / picture_of(taken))
    draw_overall(all_taken, docs / "results", DPI)
    (docs / "results.md").write_text(page(all_taken, published))


def page(all_taken: Sequence[Taken], published: Mapping[str, Any]) -> str:
    """The text of docs/results.md."""
    names = ("introduction", "overall", "overall_figures", "kernels", "published_rows", "seconds")
    introduction, before, after, of_all, rows, seconds_text = (
        (DATA / f"results_{name}.md").read_text() for name in names
    )
    parts = [introduction, overview(all_taken)]
    parts += [before, overall, after] if (overall := overall_table(all_taken)) else []
    if sum(map(has_all_kernels, all_taken)) > 1:
        parts += [of_all, kernel_overview(all_taken)]
    if overviews := published_overview(all_taken, published):
        parts += [rows, overviews]
    if seconds := seconds_overview(all_taken, published):
        parts += [seconds_text, seconds]
    problems = [name for name in PROBLEMS if any(taken.facts.problem == name for taken in all_taken)]
    for problem in problems:
        about = published.get(problem, {})
        parts.append(f"## {problem}\n\n{PROBLEMS[problem].summary[0].upper()}{PROBLEMS[problem].summary[1:]}.")
        parts += [paragraph(about["note"])] if "note" in about else []
        for taken in (one for one in all_taken if one.facts.problem == problem):
            parts += [paragraph(protocol(taken) + mismatch(taken, about)), table(taken, about, competing(taken, about))]
            kernels = of_kernels(taken, about)
            parts += ["bo-fm's kernels:", table(taken, about, ["bo-fm", *kernels])] if kernels else []
            parts += [paragraph(f"[{i}] {text}") for i, text in enumerate(footnotes(taken), start=1)]
            parts.append(f"![{problem}]({picture_of(taken)})")
    return "\n\n".join(part.strip() for part in parts) + "\n"


def picture_of(taken: Taken) -> str:
    """The path of a table's figure, from docs."""
    name, seed = taken.facts.problem, taken.facts.seed
    return f"results/{name}.png" if seed == PAPER_PROTOCOL else f"results/{name}-{seed}.png"


@cache
def load_shipped(problem: str) -> Config:
    """The configuration paper/PROBLEM."""
    return load_config(f"paper/{problem}")


def paragraph(text: str) -> str:
    """The text in lines."""
    return fill(text, WIDTH, break_on_hyphens=False, break_long_words=False)


def overview(all_taken: Sequence[Taken]) -> str:
    """Who is first on each problem, in one table, with what a reader must know of bo-fm's place."""
    lines = [
        "| problem | repeats | evaluations | lowest mean | bo-fm's place | of | lowest at 100 | about bo-fm |",
        "|---" * 8 + "|",
    ]
    for taken in all_taken:
        facts, order = taken.facts, full_length(taken)
        at_100 = [name for name in competing(taken, {}) if facts.evaluations_of(name) >= 100]
        place, about = MISSING, []
        if "bo-fm" in order:
            place = "1" if "bo-fm" in first(taken, order) else str(order.index("bo-fm") + 1)
            about += ["its constants were chosen on these points"] if is_tuned(taken) else []
            about += ["an earlier default"] if facts.optimizers["bo-fm"].superseded else []
        cells = [
            name_of(taken),
            facts.repeats,
            facts.evaluations,
            ", ".join(first(taken, order)),
            place,
            len(order),
            ", ".join(first(taken, at_100, 100)) or MISSING,
            "; ".join(about) or MISSING,
        ]
        lines.append(f"| {' | '.join(map(str, cells))} |")
    return "\n".join(lines)


def is_tuned(taken: Taken) -> bool:
    """Whether the constants of bo-fm's default were chosen on these initial points."""
    return taken.facts.problem in TUNED_ON and taken.facts.seed == PAPER_PROTOCOL


def first(taken: Taken, names: Collection[str], evaluation: int | None = None) -> list[str]:
    """Those with the lowest mean after `evaluation` or all evaluations; several where they differ by rounding alone."""
    means = {name: float(taken.bests(name, evaluation).mean()) for name in names}
    least = min(means.values(), default=0.0)
    return [name for name, mean in means.items() if mean - least <= ROUNDING * abs(least)]


def name_of(taken: Taken) -> str:
    """A problem, and that its repeats are not the paper's."""
    return taken.facts.problem + ("" if taken.facts.seed == PAPER_PROTOCOL else f", seed {taken.facts.seed}")


def full_length(taken: Taken) -> list[str]:
    """The competing optimizers that have all of the table's evaluations, the lowest mean first."""
    order = rank_optimizers(taken, competing(taken, {}))
    return [name for name in order if taken.facts.evaluations_of(name) == taken.facts.evaluations]


def rank_optimizers(taken: Taken, labels: Collection[str]) -> list[str]:
    """Those that were run: the longest runs first, and of these the lowest mean."""
    means = {name: float(taken.bests(name).mean()) for name in taken.facts.optimizers if name in labels}
    return sorted(means, key=lambda name: (-taken.facts.evaluations_of(name), means[name], name))


def of_kernels(taken: Taken, about: Mapping[str, Any]) -> list[str]:
    """Labels of bo-fm's other kernels that were run or published."""
    entries = load_shipped(taken.facts.problem).optimizers
    known = {*taken.facts.optimizers, *about.get("rows", {})}
    return [entry.label for entry in entries if "kernel" in entry.options and entry.label in known]


def competing(taken: Taken, about: Mapping[str, Any]) -> list[str]:
    """Labels of all others that were run or published."""
    kernels = of_kernels(taken, about)
    return [label for label in dict.fromkeys([*taken.facts.optimizers, *about.get("rows", {})]) if label not in kernels]


def protocol(taken: Taken) -> str:
    """How a table came about."""
    facts = taken.facts
    config = load_shipped(facts.problem)
    recorded = {"repeats": facts.repeats, "seed": facts.seed, "budget.evaluations": facts.evaluations}
    plain = (config.repeats, config.seed, config.budget.evaluations)
    changed = [f" -o {k}={v}" for (k, v), usual in zip(recorded.items(), plain, strict=True) if v != usual]
    design = f"{facts.initial} random points"
    if facts.initial_design == "authors":
        fresh = facts.seed != PAPER_PROTOCOL
        design = f"{facts.initial} points by the authors' recipe" if fresh else "the authors' points"
    flattering = " bo-fm's constants were chosen on these points: the table flatters it." * is_tuned(taken)
    return (
        f"`fmnas run paper/{facts.problem}{''.join(changed)}`: {facts.repeats} repeats, "
        f"{facts.evaluations} evaluations in all, from {design}. {', '.join(facts.days)}; {'; '.join(facts.versions)}; "
        f"commit {', '.join(facts.commits)}.{flattering}{with_options(taken)}{shorter(taken)}{not_run(taken)}"
    )


def shorter(taken: Taken) -> str:
    """Which optimizers have fewer evaluations, if some have."""
    facts = taken.facts
    counts = sorted({facts.evaluations_of(name) for name in facts.optimizers} - {facts.evaluations})
    words = [
        f" Of {count} evaluations (-o budget.evaluations={count}): "
        f"{', '.join(name for name in facts.optimizers if facts.evaluations_of(name) == count)}."
        for count in counts
    ]
    return "".join(words)


def mismatch(taken: Taken, about: Mapping[str, Any]) -> str:
    """That the published rows are of another number of evaluations, if they are."""
    theirs, ours = about.get("evaluations"), taken.facts.evaluations
    if theirs in (None, ours):
        return ""
    return f" The published rows are of {theirs} evaluations and this table is of {ours}: do not compare them."


def not_run(taken: Taken) -> str:
    """Which of the configuration's optimizers have not been run, if there are some."""
    planned = [entry.label for entry in load_shipped(taken.facts.problem).optimizers]
    missing = [name for name in planned if name not in taken.facts.optimizers]
    if not of_kernels(taken, {}):
        kernels = of_kernels(taken, {"rows": planned})
        missing = [name for name in missing if name not in kernels] + ["bo-fm's other kernels"]
    return f" Not run: {', '.join(missing)}." if missing else ""


def with_options(taken: Taken) -> str:
    """The options of those that have some."""
    words = [
        f"{label} is {one.name} with {', '.join(f'{k} = {v}' for k, v in one.options.items())}"
        for label, one in taken.facts.optimizers.items()
        if one.options
    ]
    return f" {'; '.join(words)}." if words else ""


def remarks(competitor: Competitor) -> list[str]:
    """Sentences: what a reader must know of an optimizer of a table."""
    texts = []
    if competitor.superseded:
        commits = ", ".join(competitor.commits)
        texts.append(f"{competitor.name} as of commit {commits}, whose default differed: {competitor.superseded}")
    if competitor.by_method == 0:
        texts.append("Neither a model nor a mutation chose any of its trials: this row is random search.")
    if competitor.caveat:
        texts.append(f"It {competitor.caveat}")
    return texts


def footnotes(taken: Taken) -> list[str]:
    """All remarks on a table, in the order of its rows, each once."""
    return list(
        dict.fromkeys(
            text
            for name in rank_optimizers(taken, taken.facts.optimizers)
            for text in remarks(taken.facts.optimizers[name])
        )
    )


def table(taken: Taken, about: Mapping[str, Any], labels: Collection[str]) -> str:
    """Of these labels ours by rank, then what was published of others alone."""
    theirs, notes, end = about.get("rows", {}), footnotes(taken), taken.facts.evaluations
    moments = (end // 2, end) if end == TWO_COLUMNS else (end,)
    budget = f", at {about['evaluations']}" if "evaluations" in about else ""
    head = f"published ({about['source']}){budget}" if theirs else "published"
    columns = ["optimizer", *(f"at {moment}" for moment in moments), "lower than bo-fm", "within 0.1%", "by method"]
    columns += ["seconds", head]
    lines = [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    for name in rank_optimizers(taken, labels):
        competitor = taken.facts.optimizers[name]
        marks = ", ".join(str(notes.index(text) + 1) for text in remarks(competitor))
        reached = taken.facts.evaluations_of(name)
        values = [plus_minus(taken.bests(name, at)) if at <= reached else MISSING for at in moments]
        cells = [f"{name} [{marks}]" if marks else name, *values, ahead(taken, name), near(taken, name)]
        cells += [
            format_share(competitor.by_method),
            format_number(taken.seconds(name), 2),
            format_published(theirs.get(name)),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    for name, pair in theirs.items():
        if name in labels and name not in taken.facts.optimizers:
            lines.append(f"| {name} | {' | '.join([MISSING] * (len(columns) - 2))} | {format_published(pair)} |")
    return "\n".join(lines)


def plus_minus(values: "np.ndarray[Any, Any]") -> str:
    """The mean and its standard error, which is 0 where nothing but rounding tells the values apart."""
    mean, error = float(values.mean()), float(values.std(ddof=1) / np.sqrt(len(values)))
    return f"{format_number(mean, 6)} ± 0" if error < ROUNDING * abs(mean) else format_with_error(mean, error)


def format_published(pair: Sequence[str] | None) -> str:
    """A published mean and spread, digit by digit."""
    return " ± ".join(pair) if pair else MISSING


def ahead(taken: Taken, name: str) -> str:
    """In how many repeats it ended lower than BO-FM was at that number of evaluations, by more than published noise."""
    if name == "bo-fm" or "bo-fm" not in taken.facts.optimizers:
        return MISSING
    then = min(taken.facts.evaluations_of(name), taken.facts.evaluations_of("bo-fm"))
    noise = PUBLISHED_NOISE if taken.facts.problem in NOISY else 0.0
    lower = taken.bests(name, then) < taken.bests("bo-fm", then) - noise
    return f"{int(lower.sum())} of {len(lower)}"


def near(taken: Taken, name: str) -> str:
    """In how many repeats it came within NEAR of the minimum."""
    minimum, bests = minimum_of(taken.facts.problem), taken.bests(name)
    return f"{int((bests - minimum <= NEAR * abs(minimum)).sum())} of {len(bests)}" if minimum else MISSING


def figure(taken: Taken, path: Path) -> None:
    """Mean incumbents against evaluations; above the minimum, on a logarithmic axis, where that is known."""
    shown = [name for name, one in taken.facts.optimizers.items() if "kernel" not in one.options]
    minimum = minimum_of(taken.facts.problem)
    look, drawn = styles(shown), new_figure(PANEL_SIZE[0] * 2.2, PANEL_SIZE[1] * 1.6)
    axes, lines = drawn.subplots(), {name: mean_line(taken, name) for name in shown}
    for name, line in lines.items():
        _draw(axes, line - (minimum or 0.0), look[name])
    style_axes(axes)
    if minimum is not None:
        least = min(float((line - minimum).min()) for line in lines.values())
        top = max(float((line - minimum).max()) for line in lines.values())
        set_log_scale(axes, max(least, top * 1e-8) / 1.5, top * 1.5)
    set_labels(axes, "evaluations", "mean best objective" + ("" if minimum is None else ", above the minimum"))
    add_legend(drawn, look)
    drawn.savefig(path, dpi=DPI)


def _draw(axes: Any, line: "pd.Series[float]", style: Style) -> None:
    axes.step(
        line.index, line, where="post", color=style.colour, linestyle=style.line, linewidth=1.6, marker=style.marker,
        markevery=max(1, len(line) // 6), markersize=4.5,
    )  # fmt: skip


def mean_line(taken: Taken, name: str) -> "pd.Series[float]":
    """The mean over repeats of the best so far, from where all have the initial design."""
    rows = taken.curves[taken.curves["optimizer"] == name]
    grid = range(1, taken.facts.evaluations_of(name) + 1)
    runs = rows.pivot_table(index="evaluation", columns="repeat", values="best").reindex(grid).ffill()
    return runs.mean(axis=1).loc[max(1, taken.facts.initial) :]


def minimum_of(name: str) -> float | None:
    """Of a problem that has no data, if it is known."""
    results = PROBLEMS[name].target
    return results.minimum if isinstance(results, Problem) else None
