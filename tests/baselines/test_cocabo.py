"""CoCaBO: kernel and bandits as the authors' code has them, and what was changed of them."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.baselines.cocabo import DEFAULT_PULLS, CoCaBO, CoCaBOKernel
from fmnas.baselines.exp3 import EXP3, MAX_LOG_WEIGHT, Bandits, exploration_rate
from fmnas.optimizers import random_design
from fmnas.optimizers.bayesian import ModelSettings
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.points import Points, standardise
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface
from fmnas.search_spaces import Nominal, Real, Space
from fmnas.search_spaces.records import INITIAL, MODEL, RANDOM

GOLDEN: Any = json.loads((Path(__file__).parent / "golden_cocabo.json").read_text())
NOMINALS = [Nominal(f"h{j}", tuple(range(n))) for j, n in enumerate(GOLDEN["sizes"], 1)]
SPACE = Space([Real("x1", -1.0, 1.0), Real("x2", -1.0, 1.0), *NOMINALS])
Z = np.array(GOLDEN["Z"])
X = np.column_stack([(Z[:, 3:] + 1.0) / 2.0, Z[:, :3]])  # [-1, 1] to the unit cube
QUICK = ModelSettings(
    FitSettings(starts=1, screening=0, finalists=1, prior=False), SearchSettings(random_points=60, starts=2, rounds=3)
)


def gram(mix: float) -> np.ndarray:
    points = Points.from_encoded(SPACE, X)
    theta = torch.tensor([GOLDEN["gram"]["lengthscale"] / 2.0], dtype=torch.float64)
    r, _ = CoCaBOKernel(SPACE, mix).condition_on({"theta": theta}, points).correlate(points)
    return r.numpy()


@pytest.mark.parametrize("mix", ["0.0", "0.5", "1.0"])
def test_golden_gram_matrices(mix: str) -> None:
    np.testing.assert_allclose(gram(float(mix)), GOLDEN["gram"]["mix"][mix]["code"], rtol=1e-9, atol=1e-12)


def test_the_papers_form_is_another_mix_and_scale() -> None:
    """Its 1/2 is a third here: as the docstring has it, its 2/3 is 1/2."""
    np.testing.assert_allclose(1.5 * gram(1 / 3), GOLDEN["gram"]["mix"]["0.5"]["paper"], rtol=1e-9, atol=1e-12)


def test_a_learned_mix_is_the_fixed_one_at_its_odds() -> None:
    points, kernel = Points.from_encoded(SPACE, X), CoCaBOKernel(SPACE, None)
    values = {"theta": torch.tensor([0.175], dtype=torch.float64), "odds": torch.tensor([1 / 3], dtype=torch.float64)}
    r, _ = kernel.condition_on(values, points).correlate(points)
    np.testing.assert_allclose(r, CoCaBOKernel(SPACE, 0.25).condition_on(values, points).correlate(points)[0])
    assert [parameter.name for parameter in kernel.parameters] == ["theta", "odds"]


def test_without_variables_of_a_kind_the_kernel_is_the_others_part() -> None:
    nominal, real = Space(NOMINALS), Space([Real("x1", -1.0, 1.0), Real("x2", -1.0, 1.0)])
    assert CoCaBOKernel(nominal, None).parameters == ()
    points = Points.from_encoded(nominal, X[:, 2:])
    r, own = CoCaBOKernel(nominal, 0.5).condition_on({}, points).correlate(points)
    np.testing.assert_allclose(r, (Z[:, None, :3] == Z[None, :, :3]).mean(-1))
    np.testing.assert_allclose(own, 1.0)
    points, theta = Points.from_encoded(real, X[:, :2]), {"theta": torch.tensor([0.175], dtype=torch.float64)}
    r, _ = CoCaBOKernel(real, 0.5).condition_on(theta, points).correlate(points)
    matern = 2.0 * np.array(GOLDEN["gram"]["mix"]["0.0"]["code"]) - (Z[:, None, :3] == Z[None, :, :3]).mean(-1)
    np.testing.assert_allclose(r, matern, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("case", GOLDEN["gamma"], ids=lambda case: f"{case['C']} of {case['T']}")
def test_golden_exploration(case: dict[str, float]) -> None:
    assert exploration_rate(int(case["C"]), int(case["T"])) == pytest.approx(min(1.0, case["gamma"]), rel=1e-12)


def test_golden_bandits_step_by_step() -> None:
    golden = GOLDEN["exp3"]
    bandits = [EXP3(gamma, np.zeros(size)) for gamma, size in zip(golden["gamma"], GOLDEN["sizes"], strict=True)]
    for step in golden["steps"]:
        for p, (arm, reward) in enumerate(zip(step["arms"], step["rewards"], strict=True)):
            np.testing.assert_allclose(bandits[p].probabilities, step["probabilities_before"][p], rtol=1e-10)
            bandits[p] = bandits[p].update(arm, reward, bandits[p].probabilities[arm])
            np.testing.assert_allclose(np.exp(bandits[p].log_weights), step["weights_after"][p], rtol=1e-10)
    for bandit, final in zip(bandits, golden["probabilities_final"], strict=True):
        np.testing.assert_allclose(bandit.probabilities, final, rtol=1e-10)


def test_weights_stay_within_bounds_and_every_value_keeps_its_share() -> None:
    bandit = EXP3(0.3, np.zeros(3))
    for _ in range(2000):
        bandit = bandit.update(0, 1.0, bandit.probabilities[0])
        bandit = bandit.update(1, -1.0, bandit.probabilities[1])
    assert np.abs(bandit.log_weights).max() == MAX_LOG_WEIGHT
    assert bandit.probabilities.sum() == pytest.approx(1.0)
    assert bandit.probabilities.min() == pytest.approx(0.1)


def tell_results(pulled: int, scale: float = 1.0) -> Bandits:
    """All golden results, of which the last `pulled` were drawn by the bandits."""
    bandits = Bandits(SPACE, 100)
    for number, (z, y) in enumerate(zip(Z, GOLDEN["y"], strict=True)):
        vertices = [int(vertex) for vertex in z[:3]]
        is_pulled = number >= len(Z) - pulled
        bandits.tell(vertices, -y * scale, bandits.probabilities(vertices) if is_pulled else None)
    return bandits


def test_a_reward_is_the_best_result_of_the_value_on_the_scale_of_all_such() -> None:
    y = np.array(GOLDEN["y"])
    bests = [-y[Z[:, p] == value].min() for p in range(3) for value in set(Z[:, p])]
    for p, (bandit, golden) in enumerate(zip(tell_results(1).bandits, GOLDEN["rewards"], strict=True)):
        reward = 2.0 * (golden - min(bests)) / (max(bests) - min(bests)) - 1.0
        expected = np.zeros(GOLDEN["sizes"][p])
        expected[int(Z[-1, p])] = reward * exploration_rate(len(expected), 100)  # p = 1 / C before the first pull
        np.testing.assert_allclose(bandit.log_weights, expected, rtol=1e-10)


def test_of_a_single_value_of_all_results_no_weight_moves() -> None:
    bandits = Bandits(SPACE, 100)
    for _ in range(2):
        bandits.tell([0, 0, 0], -3.0, bandits.probabilities([0, 0, 0]))
    assert all((bandit.log_weights == 0.0).all() for bandit in bandits.bandits)


def test_results_that_no_bandit_drew_move_no_weight() -> None:
    assert all((bandit.log_weights == 0.0).all() for bandit in tell_results(0).bandits)


def test_values_are_drawn_with_the_bandits_probabilities() -> None:
    bandits = tell_results(6)
    drawn = bandits.draw(np.random.default_rng(0), 20_000)
    for p, bandit in enumerate(bandits.bandits):
        shares = np.bincount(drawn[:, p], minlength=len(bandit.log_weights)) / len(drawn)
        np.testing.assert_allclose(shares, bandit.probabilities, atol=4 * math.sqrt(0.25 / len(drawn)))


def build_optimizer(space: Space, **options: Any) -> CoCaBO:
    optimizer = CoCaBO(space, initial_design=random_design(space, 4, 0), **options)
    optimizer.settings = QUICK
    return optimizer


def test_only_what_the_bandits_chose_is_a_pull() -> None:
    """The initial design, and what chance chose, tell the range of results and the best of each value."""
    optimizer = build_optimizer(SPACE)
    while optimizer.ask() and len(optimizer.pending) < 5:
        continue
    origins = [trial.origin for trial in optimizer.pending.values()]
    assert origins == [INITIAL] * 4 + [RANDOM]  # no result was received yet
    for number, trial in enumerate(list(optimizer.pending.values())):
        optimizer.tell(trial, float(number))
    assert all((bandit.log_weights == 0.0).all() for bandit in optimizer._bandits.bandits)
    trial = optimizer.ask()
    assert trial.origin == MODEL
    optimizer.tell(trial, -1.0)
    gammas = [exploration_rate(size, DEFAULT_PULLS) for size in GOLDEN["sizes"]]
    assert [bandit.log_weights.max() for bandit in optimizer._bandits.bandits] == pytest.approx(gammas)


@pytest.mark.parametrize("result", [-9.0, 9.0])
def test_low_objectives_are_high_rewards(result: float) -> None:
    """The reward of a value by its lowest objective, as if each variable had been told alone."""
    optimizer = build_optimizer(SPACE)
    run(optimizer, 4)
    trial = optimizer.ask()
    optimizer.tell(trial, result)
    lowest: list[dict[int, float]] = [{} for _ in GOLDEN["sizes"]]
    for known, evaluation in optimizer.history:
        for p, best in enumerate(lowest):
            value = known.configuration[f"h{p + 1}"]
            best[value] = min(best.get(value, math.inf), evaluation.objective)
    low, high = (extreme(y for best in lowest for y in best.values()) for extreme in (min, max))
    for p, bandit in enumerate(optimizer._bandits.bandits):
        arm = trial.configuration[f"h{p + 1}"]
        reward = 1.0 - 2.0 * (lowest[p][arm] - low) / (high - low)
        expected = np.zeros(len(bandit.log_weights))
        expected[arm] = reward * exploration_rate(len(expected), DEFAULT_PULLS)
        np.testing.assert_allclose(bandit.log_weights, expected, rtol=1e-10, atol=1e-15)


def test_a_reward_is_divided_by_the_probability_at_the_draw(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two trials are pending while the weights change. A restored optimizer has the same bandits."""
    optimizer, copy, used = build_optimizer(SPACE), build_optimizer(SPACE), []
    run(optimizer, 6)
    for known, evaluation in optimizer.history:
        copy.restore(known)
        copy.tell(known, evaluation.objective)
    before = [bandit.probabilities for bandit in optimizer._bandits.bandits]
    first, second = optimizer.ask(), optimizer.ask()
    update = EXP3.update

    def record(self: EXP3, arm: int, reward: float, probability: float) -> EXP3:
        used.append(probability)
        return update(self, arm, reward, probability)

    monkeypatch.setattr(EXP3, "update", record)
    copy.restore(first)
    copy.restore(second)
    optimizer.tell(first, 0.0)
    optimizer.tell(second, 1.0)
    expected = [before[p][trial.configuration[f"h{p + 1}"]] for trial in (first, second) for p in range(3)]
    assert used == pytest.approx(expected)
    copy.tell(first, 0.0)
    copy.tell(second, 1.0)
    for one, other in zip(optimizer._bandits.bandits, copy._bandits.bandits, strict=True):
        np.testing.assert_array_equal(one.log_weights, other.log_weights)


