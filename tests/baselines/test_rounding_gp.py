"""The rounding GP: codes, the same process on points and on their codes, and rounding to the nearest code."""

import json
from typing import Any

import numpy as np
import pytest
import torch
from scipy.stats import norm

from fmnas.baselines import rounding_gp
from fmnas.baselines.rounding_gp import CodeKernel, ObservedLogEI, RoundingGP
from fmnas.optimizers import random_design
from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.kernel import matern52
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Likelihood, Posterior
from fmnas.optimizers.gp.search import SearchState, Surface, alternating_search
from fmnas.search_spaces import Graph, Integer, Nominal, Ordinal, Real, Space
from fmnas.search_spaces.records import MODEL

GRAPH = Graph("g", ("s", "t", "u"), (("s", "t"), ("t", "u")))
SPACE = Space([Real("x", 0.0, 1.0), Integer("k", 2, 6), Nominal("op", list("abc")), GRAPH, Ordinal("w", [1, 10])])
X = SPACE.sample_encoded(np.random.default_rng(0), 12)


def one_hot(x: np.ndarray) -> np.ndarray:
    """By hand: x, k on five places, op, g, w on two."""
    return np.concatenate([x[:1], x[1:2] / 4, np.eye(3)[int(x[2])], np.eye(3)[int(x[3])], x[4:]])


def test_the_kernel_is_a_matern_on_the_codes() -> None:
    points = Points.from_encoded(SPACE, X)
    Z = np.stack([one_hot(x) for x in X])
    d2 = ((Z[:, None] - Z[None]) ** 2).sum(-1)
    r, own = (
        CodeKernel(SPACE).condition_on({"theta": torch.tensor([0.7], dtype=torch.float64)}, points).correlate(points)
    )
    np.testing.assert_allclose(r, matern52(torch.from_numpy(d2) / 0.49), rtol=1e-9)
    np.testing.assert_allclose(own, 1.0, rtol=1e-9)


def test_the_relaxed_process_is_the_same_one_at_the_codes() -> None:
    optimizer, points, y = RoundingGP(SPACE), Points.from_encoded(SPACE, X[:8]), torch.from_numpy(X[:8].sum(1))
    eta = torch.log(torch.tensor([0.9, 0.01], dtype=torch.float64))
    plain = Posterior(Likelihood(CodeKernel(SPACE), points, y), eta)
    relaxed = Posterior(Likelihood(CodeKernel(optimizer._cube), optimizer._relax(points), y), eta)
    new = Points.from_encoded(SPACE, X[8:])
    for result, expected in zip(relaxed.predict(optimizer._relax(new)), plain.predict(new), strict=True):
        np.testing.assert_allclose(result, expected, rtol=1e-9)


def test_codes_are_rounded_to_themselves_and_others_to_the_nearest() -> None:
    optimizer = RoundingGP(SPACE)
    np.testing.assert_array_equal(
        optimizer._round(optimizer._relax(Points.from_encoded(SPACE, X)).C).to_encoded(SPACE), X
    )
    z = torch.tensor([[0.3, 0.62, 0.4, 0.5, 0.45, 0.9, 0.0, 0.95, 0.49]], dtype=torch.float64)
    np.testing.assert_array_equal(optimizer._round(z).to_encoded(SPACE), [[0.3, 2.0, 1.0, 2.0, 0.0]])


def fitted_posterior() -> Posterior:
    points, y = Points.from_encoded(SPACE, X[:8]), torch.from_numpy(X[:8].sum(1))
    eta = torch.log(torch.tensor([0.9, 0.1], dtype=torch.float64))
    return Posterior(Likelihood(CodeKernel(SPACE), points, y, plug_in=True), eta)


def test_the_acquisition_is_the_expected_improvement_of_an_observation_on_the_lowest_mean() -> None:
    optimizer, posterior, new = RoundingGP(SPACE), fitted_posterior(), Points.from_encoded(SPACE, X[8:])
    mean, variance = (part.numpy() for part in posterior.predict(new))
    deviation = np.sqrt(variance + posterior.g * posterior.s2)
    u = (float(posterior.predict(posterior.likelihood.points)[0].min()) - 0.01 - mean) / deviation
    expected = deviation * (u * norm.cdf(u) + norm.pdf(u))
    surface = optimizer._relaxed_surface(posterior)
    np.testing.assert_allclose(surface.value(optimizer._relax(new)), np.log(expected), rtol=1e-6)


def test_the_acquisition_has_its_slopes() -> None:
    mean, deviation = torch.tensor([0.3, -1.0, 2.0]).double(), torch.tensor([0.2, 1.5, 1e-3]).double()
    value, by_mean, by_deviation = ObservedLogEI(0.1, 0.04).slopes(mean, deviation)
    moved = (mean.requires_grad_(), deviation.requires_grad_())
    again = ObservedLogEI(0.1, 0.04).value(*moved)
    torch.testing.assert_close(value, again.detach())
    for slope, expected in zip((by_mean, by_deviation), torch.autograd.grad(again.sum(), moved), strict=True):
        torch.testing.assert_close(slope, expected)


def test_candidates_are_the_refined_ones_by_their_value_after_rounding_then_all_others() -> None:
    optimizer, posterior = RoundingGP(SPACE), fitted_posterior()
    settings = optimizer.settings.search
    state = SearchState(X[0], X[:8], settings, np.random.default_rng(1))
    candidates = optimizer.candidates(Surface(posterior, LogEI(0.0)), state)
    assert len(candidates) == settings.starts + settings.random_points
    value = optimizer._relaxed_surface(posterior).value(optimizer._relax(candidates))
    for part in value.split([settings.starts, settings.random_points]):
        assert (part.diff() <= 1e-9).all()


def test_what_rounds_to_a_known_configuration_gives_way_to_the_next_best() -> None:
    """All 12 configurations, the model's alone after the first two."""
    space = Space([Nominal("op", list("abcd")), Ordinal("width", [1, 2, 4])])
    optimizer = RoundingGP(space, initial_design=random_design(space, 2, 0))
    result = []
    for _ in range(12):
        trial = optimizer.ask()
        optimizer.tell(trial, float(space.encode(trial.configuration) @ [1.0, 0.5]))
        result.append(trial)
    assert len({json.dumps(trial.configuration) for trial in result}) == 12
    assert {trial.origin for trial in result[2:]} == {MODEL}


def test_with_trials_pending_the_relaxed_process_has_the_output_scale_of_the_results(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scales: list[tuple[float, float]] = []
    plain: list[float] = []

    class Noted(RoundingGP):
        def candidates(self, surface: Surface, state: SearchState) -> Points:
            plain.append(surface.posterior.s2)
            return super().candidates(surface, state)

    def record_scales(surface: Surface, *given: Any) -> tuple[Points, torch.Tensor]:
        scales.append((surface.posterior.s2, plain[-1]))
        return alternating_search(surface, *given)

    monkeypatch.setattr(rounding_gp, "alternating_search", record_scales)
    optimizer = Noted(SPACE, initial_design=random_design(SPACE, 5, 0))
    for _ in range(5):
        trial = optimizer.ask()
        optimizer.tell(trial, float(SPACE.encode(trial.configuration).sum()))
    for _ in range(3):
        optimizer.ask()
    assert len(scales) == 3
    for relaxed, own in scales:
        assert relaxed == pytest.approx(own, rel=1e-9)
