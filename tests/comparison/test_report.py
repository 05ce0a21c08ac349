"""Whole reports: the files, the CSV tables, and an HTML page that any data leave well-formed."""

import json
from html.parser import HTMLParser

import numpy as np
import pandas as pd
import pytest

from fmnas.comparison import Budget, ReportContext, anytime_curves, ledger_table, write_report
from fmnas.comparison.analysis.trials import PlannedRun, typed_trials
from fmnas.comparison.report import CURVES, GRID, MEAN_CURVE_COLUMNS, compute_results, write_tables
from fmnas.comparison.summary import FINAL_HEADER, Remark, final_rows, summarise
from fmnas.search_spaces import joint_space

pytestmark = pytest.mark.slow

BUDGET = Budget(evaluations=3, epochs_per_evaluation=25)
TABLES = ("results", "curves", "mean_curves", "mean_ranks", "checkpoints", "tests", "targets", "ledger")
VOID = {"meta", "link", "br", "hr", "img", "input"}


class Reader(HTMLParser):
    """Checks that tags nest, ids are unique, and nothing is fetched; keeps the text."""

    def __init__(self):
        super().__init__()
        self.open, self.ids, self.text, self.tags = [], set(), "", set()

    def handle_starttag(self, tag, attrs):
        self.handle_startendtag(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        for name, value in attrs:
            if name == "id":
                assert value not in self.ids
                self.ids.add(value)
            if name in ("src", "href", "xlink:href"):
                assert value.startswith(("#", "data:"))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


def report(trials, folder, name="first look"):
    """The summary, and the text of the page."""
    context = ReportContext(
        name, "a problem", BUDGET, {"versions": {"torch": "2.9"}, "devices": ["gpu"]}, "seeds: 4 # <b>&"
    )
    summary = write_report(trials, context, folder)
    reader = Reader()
    reader.feed((folder / "index.html").read_text())
    reader.close()
    assert not reader.open
    assert "script" not in reader.tags
    json.dumps(summary.to_json(), allow_nan=False)
    assert all(len(row) == len(FINAL_HEADER) for row in final_rows(summary))
    return summary, reader.text


def tables_of(trials, folder):
    """The summary, and every CSV table as it reads back."""
    curves = anytime_curves(trials, BUDGET)
    summary = summarise(trials, curves, ledger_table(trials, BUDGET), ReportContext("n", "p", BUDGET, {}, ""))
    return summary, {path.stem: pd.read_csv(path) for path in write_tables(summary, curves, folder)}


def test_a_comparison(make_table, tmp_path):
    runs = {
        ("bo-fm", 0): [3.0, 2.0, {"objective": 1.0, "origin": "model"}],
        ("re", 0): [4.0, {"status": "failed", "reason": "oom"}, 5.0],
    }
    summary, text = report(make_table(runs), tmp_path)
    plain = summary.to_json()
    assert list(plain["optimizers"]) == ["bo-fm", "re"]
    bofm = plain["optimizers"]["bo-fm"]
    assert (bofm["mean"], bofm["standard_error"], bofm["values"]) == (1.0, None, {"0": 1.0})
    assert bofm["best_configuration"] == {"x": 2 / 7}
    assert (plain["sanity_checks"][0]["method_unused"], bofm["model_share"]) == (False, 1 / 3)
    assert plain["compared_at"] == {"epochs": 75, "evaluations": 3.0}
    assert [run["epochs"] for run in plain["ledger"]] == [75, 75]
    assert plain["incidents"] == [{"optimizer": "re", "what": "failed", "text": "oom", "trials": 1}]
    for part in (summary.headline, summary.caution, "versions.torch", "2.9", "seeds: 4 # <b>&", "oom"):
        assert part in text
    assert final_rows(summary)[0] == ("bo-fm", "1.000", "–", "–", "1", "1.000", "–", "3.0", "75", "33%")
    names = ("anytime", *(f"anytime_{axis}" for axis in ("evaluations", "train_seconds", "seconds", "wall_seconds")))
    figures = {f"{name}.{kind}" for name in names for kind in ("png", "svg", "pdf")}
    assert {path.name for path in tmp_path.iterdir()} == {"index.html", *figures, *(f"{name}.csv" for name in TABLES)}


@pytest.mark.parametrize(
    "runs",
    [
        {("a", 0): [{"status": "failed"}] * 3, ("b", 0): [{"status": "timed_out"}] * 3},
        {("a", 0): [{"status": "lost"}], ("b", 0): [{"status": "cancelled"}]},
        {("bohb", 0): [{"epochs": 5}] * 15, ("bohb", 1): [{"epochs": 5}]},
        {("a", 0): [1.0, 2.0, 3.0], ("a", 1): [1.0], ("b", 0): [2.0]},
        {("a", 0): [{"note": "model failed"}, float("inf"), {"diverged": True, "objective": 0.9}]},
    ],
)
def test_edges(make_table, tmp_path, figures_as_svg, runs):
    report(make_table(runs), tmp_path)


def test_no_trials(make_run, tmp_path, figures_as_svg):
    summary, text = report(make_run("a", 0, [1.0]).iloc[:0], tmp_path)
    assert summary.optimizers == {}
    assert final_rows(summary) == []
    assert summary.headline in text
    assert summary.caution == ""


def test_remarks_of_the_context(make_table, tmp_path, no_figures):
    remarks = [Remark("The moon was full."), Remark("re knows the budget.", "re")]
    runs = [PlannedRun(f"{name}/repeat-{r}", name, r) for name in ("re", "bohb") for r in range(2)]
    context = ReportContext("n", "p", BUDGET, {}, "", remarks=remarks, runs=runs, by_design={"re": "random"})
    table = make_table({("re", 0): [3.0] * 3, ("re", 1): [2.0] * 3, ("bohb", 0): [4.0] * 3})
    summary = write_report(table, context, tmp_path)
    html = (tmp_path / "index.html").read_text()
    assert "bohb never used its own method" in summary.caution
    assert summary.caution.endswith("The moon was full.")
    assert summary.caution in html
    assert "<p>re knows the budget.</p>" in html
    assert summary.to_json()["remarks"][1] == {"text": "re knows the budget.", "optimizer": "re"}
    assert [row[-1] for row in final_rows(summary)] == ["–", "0%"]
    assert (np.isnan(summary.optimizers["bohb"].mean), summary.optimizers["bohb"].repeats) == (True, 2)
    curves = (tmp_path / "curves.csv").read_text()
    assert "bohb/repeat-0" in curves
    assert "bohb/repeat-1" not in curves  # a run without a trial has no row in a table of trials


def test_the_best_cell_is_drawn(make_run, tmp_path):
    space, rng = joint_space(), np.random.default_rng(0)
    trials = make_run("bo-fm", 0, [{"objective": 0.07 + i / 100, "error": 0.06, **space.sample(rng)} for i in range(3)])
    summary, text = report(trials.drop(columns="x"), tmp_path)
    assert space.validate(summary.optimizers["bo-fm"].best_configuration) is None
    assert {f"{name}.{kind}" for name in ("best_cell_bo-fm", "schedules") for kind in ("png", "svg", "pdf")} <= {
        path.name for path in tmp_path.iterdir()
    }
    assert "bo-fm/repeat-0, trial 0: objective 0.07000, validation error 0.06000" in text


def test_the_tables_hold_what_the_summary_holds(make_table, tmp_path):
    runs = {(name, r): [3.0 + r, 2.0 + r + (name == "b"), 1.0 + r] for name in "ab" for r in range(2)}
    trials = make_table(runs)
    summary, tables = tables_of(trials, tmp_path)
    assert tuple(tables) == TABLES
    assert list(tables["curves"].columns) == list(CURVES)
    assert list(tables["curves"]["incumbent"]) == list(anytime_curves(trials, BUDGET)["incumbent"])
    mean = tables["mean_curves"]
    assert list(mean.columns) == list(MEAN_CURVE_COLUMNS)
    assert len(mean) == 5 * 2 * GRID
    last = mean[(mean["axis"] == "evaluations") & (mean["optimizer"] == "a")].iloc[-1]
    assert (last["at"], last["mean"], last["low"], last["high"]) == (3.0, 1.5, 1.0, 2.0)
    final = tables["results"].to_dict("records")
    assert [(row["optimizer"], row["mean"], row["repeat_0"], row["repeat_1"]) for row in final] == [
        (name, row.mean, row.values[0], row.values[1]) for name, row in summary.optimizers.items()
    ]
    points = tables["checkpoints"]
    assert list(points["share"].unique()) == [0.25, 0.5, 1.0]
    ends = points[points["share"] == 1].to_dict("records")
    assert [(row["optimizer"], row["mean"], row["repeat_0"], row["repeat_1"]) for row in ends] == [
        (row.optimizer, row.mean, row.values[0], row.values[1]) for row in summary.checkpoints[-1].rows
    ]
    assert list(tables["tests"]["verdict"]) == ["too few repeats to tell"]
    assert list(tables["ledger"]["run"]) == [row.run for row in summary.ledger]
    assert set(tables["ledger"]["wall_seconds"]) == {27.0}
    assert set(tables["targets"]["from"]) == {"a's mean at 100%", "b's mean at 100%"}


@pytest.mark.parametrize("trials", [[], [{"status": "failed"}] * 3])
def test_without_results_the_tables_have_their_columns(make_run, tmp_path, trials):
    _, tables = tables_of(make_run("a", 0, trials or [1.0]).iloc[: len(trials)], tmp_path)
    assert {"optimizer", "mean"} <= set(tables["checkpoints"].columns)
    assert {"first", "p_corrected"} <= set(tables["tests"].columns)
    assert len(tables["targets"]) == 0


def test_an_axis_without_values_has_no_mean_curve(make_run, tmp_path):
    trials = typed_trials(make_run("a", 0, [2.0, 1.0]).assign(started_at=None), "a test")
    mean = tables_of(trials, tmp_path)[1]["mean_curves"]
    assert mean["at"].notna().all()
    assert len(mean) == 4 * GRID


def test_the_same_results_give_the_same_bytes(make_table, tmp_path):
    trials = make_table({(name, r): [1.0 + r / 7, 0.3 * r] for name in "ab" for r in range(4)})
    for folder in ("first", "second"):
        tables_of(trials, tmp_path / folder)
    for path in (tmp_path / "first").iterdir():
        assert path.read_bytes() == (tmp_path / "second" / path.name).read_bytes()


@pytest.mark.parametrize(("minimum", "regret"), [(-0.5, 1.5), (0.0, 1.0), (None, None)])
def test_the_mean_regret_is_shown_if_it_is_known_and_not_the_mean(make_run, tmp_path, no_figures, minimum, regret):
    context = ReportContext("n", "p", BUDGET, {}, "", minimum=minimum)
    summary = write_report(make_run("a", 0, [3.0, 1.0, 2.0]), context, tmp_path)
    assert summary.to_json()["optimizers"]["a"]["regret"] == regret
    assert ("mean regret" in (tmp_path / "index.html").read_text()) == bool(minimum)


@pytest.mark.parametrize(("minimum", "is_wrong"), [(1.5, True), (1.0 + 1e-4, True), (1.0 + 1e-6, False), (1.0, False)])
def test_a_minimum_above_a_result_is_reported_and_not_used(make_run, minimum, is_wrong):
    context = ReportContext("n", "p", BUDGET, {}, "", minimum=minimum)
    summary = compute_results(make_run("a", 0, [3.0, 1.0, 2.0]), context).summary
    assert (summary.minimum is None) == is_wrong
    assert ("minimum" in summary.caution) == is_wrong
    assert (f"{minimum}" in summary.caution) == is_wrong
