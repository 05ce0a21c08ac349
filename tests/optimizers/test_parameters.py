"""ParameterVector as data: what a vector eta means, where starts lie, and what priors say."""

import math

import numpy as np
import pytest
import torch

from fmnas.optimizers.gp.parameters import Constant, LogNormal, LogUniform, Parameter, ParameterVector, Uniform

THETA = Parameter("theta", 2, (0.1, 10.0), Uniform(0.0, 4.0, times=0.5, over=2.0), LogNormal(0.5, 2.0), smoother=3.0)
ODDS = Parameter("odds", 1, (1.0, 1.0), Constant(1.0))
RATE = Parameter("rate", 1, (1e-3, 1e3), LogUniform(-4.0, -2.0))
PARAMETERS = ParameterVector([THETA, ODDS, RATE])


def test_a_vector_holds_the_logarithms_one_after_the_other() -> None:
    values = PARAMETERS.values(torch.tensor([[0.0, 1.0, 2.0, 3.0]]).double())
    assert {name: value.tolist() for name, value in values.items()} == {
        "theta": [[1.0, pytest.approx(math.e)]],
        "odds": [[pytest.approx(math.exp(2))]],
        "rate": [[pytest.approx(math.exp(3))]],
    }


def test_starts_are_what_each_parameter_draws_within_its_bounds() -> None:
    starts = PARAMETERS.starts(np.random.default_rng(0), 4000).exp()
    assert (starts[:, :2] >= 0.1 - 1e-12).all()
    assert starts[:, :2].mean().item() == pytest.approx(0.5, abs=0.02)
    assert (starts[:, 2] == 1.0).all()
    assert starts[:, 3].log().mean().item() == pytest.approx(-3.0, abs=0.05)
    smooth = PARAMETERS.starts(np.random.default_rng(0), 4000, smooth=True).exp()
    np.testing.assert_allclose(smooth[1::2], starts[1::2])
    larger = starts[::2, :2] > 0.1 + 1e-9  # the others were held at the bound
    np.testing.assert_allclose(smooth[::2, :2][larger], 3.0 * starts[::2, :2][larger])


def test_priors_are_normal_in_the_logarithm_or_a_density_of_the_value() -> None:
    eta = torch.tensor([[0.3, -0.4, 0.0, 0.7], [0.0, 1.0, 0.0, -0.2]]).double()
    value, gradient = PARAMETERS.minus_log_prior(eta)
    away = (eta[:, :2] - math.log(0.5)) / 2.0
    expected = 0.5 * away.square().sum(-1)
    np.testing.assert_allclose(value, expected, rtol=1e-12)
    for k in range(4):
        move = torch.zeros(4).double()
        move[k] = 1e-6
        above, below = (PARAMETERS.minus_log_prior(eta + sign * move)[0] for sign in (1, -1))
        np.testing.assert_allclose(gradient[:, k], (above - below) / 2e-6, rtol=1e-6, atol=1e-8)


def test_a_correlated_prior_is_a_normal_one_with_that_correlation() -> None:
    prior = LogNormal(0.5, 2.0, correlation=0.6)
    vector = ParameterVector([Parameter("beta", 3, (1e-3, 1e3), Constant(1.0), prior), ODDS])
    covariance = 4.0 * (0.4 * torch.eye(3).double() + 0.6 * torch.ones(3, 3).double())
    density = torch.distributions.MultivariateNormal(torch.full((3,), math.log(0.5), dtype=torch.float64), covariance)
    eta = torch.tensor([[0.3, -0.4, 1.2, 0.0], [2.0, 2.1, 1.9, 0.0]]).double().requires_grad_()
    expected = -density.log_prob(eta[:, :3])
    (by_eta,) = torch.autograd.grad(expected.sum(), eta)
    value, gradient = vector.minus_log_prior(eta.detach())
    np.testing.assert_allclose(value[0] - value[1], (expected[0] - expected[1]).detach(), rtol=1e-12)
    np.testing.assert_allclose(gradient, by_eta, rtol=1e-12, atol=1e-14)
