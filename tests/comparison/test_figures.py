import sys

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.colors import to_hex

from fmnas.comparison import (
    Budget,
    ReportContext,
    ReportNotWritten,
    anytime_curves,
    figures,
    write_report,
)
from fmnas.comparison.analysis.trials import typed_trials
from fmnas.comparison.figures import anytime, tradeoff
from fmnas.comparison.figures.anytime import SHARES, TITLES, compute_content, currencies, draw_panel, draw_panels
from fmnas.comparison.figures.canvas import time_unit
from fmnas.comparison.figures.cell import DEAD_STATE, LOWEST_RATE, cell_figure, schedules_figure
from fmnas.comparison.figures.files import fix_layout, save_figure
from fmnas.comparison.figures.palette import SERIES_COLOURS
from fmnas.comparison.report import compute_results
from fmnas.search_spaces import Cell, FmnasError, joint_space

pytestmark = pytest.mark.slow

BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)


def draw(trials, folder, budget=BUDGET, title="a figure"):
    figure = draw_panels(compute_content(anytime_curves(trials, budget)), budget, title)
    png, svg, pdf = save_figure(figure, folder, "anytime")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert svg.read_text().rstrip().endswith("</svg>")
    assert pdf.read_bytes().startswith(b"%PDF")
    return figure


def panel_axes(trials, axis="evaluations", budget=BUDGET, **options):
    return draw_panel(compute_content(anytime_curves(trials, budget), **options), budget, axis).axes[0]


def lines_of(axes):
    return [line for line in axes.lines if line.get_drawstyle() == "steps-post"]


def bars_of(axes):
    return [line for line in axes.lines if line.get_drawstyle() == "default" and line.get_linestyle() == "-"]


def drawings_of(trials, **context):
    return list(anytime.drawings(compute_results(trials, ReportContext("n", "p", BUDGET, {}, "", **context))))


def test_a_multi_fidelity_comparison(make_table, tmp_path):
    partial = {"epochs": 5, "objective": 0.001}
    runs = {
        ("bo-fm", 0): [0.2, 0.1, 0.08, 0.07],
        ("bo-fm", 1): [0.3, 0.12, 0.07, 0.07],
        ("bohb", 0): [partial, partial, 0.92, partial, 0.1],
        ("bohb", 1): [partial, 0.2, partial, 0.15, partial],
    }
    figure = draw(make_table(runs), tmp_path)
    panels = {axes.get_title(loc="left"): axes for axes in figure.axes}
    low, high = panels[TITLES["evaluations"]].get_ylim()
    assert 0.03 < low < 0.07, "the short trainings' 0.001 is not shown"
    assert high < 0.9, "nor is the diverged start"
    seconds = panels[TITLES["seconds"]]
    assert seconds.get_xlabel() == "training + suggestion time (seconds)"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["bo-fm", "bohb"]
    assert len(lines_of(seconds)) == 2, "step functions, without interpolation"
    bars = bars_of(seconds)
    # Of bohb, not all repeats have a result before the half, and then the bar from 0.2 to 0.92 is beyond the axis.
    assert len(bars) == 2 * len(SHARES) - 3
    assert all(low <= y <= high for bar in bars for y in bar.get_ydata())
    assert all(len(set(bar.get_xdata())) == 1 for bar in bars), "vertical"


def test_the_mean_ends_where_the_first_run_ends(make_table):
    (line,) = lines_of(panel_axes(make_table({("a", 0): [4.0, 3.0, 2.0, 1.0], ("a", 1): [4.0, 2.0]})))
    assert list(line.get_xdata()) == [1.0, 2.0]
    np.testing.assert_allclose(line.get_ydata(), [4.0, 2.5])


@pytest.mark.parametrize(
    "runs",
    [
        {("a", 0): [0.0, 0.0]},
        {("a", 0): [sys.float_info.max, 0.2]},
        {("a", 0): [{"status": "failed"}]},
        {("bohb", 0): [{"epochs": 5}]},
        {("a", 0): [-0.1, -0.2], ("a", 1): [0.1, -0.15]},
        {("_odd $name$ <&>", 0): [1.0], ("名", 0): [2.0]},
        {(f"o{i}", 0): [1.0 + i, 0.001] for i in range(9)},
        {("a", 0): [1.0, float("inf"), {"diverged": True, "objective": 0.9}], ("a", 1): [1.0], ("b", 0): [2.0]},
    ],
)
def test_odd_tables_are_drawn_without_warnings(make_table, tmp_path, runs):
    draw(make_table(runs), tmp_path, title="$odd_ {title")


