"""The page of a report: one self-contained file, for screen, phone and paper. No scripts, nothing fetched.

Here are the facts of every section. sections.html.j2 has the words and the markup of each, page.html.j2 the document
around them, both escape every text; page.css has the looks, whose colours are those of `figures.palette`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template

from fmnas.comparison.figures.palette import Style, declarations, styles, variables
from fmnas.comparison.numbers.efficiency import AREA_FROM
from fmnas.comparison.numbers.notation import count, is_missing, listed, number
from fmnas.comparison.numbers.paired_tests import ALL, LEVEL, TOO_FEW, Comparisons
from fmnas.comparison.numbers.resampling import shortcoming
from fmnas.comparison.numbers.retrained import Retrained, shortfalls
from fmnas.comparison.numbers.verdict import power
from fmnas.comparison.page import tables
from fmnas.comparison.page.tables import Table
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


@dataclass(frozen=True)
class Picture:
    """A figure as the page holds it.

    svg: an <svg> element, which goes in as it is. caption: plain text. wide: it needs the whole width; others stand
    beside one another where there is room. optimizer: the one that it is about; "" for all.
    """

    svg: str
    caption: str = ""
    wide: bool = False
    optimizer: str = ""


Pictures = Mapping[str, Sequence[Picture]]
"""The pictures of each section, by the section's id; LEAD has those of the answer."""
LEAD = "lead"


@dataclass(frozen=True)
class Section:
    """A part of the page.

    id: what links lead to; and the macro of the template that writes the section from its facts and pictures.
    facts: one of the records below, a table or a text; None where there is nothing to show.
    folded: shown only when the reader opens it.
    """

    id: str
    title: str
    facts: object
    pictures: Sequence[Picture] = ()
    folded: bool = False


@dataclass(frozen=True)
class Setup:
    """What was measured, in sentences; each optimizer's options; remarks: on single optimizers."""

    sentences: tuple[str, ...]
    settings: Table
    remarks: tuple[str, ...]


@dataclass(frozen=True)
class Sample:
    """An optimizer's look in the legend: colour as a CSS variable, dashes and marker as SVG has them."""

    name: str
    colour: str
    dashes: str
    marker: str


@dataclass(frozen=True)
class Result:
    """The final table, under the legend of the figures above it."""

    table: Table
    legend: tuple[Sample, ...]


@dataclass(frozen=True)
class Shares:
    """The checkpoints; spent: what their shares are in evaluations; short: of intervals over few repeats."""

    table: Table
    spent: str
    short: str


@dataclass(frozen=True)
class Tested:
    """Paired tests of the hypotheses `family`, what so many repeats can show at all, and how to test fewer."""

    table: Table
    power: str
    family: str
    pairs: int
    level: str
    fewer: str


@dataclass(frozen=True)
class Speed:
    """How soon; a table is None where it has nothing to tell."""

    area: Table | None
    targets: Table | None
    equivalents: Table | None


@dataclass(frozen=True)
class Again:
    """The configurations trained anew, with their tables; tested: None where nothing is compared.

    less: in what these trainings had less than the search's.
    """

    found: Retrained
    less: tuple[str, ...]
    means: Table
    tested: Tested | None
    rows: Table


@dataclass(frozen=True)
class BestCell:
    """Where an optimizer's best cell was found, and its pictures."""

    optimizer: str
    found: str
    pictures: tuple[Picture, ...]


@dataclass(frozen=True)
class Reproduction:
    """What it takes to do it again: the configuration, the environment, and the files of numbers beside the page."""

    environment: Table
    configuration: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Honest:
    """Whether each optimizer did what its name says, with the warnings first."""

    table: Table
    warnings: tuple[str, ...]


def page(summary: Summary, context: ReportContext, pictures: Pictures) -> str:
    """The report as an HTML document."""
    shown = sections(summary, context, pictures)
    return _template().render(
        summary=summary,
        question=_question(summary),
        light=declarations(dark=False),
        dark=declarations(dark=True),
        sample=(SAMPLE_WIDTH, SAMPLE_HEIGHT),
        area_from=f"{AREA_FROM:g}",
        lead=pictures.get(LEAD, ()),
        sections=shown,
    )


