"""CoCaBO: Bayesian optimization with a bandit for each discrete variable (Ru et al. 2020, ICML).

Each ask draws the discrete variables, each by its own EXP3 (exp3.py), and then, on these values, maximises the upper
confidence bound (of minus the objective: kappa = 2) over the continuous ones.

The kernel is that of the authors' code, of which the published numbers are, with a the share of discrete variables in
which two points agree and m an isotropic Matern-5/2 of the continuous parts:

    r = (1 - mix) (a + m) / 2 + mix a m

The paper's formula has the sum without the 1/2: up to the output scale, its mix = 2/3 is 0.5 here.

Kept: kernel and bounds of its length scale (in the unit cube: half of those on [-1, 1]), maximum likelihood from five
starts, the bandits and their rewards, the bound and its search (5,000 points, the best three refined).

| changed | source | here | why |
|---|---|---|---|
| gamma | not bounded | at most 1 | above, the best arm has a negative probability |
| rewards | the best objective of a value | the same from -1 to 1 (exp3.py); log weights within 30 | scale-free |
| refits | every tenth result | every ask | its fits were slow, ours are not |
| output scale, mean | 1 and 0 of the standardised objective | maximised out | the shared process has it so |
| deviation in the bound | with a noise that is scaled wrongly | of the function, without noise | a slip of the code |
| pending trials | batches by EXP3.M | kriging believer; each ask draws by itself | workers come one by one |
| tried before | tried again | drawn again | none here tries twice |

The source's rewards may be negative, and so may these, which EXP3's analysis, for rewards in [0, 1], does not cover;
raw rewards in their place were no better on Func2C, Func3C and Ackley5C, with 100 and with 200 evaluations.

What is lost: to the bandits and the overlap two values are the same or not. The order of integers and ordinals and the
edges of graphs make no difference, and each variable's bandit is blind to the others.
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
from fmnas.optimizers.gp.points import Points, new_among
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface, alternate, best_of
from fmnas.optimizers.optimizer import check_budget
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Evaluation, Space, Trial
from fmnas.search_spaces.records import MODEL

BUDGET = 200
"""Evaluations after the initial design where their number is not known: the authors' runs had as many."""

KAPPA = 2.0
BANDIT_DRAWS = 1000  # of the bandits, for one that is new and feasible


class CoCaBOKernel(PairKernel):
    """The formula above; without variables of one kind, the part of the other. mix: None leaves it to the fit."""

    def __init__(self, space: Space, mix: float | None) -> None:
        super().__init__(overlap_tables(space))
        self.mix, self._kinds = mix, (bool(space.continuous), bool(space.discrete))
        theta = Parameter("theta", 1, (5e-5, 1.5), LogUniform(-4.0, 0.0))
        odds = Parameter("odds", 1, (1e-6, 1e6), Constant(1.0))  # mix / (1 - mix)
        self.parameters = (theta,) * self._kinds[0] + (odds,) * (mix is None and all(self._kinds))

    def r(self, x2: Tensor, a: Tensor, values: Values) -> Tensor:
        """Correlations."""
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

    mix: the weight of the kernel's product; "learned" by maximum likelihood, with every fit.
    evaluations: how many there will be in all, if that is known: the more, the less the bandits explore.
    The rest is as in `BayesianOptimizer`.
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
        pulls = BUDGET if evaluations is None else max(evaluations - len(self.initial_design), 1)
        self._bandits = Bandits(space, pulls)

    @classmethod
    def caveat(cls, options: Mapping[str, Any]) -> str:
        """That it is told its budget."""
        return "knows the size of its budget, which says how much its bandits explore."

    def kernel(self, space: Space) -> CoCaBOKernel:
        """The kernel of the process."""
        return CoCaBOKernel(space, self.mix)

    def acquisition(self, y: Tensor) -> Acquisition:
        """The confidence bound."""
        return LowerConfidenceBound(KAPPA)

    def candidates(self, surface: Surface, state: SearchState) -> Points:
        """Points on values that the bandits drew, the best first; without new ones a known one; none if infeasible."""
        space, settings, rng, D = self.space, state.settings, state.rng, len(self.space.continuous)
        X = np.column_stack([rng.random((BANDIT_DRAWS, D)), self._bandits.draw(rng, BANDIT_DRAWS)])
        X = X[space.feasible(X, strictly=True)]
        drawn = X[new_among(X, state.known)][:1]
        if not len(drawn):
            return Points.of(space, X[:1])
        X = np.repeat(drawn, settings.random_points if D else 1, axis=0)
        X[1:, :D] = rng.random((len(X) - 1, D))
        points = Points.of(space, X[space.feasible(X, strictly=True)])
        starts = best_of(points, surface.value(points), settings.starts)
        held = {p: int(vertex) for p, vertex in enumerate(drawn[0, D:])}
        found, _ = alternate(surface, Region(space, held=held), starts, settings)
        return found.and_then(starts)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        vertices = [int(vertex) for vertex in self._codes[trial.id][len(self.space.continuous) :]]
        self._bandits.tell(vertices, -float(self.objectives()[-1]), pulled=trial.origin == MODEL)
