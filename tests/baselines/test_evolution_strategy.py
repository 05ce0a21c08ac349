"""CMA-ES finds the maximum of smooth functions on the unit cube, from each start by itself."""

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
