"""CASMOPOLITAN: kernel, transform, acquisition and trust regions as the authors' code has them; restarts."""

import json
import math
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from fmnas.baselines import casmopolitan
from fmnas.baselines.casmopolitan import Casmopolitan
from fmnas.baselines.casmopolitan_model import CasmopolitanKernel, Copula
from fmnas.baselines.trust_region import GrowthRules, TrustRegion, is_success
from fmnas.optimizers import random_design
from fmnas.optimizers.gp.acquisition import LogAugmentedEI, LogEI
from fmnas.optimizers.gp.fit import Fit, FitSettings
from fmnas.optimizers.gp.points import Points, is_new
from fmnas.optimizers.gp.process import FitError
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface
from fmnas.search_spaces import Nominal, Ordinal, Real, Space, SpaceError, Trial
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

GOLDEN: Any = json.loads((Path(__file__).parent / "golden_casmopolitan.json").read_text())
Z = np.array(GOLDEN["Z"])
REALS = [Real("x1", 0.0, 1.0), Real("x2", 0.0, 1.0)]
NOMINALS = [Nominal(f"h{j}", tuple(range(n))) for j, n in enumerate(GOLDEN["sizes"], 1)]
ORDINALS = [Ordinal(f"h{j}", tuple(range(n))) for j, n in enumerate(GOLDEN["sizes"], 1)]
SPACE = Space([*REALS, *NOMINALS])


def gram(space: Space, X: np.ndarray, mix: float = 0.5, **values: float) -> np.ndarray:
    points = Points.from_encoded(space, X)
    tensors = {name: torch.tensor([value], dtype=torch.float64) for name, value in values.items()}
    r, own = CasmopolitanKernel(space, mix).condition_on(tensors, points).correlate(points)
    np.testing.assert_allclose(own, r.diagonal())
    return r.numpy()


@pytest.mark.parametrize("case", GOLDEN["categorical"], ids=lambda case: case["kernel"])
def test_golden_overlap(case: dict[str, Any]) -> None:
    space = Space(ORDINALS if case["kernel"] == "ordinal" else NOMINALS)
    np.testing.assert_allclose(gram(space, Z[:, :3], l=case["lengthscale"][0]), case["gram"], rtol=1e-12)


@pytest.mark.parametrize("case", GOLDEN["mixed"], ids=lambda case: str(case["lam"]))
def test_golden_mixture(case: dict[str, Any]) -> None:
    l, theta = case["lengthscale_categorical"][0], case["lengthscale_continuous"][0]  # noqa: E741
    result = gram(SPACE, np.column_stack([Z[:, 3:], Z[:, :3]]), case["lam"], l=l, theta=theta)
    np.testing.assert_allclose(result, case["gram"], rtol=1e-9)


