"""All figures of a report: each is a file of this folder and a row of FIGURES."""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace

from fmnas.comparison.figures import anytime, cell, importance, intervals, parallel, timeline, tradeoff
from fmnas.comparison.figures.canvas import Drawing, Results

FIGURES: tuple[tuple[str, Callable[[Results], Iterable[Drawing]]], ...] = (
    ("curves", anytime.drawings),
    ("result", intervals.final),
    ("statistics", intervals.differences),
    ("retrained", intervals.retrained),
    ("tradeoff", tradeoff.fronts),
    ("learning", tradeoff.learning),
    ("cells", cell.drawings),
    ("variables", importance.drawings),
    ("variables", parallel.drawings),
    ("timeline", timeline.drawings),
)
"""The page's section, and what draws for it, in the order of the page."""


def drawn(results: Results) -> Iterator[Drawing]:
    """Every figure that the data allow, in the order of the page, each drawn when it is asked for.

    A figure without data is left out.
    """
    return (replace(drawing, section=section) for section, draw in FIGURES for drawing in draw(results))
