"""Drawings of configurations of the joint problem: the cell as a graph, and the learning rate schedule.

The cell's nodes are on one line, inputs left, outputs right, so that no edge is hidden behind a node. Every state
has one input from above and one from below; the label of an edge is its operation.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from fmnas.comparison.figures.canvas import (
    SMALL,
    Drawing,
    Results,
    add_legend,
    line_style,
    new_figure,
    new_panel,
    set_labels,
    set_log_scale,
)
from fmnas.comparison.figures.palette import CARD, GROUND, INK, styles
from fmnas.search_spaces import Cell, Schedule
from fmnas.search_spaces.nasnet import CELL_NAMES, SGD_NAMES, STATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL = (
    "Every state is the sum of its two inputs, each after the operation on its edge. Grey states reach no output. One "
    "good cell does not prove that its operations are good: its schedule and luck contribute."
)
SCHEDULES = "The learning rate of each best configuration is reduced twice."
NODE_DISTANCE = 1.9
"""Distance between neighbouring nodes; a node has radius RADIUS."""
RADIUS = 0.36
INPUT, STATE, OUTPUT, DEAD_STATE = GROUND, CARD, INK, "#9aa3ab"
"""Neutral colours: those of the palette belong to optimizers."""
CENTRED: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL}
LOWEST_RATE, HIGHEST_RATE = 1e-5, 1e-1
"""The range of the schedule's variables."""


def drawings(results: Results) -> Iterator[Drawing]:
    """The best cell of each optimizer, and their schedules in one panel. None without cells."""
    best = {name: row.best_configuration or {} for name, row in results.summary.optimizers.items()}
    cells = {name: configuration for name, configuration in best.items() if set(CELL_NAMES) <= set(configuration)}
    for place, (name, configuration) in enumerate(cells.items()):
        caption = "" if place else CELL
        yield Drawing(f"best_cell_{name}", cell_figure(configuration), caption, is_wide=True, optimizer=name)
    schedules = {name: configuration for name, configuration in cells.items() if set(SGD_NAMES) <= set(configuration)}
    if schedules:
        yield Drawing("schedules", schedules_figure(schedules), SCHEDULES)


def cell_figure(configuration: Mapping[str, Any]) -> "Figure":
    """The cell of a configuration. Raises SpaceError for values that do not describe a cell.

    Its axes have a fixed position: the solver of matplotlib's constrained layout (kiwisolver) adds in the order of
    memory addresses, so files would differ by an ulp from process to process.
    """
    figure = new_figure(6.6, 3.1, is_constrained=False)
    _draw_cell(figure.add_axes((0.0, 0.0, 1.0, 1.0)), Cell.from_configuration(configuration))
    return figure


def schedules_figure(configurations: Mapping[str, Mapping[str, Any]]) -> "Figure":
    """The learning rates of configurations, by optimizer, as step functions of the share of the training."""
    figure, axes = new_panel()
    looks = styles(configurations)
    for name, style in looks.items():
        schedule = Schedule.from_configuration(configurations[name])
        first = schedule.reduction_point_1
        second = first + (1 - first) * schedule.reduction_point_2
        rates = [schedule.learning_rate * schedule.lr_reduction**reductions for reductions in (0, 1, 2, 2)]
        axes.step([0.0, first, second, 1.0], rates, where="post", linewidth=1.8, markevery=[0], **line_style(style))
    set_log_scale(axes, 0.7 * LOWEST_RATE, 1.5 * HIGHEST_RATE)
    axes.set_xlim(0, 1)
    set_labels(axes, x="share of the training", y="learning rate", title="Learning rate schedules")
    add_legend(figure, looks)
    return figure


def _draw_cell(axes: "Axes", cell: Cell) -> None:
    live = cell.live_states()
    for state, (inputs, operations) in enumerate(zip(cell.inputs, cell.operations, strict=True), start=1):
        for side, source, operation in zip((1, -1), inputs, operations, strict=True):
            _draw_edge(axes, (source, state), side, operation, INK if state in live else DEAD_STATE)
    for node in range(-1, STATES + 1):
        _draw_node(axes, node, *_node_colours(node, live, cell.output))
    spans = [[state - pair[side] for state, pair in enumerate(cell.inputs, start=1)] for side in (0, 1)]
    top, bottom = _height(max(spans[0])), -_height(max(spans[1])) - 0.5
    neighbours = cell.output == STATES - 1  # whose labels would touch
    _draw_output(axes, (_x(cell.output), bottom), "first output", "right" if neighbours else "center")
    _draw_output(axes, (_x(STATES), bottom), "second output", "left" if neighbours else "center")
    axes.set_xlim(_x(-1) - 0.5, _x(STATES) + 0.8)
    axes.set_ylim(bottom - 0.5, top + 0.3)
    axes.set_aspect("equal")
    axes.axis("off")


def _draw_output(
    axes: "Axes", end: tuple[float, float], label: str, alignment: Literal["left", "center", "right"]
) -> None:
    arrow = {"arrowstyle": "<|-", "color": OUTPUT, "linestyle": ":", "linewidth": 1.4}
    axes.annotate("", xy=(end[0], -RADIUS), xytext=end, arrowprops=arrow, zorder=1)
    axes.text(*end, label, ha=alignment, va="top", fontsize=SMALL, color=OUTPUT)


def _height(span: int) -> float:
    """The distance of the apex of an edge over `span` nodes from the line."""
    return RADIUS + 0.25 + 0.6 * span


def _draw_edge(axes: "Axes", ends: tuple[int, int], side: int, operation: str, colour: str) -> None:
    """Draw an arc from source to target, above (side 1) or below (side -1) the line; longer ones are higher."""
    from matplotlib.patches import FancyArrowPatch
    from matplotlib.path import Path

    source, target = (_x(node) for node in ends)
    height = side * _height(ends[1] - ends[0])
    lean = 0.12 * (target - source)
    # A cubic Bezier reaches three quarters of its control points' height.
    control = RADIUS * side + (height - RADIUS * side) / 0.75
    curve = [(source, RADIUS * side), (source + lean, control), (target - lean, control), (target, RADIUS * side)]
    path = Path(curve, [Path.MOVETO, Path.CURVE4, Path.CURVE4, Path.CURVE4])
    arrow: dict[str, Any] = {"arrowstyle": "-|>", "mutation_scale": 11, "fill": False, "linewidth": 1.2}
    axes.add_patch(FancyArrowPatch(path=path, color=colour, **arrow))
    box = {"boxstyle": "round,pad=0.2", "facecolor": GROUND, "edgecolor": colour, "linewidth": 0.6}
    axes.text((source + target) / 2, height, operation, color=colour, bbox=box, **CENTRED)


def _draw_node(axes: "Axes", node: int, fill: str, ink: str) -> None:
    from matplotlib.patches import Circle

    axes.add_patch(Circle((_x(node), 0.0), RADIUS, facecolor=fill, edgecolor=INK, linewidth=0.8, zorder=4))
    axes.text(_x(node), 0.0, f"S{node}" if node >= 0 else "S−1", color=ink, zorder=5, **CENTRED)


def _node_colours(node: int, live: tuple[int, ...], output: int) -> tuple[str, str]:
    """The colours of a node and of the name in it."""
    if node < 1:
        return INPUT, INK
    if node not in live:
        return DEAD_STATE, GROUND
    return (OUTPUT, GROUND) if node in (output, STATES) else (STATE, INK)


def _x(node: int) -> float:
    return NODE_DISTANCE * node
