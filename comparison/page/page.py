"""The page of a report: one self-contained file, for screen, phone and paper. No scripts, nothing fetched.

Here are the facts of every section. sections.html.j2 has the words and the markup of each, page.html.j2 the document
around them, both escape every text; page.css has the looks, whose colours are those of `figures.palette`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from fmnas.comparison.analysis.checkpoints import Checkpoint
from fmnas.comparison.analysis.efficiency import AREA_FROM
from fmnas.comparison.analysis.formatting import count, is_missing, listed, number
from fmnas.comparison.analysis.paired_tests import ALL, LEVEL, TOO_FEW, Comparisons
from fmnas.comparison.analysis.resampling import shortcoming
from fmnas.comparison.analysis.retrained import shortfalls
from fmnas.comparison.analysis.verdict import power
from fmnas.comparison.figures.canvas import Drawing
from fmnas.comparison.figures.files import inline_svg
from fmnas.comparison.figures.palette import Style, declarations, styles, variables
from fmnas.comparison.page import tables
from fmnas.comparison.summary import ReportContext, Summary

SAMPLE_WIDTH, SAMPLE_HEIGHT, MARKER_SIZE = 42, 14, 9.0
"""Of a sample in the legend, in its own units."""
MOST_NAMED_OPTIMIZERS = 6
"""More optimizers are counted, not named, in the question."""
MANY_PAIRS = 15
"""Of more pairs the reader is told how to ask for fewer."""
FEWER = (
    "So many pairs take many repeats. With `hypotheses: NAME` in the configuration, chosen before any result is known, "
    "one optimizer is tested against each of the others and p corrected for these alone."
)


Facts = Mapping[str, object]
"""What a section tells beside the summary and the context, by name: tables and texts. One without any is left out."""


@dataclass(frozen=True)
class Section:
    """A part of the page.

    id: what links lead to; and the macro of the template that writes the section, if it has one.
    folded: shown only when the reader opens it.
    """

    id: str
    title: str
    folded: bool
    facts: Facts
    pictures: Sequence[Drawing]


def page(summary: Summary, context: ReportContext, drawings: Iterable[Drawing]) -> str:
    """The report as an HTML document, with those of the drawings that it shows."""
    shown = [each for each in drawings if each.shown]
    return _template().render(
        summary=summary,
        context=context,
        question=_question(summary),
        light=declarations(dark=False),
        dark=declarations(dark=True),
        area_from=f"{AREA_FROM:g}",
        lead=[each for each in shown if each.leads],
        sections=sections(summary, context, [each for each in shown if not each.leads]),
        svg=_svg,
        look=styles(summary.optimizers),
        colours=variables(),
        sample=(SAMPLE_WIDTH, SAMPLE_HEIGHT),
        marker=_marker,
    )


def sections(summary: Summary, context: ReportContext, drawings: Sequence[Drawing]) -> list[Section]:
    """Those that have something to show, in the order of the page; what few will read is folded."""
    pictures: dict[str, list[Drawing]] = {}
    for each in drawings:
        pictures.setdefault(each.section, []).append(each)
    best = "Best cell" if len(summary.optimizers) == 1 else "Best cell of each optimizer"
    steps = ", ".join(f"{step.share:.0%}" for step in summary.checkpoints)
    untold = all(pair.verdict == TOO_FEW for pair in summary.tests.pairs)
    tested = _tested(summary.tests) if summary.tests.most_repeats > 1 else {}
    speed = {"area": tables.areas(summary), "targets": tables.targets(summary), "matched": tables.equivalents(summary)}
    remarks = [remark.text for remark in summary.remarks if remark.optimizer]
    setup = {"sentences": context.setup, "settings": tables.settings(context.settings), "remarks": remarks}
    again = {"environment": tables.environment(context.environment), "configuration": context.config_text}
    warnings = [f"{row.optimizer}: {text}" for row in summary.honesty for text in row.warnings]
    given: list[tuple[str, str, bool, Facts | None]] = [
        ("result", "Result", False, {"table": tables.final_with_repeats(summary)}),
        ("setup", "What was measured", False, setup),
        ("statistics", "Pairwise tests", untold, tested),
        ("retrained", "Test errors of the best, trained again", False, _again(summary, context)),
        ("tradeoff", "Error against FLOPs", False, {"table": tables.tradeoffs(summary)}),
        ("learning", "Learning curves of the best", True, None),
        ("cells", best, False, {"found": _best_cells(summary, pictures.get("cells", ()))}),
        ("curves", "Anytime performance", True, None),
        ("checkpoints", f"Results at {steps} of the budget", True, _shares(summary)),
        ("speed", "Evaluations to match", True, speed),
        ("variables", "Influence of the variables", True, None),
        ("timeline", "Worker timeline", True, None),
        ("spent", "Cost of every run", True, {"table": tables.ledger(summary)}),
        ("honesty", "Sanity checks", not warnings, {"table": tables.honesty(summary), "warnings": warnings}),
        ("incidents", "Failures and notes", False, {"table": tables.incidents(summary)}),
        ("configurations", "Best configurations", True, {"table": tables.configurations(summary)}),
        ("reproduce", "Reproduce", True, again),
    ]
    return [
        Section(id_, title, folded, facts or {}, pictures.get(id_, ()))
        for id_, title, folded, facts in given
        if any(pictures.get(id_, ()) if facts is None else facts.values())
    ]


def _question(summary: Summary) -> str:
    """What the experiment asks."""
    budget, names = summary.budget, list(summary.optimizers)
    epochs = budget.epochs_per_evaluation
    cost = f"{budget.evaluations} evaluations" + ("" if epochs == 1 else f" of {epochs} epochs")
    if len(names) < 2:
        return f"What is found on {summary.problem} within {cost}?"
    who = listed(names, "or") if len(names) <= MOST_NAMED_OPTIMIZERS else f"{len(names)} optimizers"
    return f"Which finds the lowest objective on {summary.problem} within {cost}: {who}?"


@cache
def _template() -> Template:
    """The template of the page. A name that it does not know raises; every text in it is escaped."""
    folder = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template("page.html.j2")


def _svg(drawing: Drawing) -> str:
    """The figure as the page holds it; a wide one is never narrower than it is, and scrolls."""
    least = 1.0 if drawing.wide else 0.0
    return inline_svg(drawing.figure, drawing.name, drawing.name.replace("_", " "), least)


def _marker(style: Style) -> str:
    """matplotlib's marker in the middle of a sample, as an SVG path."""
    from matplotlib.markers import MarkerStyle

    drawn, paths = MarkerStyle(style.marker), []
    for shape in drawn.get_path().transformed(drawn.get_transform()).to_polygons():
        corners = np.array([SAMPLE_WIDTH / 2, SAMPLE_HEIGHT / 2]) + np.array([MARKER_SIZE, -MARKER_SIZE]) * shape
        paths.append(f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in corners)}Z")
    return "".join(paths)