def test_a_wide_range_is_logarithmic_only_above_zero(make_table):
    assert panel_axes(make_table({("a", 0): [10.0, 0.1]})).get_yscale() == "log"
    assert panel_axes(make_table({("a", 0): [10.0, -0.1]})).get_yscale() == "linear"


def test_with_a_known_minimum_the_regret_is_drawn(make_table):
    trials = make_table({("a", r): [1.5 + r, -0.9, -0.99 + r / 1000] for r in range(2)})
    axes = panel_axes(trials, minimum=-1.0)
    assert axes.get_ylabel() == "objective − minimum, log scale"
    (line,) = lines_of(axes)
    np.testing.assert_allclose(line.get_ydata(), [3.0, 0.1, 0.0105])
    assert panel_axes(trials, minimum=-0.95).get_ylabel() == "objective", "a result is below it"
    one_repeat = make_table({("a", 0): [1.5, 0.5]})
    for minimum, words in ((0.0, "minus the known minimum"), (None, "The best objective so far,")):
        (caption,) = [drawing.caption for drawing in drawings_of(one_repeat, minimum=minimum) if drawing.is_lead]
        assert words in caption
        assert "Bars" not in caption, "one repeat has none"


@pytest.mark.parametrize(("epochs", "speaks_of_them"), [(1, False), (25, True)])
def test_a_caption_speaks_of_epochs_where_an_evaluation_has_several(make_table, epochs, speaks_of_them):
    trials = make_table({("a", 0): [{"objective": 1.0, "epochs": epochs}] * 3})
    context = ReportContext("n", "p", Budget(3, epochs), {}, "")
    (lead,) = (drawing.caption for drawing in anytime.drawings(compute_results(trials, context)) if drawing.is_lead)
    assert ("epochs" in lead) is speaks_of_them


def test_all_panels_have_one_scale(make_table):
    """The second repeat is so slow that on every time axis the first ends before it has a result."""
    slow = [{"objective": of, "train_seconds": 900.0, "at": at} for of, at in ((2.0, 900.0), (0.1, 1800.0))]
    curves = anytime_curves(make_table({("a", 0): [2.0, 0.1], ("a", 1): slow}), BUDGET)
    content = compute_content(curves)
    panels = {axis: draw_panel(content, BUDGET, axis).axes[0] for axis in currencies(curves)}
    assert len(panels) == 4
    assert {panel.get_ylabel() for panel in panels.values()} == {"objective, log scale"}
    together = draw_panels(content, BUDGET, "together")
    assert len({axes.get_ylim() for axes in (*panels.values(), *together.axes)}) == 1
    marked = [axis for axis, panel in panels.items() if any(line.get_markevery() for line in panel.lines)]
    assert marked == ["evaluations"], "there both repeats end at 0.1"


def test_bars_are_within_the_line_of_their_optimizer(make_table):
    """Each optimizer has a repeat that ends early by the clock, and one that continues for hours."""
    quick = [{"objective": of, "train_seconds": 1.0} for of in (2.0, 1.5, 1.2, 1.1)]
    slow = [{"objective": of, "train_seconds": of * s} for of, s in ((2.0, 0.1), (1.4, 0.2), (1.2, 9000.0))]
    axes = panel_axes(
        make_table({(name, r): run for name in "abcd" for r, run in enumerate((quick, slow))}), "train_seconds"
    )
    lines = [line.get_xdata() for line in lines_of(axes)]
    first, last = min(x[0] for x in lines), max(x[-1] for x in lines)
    assert last == 4.0
    assert axes.get_xlabel() == "training time (seconds)"
    bars = [bar.get_xdata()[0] for bar in bars_of(axes)]
    assert len(bars) == 4 * len(SHARES)
    assert all(first <= x <= last for x in bars)
    assert len(set(bars)) == 4 * (len(SHARES) - 1) + 1, "side by side, but for the first, at the begin of the lines"
    assert axes.get_xlim()[1] < 1.1 * last


