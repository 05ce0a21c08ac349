"""The anytime figure of a problem with two objectives: the mean hypervolume of each optimizer's results so far."""

from collections.abc import Iterator

from fmnas.comparison.analysis.hypervolume import HYPERVOLUME
from fmnas.comparison.figures.anytime import CAPTIONS, compute_content, draw_panel, explain_bars
from fmnas.comparison.figures.canvas import Drawing, Results, add_legend, set_labels
from fmnas.comparison.figures.palette import styles

CAPTION = "The hypervolume of the full results so far, mean over repeats; higher is better. "


def drawings(results: Results) -> Iterator[Drawing]:
    """Hypervolume against evaluations. None for a problem with one objective."""
    if HYPERVOLUME not in results.curves:
        return
    curves = results.curves.assign(incumbent=results.curves[HYPERVOLUME])
    content = compute_content(curves, quantity=HYPERVOLUME)
    figure = draw_panel(content, results.summary.budget, "evaluations")
    set_labels(figure.axes[0], x="evaluations", y=HYPERVOLUME, title="Hypervolume")
    add_legend(figure, styles(curves["optimizer"]))
    yield Drawing(HYPERVOLUME, figure, f"{CAPTION}{explain_bars(content)}{CAPTIONS['evaluations']}")
