"""BODi (Deshwal, Ament, Balandat, Bakshy, Doppa, Eriksson 2023): a dictionary of anchors embeds the discrete variables.

A point is embedded by the share of discrete variables in which it equals each anchor. The kernel is a Matern-5/2 on
these shares and the continuous variables, with a lengthscale for each of them, so the fit chooses anchors. The anchors
are drawn again at every suggestion.

| changed | source | here | reason |
|---|---|---|---|
| inputs | normalised to the observed range | the unit cube | a share would depend on the data |
| mean, output scale | fitted, Gamma prior on the scale | maximised out | shared process |
| noise | Gamma(0.9, 10) prior, variance at least 1e-6 | log-normal prior, ratio at least 1e-6 | shared process |
| variance | plugs in the estimated mean | ordinary kriging | shared process |
| candidates | 2,000 random, 200 near each neighbour of the best | 2,000 random, 400 near it | speed |
| continuous part | CMA-ES | BFGS, which has the gradient | speed |
| pending trials | qEI | kriging believer | asynchronous workers |
| constraints | none | obeyed | |

Unchanged: embedding, kernel, maximum likelihood of all lengthscales from 0.693, 128 anchors and their recipes for
binary and nominal variables, expected improvement, 20 starts that alternate with steps to the best neighbour.

An anchor can be near the optimum by chance: with binary variables sparse and dense corners are likely anchors, which
favours problems whose optimum is at a corner of equal bits (Papenmeier, Nardi, Poloczek 2023).
"""

from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from fmnas.baselines.dictionary_kernel import DictionaryKernel, draw_anchors
from fmnas.optimizers.bayesian import BayesianOptimizer, ModelSettings
from fmnas.optimizers.gp.fit import Fit, FitSettings, Surrogate
from fmnas.optimizers.gp.search import SearchSettings
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space


class BODi(BayesianOptimizer):
    """Expected improvement with a dictionary kernel.

    anchors: size of the dictionary.
    """

    settings = ModelSettings(
        FitSettings(starts=1, screening=0, finalists=1, warm=False, smooth=False),
        SearchSettings(random_points=2000, spray_points=400, starts=20),
    )

    def __init__(self, space: Space, *, anchors: Annotated[int, Interval(ge=1)] = 128, **others: Any) -> None:
        check_options(type(self), anchors=anchors)
        super().__init__(space, **others)
        self.anchors = anchors

    def kernel(self, space: Space) -> DictionaryKernel:
        """Return the kernel of a dictionary drawn from the optimizer's seed; `_fit` draws others."""
        return self._draw_kernel(np.random.default_rng(self.seed))

    def _draw_kernel(self, rng: np.random.Generator) -> DictionaryKernel:
        sizes = [len(variable.vertices) for variable in self.space.discrete]
        count = self.anchors if sizes else 0
        return DictionaryKernel(self.space, draw_anchors(sizes, count, rng))

    def _fit(self, y: np.ndarray, rng: np.random.Generator) -> Fit:
        self.surrogate, self._last_eta = Surrogate(self._draw_kernel(rng), self.settings.fit), None
        return super()._fit(y, rng)

    def _memo(self) -> tuple[float, ...]:
        """Return nothing: the optimum of a fit is about anchors that are not used again."""
        return ()
