import json

import numpy as np
import pandas as pd
import pytest

from fmnas.comparison import Budget, ReportContext, ReportError, anytime_curves, ledger_table, write_report
from fmnas.comparison.analysis.resampling import mean_interval
from fmnas.comparison.analysis.retrained import read_retrained, retrained_summary
from fmnas.comparison.analysis.verdict import power
from fmnas.comparison.report import write_tables
from fmnas.comparison.summary import summarise


def row(optimizer, repeat, errors, **given):
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
        **given,
    }


def write(folder, rows):
    pd.DataFrame(rows).to_csv(folder / "retrained.csv", index=False)
    return folder / "retrained.csv"


def test_by_hand(tmp_path):
    rows = [row("b", 0, [0.1, 0.3]), row("a", 0, [0.1, 0.1]), row("a", 1, [0.05, 0.1], selected_error=0.04)]
    found = retrained_summary(read_retrained(write(tmp_path, rows)))
    assert [found.epochs, found.images, found.seeds, found.test_images] == [50, 60_000, 2, 10_000]
    first = found.rows[0]
    assert (first.run, first.trial, first.errors, first.seconds) == ("b/repeat-0", 7, (0.1, 0.3), 12.5)
    assert first.error == pytest.approx(0.2)
    assert first.standard_error == pytest.approx(0.1)
    a, b = found.means
    assert (a.optimizer, b.optimizer) == ("a", "b")
    assert (a.error, a.selected_error) == pytest.approx((0.0875, 0.05))
    assert a.standard_error == pytest.approx(0.0125)
    assert np.isnan(b.standard_error)


def test_settings_that_differ_are_not_one(tmp_path):
    found = retrained_summary(read_retrained(write(tmp_path, [row("a", 0, [0.1]), row("a", 1, [0.1], epochs=25)])))
    assert (found.epochs, found.images) == (None, 60_000)


def test_in_the_summary(make_table, tmp_path):
    trials = make_table({("a", 0): [1.0]})
    table = read_retrained(write(tmp_path, [row("a", 0, [0.1])]))
    context = ReportContext("n", "joint", Budget(1, 25), {}, "", retrained=table)
    summary = write_report(trials, context, tmp_path / "report").to_json()
    json.dumps(summary, allow_nan=False)
    assert summary["retrained"]["means"] == [
        {
            "optimizer": "a",
            "selected_error": 0.06,
            "error": 0.1,
            "standard_error": None,
            "low": None,
            "high": None,
            "repeats": 1,
        }
    ]
    assert summary["retrained"]["tests"]["pairs"] == []
    without = write_report(trials, ReportContext("n", "joint", Budget(1, 25), {}, ""), tmp_path / "report")
    assert without.retrained is None


def several(runs):
    """A retrained table of {optimizer: test error by repeat}."""
    return pd.DataFrame([row(name, r, [error]) for name, errors in runs.items() for r, error in errors.items()])


def told(make_table, runs, hypotheses="all", folder=None):
    """The summary of a search in which all are equal, and whose best were trained again."""
    trials = make_table({(name, r): [1.0] for name in runs for r in range(7)})
    context = ReportContext("n", "joint", Budget(1, 25), {}, "", retrained=several(runs), hypotheses=hypotheses)
    curves, ledger = anytime_curves(trials, context.budget), ledger_table(trials, context.budget)
    summary = summarise(trials, curves, ledger, context)
    if folder is not None:
        write_tables(summary, curves, folder)
    return summary


def test_the_test_errors_have_tests_and_intervals_of_their_own(make_table, tmp_path):
    low, high = {r: 0.1 + r / 100 for r in range(7)}, {r: 0.2 + r / 50 for r in range(7)}
    summary = told(make_table, {"b": high, "a": low}, folder=tmp_path)
    a, b = summary.retrained.means
    assert (a.optimizer, a.error, a.repeats) == ("a", pytest.approx(0.13), 7)
    assert a.low == pytest.approx(mean_interval(np.array(list(low.values())))[0])
    assert a.low < a.error < a.high < b.low
    (pair,) = summary.retrained.tests.pairs
    assert (pair.first, pair.second, pair.verdict, pair.p) == ("a", "b", "first better", 2 / 2**7)
    assert pair.difference == pytest.approx(0.13 - 0.26)
    assert power(summary.retrained.tests) == power(summary.tests)
    assert list(pd.read_csv(tmp_path / "retrained_tests.csv")["verdict"]) == ["first better"]
    # The search itself shows nothing, and the words keep the two apart.
    assert summary.tests.pairs[0].verdict == "too few repeats to tell"
    assert summary.headline.startswith("a and b share the lowest mean objective: 1.000")
    assert "on test images: a has the lowest mean test error, 0.1300 ± 0.0082. It is better than b" in summary.headline
    assert "are the ones to believe. Among them, by the tests: a is better than b (p = 0.016)." in summary.caution