@pytest.mark.parametrize("case", GOLDEN["copula"], ids=lambda case: str(len(case["y"])))
def test_golden_copula(case: dict[str, Any]) -> None:
    np.testing.assert_allclose(Copula().apply(np.array(case["y"])), case["z"], rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize("case", GOLDEN["augmented_ei"], ids=lambda case: str(case["mean"]))
def test_golden_augmented_ei(case: dict[str, float]) -> None:
    mean, deviation = (torch.tensor([case[name]], dtype=torch.float64) for name in ("mean", "sd"))
    result = LogAugmentedEI(case["mean_at_centre"], case["noise_variance"]).value(mean, deviation)
    assert float(result) == pytest.approx(math.log(case["augmented_ei"]), rel=1e-9)
    plain = LogEI(case["mean_at_centre"]).value(mean, deviation)
    assert float(plain) == pytest.approx(math.log(case["ei"]), rel=1e-9)


@pytest.mark.parametrize("case", GOLDEN["trust_region"], ids=lambda case: case["case"])
def test_golden_lengths(case: dict[str, Any]) -> None:
    arguments = case["settings"]
    rules = GrowthRules(
        tuple(arguments[f"length_{which}"] for which in ("init", "min", "max")),
        tuple(arguments[f"length_{which}_discrete"] for which in ("init", "min", "max")),
        arguments["tr_multiplier"],
        arguments["succtol"],
        arguments["failtol"],
    )
    region, last = TrustRegion.initial(rules), len(case["successes"]) - 1
    assert case["restart_at_step"] in (-1, last)
    for step, success in enumerate(case["successes"]):
        region = region.update(bool(success))
        assert region.side == pytest.approx(case["length"][step], rel=1e-12)
        assert region.radius == case["length_discrete"][step]
        assert region.is_exhausted == (step == case["restart_at_step"])


@pytest.mark.parametrize("broken_by", [True, False])
def test_only_results_in_a_row_change_the_lengths(broken_by: bool) -> None:
    rules = replace(GrowthRules.for_space(SPACE), successes=3, failures=3)
    first = TrustRegion.initial(rules)
    region = first
    for success in (not broken_by, not broken_by, broken_by, not broken_by, not broken_by):
        region = region.update(success)
        assert (region.side, region.radius) == (first.side, first.radius)
    assert region.update(not broken_by).side != first.side


@pytest.mark.parametrize("case", GOLDEN["success_test"], ids=lambda case: f"{case['new']} after {case['best']}")
def test_golden_successes(case: dict[str, Any]) -> None:
    assert is_success(case["new"], case["best"]) == case["success"]


@pytest.mark.parametrize("P", [0, 1])
def test_a_ball_that_cannot_shrink_exhausts_no_region(P: int) -> None:
    space = Space([*REALS, *(Nominal(f"h{p}", (0, 1)) for p in range(P))])
    region = TrustRegion.initial(replace(GrowthRules.for_space(space), failures=1))
    sides = []
    while not region.is_exhausted:
        region = region.update(success=False)
        sides.append(region.side)
        assert region.radius == P
    assert len(sides) == math.ceil(math.log(0.8 * 2**7, 1.5))


def build_optimizer(space: Space = SPACE, failures: int = 40, design: int = 4) -> Casmopolitan:
    optimizer = Casmopolitan(space, initial_design=random_design(space, design, 0))
    optimizer.settings = replace(
        optimizer.settings,
        fit=FitSettings(starts=1, screening=0, finalists=1, prior=False),
        search=SearchSettings(random_points=60, spray_points=20, starts=2, rounds=3),
    )
    optimizer.region = TrustRegion.initial(replace(optimizer.region.rules, failures=failures))
    return optimizer


def ask_next(optimizer: Casmopolitan) -> Trial:
    return optimizer.ask()


def worse(optimizer: Casmopolitan, count: int, first: float = 1.0) -> list[Trial]:
    """Asks whose results get worse and worse."""
    trials = []
    for number in range(count):
        trials.append(ask_next(optimizer))
        optimizer.tell(trials[-1], first + number)
    return trials


def is_within(optimizer: Casmopolitan, trial: Trial, centre: Trial, side: float, radius: int) -> bool:
    x, c = (optimizer.space.encode(item.configuration) for item in (trial, centre))
    near = np.abs(x[:2] - c[:2]).max() <= side / 2.0 + 1e-12
    return bool(near and (x[2:] != c[2:]).sum() <= radius)


def test_a_region_has_the_authors_rules_for_the_box_and_a_ball_from_four_fifths_of_the_variables() -> None:
    arguments = next(case["settings"] for case in GOLDEN["trust_region"] if case["case"].startswith("defaults"))
    rules = GrowthRules.for_space(Space([Nominal(f"h{p}", (0, 1)) for p in range(11)]))
    assert rules.box == tuple(arguments[f"length_{which}"] for which in ("init", "min", "max"))
    assert rules.ball == (9, 1, 11)
    expected = (arguments["tr_multiplier"], arguments["succtol"], arguments["failtol"])
    assert (rules.factor, rules.successes, rules.failures) == expected


def test_the_products_and_sums_of_the_kernel_weigh_the_same() -> None:
    points = Points.from_encoded(SPACE, np.column_stack([Z[:, 3:], Z[:, :3]]))
    values = {name: torch.tensor([value], dtype=torch.float64) for name, value in (("theta", 0.7), ("l", 1.3))}
    r, _ = CasmopolitanKernel(SPACE).condition_on(values, points).correlate(points)
    s = np.exp(1.3 * (Z[:, None, :3] == Z[None, :, :3]).mean(-1))
    m = matern(Z[:, 3:], 0.7)
    np.testing.assert_allclose(r, (s + m) / 2.0 + s * m / 2.0, rtol=1e-7)
    np.testing.assert_allclose(gram(Space(REALS), Z[:, 3:], theta=0.7), m, rtol=1e-7)


def matern(C: np.ndarray, theta: float) -> np.ndarray:
    d = np.sqrt(5) * np.linalg.norm(C[:, None] - C, axis=-1) / theta
    return (1 + d + d**2 / 3) * np.exp(-d)


def test_golden_box() -> None:
    case, optimizer = GOLDEN["box"], build_optimizer()
    optimizer.region = replace(optimizer.region, side=case["length"])
    region = optimizer._region_around(np.array([*case["centre"], 0.0, 0.0, 0.0]))
    np.testing.assert_allclose(region.box.lower, case["lower"])
    np.testing.assert_allclose(region.box.upper, case["upper"])


def test_asks_stay_in_the_region_around_the_best() -> None:
    optimizer = build_optimizer()
    best = worse(optimizer, 4)[0]
    for _ in range(6):
        optimizer.region = replace(optimizer.region, side=0.2, radius=2)
        (trial,) = worse(optimizer, 1, first=9.0)
        assert trial.origin == MODEL
        assert is_within(optimizer, trial, best, side=0.2, radius=2)


def test_augmented_ei_is_below_the_mean_at_the_incumbent_and_its_best_comes_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """EI (1 - sqrt(v / (v + s^2))), v the fitted variance of the noise."""
    optimizer, seen = build_optimizer(), []
    worse(optimizer, 6)
    candidates, search = optimizer.candidates, casmopolitan.alternating_search

    def record_search(surface: Surface, region: Region, starts: Points, settings: SearchSettings) -> Any:
        seen.append((surface, starts))
        return search(surface, region, starts, settings)

    def record(surface: Surface, state: SearchState) -> Points:
        seen.append((candidates(surface, state), state))
        return seen[-1][0]

    monkeypatch.setattr(casmopolitan, "alternating_search", record_search)
    monkeypatch.setattr(optimizer, "candidates", record)
    ask_next(optimizer)
    (surface, starts), (points, state) = seen
    posterior, best = surface.posterior, SPACE.encode(optimizer.history[0][0].configuration)
    np.testing.assert_array_equal(state.incumbent, best)
    threshold = float(posterior.predict(Points.from_encoded(SPACE, best[None]))[0])
    noise = float(posterior.g * posterior.s2)
    mean, variance = (value.numpy() for value in posterior.predict(starts))
    deviation = np.sqrt(variance)
    z = (threshold - mean) / deviation
    ei = deviation * (z * norm.cdf(z) + norm.pdf(z))
    expected = np.log(ei * (1 - np.sqrt(noise / (noise + variance))))
    np.testing.assert_allclose(surface.value(starts), expected, rtol=1e-6)
    value = surface.value(points)
    assert float(value[0]) == pytest.approx(float(value.max()))
    assert float(value[0]) > expected.max()


def test_a_success_improves_on_the_best_of_the_region_and_its_best_may_be_the_last_result() -> None:
    optimizer = build_optimizer(failures=3)
    worse(optimizer, 4)  # the best is 1
    worse(optimizer, 1, first=9.0)
    assert (optimizer.region.successes, optimizer.region.failures) == (0, 1)
    worse(optimizer, 1, first=0.5)
    assert (optimizer.region.successes, optimizer.region.failures) == (1, 0)
    worse(optimizer, 1, first=0.6)
    worse(optimizer, 1, first=0.55)  # better than the result before it
    assert (optimizer.region.successes, optimizer.region.failures) == (0, 2)
    optimizer.region = replace(optimizer.region, radius=1, side=0.8)
    worse(optimizer, 1, first=0.49999)
    assert [value for _, value in optimizer._best] == [0.49999]


def test_the_centre_and_the_points_of_a_new_region_are_new() -> None:
    """After four random points and two failures, two of the eight configurations are left."""
    space = Space([Nominal(f"h{p}", (0, 1)) for p in range(3)])
    trials = worse(build_optimizer(space, failures=1), 8)
    assert [bool(trial.note) for trial in trials] == [False] * 6 + [True, False]
    assert len({tuple(trial.configuration.values()) for trial in trials}) == 8


def test_a_new_region_has_the_points_of_the_design_and_at_most_20() -> None:
    for design, expected in ((4, 4), (30, 20)):
        optimizer = build_optimizer(design=design)
        assert optimizer._design_size() == design
        optimizer._regions.append([])
        assert optimizer._design_size() == expected


def test_an_exhausted_region_is_left_for_another() -> None:
    """Of three discrete variables the radius is 3, 2, 1: two shrinkings by 3 failures each."""
    optimizer = build_optimizer(failures=3)
    design = worse(optimizer, 4)
    assert optimizer.region.failures == 0  # the initial design does not count
    worse(optimizer, 5, first=9.0)
    assert (optimizer.region.radius, optimizer.region.failures) == (2, 2)
    worse(optimizer, 1, first=20.0)
    assert optimizer.observations() == []
    assert optimizer.region == TrustRegion.initial(optimizer.region.rules)
    assert optimizer._best[0][1] == 1.0
    np.testing.assert_array_equal(optimizer._best[0][0], SPACE.encode(design[0].configuration))
    centre, *rest = worse(optimizer, 4, first=30.0)
    assert (centre.origin, centre.note) == (RANDOM, "start of a new trust region"), "of one region it is drawn"
    for trial in rest:
        assert trial.origin == RANDOM
        assert not trial.fallback
        assert is_within(optimizer, trial, centre, side=0.8, radius=3)
    assert ask_next(optimizer).origin == MODEL
    assert [trial.id for trial, _ in optimizer.observations()] == [10, 11, 12, 13]


def test_a_new_region_without_a_feasible_point_is_left_to_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = build_optimizer(failures=3)
    worse(optimizer, 11, first=9.0)
    assert len(optimizer._regions) == 2

    def nothing(region: Region, rng: np.random.Generator, count: int) -> Points:
        raise SpaceError("nothing")

    monkeypatch.setattr(Region, "sample", nothing)
    trial = ask_next(optimizer)
    assert (trial.origin, trial.fallback) == (RANDOM, FALLBACK)
    assert trial.note == "almost nothing of the trust region is feasible"


def test_a_late_result_of_an_earlier_region_is_not_modelled() -> None:
    optimizer = build_optimizer(failures=1)
    worse(optimizer, 4)
    late = ask_next(optimizer)
    worse(optimizer, 2, first=9.0)
    assert optimizer.observations() == []
    optimizer.tell(late, -5.0)
    assert optimizer.observations() == []
    assert optimizer.region == TrustRegion.initial(optimizer.region.rules)
    worse(optimizer, 4, first=9.0)
    assert is_within(optimizer, ask_next(optimizer), optimizer.observations()[0][0], side=0.8, radius=3)


def test_a_region_begins_where_the_best_of_those_before_promise_most() -> None:
    """In one variable, bests that fall from left to right: the bound is lowest on the right."""
    space = Space([Real("x", 0.0, 1.0), Nominal("h", (0, 1))])
    optimizer = build_optimizer(space, design=2)
    optimizer._best = [(np.array([x, 0.0]), -10.0 * x) for x in (0.1, 0.3, 0.5, 0.7)]
    centre = optimizer._suggest_centre(np.random.default_rng(0))
    assert float(centre.configuration["x"]) > 0.7
    assert (centre.origin, centre.fallback) == (MODEL, "")


def test_the_centre_has_the_lowest_confidence_bound_of_a_hundred_points_per_variable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    optimizer, seen, value = build_optimizer(), [], Surface.value
    results = SPACE.sample_encoded(np.random.default_rng(1), 5)
    optimizer._best = [(x, float(y)) for x, y in zip(results, (3.0, 1.0, 4.0, 1.5, 9.0), strict=True)]
    monkeypatch.setattr(Surface, "value", lambda self, points: seen.append((self, points)) or value(self, points))
    centre = optimizer._suggest_centre(np.random.default_rng(0))
    ((surface, points),) = seen
    assert len(points) == 100 * len(SPACE)
    mean, variance = (part.numpy() for part in surface.posterior.predict(points))
    lowest = points.to_encoded(SPACE)[int((mean - 1.96 * np.sqrt(variance)).argmin())]
    np.testing.assert_allclose(SPACE.encode(centre.configuration), lowest)


def test_the_points_of_a_new_region_are_around_its_centre() -> None:
    optimizer = build_optimizer(failures=1, design=8)
    worse(optimizer, 10)
    (centre,) = worse(optimizer, 1)
    assert centre.note
    optimizer.region = replace(optimizer.region, side=0.2, radius=1)
    assert all(is_within(optimizer, trial, centre, side=0.2, radius=1) for trial in worse(optimizer, 7))


def test_where_the_bests_cannot_be_fitted_the_centre_is_drawn_and_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*given: Any) -> Fit:
        raise FitError("it is singular")

    optimizer = build_optimizer()
    optimizer._best = [(x, float(y)) for y, x in enumerate(SPACE.sample_encoded(np.random.default_rng(1), 2))]
    monkeypatch.setattr(optimizer.surrogate, "fit", fails)
    centre = optimizer._suggest_centre(np.random.default_rng(2))
    assert (centre.origin, centre.fallback) == (RANDOM, FAILED_FIT)
    assert centre.note == "start of a new trust region; fit failed: it is singular"


def test_candidates_are_compared_with_all_trials_in_little_memory() -> None:
    """As many candidates for a centre as there are, times trials and variables, would be gigabytes."""
    rng = np.random.default_rng(0)
    X, known = rng.random((400, 50)), rng.random((500, 50))
    X[7], X[8] = known[3], known[5]
    X[8, 49] += 1e-6
    tracemalloc.start()
    new = is_new(X, known)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert np.flatnonzero(~new).tolist() == [7]
    assert peak < 10 * X.shape[0] * known.shape[0] * X.itemsize


def test_bests_that_are_huge_are_modelled() -> None:
    space = Space([Real("x", 0.0, 1.0), Nominal("h", (0, 1))])
    optimizer = build_optimizer(space, design=1)
    for value in (1.7e308, 1e300, 1.0):
        optimizer.region = replace(optimizer.region, side=2.0**-7)
        worse(optimizer, 2, first=value)
    assert len(optimizer._best) == 3
    centre = optimizer._suggest_centre(np.random.default_rng(0))
    assert (centre.origin, centre.fallback) == (MODEL, "")
