"""Drawings of configurations of the joint problem: the cell as a graph, and the learning rate schedule.

The cell's nodes are on one line, inputs left, outputs right, so that no edge is hidden behind a node. Every state
has one input from above and one from below; the label of an edge is its operation.
"""

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal

from fmnas.comparison.analysis.duplicates import has_cell
from fmnas.comparison.analysis.formatting import format_number, format_value
from fmnas.comparison.figures.canvas import (
    PANEL_SIZE,
    SMALL,
    Drawing,
    Results,
    new_figure,
    set_labels,
    set_log_scale,
    style_axes,
)
from fmnas.comparison.figures.palette import CARD, GROUND, INK, SOFT, styles
from fmnas.comparison.summary import FinalRow
from fmnas.search_spaces import Cell, Schedule
from fmnas.search_spaces.nasnet import SGD_NAMES, STATES

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure, SubFigure

CELL = (
    "Every state is the sum of its two inputs, each after the operation on its edge. Grey states reach no output. One "
    "good cell does not prove that its operations are good: its schedule and luck contribute."
)
SCHEDULE = "The learning rate is reduced twice; the axis is the same for all optimizers."
NODE_DISTANCE = 1.9
"""Distance between neighbouring nodes; a node has radius RADIUS."""
RADIUS = 0.36
INPUT, STATE, OUTPUT, DEAD_STATE = GROUND, CARD, INK, "#9aa3ab"
"""Neutral colours: those of the palette belong to optimizers."""
ALONE, BESIDE = (0.01, 0.01, 0.98, 0.91), (0.0, 0.02, 0.68, 0.9)
RATE, VALUES = (0.76, 0.47, 0.22, 0.45), (0.76, 0.02, 0.22, 0.3)
"""Positions of axes within a row: a cell without and with a schedule, the learning rate, the values; left, bottom,
width, height. They are fixed because the solver of matplotlib's constrained layout (kiwisolver) adds in the order of
memory addresses: panels, and so files, would differ by an ulp from process to process."""
CENTRED: dict[str, Any] = {"ha": "center", "va": "center", "fontsize": SMALL}
LOWEST_RATE, HIGHEST_RATE = 1e-5, 1e-1
"""The range of the schedule's variables: every drawing has the same axis."""


def drawings(results: Results) -> Iterator[Drawing]:
    """The best cell of each optimizer, with its schedule; and one file with all of them. None without cells."""
    best = {
        name: (row, row.best_configuration)
        for name, row in results.summary.optimizers.items()
        if row.best_configuration and has_cell(row.best_configuration)
    }
    if not best:
        return
    looks = styles(results.summary.optimizers)
    together = cells_figure({_title(name, row): configuration for name, (row, configuration) in best.items()})
    yield Drawing("best_cell", together, is_on_page=False)
    for place, (name, (_, configuration)) in enumerate(best.items()):
        id_ = f"cell_{place}_{re.sub('[^a-z0-9]+', '-', name.lower())}"
        of_cell, of_schedule = (CELL, SCHEDULE) if place == 0 else ("", "")
        yield Drawing(id_, cell_panel(configuration), of_cell, is_saved=False, is_wide=True, optimizer=name)
        schedule = schedule_panel(configuration, looks[name].colour)
        if schedule is not None:
            yield Drawing(f"{id_}_rate", schedule, of_schedule, is_saved=False, optimizer=name)


def _title(name: str, row: FinalRow) -> str:
    return f"{name}: {row.found_in.removeprefix(f'{name}/')}, objective {format_number(row.best)}"


def cell_figure(configuration: Mapping[str, Any], title: str) -> "Figure":
    """The cell of a configuration, next to its SGD schedule if it has one.

    Raises SpaceError for values that do not describe a cell.
    """
    return cells_figure({title: configuration})


def cells_figure(configurations: Mapping[str, Mapping[str, Any]]) -> "Figure":
    """Several `cell_figure`s, one below the other: title -> configuration."""
    schedules = any(has_schedule(configuration) for configuration in configurations.values())
    figure = new_figure(11.0 if schedules else 7.6, 3.7 * len(configurations), is_constrained=False)
    rows = figure.subfigures(len(configurations), 1, squeeze=False)[:, 0]
    for row, (title, configuration) in zip(rows, configurations.items(), strict=True):
        row.suptitle(title, fontsize=12, color=INK, parse_math=False)
        _draw_row(row, configuration)
    return figure


def cell_panel(configuration: Mapping[str, Any]) -> "Figure":
    """The cell alone, for a page."""
    figure = new_figure(6.6, 3.1, is_constrained=False)
    _draw_cell(figure.add_axes((0.0, 0.0, 1.0, 1.0)), Cell.from_configuration(configuration))
    return figure


def schedule_panel(configuration: Mapping[str, Any], colour: str) -> "Figure | None":
    """The learning rate alone, for a page; None for a configuration without a schedule."""
    if not has_schedule(configuration):
        return None
    figure = new_figure(PANEL_SIZE[0] - 0.8, PANEL_SIZE[1] - 0.5, is_constrained=False)
    draw_schedule(figure.add_axes((0.23, 0.2, 0.74, 0.76)), Schedule.from_configuration(configuration), colour)
    return figure


def has_schedule(configuration: Mapping[str, Any]) -> bool:
    """Whether the configuration has the variables of the SGD schedule."""
    return set(SGD_NAMES) <= set(configuration)


def _draw_row(row: "SubFigure", configuration: Mapping[str, Any]) -> None:
    scheduled = has_schedule(configuration)
    _draw_cell(row.add_axes(BESIDE if scheduled else ALONE), Cell.from_configuration(configuration))
    if scheduled:
        schedule = Schedule.from_configuration(configuration)
        draw_schedule(row.add_axes(RATE), schedule)
        write_values(row.add_axes(VALUES), schedule)


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


def draw_schedule(axes: "Axes", schedule: Schedule, colour: str = INK) -> None:
    """Draw the learning rate as a step function of the share of the training."""
    first = schedule.reduction_point_1
    second = first + (1 - first) * schedule.reduction_point_2
    rates = [schedule.learning_rate * schedule.lr_reduction**reductions for reductions in (0, 1, 2)]
    axes.step([0.0, first, second, 1.0], [*rates, rates[-1]], where="post", color=colour, linewidth=2.0)
    set_log_scale(axes, 0.7 * LOWEST_RATE, 1.5 * HIGHEST_RATE)
    axes.set_xlim(0, 1)
    style_axes(axes)
    set_labels(axes, x="share of the training", y="learning rate")


def write_values(axes: "Axes", schedule: Schedule) -> None:
    """Write the values of a schedule as a small table."""
    axes.axis("off")
    for i, name in enumerate(SGD_NAMES):
        y = 0.92 - 0.18 * i
        axes.text(0.62, y, name.replace("_", " "), ha="right", va="center", fontsize=SMALL, color=SOFT)
        axes.text(0.68, y, format_value(getattr(schedule, name)), ha="left", va="center", fontsize=SMALL, color=INK)
