"""MiVaBO's model: features and posteriors of an independent implementation, draws with the posterior's moments."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from fmnas.baselines.linear_model import Features, LinearFunction, Posterior

GOLDEN: Any = json.loads((Path(__file__).parent / "golden_mivabo.json").read_text())
SMALL = GOLDEN["small"]


def tensor(values: Any) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


FEATURES = Features(SMALL["n_bits"], tensor(SMALL["omega"]), tensor(SMALL["b"]))
X, C, Y = (tensor(SMALL[name]) for name in ("X_d", "X_c", "y"))


def as_matrix(w: Any, features: Features = FEATURES) -> Tensor:
    """Weights [M], ordered (discrete, continuous, products), as W."""
    count, F = 1 + features.bits + features.pairs.shape[1], len(features.shift)
    w, W = tensor(w), torch.zeros(1 + count, 1 + F, dtype=torch.float64)
    W[1:, 0], W[0, 1:], W[1:, 1:] = w[:count], w[count : count + F], w[count + F :].reshape(count, F)
    return W


def as_vector(W: Tensor) -> np.ndarray:
    return torch.cat([W[1:, 0], W[0, 1:], W[1:, 1:].reshape(-1)]).numpy()


def posterior_of(case: dict[str, Any]) -> Posterior:
    return Posterior(FEATURES, FEATURES.discrete(X), FEATURES.continuous(C), Y, case["alpha"], case["beta"])


posteriors = pytest.mark.parametrize("case", SMALL["posteriors"], ids=lambda case: f"alpha {case['alpha']}")


def test_without_continuous_variables_there_are_no_fourier_features() -> None:
    assert len(Features.draw(np.random.default_rng(0), bits=3, dimensions=0, count=16, bandwidth=1.0).shift) == 0


def test_golden_features() -> None:
    for point in SMALL["points"]:
        u, v = FEATURES.discrete(tensor([point["x_d"]])), FEATURES.continuous(tensor([point["x_c"]]))
        np.testing.assert_allclose(as_vector(u.T @ v), point["phi"], rtol=1e-12, atol=1e-14)


def test_the_paper_s_example_has_645_weights() -> None:
    assert Features.draw(np.random.default_rng(0), bits=8, dimensions=8, count=16, bandwidth=1.0).weights == 645


@posteriors
def test_golden_mean(case: dict[str, Any]) -> None:
    np.testing.assert_allclose(as_vector(posterior_of(case).mean.W), case["mean"], rtol=1e-9, atol=1e-12)


@posteriors
def test_golden_draw(case: dict[str, Any]) -> None:
    draw = case["matheron"]
    result = posterior_of(case).correct(as_matrix(draw["prior_draw"]), tensor(draw["noise_draw"]))
    np.testing.assert_allclose(as_vector(result.W), draw["posterior_draw"], rtol=1e-9, atol=1e-12)


@posteriors
def test_golden_covariance(case: dict[str, Any]) -> None:
    """A draw is linear in the draws of weights and noise, so its covariance follows from unit vectors."""
    posterior, M, n = posterior_of(case), len(case["mean"]), len(Y)
    silent, mean = torch.zeros(n, dtype=torch.float64), as_vector(posterior.mean.W)
    by_weight = [as_vector(posterior.correct(as_matrix(row), silent).W) - mean for row in np.eye(M)]
    by_noise = [
        as_vector(posterior.correct(as_matrix(np.zeros(M)), row).W) - mean for row in torch.eye(n, dtype=torch.float64)
    ]
    covariance = np.transpose(by_weight) @ by_weight / case["alpha"] + np.transpose(by_noise) @ by_noise / case["beta"]
    np.testing.assert_allclose(covariance, case["covariance"], rtol=1e-8, atol=1e-9)


def test_draws_scatter_about_the_mean_as_scaled() -> None:
    posterior, rng = posterior_of(SMALL["posteriors"][0]), np.random.default_rng(0)
    draws = np.array([as_vector(posterior.draw(rng, scale=9.0).W) for _ in range(4000)])
    np.testing.assert_allclose(draws.mean(0), SMALL["posteriors"][0]["mean"], atol=0.2)
    np.testing.assert_allclose(draws.var(0), 9.0 * np.diag(SMALL["posteriors"][0]["covariance"]), rtol=0.15)


@posteriors
def test_a_draw_begins_with_weights_and_noise_of_their_precisions(case: dict[str, Any]) -> None:
    """Weights are drawn from N(0, 1 / alpha), except that of (1, 1), which is 0; noise from N(0, 1 / beta)."""
    posterior, rng = posterior_of(case), np.random.default_rng(3)
    prior = rng.standard_normal((posterior.U.shape[1], posterior.V.shape[1])) / np.sqrt(case["alpha"])
    prior[0, 0] = 0.0
    noise = rng.standard_normal(len(Y)) / np.sqrt(case["beta"])
    expected = posterior.correct(tensor(prior), tensor(noise)).W
    np.testing.assert_allclose(posterior.draw(np.random.default_rng(3)).W, expected, rtol=1e-10, atol=1e-12)


@posteriors
def test_the_posterior_mean_is_a_function_of_the_features_alone(case: dict[str, Any]) -> None:
    mean = posterior_of(case).mean
    for point in SMALL["points"]:
        value = mean.value(tensor([point["x_d"]]), tensor([point["x_c"]]))
        assert float(value) == pytest.approx(np.dot(point["phi"], case["mean"]), rel=1e-9)


def test_the_deviation_of_the_prior_is_that_of_its_draws() -> None:
    posterior, rng = posterior_of(SMALL["posteriors"][1]), np.random.default_rng(0)
    draws = rng.standard_normal((4000, 39)) / np.sqrt(posterior.alpha)
    values = [LinearFunction(FEATURES, as_matrix(w)).value(X, C).numpy() for w in draws]
    assert posterior.prior_deviation**2 == pytest.approx(np.var(values, axis=1, ddof=1).mean(), rel=0.05)


def test_golden_coefficients_of_each_part() -> None:
    case = GOLDEN["alternation"]
    f = LinearFunction(FEATURES, as_matrix(GOLDEN["mixed_acquisition"][0]["w"]))
    C0, X0 = tensor([case["x_c"]]), tensor([case["x_d"]])
    quadratic, waves = f.quadratic(C0), f.waves(X0)
    pairs = quadratic.pairs[0][tuple(FEATURES.pairs)]
    constant = case["binary_coefficients"][0] + case["binary_constant_from_continuous"]
    assert float(quadratic.constant) == pytest.approx(constant, rel=1e-12)
    np.testing.assert_allclose(
        torch.cat([quadratic.linear[0], pairs]), case["binary_coefficients"][1:], rtol=1e-12, atol=1e-13
    )
    np.testing.assert_allclose(waves[0, 1:], case["continuous_coefficients"], rtol=1e-12)
    for value in (f.value(X0, C0), quadratic.value(X0), f.along(C0, waves)[0]):
        assert float(value) == pytest.approx(case["value"], rel=1e-12)


def test_the_gradient_is_that_of_the_value() -> None:
    f = LinearFunction(FEATURES, as_matrix(GOLDEN["mixed_acquisition"][1]["w"]))
    waves = f.waves(X)
    assert torch.autograd.gradcheck(lambda c: f.along(c, waves)[0], C.clone().requires_grad_())
    variable = C.clone().requires_grad_()
    (slope,) = torch.autograd.grad(f.value(X, variable).sum(), variable)
    np.testing.assert_allclose(f.along(C, waves)[1], slope, rtol=1e-10)


def test_fourier_features_approximate_the_squared_exponential_kernel() -> None:
    features = Features.draw(np.random.default_rng(0), 0, 2, 20_000, bandwidth=0.5)
    assert features.shift.numpy().min() < 0.01
    assert 2 * np.pi - 0.01 < features.shift.numpy().max() < 2 * np.pi
    V = features.continuous(C)[:, 1:]
    np.testing.assert_allclose(V @ V.T, torch.exp(-0.5 * torch.cdist(C, C).square() / 0.25), atol=0.03)
