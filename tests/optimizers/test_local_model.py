"""A closer look at the incumbent: the last digits, on its own vertices, and nothing that is not worth a trial."""

from collections.abc import Callable

import numpy as np
import pytest

from fmnas.optimizers.bofm.local_model import local_candidates
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.search import SearchSettings, SearchState
from fmnas.search_spaces import LinearConstraint, Nominal, Real, Space

FIT, SEARCH = FitSettings(), SearchSettings(random_points=100)


def space_of(dimensions: int) -> Space:
    return Space([*(Real(f"x{d}", 0.0, 1.0) for d in range(dimensions)), Nominal("a", ["p", "q", "r"])])


def look(space: Space, X: np.ndarray, y: np.ndarray, seed: int = 0) -> Points:
    state = SearchState(X[int(y.argmin())], X, SEARCH, np.random.default_rng(seed))
    return local_candidates(space, y, FIT, state)


def kink(C: np.ndarray) -> np.ndarray:
    return np.asarray(np.abs(C - 0.37).sum(axis=1))


def bowl(C: np.ndarray) -> np.ndarray:
    return np.asarray(((C - 0.37) ** 2).sum(axis=1) + 0.5 * C[:, 0] * C[:, -1])


@pytest.mark.parametrize(
    ("function", "best", "dimensions", "looks", "error"), [(kink, 0.0, 1, 12, 1e-3), (bowl, 0.05476, 2, 8, 1e-4)]
)
def test_looks_come_ever_closer(
    function: Callable[[np.ndarray], np.ndarray], best: float, dimensions: int, looks: int, error: float
) -> None:
    space, rng = space_of(dimensions), np.random.default_rng(1)
    X = space.sample_encoded(rng, 6 * (dimensions + 1))
    y = function(X[:, :dimensions]) + X[:, dimensions]
    for number in range(looks):
        found = look(space, X, y, number)
        if len(found) == 0:
            break
        x = found.encoded(space)[0]
        assert x[dimensions] == X[int(y.argmin()), dimensions]
        X = np.concatenate([X, x[None]])
        y = np.append(y, function(x[None, :dimensions]) + x[dimensions])
    assert y.min() == pytest.approx(best, abs=error)


@pytest.mark.parametrize("seed", range(5))
def test_a_look_goes_no_farther_than_the_trials_it_knows(seed: int) -> None:
    """Farther away others may have been tried, which it does not see: it would ask for the same ones again."""
    space, rng = space_of(2), np.random.default_rng(seed)
    X = np.concatenate([0.3 + 0.02 * rng.random((9, 2)), rng.random((30, 2))])
    y = bowl(X) + rng.normal(0.0, 0.3, len(X))
    X = np.concatenate([X, np.zeros((len(X), 1))], axis=1)
    distance = np.abs(X[:, :2] - X[y.argmin(), :2]).max(axis=1)
    found = look(space, X, y, seed).encoded(space)
    assert (np.abs(found[:, :2] - X[y.argmin(), :2]).max(axis=1, initial=0.0) <= np.sort(distance)[8] + 1e-9).all()


def test_a_look_is_not_led_astray_by_a_trial_far_away() -> None:
    """Two trials to the right of a kink and one far to the left: what is between them can wait."""
    space = space_of(1)
    c = np.array([0.3705, 0.3712, 0.0])
    found = look(space, np.stack([c, np.zeros(3)], axis=1), kink(c[:, None])).encoded(space)
    assert len(found) > 0
    assert (np.abs(found[:, 0] - 0.3705) < 0.01).all()


def test_too_few_trials_on_its_vertices_are_no_look() -> None:
    """As many as a simplex has corners are enough: D + 1."""
    space = space_of(2)
    X = np.array([[0.1, 0.2, 0], [0.3, 0.1, 0], [0.5, 0.5, 0], [0.4, 0.4, 1], [0.2, 0.9, 1]])
    y = np.array([1.0, 2.0, 3.0, 4.0, 5.0])
    assert len(look(space, X[[0, 1, 3, 4]], y[[0, 1, 3, 4]])) == 0
    assert len(look(space, X, y)) > 0
    assert len(look(space, X, np.full(5, 1.0))) == 0


def test_a_space_without_a_continuous_part_has_nothing_to_look_at() -> None:
    space = Space([Nominal("a", [0, 1, 2]), Nominal("b", [0, 1])])
    assert len(look(space, np.array([[0.0, 0.0], [1.0, 1.0], [2.0, 0.0]]), np.array([1.0, 2.0, 3.0]))) == 0


def test_pending_points_and_infeasible_ones_are_left_out() -> None:
    free = space_of(1)
    space = Space(free.variables, [LinearConstraint({"x0": 1.0}, bound=0.3)])
    X = np.array([[0.05, 1], [0.15, 1], [0.25, 1], [0.29, 1]])
    y = 1.0 - X[:, 0]
    found = look(free, X, y).encoded(free)
    assert (found[:, 0] > 0.3).any()
    held = look(space, X, y).encoded(space)
    assert (held[:, 0] <= 0.3 + 1e-9).all()
    again = look(free, np.concatenate([X, found]), y)
    assert all(np.abs(found - x).max(axis=1).min() > 1e-9 for x in again.encoded(free))


def test_what_promises_next_to_nothing_waits() -> None:
    space = space_of(1)
    c = np.array([0.37, 0.37 + 1e-9, 0.37 - 1e-9, 0.37 + 3e-9, 0.37 - 3e-9, 0.37 + 2e-9])
    near = np.stack([c, np.zeros(6)], axis=1)
    X = np.concatenate([near, [[0.1, 1.0], [0.9, 2.0]]])
    y = np.concatenate([np.abs(c - 0.37), [5.0, 9.0]])
    assert len(look(space, X, y)) == 0