def test_pulls_are_the_evaluations_after_the_design() -> None:
    gammas = [bandit.gamma for bandit in build_optimizer(SPACE, evaluations=54)._bandits.bandits]
    assert gammas == [exploration_rate(size, 50) for size in GOLDEN["sizes"]]
    assert [bandit.gamma for bandit in build_optimizer(SPACE)._bandits.bandits] == [
        exploration_rate(size, DEFAULT_PULLS) for size in GOLDEN["sizes"]
    ]


def run(optimizer: CoCaBO, asks: int) -> list[dict[str, Any]]:
    result = []
    for _ in range(asks):
        trial = optimizer.ask()
        optimizer.tell(trial, float(((optimizer.space.encode(trial.configuration) - 0.3) ** 2).sum()))
        result.append(trial.configuration)
    return result


def test_the_bandits_choose_the_discrete_variables() -> None:
    optimizer = build_optimizer(SPACE)
    run(optimizer, 4)
    for p, (arm, size) in enumerate(zip((2, 4, 1), GOLDEN["sizes"], strict=True)):
        optimizer._bandits.bandits[p] = EXP3(0.0, np.where(np.arange(size) == arm, MAX_LOG_WEIGHT, -MAX_LOG_WEIGHT))
    trial = optimizer.ask()
    assert [trial.configuration[f"h{j}"] for j in (1, 2, 3)] == [2, 4, 1]


