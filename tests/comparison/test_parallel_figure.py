import numpy as np
import pandas as pd
import pytest

from fmnas.comparison import Budget
from fmnas.comparison.figures.parallel import BEST_LINES, MOST_LINES, coordinate, parallel_figure, shown_trials

BUDGET = Budget(evaluations=100, epochs_per_evaluation=25)


def test_numbers_run_from_the_smallest_to_the_largest():
    each = coordinate(pd.Series([1.0, 2.5, 4.0], name="x"))
    np.testing.assert_allclose(each.places, [0.0, 0.5, 1.0])
    assert each.ticks == ((0.0, "1"), (1.0, "4"))
    np.testing.assert_allclose(coordinate(pd.Series([0.001, 0.01, 0.1], name="lr")).places, [0.0, 0.5, 1.0])


@pytest.mark.parametrize("values", [["b", "a", "b", "c"], [2, 1, 2, 3], [True, False, True, True]])
def test_categories_keep_to_their_places(values):
    each = coordinate(pd.Series(values, name="kind", dtype="object"))
    assert [text for _, text in each.ticks] == [str(value) for value in sorted(set(values))]
    half = 0.25 / len(each.ticks)
    centres = {text: place for place, text in each.ticks}
    for value, place in zip(values, each.places, strict=True):
        assert abs(place - centres[str(value)]) <= half


def test_the_best_are_all_there_and_drawn_last(make_run):
    n = 3 * MOST_LINES
    trials = make_run("a", 0, [{"objective": float(i), "x": (7 * i % n) / n, "k": i % 3} for i in range(n)])
    shown = shown_trials(trials, BUDGET)
    assert len(shown) <= MOST_LINES
    assert list(shown["objective"])[-BEST_LINES:] == [float(i) for i in reversed(range(BEST_LINES))]
    figure = parallel_figure(shown)
    assert len(figure.axes[0].collections[0].get_segments()) == len(shown)


def test_a_variables_name_is_no_formula(make_run):
    figure = parallel_figure(make_run("a", 0, [{"objective": 1.0, "x": i, r"$\frac$": i} for i in range(9)]))
    assert [label.get_parse_math() for label in figure.axes[0].get_yticklabels()] == [False, False]


def test_too_little_to_draw(make_run):
    few = [{"objective": 1.0, "x": i, "k": i} for i in range(4)]
    assert parallel_figure(make_run("a", 0, few)) is None
    assert parallel_figure(make_run("a", 0, [float(i) for i in range(20)])) is None  # one variable


def test_a_category_stands_at_the_same_place_in_every_variable_that_shares_it(make_run):
    """Three edges of a cell took different operations, some alike; "x" is another variable's."""
    rows = zip(["conv", "pool", "conv", "pool", "conv"], ["skip", "conv"] * 2 + ["skip"], "xyxyx", strict=True)
    trials = make_run("a", 0, [{"objective": 1.0, "op1": a, "op2": b, "other": c} for a, b, c in rows])
    (axes,) = parallel_figure(trials).axes
    texts = {(round(text.get_position()[1]), text.get_text()): text.get_position()[0] for text in axes.texts}
    rows = {label.get_text(): row for row, label in enumerate(axes.get_yticklabels())}
    assert texts[rows["op1"], "conv"] == texts[rows["op2"], "conv"]
    places = [texts[rows["op1"], "conv"], texts[rows["op1"], "pool"], texts[rows["op2"], "skip"]]
    assert places == pytest.approx([1 / 6, 3 / 6, 5 / 6])
    assert (rows["op1"], "skip") not in texts, "it never took that"
    assert texts[rows["other"], "x"] == pytest.approx(0.25)
