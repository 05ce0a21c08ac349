"""A region of a space: what it holds, samples and lets vertices move to, against enumeration."""

import itertools
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.optimizers.gp.bfgs import Box
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.region import HammingBall, Region
from fmnas.search_spaces import Graph, Integer, LinearConstraint, Nominal, Real, Space, SpaceError

PATH = Graph("g", ("s", "t", "u"), (("s", "t"), ("t", "u")))
FREE = Space([Real("x", 0.0, 1.0), Real("z", 0.0, 1.0), Nominal("a", [0, 1, 2, 3]), Integer("k", 0, 3), PATH])
CONSTRAINED = Space(FREE.variables, [LinearConstraint({"a": 1, "k": 1, "x": 1}, bound=3.5)])
BOX = Box(torch.tensor([0.2, 0.5]).double(), torch.tensor([0.4, 1.0]).double())
BALL = HammingBall(torch.tensor([1, 2, 0]), 1)
REGIONS: dict[str, dict[str, Any]] = {
    "whole": {},
    "box": {"box": BOX},
    "fixed": {"fixed": {1: 2}},
    "ball": {"ball": BALL},
    "all": {"box": BOX, "fixed": {2: 0}, "ball": BALL},
}


@pytest.fixture(params=list(REGIONS))
def region(request: pytest.FixtureRequest, constrained: bool) -> Region:
    return Region(CONSTRAINED if constrained else FREE, **REGIONS[request.param])


@pytest.fixture(params=[False, True], ids=["free", "constrained"])
def constrained(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


def every_vertex() -> np.ndarray:
    return np.array(list(itertools.product(range(4), range(4), range(3))), dtype=float)


def inside(region: Region, x: np.ndarray) -> bool:
    """By definition."""
    V = x[2:].astype(int)
    near = region.ball is None or (region.ball.centre.numpy() != V).sum() <= region.ball.radius
    fixed = all(V[p] == vertex for p, vertex in region.fixed.items())
    low, high = region.box.lower.numpy(), region.box.upper.numpy()
    boxed = ((x[:2] >= low) & (x[:2] <= high)).all()
    return bool(near and fixed and boxed and region.space.feasible(x[None])[0])


def test_it_holds_what_it_says(region: Region) -> None:
    V = every_vertex()
    C = np.random.default_rng(0).random((len(V), 2)) * [0.5, 1.0]
    X = np.concatenate([C, V], axis=1)
    expected = [inside(region, x) for x in X]
    assert region.contains(Points.from_encoded(region.space, X)).tolist() == expected
    assert any(expected)


def test_samples_lie_in_it_and_reach_all_of_it(region: Region) -> None:
    points = region.sample(np.random.default_rng(1), 1500)
    X = points.to_encoded(region.space)
    assert X.shape == (1500, 5)
    assert all(inside(region, x) for x in X)
    assert (region.sample(np.random.default_rng(1), 1500).to_encoded(region.space) == X).all()
    middle = ((region.box.lower + region.box.upper) / 2).numpy()
    middle[0] = region.box.lower[0] + 1e-9  # where the constraint allows most
    possible = {tuple(v) for v in every_vertex() if inside(region, np.concatenate([middle, v]))}
    reached = {tuple(v) for v in X[:, 2:]}
    assert reached <= possible
    assert len(reached) >= 0.9 * len(possible)


def test_neighbours_are_an_edge_away_and_inside(region: Region) -> None:
    points = region.sample(np.random.default_rng(2), 20)
    edges, X = region.neighbours(points), points.to_encoded(region.space)
    for row, x in zip(edges, X, strict=True):
        expected = set()
        for p, variable in enumerate(region.space.discrete):
            for vertex in variable.neighbours[int(x[2 + p])]:
                other = x.copy()
                other[2 + p] = vertex
                if p not in region.fixed and inside(region, other):
                    expected.add((p, int(vertex)))
        assert {(int(region.variable[k]), int(region.vertex[k])) for k in row.nonzero()[:, 0]} == expected
    assert region.has_moves


def test_a_ball_of_radius_0_and_all_fixed_variables_leave_no_moves() -> None:
    assert not Region(FREE, fixed={0: 1, 1: 2, 2: 0}).has_moves
    still = Region(FREE, ball=HammingBall(torch.tensor([1, 2, 0]), 0))
    assert not still.has_moves
    assert (torch.tensor([1, 2, 0]) == still.sample(np.random.default_rng(0), 9).V).all()


def test_a_region_of_which_little_is_feasible_is_sampled() -> None:
    slack = [LinearConstraint({"x": sign, "z": -sign}, bound=1e-3) for sign in (1.0, -1.0)]
    narrow = Space([Real("x", 0.0, 1.0), Real("z", 0.0, 1.0)], slack)
    region = Region(narrow, box=Box(torch.zeros(2).double(), torch.ones(2).double()))
    X = region.sample(np.random.default_rng(0), 200).to_encoded(narrow)
    assert X.shape == (200, 2)
    assert narrow.feasible(X).all()


def test_a_region_without_a_feasible_point_is_explained() -> None:
    nowhere = Region(CONSTRAINED, fixed={0: 3, 1: 3})
    with pytest.raises(SpaceError, match=r"0 of 10\d{5} "):
        nowhere.sample(np.random.default_rng(0), 5)
