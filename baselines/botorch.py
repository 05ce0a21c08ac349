"""BoTorch (Balandat et al. 2020): MixedSingleTaskGP, and log expected improvement maximised by alternating search.

| symbol | shape | meaning |
|---|---|---|
| n, d | | numbers of results and variables |
| X | [n, d] | configurations in BoTorch's encoding |
| Y | [n, 1] | negated objectives (or their logarithms): BoTorch maximises |

Encoding: Real on its (log-)scaled unit interval, Integer and Ordinal at equal steps in [0, 1], Nominal and Graph as
categories, so the edges of a Graph are lost. Pending trials are the `X_pending` of the acquisition function (qLogEI).

Fit and search are BoTorch's with its defaults, except the numbers of random samples and restarts of the search and of
L-BFGS-B steps of the fit. BoTorch may suggest a configuration twice. If its optimum is infeasible, the best of
RANDOM_CHOICES random feasible configurations is used instead.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from fmnas.baselines.external import WrappedOptimizer
from fmnas.optimizers import Suggestion
from fmnas.optimizers.gp.points import unfittable_reason
from fmnas.optimizers.isolation import one_thread
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Configuration, Space, Trial
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

RANDOM_CHOICES = 1024


class BoTorch(WrappedOptimizer):
    """BoTorch's Bayesian optimization of mixed spaces.

    log_objective: model the logarithm of the objective, which must then be positive.
    fit_steps: maximum number of L-BFGS-B steps of the fit.
    raw_samples: random points from which the starts of the search are selected. restarts: number of starts.
    """

    name = "botorch"
    package = "botorch"

    def __init__(
        self,
        space: Space,
        *,
        log_objective: bool = False,
        fit_steps: Annotated[int, Interval(ge=1, le=100_000)] = 75,
        raw_samples: Annotated[int, Interval(ge=2, le=100_000)] = 256,
        restarts: Annotated[int, Interval(ge=1, le=1_000)] = 4,
        **others: Any,
    ) -> None:
        super().__init__(space, **others)
        check_options(type(self), fit_steps=fit_steps, raw_samples=raw_samples, restarts=restarts)
        self.log_objective = log_objective
        self.fit_steps = fit_steps
        self.raw_samples = raw_samples
        self.restarts = restarts
        self._torch_seed = 0  # set by each ask
        ordered = [v.ordered for v in space.discrete]
        sizes = [len(v.vertices) for v in space.discrete]
        D = len(space.continuous)
        self._scale = np.array([1.0] * D + [n - 1 if o else 1 for n, o in zip(sizes, ordered, strict=True)])
        self._steps = {D + i: np.linspace(0.0, 1.0, n).tolist() for i, n in enumerate(sizes) if ordered[i]}
        self._categories = {D + i: [float(k) for k in range(n)] for i, n in enumerate(sizes) if not ordered[i]}

    def suggestions(self, seed: int) -> Iterator[Suggestion]:
        """Yield the optimum, then the best of random feasible configurations."""
        torch.default_generator.manual_seed(self._torch_seed)  # isolated by WrappedOptimizer
        rng = np.random.default_rng(seed)
        if reason := unfittable_reason(self.objectives()):
            yield Suggestion(self.space.sample(rng), RANDOM, note=reason, fallback=FALLBACK)
            return
        from botorch.exceptions.errors import BotorchError, ModelFittingError
        from linear_operator.utils.errors import NanError, NotPSDError

        try:
            acquisition = self.acquisition()
            yield Suggestion(self._decode(self._optimum(acquisition)), MODEL)
            yield Suggestion(self._decode(self._best_feasible(acquisition, rng)), MODEL)
        except (BotorchError, ModelFittingError, NanError, NotPSDError) as error:
            note = f"fit failed: {str(error).splitlines()[0]}"
            yield Suggestion(self.space.sample(rng), RANDOM, note=note, fallback=FAILED_FIT)

    def acquisition(self) -> Any:
        """Return qLogEI of the model fitted to the history, with the pending trials."""
        from botorch.acquisition.logei import qLogExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import MixedSingleTaskGP, SingleTaskGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        Y = torch.from_numpy(-self.objectives())[:, None]
        X = self._encode([trial for trial, _ in self.history])
        mixed = {"cat_dims": list(self._categories)}
        model = MixedSingleTaskGP(X, Y, **mixed) if self._categories else SingleTaskGP(X, Y)
        likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": self.fit_steps}})
        pending = self._encode(list(self.pending.values())) if self.pending else None
        return qLogExpectedImprovement(model, best_f=Y.max(), X_pending=pending)

    def _optimum(self, acquisition: Any) -> Tensor:
        """Maximise the acquisition function; return x [d]."""
        from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating

        upper = [max(self._categories[i]) if i in self._categories else 1.0 for i in range(len(self.space))]
        optimum, _ = optimize_acqf_mixed_alternating(
            acquisition,
            bounds=torch.tensor([[0.0] * len(upper), upper], dtype=torch.float64),
            discrete_dims=self._steps,
            cat_dims=self._categories,
            raw_samples=self.raw_samples,
            num_restarts=self.restarts,
        )
        return optimum[0]

    def _best_feasible(self, acquisition: Any, rng: np.random.Generator) -> Tensor:
        """Return the best of random feasible configurations [d]."""
        from botorch.optim import optimize_acqf_discrete

        choices = torch.from_numpy(self.space.sample_encoded(rng, RANDOM_CHOICES) / self._scale)
        optimum, _ = optimize_acqf_discrete(acquisition, q=1, choices=choices)
        return optimum[0]

    def _encode(self, trials: Sequence[Trial]) -> Tensor:
        return torch.from_numpy(self.space.encode_all([trial.configuration for trial in trials]) / self._scale)

    def _decode(self, x: Tensor) -> Configuration:
        return self.space.decode(x.numpy() * self._scale)

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        self._torch_seed = int(rng.integers(2**63 - 1))
        with one_thread():
            return super()._suggest(rng)
