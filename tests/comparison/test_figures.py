import importlib
import re

import numpy as np
import pytest
from matplotlib.colors import to_hex

from fmnas.comparison import (
    Budget,
    ReportContext,
    ReportNotWritten,
    anytime_curves,
    anytime_figure,
    cell_figure,
    figures,
    has_cell,
    save_figure,
    write_report,
)
from fmnas.comparison.analysis.trials import typed_trials
from fmnas.comparison.figures import anytime, tradeoff
from fmnas.comparison.figures.anytime import SHARES, TITLES, anytime_panel, currencies
from fmnas.comparison.figures.canvas import time_unit
from fmnas.comparison.figures.cell import DEAD_STATE, LOWEST_RATE, cell_panel, cells_figure, schedule_panel
from fmnas.comparison.figures.files import FORMATS
from fmnas.comparison.figures.palette import SERIES_COLOURS
from fmnas.comparison.report import results_of
from fmnas.search_spaces import Cell, FmnasError, joint_space

SHOWN = ("evaluations", "seconds")
BUDGET = Budget(evaluations=4, epochs_per_evaluation=25)


def draw(trials, folder, budget=BUDGET, title="a figure"):
    figure = anytime_figure(anytime_curves(trials, budget), budget, title)
    png, svg, pdf = save_figure(figure, folder, "anytime")
    assert png.read_bytes().startswith(b"\x89PNG")
    assert svg.read_text().rstrip().endswith("</svg>")
    assert pdf.read_bytes().startswith(b"%PDF")
    return figure


def test_a_multi_fidelity_comparison(make_table, tmp_path):
    partial = {"epochs": 5, "objective": 0.001}
    figure = draw(
        make_table(
            {
                ("bo-fm", 0): [0.2, 0.1, 0.08, 0.07],
                ("bo-fm", 1): [0.3, 0.12, 0.07, 0.07],
                ("bohb", 0): [partial, partial, 0.92, partial, 0.1],
                ("bohb", 1): [partial, 0.2, partial, 0.15, partial],
            }
        ),
        tmp_path,
    )
    left, right = (next(axes for axes in figure.axes if axes.get_title(loc="left") == TITLES[name]) for name in SHOWN)
    low, high = left.get_ylim()
    assert 0.03 < low < 0.07  # the short trainings' 0.001 is nowhere
    assert high < 0.9  # nor is the diverged start
    assert right.get_xlabel() == "training + suggestion time (seconds)"
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["bo-fm", "bohb"]
    # Every curve is a step: no slope is drawn between two results. The bars stand upright.
    curves = [line for line in right.lines if line.get_drawstyle() == "steps-post"]
    bars = [line for line in right.lines if line not in curves]
    assert len(curves) == 2
    # Of bohb, not all repeats have a result before the half, and then the bar from 0.2 to 0.92 is beyond the axis.
    assert len(bars) == 2 * len(SHARES) - 3
    assert all(low <= y <= high for bar in bars for y in bar.get_ydata())
    assert all(len(set(line.get_xdata())) == 1 for line in bars)


def test_the_mean_ends_where_the_first_run_ends(make_table, tmp_path):
    figure = draw(make_table({("a", 0): [4.0, 3.0, 2.0, 1.0], ("a", 1): [4.0, 2.0]}), tmp_path)
    thick = [line for line in figure.axes[0].lines if line.get_drawstyle() == "steps-post"]
    assert [list(line.get_xdata()) for line in thick] == [[1.0, 2.0]]
    np.testing.assert_allclose(thick[0].get_ydata(), [4.0, 2.5])


@pytest.mark.parametrize(
    "runs",
    [
        {("a", 0): [1.0]},
        {("a", 0): [0.0, 0.0]},
        {("a", 0): [{"status": "failed"}]},
        {("a", 0): [{"status": "lost"}]},
        {("bohb", 0): [{"epochs": 5}]},
        {("a", 0): [-0.1, -0.2], ("a", 1): [0.1, -0.15]},
        {("_odd $name$ <&>", 0): [1.0], ("名", 0): [2.0]},
        {(f"o{i}", 0): [1.0 + i, 0.001] for i in range(20)},
    ],
)
def test_odd_tables_are_drawn_without_warnings(make_table, tmp_path, runs):
    draw(make_table(runs), tmp_path, title="$odd_ {title")


