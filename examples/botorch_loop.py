"""A BoTorch loop with a frequency-modulated kernel: pip install 'fmnas[botorch]'."""

import torch
from botorch.acquisition import LogExpectedImprovement
from botorch.fit import fit_gpytorch_mll
from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating
from gpytorch.mlls import ExactMarginalLogLikelihood

from fmnas.integrations.botorch import MixedFMGP, search_arguments
from fmnas.optimizers import random_design
from fmnas.search_spaces import Configuration, Graph, Nominal, Real, Space

RING = ("north", "east", "south", "west")
EDGES = (("north", "east"), ("east", "south"), ("south", "west"), ("west", "north"))
SPACE = Space([Real("x", 0.0, 1.0), Nominal("op", ["a", "b", "c"]), Graph("side", RING, EDGES)])


def reward(configuration: Configuration) -> float:
    """The maximum, 0, is at x = 0.3 with op b and side south."""
    steps = abs(RING.index(str(configuration["side"])) - RING.index("south"))
    return -((float(configuration["x"]) - 0.3) ** 2) - 0.2 * (configuration["op"] != "b") - 0.1 * steps


if __name__ == "__main__":
    torch.manual_seed(0)
    tried = random_design(SPACE, 8, seed=0)
    for _ in range(4):
        X = torch.from_numpy(SPACE.encode_all(tried))
        Y = torch.tensor([[reward(configuration)] for configuration in tried], dtype=torch.float64)
        model = MixedFMGP(X, Y, SPACE)
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = LogExpectedImprovement(model, best_f=Y.max())
        x, _ = optimize_acqf_mixed_alternating(
            acquisition, q=1, num_restarts=4, raw_samples=128, **search_arguments(SPACE)
        )
        tried.append(SPACE.decode(x[0].numpy()))
    best = max(tried, key=reward)
    print(f"{reward(best):.4f} with {best}")
