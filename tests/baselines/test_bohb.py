"""BOHB: its brackets, its promotions, its model and what happens when the model fails."""

import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.stats
from hypothesis import example, given
from hypothesis import strategies as st
from scipy.stats import truncnorm

from fmnas.baselines import BOHB
from fmnas.baselines.bohb import results_needed
from fmnas.baselines.brackets import brackets
from fmnas.baselines.external import suppress_logs
from fmnas.baselines.kde_model import MAX_PICKS, Density, DensityModel, draw_truncated_normal
from fmnas.optimizers import OptimizerError
from fmnas.optimizers.isolation import IsolatedRNG
from fmnas.search_spaces import Evaluation, Integer, LinearConstraint, Nominal, Real, Space, Trial, joint_space
from fmnas.search_spaces.records import FALLBACK, MODEL, PROMOTION, RANDOM

pytestmark = pytest.mark.slow

SPACE = Space([Real("x", 0.0, 1.0), Integer("k", 0, 4)])
NOMINAL = Space([Real("x", 0.0, 1.0), Nominal("op", ["a", "b", "c"]), Integer("k", 0, 4)])
HALVED = Space(SPACE.variables, [LinearConstraint({"x": 4, "k": 1}, 4)])

TABLE = {
    1: [[(1, 1)]],
    2: [[(3, 1), (1, 2)], [(2, 2)]],
    3: [[(3, 1), (1, 3)], [(2, 3)]],
    6: [[(9, 1), (3, 2), (1, 6)], [(3, 2), (1, 6)], [(3, 6)]],
    25: [[(27, 1), (9, 3), (3, 8), (1, 25)], [(9, 3), (3, 8), (1, 25)], [(6, 8), (2, 25)], [(4, 25)]],
}
"""Full fidelity -> brackets -> (trials, epochs) of each rung."""


def score(trial: Trial) -> float:
    """Lower near x = 0.3 and k = 3, and with more epochs; no ties."""
    c = trial.configuration
    return (float(c["x"]) - 0.3) ** 2 + 0.1 * abs(int(c["k"]) - 3) + 1.0 / trial.epochs


def run_trials(optimizer: BOHB, count: int) -> list[tuple[Trial, float]]:
    results = []
    for _ in range(count):
        trial = optimizer.ask()
        results.append((trial, score(trial)))
        optimizer.tell(*results[-1])
    return results


def ask_next(optimizer: BOHB, count: int) -> list[Trial]:
    trials = [optimizer.ask() for _ in range(count)]
    return [trial for trial in trials if trial is not None]


@pytest.mark.parametrize("epochs", TABLE)
def test_brackets(epochs: int) -> None:
    result = [
        [(size, round(budget)) for size, budget in zip(sizes, budgets, strict=True)]
        for sizes, budgets in brackets(epochs)
    ]
    assert result == TABLE[epochs]


def test_one_after_the_other_the_brackets_are_played_in_order() -> None:
    expected = [epochs for bracket in TABLE[25] for size, epochs in bracket for _ in range(size)]
    assert len(expected) == 65
    trials = [trial for trial, _ in run_trials(BOHB(SPACE, epochs=25), 75)]
    assert [t.epochs for t in trials] == [*expected, *expected[:10]]
    assert sum(t.epochs for t in trials[:65]) == 377


def test_the_best_of_a_rung_are_promoted() -> None:
    results = run_trials(BOHB(NOMINAL, epochs=25, seed=1), 65)
    at = 0
    for bracket in TABLE[25]:
        rungs = []
        for size, _ in bracket:
            rungs.append(results[at : at + size])
            at += size
        assert {t.origin for t, _ in rungs[0]} <= {RANDOM, MODEL}
        for lower, upper in pairwise(rungs):
            best = sorted(lower, key=lambda pair: pair[1])[: len(upper)]
            assert {t.parent for t, _ in upper} == {t.id for t, _ in best}
            assert {t.origin for t, _ in upper} == {PROMOTION}
            for t, _ in upper:
                assert t.configuration == results[t.parent][0].configuration