def test_no_trials(make_run, tmp_path):
    figure = draw(make_run("a", 0, [1.0]).iloc[:0], tmp_path)
    assert "no full-fidelity result yet" in [text.get_text() for text in figure.axes[0].texts]


def test_a_wide_range_is_logarithmic_only_above_zero(make_table, tmp_path):
    assert draw(make_table({("a", 0): [10.0, 0.1]}), tmp_path).axes[0].get_yscale() == "log"
    assert draw(make_table({("a", 0): [10.0, -0.1]}), tmp_path).axes[0].get_yscale() == "linear"


def test_where_the_minimum_is_known_the_regret_is_drawn(make_table):
    curves = anytime_curves(make_table({("a", r): [1.5 + r, -0.9, -0.99 + r / 1000] for r in range(2)}), BUDGET)
    (axes, *_) = anytime_panel(curves, BUDGET, "evaluations", minimum=-1.0).axes
    assert axes.get_ylabel() == "objective − minimum, log scale"
    (line,) = [line for line in axes.lines if line.get_drawstyle() == "steps-post"]
    np.testing.assert_allclose(line.get_ydata(), [3.0, 0.1, 0.0105])
    (axes, *_) = anytime_panel(curves, BUDGET, "evaluations", minimum=-0.95).axes  # which it is not
    assert axes.get_ylabel() == "objective"


def test_the_caption_says_whether_the_regret_is_drawn(make_table):
    trials = make_table({("a", 0): [1.5, 0.5]})
    for minimum, words in ((0.0, "above the known minimum"), (None, "The best objective so far,")):
        results = results_of(trials, ReportContext("n", "p", BUDGET, {}, "", minimum=minimum))
        (caption,) = [each.caption for each in anytime.drawings(results) if each.leads]
        assert words in caption
        assert "Bars" not in caption, "one repeat has none"


def test_all_panels_have_one_scale_and_say_which(make_table):
    """The second repeat is so slow that by every clock the first ends before it has a result."""
    slow = [{"objective": of, "train_seconds": 900.0, "at": at} for of, at in ((2.0, 900.0), (0.1, 1800.0))]
    curves = anytime_curves(make_table({("a", 0): [2.0, 0.1], ("a", 1): slow}), BUDGET)
    panels = {axis: anytime_panel(curves, BUDGET, axis).axes[0] for axis in currencies(curves)}
    assert len(panels) == 4
    assert {panel.get_ylabel() for panel in panels.values()} == {"objective, log scale"}
    assert len({panel.get_ylim() for panel in panels.values()}) == 1
    together = anytime_figure(curves, BUDGET, "together")
    assert {axes.get_ylim() for axes in together.axes} == {panel.get_ylim() for panel in panels.values()}
    marked = {axis: [line for line in panel.lines if line.get_markevery()] for axis, panel in panels.items()}
    assert {axis: len(lines) for axis, lines in marked.items()} == {
        "evaluations": 1,  # 0.1, where both end
        "train_seconds": 0,  # the first has ended when the second has no result
        "seconds": 0,
        "wall_seconds": 0,
    }


def bars_of(axes):
    """x, low and high of each bar."""
    return [(*bar.get_xdata()[:1], *bar.get_ydata()) for bar in axes.lines if bar.get_drawstyle() == "default"]


