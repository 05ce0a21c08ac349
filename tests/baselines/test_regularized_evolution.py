"""Regularized evolution: who becomes a parent, and when."""

import numpy as np
import pytest

from fmnas.baselines import RegularizedEvolution
from fmnas.search_spaces import Integer, LinearConstraint, Nominal, Real, Space, Trial
from fmnas.search_spaces.records import FALLBACK, MUTATION, RANDOM

SPACE = Space([Real("x", 0.0, 1.0), Nominal("op", ["a", "b", "c"]), Integer("k", 0, 9)])


def run_trials(optimizer: RegularizedEvolution, objectives: list[float]) -> list[Trial]:
    trials = []
    for objective in objectives:
        trial = optimizer.ask()
        optimizer.tell(trial, objective)
        trials.append(trial)
    return trials


def noise(count: int, seed: int = 0) -> list[float]:
    return np.random.default_rng(seed).random(count).tolist()


def test_fifty_random_trials_then_children() -> None:
    trials = run_trials(RegularizedEvolution(SPACE), noise(60))
    assert [t.origin for t in trials] == [RANDOM] * 50 + [MUTATION] * 10
    assert [t.parent for t in trials[:50]] == [None] * 50


def parents(optimizer: RegularizedEvolution, objectives: list[float], children: int) -> np.ndarray:
    """How often each of the trials with these objectives is a parent; without results, the population stays."""
    run_trials(optimizer, objectives)
    counts = np.zeros(len(objectives))
    for _ in range(children):
        child = optimizer.ask()
        assert child.parent is not None
        counts[child.parent] += 1
    return counts


@pytest.mark.parametrize("seed", [0, 1])
def test_a_tournament_of_fifteen_by_default(seed: int) -> None:
    """The best of 15 drawn with replacement out of 50 is the best of all with probability 1 - 0.98^15 = 0.2614.

    Without replacement it would be 0.3; the standard deviation of the share is 0.007.
    """
    counts = parents(RegularizedEvolution(SPACE, seed=seed), [0.0, *(0.1 + value for value in noise(49))], 4000)
    assert counts[0] / 4000 == pytest.approx(0.2614, abs=0.02)


def test_the_parent_is_the_best_of_a_tournament_of_all() -> None:
    optimizer = RegularizedEvolution(SPACE, population=6, tournament=500)
    objectives = noise(40)
    trials = run_trials(optimizer, objectives)
    for child in trials[6:]:
        window = range(child.id - 6, child.id)
        assert child.parent == min(window, key=lambda i: objectives[i])


def test_the_population_ages() -> None:
    """The first results are the best ever, and are forgotten all the same."""
    optimizer = RegularizedEvolution(SPACE, population=5, tournament=3)
    trials = run_trials(optimizer, [0.001 * i for i in range(40)])
    for child in trials[5:]:
        assert child.parent is not None
        assert child.id - 5 <= child.parent < child.id


def test_the_order_of_results_makes_the_population() -> None:
    """Trials that end late are young: the population is the last ones to end, not to be asked for."""
    optimizer = RegularizedEvolution(SPACE, population=3, tournament=100)
    trials = [optimizer.ask() for _ in range(4)]
    for i, objective in ((3, 0.0), (2, 5.0), (1, 4.0), (0, 3.0)):
        optimizer.tell(trials[i], objective)
    child = optimizer.ask()
    assert child.parent == 0  # trial 3 was better but ended first


def test_children_are_random_before_the_first_result() -> None:
    optimizer = RegularizedEvolution(SPACE, population=2, tournament=2)
    trials = [optimizer.ask() for _ in range(5)]
    assert [t and t.origin for t in trials] == [RANDOM] * 5
    optimizer.tell(trials[4], 0.5)
    child = optimizer.ask()
    assert (child.origin, child.parent) == (MUTATION, 4)


def test_without_a_feasible_child_the_suggestion_is_random_with_a_note() -> None:
    """Exactly one of four bits: every child has none or two."""
    bits = [Integer(f"b{i}", 0, 1) for i in range(4)]
    one = [LinearConstraint({bit.name: sign for bit in bits}, sign) for sign in (1, -1)]
    trials = run_trials(RegularizedEvolution(Space(bits, one), population=5, tournament=2), noise(40))
    for trial in trials:
        assert sum(map(int, trial.configuration.values())) == 1
    assert {(t.origin, t.parent) for t in trials[5:]} == {(RANDOM, None)}
    assert all(t.fallback == FALLBACK and t.note for t in trials[5:])
    assert len({str(t.configuration) for t in trials[5:]}) == 4
