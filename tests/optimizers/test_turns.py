"""What asks do in their turns: doubt a model that stalls, and refine the incumbent while that helps."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fmnas.optimizers.bofm.turns import (
    Turn,
    doubt,
    is_exploitation_phase,
    refined,
    stalled,
    turn_of,
    with_inflated_variance,
    without_gain,
)
from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.frequency_modulation import FAST_KERNELS as KERNELS
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Likelihood, Posterior
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface
from fmnas.search_spaces import Integer, LinearConstraint, Nominal, Real, Space

SETTINGS = SearchSettings(random_points=200, spray_points=60, starts=6)
SPACE = Space([Nominal("a", list("pqrstuvw")), Integer("k", 0, 5), Nominal("b", [0, 1, 2]), Real("x", 0.0, 1.0)])


@pytest.mark.parametrize(
    ("y", "initial", "expected"),
    [
        ([3.0, 2.0, 1.0], 1, 0),  # the last one is progress
        ([3.0, 1.0, 2.0, 1.5], 1, 2),
        ([1.0, 3.0, 2.0, 4.0], 3, 1),  # of the three that never improved, two belong to the initial design
        ([1.0, 2.0, 3.0], 3, 0),
        ([1.0, 1.0 - 1e-6, 1.0 - 2e-6], 1, 2),  # too little to count
        ([1.0], 0, 0),
    ],
)
def test_a_stall_is_counted_from_the_last_progress(y: list[float], initial: int, expected: int) -> None:
    assert stalled(np.array(y), initial) == expected


@given(st.lists(st.floats(-5, 5), min_size=2, max_size=30), st.integers(0, 30))
def test_progress_ends_a_stall_and_its_absence_lengthens_it(y: list[float], initial: int) -> None:
    before = stalled(np.array(y), initial)
    assert 0 <= before < len(y)
    assert stalled(np.array([*y, min(y) - 1.0]), initial) == 0
    if initial <= len(y):
        assert stalled(np.array([*y, max(y)]), initial) == before + 1


@pytest.mark.parametrize(
    ("y", "initial", "expected"),
    [
        ([3.0, 1.0, *[2.0] * 7], 1, False),
        ([3.0, 1.0, *[2.0] * 8], 1, True),
        ([1.0, *[2.0] * 16], 10, False),  # the first ten were not asked for
        ([1.0, *[2.0] * 17], 10, True),
        ([1.0, *(1.0 - 1e-9 * i for i in range(20))], 1, False),  # little is better, too
    ],
)
def test_refining_rests_after_two_rounds_without_any_gain(y: list[float], initial: int, expected: bool) -> None:
    assert without_gain(np.array(y), initial) is expected


TURNS: tuple[Turn, ...] = ("expect", "expect", "explore", "refine")


@pytest.mark.parametrize(
    ("asked", "since_progress", "expected"),
    [
        (0, 0, "expect"),
        (1, 0, "expect"),
        (2, 0, "explore"),
        (3, 0, "refine"),
        (3, 8, "refine"),  # in rounds of even number
        (7, 7, "refine"),
        (7, 8, "explore"),  # refining rests
        (11, 8, "refine"),
    ],
)
def test_turns_follow_what_the_last_results_were(asked: int, since_progress: int, expected: str) -> None:
    y = np.array([5.0, 4.0, 3.0, 0.0, *[4.0] * since_progress])
    assert turn_of(TURNS, asked, y, 3) == expected
    never = tuple[Turn, ...]("expect" if turn == "explore" else turn for turn in TURNS)
    assert turn_of(never, asked, y, 3) == ("expect" if expected == "explore" else expected)


@pytest.mark.parametrize(
    ("evaluations", "initial", "first"),
    [(60, 10, 55), (100, 0, 90), (100, 10, 91), (1000, 10, 990), (20, 10, 19), (15, 10, 15), (5, 10, 5)],
)
def test_the_last_tenth_of_known_evaluations_ends_them_but_ten_at_most(
    evaluations: int, initial: int, first: int
) -> None:
    ends = [is_exploitation_phase(committed, initial, evaluations) for committed in range(evaluations + 20)]
    assert ends == [False] * first + [True] * (evaluations - first) + [False] * 20


def test_nothing_ends_where_the_number_of_evaluations_is_unknown() -> None:
    assert not any(is_exploitation_phase(committed, 10, None) for committed in range(1000))


def test_doubt_doubles_every_four_results_and_has_an_end() -> None:
    assert [doubt(stall, 4.0) for stall in (0, 4, 8, 12, 10_000)] == [1.0, 2.0, 4.0, 4.0, 4.0]


def test_with_inflated_variance_a_model_says_the_same_less_surely(make_problem: Any) -> None:
    problem = make_problem(SPACE, 9)
    near = Points(problem.points.C + 0.01, problem.points.V)
    mean, variance = problem.posterior.predict(near)
    other = with_inflated_variance(problem.posterior, 3.0)
    same, larger = other.predict(near)
    np.testing.assert_allclose(same, mean)
    np.testing.assert_allclose(larger, 9.0 * variance, rtol=1e-9)


def state_at(incumbent: np.ndarray, known: np.ndarray, settings: SearchSettings, seed: int) -> SearchState:
    return SearchState(incumbent, known, settings, np.random.default_rng(seed))


def surface_of(problem: Any) -> Surface:
    return Surface(problem.posterior, LogEI(float(problem.y.min())))


def test_refining_keeps_to_the_constraints(make_problem: Any) -> None:
    space = Space([Nominal("a", [0, 1, 2, 3]), Real("x", 0.0, 1.0)], [LinearConstraint({"a": 1, "x": 1}, bound=2.5)])
    surface, known = surface_of(make_problem(space, 6)), np.array([[0.4, 0]])
    state = state_at(np.array([0.4, 2]), known, SETTINGS, 0)
    refining = refined(space, surface, state).encoded(space)
    assert space.feasible(refining).all()
    assert set(refining[:, 1]) <= {2}


def test_refining_keeps_the_vertices_and_finds_the_best_continuous_part(make_problem: Any) -> None:
    problem = make_problem(SPACE, 9)
    surface, incumbent = surface_of(problem), problem.X[int(problem.y.argmin())]
    found = refined(SPACE, surface, state_at(incumbent, problem.X, SETTINGS, 0))
    assert len(found) > 0
    assert (found.V.numpy() == incumbent[1:]).all()
    line = np.tile(incumbent, (2001, 1))
    line[:, 0] = np.linspace(0, 1, 2001)
    best = surface.value(Points.of(SPACE, line)).max().item()
    assert surface.value(found)[0].item() >= best - 1e-4


def test_where_all_points_to_refine_are_infeasible_nothing_is_refined(make_problem: Any) -> None:
    slack = [LinearConstraint({"x": sign, "z": -sign}, bound=1e-9) for sign in (1.0, -1.0)]
    space = Space([Real("x", 0.0, 1.0), Real("z", 0.0, 1.0)], slack)
    surface = surface_of(make_problem(Space(space.variables), 6))
    state = state_at(np.array([0.4, 0.4]), np.array([[0.4, 0.4]]), SETTINGS, 0)
    assert len(refined(space, surface, state)) == 0


def test_what_promises_nothing_is_not_refined() -> None:
    """A straight line, known to its end: nothing below it is to be expected."""
    space = Space([Real("x", 0.0, 1.0)])
    X = np.linspace(0.0, 1.0, 30)[:, None]
    likelihood = Likelihood(
        FMKernel(space, KERNELS["modlap"]), Points.of(space, X), torch.from_numpy(3.4 * (X[:, 0] - 0.5))
    )
    eta = torch.tensor([3.0, 0.01, 1.0, 1.0, 1e-6], dtype=torch.float64).log()
    surface = Surface(Posterior(likelihood, eta), LogEI(-1.7))
    assert len(refined(space, surface, state_at(X[0], X, SETTINGS, 0))) == 0
