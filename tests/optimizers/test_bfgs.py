"""The batched BFGS against scipy's, against its own loop, and at the edges of its contract."""

from collections.abc import Callable

import numpy as np
import pytest
import scipy.optimize
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from fmnas.optimizers.gp.bfgs import Box, Objective, minimise


def box(lower: list[float], upper: list[float]) -> Box:
    return Box(torch.tensor(lower, dtype=torch.float64), torch.tensor(upper, dtype=torch.float64))


def with_gradient(f: Callable[[Tensor], Tensor]) -> Objective:
    """f [b, d] -> [b] as an objective with its gradient."""

    def objective(x: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        x = x.detach().requires_grad_()
        value = f(x)
        (gradient,) = torch.autograd.grad(value.sum(), x)
        return value.detach(), gradient

    return objective


def rosenbrock(x: Tensor) -> Tensor:
    return (100 * (x[:, 1:] - x[:, :-1] ** 2) ** 2 + (1 - x[:, :-1]) ** 2).sum(-1)


def scipys(f: Callable[[Tensor], Tensor], start: np.ndarray, bounds: Box) -> float:
    def value(x: np.ndarray) -> tuple[float, np.ndarray]:
        v, g = with_gradient(f)(torch.from_numpy(x)[None], torch.arange(1))
        return v.item(), g[0].numpy()

    pairs = list(zip(bounds.lower.tolist(), bounds.upper.tolist(), strict=True))
    options = {"maxiter": 1000, "ftol": 1e-15, "gtol": 1e-10}
    return float(scipy.optimize.minimize(value, start, jac=True, method="L-BFGS-B", bounds=pairs, options=options).fun)


@given(seed=st.integers(0, 2**32), d=st.integers(1, 6))
@settings(max_examples=40)
def test_quadratic_in_a_box_is_at_its_minimum(seed: int, d: int) -> None:
    rng = np.random.default_rng(seed)
    root = rng.standard_normal((d, d))
    Q = torch.from_numpy(root @ root.T + 0.3 * np.eye(d))
    center = torch.from_numpy(rng.uniform(-2, 2, d))  # often outside the box

    def f(x: Tensor) -> Tensor:
        return torch.einsum("bi,ij,bj->b", x - center, Q, x - center)

    bounds = box([-1.0] * d, [1.0] * d)
    start = rng.uniform(-1, 1, (4, d))
    x, values = minimise(with_gradient(f), torch.from_numpy(start), bounds, iterations=500, tolerance=1e-14)
    assert (x == bounds.clip(x)).all()
    slope = 2 * (x - center) @ Q
    still = torch.where(
        bounds.free(x, slope), slope, 0.0
    )  # convex: where nothing free has a slope, that is the minimum
    assert still.abs().max() < 1e-3
    for b in range(4):  # scipy's now and then gives up early, and is then worse
        assert values[b].item() <= scipys(f, start[b], bounds) * (1 + 1e-6) + 1e-7


@pytest.mark.parametrize(
    ("lower", "upper"),
    [([-2.0, -2.0], [2.0, 2.0]), ([-2.0, -2.0], [0.5, 2.0]), ([-2.0] * 4, [2.0] * 4), ([0.2] * 5, [0.8] * 5)],
)
def test_rosenbrock_in_a_box_equals_scipys(lower: list[float], upper: list[float]) -> None:
    bounds = box(lower, upper)
    start = bounds.lower + torch.from_numpy(np.random.default_rng(0).random((5, len(lower)))) * (
        bounds.upper - bounds.lower
    )
    x, values = minimise(with_gradient(rosenbrock), start, bounds, iterations=1000, tolerance=1e-14)
    assert (x == bounds.clip(x)).all()
    expected = [scipys(rosenbrock, row.numpy(), bounds) for row in start]
    # From some starts scipy's path ends in another valley: what counts is the best, and that none is lost.
    assert values.min().item() == pytest.approx(min(expected), abs=1e-6)
    assert (values <= max(expected) + 1e-6).all()


def test_a_batch_equals_a_loop_and_which_selects_the_problems() -> None:
    rng = np.random.default_rng(1)
    centers = torch.from_numpy(rng.uniform(-1.5, 1.5, (6, 3)))
    scales = torch.from_numpy(np.exp(rng.uniform(-1, 3, (6, 3))))

    def objective(x: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        away = x - centers[which]
        return (scales[which] * away**2).sum(-1) + (away**4).sum(-1), 2 * scales[which] * away + 4 * away**3

    bounds = box([-1.0] * 3, [1.0] * 3)
    start = torch.from_numpy(rng.uniform(-1, 1, (6, 3)))
    x, values = minimise(objective, start, bounds)
    np.testing.assert_allclose(x, bounds.clip(centers), atol=1e-4)
    for b in range(6):

        def alone(x: Tensor, which: Tensor, b: int = b) -> tuple[Tensor, Tensor]:
            return objective(x, which + b)

        one, value = minimise(alone, start[b : b + 1], bounds)
        np.testing.assert_allclose(one[0], x[b], atol=1e-8)
        assert value.item() == pytest.approx(values[b].item(), rel=1e-9, abs=1e-12)


@given(seed=st.integers(0, 2**32), iterations=st.integers(0, 6))
@settings(max_examples=60)
def test_never_worse_than_the_start_and_never_outside(seed: int, iterations: int) -> None:
    rng = np.random.default_rng(seed)
    W = torch.from_numpy(rng.standard_normal((8, 3)) * 3)
    bounds = box([-0.5, 0.0, -2.0], [0.5, 1.0, 3.0])

    def f(x: Tensor) -> Tensor:
        return torch.sin(x @ W.T).sum(-1)  # many valleys

    def check_bounds(x: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        assert (x == bounds.clip(x)).all()
        return with_gradient(f)(x, which)

    start = torch.from_numpy(rng.uniform(-3, 3, (5, 3)))  # outside as well
    x, values = minimise(check_bounds, start, bounds, iterations=iterations)
    np.testing.assert_allclose(values, f(x), rtol=1e-12)
    assert (values <= f(bounds.clip(start))).all()


def test_infinite_values_are_walked_around() -> None:
    """The minimum of x + 1/x^2-like barriers is next to a region where the objective is infinite."""

    def objective(x: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        inside = x[:, 0] > 0.1
        value = torch.where(inside, (x[:, 0] - 0.15) ** 2 * 100, torch.inf)
        return value, 200 * (x - 0.15)

    start = torch.tensor([[0.9], [0.05], [0.3]], dtype=torch.float64)
    x, values = minimise(objective, start, box([0.0], [1.0]))
    assert values[0].item() == pytest.approx(0.0, abs=1e-8)
    assert values[2].item() == pytest.approx(0.0, abs=1e-8)
    assert values[1].item() == torch.inf  # a start without a finite value stays where it is
    assert x[1].item() == pytest.approx(0.05)


def test_every_start_infinite() -> None:
    def objective(x: Tensor, which: Tensor) -> tuple[Tensor, Tensor]:
        return torch.full((len(x),), torch.inf).double(), torch.zeros_like(x)

    x, values = minimise(objective, torch.full((3, 2), 0.5).double(), box([0.0, 0.0], [1.0, 1.0]))
    assert (values == torch.inf).all()
    assert (x == 0.5).all()
