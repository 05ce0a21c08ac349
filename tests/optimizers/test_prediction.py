"""Predictions of a process: the estimated mean is uncertain, unless it is plugged in."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Posterior
from fmnas.search_spaces import Space

N = 12


def parts(posterior: Posterior, points: Points) -> tuple[Tensor, Tensor, Tensor]:
    """(A [n, n], r [m, n], own [m]) under the posterior's parameters."""
    observed = posterior.likelihood.points
    R = torch.cat(
        [
            posterior.correlation.correlate(Points(C[None], V[None]))[0]
            for C, V in zip(observed.C, observed.V, strict=True)
        ]
    )
    r, own = posterior.correlation.correlate(points)
    return R + posterior.g * torch.eye(len(R), dtype=R.dtype), r, own


@pytest.fixture
def posterior(space: Space, make_problem: Callable[..., Any]) -> Posterior:
    return make_problem(space, N, seed=3).posterior


@pytest.fixture
def points(space: Space) -> Points:
    return Points.from_encoded(space, space.sample_encoded(np.random.default_rng(8), 40))


def test_predictions_are_those_of_a_process_whose_mean_has_a_flat_prior(posterior: Posterior, points: Points) -> None:
    """A mean with prior N(0, s2 v) adds v to every correlation; v = 1e4 is nearly flat."""
    A, r, own = parts(posterior, points)
    y, v = posterior.likelihood.y, 1e4
    weights = torch.linalg.solve(A + v, (r + v).T).T
    mean, variance = posterior.predict(points)
    np.testing.assert_allclose(mean, weights @ y, rtol=1e-3, atol=1e-4)
    expected = posterior.s2 * (own + v - (weights * (r + v)).sum(-1))
    np.testing.assert_allclose(variance, expected.clamp(min=1e-12), rtol=2e-3, atol=5e-4)


def test_a_plug_in_prediction_takes_the_mean_for_known(posterior: Posterior, points: Points) -> None:
    likelihood = posterior.likelihood
    likelihood.plug_in = True
    plugged = Posterior(likelihood, posterior.eta)
    A, r, own = parts(plugged, points)
    mean, variance = plugged.predict(points)
    assert plugged.s2 == pytest.approx(posterior.s2 * (N - 1) / N, rel=1e-9)
    expected = plugged.s2 * (own - (r @ torch.linalg.inv(A) * r).sum(-1))
    np.testing.assert_allclose(variance, expected.clamp(min=1e-12), rtol=1e-6, atol=1e-9)
    likelihood.plug_in = False
    more, larger = posterior.predict(points)
    np.testing.assert_allclose(more, mean, rtol=1e-9, atol=1e-12)
    assert (larger > variance).all()


def test_far_from_all_data_is_more_uncertain_than_the_prior(posterior: Posterior) -> None:
    nothing = torch.zeros(1, N, dtype=torch.float64)
    mean, variance, weights = posterior.predict_from(nothing, torch.ones(1, dtype=torch.float64))
    assert float(mean) == pytest.approx(posterior.mu)
    assert float(variance) == pytest.approx(posterior.s2 * (1.0 + 1.0 / float(posterior.inverse.sum())))
    assert float(weights.sum()) == pytest.approx(1.0)


def test_a_constant_added_to_the_objectives_is_added_to_the_mean(posterior: Posterior, points: Points) -> None:
    likelihood = posterior.likelihood
    shifted = Posterior(likelihood.with_data(likelihood.points, likelihood.y + 5.0), posterior.eta)
    for after, before, by in zip(shifted.predict(points), posterior.predict(points), (5.0, 0.0), strict=True):
        np.testing.assert_allclose(after, before + by, rtol=1e-6, atol=1e-8)