def test_optimizers_without_a_line_are_named(make_table):
    """One repeat of "late" has no result when the other ends by the clock; one repeat of "none" has none at all."""
    late, failed = [{"objective": 1.0, "train_seconds": 900.0, "at": 900.0}], [{"status": "failed"}]
    runs = {"plain": ([2.0, 1.0], [2.0, 1.0]), "late": ([2.0, 1.0], late), "none": ([1.0], failed)}
    trials = make_table({(name, r): run for name, both in runs.items() for r, run in enumerate(both)})
    drawn = {drawing.name: drawing for drawing in drawings_of(trials)}
    for axis, missing in (("evaluations", "none"), ("train_seconds", "late, none"), ("seconds", "late, none")):
        (text,) = (text.get_text() for text in drawn[f"anytime_{axis}"].figure.axes[0].texts)
        assert text.partition(": ")[2] == missing


def test_many_optimizers_and_long_labels_leave_the_axes_their_size(make_table, tmp_path, figures_as_svg):
    names = [f"an-optimizer-with-a-label-of-forty-{i:06}" for i in range(8)]
    trials = make_table({(name, 0): [{"objective": 1.0, "flops_ratio": 0.5, "flops": 1.0}] for name in names})
    learning = {(f"{name}/repeat-0", 0): [1.0, 0.5] for name in names}
    context = ReportContext("n", "p", BUDGET, {}, "", learning=learning)
    for drawing in figures.draw_figures(compute_results(trials.assign(error=trials["objective"]), context)):
        save_figure(drawing.figure, tmp_path, drawing.name)  # a layout that collapses warns, which is an error here
        for axes in drawing.figure.axes:
            assert axes.get_window_extent().height >= 0.5 * drawing.figure.dpi, drawing.name


def test_the_label_of_an_axis_is_inside_the_figure_also_where_the_layout_changes_the_ticks(make_table):
    budget = Budget(evaluations=10, epochs_per_evaluation=3)
    trials = make_table({("a", 0): [{"epochs": 3, "objective": best} for best in (0.4306, 0.3327, 0.2812)]})
    figure = draw_panel(compute_content(anytime_curves(trials, budget)), budget, "evaluations")
    fix_layout(figure)
    FigureCanvasAgg(figure).draw()
    assert figure.axes[0].yaxis.label.get_window_extent().x0 >= 0.0


def test_learning_curves_are_of_the_best_trials(make_table):
    learning = {("a/repeat-0", 1): (0.9, 0.5), ("b/repeat-0", 0): (), ("a/repeat-0", 0): (0.8, 0.7)}
    trials = make_table({("a", 0): [2.0, 1.0], ("b", 0): [3.0, 4.0]})
    (drawing,) = tradeoff.learning(compute_results(trials, ReportContext("n", "p", BUDGET, {}, "", learning=learning)))
    assert [list(line.get_ydata()) for line in drawing.figure.axes[0].lines] == [[0.9, 0.5]]


def test_axes_without_values_have_no_panel(make_table, tmp_path, figures_as_svg):
    quick = make_table({("a", 0): [{"objective": 1.0, "train_seconds": 0.001}] * 3})
    assert "train_seconds" not in currencies(anytime_curves(quick, BUDGET))
    assert "train_seconds" in currencies(anytime_curves(make_table({("a", 0): [1.0]}), BUDGET))
    no_starts = typed_trials(make_table({("a", 0): [2.0, 1.0]}).assign(started_at=""), "a table")
    assert "wall_seconds" not in currencies(anytime_curves(no_starts, BUDGET))
    write_report(no_starts, ReportContext("n", "p", BUDGET, {}, ""), tmp_path)
    assert TITLES["wall_seconds"] not in (tmp_path / "index.html").read_text()
    assert time_unit(float("nan")) == (1e-3, "milliseconds")


def test_start_times_that_one_optimizer_lacks(make_table, tmp_path):
    trials = make_table({("a", 0): [2.0, 1.0], ("b", 0): [2.0, 1.0]})
    without = typed_trials(trials.assign(started_at=trials["started_at"].where(trials["optimizer"] == "a")), "a table")
    draw(without, tmp_path)
    assert [len(line.get_xdata()) for line in lines_of(panel_axes(without, "wall_seconds"))] == [2, 0]


