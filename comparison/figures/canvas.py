"""What all figures share: their input and output, an empty figure, the style of axes, a legend.

Only matplotlib's object interface is used: no global state, no display.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import log10
from typing import TYPE_CHECKING, Any, Literal

import pandas as pd

from fmnas.comparison.figures.palette import INK, LINE, SOFT, Style
from fmnas.comparison.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PANEL_SIZE = (4.4, 3.0)
"""Width and height of one panel in inches: its text can be read on a phone without zooming."""
TEXT, SMALL = 10, 9
"""Font sizes in points."""
LEGEND_ROW = 0.22
"""Height of a row of a legend in inches, and of the space around its rows."""
_LABELS = {1.2: (1.0, 1.5, 2.0, 3.0, 5.0, 7.0), 2.2: (1.0, 2.0, 5.0)}
"""Decades of a logarithmic axis, at most -> the multiples of powers of ten that are labelled."""
TIME_UNITS = (
    (2 * 3600.0, 3600.0, "hours"),
    (2 * 60.0, 60.0, "minutes"),
    (0.2, 1.0, "seconds"),
    (0.0, 1e-3, "milliseconds"),
)
"""(the least seconds for which the unit is used, seconds per unit, its name)"""
Grid = Literal["x", "both"]
"""The axes that have grid lines."""


@dataclass(frozen=True)
class Results:
    """What figures are drawn from: the typed trials `in_working_time`, their `anytime_curves`, the summary of both."""

    trials: pd.DataFrame
    curves: pd.DataFrame
    summary: Summary


@dataclass(frozen=True)
class Drawing:
    """A figure, its caption, and where it goes.

    name: of its files, and prefix of its ids on the page. caption: what it shows, and what it does not prove.
    is_saved: whether it is written as PNG, SVG and PDF. is_on_page: whether the page shows it.
    is_wide: it gets the full width, and scrolls on a narrow screen; others shrink, and are placed side by side.
    optimizer: the one that it is about; "" for all.
    is_lead: whether it is at the top of the page, with the result, and not in its section.
    section: the page's section that shows it; set from the row in `figures.FIGURES`.
    """

    name: str
    figure: "Figure"
    caption: str = ""
    is_saved: bool = True
    is_on_page: bool = True
    is_wide: bool = False
    optimizer: str = ""
    is_lead: bool = False
    section: str = ""


def new_figure(width: float, height: float, is_constrained: bool = True) -> "Figure":
    """An empty figure, in inches. is_constrained: whether the layout fits labels at the edges."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained" if is_constrained else None)


def new_panel(
    width: float = PANEL_SIZE[0], height: float = PANEL_SIZE[1], grid: Grid = "both"
) -> "tuple[Figure, Axes]":
    """A figure with one pair of styled axes."""
    figure = new_figure(width, height)
    axes = figure.subplots()
    style_axes(axes, grid)
    return figure, axes


def style_axes(axes: "Axes", grid: Grid = "both") -> None:
    """Give axes the common style: no frame, a faint grid, small soft labels."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color(SOFT)
    axes.tick_params(labelsize=SMALL, color=SOFT, labelcolor=SOFT, which="both")
    axes.set_axisbelow(True)
    axes.grid(axis=grid, color=LINE, linewidth=0.6)


def set_labels(axes: "Axes", x: str = "", y: str = "", title: str = "") -> None:
    """Set the axis labels and a title at the left, without parsing them as formulas."""
    axes.set_xlabel(x, fontsize=TEXT, color=SOFT, parse_math=False)
    axes.set_ylabel(y, fontsize=TEXT, color=SOFT, parse_math=False)
    if title:
        axes.set_title(title, fontsize=TEXT + 1, color=INK, loc="left", parse_math=False)


def set_log_scale(axes: "Axes", bottom: float, top: float) -> None:
    """Give the y axis a logarithmic scale with plain numbers, from bottom to top."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    decades = log10(top / bottom)
    axes.set_yscale("log")
    axes.set_ylim(bottom, top)
    axes.yaxis.set_major_locator(LogLocator(subs=next((at for end, at in _LABELS.items() if decades <= end), (1.0,))))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())


def time_unit(longest: float) -> tuple[float, str]:
    """Seconds per unit, and the name of the unit, for an axis up to this number of seconds."""
    return next(((per, name) for least, per, name in TIME_UNITS if longest >= least), TIME_UNITS[-1][1:])


def set_names_above(axes: "Axes", names: Sequence[str]) -> None:
    """Write names above the rows of a figure, the first at the top: long names take no width from the data."""
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(names) - 0.55, -0.75)
    for row, name in enumerate(names):
        style: dict[str, Any] = {"fontsize": SMALL, "color": INK, "va": "center", "parse_math": False}
        axes.text(0.0, row - 0.4, name, transform=axes.get_yaxis_transform(), **style)


def limit_ticks(axes: "Axes", integers: bool = False) -> None:
    """Limit the ticks of the x axis so that long numbers do not overlap. integers: only at whole numbers."""
    axes.locator_params(axis="x", nbins=6, integer=integers)


def add_legend(figure: "Figure", optimizers: Mapping[str, Style]) -> None:
    """Add a legend below the figure, which becomes higher by its rows: a line with a marker for each optimizer."""
    from matplotlib.lines import Line2D

    handles = [Line2D([], [], linewidth=2.0, markersize=5.5, **line_style(style)) for style in optimizers.values()]
    width = 0.8 + max(map(len, optimizers), default=0) * 0.55 * TEXT / 72  # inches of a column
    columns = max(1, min(len(optimizers), int(figure.get_figwidth() / width)))
    figure.set_figheight(figure.get_figheight() + LEGEND_ROW * (1 + -(-len(optimizers) // columns)))
    look: dict[str, Any] = {"frameon": False, "fontsize": TEXT, "labelcolor": INK, "handlelength": 3.0}
    legend = figure.legend(handles, ["-"] * len(optimizers), loc="outside lower center", ncols=columns, **look)
    for text, name in zip(legend.get_texts(), optimizers, strict=True):
        text.set_parse_math(False)  # a "$" would begin a formula
        text.set_text(name)  # set afterwards: matplotlib drops legend entries that start with "_"


def line_style(style: Style) -> dict[str, Any]:
    """matplotlib's arguments for an optimizer's line."""
    return {"color": style.colour, "linestyle": style.line, "marker": style.marker}