def test_the_bound_is_twice_the_deviation_below_the_mean_of_a_process_of_output_scale_1() -> None:
    optimizer, numbers = build_optimizer(SPACE), torch.tensor([0.25, 3.0], dtype=torch.float64)
    bound = optimizer.acquisition(numbers).value(numbers, 2.0 * numbers)
    np.testing.assert_allclose(bound, [2.0 * 0.5 - 0.25, 2.0 * 6.0 - 3.0])
    y = torch.from_numpy(standardise(np.array(GOLDEN["y"])))
    fit = optimizer.surrogate.fit(Points.from_encoded(SPACE, X), y, np.random.default_rng(0))
    assert float(fit.posterior.s2) == 1.0


def test_of_all_points_with_the_values_drawn_the_bound_s_best_comes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is better than all random points."""
    optimizer, compared, returned = build_optimizer(SPACE), [], []
    run(optimizer, 6)
    candidates, value = optimizer.candidates, Surface.value

    def record_points(self: Surface, points: Points) -> torch.Tensor:
        compared.append((points, value(self, points)))
        return compared[-1][1]

    def record(surface: Surface, state: SearchState) -> Points:
        monkeypatch.setattr(Surface, "value", record_points)
        returned.append((candidates(surface, state), surface))
        monkeypatch.setattr(Surface, "value", value)
        return returned[-1][0]

    monkeypatch.setattr(optimizer, "candidates", record)
    optimizer.ask()
    ((points, surface),), (random, bounds) = returned, compared[0]
    assert len(np.unique(random.C, axis=0)) == QUICK.search.random_points
    assert len(torch.unique(torch.cat([random.V, points.V]), dim=0)) == 1
    assert float(value(surface, points)[0]) == pytest.approx(float(value(surface, points).max()))
    assert float(value(surface, points)[0]) > float(bounds.max())


@pytest.mark.parametrize("seed", range(3))
def test_known_values_are_drawn_again(seed: int) -> None:
    space = Space([Nominal("a", [0, 1]), Nominal("b", [0, 1])])
    optimizer = CoCaBO(space, seed=seed, initial_design=random_design(space, 3, seed))
    optimizer.settings = QUICK
    run(optimizer, 3)
    last = optimizer.ask()
    assert last.origin == MODEL
    assert all(last.configuration != trial.configuration for trial, _ in optimizer.history)
