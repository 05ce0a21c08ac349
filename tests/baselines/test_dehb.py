"""DEHB: golden trials of the authors' code, its evolution of points, and what happens to a failed trial."""

import itertools
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from fmnas.baselines import RandomSearch
from fmnas.baselines.dehb import DEHB, SINGLE_POPULATION
from fmnas.baselines.differential_evolution import DifferentialEvolution, Point
from fmnas.optimizers import Optimizer, OptimizerError
from fmnas.search_spaces import Integer, LinearConstraint, Nominal, Real, Space, Trial
from fmnas.search_spaces.records import FALLBACK, MUTATION, PROMOTION, RANDOM

GOLDEN: Any = json.loads((Path(__file__).parent / "golden_dehb.json").read_text())
"""Epochs and points of the first two cycles of brackets of the authors' public code, one trial after the other. It had
the random numbers of our asks, and evaluated the first generation before it mutated it."""
PLANE = Space([Real("x0", 0.0, 1.0), Real("x1", 0.0, 1.0)])
MIXED = Space([Real("x", 1e-3, 1e1, log=True), Nominal("op", ["a", "b", "c"]), Integer("k", 0, 4)])
HALVED = Space([Real("x", 0.0, 1.0), Integer("k", 0, 4)], [LinearConstraint({"x": 4, "k": 1}, 4)])
UNIT = st.floats(0.0, 1.0)


def golden_score(trial: Trial) -> float:
    u = np.array(trial.memo)
    return float(((u - 0.3) ** 2).sum() + 1 / trial.epochs + 0.05 * np.sin(40 * u[0]))


def ask(optimizer: Optimizer) -> Trial:
    trial = optimizer.ask()
    assert trial is not None
    return trial


def run_trials(optimizer: Optimizer, count: int) -> list[Trial]:
    trials = []
    for _ in range(count):
        trials.append(ask(optimizer))
        optimizer.tell(trials[-1], golden_score(trials[-1]))
    return trials


def test_trials_are_those_of_the_authors_code() -> None:
    trials = run_trials(DEHB(PLANE, epochs=9), len(GOLDEN))
    assert [trial.epochs for trial in trials] == [epochs for epochs, _ in GOLDEN]
    np.testing.assert_allclose([trial.memo for trial in trials], [u for _, u in GOLDEN], rtol=1e-12)
    for trial in trials:
        assert tuple(trial.configuration.values()) == trial.memo


def test_the_first_bracket_is_hyperbands_and_later_ones_evolve() -> None:
    trials = run_trials(DEHB(PLANE, epochs=9), len(GOLDEN))
    origins = [RANDOM] * 9 + [PROMOTION] * 4 + [MUTATION] * 3 + [PROMOTION, RANDOM] + [MUTATION] * 2
    assert [trial.origin for trial in trials] == origins + [MUTATION] * 20
    best = sorted(trials[:9], key=golden_score)[:3]
    assert [trial.parent for trial in trials[9:12]] == [trial.id for trial in best]
    for trial in trials:
        if trial.origin == PROMOTION:
            assert trial.parent is not None
            assert trial.epochs > trials[trial.parent].epochs
            assert trial.configuration == trials[trial.parent].configuration


def test_the_best_of_a_rung_that_the_next_one_lacks_are_promoted_in_the_order_of_that_rung() -> None:
    """With more epochs the order is reversed. No child wins, so the second bracket promotes the second best."""
    optimizer = DEHB(PLANE, epochs=9)

    def tell_next(objective: float) -> Trial:
        trial = ask(optimizer)
        optimizer.tell(trial, objective)
        return trial

    first = [tell_next(float(place)) for place in range(9)]
    second = [tell_next(float(3 - place)) for place in range(3)]
    assert [trial.parent for trial in second] == [first[0].id, first[1].id, first[2].id]
    third = tell_next(0.0)
    assert (third.epochs, third.parent) == (9, second[2].id)
    assert {tell_next(50.0).origin for _ in range(3)} == {MUTATION}
    again = ask(optimizer)
    assert (again.epochs, again.origin, again.parent) == (9, PROMOTION, second[1].id)


