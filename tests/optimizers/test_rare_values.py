"""Every value of a nominal variable has its turn: those that nobody tried at once, then the rarest."""

from dataclasses import replace
from typing import Any

import numpy as np

from fmnas.optimizers import BOFM
from fmnas.optimizers.bofm import MODES
from fmnas.optimizers.bofm.turns import NominalValue, nominal_values, rarest_value, untried_values
from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface
from fmnas.search_spaces import Integer, LinearConstraint, Nominal, Ordinal, Real, Space

SETTINGS = SearchSettings(random_points=200, spray_points=60, starts=6)
SPACE = Space([Nominal("a", list("pqrstuvw")), Integer("k", 0, 5), Nominal("b", [0, 1, 2]), Real("x", 0.0, 1.0)])
CONSTRAINED = Space([Nominal("a", [0, 1, 2, 3]), Real("x", 0.0, 1.0)], [LinearConstraint({"a": 1, "x": 1}, bound=2.5)])


def test_the_values_of_nominal_variables_are_counted() -> None:
    space = Space([*SPACE.variables, Ordinal("o", [1, 2, 4])])  # columns: x, then a, k, b, o
    found = nominal_values(space)
    assert found == [*(NominalValue(1, v) for v in range(8)), *(NominalValue(3, v) for v in range(3))]
    known = np.array([[0.5, 0, 0, 0, 1], [0.1, 3, 0, 2, 1], [0.2, 3, 1, 2, 2]])
    assert [value.tried(known) for value in found] == [1, 0, 0, 2, 0, 0, 0, 0, 1, 0, 2]


def state_at(incumbent: np.ndarray, known: np.ndarray, settings: SearchSettings, seed: int) -> SearchState:
    return SearchState(incumbent, known, settings, np.random.default_rng(seed))


def surface_of(problem: Any) -> Surface:
    return Surface(problem.posterior, LogEI(float(problem.y.min())))


def test_untried_values_points_have_untried_values_near_the_incumbent(make_problem: Any) -> None:
    problem = make_problem(SPACE, 9)
    known = np.array([[0.5, a, 3, b] for a in (0, 2, 3, 4, 5, 6) for b in (0, 1)])
    surface = surface_of(problem)
    points = untried_values(SPACE, surface, state_at(known[0], known, SETTINGS, 0))
    X = points.encoded(SPACE)
    assert len(X) == SETTINGS.random_points
    assert set(X[:, 1]) == {1, 7}
    assert set(X[:, 2]) == {3}
    assert set(X[:, 3]) == {2}
    assert (np.abs(X[:, 0] - 0.5) < 0.1).mean() > 0.5
    assert (surface.value(points).diff() <= 0).all()  # the best first
    everything = np.array([[0.5, a, 3, a % 3] for a in range(8)])
    assert len(untried_values(SPACE, surface, state_at(known[0], everything, SETTINGS, 0))) == 0


def test_untried_values_keeps_to_the_constraints(make_problem: Any) -> None:
    surface, known = surface_of(make_problem(CONSTRAINED, 6)), np.array([[0.4, 0]])
    X = untried_values(CONSTRAINED, surface, state_at(known[0], known, SETTINGS, 0)).encoded(CONSTRAINED)
    assert set(X[:, 1]) == {1, 2}
    assert CONSTRAINED.feasible(X).all()


def test_the_rarest_value_is_held_and_the_rest_is_as_expected_improvement_likes_it(make_problem: Any) -> None:
    problem = make_problem(SPACE, 9)
    known = np.array(
        [[0.5, a, 3, b] for a in range(8) for b in (0, 1, 2)] + [[0.5, a, 3, 0] for a in range(8) if a != 5]
    )
    surface = surface_of(problem)
    found = rarest_value(SPACE, surface, state_at(known[0], known, SETTINGS, 0))
    assert set(found.V[:, 0].tolist()) == {5}
    value = surface.value(found)
    assert (value.diff() <= 1e-9).all()  # the best first
    X = SPACE.sample_encoded(np.random.default_rng(1), 3000)
    X[:, 1] = 5
    assert value[0] >= surface.value(Points.of(SPACE, X)).max() - 1e-6
    assert len(set(found.V[:, 1].tolist())) > 1 or found.V[0, 1] != 3  # the others may move


def test_of_several_rarest_values_the_one_that_promises_most_is_tried(make_problem: Any) -> None:
    problem = make_problem(SPACE, 9)
    surface, known = surface_of(problem), np.array([[0.5, a, 3, b] for a in range(8) for b in (0, 1, 2)])
    settings = replace(SETTINGS, random_points=2000)
    found = rarest_value(SPACE, surface, state_at(known[0], known, settings, 0))
    X = SPACE.sample_encoded(np.random.default_rng(1), 2000)  # any value of a: each was tried thrice, those of b more
    assert surface.value(found)[0] >= surface.value(Points.of(SPACE, X)).max() - 1e-6


def test_what_the_constraints_rule_out_is_not_waited_for(make_problem: Any) -> None:
    """a = 3 cannot be: of those that can, 1 is the rarest."""
    surface = surface_of(make_problem(CONSTRAINED, 6))
    known = np.array([[0.4, 0], [0.5, 0], [0.3, 1], [0.1, 2], [0.2, 2]])
    for seed in range(5):
        X = rarest_value(CONSTRAINED, surface, state_at(known[0], known, SETTINGS, seed))
        X = X.encoded(CONSTRAINED)
        assert CONSTRAINED.feasible(X).all()
        assert set(X[:, 1]) == {1}


def test_where_nothing_is_nominal_nothing_is_rare(make_problem: Any) -> None:
    space = Space([Integer("k", 0, 5), Real("x", 0.0, 1.0)])
    problem = make_problem(space, 6)
    rng = np.random.default_rng(0)
    assert len(rarest_value(space, surface_of(problem), SearchState(problem.X[0], problem.X, SETTINGS, rng))) == 0


def distinct_values(mode: Any, asks: int) -> int:
    """How many of the values of `a` were asked; only its first one is any good, and the rest are alike."""
    design = [{"a": "p", "k": k, "b": 0, "x": 0.1 * k} for k in range(4)]
    opt = BOFM(SPACE, seed=0, initial_design=design, mode=mode)
    for _ in range(asks):
        trial = opt.ask()
        assert trial is not None
        c = trial.configuration
        opt.tell(trial, (0.0 if c["a"] == "p" else 5.0) + 0.1 * abs(c["k"] - 2) + (c["x"] - 0.3) ** 2)  # type: ignore[operator]
    return len({trial.configuration["a"] for trial, _ in opt.history})


def test_every_value_of_a_nominal_variable_is_tried_once() -> None:
    assert distinct_values(MODES["default"], 4 + 4 * 7) == 8
    assert distinct_values(replace(MODES["default"], turns=("expect",)), 4 + 4 * 7) < 8
