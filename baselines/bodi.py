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
| iterations of the fit | to convergence | at most 60, and 300,000 / n^2 with n results: 7 with 200 | speed |
| alternations of a start | at most 50, until one gains less than 1e-6 | at most 20; 1e-3 if not the best | speed |
| initial points | 20 Sobol points | 10 random ones | as for all |
| pending trials | qEI | kriging believer | asynchronous workers |
| constraints | none | obeyed | |

Unchanged: embedding, kernel, likelihood of all lengthscales, maximised from 0.693, 128 anchors, the recipes for binary
variables, expected improvement, 20 starts that alternate with steps to the best neighbour. The recipe for nominal
variables is MCBO's (Dreczkowski, Grosnit, Bou Ammar 2023); the authors' own places values in blocks.

An anchor can be near the optimum by chance: with binary variables sparse and dense corners are likely anchors, which
favours problems whose optimum is at a corner of equal bits (Papenmeier, Nardi, Poloczek 2023).
"""

from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Interval

from fmnas.baselines.dictionary_kernel import DictionaryKernel, draw_anchors, draw_wavelet_anchors
from fmnas.optimizers.bayesian import BayesianOptimizer, ModelSettings
from fmnas.optimizers.gp.fit import Fit, FitSettings, Surrogate
from fmnas.optimizers.gp.search import SearchSettings
from fmnas.optimizers.optimizer import OptimizerError
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space


class BODi(BayesianOptimizer):
    """Expected improvement with a dictionary kernel.

    anchors: size of the dictionary. dictionary: "sparse", or "wavelet", for binary variables alone: at most as many
    anchors as variables, columns of a binary wavelet matrix (dictionary_kernel.py).
    """

    settings = ModelSettings(
        FitSettings(starts=1, screening=0, finalists=1, warm=False, smooth=False),
        SearchSettings(random_points=2000, spray_points=400, starts=20),
    )

    def __init__(
        self,
        space: Space,
        *,
        anchors: Annotated[int, Interval(ge=1)] = 128,
        dictionary: Literal["sparse", "wavelet"] = "sparse",
        **others: Any,
    ) -> None:
        check_options(type(self), anchors=anchors, dictionary=dictionary)
        sizes = [len(variable.vertices) for variable in space.discrete]
        if dictionary == "wavelet" and (len(sizes) < 2 or set(sizes) != {2}):
            raise OptimizerError(
                f"dictionary = wavelet, and the discrete variables have {sizes or 'no'} values: it takes two or more "
                "binary ones; use sparse"
            )
        super().__init__(space, **others)
        self.anchors, self.dictionary = anchors, dictionary

    def kernel(self, space: Space) -> DictionaryKernel:
        """Return the kernel of a dictionary drawn from the optimizer's seed; `_fit` draws others."""
        return self._draw_kernel(np.random.default_rng(self.seed))

    def _draw_kernel(self, rng: np.random.Generator) -> DictionaryKernel:
        sizes = [len(variable.vertices) for variable in self.space.discrete]
        if self.dictionary == "wavelet":
            return DictionaryKernel(self.space, draw_wavelet_anchors(len(sizes), self.anchors, rng))
        return DictionaryKernel(self.space, draw_anchors(sizes, self.anchors if sizes else 0, rng))

    def _fit(self, y: np.ndarray, rng: np.random.Generator) -> Fit:
        self.surrogate, self._last_eta = Surrogate(self._draw_kernel(rng), self.settings.fit), None
        return super()._fit(y, rng)

    def _memo(self) -> tuple[float, ...]:
        """Return nothing: the optimum of a fit is about anchors that are not used again."""
        return ()
