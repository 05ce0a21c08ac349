"""MixedFMGP: the kernels of BO-FM's own processes, fitted, searched and asked by BoTorch."""

import pickle
from collections.abc import Callable
from typing import Any, get_args

import numpy as np
import pytest
import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating
from botorch.optim.utils import sample_all_priors
from gpytorch.mlls import ExactMarginalLogLikelihood

from fmnas.integrations.botorch import MixedFMGP, graph_kernel, search_arguments
from fmnas.optimizers import OptimizerError
from fmnas.optimizers.gp.frequency_modulation import KernelName
from fmnas.optimizers.gp.kernel import pair_indices
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.power_kernel import build_kernel
from fmnas.search_spaces import Graph, Integer, Nominal, Ordinal, Real, Space

pytestmark = pytest.mark.slow

MIXED = Space(
    [
        Nominal("op", list("abc")),
        Real("x", 0.0, 1.0),
        Integer("k", 0, 4),
        Real("rate", 1e-4, 1e-1, log=True),
        Graph("g", ("s", "t", "u", "w"), (("s", "t"), ("t", "u"), ("t", "w"))),
        Ordinal("width", [8, 16, 64]),
    ]
)
SPACES = {
    "mixed": MIXED,
    "discrete": Space([Nominal("op", list("abcde")), Integer("k", 0, 9)]),
    "continuous": Space([Real("x", 0.0, 1.0), Real("z", 0.0, 1.0)]),
}
Data = tuple[torch.Tensor, torch.Tensor]


def data(space: Space, n: int = 12) -> Data:
    """Random configurations [n, D + P], and minus the squared distance of each to the first [n, 1]."""
    X = torch.from_numpy(space.sample_encoded(np.random.default_rng(0), n))
    return X, -(X - X[0]).square().sum(-1, keepdim=True)


def fit_model(space: Space, **options: Any) -> MixedFMGP:
    model = MixedFMGP(*data(space), space, **options)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    return model


@pytest.mark.parametrize("name", get_args(KernelName))
@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_the_kernel_is_that_of_bofms_own_processes(name: KernelName, space: Space) -> None:
    X, _ = data(space)
    fast, slow = build_kernel(space, name, blended=False), graph_kernel(space, name)
    rng = np.random.default_rng(1)
    values = {
        parameter.name: torch.from_numpy(np.exp(rng.uniform(-1, 1, (1, parameter.size))).clip(*parameter.bounds))
        for parameter in fast.parameters
    }
    odds = values["odds"][0, 0]
    attributes = {"weights": torch.stack([odds, torch.ones(())]) / (1 + odds)}  # of a sum
    attributes |= {"lengthscale" if key == "theta" else key: value[0] for key, value in values.items()}
    for attribute, value in attributes.items():
        if hasattr(slow, f"raw_{attribute}") and value.numel():
            slow.set_value(value, attribute)
    i, j = pair_indices(len(X))
    expected = fast.pairs(Points.from_encoded(space, X.numpy())).correlation(values)[0]
    assert torch.allclose(slow(X).to_dense().detach()[i, j], expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)
def test_a_suggestion_is_a_configuration_and_better_than_chance(space: Space) -> None:
    torch.manual_seed(0)
    model = fit_model(space)
    acquisition = LogExpectedImprovement(model, best_f=data(space)[1].median())
    x, value = optimize_acqf_mixed_alternating(
        acquisition, q=1, num_restarts=2, raw_samples=32, **search_arguments(space)
    )
    space.validate(space.decode(x[0].numpy()))
    anywhere = torch.from_numpy(space.sample_encoded(np.random.default_rng(1), 50))
    assert value >= acquisition(anywhere[:, None]).max() - 1e-3


def test_each_outcome_has_separate_parameters() -> None:
    X, Y = data(MIXED)
    model = MixedFMGP(X, torch.cat([Y, -3.0 * Y[torch.randperm(len(Y), generator=torch.manual_seed(0))]], -1), MIXED)
    fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
    assert model.posterior(X.reshape(3, 4, -1)).mean.shape == (3, 4, 2)
    beta = model.covar_module.base_kernel.beta
    assert not torch.allclose(beta[0], beta[1])


@pytest.mark.parametrize("name", get_args(KernelName))
def test_a_pickled_model_predicts_and_draws_from_its_priors_as_before(name: KernelName) -> None:
    model = MixedFMGP(*data(MIXED), MIXED, kernel=name)
    copied = pickle.loads(pickle.dumps(model))
    for one in (model, copied):
        torch.manual_seed(0)
        sample_all_priors(one)
    X, _ = data(MIXED)
    assert torch.equal(copied.posterior(X).mean, model.posterior(X).mean)


@pytest.mark.parametrize(
    "spoil",
    [lambda X: X[:, 1:], lambda X: X + 1.0, lambda X: X + 0.25 * (torch.arange(6) == 4), lambda X: -X],
    ids=["columns", "outside", "between vertices", "negative"],
)
def test_invalid_encoded_configurations_are_refused(spoil: Callable[[torch.Tensor], torch.Tensor]) -> None:
    X, Y = data(MIXED)
    with pytest.raises(OptimizerError, match="encode_all"):
        MixedFMGP(spoil(X), Y, MIXED)
