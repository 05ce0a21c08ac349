"""What all figures share: what they are drawn from, what they become, an empty sheet, plain axes, a legend.

Drawn with the object interface of matplotlib alone: no global state, no display.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from fmnas.comparison.figures.palette import GROUND, INK, LINE, SOFT, Style
from fmnas.comparison.summary import Summary

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL = (4.4, 3.0)
"""Width and height of one panel in inches: its text can be read on a phone without zooming."""
TEXT, SMALL = 10, 9
"""Font sizes in points."""
LEGEND_ROW = 0.22
"""Inches of a row of a legend, and of the space around its rows."""
MOST_LETTERS = 32
"""Longer names at the side of a figure lose their middle."""
_LABELS = {1.2: (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), 2.2: (1.0, 2.0, 5.0)}
"""Which multiples of the powers of ten are labelled on an axis of up to so many decades; the powers alone beyond."""
TIME_UNITS = (
    (2 * 3600.0, 3600.0, "hours"),
    (2 * 60.0, 60.0, "minutes"),
    (0.2, 1.0, "seconds"),
    (0.0, 1e-3, "milliseconds"),
)
"""(from so many seconds on, seconds per unit, its name)"""
Grid = Literal["x", "both"]
"""Across which axes lines are drawn."""


@dataclass(frozen=True)
class Results:
    """What figures are drawn from: the typed trials `in_working_time`, their `anytime_curves`, the summary of both."""

    trials: pd.DataFrame
    curves: pd.DataFrame
    summary: Summary


@dataclass(frozen=True)
class Drawing:
    """A figure and what is told beside it.

    name: of its files, and of its ids on the page. caption: what it shows, and what it does not prove.
    filed: whether it is written as PNG, SVG and PDF. shown: whether the page shows it.
    wide: it needs the whole width, and scrolls on a narrow screen; others shrink, and stand beside one another where
    there is room. optimizer: the one that it is about; "" for all.
    leads: whether it stands at the top of the page, with the answer, and not in its section.
    section: the page's section that shows it; the row in `figures.FIGURES` says it.
    """

    name: str
    figure: "Figure"
    caption: str = ""
    filed: bool = True
    shown: bool = True
    wide: bool = False
    optimizer: str = ""
    leads: bool = False
    section: str = ""


def sheet(width: float, height: float, laid_out: bool = True) -> "Figure":
    """An empty figure, so many inches wide and high, that makes room for what stands at its edges if `laid_out`."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained" if laid_out else None)


def panel(width: float = PANEL[0], height: float = PANEL[1], grid: Grid = "both") -> "tuple[Figure, Axes]":
    """A sheet with `plain` axes alone."""
    figure = sheet(width, height)
    axes = figure.subplots()
    plain(axes, grid)
    return figure, axes


def plain(axes: "Axes", grid: Grid = "both") -> None:
    """The look of all axes: no frame, a faint grid, small labels in soft ink."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
    axes.tick_params(labelsize=SMALL, color=SOFT, labelcolor=SOFT, which="both")
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color=LINE, linewidth=0.6)


def label(axes: "Axes", x: str = "", y: str = "", title: str = "") -> None:
    """Axis labels and a title at the left, none of them read as a formula."""
    axes.set_xlabel(x, fontsize=TEXT, color=SOFT, parse_math=False)
    axes.set_ylabel(y, fontsize=TEXT, color=SOFT, parse_math=False)
    if title:
        axes.set_title(title, fontsize=TEXT + 1, color=INK, loc="left", parse_math=False)


def logarithmic(axes: "Axes", bottom: float, top: float) -> None:
    """A logarithmic y axis with plain numbers, from bottom to top."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    decades = log10(top / bottom)
    axes.set_yscale("log")
    axes.set_ylim(bottom, top)
    axes.yaxis.set_major_locator(LogLocator(subs=next((at for end, at in _LABELS.items() if decades <= end), (1.0,))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def time_unit(longest: float) -> tuple[float, str]:
    """What to divide seconds by where the longest time is so many seconds, and the name of the unit."""
    return next(((per, name) for least, per, name in TIME_UNITS if longest >= least), TIME_UNITS[-1][1:])


def names_above(axes: "Axes", names: Sequence[str]) -> None:
    """Names over the rows of a figure, the first at the top: however long, they take no width from the data."""
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(names) - 0.55, -0.75)
    for row, name in enumerate(names):
        look: dict[str, Any] = {"fontsize": SMALL, "color": INK, "va": "center", "parse_math": False}
        axes.text(0.0, row - 0.4, name, transform=axes.get_yaxis_transform(), **look)


def few_ticks(axes: "Axes", whole: bool = False) -> None:
    """As many ticks on the x axis as long numbers leave room for. whole: at whole numbers alone."""
    axes.locator_params(axis="x", nbins=6, integer=whole)


def names_down(axes: "Axes", names: Sequence[str]) -> None:
    """Names as the ticks of the y axis, the first at the top; of long ones the middle is "…"."""
    half = MOST_LETTERS // 2
    short = [name if len(name) <= MOST_LETTERS else f"{name[: half - 1]}…{name[-half:]}" for name in names]
    axes.set_yticks(range(len(names)), short, parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0, labelcolor=INK)


def legend(figure: "Figure", look: Mapping[str, Style], extra: Mapping[str, "Artist"], lines: bool = True) -> None:
    """A legend below: a line and a marker for each optimizer (lines), or a square as its bars; and what is extra.

    It has as many columns as names so long leave room for, and makes the figure higher by its rows.
    """
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    handles: list[Artist] = [
        Line2D([], [], linewidth=2.0, markersize=5.5, **line(style)) if lines else Patch(**bar(style))
        for style in look.values()
    ]
    names = [*look, *extra]
    width = (0.8 if lines else 0.5) + max(map(len, names), default=0) * 0.55 * TEXT / 72  # inches of a column
    columns = max(1, min(len(names), int(figure.get_figwidth() / width)))
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * (1 + -(-len(names) // columns)))
    drawn = figure.legend(
        [*handles, *extra.values()],
        ["-"] * len(names),
        loc="outside lower center",
        ncols=columns,
        frameon=False,
        fontsize=TEXT,
        labelcolor=INK,
        handlelength=3.0 if lines else 1.2,
    )
    for text, name in zip(drawn.get_texts(), names, strict=True):
        text.set_parse_math(False)  # which "$" would begin
        text.set_text(name)  # set afterwards: the legend drops a name that starts with "_"


def line(style: Style) -> dict[str, Any]:
    """How matplotlib draws an optimizer's line."""
    return {"color": style.colour, "linestyle": style.line, "marker": style.marker}


def bar(style: Style) -> dict[str, Any]:
    """How matplotlib draws an optimizer's bars: in its colour, its hatch in that of the ground."""
    return {"facecolor": style.colour, "edgecolor": GROUND, "linewidth": 0.0, "hatch": style.hatch}
