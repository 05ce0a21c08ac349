"""CoCaBO: Bayesian optimization with a bandit per discrete variable (Ru et al. 2020, ICML).

Each ask draws the discrete variables from EXP3 bandits (exp3.py), and then maximises the upper confidence bound of the
negated objective (kappa = 2) over the continuous variables.

The kernel is that of the authors' code and published numbers. With a the share of discrete variables in which two
points agree, and m an isotropic Matern-5/2 of the continuous parts,

    r = (1 - mix) (a + m) / 2 + mix a m

The paper's formula has no factor 1/2: its lambda = 2/3 is proportional to mix = 0.5 here, with k(x, x) = 4/3.

Unchanged: kernel, its output scale of 1 for standardised objectives, bounds of its lengthscale (in the unit cube: half
of those on [-1, 1]), the update of the bandits' weights, acquisition and its search (5,000 points, the best three
refined).

| changed | source | here | reason |
|---|---|---|---|
| gamma | not bounded | at most 1 | otherwise the best arm has a negative probability |
| rewards | best objective of a value | scaled to [-1, 1] (exp3.py) | scale-free |
| weights | of any size | logarithms clipped to [-30, 30] | numbers overflow |
| fit | every tenth result, from five starts | every ask; after 12 iterations from the best two | speed |
| fit above 64 results | the same | in three of four asks from the last optimum alone | speed |
| first ten suggestions | not fitted: lengthscale 0.2, noise 0.1 | fitted | |
| learned mix | every tenth result, random starts | every fit, starts at 1/2 | |
| mean | 0 | estimated | shared process |
| bounds of the noise variance | 1e-6, 1 | 1e-6, 10 | |
| deviation in the bound | noise and variance added in different units | without noise | error in the code |
| pending trials | batches by EXP3.M | kriging believer; independent draws | asynchronous workers |
| known configurations | tried again | drawn again | no optimizer here repeats a configuration |

As in the source, rewards may be negative, although the analysis of EXP3 assumes [0, 1].

Limitation: bandits and overlap only distinguish equal and different values: the order of integers and ordinals and the
edges of graphs are ignored, and the bandits are independent of each other. For a variable with 31 values or more in 90
pulls, or 55 or more in 190, gamma is 1: all draws are uniform.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from annotated_types import Interval
from torch import Tensor

from fmnas.baselines.exp3 import Bandits
from fmnas.optimizers.bayesian import BayesianOptimizer, ModelSettings
from fmnas.optimizers.gp.acquisition import Acquisition, LowerConfidenceBound
from fmnas.optimizers.gp.autograd_kernel import PairKernel, overlap_tables
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.kernel import matern52
from fmnas.optimizers.gp.parameters import Constant, LogUniform, Parameter, Values
from fmnas.optimizers.gp.points import Points, is_new
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface, alternating_search, best_of
from fmnas.optimizers.optimizer import check_budget
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Evaluation, Space, Trial
from fmnas.search_spaces.records import MODEL

DEFAULT_PULLS = 200
"""Evaluations after the initial design if unknown: iterations of the runs in the authors' README."""

KAPPA = 2.0
BANDIT_DRAWS = 1000  # to find new feasible values


class CoCaBOKernel(PairKernel):
    """The formula above; if a space lacks one kind of variables, only the other part. mix: None to fit it."""

    output_scale = 1.0

    def __init__(self, space: Space, mix: float | None) -> None:
        super().__init__(overlap_tables(space))
        self.mix, self._kinds = mix, (bool(space.continuous), bool(space.discrete))
        theta = Parameter("theta", 1, (5e-5, 1.5), LogUniform(-4.0, 0.0))
        odds = Parameter("odds", 1, (1e-6, 1e6), Constant(1.0))  # mix / (1 - mix)
        self.parameters = (theta,) * self._kinds[0] + (odds,) * (mix is None and all(self._kinds))

    def r(self, x2: Tensor, a: Tensor, values: Values) -> Tensor:
        """Return the correlations."""
        continuous, discrete = self._kinds
        if not continuous:
            return a
        m = matern52(x2 / values["theta"].square())
        if not discrete:
            return m
        mix: Any = values["odds"] / (1.0 + values["odds"]) if self.mix is None else self.mix
        return (1.0 - mix) * (a + m) / 2.0 + mix * a * m


class CoCaBO(BayesianOptimizer):
    """Bandits for the discrete variables, a Gaussian process for the continuous ones.

    mix: weight of the kernel's product; "learned" by maximum likelihood in every fit.
    evaluations: total number of evaluations, if known: with more, the bandits explore less.
    The other parameters are those of `BayesianOptimizer`.
    """

    settings = ModelSettings(
        FitSettings(starts=5, prior=False, smooth=False, plug_in=True), SearchSettings(random_points=5000, starts=3)
    )

    def __init__(
        self,
        space: Space,
        *,
        mix: Annotated[float, Interval(ge=0.0, le=1.0)] | Literal["learned"] = 0.5,
        evaluations: int | None = None,
        **others: Any,
    ) -> None:
        check_options(type(self), mix=mix)
        check_budget(evaluations)
        super().__init__(space, **others)
        self.mix = None if mix == "learned" else float(mix)
        pulls = DEFAULT_PULLS if evaluations is None else max(evaluations - len(self.initial_design), 1)
        self._bandits = Bandits(space, pulls)
        self._drawn_with: dict[int, tuple[float, ...]] = {}  # probabilities of the values of the model's trials, by id

    @classmethod
    def caveat(cls, options: Mapping[str, Any]) -> str:
        """Return that the budget is used."""
        return "uses the size of its budget: it determines how much its bandits explore."

    def kernel(self, space: Space) -> CoCaBOKernel:
        """Return the kernel of the process."""
        return CoCaBOKernel(space, self.mix)

    def acquisition(self, y: Tensor) -> Acquisition:
        """Return the confidence bound."""
        return LowerConfidenceBound(KAPPA)

    def candidates(self, surface: Surface, state: SearchState) -> Points:
        """Return points with values drawn by the bandits, best first; a known point if none is new."""
        space, settings, rng, D = self.space, state.settings, state.rng, len(self.space.continuous)
        X = np.column_stack([rng.random((BANDIT_DRAWS, D)), self._bandits.draw(rng, BANDIT_DRAWS)])
        X = X[space.feasible(X, strictly=True)]
        drawn = X[is_new(X, state.known)][:1]
        if not len(drawn):
            return Points.from_encoded(space, X[:1])
        X = np.repeat(drawn, settings.random_points if D else 1, axis=0)
        X[1:, :D] = rng.random((len(X) - 1, D))
        points = Points.from_encoded(space, X[space.feasible(X, strictly=True)])
        starts = best_of(points, surface.value(points), settings.starts)
        fixed = {p: int(vertex) for p, vertex in enumerate(drawn[0, D:])}
        improved, _ = alternating_search(surface, Region(space, fixed=fixed), starts, settings)
        return improved.concat(starts)

    def _register(self, trial: Trial) -> None:
        super()._register(trial)
        if trial.origin == MODEL:
            self._drawn_with[trial.id] = self._bandits.probabilities(self._vertices(trial))

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        result = -float(self.objectives()[-1])
        self._bandits.tell(self._vertices(trial), result, self._drawn_with.pop(trial.id, None))

    def _vertices(self, trial: Trial) -> list[int]:
        return [int(vertex) for vertex in self._codes[trial.id][len(self.space.continuous) :]]