def sections(summary: Summary, context: ReportContext, pictures: Pictures) -> list[Section]:
    """Those that have something to show, in the order of the page; what few will read is folded."""
    best = "Best cell" if len(summary.optimizers) == 1 else "Best cell of each optimizer"
    steps = ", ".join(f"{step.share:.0%}" for step in summary.checkpoints)
    warned = any(row.warnings for row in summary.honesty)
    untold = all(pair.verdict == TOO_FEW for pair in summary.tests.pairs)
    given: list[tuple[str, str, object, bool]] = [
        ("result", "Result", _result(summary), False),
        ("setup", "What was measured", _setup(summary, context), False),
        ("statistics", "Pairwise tests", _tested(summary.tests) if summary.tests.most_repeats > 1 else None, untold),
        ("retrained", "Test errors of the best, trained again", _again(summary, context), False),
        ("tradeoff", "Error against FLOPs", tables.tradeoffs(summary) or None, False),
        ("learning", "Learning curves of the best", pictures.get("learning") or None, True),
        ("cells", best, _best_cells(summary, pictures.get("cells", ())) or None, False),
        ("curves", "Anytime performance", pictures.get("curves") or None, True),
        ("checkpoints", f"Results at {steps} of the budget", _shares(summary), True),
        ("speed", "Evaluations to match", _speed(summary), True),
        ("variables", "Influence of the variables", pictures.get("variables") or None, True),
        ("timeline", "Worker timeline", pictures.get("timeline") or None, True),
        ("spent", "Cost of every run", tables.ledger(summary) if summary.ledger else None, True),
        ("honesty", "Sanity checks", _honest(summary), not warned),
        ("incidents", "Failures and notes", tables.incidents(summary) or None, False),
        ("configurations", "Best configurations", tables.configurations(summary), True),
        ("reproduce", "Reproduce", _reproduction(context), True),
    ]
    return [
        Section(id_, title, facts, pictures.get(id_, ()), folded)
        for id_, title, facts, folded in given
        if facts is not None
    ]


def _question(summary: Summary) -> str:
    """What the experiment asks."""
    budget, names = summary.budget, list(summary.optimizers)
    cost = f"{budget.evaluations} evaluations" + (
        "" if budget.epochs_per_evaluation == 1 else f" of {budget.epochs_per_evaluation} epochs"
    )
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


def _legend(summary: Summary) -> tuple[Sample, ...]:
    names = variables()
    return tuple(
        Sample(
            name,
            names[style.colour],
            " ".join(f"{2 * length:g}" for length in style.line[1]),
            _marker(style),
        )
        for name, style in styles(summary.optimizers).items()
    )


def _marker(style: Style) -> str:
    """matplotlib's marker in the middle of a sample, as an SVG path."""
    from matplotlib.markers import MarkerStyle

    drawn, paths = MarkerStyle(style.marker), []
    for shape in drawn.get_path().transformed(drawn.get_transform()).to_polygons():
        corners = np.asarray(shape, dtype=float).tolist()
        points = [
            f"{SAMPLE_WIDTH / 2 + MARKER_SIZE * x:.1f} {SAMPLE_HEIGHT / 2 - MARKER_SIZE * y:.1f}" for x, y in corners
        ]
        paths.append(f"M{'L'.join(points)}Z")
    return "".join(paths)


def _result(summary: Summary) -> Result | None:
    return Result(tables.final(summary), _legend(summary)) if summary.optimizers else None


def _setup(summary: Summary, context: ReportContext) -> Setup | None:
    remarks = tuple(remark.text for remark in summary.remarks if remark.optimizer)
    found = Setup(tuple(context.setup), tables.settings(context.settings), remarks)
    return found if found.sentences or found.settings or remarks else None


def _reproduction(context: ReportContext) -> Reproduction | None:
    environment = tables.environment(context.environment)
    return (
        Reproduction(environment, context.config_text, tuple(context.files))
        if environment or context.config_text
        else None
    )


def _shares(summary: Summary) -> Shares | None:
    steps = summary.checkpoints
    if not steps:
        return None
    spent = ", ".join(f"{step.share:.0%} are {count(step.evaluations)} evaluations" for step in steps)
    return Shares(tables.checkpoints(summary), spent, shortcoming(*(len(row.values) for row in steps[-1].rows)))


def _tested(tests: Comparisons) -> Tested | None:
    if not tests.pairs:
        return None
    one = tests.hypotheses
    family = "all pairs" if one == ALL else f"{one} against each of the others, as `hypotheses: {one}` has it"
    fewer = FEWER if one == ALL and len(tests.pairs) > MANY_PAIRS else ""
    return Tested(tables.pairs(tests), power(tests), family, len(tests.pairs), f"{LEVEL:.0%}", fewer)


def _speed(summary: Summary) -> Speed | None:
    given = (
        tables.areas(summary) if summary.area else None,
        tables.targets(summary) if summary.targets else None,
        tables.equivalents(summary) if summary.equivalents else None,
    )
    return Speed(*given) if any(given) else None


def _again(summary: Summary, context: ReportContext) -> Again | None:
    found = summary.retrained
    if found is None:
        return None
    less = tuple(shortfalls(context.retrained, context.searched))
    return Again(found, less, tables.retrained_means(found), _tested(found.tests), tables.retrained_rows(found))


def _best_cells(summary: Summary, pictures: Sequence[Picture]) -> tuple[BestCell, ...]:
    """Each optimizer that has pictures of its best cell; empty for a space without a cell."""
    cells = []
    for name, row in summary.optimizers.items():
        mine = tuple(picture for picture in pictures if picture.optimizer == name)
        if mine:
            error = "" if is_missing(row.best_error) else f", validation error {number(row.best_error)}"
            found = f"{row.best_run}, trial {row.best_trial}: objective {number(row.best)}{error}"
            cells.append(BestCell(name, found, mine))
    return tuple(cells)


def _honest(summary: Summary) -> Honest | None:
    texts = tuple(f"{row.optimizer}: {text}" for row in summary.honesty for text in row.warnings)
    return Honest(tables.honesty(summary), texts) if summary.honesty else None
