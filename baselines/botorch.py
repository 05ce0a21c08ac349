"""BoTorch (Balandat et al. 2020): its MixedSingleTaskGP, and log expected improvement searched by alternating steps.

| symbol | shape | meaning |
|---|---|---|
| n, m, d | | results, candidates, variables |
| X | [n, d] | configurations: what BoTorch sees |
| Y | [n, 1] | negated objectives (or their logarithms): BoTorch maximises |

What BoTorch sees: Real on its (log-)scaled unit interval, Integer and Ordinal as numbers at equal steps in [0, 1],
Nominal and Graph as categories, which agree or do not; so it knows nothing of a Graph's edges. Pending trials are the
`X_pending` of its acquisition function, which takes their results into account by sampling them (qLogEI).

The fit and the search are BoTorch's with its defaults, but for three numbers that say what a suggestion costs: random
samples and restarts of the search, and the steps of L-BFGS-B in the fit, which BoTorch does not limit to 75. BoTorch
may suggest what was tried before, and then that is tried again. Where its optimum is infeasible, the best of
RANDOM_CHOICES random feasible configurations takes its place, by the same function.
"""

from collections.abc import Iterator, Sequence
from typing import Annotated, Any

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from fmnas.baselines.external import WrappedOptimizer
from fmnas.optimizers import Suggestion
from fmnas.optimizers.gp.points import nothing_to_model
from fmnas.optimizers.isolation import one_thread
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Configuration, Space, Trial
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

RANDOM_CHOICES = 1024


class BoTorch(WrappedOptimizer):
    """Bayesian optimization as BoTorch has it for mixed spaces.

    log_objective: model log of the objective; it must then be positive.
    fit_steps: at most so many steps of L-BFGS-B to fit the model.
    raw_samples: random points of which the starting points of the search are drawn. restarts: those starting points.
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
        self._torch_seed = 0  # of an ask
        ordered = [v.ordered for v in space.discrete]
        sizes = [len(v.vertices) for v in space.discrete]
        D = len(space.continuous)
        self._scale = np.array([1.0] * D + [n - 1 if o else 1 for n, o in zip(sizes, ordered, strict=True)])
        self._steps = {D + i: np.linspace(0.0, 1.0, n).tolist() for i, n in enumerate(sizes) if ordered[i]}
        self._categories = {D + i: [float(k) for k in range(n)] for i, n in enumerate(sizes) if not ordered[i]}

    def suggestions(self, seed: int) -> Iterator[Suggestion]:
        """The optimum; under constraints, then the best of feasible configurations."""
        torch.default_generator.manual_seed(self._torch_seed)  # the state is ours: wrapped.py
        rng = np.random.default_rng(seed)
        if why := nothing_to_model(self._objectives()):
            yield Suggestion(self.space.sample(rng), RANDOM, note=why, fallback=FALLBACK)
            return
        from botorch.exceptions.errors import BotorchError, ModelFittingError
        from linear_operator.utils.errors import NanError, NotPSDError

        try:
            acquisition = self.acquisition()
            yield Suggestion(self._decoded(self._optimum(acquisition)), MODEL)
            yield Suggestion(self._decoded(self._best_feasible(acquisition, rng)), MODEL)
        except (BotorchError, ModelFittingError, NanError, NotPSDError) as error:
            note = f"fit failed: {str(error).splitlines()[0]}"
            yield Suggestion(self.space.sample(rng), RANDOM, note=note, fallback=FAILED_FIT)

    def acquisition(self) -> Any:
        """qLogEI of the model fitted to the history, with what is pending."""
        from botorch.acquisition.logei import qLogExpectedImprovement
        from botorch.fit import fit_gpytorch_mll
        from botorch.models import MixedSingleTaskGP, SingleTaskGP
        from gpytorch.mlls import ExactMarginalLogLikelihood

        Y = torch.from_numpy(-self._objectives())[:, None]
        X = self._encoded([trial for trial, _ in self.history])
        mixed = {"cat_dims": list(self._categories)}
        model = MixedSingleTaskGP(X, Y, **mixed) if self._categories else SingleTaskGP(X, Y)
        likelihood = ExactMarginalLogLikelihood(model.likelihood, model)
        fit_gpytorch_mll(likelihood, optimizer_kwargs={"options": {"maxiter": self.fit_steps}})
        pending = self._encoded(list(self.pending.values())) if self.pending else None
        return qLogExpectedImprovement(model, best_f=Y.max(), X_pending=pending)

    def _objectives(self) -> np.ndarray:
        """Those told [n], or their logarithms."""
        y = np.array([result.objective for _, result in self.history])
        return np.log(y) if self.log_objective else y

    def _optimum(self, acquisition: Any) -> Tensor:
        """Where the acquisition function is largest [d], as far as the search finds it."""
        from botorch.optim.optimize_mixed import optimize_acqf_mixed_alternating

        upper = [max(self._categories[i]) if i in self._categories else 1.0 for i in range(len(self.space))]
        found, _ = optimize_acqf_mixed_alternating(
            acquisition,
            bounds=torch.tensor([[0.0] * len(upper), upper], dtype=torch.float64),
            discrete_dims=self._steps,
            cat_dims=self._categories,
            raw_samples=self.raw_samples,
            num_restarts=self.restarts,
        )
        return found[0]

    def _best_feasible(self, acquisition: Any, rng: np.random.Generator) -> Tensor:
        """The random feasible configuration [d] where it is largest."""
        from botorch.optim import optimize_acqf_discrete

        choices = torch.from_numpy(self.space.sample_encoded(rng, RANDOM_CHOICES) / self._scale)
        found, _ = optimize_acqf_discrete(acquisition, q=1, choices=choices)
        return found[0]

    def _encoded(self, trials: Sequence[Trial]) -> Tensor:
        return torch.from_numpy(self.space.encode_all([trial.configuration for trial in trials]) / self._scale)

    def _decoded(self, x: Tensor) -> Configuration:
        return self.space.decode(x.numpy() * self._scale)

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        self._torch_seed = int(rng.integers(2**63 - 1))
        with one_thread():
            return super()._suggest(rng)
