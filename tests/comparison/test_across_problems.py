"""The report over several problems: ranks, regret, tests and page."""

import json
import re
from collections.abc import Callable
from dataclasses import replace
from math import isnan, nan, sqrt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from fmnas.comparison.analysis.across_problems import (
    MOST_POINTS,
    ProblemResults,
    compare_overall,
    critical_difference,
    mean_ranks,
    normalised_regret,
    problem_results,
    rank_optimizers,
    ranks_over_repeats,
    sign_flip_test,
)
from fmnas.comparison.analysis.curves import anytime_curves
from fmnas.comparison.analysis.paired_tests import repeats_needed
from fmnas.comparison.analysis.resampling import coverage_warning
from fmnas.comparison.analysis.trials import Budget, ReportError
from fmnas.comparison.figures import ranks
from fmnas.comparison.figures.across_problems import join_close
from fmnas.comparison.figures.canvas import Results
from fmnas.comparison.problems_report import write_problems_report
from fmnas.comparison.report import compute_results
from fmnas.comparison.summary import ReportContext


def results(name: str, *runs: list[list[float]], minimum: float = nan) -> ProblemResults:
    return ProblemResults(name, tuple("abc"[: len(runs)]), np.array(runs, dtype=float), minimum)


def test_ranks_are_means_over_repeats_with_shared_ties_and_missing_results_last() -> None:
    problem = results("p", [[3.0, 1.0], [nan, 2.0]], [[3.0, 2.0], [5.0, 2.0]])
    assert rank_optimizers(problem.incumbents).tolist() == [[(1.5 + 2) / 2, 1.25], [(1.5 + 1) / 2, 1.75]]


@given(st.integers(2, 5), st.integers(1, 4), st.integers(1, 5))
def test_ranks_add_up(optimizers: int, repeats: int, evaluations: int) -> None:
    incumbents = np.random.default_rng(0).integers(0, 3, (optimizers, repeats, evaluations)).astype(float)
    assert rank_optimizers(incumbents).sum(axis=0) == pytest.approx(optimizers * (optimizers + 1) / 2)


def test_each_problem_weighs_the_same_in_the_mean_rank() -> None:
    many = results("many", *[[[value]] * 9 for value in (1.0, 2.0)])
    few = results("few", [[2.0]], [[1.0]])
    ranks = mean_ranks([many, few])
    assert ranks["mean"].tolist() == [1.5, 1.5]
    assert (ranks["low"] <= ranks["mean"]).all()
    assert (ranks["mean"] <= ranks["high"]).all()


def test_regret_is_one_at_the_start_and_zero_at_the_minimum() -> None:
    known = results("known", [[5.0, 1.0]], [[5.0, 3.0]], minimum=1.0)
    assert normalised_regret(known).tolist() == [[[1.0, 0.0]], [[1.0, 0.5]]]
    unknown = results("unknown", [[nan, 4.0, 2.0]], [[4.0, 4.0, 3.0]])
    assert np.array_equal(normalised_regret(unknown), [[[nan, 1.0, 0.0]], [[1.0, 1.0, 0.5]]], equal_nan=True)
    constant = results("constant", [[2.0]], [[2.0]])
    assert normalised_regret(constant).tolist() == [[[0.0]], [[0.0]]]


def test_the_sign_flip_test_of_one_problem_is_the_sign_test() -> None:
    differences = np.array([-1.0] * 10 + [2.0] * 2 + [0.0])
    effect, p = sign_flip_test([differences])
    assert effect == pytest.approx(-8 / 13)
    assert p == pytest.approx(binomtest(10, 12).pvalue, abs=0.005)
    assert sign_flip_test([np.zeros(5)]) == (0.0, 1.0)
    assert sign_flip_test([]) == (0.0, 1.0)


def test_the_verdict_over_problems_follows_the_effect_and_not_the_number_of_repeats() -> None:
    """The reference loses one problem of 40 repeats, and wins eight of three."""
    lost = results("lost", [[1.0 + i] for i in range(40)], [[0.0]] * 40)
    won = results("won", [[0.0]] * 3, [[1.0 + i] for i in range(3)])
    (test,) = compare_overall([lost, *[won] * 8], "a")
    assert test.cells == (24, 0, 40)
    assert test.effect == pytest.approx(-7 / 9)
    assert test.verdict == "first better"


def test_the_reference_wins_where_it_is_better_in_every_repeat() -> None:
    better = results("better", [[0.0]] * 9, [[1.0 + i] for i in range(9)])
    worse = results("worse", [[1.0 + i] for i in range(9)], [[0.0]] * 9)
    (test,) = compare_overall([better, better, worse], "a")
    assert (test.other, test.wins, test.ties, test.losses) == ("b", 2, 0, 1)
    assert test.cells == (18, 0, 9)
    (clear,) = compare_overall([better, better], "a")
    assert clear.p_corrected < 0.001
    assert clear.verdict == "first better"
    (tied,) = compare_overall([better, results("tied", [[1.0], [2.0]], [[1.0], [3.0]])], "a")
    assert tied.cells == (10, 1, 0)
    (reverse,) = compare_overall([better, better], "b")
    assert reverse.verdict == "second better"


