"""The page of a report: one self-contained file, for screen, phone and paper. No scripts, nothing is fetched.

This file has the tables and facts of every section, sections.html.j2 their texts and markup, page.html.j2 the document
around them, page.css the style, with the colours of `figures.palette`. The templates escape every text.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from fmnas.comparison.analysis.formatting import format_number, is_missing
from fmnas.comparison.analysis.paired_tests import ALL, LEVEL, TOO_FEW, Comparisons
from fmnas.comparison.analysis.resampling import coverage_warning
from fmnas.comparison.analysis.retrained import reduced_settings
from fmnas.comparison.analysis.verdict import describe_power
from fmnas.comparison.figures.canvas import Drawing
from fmnas.comparison.figures.files import inline_svg
from fmnas.comparison.figures.palette import Style, css_declarations, css_variables, styles
from fmnas.comparison.page import tables
from fmnas.comparison.summary import ReportContext, Summary

SAMPLE_WIDTH, SAMPLE_HEIGHT, MARKER_SIZE = 42, 14, 9.0
"""Of a sample in the legend, in SVG units."""

Facts = Mapping[str, object]
"""What a section shows in addition to the summary and the context, by name: tables and texts."""


@dataclass(frozen=True)
class Section:
    """A part of the page.

    id: the anchor; and the name of the section's macro in the template, if it has one.
    is_folded: whether it is closed at first.
    """

    id: str
    title: str
    is_folded: bool
    facts: Facts
    pictures: Sequence[Drawing]


def render_page(summary: Summary, context: ReportContext, drawings: Iterable[Drawing]) -> str:
    """The report as an HTML document, with the drawings that are for the page."""
    pictures = [drawing for drawing in drawings if drawing.is_on_page]
    return _template("page.html.j2").render(
        summary=summary,
        context=context,
        light=css_declarations(dark=False),
        dark=css_declarations(dark=True),
        lead=[picture for picture in pictures if picture.is_lead],
        sections=sections(summary, context, [picture for picture in pictures if not picture.is_lead]),
        svg=_svg,
        looks=styles(summary.optimizers),
        colours=css_variables(),
        sample=(SAMPLE_WIDTH, SAMPLE_HEIGHT),
        marker=_marker_path,
    )


def render_problems_page(values: Mapping[str, object]) -> str:
    """The report over several problems as an HTML document. values: what the template shows, by name."""
    colours = {"light": css_declarations(dark=False), "dark": css_declarations(dark=True)}
    return _template("across_problems.html.j2").render(**values, **colours, svg=_svg)


def sections(summary: Summary, context: ReportContext, drawings: Sequence[Drawing]) -> list[Section]:
    """The sections with any content, in the order of the page; those with details are folded."""
    pictures: dict[str, list[Drawing]] = {}
    for drawing in drawings:
        pictures.setdefault(drawing.section, []).append(drawing)
    best = "Best cell" if len(summary.optimizers) == 1 else "Best cell of each optimizer"
    steps = ", ".join(f"{point.share:.0%}" for point in summary.checkpoints)
    cost, checks = summary.budget.format_cost(summary.compared_at), tables.sanity_checks(summary)
    no_power = all(pair.verdict == TOO_FEW for pair in summary.tests.pairs)
    tests = _tests(summary.tests) if summary.tests.most_repeats > 1 else {}
    remarks = [remark.text for remark in summary.remarks if remark.optimizer]
    setup = {"sentences": context.setup, "settings": tables.settings(context.settings), "remarks": remarks}
    reproduce = {"environment": tables.environment(context.environment), "configuration": context.config_text}
    warnings = [f"{row.optimizer}: {text}" for row in summary.sanity_checks for text in row.warnings]
    tradeoff = "Both objectives" if summary.hypervolumes else "Error against FLOPs"
    all_sections: list[tuple[str, str, bool, Facts | None]] = [
        ("result", "Result", False, {"table": tables.results_by_repeat(summary)}),
        ("setup", "Setup", False, setup),
        ("statistics", "Pairwise tests", no_power, tests),
        ("retrained", "Test errors of the retrained configurations", False, _retraining(summary, context)),
        ("tradeoff", tradeoff, False, _hypervolumes(summary)),
        ("learning", "Learning curves of the best configurations", True, None),
        ("cells", best, False, {"found": _best_cells(summary, pictures.get("cells", ()))}),
        ("curves", "Anytime performance", True, None),
        ("checkpoints", f"Results at {steps} of {cost}", True, _checkpoints(summary)),
        ("targets", "Evaluations to reach a target", True, {"table": tables.targets(summary)}),
        ("spent", "Cost of every run", True, {"table": tables.ledger(summary)}),
        ("sanity_checks", "Sanity checks", not warnings, {"table": checks, "warnings": warnings}),
        ("incidents", "Failures and notes", False, {"table": tables.incidents(summary)}),
        ("configurations", "Best configurations", True, {"table": tables.configurations(summary)}),
        ("reproduce", "Reproduce", True, reproduce),
    ]
    return [
        Section(id_, title, is_folded, facts or {}, pictures.get(id_, ()))
        for id_, title, is_folded, facts in all_sections
        if any(pictures.get(id_, ()) if facts is None else facts.values())
    ]


@cache
def _template(name: str) -> Template:
    """A template of this folder. An unknown name raises; every text is escaped."""
    folder = FileSystemLoader(Path(__file__).parent)
    environment = Environment(
        loader=folder, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.get_template(name)


def _svg(drawing: Drawing) -> str:
    """The figure as SVG; a wide one never shrinks, but scrolls."""
    least = 1.0 if drawing.is_wide else 0.0
    return inline_svg(drawing.figure, drawing.name, drawing.name.replace("_", " "), least)


def _marker_path(style: Style) -> str:
    """matplotlib's marker in the middle of a sample, as an SVG path."""
    from matplotlib.markers import MarkerStyle

    marker, paths = MarkerStyle(style.marker), []
    for shape in marker.get_path().transformed(marker.get_transform()).to_polygons():
        corners = np.array([SAMPLE_WIDTH / 2, SAMPLE_HEIGHT / 2]) + np.array([MARKER_SIZE, -MARKER_SIZE]) * shape
        paths.append(f"M{'L'.join(f'{x:.1f} {y:.1f}' for x, y in corners)}Z")
    return "".join(paths)


