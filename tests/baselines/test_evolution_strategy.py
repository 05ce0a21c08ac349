"""CMA-ES draws the points of its tutorial, and finds the maximum of smooth functions, from each start by itself."""

import math
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import torch
from torch import Tensor

from fmnas.baselines.evolution_strategy import maximise_cma


@pytest.mark.parametrize("dimensions", [1, 2, 6])
def test_a_quadratic_with_its_maximum_inside(dimensions: int) -> None:
    target = torch.linspace(0.3, 0.7, dimensions, dtype=torch.float64)
    scales = 10.0 ** torch.linspace(0.0, 1.5, dimensions, dtype=torch.float64)
    starts = torch.from_numpy(np.random.default_rng(0).random((3, dimensions)))

    def value(x: Tensor) -> Tensor:
        return -(scales * (x - target).square()).sum(-1)

    best, values = maximise_cma(value, starts, np.random.default_rng(1), generations=60)
    assert (best - target).abs().max() < 1e-3
    assert torch.equal(values, value(best))


def test_a_maximum_on_the_surface_of_the_cube() -> None:
    best, _ = maximise_cma(lambda x: x.sum(-1), torch.full((1, 3), 0.5).double(), np.random.default_rng(0))
    assert best.min() > 0.99
    assert best.max() <= 1.0


def test_each_start_has_its_own_function_and_points_that_are_not_allowed_are_avoided() -> None:
    targets = torch.tensor([[0.2], [0.8]], dtype=torch.float64)

    def value(x: Tensor) -> Tensor:
        return torch.where(x[..., 0] <= 0.5, -(x - targets[:, None]).square().sum(-1), -torch.inf)

    best, values = maximise_cma(value, torch.tensor([[0.4], [0.1]]).double(), np.random.default_rng(0), generations=40)
    assert best[:, 0].tolist() == pytest.approx([0.2, 0.5], abs=1e-2)
    assert values.isfinite().all()


def test_a_start_that_is_best_is_returned() -> None:
    starts = torch.full((1, 2), 0.5).double()
    best, values = maximise_cma(lambda x: (x == 0.5).all(-1).double(), starts, np.random.default_rng(0))
    assert torch.equal(best, starts)
    assert values.tolist() == [1.0]


def tutorial(
    value: Callable[[np.ndarray], float], mean: np.ndarray, Z: np.ndarray
) -> Iterator[tuple[np.ndarray, bool]]:
    """The points of each generation and h_sigma (Hansen 2016, Fig. 6 and Table 1), from normal numbers Z [G, L, n]."""
    n, L, sigma, C = len(mean), Z.shape[1], 0.02, np.eye(len(mean))
    w = np.array([math.log((L + 1) / 2) - math.log(i) for i in range(1, L // 2 + 1)])
    w /= w.sum()
    mu = 1 / (w**2).sum()
    c_s, c_c = (mu + 2) / (n + mu + 5), (4 + mu / n) / (n + 4 + 2 * mu / n)
    c_1 = 2 / ((n + 1.3) ** 2 + mu)
    c_mu = min(1 - c_1, 2 * (mu - 2 + 1 / mu) / ((n + 2) ** 2 + 2 * mu / 2))
    d = 1 + 2 * max(0, math.sqrt((mu - 1) / (n + 1)) - 1) + c_s
    expected = math.sqrt(n) * (1 - 1 / (4 * n) + 1 / (21 * n**2))
    p_s = p_c = np.zeros(n)
    for g, z in enumerate(Z, 1):
        variances, B = (part.numpy() for part in torch.linalg.eigh(torch.from_numpy(C)))
        D = np.sqrt(variances)
        x = np.clip([mean + sigma * B @ (D * draw) for draw in z], 0, 1)
        y = (x[sorted(range(L), key=lambda k: -value(x[k]))[: L // 2]] - mean) / sigma
        step = w @ y
        mean = mean + sigma * step
        p_s = (1 - c_s) * p_s + math.sqrt(c_s * (2 - c_s) * mu) * B @ (B.T @ step / D)
        length = np.linalg.norm(p_s)
        h = bool(length / math.sqrt(1 - (1 - c_s) ** (2 * g)) < (1.4 + 2 / (n + 1)) * expected)
        p_c = (1 - c_c) * p_c + h * math.sqrt(c_c * (2 - c_c) * mu) * step
        kept = 1 - c_1 - c_mu + c_1 * (1 - h) * c_c * (2 - c_c)
        C = kept * C + c_1 * np.outer(p_c, p_c) + c_mu * sum(a * np.outer(b, b) for a, b in zip(w, y, strict=True))
        sigma *= min(math.exp(c_s / d * (length / expected - 1)), 2)  # at most twice, unlike there
        yield x, h


@pytest.mark.parametrize("population", [8, 50])
def test_the_points_are_those_of_the_tutorial(population: int) -> None:
    """Two starts far from the maximum and a small sigma: the path is long at first, and becomes short."""
    starts, seen = np.array([[0.2, 0.3, 0.1], [0.9, 0.5, 0.7]]), list[Tensor]()

    def value(x: Tensor) -> Tensor:
        seen.append(x)
        return -(torch.tensor([1.0, 5.0, 30.0]) * (x - 0.4).square()).sum(-1)

    size = {"population": population, "generations": 15, "sigma": 0.02}
    maximise_cma(value, torch.from_numpy(starts), np.random.default_rng(3), **size)
    Z = np.random.default_rng(3).standard_normal((15, 2, population, 3))
    for number, start in enumerate(starts):
        points, short = zip(*tutorial(lambda x: -float([1, 5, 30] @ (x - 0.4) ** 2), start, Z[:, number]), strict=True)
        assert set(short) == {False, True}
        for batch, expected in zip(seen[1:], points, strict=True):
            np.testing.assert_allclose(batch[number], expected, rtol=0, atol=1e-6)
