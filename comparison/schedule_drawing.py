"""A drawing of an SGD schedule: the learning rate over the training, and the other values in words."""

from typing import TYPE_CHECKING

from fmnas.comparison.canvas import SMALL, label, plain
from fmnas.comparison.palette import BLUE, INK, SOFT
from fmnas.search_spaces import Schedule
from fmnas.search_spaces.nasnet import SGD_NAMES

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LOWEST_RATE, HIGHEST_RATE = 1e-5, 1e-1
"""What the schedule's variables can reach: the same axis in every drawing, so that two can be compared."""


def draw_schedule(axes: "Axes", schedule: Schedule, colour: str = BLUE) -> None:
    """The learning rate as a step function of the share of the training done."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    first = schedule.reduction_point_1
    second = first + (1 - first) * schedule.reduction_point_2
    rates = [schedule.learning_rate * schedule.lr_reduction**reductions for reductions in (0, 1, 2)]
    axes.step([0.0, first, second, 1.0], [*rates, rates[-1]], where="post", color=colour, linewidth=2.0)
    axes.set_yscale("log")
    axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
    axes.yaxis.set_minor_formatter(NullFormatter())
    axes.set_xlim(0, 1)
    axes.set_ylim(0.7 * LOWEST_RATE, 1.5 * HIGHEST_RATE)
    plain(axes)
    label(axes, x="share of the training", y="learning rate")


def write_values(axes: "Axes", schedule: Schedule) -> None:
    """The six values of a schedule as a small table."""
    axes.axis("off")
    for i, name in enumerate(SGD_NAMES):
        y = 0.92 - 0.18 * i
        axes.text(0.62, y, name.replace("_", " "), ha="right", va="center", fontsize=SMALL, color=SOFT)
        axes.text(0.68, y, f"{getattr(schedule, name):.3g}", ha="left", va="center", fontsize=SMALL, color=INK)
