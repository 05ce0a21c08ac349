"""The discrete problems: values of published code and of exact enumeration."""

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmnas.platform.problems import PROBLEMS
from fmnas.search_spaces import Configuration
from fmnas.trainers.functions import combinatorial

GOLDEN: Any = json.loads((Path(__file__).parent / "golden_combinatorial.json").read_text())
NAMES = ("labs", "pest_control", "contamination", "maxsat")


def configuration_of(values: list[int]) -> Configuration:
    return {f"h{j}": value for j, value in enumerate(values, start=1)}


@pytest.mark.parametrize(("name", "values", "objective"), [(name, *case) for name in GOLDEN for case in GOLDEN[name]])
def test_golden_values(name: str, values: list[int], objective: float) -> None:
    function = getattr(combinatorial, name)
    assert function(configuration_of(values)) == pytest.approx(objective, abs=1e-12)


def test_the_best_short_sequence_is_the_known_one() -> None:
    """Barker's sequence of length 7 has the energy 3."""
    best = min(combinatorial.labs(configuration_of(list(values))) for values in itertools.product((0, 1), repeat=7))
    assert best == -49 / 6


def test_the_minimum_of_labs_is_the_published_merit_factor() -> None:
    """8.170 for length 50, in the table of Packebusch and Mertens (2016)."""
    minimum = PROBLEMS["labs"].problem().minimum
    assert minimum is not None
    assert round(-minimum, 3) == 8.170


def test_the_minimum_of_contamination_is_better_than_its_neighbours() -> None:
    values, objective = GOLDEN["contamination"][-1]
    assert objective == PROBLEMS["contamination"].problem().minimum
    for j in range(len(values)):
        flipped = [*values[:j], 1 - values[j], *values[j + 1 :]]
        assert combinatorial.contamination(configuration_of(flipped)) > objective


def test_a_clause_is_satisfied_by_any_of_its_literals() -> None:
    rng = np.random.default_rng(0)
    values = rng.integers(0, 2, combinatorial.VARIABLES).tolist()
    variables, wanted, weights = combinatorial._draw_clauses()
    lost = sum(
        int(weight)
        for clause, signs, weight in zip(variables, wanted, weights, strict=True)
        if all(values[v] != sign for v, sign in zip(clause, signs, strict=True))
    )
    assert combinatorial.maxsat(configuration_of(values)) == pytest.approx(lost / weights.sum())


def test_the_clauses_are_those_of_seed_0() -> None:
    """Three of the 60 variables per clause, then the wanted values of all, then weights from 1 to 10."""
    rng = np.random.RandomState(0)
    clauses = [rng.permutation(60)[:3] for _ in range(600)]
    signs, weights = rng.randint(2, size=(600, 3)), rng.randint(1, 11, 600)
    lost = sum(weights[i] for i in range(600) if 1 not in signs[i])  # no literal of these is true if all values are 1
    assert combinatorial.maxsat(configuration_of([1] * 60)) == pytest.approx(lost / sum(weights))
    lost = sum(weights[i] for i in range(600) if all((clauses[i][k] < 30) != signs[i][k] for k in range(3)))
    assert combinatorial.maxsat(configuration_of([1] * 30 + [0] * 30)) == pytest.approx(lost / sum(weights))


@pytest.mark.parametrize("name", NAMES)
def test_no_configuration_reaches_below_the_minimum_or_above_the_penalty(name: str) -> None:
    problem = PROBLEMS[name].problem()
    function = getattr(combinatorial, name)
    sampled = [function(problem.space.sample(np.random.default_rng(seed))) for seed in range(200)]
    low = -np.inf if problem.minimum is None else problem.minimum
    assert low < min(sampled) < max(sampled) < problem.penalty