@pytest.mark.parametrize(
    ("searched", "less"),
    [
        ({"epochs": 51, "images": 60_000, "seeds": 1}, "(epochs 50 of 51)"),
        ({"epochs": 51, "images": 70_000, "seeds": 4}, "(epochs 50 of 51, images 60000 of 70000, seeds 1 of 4)"),
        ({"epochs": 50, "images": 60_000, "seeds": 1}, ""),
        ({"epochs": 25, "images": 10_000}, ""),
        ({}, ""),
    ],
)
def test_what_had_less_than_the_search_is_not_to_be_believed(make_table, tmp_path, searched, less):
    trials = make_table({(name, r): [1.0] for name in "ab" for r in range(2)})
    again = several({"a": {0: 0.1, 1: 0.2}, "b": {0: 0.3, 1: 0.4}})
    context = ReportContext("n", "joint", Budget(1, 25), {}, "", retrained=again, searched=searched)
    told = write_report(trials, context, tmp_path).caution
    shown = " ".join((tmp_path / "index.html").read_text().split())
    assert ("are the ones to believe" in told) == ("errors to believe" in shown) == (not less)
    assert ("had less than in the search " + less in told) == ("had less than the search's " + less in shown)
    assert ("had less" in told) == bool(less)


def test_the_test_errors_are_paired_by_repeat_and_tested_by_the_same_hypotheses(make_table):
    runs = {"a": {0: 0.1, 1: 0.2, 5: 0.9}, "b": {1: 0.3, 0: 0.3}, "c": {0: 0.5, 1: 0.5}}
    summary = told(make_table, runs, "b")
    pairs = {(pair.first, pair.second): pair for pair in summary.retrained.tests.pairs}
    assert set(pairs) == {("b", "a"), ("b", "c")}
    assert (pairs["b", "a"].repeats, pairs["b", "a"].difference) == (2, pytest.approx(0.15))
    assert "not there for the same repeats of every optimizer" in summary.caution
    assert "2 paired repeats: the smallest p" in summary.caution  # the search has seven


def test_an_optimizer_that_was_trained_again_once_silences_nobody(make_table):
    low, high = {r: 0.1 + r / 100 for r in range(9)}, {r: 0.2 + r / 50 for r in range(9)}
    summary = told(make_table, {"a": low, "b": high, "c": {0: 0.9}})
    assert "It is better than b (corrected p = 0.012)" in summary.headline
    assert "Among them, 1 to 9 paired repeats, by pair: the smallest p" in summary.caution
    assert "a is better than b (p = 0.012)" in summary.caution


def test_the_lowest_test_error_may_be_shared(make_table):
    summary = told(make_table, {"a": {0: 0.25}, "b": {0: 0.25}, "c": {0: 0.3}})
    assert summary.headline.endswith("measured on test images: a and b share the lowest test error, 0.2500.")
    summary = told(make_table, {"a": {0: 0.1, 1: 0.2, 2: 0.3}, "b": {0: 0.3, 1: 0.2, 2: 0.1}})
    assert "share the lowest mean test error, 0.200 ± 0.058." in summary.headline


@pytest.mark.parametrize(
    ("other", "what"),
    [
        ({"epochs": 25, "images": 3000}, "epochs and images"),
        ({"test_images": 500}, "test images"),
        ({"test_error_seed_2": 0.5}, "seeds"),
    ],
)
def test_what_was_not_trained_alike_is_not_compared(make_table, tmp_path, other, what):
    rows = [row("a", r, [0.1 + r / 100]) for r in range(7)] + [row("b", r, [0.3 + r / 100], **other) for r in range(7)]
    again = read_retrained(write(tmp_path, rows))
    trials = make_table({(name, r): [1.0] for name in "ab" for r in range(7)})
    summary = write_report(trials, ReportContext("n", "joint", Budget(1, 25), {}, "", retrained=again), tmp_path / "to")
    assert (summary.retrained.tests.pairs, len(summary.retrained.means)) == ((), 2)
    assert "better" not in summary.headline
    assert summary.headline.endswith("not all in the same way: their test errors are not compared.")
    assert f"not all trained in the same way ({what} differ)" in summary.caution
    shown = " ".join((tmp_path / "to" / "index.html").read_text().split())
    assert f"not compared: they differ in {what.replace(' and', ',')}. Test errors on images that no optimizer" in shown
    assert "None" not in shown


def test_none():
    assert retrained_summary(None) is None


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda t: t.drop(columns="test_error"), "column 'test_error' is missing"),
        (lambda t: t.assign(images="many"), "column 'images' does not parse"),
        (lambda t: t.assign(images=2**63), "column 'images' does not parse"),
        (lambda t: t.assign(test_error_seed_1="x"), "column 'test_error_seed_1' does not parse"),
    ],
)
def test_errors_name_file_and_column(tmp_path, change, message):
    path = write(tmp_path, change(pd.DataFrame([row("a", 0, [0.1])])))
    with pytest.raises(ReportError, match=rf"retrained\.csv: {message}"):
        read_retrained(path)


def test_a_file_that_is_none(tmp_path):
    (tmp_path / "retrained.csv").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ReportError, match="cannot read"):
        read_retrained(tmp_path / "retrained.csv")
    (tmp_path / "retrained.csv").write_bytes(b"")
    with pytest.raises(ReportError, match="cannot read"):
        read_retrained(tmp_path / "retrained.csv")
