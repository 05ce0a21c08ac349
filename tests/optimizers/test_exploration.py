"""What every second ask does: cover what nothing tells of, and doubt a model that stalls."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fmnas.optimizers import BOFM
from fmnas.optimizers.bofm import MODES
from fmnas.optimizers.exploration import covering, doubt, doubted, refined, stalled, unlearned, unseen
from fmnas.optimizers.likelihood import Likelihood, Prior
from fmnas.optimizers.points import Points
from fmnas.optimizers.posterior import Posterior
from fmnas.optimizers.search import Acquisition, SearchSettings
from fmnas.optimizers.structures import FAST_KERNELS as KERNELS
from fmnas.search_spaces import Integer, LinearConstraint, Nominal, Ordinal, Real, Space

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


def test_doubt_doubles_every_four_results_and_has_an_end() -> None:
    assert [doubt(stall, 4.0) for stall in (0, 4, 8, 12, 10_000)] == [1.0, 2.0, 4.0, 4.0, 4.0]


def test_a_doubted_model_says_the_same_less_surely(make_problem: Any) -> None:
    problem = make_problem(SPACE, 9)
    points = problem.points
    mean, variance = problem.posterior.predict(points.C + 0.01, points.V)
    other = doubted(problem.posterior, 3.0)
    same, larger = other.predict(points.C + 0.01, points.V)
    np.testing.assert_allclose(same, mean)
    np.testing.assert_allclose(larger, 9.0 * variance, rtol=1e-9)


def test_an_unlearned_model_has_the_priors_parameters_and_the_fitted_noise(make_problem: Any) -> None:
    problem, prior = make_problem(SPACE, 9), Prior()
    likelihood = Likelihood(SPACE, KERNELS["modlap"], problem.points, problem.y, prior)
    fitted = Posterior(likelihood, problem.points, problem.eta)
    parameters = unlearned(fitted).parameters
    assert parameters.theta.tolist() == pytest.approx([prior.theta[0]])
    assert parameters.beta.tolist() == pytest.approx([3 * prior.beta[0]] * 3)
    assert parameters.g == pytest.approx(fitted.parameters.g)
    without = Posterior(problem.likelihood, problem.points, problem.eta)
    assert unlearned(without).parameters.theta.tolist() == without.parameters.theta.tolist()


def test_unseen_are_the_values_of_nominal_variables_that_no_point_has() -> None:
    space = Space([*SPACE.variables, Ordinal("o", [1, 2, 4])])
    known = np.array([[0.5, 0, 0, 0, 1], [0.1, 3, 0, 2, 1], [0.2, 3, 1, 2, 2]])  # x, then a, k, b, o
    found = [values.tolist() for values in unseen(space, known)]
    assert found == [[1, 2, 4, 5, 6, 7], [], [1], []]


def acquisition_of(problem: Any) -> Acquisition:
    return Acquisition(problem.space, problem.posterior, best=float(problem.y.min()))


def test_covering_points_have_unseen_values_near_the_incumbent(make_problem: Any) -> None:
    problem = make_problem(SPACE, 9)
    known = np.array([[0.5, a, 3, b] for a in (0, 2, 3, 4, 5, 6) for b in (0, 1)])
    acquisition = acquisition_of(problem)
    points = covering(acquisition, known[0], known, SETTINGS, np.random.default_rng(0))
    X = points.encoded(SPACE)
    assert len(X) == SETTINGS.random_points
    assert set(X[:, 1]) == {1, 7}
    assert set(X[:, 2]) == {3}
    assert set(X[:, 3]) == {2}
    assert (np.abs(X[:, 0] - 0.5) < 0.1).mean() > 0.5
    assert (acquisition(points).diff() <= 0).all()  # the best first
    everything = np.array([[0.5, a, 3, a % 3] for a in range(8)])
    assert len(covering(acquisition, known[0], everything, SETTINGS, np.random.default_rng(0))) == 0


def test_covering_and_refining_keep_to_the_constraints(make_problem: Any) -> None:
    space = Space([Nominal("a", [0, 1, 2, 3]), Real("x", 0.0, 1.0)], [LinearConstraint({"a": 1, "x": 1}, bound=2.5)])
    acquisition, known, rng = acquisition_of(make_problem(space, 6)), np.array([[0.4, 0]]), np.random.default_rng(0)
    X = covering(acquisition, known[0], known, SETTINGS, rng).encoded(space)
    assert set(X[:, 1]) == {1, 2}
    assert space.feasible(X).all()
    refining = refined(acquisition, np.array([0.4, 2]), known, SETTINGS, rng).encoded(space)
    assert space.feasible(refining).all()
    assert set(refining[:, 1]) <= {2}


def test_refining_keeps_the_vertices_and_finds_the_best_continuous_part(make_problem: Any) -> None:
    problem = make_problem(SPACE, 9)
    acquisition, incumbent = acquisition_of(problem), problem.X[int(problem.y.argmin())]
    found = refined(acquisition, incumbent, problem.X, SETTINGS, np.random.default_rng(0))
    assert len(found) > 0
    assert (found.V.numpy() == incumbent[1:]).all()
    line = np.tile(incumbent, (2001, 1))
    line[:, 0] = np.linspace(0, 1, 2001)
    best = acquisition(Points.of(SPACE, line)).max().item()
    assert acquisition(found)[0].item() >= best - 1e-4


def test_what_promises_nothing_is_not_refined() -> None:
    """A straight line, known to its end: nothing below it is to be expected."""
    space = Space([Real("x", 0.0, 1.0)])
    X = np.linspace(0.0, 1.0, 30)[:, None]
    likelihood = Likelihood(space, KERNELS["modlap"], Points.of(space, X), torch.from_numpy(3.4 * (X[:, 0] - 0.5)))
    eta = torch.tensor([3.0, 0.01, 1.0, 1.0, 1e-6], dtype=torch.float64).log()
    acquisition = Acquisition(space, Posterior(likelihood, Points.of(space, X), eta), best=-1.7)
    assert len(refined(acquisition, X[0], X, SETTINGS, np.random.default_rng(0))) == 0


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
    assert distinct_values(MODES["default"], 4 + 2 * 7) == 8
    assert distinct_values(replace(MODES["default"], turns=("expect",)), 4 + 2 * 7) < 8
