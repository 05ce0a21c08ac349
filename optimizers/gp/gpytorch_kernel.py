"""A kernel of gpytorch's under the Gaussian process of this package, e.g. those of kernels.py.

    class Mixture(BayesianOptimizer):
        def kernel(self, space):
            return GPyTorchKernel(space, FrequencyMixture(space))

Its parameters are searched where its own constraints allow them, from around the values that it has. The priors are its
own where it has some (densities of the values, as gpytorch takes them), else weak ones around the values that it has. A
kernel on encoded points x [n, D + P] is asked for: columns of the unit cube, then vertex indices.

| symbol | shape | meaning |
|---|---|---|
| B | | parameter sets evaluated together |
| value | [size] | a positive parameter as it is, or exp of the raw one where it may be negative |
| raw | | what gpytorch's module stores, of any shape |
"""

from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from fmnas.optimizers.gp.autograd_kernel import AutogradKernel
from fmnas.optimizers.gp.parameters import LogNormal, Parameter, Values
from fmnas.optimizers.gp.points import Points
from fmnas.search_spaces import Space
from fmnas.search_spaces.variables import Floats

POSITIVE = (1e-4, 1e4)  # bounds of a value, where its constraint has none
RAW = (float(np.exp(-10.0)), float(np.exp(10.0)))  # of one that may be negative: as its exponential
INSIDE = 1e-6  # so much of a bound a value keeps away from it: there its raw parameter is infinite
SPREAD = 1.0  # of the starts, in logarithms
WEAK = 1.5  # standard deviation of the logarithm
REFERENCE_POINTS = 64  # of the space, over which the mean is taken


class GPyTorchKernel(AutogradKernel):
    """An adapter of any gpytorch kernel without batch dimensions; it is made double precision.

    Its values are divided by their mean over points of the space with themselves: the output scale is the process's,
    and the noise, which is relative to it, then means the same for every kernel.
    """

    def __init__(self, space: Space, kernel: Any) -> None:
        super().__init__(space)
        self.kernel = kernel.double()
        free = [name for name, raw in kernel.named_parameters() if raw.requires_grad and raw.numel()]
        priors = _priors(kernel, free)
        self._places = {name: _Place(kernel, name) for name in free}
        self.parameters = tuple(place.parameter(name, priors.get(name)) for name, place in self._places.items())
        self._reference = self._encoded(
            Points.of(space, space.sample_encoded(np.random.default_rng(0), REFERENCE_POINTS))
        )

    def r(self, a: Points, b: Points, values: Values) -> Tensor:
        """Correlations [...], element by element."""
        (C1, C2), (V1, V2) = torch.broadcast_tensors(a.C, b.C), torch.broadcast_tensors(a.V, b.V)
        first, second = (self._encoded(Points(C.flatten(0, -2), V.flatten(0, -2))) for C, V in ((C1, V1), (C2, V2)))
        return self._evaluate(first, second, values, diag=True).reshape(V1.shape[:-1])

    def matrix(self, a: Points, b: Points, values: Values) -> Tensor:
        """r [m, n]."""
        return self._evaluate(self._encoded(a), self._encoded(b), values, diag=False)

    def _encoded(self, points: Points) -> Tensor:
        return torch.cat([points.C, points.V.double()], -1) if self.space.discrete else points.C

    def _evaluate(self, x1: Tensor, x2: Tensor, values: Values, *, diag: bool) -> Tensor:
        raw = {name: place.raw(values[name]) for name, place in self._places.items()}
        own = self._called(raw, self._reference, self._reference, diag=True)
        return self._called(raw, x1, x2, diag=diag) / own.mean()

    def _called(self, raw: dict[str, Tensor], x1: Tensor, x2: Tensor, *, diag: bool) -> Tensor:
        """k [n, m], or [n] of x1 and x2 side by side, as a tensor."""
        import gpytorch  # here: it takes seconds

        with gpytorch.settings.lazily_evaluate_kernels(False):
            k = torch.func.functional_call(self.kernel, raw, (x1, x2), {"diag": diag})
        return k if diag else k.to_dense()


class _Place:
    """Where a parameter lives in its module: the constraint on it, its shape and its present value [size]."""

    def __init__(self, kernel: Any, name: str) -> None:
        constraint, raw = kernel.constraint_for_parameter_name(name), kernel.get_parameter(name).detach()
        self.constraint, self.shape = constraint, raw.shape
        self.positive = constraint is not None and float(torch.as_tensor(constraint.lower_bound).min()) >= 0.0
        value = constraint.transform(raw) if self.positive else raw.exp()
        self.present = tuple(value.flatten().tolist())

    def parameter(self, name: str, prior: Any) -> Parameter:
        """As the fit sees it."""
        bounds, size = self._bounds(), len(self.present)
        if prior is not None:
            return Parameter(name, size, bounds, self._start, penalty=partial(self._minus_log_density, prior))
        return Parameter(name, size, bounds, self._start, LogNormal(float(np.exp(np.log(self.present).mean())), WEAK))

    def raw(self, value: Tensor) -> Tensor:
        """The raw parameter of a value [size]."""
        return (self.constraint.inverse_transform(value) if self.positive else value.log()).reshape(self.shape)

    def _bounds(self) -> tuple[float, float]:
        if not self.positive:
            return RAW
        lower = max(float(torch.as_tensor(self.constraint.lower_bound).max()), POSITIVE[0])
        upper = min(float(torch.as_tensor(self.constraint.upper_bound).min()), POSITIVE[1])
        return lower * (1.0 + INSIDE), upper * (1.0 - INSIDE)

    def _start(self, rng: np.random.Generator, shape: tuple[int, int]) -> Floats:
        return np.array(self.present) * np.exp(rng.uniform(-SPREAD, SPREAD, shape))

    def _minus_log_density(self, prior: Any, value: Tensor) -> Tensor:
        """Of a gpytorch prior [B], at values [B, size]."""
        if not self.positive:  # as gpytorch shows it
            value = value.log() if self.constraint is None else self.constraint.transform(value.log())
        return -torch.as_tensor(prior.log_prob(value.reshape(-1, *self.shape))).reshape(len(value), -1).sum(-1)


def _priors(kernel: Any, free: list[str]) -> dict[str, Any]:
    """The priors by the raw parameter that each is of: gpytorch calls it lengthscale_prior if that is raw_lengthscale.

    Raises ValueError for one of something else.
    """
    found = {}
    for name, _, prior, _, _ in kernel.named_priors():
        *modules, last = name.split(".")
        raw = ".".join([*modules, f"raw_{last.removesuffix('_prior')}"])
        if raw not in free:
            raise ValueError(f"prior {name!r}: no parameter {raw!r} to go with it; there are {free}: name it after one")
        found[raw] = prior
    return found
