import numpy as np
import pytest
from scipy.stats import chi2, kruskal

from fmnas.comparison import Budget
from fmnas.comparison.figures.importance import importances

BUDGET = Budget(evaluations=100, epochs_per_evaluation=25)


def table(make_run, objectives, **variables):
    trials = [{"objective": value, **{n: v[i] for n, v in variables.items()}} for i, value in enumerate(objectives)]
    return make_run("a", 0, trials).drop(columns=[] if "x" in variables else "x")


def test_the_share_of_a_category_is_the_statistic_of_kruskal_and_wallis(make_run):
    rng = np.random.default_rng(0)
    objectives, kinds, other = rng.normal(size=30), rng.choice(list("abc"), size=30), list(range(30))
    rows = {row.variable: row for row in importances(table(make_run, objectives, kind=kinds, other=other), BUDGET)}
    expected = kruskal(*(objectives[kinds == kind] for kind in "abc")).statistic / 29
    assert rows["kind"].share == pytest.approx(expected)
    assert rows["kind"].chance == pytest.approx(chi2.ppf(0.95, 2) / 29)


def test_a_number_is_cut_into_groups_of_equal_size(make_run):
    values = np.linspace(0.01, 1.0, 50) ** 3
    (one,) = importances(table(make_run, values, x=list(values)), BUDGET)
    groups = np.repeat(np.arange(5), 10)
    assert one.share == pytest.approx(kruskal(*(values[groups == g] for g in range(5))).statistic / 49)
    assert one.share > 0.9
    assert one.chance == pytest.approx(chi2.ppf(0.95, 4) / 49)


def test_an_influence_is_first_and_noise_stays_below_chance(make_run):
    rng = np.random.default_rng(1)
    good = rng.integers(0, 2, size=200)
    noise = {f"noise{i:02}": list(rng.uniform(size=200)) for i in range(40)}
    rows = importances(table(make_run, good + 0.1 * rng.normal(size=200), good=list(good), **noise), BUDGET)
    assert rows[0].variable == "good"
    assert rows[0].share > 0.7
    assert sum(row.share > row.chance for row in rows[1:]) <= 6  # 2 expected of 40


def test_too_few_results(make_run):
    assert importances(table(make_run, [1.0] * 9, x=list(range(9))), BUDGET) == []
    assert importances(table(make_run, [1.0] * 20, x=list(range(20))), BUDGET) == []
    assert importances(table(make_run, range(20), x=[1] * 20), BUDGET) == []
    short = make_run("a", 0, [{"epochs": 5, "objective": float(i)} for i in range(20)])
    assert importances(short, BUDGET) == []


def test_a_configuration_counts_once(make_run):
    rng = np.random.default_rng(2)
    x, y = rng.uniform(size=20), rng.uniform(size=20)
    once = importances(table(make_run, y, x=list(x)), BUDGET)
    again = importances(table(make_run, [*y, *y], x=[*x, *x]), BUDGET)
    assert once == again
