"""The parameters of a kernel, and the vector eta in which a fit optimizes them.

| symbol | shape | meaning |
|---|---|---|
| B | | parameter sets evaluated together |
| d | | total size of all parameters |
| eta | [B, d] | logarithms of the parameters, concatenated |
| values | name -> [B, size] | the parameters |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.gp.bfgs import Box
from fmnas.search_spaces.variables import Floats

Values = Mapping[str, Tensor]
DEVIATION = 1.0  # of the normal priors of log theta (fm_kernel.py) and of the objective's bend (output_warping.py)
Start = Callable[[np.random.Generator, tuple[int, int]], Floats]
"""Draws random starts of a parameter with shape [count, size]."""


@dataclass(frozen=True)
class Constant:
    """A constant start."""

    value: float

    def __call__(self, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        return np.full(shape, self.value)


@dataclass(frozen=True)
class Uniform:
    """times U(low, high) / over."""

    low: float
    high: float
    times: float = 1.0
    over: float = 1.0

    def __call__(self, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        return np.asarray(self.times * rng.uniform(self.low, self.high, shape) / self.over)


@dataclass(frozen=True)
class LogUniform:
    """exp U(low, high)."""

    low: float
    high: float

    def __call__(self, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        return np.exp(rng.uniform(self.low, self.high, shape))


@dataclass(frozen=True)
class LogNormal:
    """A log-normal prior; `deviation` is the standard deviation of the logarithm.

    correlation: of the logarithms of two components, for what a vector has in common, e.g. how fast a function varies.
    """

    median: float
    deviation: float
    correlation: float = 0.0


@dataclass(frozen=True)
class Parameter:
    """A vector of positive numbers with the same bounds and prior.

    bounds: equal bounds fix the parameter. start: distribution of random starts. prior: None for maximum likelihood.
    smoother: factor of every second start if a fit requests smooth starts.
    """

    name: str
    size: int
    bounds: tuple[float, float]
    start: Start
    prior: LogNormal | None = None
    smoother: float = 1.0

    @property
    def is_fixed(self) -> bool:
        """Whether the bounds are equal."""
        return self.bounds[0] == self.bounds[1]


class ParameterVector:
    """Several parameters, concatenated in eta [B, d]."""

    def __init__(self, parameters: Sequence[Parameter]) -> None:
        self.parameters = tuple(parameters)
        self.sizes = [parameter.size for parameter in self.parameters]
        lower, upper = self._rows([parameter.bounds for parameter in self.parameters]).log().T
        self.box = Box(lower, upper)
        normal = [p.prior or LogNormal(1.0, float("inf")) for p in self.parameters]  # no prior: infinitely wide
        medians, self.deviation = self._rows([(prior.median, prior.deviation) for prior in normal]).T
        self.mean = medians.log()
        self._correlations = [prior.correlation for prior in normal]

    def _rows(self, pairs: Sequence[tuple[float, float]]) -> Tensor:
        rows = [pair for pair, size in zip(pairs, self.sizes, strict=True) for _ in range(size)]
        return torch.tensor(rows, dtype=torch.float64).reshape(-1, 2)

    def values(self, eta: Tensor) -> dict[str, Tensor]:
        """Return the parameters of eta [..., d] by name, each [..., size]."""
        parts = eta.exp().split(self.sizes, dim=-1)
        return {parameter.name: part for parameter, part in zip(self.parameters, parts, strict=True)}

    def starts(self, rng: np.random.Generator, count: int, smooth: bool = False) -> Tensor:
        """Draw random starts [count, d] in the box."""
        parts = []
        for parameter in self.parameters:
            drawn = parameter.start(rng, (count, parameter.size))
            if smooth:
                drawn[::2] *= parameter.smoother
            parts.append(drawn.clip(parameter.bounds[0]))
        return self.box.clip(torch.from_numpy(np.log(np.concatenate(parts, axis=1))))

    def minus_log_prior(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """Return (minus the log density of the priors up to a constant [B], its gradient [B, d])."""
        scaled = (eta - self.mean) / self.deviation
        parts = zip(scaled.split(self.sizes, -1), self._correlations, strict=True)
        solved = torch.cat([_solve_equicorrelated(part, c) if c else part for part, c in parts], -1)
        return 0.5 * (scaled * solved).sum(-1), solved / self.deviation


def _solve_equicorrelated(z: Tensor, c: float) -> Tensor:
    """Return ((1 - c) I + c 11')^-1 z of vectors z [B, k]: (z - c / (1 + (k - 1) c) sum z) / (1 - c)."""
    return (z - c / (1.0 + (z.shape[-1] - 1) * c) * z.sum(-1, keepdim=True)) / (1.0 - c)
