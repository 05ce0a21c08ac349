"""BO-FM's kernels in BoTorch. It needs botorch: pip install 'fmnas[botorch]'.

| symbol | shape | meaning |
|---|---|---|
| D, P | | numbers of continuous and of discrete variables |
| n, m | | numbers of configurations and outcomes |
| train_X | [n, D + P] | configurations encoded by `space.encode_all`: unit-cube columns, then vertex indices |
| train_Y | [n, m] | outcomes; BoTorch maximises |

    model = MixedFMGP(train_X, train_Y, space)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    acquisition = LogExpectedImprovement(model, train_Y.max())
    x, _ = optimize_acqf_mixed_alternating(acquisition, q=1, **search_arguments(space))
    space.decode(x[0])

The kernel's parameters have BO-FM's priors (optimizers/gp/fm_kernel.py) and start at their medians. Likelihood, mean
and standardisation are BoTorch's. Suggestions differ from BO-FM's, whose output warping and additive terms are not
available here. BoTorch's search ignores a space's constraints; pass constraints to it, or check suggestions with
`space.meets_constraints`.
"""

import math
import warnings
from functools import partial
from typing import Any

import torch
from torch import Tensor

from fmnas.optimizers import BOFM, OptimizerError
from fmnas.optimizers.gp.frequency_modulation import KernelName, Modulated
from fmnas.optimizers.gp.power_kernel import POWER_KERNELS, build_kernel
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space

with warnings.catch_warnings():
    # gpytorch compiles two functions with torch.jit.script, which torch deprecates.
    warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
    from botorch.models import SingleTaskGP
    from botorch.models.transforms.outcome import Standardize
    from gpytorch.kernels import ScaleKernel
    from gpytorch.priors import LogNormalPrior

    from fmnas.optimizers.kernels import (
        AddDif,
        AddLap,
        FormulaKernel,
        GraphKernel,
        ModDif,
        ModLap,
        PositiveKernel,
        ProdDif,
        ProdLap,
        attribute_of,
    )

KERNELS: dict[str, type[GraphKernel]] = {
    kernel.__name__.lower(): kernel for kernel in (ModLap, ModDif, ProdLap, ProdDif, AddLap, AddDif)
}
"""The paper's six kernels by BOFM's option `kernel`; the others are in POWER_KERNELS."""


class MixedFMGP(SingleTaskGP):  # type: ignore[misc]  # botorch has no types
    """A SingleTaskGP with a scaled frequency-modulated kernel; outcomes have separate parameters.

    kernel: as BOFM's. options: of SingleTaskGP; outcomes are standardised by default. Raises OptimizerError for
    an unknown kernel or invalid train_X.
    """

    def __init__(
        self, train_X: Tensor, train_Y: Tensor, space: Space, *, kernel: KernelName = "modlap", **options: Any
    ) -> None:
        check_options(BOFM, kernel=kernel)
        check_encoded(train_X, space)
        _, batch_shape = self.get_batch_dimensions(train_X=train_X, train_Y=train_Y)
        covariance = ScaleKernel(graph_kernel(space, kernel, batch_shape), batch_shape=batch_shape)
        options.setdefault("outcome_transform", Standardize(m=train_Y.shape[-1], batch_shape=train_X.shape[:-2]))
        super().__init__(train_X, train_Y, covar_module=covariance, **options)


def graph_kernel(space: Space, name: KernelName, batch_shape: torch.Size | None = None) -> PositiveKernel:
    """Return a kernel on encoded configurations, on average 1 on the diagonal.

    Its priors are BO-FM's, but independent: gpytorch has no correlated log-normal prior.
    """
    kernel = (
        KERNELS[name](space, normalised=True, batch_shape=batch_shape)
        if name in KERNELS
        else FormulaKernel(POWER_KERNELS[name](space, Modulated()), batch_shape=batch_shape)
    )
    for parameter in build_kernel(space, name, blended=False).parameters:
        attribute, prior = attribute_of(parameter), parameter.prior
        if not hasattr(kernel, f"raw_{attribute}") or not kernel.value(attribute).numel():
            continue
        assert prior is not None, "all parameters have a prior"
        kernel.register_prior(
            f"{attribute}_prior",
            LogNormalPrior(math.log(prior.median), prior.deviation),
            partial(PositiveKernel.value, name=attribute),  # no lambda: the model can be pickled
            partial(PositiveKernel.set_value, name=attribute),
        )
        kernel.set_value(prior.median, attribute)
    return kernel


def search_arguments(space: Space) -> dict[str, Any]:
    """Return the arguments of `optimize_acqf_mixed_alternating` for encoded configurations.

    bounds [2, D + P]; discrete_dims and cat_dims: vertices of ordered and unordered columns. BoTorch has no graphs: it
    may move from any vertex of a Graph to any other.
    """
    D = len(space.continuous)
    columns = {D + p: [float(vertex) for vertex in range(len(v.vertices))] for p, v in enumerate(space.discrete)}
    ordered = {D + p for p, variable in enumerate(space.discrete) if variable.ordered}
    upper = [1.0] * D + [vertices[-1] for vertices in columns.values()]
    return {
        "bounds": torch.tensor([[0.0] * len(upper), upper], dtype=torch.float64),
        "discrete_dims": {column: vertices for column, vertices in columns.items() if column in ordered},
        "cat_dims": {column: vertices for column, vertices in columns.items() if column not in ordered},
    }


def check_encoded(X: Tensor, space: Space) -> None:
    """Raise OptimizerError unless the rows of X [..., n, D + P] are encoded configurations."""
    D = len(space.continuous)
    if X.shape[-1] != len(space):
        raise OptimizerError(
            f"train_X has {X.shape[-1]} columns, but the space has {len(space)} variables: use space.encode_all"
        )
    sizes = X.new_tensor([len(variable.vertices) for variable in space.discrete])
    units, vertices = X[..., :D], X[..., D:]
    outside = (units < 0).any() or (units > 1).any() or (vertices < 0).any() or (vertices >= sizes).any()
    if outside or vertices.frac().any():
        raise OptimizerError(
            f"train_X: its first {D} columns must be in [0, 1], the others vertex indices: use space.encode_all"
        )