def test_a_distant_budget_does_not_squeeze_the_curves(make_table):
    axes = panel_axes(make_table({("a", 0): [2.0, 1.0]}), budget=Budget(200, 25))
    assert axes.get_xlim()[1] < 4


def test_the_same_figure_gives_the_same_bytes(make_table, tmp_path):
    for folder in ("one", "two"):
        draw(make_table({("a", 0): [2.0, 1.0]}), tmp_path / folder)
    for kind in ("svg", "png", "pdf"):
        assert (tmp_path / f"one/anytime.{kind}").read_bytes() == (tmp_path / f"two/anytime.{kind}").read_bytes()
    assert not [path for path in (tmp_path / "one").iterdir() if path.name.startswith(".")]


def test_cells_are_placed_without_a_solver(monkeypatch, tmp_path):
    """The solver adds in the order of memory addresses, so that files would differ from process to process."""
    monkeypatch.setattr("kiwisolver.Solver", None)
    save_figure(cell_figure(joint_space().sample(np.random.default_rng(0))), tmp_path, "cell")


def test_a_folder_that_cannot_be_written(make_table, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ReportNotWritten, match="cannot write") as caught:
        draw(make_table({("a", 0): [1.0]}), tmp_path / "file")
    assert not isinstance(caught.value, FmnasError), "the input is right"


@pytest.mark.parametrize("seed", [0, 1])
def test_cell(seed):
    space = joint_space()
    configuration = space.sample(np.random.default_rng(seed))
    (axes,) = cell_figure(configuration).axes
    dead_edges = 2 * (4 - len(Cell.from_configuration(configuration).live_states()))
    assert len([text for text in axes.texts if text.get_color() == DEAD_STATE]) == dead_edges
    assert {"first output", "second output"} <= {text.get_text() for text in axes.texts}
    fills = {to_hex(patch.get_facecolor()) for patch in axes.patches}
    assert not fills & set(SERIES_COLOURS), "these are colours of optimizers"


def test_schedules():
    best = {name: joint_space().sample(np.random.default_rng(seed)) for seed, name in enumerate(("a", "b"))}
    (axes,) = schedules_figure(best).axes
    for line, configuration in zip(axes.lines, best.values(), strict=True):
        rates = list(line.get_ydata())
        assert (rates[0], rates[2]) == (configuration["learning_rate"], rates[3])
        assert min(rates) >= LOWEST_RATE


def test_epochs_are_a_second_scale(make_table):
    trials = make_table({("a", 0): [2.0, 1.0, 1.5]})
    axes = panel_axes(trials)
    (below,) = axes.child_axes
    axes.figure.draw_without_rendering()
    np.testing.assert_allclose(below.get_xlim(), 25 * np.array(axes.get_xlim()))
    assert not panel_axes(trials, budget=Budget(4, 1)).child_axes


def test_a_curve_is_drawn_from_its_steps(make_table):
    worse = [5.0] * 500
    runs = {("a", 0): [4.0, *worse, 3.0, *worse], ("a", 1): [4.5, *worse, 2.0, *worse]}
    (line,) = lines_of(panel_axes(make_table(runs), budget=Budget(2000, 25)))
    assert list(line.get_ydata()) == [4.25, 2.5, 2.5]


def test_fronts_are_of_full_results_at_equal_cost(make_table):
    """b has more results than a by now, and c a short training."""

    def trial(flops, error, **more):
        return {"objective": error, "flops_ratio": flops, "error": error, **more}

    runs = {
        ("a", 0): [trial(0.5, 0.5)],
        ("b", 0): [trial(0.5, 0.6), trial(0.1, 0.1)],
        ("c", 0): [trial(0.1, 0.1, epochs=5), trial(0.4, 0.9)],
    }
    context = ReportContext("n", "p", BUDGET, {}, "")
    (drawing,) = tradeoff.fronts(compute_results(make_table(runs), context))
    fronts = [line.get_xydata().tolist() for line in drawing.figure.axes[0].lines]
    assert fronts == [[[0.5, 0.5]], [[0.5, 0.6]]]
    assert not list(tradeoff.fronts(compute_results(make_table({("a", 0): [1.0]}), context)))
