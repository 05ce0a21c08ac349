"""Acquisition functions for minimisation: (augmented) expected improvement and the lower confidence bound.

All are maximised. Expected improvement is computed as its logarithm, in a form that does not underflow:

    EI = s h(u),  h(u) = phi(u) + u Phi(u),  u = (best - mean) / s

log h follows Ament et al. 2023 (LogEI, Eq. 9): for very negative u, phi + u Phi cancels, so that branch uses the scaled
complementary error function, and below u = -1e6 its asymptote h ~ phi(u) / u^2.
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

_LOG_2PI_HALF = 0.5 * math.log(2.0 * math.pi)
_LOG_PI_2_HALF = 0.5 * math.log(0.5 * math.pi)
_FAR = -1e6


def _log_phi(u: Tensor) -> Tensor:
    return -0.5 * u.square() - _LOG_2PI_HALF


def log_h(u: Tensor) -> Tensor:
    """Return log(phi(u) + u Phi(u)), accurate for every finite u."""
    near = u.clamp(min=-1.0)
    direct = (_log_phi(near).exp() + near * torch.special.ndtr(near)).log()
    middle = u.clamp(_FAR, -1.0)
    # log(|u| Phi(u) / phi(u)), just below zero: h = phi (1 - exp(tail))
    tail = (torch.special.erfcx(-middle / math.sqrt(2.0)) * middle.abs()).log() + _LOG_PI_2_HALF
    scaled = _log_phi(middle) + torch.log(-torch.expm1(tail))
    far = u.clamp(max=_FAR)
    asymptote = _log_phi(far) - 2.0 * far.abs().log()
    return torch.where(u > -1.0, direct, torch.where(u > _FAR, scaled, asymptote))


class Acquisition(ABC):
    """The utility of evaluating a point with the value N(mean, deviation^2); shapes broadcast."""

    @abstractmethod
    def value(self, mean: Tensor, deviation: Tensor) -> Tensor:
        """Return the acquisition."""

    @abstractmethod
    def slopes(self, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return (value, its derivatives by the mean and by the deviation)."""


@dataclass(frozen=True)
class LogEI(Acquisition):
    """log EI below `best`; finite even where EI is zero in floating point."""

    best: float

    def value(self, mean: Tensor, deviation: Tensor) -> Tensor:
        return deviation.log() + log_h((self.best - mean) / deviation)

    def slopes(self, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return (log EI, -Phi(u) / (s h(u)), phi(u) / (s h(u)))."""
        u = (self.best - mean) / deviation
        scale = log_h(u)
        near = u.clamp(min=-1e4)
        close = u > -1e4
        cdf = torch.where(close, (torch.special.log_ndtr(near) - scale).exp_(), -u)
        pdf = torch.where(close, (_log_phi(near) - scale).exp_(), u.square())
        return deviation.log() + scale, -cdf / deviation, pdf / deviation


@dataclass(frozen=True)
class LogAugmentedEI(LogEI):
    """log of EI (1 - sqrt(noise / (noise + s^2))): no credit for s below the noise (Huang et al. 2006).

    noise: variance of an observation, above 0.
    """

    noise: float

    def value(self, mean: Tensor, deviation: Tensor) -> Tensor:
        """Return the acquisition in a form that does not cancel if s is far below the noise."""
        root, sigma = self._roots(deviation)
        return super().value(mean, deviation) + 2.0 * deviation.log() - root.log() - (root + sigma).log()

    def slopes(self, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        _, by_mean, by_deviation = super().slopes(mean, deviation)
        root, sigma = self._roots(deviation)
        more = 2.0 / deviation - deviation / root.square() - deviation / (root * (root + sigma))
        return self.value(mean, deviation), by_mean, by_deviation + more

    def _roots(self, deviation: Tensor) -> tuple[Tensor, float]:
        """Return (sqrt(noise + s^2), sqrt(noise))."""
        return (self.noise + deviation.square()).sqrt(), math.sqrt(self.noise)


@dataclass(frozen=True)
class LowerConfidenceBound(Acquisition):
    """Minus the bound: weight * deviation - mean (Srinivas et al. 2010, for minimisation)."""

    weight: float = 2.0

    def value(self, mean: Tensor, deviation: Tensor) -> Tensor:
        return self.weight * deviation - mean

    def slopes(self, mean: Tensor, deviation: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        return self.value(mean, deviation), torch.full_like(mean, -1.0), torch.full_like(mean, self.weight)