@pytest.mark.parametrize("competitors", [1, 2, 3, 14])
def test_a_problem_can_be_won_from_the_fewest_repeats_on(competitors: int) -> None:
    """Any number of other problems does not change that."""
    for repeats, wins in ((repeats_needed(competitors), 25), (repeats_needed(competitors) - 1, 0)):
        runs = np.stack([[[float(k)]] * repeats for k in range(competitors + 1)])
        won = ProblemResults("won", tuple(map(str, range(competitors + 1))), runs)
        assert [test.wins for test in compare_overall([won] * 25, "0")] == [wins] * competitors


def test_the_reference_does_not_win_where_its_mean_and_the_ranks_disagree() -> None:
    """It is lower by 1 in 13 of 14 repeats, and higher by 100 in one."""
    disputed = results("disputed", [[0.0]] * 13 + [[100.0]], [[1.0]] * 13 + [[0.0]])
    (test,) = compare_overall([disputed], "a")
    assert test.p_corrected < 0.05
    assert (test.wins, test.ties, test.losses) == (0, 1, 0)


def test_the_critical_difference_is_that_of_the_published_table() -> None:
    """Demsar (2006), table 5: q = 2.728 for five optimizers."""
    assert critical_difference(5, 30) == pytest.approx(2.728 * sqrt(5 * 6 / (6 * 30)), abs=1e-3)
    assert isnan(critical_difference(5, 9))


def test_bars_join_the_largest_groups() -> None:
    assert join_close(np.array([1.0, 1.5, 2.1, 4.0]), 1.0) == [(0, 1), (1, 2)]
    assert join_close(np.array([1.0, 1.2, 1.3]), 1.0) == [(0, 2)]
    assert join_close(np.array([1.0, 3.0]), 1.0) == []


Table = Callable[..., pd.DataFrame]
Make = Callable[..., Results]


@pytest.fixture
def make_experiment(make_table: Table) -> Callable[..., Results]:
    """make_experiment(problem, optimizers, evaluations, best, repeats) of one problem."""

    def make(problem: str, optimizers: str, evaluations: int, best: str = "a", repeats: int = 3) -> Results:
        scale = {name: 1.0 if name == best else 2.0 for name in optimizers}
        trials = make_table(
            {
                (name, repeat): [scale[name] / (1 + i) + repeat for i in range(evaluations)]
                for name in optimizers
                for repeat in range(repeats)
            }
        )
        return compute_results(trials, ReportContext(problem, problem, Budget(evaluations, 25), {}, "", finished=True))

    return make


def test_problems_are_compared_at_the_smallest_budget_over_common_repeats(
    make_experiment: Make,
) -> None:
    curves = make_experiment("p", "ab", 5).curves
    problem = problem_results("p", curves[curves["run"] != "b/repeat-1"], ["a", "b"], 4)
    assert problem.incumbents.shape == (2, 2, 4)
    assert problem.incumbents[0, 1, 3] == 1 / 4 + 2
    with pytest.raises(ReportError):
        problem_results("p", curves[curves["run"].isin(["a/repeat-0", "b/repeat-1"])], ["a", "b"], 4)


def test_the_report_has_its_files_and_its_reference(tmp_path: Path, make_experiment: Make) -> None:
    problems = [make_experiment(f"p{i}", "abc" if i else "ab", 4 + i) for i in range(11)]
    summary = write_problems_report(problems, "a", tmp_path)
    assert (summary.evaluations, summary.optimizers, summary.left_out) == (4, ("a", "b"), ("c",))
    assert [row.optimizer for row in summary.final_ranks] == ["a", "b"]
    assert json.loads(json.dumps(summary.to_json()))["optimizers"]["a"]["mean"] == 1.0
    page = (tmp_path / "index.html").read_text()
    assert page.count("<figure>") == 3
    assert all(f"p{i}" in page for i in range(11))
    for name in ("mean_ranks.csv", "results.csv", "overall_tests.csv", "critical_difference.pdf", "regret.svg"):
        assert (tmp_path / name).stat().st_size > 0
    assert pd.read_csv(tmp_path / "results.csv")["repeats"].eq(3).all()


@pytest.mark.usefixtures("figures_as_svg")
def test_few_problems_have_no_critical_difference(tmp_path: Path, make_experiment: Make) -> None:
    summary = write_problems_report([make_experiment("p", "ab", 3), make_experiment("q", "ab", 3)], "unknown", tmp_path)
    assert summary.reference == "a"
    assert {path.name for path in tmp_path.glob("*.svg")} == {"mean_ranks.svg", "regret.svg"}
    assert {"10", "6"} <= set(re.findall(r"\d+", summary.caution))  # problems for the diagram; repeats for a win


@pytest.mark.usefixtures("figures_as_svg")
def test_equal_ranks_share_the_headline_and_a_problem_with_few_repeats_is_named(
    tmp_path: Path, make_experiment: Make
) -> None:
    made = (("p", "a", 6), ("q", "b", 3), ("r", "b", 2), ("s", "a", 6))
    experiments = [make_experiment(name, "ab", 3, best, repeats) for name, best, repeats in made]
    summary = write_problems_report(experiments, "a", tmp_path)
    assert [row.mean for row in summary.final_ranks] == [1.5, 1.5]
    assert "a and b" in summary.headline
    assert "q and r" in summary.caution