def test_bars_stand_within_the_line_of_their_optimizer(make_table):
    """Each optimizer has a repeat that ends early by the clock, and one that goes on for hours."""
    quick = [{"objective": of, "train_seconds": 1.0} for of in (2.0, 1.5, 1.2, 1.1)]
    slow = [{"objective": of, "train_seconds": of * s} for of, s in ((2.0, 0.1), (1.4, 0.2), (1.2, 9000.0))]
    trials = make_table({(name, r): run for name in "abcd" for r, run in enumerate((quick, slow))})
    curves = anytime_curves(trials, Budget(4, 25))
    (axes,) = anytime_panel(curves, BUDGET, "train_seconds").axes
    lines = [line for line in axes.lines if line.get_drawstyle() == "steps-post"]
    first, last = (edge(line.get_xdata()[i] for line in lines) for edge, i in ((min, 0), (max, -1)))
    assert last == 4.0
    assert axes.get_xlabel() == "training time (seconds)"
    bars = bars_of(axes)
    assert len(bars) == 4 * (len(SHARES) - 1)  # the first of each is higher than the axis
    assert all(first <= x <= last for x, _, _ in bars)
    assert len({x for x, _, _ in bars}) == len(bars), "side by side"
    assert axes.get_xlim()[1] < 1.1 * last


def test_an_optimizer_without_a_line_is_named_with_the_reason(make_table):
    """Of "late" one repeat has no result when the other ends by the clock; of "none" a repeat has none at all."""
    late = [{"objective": 1.0, "train_seconds": 900.0, "at": 900.0}]
    failed = [{"status": "failed"}]
    runs = {"plain": ([2.0, 1.0], [2.0, 1.0]), "late": ([2.0, 1.0], late), "none": ([1.0], failed)}
    trials = make_table({(name, r): run for name, both in runs.items() for r, run in enumerate(both)})
    shown = list(anytime.drawings(results_of(trials, ReportContext("n", "p", BUDGET, {}, ""))))
    captions = {each.name: each.caption for each in shown}
    assert "Not drawn: none, because not every repeat has a" in captions["anytime_evaluations"]
    assert "late" not in captions["anytime_evaluations"].partition("Not drawn")[2]
    for axis in ("train_seconds", "seconds"):
        assert "Not drawn: late, because one of its repeats ends" in captions[f"anytime_{axis}"]
        assert "Not drawn: none, because not every repeat" in captions[f"anytime_{axis}"]
        panel = next(each for each in shown if each.name == f"anytime_{axis}").figure.axes[0]
        assert "2 of 3 optimizers not drawn" in [text.get_text() for text in panel.texts]
    everything = results_of(trials[trials["optimizer"] == "plain"], ReportContext("n", "p", BUDGET, {}, ""))
    assert not any("Not drawn" in each.caption for each in anytime.drawings(everything))


def test_final_results_take_a_quarter_of_the_axis(make_table):
    """All begin at 0.4 and stay there for half of the budget, and end at 0.100 to 0.106: the axis is cut above."""
    ends = {"a": 0.1, "b": 0.102, "c": 0.106}
    trials = make_table({(name, 0): [0.4, 0.4, 0.2, end] for name, end in ends.items()})
    (axes,) = anytime_panel(anytime_curves(trials, BUDGET), BUDGET, "evaluations").axes[:1]
    bottom, top = axes.get_ylim()
    assert bottom < 0.1
    assert top > 0.106
    assert 0.15 * (top - bottom) <= 0.006
    (alone,) = anytime_panel(anytime_curves(trials[trials["optimizer"] == "a"], BUDGET), BUDGET, "evaluations").axes[:1]
    assert alone.get_ylim()[1] > 0.4, "one optimizer has nothing to differ from"


def test_evaluations_have_whole_ticks(make_table):
    (axes,) = anytime_panel(anytime_curves(make_table({("a", 0): [3.0, 2.0, 1.0]}), BUDGET), BUDGET, "evaluations").axes
    axes.figure.draw_without_rendering()
    assert all(float(tick).is_integer() for tick in axes.get_xticks())


def test_rounding_is_no_range_of_an_axis(make_table):
    (axes, *_) = anytime_panel(
        anytime_curves(make_table({("a", 0): [0.2], ("a", 1): [0.2 + 3e-17]}), BUDGET), BUDGET, "evaluations"
    ).axes
    assert np.diff(axes.get_ylim()) > 0.01


