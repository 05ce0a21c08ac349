import numpy as np
import pandas as pd
import pytest

from fmnas.comparison import Budget, ReportContext, anytime_curves, ledger_table, write_report
from fmnas.comparison.analysis.resampling import mean_interval
from fmnas.comparison.analysis.retrained import reduced_settings, retrained_summary
from fmnas.comparison.analysis.verdict import describe_power
from fmnas.comparison.summary import summarise

pytestmark = pytest.mark.slow

BUDGET = Budget(1, 25)


def row(optimizer, repeat, errors, **columns):
    return {
        "run": f"{optimizer}/repeat-{repeat}",
        "optimizer": optimizer,
        "repeat": repeat,
        "trial": 7,
        "selected_objective": 0.07,
        "selected_error": 0.06,
        "test_error": float(np.mean(errors)),
        **{f"test_error_seed_{i}": error for i, error in enumerate(errors, start=1)},
        "epochs": 50,
        "images": 60_000,
        "test_images": 10_000,
        "train_seconds": 12.5,
        "started_at": "2026-01-01T00:00:00+00:00",
        "finished_at": "2026-01-01T00:00:13+00:00",
        "worker": "w0",
        **columns,
    }


def table_of(errors):
    """A retrained table of {optimizer: {repeat: test error}}."""
    return pd.DataFrame([row(name, r, [error]) for name, mine in errors.items() for r, error in mine.items()])


def summary_of(make_table, retrained, folder=None, **context):
    """The summary of a search in which all results are equal, and whose best configurations were retrained."""
    trials = make_table({(name, r): [1.0] for name in dict.fromkeys(retrained["optimizer"]) for r in range(7)})
    curves, ledger = anytime_curves(trials, BUDGET), ledger_table(trials, BUDGET)
    context = ReportContext("n", "joint", BUDGET, {}, "", retrained=retrained, **context)
    summary = summarise(trials, curves, ledger, context)
    if folder is not None:
        write_report(trials, context, folder)
    return summary


def page_of(folder):
    return " ".join((folder / "index.html").read_text().split())


LOW, HIGH = {r: 0.1 + r / 100 for r in range(9)}, {r: 0.2 + r / 50 for r in range(9)}


def seven(errors):
    return {r: errors[r] for r in range(7)}


def test_by_hand():
    rows = [row("b", 0, [0.1, 0.3]), row("a", 0, [0.1, 0.1]), row("a", 1, [0.05, 0.1], selected_error=0.04)]
    summary = retrained_summary(pd.DataFrame(rows))
    assert [summary.epochs, summary.images, summary.seeds, summary.test_images] == [50, 60_000, 2, 10_000]
    first = summary.rows[0]
    assert (first.run, first.trial, first.errors, first.seconds) == ("b/repeat-0", 7, (0.1, 0.3), 12.5)
    assert first.error == pytest.approx(0.2)
    assert first.standard_error == pytest.approx(0.1)
    a, b = summary.means
    assert (a.optimizer, b.optimizer) == ("a", "b")
    assert (a.error, a.selected_error) == pytest.approx((0.0875, 0.05))
    assert a.standard_error == pytest.approx(0.0125)
    assert np.isnan(b.standard_error)
    assert retrained_summary(None) is None


def test_the_test_errors_have_tests_and_intervals_of_their_own(make_table):
    summary = summary_of(make_table, table_of({"b": seven(HIGH), "a": seven(LOW)}))
    a, b = summary.retrained.means
    assert (a.optimizer, a.error, a.repeats) == ("a", pytest.approx(0.13), 7)
    assert a.low == pytest.approx(mean_interval(np.array(list(seven(LOW).values())))[0])
    assert a.low < a.error < a.high < b.low
    (pair,) = summary.retrained.tests.pairs
    assert (pair.first, pair.second, pair.verdict, pair.p) == ("a", "b", "first better", 2 / 2**7)
    assert pair.difference == pytest.approx(0.13 - 0.26)
    with_ties = f"{describe_power(summary.retrained.tests)[:-1]} without ties, of which there are too many."
    assert describe_power(summary.tests) == with_ties
    # The search itself shows no difference, and the texts distinguish the two.
    assert summary.tests.pairs[0].verdict == "too few repeats to tell"
    tested, searched = (
        "a has the lowest mean test error, 0.1300 ± 0.0082. It is better than b",
        "a and b share the lowest",
    )
    assert 0 < summary.headline.index(tested) < summary.headline.index(f"{searched} mean objective: 1.000")
    assert "For the test errors: By the tests: a is better than b (p = 0.016)." in summary.caution


@pytest.mark.parametrize(
    ("full_training", "reduced"),
    [
        (
            {"epochs": 51, "images": 70_000, "seeds": 4},
            ["epochs 50 of 51", "images 60000 of 70000", "seeds 1 of 4"],
        ),
        ({"epochs": 50, "images": 60_000, "seeds": 1}, []),
    ],
)
def test_a_retraining_with_less_than_the_search_is_not_reliable(
    make_table, tmp_path, no_figures, full_training, reduced
):
    table = table_of({"a": {0: 0.1, 1: 0.2}, "b": {0: 0.3, 1: 0.4}})
    assert reduced_settings(retrained_summary(table), full_training) == reduced
    summary = summary_of(make_table, table, tmp_path, full_training=full_training)
    caution, page = summary.caution, page_of(tmp_path)
    assert (summary.headline.index("mean test error") < summary.headline.index("mean objective")) == (not reduced)
    assert ("rely on the test errors" in caution) == ("Rely on these errors" in page) == (not reduced)
    for text in (caution, page):
        assert (f"had less than the search ({', '.join(reduced)})" in text) == bool(reduced)


def test_the_test_errors_are_paired_by_repeat_and_tested_by_the_same_hypotheses(make_table):
    errors = {"a": {0: 0.1, 1: 0.2, 5: 0.9}, "b": {1: 0.3, 0: 0.3}, "c": {0: 0.5, 1: 0.5}}
    summary = summary_of(make_table, table_of(errors), hypotheses="b")
    pairs = {(pair.first, pair.second): pair for pair in summary.retrained.tests.pairs}
    assert set(pairs) == {("b", "a"), ("b", "c")}
    assert (pairs["b", "a"].repeats, pairs["b", "a"].difference) == (2, pytest.approx(0.15))
    assert "their means are not a fair comparison" in summary.caution
    assert describe_power(summary.retrained.tests).startswith("2 paired repeats")  # the search has seven


@pytest.mark.parametrize("repeats", [(0, 1), (1, 2)])
def test_means_over_different_repeats_are_not_called_comparable(make_table, repeats):
    table = table_of({"a": {0: 0.1, 1: 0.2}, "b": dict.fromkeys(repeats, 0.3)})
    assert ("not a fair comparison" in summary_of(make_table, table).caution) == (repeats != (0, 1))