def _tests(tests: Comparisons) -> Facts:
    """The paired tests, their hypotheses and power."""
    if not tests.pairs:
        return {}
    name = tests.hypotheses
    return {
        "table": tables.pairs(tests),
        "power": describe_power(tests),
        "family": "all pairs" if name == ALL else f"{name} against each of the others (hypotheses: {name})",
        "pairs": len(tests.pairs),
        "level": f"{LEVEL:.0%}",
    }


def _retraining(summary: Summary, context: ReportContext) -> Facts:
    """The retrained configurations, and the settings in which the retraining had less than the search."""
    retrained = summary.retrained
    if retrained is None:
        return {}
    return {
        "means": tables.retrained_means(retrained),
        "rows": tables.retrained_rows(retrained),
        "tests": _tests(retrained.tests),
        "reduced": reduced_settings(retrained, context.full_training),
    }


def _hypervolumes(summary: Summary) -> Facts | None:
    """The hypervolumes, their reference point and tests; None for a problem with one objective."""
    volumes = summary.hypervolumes
    if volumes is None:
        return None
    return {
        "table": tables.hypervolumes(volumes),
        "reference": ", ".join(f"{name} = {value:g}" for name, value in volumes.reference.items()),
        "tests": _tests(volumes.tests) if volumes.tests.most_repeats > 1 else {},
    }


def _best_cells(summary: Summary, pictures: Sequence[Drawing]) -> dict[str, str]:
    """Where the best cell of an optimizer was found, for each optimizer with pictures of it."""
    drawn = {picture.optimizer for picture in pictures}
    places = {}
    for name, row in summary.optimizers.items():
        if name in drawn:
            error = "" if is_missing(row.best_error) else f", validation error {format_number(row.best_error)}"
            places[name] = f"{row.found_in}: objective {format_number(row.best)}{error}"
    return places


def _checkpoints(summary: Summary) -> Facts:
    """The checkpoints, their shares in evaluations, and a warning for intervals over few repeats."""
    points = summary.checkpoints
    return {
        "table": tables.checkpoints(summary),
        "spent": ", ".join(f"{point.share:.0%} = {summary.budget.format_cost(point.epochs)}" for point in points),
        "warning": coverage_warning(*(len(row.values) for point in points[-1:] for row in point.rows)),
    }