def test_many_optimizers_and_long_labels_leave_the_axes_their_size(make_table, tmp_path):
    names = [f"an-optimizer-with-a-label-of-forty-{i:06}" for i in range(12)]
    trials = make_table({(name, 0): [{"objective": 1.0, "flops_ratio": 0.5, "flops": 1.0}] for name in names})
    learning = {(f"{name}/repeat-0", 0): [1.0, 0.5] for name in names}
    context = ReportContext("n", "p", BUDGET, {}, "", learning=learning)
    for each in figures.drawn(results_of(trials.assign(error=trials["objective"]), context)):
        save_figure(each.figure, tmp_path, each.name)  # a layout that collapses warns, which is an error here
        for axes in each.figure.axes:
            assert axes.get_window_extent().height >= 0.5 * each.figure.dpi, each.name


def test_what_an_own_function_reported_is_not_called_an_error(make_table):
    trials = make_table({("a", 0): [2.0]})
    context = ReportContext("n", "p", BUDGET, {}, "", learning={("a/repeat-0", 0): [3.0, 2.0]})
    for given, words in ((trials, "what was reported"), (trials.assign(error=0.5), "validation error")):
        (drawing,) = tradeoff.learning(results_of(given, context))
        assert drawing.figure.axes[0].get_ylabel() == words
        assert ("error" in drawing.caption.lower()) == (words == "validation error")


def test_trainings_of_no_time_have_no_panel_of_it(make_table):
    quick = make_table({("a", 0): [{"objective": 1.0, "train_seconds": 0.001}] * 3})
    assert "train_seconds" not in currencies(anytime_curves(quick, BUDGET))
    assert "train_seconds" in currencies(anytime_curves(make_table({("a", 0): [1.0]}), BUDGET))


def test_a_table_that_does_not_say_when_has_no_wall_clock(make_table, tmp_path):
    trials = make_table({("a", 0): [2.0, 1.0], ("b", 0): [3.0]})
    trials = typed_trials(trials.assign(started_at=""), "a table")
    assert "wall_seconds" not in currencies(anytime_curves(trials, BUDGET))
    write_report(trials, ReportContext("n", "p", BUDGET, {}, ""), tmp_path)
    assert "Wall-clock time" not in (tmp_path / "index.html").read_text()
    assert time_unit(float("nan")) == (1e-3, "milliseconds")


def test_a_distant_budget_does_not_squeeze_the_curves(make_table, tmp_path):
    left = draw(make_table({("a", 0): [2.0, 1.0]}), tmp_path, Budget(200, 25)).axes[0]
    assert left.get_xlim()[1] < 4
    assert "budget 200 →" in [text.get_text() for text in left.texts]


def test_the_same_figure_gives_the_same_bytes(make_table, tmp_path):
    for folder in ("one", "two"):
        draw(make_table({("a", 0): [2.0, 1.0]}), tmp_path / folder)
    for kind in ("svg", "png", "pdf"):
        assert (tmp_path / f"one/anytime.{kind}").read_bytes() == (tmp_path / f"two/anytime.{kind}").read_bytes()
    assert not [path for path in (tmp_path / "one").iterdir() if path.name.startswith(".")]


def test_no_solver_finds_the_places_of_cells(monkeypatch, tmp_path):
    """Rows of panels that it placed gave other bytes now and then: it adds up in the order of memory addresses."""
    monkeypatch.setattr("kiwisolver.Solver", None)
    cells = {f"cell {seed}": joint_space().sample(np.random.default_rng(seed)) for seed in range(3)}
    save_figure(cells_figure(cells), tmp_path, "cells")


def test_a_place_that_cannot_be_written(make_table, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError, match="cannot write") as caught:
        draw(make_table({("a", 0): [1.0]}), tmp_path / "file")
    assert type(caught.value) is ReportNotWritten
    assert not isinstance(caught.value, FmnasError)  # which says that the input is wrong


