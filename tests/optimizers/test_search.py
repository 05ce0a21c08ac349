"""The search for the largest acquisition: against enumeration, a fine grid, and its own parts."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.points import Points, sample_near
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import (
    SearchSettings,
    SearchState,
    Surface,
    _is_distinct,
    alternating_search,
    start_points,
)
from fmnas.search_spaces import Graph, Integer, LinearConstraint, Nominal, Ordinal, QuadraticConstraint, Real, Space

SETTINGS = SearchSettings(random_points=200, spray_points=40, starts=8)
NAMES = st.sampled_from(["modlap", "moddif", "mixture", "kernel-modulated"])
NOTHING_KNOWN = np.empty((0, 1))


def state_at(incumbent: np.ndarray, known: np.ndarray, settings: SearchSettings, seed: int) -> SearchState:
    return SearchState(incumbent, known, settings, np.random.default_rng(seed))


def surface_of(problem: Any) -> Surface:
    return Surface(problem.posterior, LogEI(problem.y.min().item()))


def points_of(space: Space, count: int, seed: int = 5) -> Points:
    return Points.from_encoded(space, space.sample_encoded(np.random.default_rng(seed), count))


def all_vertices(space: Space) -> np.ndarray:
    shape = [len(v.vertices) for v in space.discrete]
    return np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), axis=1).astype(float)


@given(data=st.data(), n=st.integers(2, 9), seed=st.integers(0, 2**32), name=NAMES)
@settings(max_examples=40)
def test_best_neighbour_is_the_best_of_all_neighbours(
    data: st.DataObject, spaces: Any, make_problem: Any, n: int, seed: int, name: str
) -> None:
    space = data.draw(spaces.filter(lambda s: len(s.discrete) > 0))
    surface = surface_of(make_problem(space, n, seed, name))
    X = space.sample_encoded(np.random.default_rng(seed), 3)
    vertices, values = surface.best_neighbours(Points.from_encoded(space, X), Region(space))
    D = len(space.continuous)
    for s, x in enumerate(X):
        around = space.encode_all(space.neighbours(space.decode(x)))
        around[:, :D] = x[:D]
        entry = surface.value(Points.from_encoded(space, around))
        assert values[s].item() == pytest.approx(entry.max().item(), rel=1e-6, abs=1e-6)
        chosen = np.concatenate([x[:D], vertices[s].numpy()])
        assert surface.value(Points.from_encoded(space, chosen[None])).item() == pytest.approx(
            values[s].item(), rel=1e-6, abs=1e-6
        )
        assert (around[:, D:] == chosen[D:]).all(axis=1).any()


def check_gradient(space: Space, surface: Surface, points: Points) -> None:
    value, gradient = surface.with_gradient(points.C, surface.posterior.conditioned.precompute(points.V))
    assert gradient.shape == points.C.shape
    np.testing.assert_allclose(value, surface.value(points), rtol=1e-6, atol=1e-6)
    step = 1e-5
    for d in range(len(space.continuous)):
        move = torch.zeros_like(points.C)
        move[:, d] = step
        above, below = (surface.value(Points(points.C + sign * move, points.V)) for sign in (1, -1))
        np.testing.assert_allclose(gradient[:, d], (above - below) / (2 * step), rtol=1e-3, atol=1e-4)


@given(data=st.data(), n=st.integers(2, 9), seed=st.integers(0, 2**32), name=NAMES)
@settings(max_examples=40)
def test_gradient_equals_finite_differences(
    data: st.DataObject, spaces: Any, make_problem: Any, n: int, seed: int, name: str
) -> None:
    space = data.draw(spaces.filter(lambda s: len(s.continuous) > 0))
    check_gradient(space, surface_of(make_problem(space, n, seed, name)), points_of(space, 3, seed + 1))


@given(data=st.data(), seed=st.integers(0, 2**32))
@settings(max_examples=25)
def test_alternation_never_worsens_a_start(data: st.DataObject, spaces: Any, make_problem: Any, seed: int) -> None:
    space = data.draw(spaces)
    surface = surface_of(make_problem(space, 6, seed))
    starts = points_of(space, 4, seed)
    result, values = alternating_search(surface, Region(space), starts, SETTINGS)
    assert len(result) == 4
    assert (values.diff() <= 0).all()
    assert (values >= surface.value(starts).sort(descending=True).values - 1e-6).all()
    np.testing.assert_allclose(surface.value(result), values, rtol=1e-6, atol=1e-6)
    for C, V in zip(result.C.tolist(), result.V.tolist(), strict=True):
        assert all(0.0 <= c <= 1.0 for c in C)
        space.validate(space.decode(C + (V if space.discrete else [])))


def test_starts_do_not_disturb_each_other(make_problem: Any, space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    surface = surface_of(make_problem(space, 6))
    starts, alike = points_of(space, 5), replace(SETTINGS, gain=SETTINGS.last_gain)
    entry = [
        alternating_search(surface, Region(space), Points(starts.C[[s]], starts.V[[s]]), alike)[1].item()
        for s in range(5)
    ]
    assert alternating_search(surface, Region(space), starts, SETTINGS)[1][0].item() == pytest.approx(
        max(entry), abs=1e-3
    )
    monkeypatch.setattr("fmnas.optimizers.gp.search.MERGE_DISTANCE", 0.0)  # none stops for having met another
    together = alternating_search(surface, Region(space), starts, alike)[1]
    np.testing.assert_allclose(together, sorted(entry, reverse=True), rtol=1e-5, atol=1e-5)


def test_of_starts_that_meet_the_best_continues() -> None:
    points = Points(
        torch.tensor([[0.5], [0.5001], [0.5], [0.9]], dtype=torch.float64), torch.tensor([[0], [0], [1], [0]])
    )
    value = torch.tensor([1.0, 2.0, 0.0, 1.0], dtype=torch.float64)
    assert _is_distinct(points, value).tolist() == [False, True, True, True]
    assert _is_distinct(points, torch.ones(4).double()).tolist() == [True, False, True, True]  # of equals the first


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    "space",
    [
        Space([Nominal("a", list("pqrs")), Nominal("b", list("xyz")), Nominal("c", [0, 1])]),
        Space([Integer("k", 0, 9), Ordinal("o", [1, 2, 3])]),
        Space([Graph("g", ("s", "t", "u", "w"), (("s", "t"), ("t", "u"), ("t", "w"))), Nominal("a", list("pqrst"))]),
    ],
    ids=["nominal", "path", "graph"],
)
def test_search_finds_the_best_of_a_discrete_space(make_problem: Any, space: Space, seed: int) -> None:
    problem = make_problem(space, 7, seed)
    surface = surface_of(problem)
    best = surface.value(Points.from_encoded(space, all_vertices(space))).max().item()
    incumbent = problem.X[int(problem.y.argmin())]
    starts = start_points(surface, Region(space), state_at(incumbent, NOTHING_KNOWN, SETTINGS, seed))
    assert alternating_search(surface, Region(space), starts, SETTINGS)[1].max().item() == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize("seed", range(3))
def test_search_finds_the_best_of_a_fine_grid(make_problem: Any, seed: int) -> None:
    space = Space([Real("x", 0.0, 1.0), Nominal("a", list("pqr"))])
    problem = make_problem(space, 6, seed)
    surface = surface_of(problem)
    x, a = np.meshgrid(np.linspace(0, 1, 2001), np.arange(3.0))
    grid = surface.value(Points.from_encoded(space, np.column_stack([x.ravel(), a.ravel()]))).max().item()
    incumbent = problem.X[int(problem.y.argmin())]
    starts = start_points(surface, Region(space), state_at(incumbent, NOTHING_KNOWN, SETTINGS, seed))
    assert alternating_search(surface, Region(space), starts, SETTINGS)[1].max().item() >= grid - 1e-6


def test_start_points_are_the_best_of_many(make_problem: Any, space: Space) -> None:
    problem = make_problem(space, 8)
    surface = surface_of(problem)
    incumbent = problem.X[int(problem.y.argmin())]
    starts = start_points(surface, Region(space), state_at(incumbent, NOTHING_KNOWN, SETTINGS, 0))
    assert 1 <= len(starts) <= SETTINGS.starts
    chance = surface.value(points_of(space, 200))
    values = surface.value(starts)
    assert values.mean() > chance.mean()
    assert values.max() >= chance.quantile(0.95)
    few = SearchSettings(random_points=3, spray_points=2, starts=8)
    assert len(start_points(surface, Region(space), state_at(incumbent, NOTHING_KNOWN, few, 0))) <= 5


def test_start_points_exclude_the_known_ones(make_problem: Any, space: Space) -> None:
    """The best starts are known in turn, as if pending: the same draws then give the next best ones."""
    problem = make_problem(space, 8)
    surface, size = surface_of(problem), SearchSettings(random_points=60, spray_points=10, starts=3)
    incumbent, known = problem.X[int(problem.y.argmin())], np.empty((0, len(space)))
    values: list[float] = []
    for _ in range(4):
        starts = start_points(surface, Region(space), state_at(incumbent, known, size, 0))
        X = starts.to_encoded(space)
        assert len(X) == 3
        assert all((x != known).any(axis=1).all() for x in X)
        values += surface.value(starts).tolist()
        known = np.concatenate([known, X])
    assert len(np.unique(known, axis=0)) == 12
    np.testing.assert_allclose(values, sorted(values, reverse=True), atol=1e-9)


def test_where_all_is_known_the_search_still_has_a_start(make_problem: Any) -> None:
    space = Space([Nominal("a", ["p", "q"]), Integer("k", 0, 2)])
    problem, everything = make_problem(space, 5), all_vertices(space)
    state = state_at(problem.X[0], everything, SETTINGS, 0)
    assert len(start_points(surface_of(problem), Region(space), state)) == len(everything)
    one_left = state_at(problem.X[0], everything[:-1], SETTINGS, 0)
    assert start_points(surface_of(problem), Region(space), one_left).to_encoded(space).tolist() == [[1.0, 2.0]]


def test_spray_stays_near_the_incumbent() -> None:
    space = Space(
        [
            Real("x", 0.0, 1.0),
            Real("z", 0.0, 1.0),
            Integer("k", 0, 5),
            Graph("g", ("s", "t", "u"), (("s", "t"), ("t", "u"))),
        ]
    )
    incumbent = np.array([0.5, 0.0, 3.0, 0.0])
    X = sample_near(space, incumbent, 400, np.random.default_rng(0))
    assert X.shape == (400, 4)
    assert (abs(X[:, :2] - 0.5) <= 0.5).all()
    assert 0.001 < np.median(abs(X[:, 0] - 0.5)) < 0.1
    moved = X[:, 2:] != incumbent[2:]
    assert (moved.sum(axis=1) <= 1).all()
    assert moved.any(axis=1).sum() == 200
    assert set(X[moved[:, 0], 2]) == {2.0, 4.0}
    assert set(X[moved[:, 1], 3]) == {1.0}
    assert incumbent.tolist() == [0.5, 0.0, 3.0, 0.0]


def constrained_space() -> Space:
    """Three bits of which at most one is set, unless x and z are small."""
    bits = [Integer(name, 0, 1) for name in "abc"]
    reals = [Real("x", 0.0, 2.0), Real("z", 1.0, 100.0, log=True)]
    few = LinearConstraint({"a": 1, "b": 1, "c": 1, "x": 0.5}, bound=1.5)
    near = QuadraticConstraint({"z": 0.01}, {("x", "x"): 1.0}, bound=1.0)
    return Space([*bits, *reals, Ordinal("o", [1, 2, 4])], [few, near])


@pytest.mark.parametrize("seed", range(3))
def test_search_stays_within_the_constraints_and_finds_the_best_there(make_problem: Any, seed: int) -> None:
    space = constrained_space()
    problem = make_problem(space, 9, seed)
    surface = surface_of(problem)
    incumbent = problem.X[int(problem.y.argmin())]
    starts = start_points(surface, Region(space), state_at(incumbent, NOTHING_KNOWN, SETTINGS, seed))
    result, values = alternating_search(surface, Region(space), starts, SETTINGS)
    assert space.feasible(result.to_encoded(space)).all()
    _, value = surface.best_neighbours(result, Region(space))
    assert (value[0] <= values[0] + 1e-5).all()
    chance = surface.value(points_of(space, 3000, seed))  # feasible ones, drawn uniformly
    assert values[0] >= chance.max() - 0.02


def test_a_start_whose_neighbours_are_all_infeasible_stays(make_problem: Any) -> None:
    space = Space([Integer("a", 0, 1), Integer("b", 0, 1)], [LinearConstraint({"a": -1, "b": -1}, bound=-2)])
    surface = surface_of(make_problem(space, 4))
    points = Points.from_encoded(space, np.array([[1.0, 1.0]]))
    assert surface.best_neighbours(points, Region(space))[1].item() == -math.inf
    result, values = alternating_search(surface, Region(space), points, SETTINGS)
    assert result.V.tolist() == [[1, 1]]
    assert values.isfinite().all()