def test_a_place_whose_promotion_has_no_result_was_not_asked() -> None:
    optimizer = DEHB(PLANE, epochs=9)
    run_trials(optimizer, 9)
    before = optimizer.populations[1][0]
    promoted = ask(optimizer)
    assert promoted.origin == PROMOTION
    optimizer.forget(promoted)
    assert optimizer.populations[1][0] == before
    assert before.trial is None


def test_two_rungs_are_two_brackets() -> None:
    assert [trial.epochs for trial in run_trials(DEHB(PLANE, epochs=3), 12)] == [1, 1, 1, 3, 3, 3, 1, 1, 1, 3, 3, 3]


def test_a_child_takes_the_place_of_a_target_that_is_not_better() -> None:
    optimizer = DEHB(PLANE, epochs=1)
    for _ in range(SINGLE_POPULATION):
        trial = ask(optimizer)
        assert trial.origin == RANDOM
        optimizer.tell(trial, 1.0)
    for place, (objective, wins) in enumerate([(2.0, False), (1.0, True), (0.5, True)]):
        child = ask(optimizer)
        assert (child.origin, child.parent) == (MUTATION, place)
        optimizer.tell(child, objective)
        assert (optimizer.populations[0][place].u == child.memo) == wins


def test_with_a_single_rung_every_member_may_be_a_parent(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = DEHB(PLANE, epochs=1)
    run_trials(optimizer, SINGLE_POPULATION)
    members, mutate, pools = [member.u for member in optimizer.populations[0]], optimizer.evolution.mutate, []

    def record(pool: Any, target: Any, rng: Any) -> Any:
        pools.append(sorted(map(tuple, pool)))
        return mutate(pool, target, rng)

    monkeypatch.setattr(optimizer.evolution, "mutate", record)
    assert ask(optimizer).origin == MUTATION
    assert pools == [sorted(members)]


def test_pending_trials_open_brackets_and_results_come_in_any_order() -> None:
    optimizer = DEHB(PLANE, epochs=9)
    trials = [ask(optimizer) for _ in range(17)]
    assert [trial.epochs for trial in trials] == [1] * 9 + [3] * 3 + [9] * 3 + [1] * 2
    assert {trial.origin for trial in trials[:15]} == {RANDOM}, "no place is asked twice before all were"
    assert [(t.origin, t.parent) for t in trials[15:]] == [(MUTATION, 0), (MUTATION, 1)]
    for trial in reversed(trials[:9]):
        optimizer.tell(trial, golden_score(trial))
    promoted = ask(optimizer)
    assert (promoted.origin, promoted.epochs) == (PROMOTION, 3)


def test_a_forgotten_trial_leaves_its_place_and_its_bracket_continues() -> None:
    optimizer = DEHB(PLANE, epochs=9)
    trials = [ask(optimizer) for _ in range(9)]
    for trial in trials[:8]:
        optimizer.forget(trial)
    optimizer.tell(trials[8], 0.5)
    following = [ask(optimizer) for _ in range(3)]
    assert [trial.epochs for trial in following] == [3] * 3
    assert [(t.origin, t.parent) for t in following] == [(PROMOTION, 8), (RANDOM, None), (RANDOM, None)]
    for trial in following:
        optimizer.forget(trial)
    assert [member.objective for member in optimizer.populations[1]] == [float("inf")] * 3
    assert ask(optimizer).epochs == 9


def test_infeasible_children_are_replaced_by_a_random_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = DEHB(HALVED, epochs=1)
    trials = run_trials(optimizer, SINGLE_POPULATION + 20)
    assert trials[-1].origin == MUTATION
    for trial in trials:
        assert HALVED.meets_constraints(trial.configuration, strictly=True)
    monkeypatch.setattr(optimizer.evolution, "cross", lambda *_: (0.9, 0.9))
    (trial,) = run_trials(optimizer, 1)
    assert (trial.origin, trial.fallback) == (RANDOM, FALLBACK)
    assert trial.note
    HALVED.validate(trial.configuration)


def test_restored_it_has_the_recorded_points_and_notices_a_changed_history() -> None:
    optimizer, copy = DEHB(MIXED, epochs=9), DEHB(MIXED, epochs=9)
    for trial in run_trials(optimizer, 25):
        copy.restore(trial)
        copy.tell(trial, golden_score(trial))
    assert copy.populations == optimizer.populations
    trial = ask(optimizer)
    moved = (*trial.memo[:-1], trial.memo[-1] / 2)
    copy.restore(replace(trial, memo=moved))
    copy.tell(trial, -1.0)
    assert sum(member.u == moved for population in copy.populations for member in population) == 1
    with pytest.raises(OptimizerError, match="trial 26 "):
        copy.restore(replace(trial, id=26, epochs=2))


def test_evolution_finds_more_than_random_search() -> None:
    """In five dimensions, on a paraboloid: in each of ten runs, and by half or more in eight of them."""
    space = Space([Real(f"x{i}", 0.0, 1.0) for i in range(5)])

    def best(optimizer: Optimizer) -> float:
        values = []
        for _ in range(200):
            trial = ask(optimizer)
            values.append(sum((float(value) - 0.3) ** 2 for value in trial.configuration.values()))
            optimizer.tell(trial, values[-1])
        return min(values)

    ratios = [best(DEHB(space, seed=seed)) / best(RandomSearch(space, seed=seed)) for seed in range(10)]
    assert max(ratios) < 1.0
    assert sorted(ratios)[7] < 0.5


def evolution(space: Space = MIXED, mutation_factor: float = 0.5, crossover_prob: float = 0.5) -> DifferentialEvolution:
    return DifferentialEvolution(space, mutation_factor, crossover_prob)


@given(u=st.tuples(UNIT, UNIT, UNIT))
@example(u=(1.0, 1.0, 1.0))
def test_decoding_has_equal_bins(u: Point) -> None:
    configuration = evolution().decode(u)
    MIXED.validate(configuration)
    assert configuration["op"] == "abc"[min(int(3 * u[1]), 2)]
    assert configuration["k"] == min(int(5 * u[2]), 4)
    assert configuration["x"] == pytest.approx(10 ** (4 * u[0] - 3))


def test_drawn_points_are_uniform() -> None:
    points = evolution().draw(4000, np.random.default_rng(0))
    for coordinates in points.T:
        np.testing.assert_allclose(np.histogram(coordinates, 10, (0.0, 1.0))[0] / 4000, 0.1, atol=0.02)
        assert 0.0 <= coordinates.min() < 0.005 < 0.995 < coordinates.max() < 1.0


@given(seed=st.integers(0, 2**20))
def test_drawn_points_are_feasible(seed: int) -> None:
    for u in evolution(HALVED).draw(20, np.random.default_rng(seed)):
        assert HALVED.meets_constraints(evolution(HALVED).decode(tuple(u)), strictly=True)


def test_a_mutant_is_made_of_three_points_other_than_the_target() -> None:
    rng, pool = np.random.default_rng(0), np.random.default_rng(1).random((4, 3))
    for _ in range(20):
        mutant = evolution(mutation_factor=0.7).mutate(pool, tuple(pool[1]), rng)
        allowed = [a + 0.7 * (b - c) for a, b, c in itertools.permutations(pool[[0, 2, 3]])]
        assert any(np.array_equal(mutant, other) for other in allowed)


@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_small_pool_is_completed_at_random(count: int) -> None:
    pool = np.random.default_rng(1).random((count, 3))
    mutants = [evolution().mutate(pool, tuple(pool[0]), np.random.default_rng(seed)) for seed in range(2)]
    assert not np.array_equal(*mutants)


@given(seed=st.integers(0, 2**20), mutant=st.tuples(*[st.floats(-0.5, 1.5)] * 3))
def test_crossover_takes_coordinates_of_the_mutant(seed: int, mutant: Point) -> None:
    target = (0.25, 0.5, 0.75)
    for crossover_prob in (0.0, 0.5, 1.0):
        rng = np.random.default_rng(seed)
        child = evolution(crossover_prob=crossover_prob).cross(target, np.array(mutant), rng)
        assert all(0.0 <= coordinate <= 1.0 for coordinate in child)
        same = [c == t for c, t in zip(child, target, strict=True)]
        from_mutant = [c == m for c, m in zip(child, mutant, strict=True)]
        inside = [0.0 <= m <= 1.0 for m in mutant]
        assert all(a or b or not c for a, b, c in zip(same, from_mutant, inside, strict=True))
        if crossover_prob == 0.0:
            assert sum(same) >= 2
        if crossover_prob == 1.0:
            assert all(b == c for b, c in zip(from_mutant, inside, strict=True))
