"""Expected improvement: closed forms, and a logarithm that holds where EI itself underflows."""

import math

import numpy as np
import pytest
import torch
from torch import Tensor

from fmnas.optimizers.gp.acquisition import Acquisition, LogAugmentedEI, LogEI, LowerConfidenceBound, log_h


def log_expected_improvement(mean: Tensor, deviation: Tensor, best: float) -> Tensor:
    return LogEI(best).value(mean, deviation)


def log_expected_improvement_slopes(mean: Tensor, deviation: Tensor, best: float) -> tuple[Tensor, Tensor, Tensor]:
    return LogEI(best).slopes(mean, deviation)


def expected_improvement(mean: Tensor, deviation: Tensor, best: float) -> Tensor:
    """As the textbook has it: it underflows."""
    u = (best - mean) / deviation
    phi = torch.exp(-0.5 * u.square()) / math.sqrt(2.0 * math.pi)
    return deviation * (phi + u * torch.special.ndtr(u)).clamp(min=0.0)


LOG_H = [  # (u, log(phi(u) + u Phi(u))) computed with 60 to 900 digits
    (-1e7, -50000000000033.155),
    (-2e6, -2000000000029.9363),
    (-1e6, -500000000028.54996),
    (-3e5, -45000000026.142014),
    (-1e4, -50000019.339619307),
    (-300.0, -45012.326536814554),
    (-30.0, -457.724653760598),
    (-8.0, -37.122364261692633),
    (-3.0, -7.8696860596030285),
    (-1.5, -3.5299359208057099),
    (-1.001, -2.4870256579553894),
    (-1.0, -2.4851210257126413),
    (-0.999, -2.4832171154475854),
    (-0.5, -1.6205162643873199),
    (0.0, -0.91893853320467274),
    (0.7, -0.17093141922474068),
    (3.0, 1.0987396653277078),
    (30.0, 3.4011973816621554),
    (1e6, 13.815510557964274),
]


def double(*values: float) -> Tensor:
    return torch.tensor(values, dtype=torch.float64)


@pytest.mark.parametrize(("u", "expected"), LOG_H)
def test_log_h_to_the_digit(u: float, expected: float) -> None:
    assert log_h(double(u)).item() == pytest.approx(expected, rel=1e-12, abs=1e-12)


def test_log_is_the_log_of_ei_where_both_are_accurate() -> None:
    u = torch.linspace(-4.0, 30.0, 500, dtype=torch.float64)
    direct = expected_improvement(-u, torch.ones_like(u), 0.0).log()
    np.testing.assert_allclose(log_h(u), direct, rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(log_expected_improvement(-u, torch.ones_like(u), 0.0), direct, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize("border", [-1.0, -1e6])
def test_branches_meet(border: float) -> None:
    around = double(border * (1 + 1e-9), border, border * (1 - 1e-9))
    values = log_h(around)
    assert (values.diff() >= 0).all()
    assert (values[2] - values[0]).item() <= 4e-9 * max(1.0, border**2)


@pytest.mark.parametrize("u", [-1e2, -1e3, -1e4])
def test_slopes_far_below_approach_their_asymptotes(u: float) -> None:
    _, by_mean, by_deviation = log_expected_improvement_slopes(double(-u), double(1.0), 0.0)
    assert by_mean.item() == pytest.approx(u, rel=1e-3)
    assert by_deviation.item() == pytest.approx(u * u, rel=1e-3)


def test_slopes_are_finite_and_have_their_sign_everywhere() -> None:
    decades = torch.logspace(8, -8, 100, dtype=torch.float64)
    u = torch.cat([-decades, decades])
    _, by_mean, by_deviation = log_expected_improvement_slopes(-u, torch.ones_like(u), 0.0)
    assert torch.isfinite(by_mean).all()
    assert torch.isfinite(by_deviation).all()
    assert (by_mean < 0).all()
    assert (by_deviation >= 0).all()


@pytest.mark.parametrize("acquisition", [LogEI(0.2), LogAugmentedEI(0.2, 0.1), LowerConfidenceBound(1.5)])
def test_slopes_are_the_derivatives(acquisition: Acquisition) -> None:
    mean, deviation, step = torch.linspace(-3.0, 3.0, 7).double(), torch.linspace(0.1, 2.0, 7).double(), 1e-6
    value, by_mean, by_deviation = acquisition.slopes(mean, deviation)
    np.testing.assert_allclose(value, acquisition.value(mean, deviation), rtol=1e-12)
    above, below = (acquisition.value(mean + move, deviation) for move in (step, -step))
    np.testing.assert_allclose(by_mean, (above - below) / (2 * step), rtol=1e-6)
    above, below = (acquisition.value(mean, deviation + move) for move in (step, -step))
    np.testing.assert_allclose(by_deviation, (above - below) / (2 * step), rtol=1e-6, atol=1e-9)


def test_augmented_ei_is_ei_without_noise_and_finite_far_below_it() -> None:
    mean, deviation = torch.linspace(-3.0, 3.0, 7).double(), torch.full((7,), 0.5).double()
    plain, augmented = LogEI(0.2).value(mean, deviation), LogAugmentedEI(0.2, 1e-16).value(mean, deviation)
    np.testing.assert_allclose(augmented, plain, atol=1e-7)
    tiny = double(1e-9)  # EI sigma^2 / (2 noise), where 1 - sqrt(noise) / sqrt(noise + sigma^2) rounds to 0
    hidden = LogAugmentedEI(0.2, 0.1).value(double(0.2), tiny) - LogEI(0.2).value(double(0.2), tiny)
    assert float(hidden) == pytest.approx(math.log(1e-18 / 0.2), rel=1e-9)


def test_a_lower_confidence_bound_in_numbers() -> None:
    bound = LowerConfidenceBound(2.0)
    assert bound.value(torch.tensor([1.0]), torch.tensor([0.25])).tolist() == [-0.5]
