"""The mean rank of each optimizer by evaluations, over the repeats of one problem."""

from collections.abc import Iterator
from dataclasses import replace

from fmnas.comparison.analysis.across_problems import ranks_over_repeats
from fmnas.comparison.analysis.resampling import coverage_warning
from fmnas.comparison.figures.across_problems import draw_ranks
from fmnas.comparison.figures.canvas import Drawing, Results

CAPTION = (
    "Rank among the {optimizers} optimizers in a repeat, 1 is best, by the best objective so far: mean over the "
    "repeats in which all have a trial. Bars at the end: 95% bootstrap interval over repeats. A rank says nothing of "
    "how large a difference is, and depends on which optimizers are compared."
)


def drawings(results: Results) -> Iterator[Drawing]:
    """One figure, for files and for the page; none with fewer than two optimizers or repeats."""
    summary = results.summary
    ranks = ranks_over_repeats(results.curves, list(summary.optimizers), summary.evaluations)
    if ranks.empty:
        return
    warning = coverage_warning(len(set.intersection(*(set(row.values) for row in summary.optimizers.values()))))
    caption = f"{CAPTION.format(optimizers=len(summary.optimizers))} {warning}".rstrip()
    yield replace(draw_ranks(ranks, caption), is_on_page=False)
    yield draw_ranks(ranks, caption, is_panel=True)
