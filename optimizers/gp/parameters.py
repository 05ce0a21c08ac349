"""A kernel's parameters as data, and the vector eta in which a fit searches them.

| symbol | shape | meaning |
|---|---|---|
| B | | parameter sets evaluated together |
| d | | numbers of all parameters together |
| eta | [B, d] | what is searched: the logarithms of the parameters, one after the other |
| values | name -> [B, size] | the parameters themselves |
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.gp.bfgs import Box
from fmnas.search_spaces.variables import Floats

Values = Mapping[str, Tensor]
Start = Callable[[np.random.Generator, tuple[int, int]], Floats]
"""Random starts of a parameter: values of that shape, [count, size]."""


@dataclass(frozen=True)
class Constant:
    """Always the same: nothing is drawn."""

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
    """exp U(low, high): the bounds are exponents."""

    low: float
    high: float

    def __call__(self, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        return np.exp(rng.uniform(self.low, self.high, shape))


@dataclass(frozen=True)
class LogNormal:
    """A prior: the logarithm is normal with this standard deviation."""

    median: float
    deviation: float


@dataclass(frozen=True)
class Parameter:
    """Some positive numbers of a kernel that are alike.

    bounds: of each; equal ones hold it. start: what random starts of a fit draw.
    prior: None leaves it to the likelihood. penalty: any other prior, as minus its log density up to a constant, from
    values [B, size] to [B]. smoother: what every second start is multiplied by where a fit asks for smooth ones.
    """

    name: str
    size: int
    bounds: tuple[float, float]
    start: Start
    prior: LogNormal | None = None
    penalty: Callable[[Tensor], Tensor] | None = None
    smoother: float = 1.0


class Parameters:
    """Several parameters, one after the other in eta [B, d]."""

    def __init__(self, each: Sequence[Parameter]) -> None:
        self.each = tuple(each)
        self.sizes = [parameter.size for parameter in self.each]
        lower, upper = self._rows([parameter.bounds for parameter in self.each]).log().T
        self.box = Box(lower, upper)
        normal = [p.prior or LogNormal(1.0, float("inf")) for p in self.each]  # without a prior: infinitely wide
        medians, self.deviation = self._rows([(prior.median, prior.deviation) for prior in normal]).T
        self.mean = medians.log()

    def _rows(self, pairs: Sequence[tuple[float, float]]) -> Tensor:
        rows = [pair for pair, size in zip(pairs, self.sizes, strict=True) for _ in range(size)]
        return torch.tensor(rows, dtype=torch.float64).reshape(-1, 2)

    def values(self, eta: Tensor) -> dict[str, Tensor]:
        """The parameters by name, each [..., size], of eta [..., d]."""
        parts = eta.exp().split(self.sizes, dim=-1)
        return {parameter.name: part for parameter, part in zip(self.each, parts, strict=True)}

    def starts(self, rng: np.random.Generator, count: int, smooth: bool = False) -> Tensor:
        """Random starts [count, d] in the box."""
        parts = []
        for parameter in self.each:
            drawn = parameter.start(rng, (count, parameter.size))
            if smooth:
                drawn[::2] *= parameter.smoother
            parts.append(drawn.clip(parameter.bounds[0]))
        return self.box.clip(torch.from_numpy(np.log(np.concatenate(parts, axis=1))))

    def minus_log_prior(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        """(minus the log density of the priors up to a constant [B], its gradient [B, d])."""
        away = (eta - self.mean) / self.deviation
        value, gradient = 0.5 * away.square().sum(-1), away / self.deviation
        if any(parameter.penalty for parameter in self.each):
            more, slopes = self._penalties(eta)
            value, gradient = value + more, gradient + slopes
        return value, gradient

    def _penalties(self, eta: Tensor) -> tuple[Tensor, Tensor]:
        with torch.enable_grad():
            variable = eta.detach().requires_grad_()
            values = self.values(variable)
            terms = [p.penalty(values[p.name]) for p in self.each if p.penalty]
            total = torch.stack(terms).sum(0)
            (gradient,) = torch.autograd.grad(total.sum(), variable)
        return total.detach(), gradient