def test_problems_without_common_optimizers_are_refused(tmp_path: Path, make_experiment: Make) -> None:
    with pytest.raises(ReportError, match="common"):
        write_problems_report([make_experiment("p", "ab", 3), make_experiment("q", "bc", 3)], "a", tmp_path)


def test_problems_that_are_called_the_same_or_have_no_result_are_refused(tmp_path: Path, make_experiment: Make) -> None:
    with pytest.raises(ReportError, match="called p"):
        write_problems_report([make_experiment("p", "ab", 3), make_experiment("p", "ab", 3)], "a", tmp_path)
    begun = make_experiment("q", "ab", 3)
    begun = replace(begun, summary=replace(begun.summary, compared_at=1))
    with pytest.raises(ReportError, match="less than one evaluation"):
        write_problems_report([make_experiment("p", "ab", 3), begun], "a", tmp_path)


def test_ranks_over_repeats_take_the_repeats_in_place_of_problems(make_table: Callable[..., pd.DataFrame]) -> None:
    runs = {("a", 0): [3.0, 1.0], ("b", 0): [2.0, 2.0], ("a", 1): [1.0, 1.0], ("b", 1): [2.0, 0.5]}
    curves = anytime_curves(make_table(runs), Budget(2, 25))
    table = ranks_over_repeats(curves, ["a", "b"], 2).set_index(["optimizer", "evaluations"])["mean"]
    assert table.to_dict() == {("a", 1): 1.5, ("a", 2): 1.5, ("b", 1): 1.5, ("b", 2): 1.5}
    first = ranks_over_repeats(curves[curves["repeat"] == 0], ["a", "b"], 2)
    for nothing in (first, ranks_over_repeats(curves, ["a"], 2), ranks_over_repeats(curves, ["a", "c"], 2)):
        assert nothing.empty
        assert list(nothing.columns) == ["evaluations", "optimizer", "mean", "low", "high"]


def test_ranks_of_a_long_run_are_of_some_of_its_evaluations(make_table: Callable[..., pd.DataFrame]) -> None:
    runs = {(name, repeat): [2.0 + n, *[1.0 + n] * 399] for n, name in enumerate("ab") for repeat in range(3)}
    table = ranks_over_repeats(anytime_curves(make_table(runs), Budget(400, 25)), ["a", "b"], 400)
    mine = table[table["optimizer"] == "b"]
    assert (mine["evaluations"].iloc[0], mine["evaluations"].iloc[-1], len(mine)) == (1, 400, MOST_POINTS)
    assert (mine["mean"] == 2.0).all()


def test_a_report_draws_the_ranks_over_its_repeats(make_table: Callable[..., pd.DataFrame]) -> None:
    def names(repeats: int) -> list[str]:
        trials = make_table({(name, r): [2.0, 1.0 + r] for name in "ab" for r in range(repeats)})
        computed = compute_results(trials, ReportContext("n", "p", Budget(2, 25), {}, "", finished=True))
        return [drawing.name for drawing in ranks.drawings(computed) if drawing.is_saved]

    assert names(2) == ["mean_ranks"]
    assert names(1) == []


def test_ranks_change_in_steps_as_every_other_line(make_table: Callable[..., pd.DataFrame]) -> None:
    trials = make_table({(name, r): [2.0, 1.0 + r, 0.5] for name in "ab" for r in range(2)})
    results = compute_results(trials, ReportContext("n", "p", Budget(3, 25), {}, "", finished=True))
    for drawing in ranks.drawings(results):
        curves = [line for line in drawing.figure.axes[0].lines if len(set(line.get_xdata())) == 3]
        assert [line.get_drawstyle() for line in curves] == ["steps-post"] * 2


def test_a_warning_of_short_intervals_counts_the_repeats_that_the_ranks_are_over(make_table: Table) -> None:
    runs = {(name, r): [2.0, 1.0 + r] for name, first in (("a", 0), ("b", 4)) for r in range(first, first + 6)}
    computed = compute_results(make_table(runs), ReportContext("n", "p", Budget(2, 25), {}, "", finished=True))
    assert all(coverage_warning(2) in drawing.caption for drawing in ranks.drawings(computed))


@pytest.mark.usefixtures("figures_as_svg")
@pytest.mark.parametrize("minimum", [None, 0.0])
def test_a_problem_on_which_every_trial_failed_has_no_regret(
    tmp_path: Path, make_table: Table, make_experiment: Make, minimum: float | None
) -> None:
    failed = make_table({(name, repeat): [{"status": "failed"}] * 3 for name in "ab" for repeat in range(3)})
    context = ReportContext("q", "q", Budget(3, 25), {}, "", finished=True, minimum=minimum)
    summary = write_problems_report([make_experiment("p", "ab", 3), compute_results(failed, context)], "a", tmp_path)
    assert [isnan(row.median_regret) for row in summary.results] == [False, False, True, True]