@pytest.mark.parametrize(
    ("dimensions", "points", "percent"), [(18, None, 15), (2, 1, 15), (2, None, 90), (3, 9, 60), (2, None, 50)]
)
def test_the_model_needs_more_good_and_bad_results_than_variables(
    dimensions: int, points: int | None, percent: int
) -> None:
    """Of the numbers of results that hpbandster has in either density, the smaller one counts."""
    least = max(points or 0, dimensions + 1)

    def smaller(results: int) -> int:
        good, bad = (max(least, share * results // 100) for share in (percent, 100 - percent))
        return min(good, bad, results - good)

    needed = results_needed(dimensions, points, percent)
    assert smaller(needed) > dimensions >= max(map(smaller, range(needed)))
    assert results_needed(18) == 38


def test_promotion_and_model_go_by_the_objective_not_by_the_error() -> None:
    """The largest networks err least here, and their FLOPs make them the worst."""
    results = [(trial, score(trial)) for trial in ask_next(BOHB(SPACE, epochs=9), 9)]
    optimizer = BOHB(SPACE, epochs=9)
    for trial, objective in results:
        optimizer.restore(trial)
        optimizer.tell(trial, Evaluation(objective, epochs=1, errors=(1.0 - objective / 9, 1.0 - objective / 9)))
    best = sorted(results, key=lambda pair: pair[1])[:3]
    assert {trial.parent for trial in ask_next(optimizer, 3)} == {trial.id for trial, _ in best}


def test_with_everything_pending_the_next_bracket_opens() -> None:
    optimizer = BOHB(SPACE, epochs=9)
    trials = [optimizer.ask() for _ in range(20)]
    assert [t and t.epochs for t in trials] == [1] * 9 + [3] * 3 + [9] * 3 + [1] * 5
    for trial in trials[:9]:
        optimizer.tell(trial, score(trial))
    trial = optimizer.ask()
    assert (trial.origin, trial.epochs) == (PROMOTION, 3)  # the oldest bracket goes first


@pytest.mark.parametrize("space", [SPACE, HALVED], ids=["free", "constrained"])
def test_the_model_picks_about_two_thirds_once_it_has_data(space: Space) -> None:
    trials = [trial for trial, _ in run_trials(BOHB(space, epochs=1), 90)]
    for trial in trials:
        space.validate(trial.configuration)
    first = next(t.id for t in trials if t.origin == MODEL)
    assert first >= 6  # two models of dimension 2 need 3 results each
    share = np.mean([t.origin == MODEL for t in trials[first:]])
    assert 0.5 < share < 0.85
    assert {t.note for t in trials} == {""}


@pytest.mark.parametrize("space", [SPACE, NOMINAL, joint_space()], ids=["numbers", "categories", "joint"])
def test_a_density_is_that_of_statsmodels(space: Space) -> None:
    """At what the model has seen, and at other points; it is infinite where a category has had one value alone."""
    from statsmodels.nonparametric.kernel_density import KDEMultivariate

    kinds = "".join("u" if isinstance(v, Nominal) else "c" for v in space.variables)
    rng = np.random.default_rng(0)

    def draw(count: int) -> Any:
        return np.array([[rng.integers(3) if kind == "u" else rng.random() for kind in kinds] for _ in range(count)])

    data = draw(40)
    if "u" in kinds:
        data[:, kinds.rindex("u")] = 1
    bandwidths = rng.uniform(0.05, 0.4, len(kinds))
    with suppress_logs("statsmodels"):
        slow = KDEMultivariate(data, var_type=kinds, bw=bandwidths)
    fast = Density(slow)
    with np.errstate(divide="ignore", invalid="ignore"):
        pairs = [(fast.pdf(point.tolist()), float(slow.pdf(point))) for point in [*data[:5], *draw(20)]]
    assert ("u" in kinds) == any(np.isinf(density) for _, density in pairs)
    for ours, theirs in pairs:
        assert ours == pytest.approx(theirs, rel=1e-12, nan_ok=True)


@given(value=st.floats(0.0, 1.0), bandwidth=st.floats(1e-3, 3.0), seed=st.integers(0, 2**32 - 1))
@example(value=0.0, bandwidth=0.003, seed=1)
@example(value=1.0, bandwidth=3.0, seed=2)
def test_a_truncated_normal_number_is_that_of_scipy(value: float, bandwidth: float, seed: int) -> None:
    arguments = (-value / bandwidth, (1 - value) / bandwidth)
    slow = truncnorm.rvs(*arguments, loc=value, scale=bandwidth, random_state=np.random.RandomState(seed))
    with IsolatedRNG(seed).activate():
        np.random.seed(seed)
        fast = draw_truncated_normal(*arguments, loc=value, scale=bandwidth)
    assert fast == pytest.approx(slow, rel=1e-6, abs=1e-9)


@pytest.mark.parametrize("space", [NOMINAL, HALVED], ids=["free", "constrained"])
def test_its_picks_are_those_of_hpbandster(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    fast = [trial.configuration for trial, _ in run_trials(BOHB(space, epochs=1), 60)]
    build = DensityModel.__init__

    def build_with_scipy(self: DensityModel, *arguments: Any, **options: Any) -> None:
        build(self, *arguments, **options)
        sys.modules[type(self.generator).__module__].sps = scipy.stats  # type: ignore[attr-defined]

    def pdf_of_statsmodels(self: Density, vector: Any) -> Any:
        if self._is_feasible is not None and not self._is_feasible(vector):
            return self._infeasible_value
        return self.slow.pdf(vector)  # type: ignore[attr-defined]

    keep = Density.__init__

    def keep_model(self: Density, model: Any, *others: Any) -> None:
        keep(self, model, *others)
        self.slow = model  # type: ignore[attr-defined]

    monkeypatch.setattr(DensityModel, "__init__", build_with_scipy)
    monkeypatch.setattr(Density, "__init__", keep_model)
    monkeypatch.setattr(Density, "pdf", pdf_of_statsmodels)
    slow = [trial.configuration for trial, _ in run_trials(BOHB(space, epochs=1), 60)]
    for one, other in zip(fast, slow, strict=True):
        assert one == pytest.approx(other, abs=1e-9)


@pytest.fixture
def _broken_density(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    def pdf(self: Any, vector: Any) -> float:
        if request.param == "raises":
            raise FloatingPointError("the density is broken")
        return float("nan")

    monkeypatch.setattr(Density, "pdf", pdf)


@pytest.mark.usefixtures("_broken_density")
@pytest.mark.parametrize("_broken_density", ["raises", "nan"], indirect=True)
def test_a_failing_model_gives_a_random_suggestion_with_a_note() -> None:
    trials = [trial for trial, _ in run_trials(BOHB(SPACE, epochs=1), 40)]
    assert {t.origin for t in trials} == {RANDOM}
    noted = [t.note for t in trials if t.note]
    assert 10 < len(noted) < 40  # two thirds of those after the first models; no note while there is no model
    assert all("failed" in note or "random configuration" in note for note in noted)
    assert max(len(note) for note in noted) < 500


@pytest.mark.parametrize(("by_model", "calls"), [(True, MAX_PICKS), (False, 1)])
def test_infeasible_picks_are_replaced_by_random_ones(
    by_model: bool, calls: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A random pick is drawn again at once and without a note: uniform either way."""
    optimizer, asked = BOHB(HALVED, epochs=1), []

    def infeasible(budget: float) -> tuple[dict[str, Any], dict[str, Any]]:
        asked.append(budget)
        return {"x": 0.9, "k": 4}, {"model_based_pick": by_model}

    monkeypatch.setattr(optimizer._model.generator, "get_config", infeasible)
    trials = [trial for trial, _ in run_trials(optimizer, 20)]
    assert len(asked) == 20 * calls
    assert {t.origin for t in trials} == {RANDOM}
    assert {(t.fallback, bool(t.note)) for t in trials} == {(FALLBACK * by_model, by_model)}
    assert len({str(t.configuration) for t in trials}) == 20
    for trial in trials:
        HALVED.validate(trial.configuration)


def test_an_infeasible_pick_of_the_model_is_replaced_by_another_of_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Random picks in between are passed over: they would raise the share of random configurations."""
    optimizer = BOHB(HALVED, epochs=1)
    picks = iter([({"x": 0.9, "k": 4}, True), ({"x": 0.1, "k": 1}, False), ({"x": 0.2, "k": 2}, True)])

    def pick(budget: float) -> tuple[dict[str, Any], dict[str, Any]]:
        configuration, by_model = next(picks)
        return configuration, {"model_based_pick": by_model}

    monkeypatch.setattr(optimizer._model.generator, "get_config", pick)
    trial = optimizer.ask()
    assert trial is not None
    assert (trial.origin, trial.configuration) == (MODEL, {"x": 0.2, "k": 2})


def test_forgotten_trials_do_not_stop_a_bracket() -> None:
    optimizer = BOHB(SPACE, epochs=9)
    trials = [optimizer.ask() for _ in range(9)]
    for trial in trials[:7]:
        optimizer.forget(trial)
    for trial in trials[7:]:
        optimizer.tell(trial, score(trial))
    following = [optimizer.ask() for _ in range(3)]
    assert {t.parent for t in following[:2] if t} == {7, 8}
    assert following[2] is not None
    assert following[2].epochs == 3  # the free place goes to a new configuration
    assert following[2].parent is None


def test_a_changed_history_is_noticed() -> None:
    results = run_trials(BOHB(SPACE, epochs=3), 4)
    assert results[3][0].origin == PROMOTION
    optimizer = BOHB(SPACE, epochs=3)
    for trial, _ in results[:3]:
        optimizer.restore(trial)
        optimizer.tell(trial, -score(trial))  # the ranks are reversed
    with pytest.raises(OptimizerError, match="trial 3 "):
        optimizer.restore(results[3][0])


@pytest.mark.parametrize(
    ("option", "value"),
    [
        *(("min_points_in_model", 0), ("top_n_percent", 100), ("num_samples", 0)),
        *(("random_fraction", 1.1), ("bandwidth_factor", 0.0), ("min_bandwidth", 0.0)),
    ],
)
def test_options_of_the_model_are_checked(option: str, value: float) -> None:
    with pytest.raises(OptimizerError, match=f"{option} = {value}: it must be at least .* and at most"):
        BOHB(SPACE, epochs=9, **{option: value})  # type: ignore[arg-type]  # of all of them
