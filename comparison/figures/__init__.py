"""All figures of a report: each is a file of this folder and a row of FIGURES."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fmnas.comparison.figures import anytime, cell, hypervolume, intervals, ranks, tradeoff
from fmnas.comparison.figures.canvas import Drawing, Results

FIGURES: tuple[tuple[str, Callable[[Results], Iterable[Drawing]]], ...] = (
    ("curves", anytime.drawings),
    ("curves", ranks.drawings),
    ("result", intervals.final),
    ("statistics", intervals.differences),
    ("retrained", intervals.selection_bias),
    ("tradeoff", hypervolume.drawings),
    ("tradeoff", tradeoff.fronts),
    ("learning", tradeoff.learning),
    ("cells", cell.drawings),
)
"""The page's section and the function that draws for it, in the order of the page."""


def draw_figures(results: Results) -> Iterator[Drawing]:
    """Draw every figure for which there are data, one at a time, in the order of the page."""
    return (replace(drawing, section=section) for section, draw in FIGURES for drawing in draw(results))