def _tested(tests: Comparisons) -> Facts:
    """Paired tests of the hypotheses `family`, what so many repeats can show at all, and how to test fewer."""
    if not tests.pairs:
        return {}
    one = tests.hypotheses
    return {
        "table": tables.pairs(tests),
        "power": power(tests),
        "family": "all pairs" if one == ALL else f"{one} against each of the others, as `hypotheses: {one}` has it",
        "pairs": len(tests.pairs),
        "level": f"{LEVEL:.0%}",
        "fewer": FEWER if one == ALL and len(tests.pairs) > MANY_PAIRS else "",
    }


def _again(summary: Summary, context: ReportContext) -> Facts:
    """The configurations trained anew, and in what these trainings had less than the search's."""
    found = summary.retrained
    if found is None:
        return {}
    return {
        "means": tables.retrained_means(found),
        "rows": tables.retrained_rows(found),
        "tested": _tested(found.tests),
        "less": shortfalls(context.retrained, context.searched),
    }


def _best_cells(summary: Summary, pictures: Sequence[Drawing]) -> dict[str, str]:
    """Where the best cell of an optimizer was found, for each that has pictures of it."""
    drawn, found = {picture.optimizer for picture in pictures}, {}
    for name, row in summary.optimizers.items():
        if name in drawn:
            error = "" if is_missing(row.best_error) else f", validation error {number(row.best_error)}"
            found[name] = f"{row.found_in}: objective {number(row.best)}{error}"
    return found


def _shares(summary: Summary) -> Facts:
    """The checkpoints; what their shares are in evaluations; the shortcoming of intervals over few repeats."""
    steps = summary.checkpoints
    return {
        "table": tables.checkpoints(summary),
        "spent": ", ".join(map(_spent, steps)),
        "short": shortcoming(*(len(row.values) for step in steps[-1:] for row in step.rows)),
    }


def _spent(step: Checkpoint) -> str:
    """What a checkpoint is in evaluations, and in whole epochs where these are no whole evaluations."""
    part = "" if step.evaluations == int(step.evaluations) else f" ({step.epochs} whole epochs)"
    return f"{step.share:.0%} are {count(step.evaluations)} evaluations{part}"
