"""The anytime figure of a problem with two objectives: the mean hypervolume of each optimizer's results so far."""

from collections.abc import Iterator

from fmnas.comparison.analysis.hypervolume import HYPERVOLUME
from fmnas.comparison.figures.anytime import compute_content, draw_panel
from fmnas.comparison.figures.canvas import Drawing, Results, add_legend, set_labels
from fmnas.comparison.figures.palette import styles

CAPTION = (
    "The hypervolume of the full results so far, mean over repeats; higher is better. Bars: its 95% interval, or else "
    "one standard error; bars beyond the axis are left out. A marker: the final mean. Dotted: the budget."
)


def drawings(results: Results) -> Iterator[Drawing]:
    """Hypervolume against evaluations. None for a problem with one objective."""
    if HYPERVOLUME not in results.curves:
        return
    curves = results.curves.assign(incumbent=results.curves[HYPERVOLUME])
    figure = draw_panel(compute_content(curves, quantity=HYPERVOLUME), results.summary.budget, "evaluations")
    set_labels(figure.axes[0], x="evaluations", y=HYPERVOLUME, title="Hypervolume")
    add_legend(figure, styles(curves["optimizer"]))
    yield Drawing(HYPERVOLUME, figure, CAPTION)