def test_cell(tmp_path):
    space = joint_space()
    assert has_cell(space.names)
    assert not has_cell(["x", "op1"])
    for seed in range(2):
        configuration = space.sample(np.random.default_rng(seed))
        figure = cell_figure(configuration, "the $best")
        save_figure(figure, tmp_path, f"cell{seed}")
        cell = Cell.from_configuration(configuration)
        grey = [text for text in figure.axes[0].texts if text.get_color() == DEAD_STATE]
        assert len(grey) == 2 * (4 - len(cell.live_states()))
        told = {text.get_text() for text in figure.axes[0].texts}
        assert {"first output", "second output"} <= told
        fills = {to_hex(patch.get_facecolor()) for patch in figure.axes[0].patches}
        assert not fills & set(SERIES_COLOURS), "an optimizer's colour"
        assert len([text for text in cell_panel(configuration).axes[0].texts if text.get_color() == DEAD_STATE]) == len(
            grey
        )
        (rate,) = schedule_panel(configuration, "#000000").axes
        rates = rate.lines[0].get_ydata()
        assert list(rates) == list(figure.axes[1].lines[0].get_ydata())
        assert min(rates) >= LOWEST_RATE
        assert rates[0] == configuration["learning_rate"]


def test_a_cell_without_a_schedule(tmp_path):
    configuration = joint_space().sample(np.random.default_rng(0))
    only_cell = {name: configuration[name] for name in configuration if name[:2] in ("op", "in") or name == "output"}
    figure = cell_figure(only_cell, "cell")
    assert len(figure.axes) == 1
    assert schedule_panel(only_cell, "#000000") is None
    save_figure(figure, tmp_path, "cell")
    assert len(cells_figure({"one": configuration, "$two": only_cell}).axes) == 3 + 1


def test_every_currency_has_a_panel_and_epochs_a_second_scale(make_table):
    curves = anytime_curves(make_table({("a", 0): [2.0, 1.0, 1.5]}), BUDGET)
    assert {"evaluations", "seconds"} <= set(currencies(curves))
    assert currencies(curves.drop(columns="seconds")) == [axis for axis in currencies(curves) if axis != "seconds"]
    (axes,) = anytime_panel(curves, BUDGET, "evaluations").axes
    (below,) = axes.child_axes
    axes.figure.draw_without_rendering()
    np.testing.assert_allclose(below.get_xlim(), 25 * np.array(axes.get_xlim()))
    (axes,) = anytime_panel(curves, Budget(4, 1), "evaluations").axes
    assert not axes.child_axes


def test_a_curve_is_drawn_from_its_steps(make_table):
    worse = [5.0] * 500
    runs = {("a", 0): [4.0, *worse, 3.0, *worse], ("a", 1): [4.5, *worse, 2.0, *worse]}
    figure = anytime_panel(anytime_curves(make_table(runs), Budget(2000, 25)), Budget(2000, 25), "evaluations")
    curves = [line for line in figure.axes[0].lines if line.get_drawstyle() == "steps-post"]
    assert [list(line.get_ydata()) for line in curves] == [[4.25, 2.5, 2.5]]


def test_a_figure_is_a_file_and_a_row(make_table, tmp_path, monkeypatch):
    """Whoever adds one touches nothing else: it is written, and the page shows it in its section with its caption."""
    (tmp_path / "spread.py").write_text(
        "from fmnas.comparison.figures.canvas import PANEL, Drawing, label, plain, sheet\n"
        "def drawings(results):\n"
        "    figure = sheet(*PANEL)\n"
        "    axes = figure.subplots()\n"
        "    plain(axes)\n"
        "    axes.plot([min(row.values.values()) for row in results.summary.optimizers.values()])\n"
        '    label(axes, x="optimizer")\n'
        '    yield Drawing("spread", figure, "What a < b & c mean.")\n'
    )
    monkeypatch.syspath_prepend(tmp_path)
    row = ("checkpoints", importlib.import_module("spread").drawings)
    monkeypatch.setattr(figures, "FIGURES", (*figures.FIGURES, row))
    folder = tmp_path / "report"
    write_report(make_table({("a", 0): [2.0, 1.0, 1.5]}), ReportContext("n", "p", Budget(3, 25), {}, ""), folder)
    assert {f"spread.{kind}" for kind in FORMATS} <= {path.name for path in folder.iterdir()}
    html = (folder / "index.html").read_text()
    (section,) = re.findall(r"<div class='body' id='checkpoints'>(.*?)</section>", html, flags=re.DOTALL)
    assert 'aria-label="spread"' in section
    assert "<figcaption>What a &lt; b &amp; c mean.</figcaption>" in section
