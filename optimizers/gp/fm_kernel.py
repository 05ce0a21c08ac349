"""Frequency-modulated and related kernels for a Gaussian process: the fast implementation of kernels.py.

Everything is analytic and batched. kernels.py has the same formulas for gpytorch; tests compare the two.

| symbol | shape | meaning |
|---|---|---|
| theta | [B, D] | lengthscales, in unit-cube lengths |
| alpha, beta | [B, P] | modulation by d2 and frequency scale per discrete variable |
| odds | [B, 1] | w / (1 - w), with w the weight of a combination (frequency_modulation.py) |
| d2 | [B, M] or [m, n] | squared continuous distance |
| q, s | as d2 | graph parts (graph_part.py) |
"""

from functools import partial

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from fmnas.optimizers.gp.factors import Factors, PairEntries
from fmnas.optimizers.gp.frequency_modulation import Combination, FastKernel, ModulatedLaplacian
from fmnas.optimizers.gp.graph_part import GraphPart, GraphPartWithGradient
from fmnas.optimizers.gp.kernel import ByParameters, ByPosition, ConditionedKernel, Kernel, Pairs, pair_indices
from fmnas.optimizers.gp.parameters import DEVIATION, Constant, LogNormal, Parameter, Uniform, Values
from fmnas.optimizers.gp.points import Points
from fmnas.search_spaces import Space

# Bounds of theta (in unit-cube lengths), alpha, beta and the odds: at its bound, a parameter has no influence.
THETA_BOUNDS, ALPHA_BOUNDS, BETA_BOUNDS, ODDS_BOUNDS = (1e-2, 1e2), (1e-4, 1e3), (1e-4, 1e3), (1e-3, 1e3)
UNIT_DEVIATION = 12**-0.5  # standard deviation of the uniform distribution: the starts are in standardised units
FIXED = (1.0, 1.0)
MEDIAN = 0.5  # of the priors of theta and of beta / P
WIDE = 1.5  # deviation of the priors of the logarithms of alpha, beta and the odds
CORRELATION = 0.5  # of the prior of two variables' parameters: how fast a function varies is partly common to all


def fm_parameters(D: int, P: int, *, scaled: bool, weighted: bool) -> tuple[Parameter, ...]:
    """Return theta, alpha, beta and odds for D continuous and P discrete variables; unused ones are fixed at 1.

    scaled, weighted: whether alpha and odds are used. Without discrete variables theta alone scales the distance.

    Starts: theta ~ U(0.25, 2) in standardised units, beta ~ U(0, 2), w = 1/2, alpha ~ U(0, 2) / (D P): alpha d2 adds up
    over D dimensions and P factors, and with alphas of order 1 every fit would end in white noise. Smooth starts have
    a beta P times as large, because a product of P factors of 1/2 vanishes, too.

    Priors: alpha is divided by D P and beta multiplied by P, so that two random points are equally similar in large and
    small spaces. The priors are proper and weak: about ten observations outweigh them. They are correlated: under
    independent ones, strong effects of 30 variables are 30 times as surprising as one, and the fit explains the
    objective by noise.
    """
    DP, prior = max(D, 1) * P, partial(LogNormal, correlation=CORRELATION)
    return (
        Parameter("theta", D, THETA_BOUNDS, Uniform(0.25, 2.0, times=UNIT_DEVIATION), prior(MEDIAN, DEVIATION)),
        Parameter("alpha", P, ALPHA_BOUNDS if scaled else FIXED, Uniform(0.0, 2.0, over=DP), prior(1 / DP, WIDE)),
        Parameter("beta", P, BETA_BOUNDS, Uniform(0.0, 2.0), prior(MEDIAN * P, WIDE), smoother=P),
        Parameter("odds", 1, ODDS_BOUNDS if weighted else FIXED, Constant(1.0), LogNormal(1.0, WIDE)),
    )


class FMKernel(Kernel):
    """A kernel of FAST_KERNELS or BLENDED_KERNELS (frequency_modulation.py) on a space."""

    def __init__(self, space: Space, form: FastKernel) -> None:
        self.form, self.combination = form, form.combination
        self.factors = Factors(space, closed_paths=isinstance(form.modulation, ModulatedLaplacian))
        scaled, weighted = self.combination.modulated and bool(space.discrete), self.combination.weighted
        self.parameters = fm_parameters(len(space.continuous), self.factors.P, scaled=scaled, weighted=weighted)

    def pairs(self, points: Points) -> "FMPairs":
        return FMPairs(self, points)

    def condition_on(self, values: Values, points: Points) -> "FMConditioned":
        return FMConditioned(self, values, points)

    def graph_part(self, values: Values) -> GraphPart:
        """Return the graph part under parameters [B, ...]; alpha is 0 if d2 does not modulate the graphs."""
        alpha = values["alpha"] if self.combination.modulated else torch.zeros_like(values["alpha"])
        return GraphPart(self.factors, self.form, alpha, values["beta"])


def weight(values: Values) -> Tensor:
    """Return w [...] from odds [..., 1]."""
    odds = values["odds"]
    return (odds / (1.0 + odds))[..., 0]


class FMPairs(Pairs):
    """Pairs of points: weights of their vertices, and squared differences [D, M] of their continuous parts."""

    def __init__(self, kernel: FMKernel, points: Points) -> None:
        self._kernel = kernel
        i, j = pair_indices(len(points))
        self._weights = kernel.factors.pairs(points.V[i], points.V[j])
        self._squares = (points.C.T[:, i] - points.C.T[:, j]).square_()

    def correlation(self, values: Values) -> Tensor:
        d2 = values["theta"].pow(-2) @ self._squares
        q, s = self._kernel.graph_part(values).evaluate(self._weights, d2)
        return self._kernel.combination.combine(q, s, d2, weight(values)[:, None])

    def with_pullback(self, values: Values) -> tuple[Tensor, ByParameters]:
        theta, w, combination = values["theta"], weight(values), self._kernel.combination
        d2 = theta.pow(-2) @ self._squares
        graphs = GraphPartWithGradient(self._kernel.graph_part(values), self._weights, d2)
        q, s = graphs.q, graphs.s

        def pullback(by_r: Tensor) -> Tensor:
            by_q, by_s, by_d2, by_w = (by_r * slope for slope in combination.slopes(q, s, d2, w[:, None]))
            by_alpha, by_beta, by_graph = graphs.pull(by_q * q, by_s)
            by_theta = -2.0 * theta.pow(-2) * ((by_d2 + by_graph) @ self._squares.T)
            by_odds = w * (1.0 - w) * by_w.sum(-1)
            return torch.cat([by_theta, by_alpha, by_beta, by_odds[:, None]], dim=-1)

        return combination.combine(q, s, d2, w[:, None]), pullback


class FMConditioned(ConditionedKernel[tuple[PairEntries, Tensor]]):
    """Correlations with n points under theta [D], alpha, beta [P] and w."""

    def __init__(self, kernel: FMKernel, values: Values, points: Points) -> None:
        self.combination, self.factors, self.points = kernel.combination, kernel.factors, points
        self.theta, self.w = values["theta"], weight(values)
        self.graphs = kernel.graph_part({name: value[None] for name, value in values.items()})
        self._diagonals = self.graphs.diagonals(values["beta"])
        self._own = pad_sequence(self._diagonals, batch_first=True)  # [P, V]
        self._rows = self.factors.rows(points.V)

    def precompute(self, V: Tensor) -> tuple[PairEntries, Tensor]:
        """Return the weights of the pairs with the n points (factors.py) and own [m]; neither depends on C."""
        own = self._own.gather(1, V.T)  # [P, m]
        return self.factors.pairs_with(self._rows, V), self._own_of(own.prod(0), own.mean(0))

    def correlate(self, points: Points) -> tuple[Tensor, Tensor]:
        (weights, own), d2 = self.precompute(points.V), self.squared_distance(points.C)
        q, s = (part.reshape(d2.shape) for part in self.graphs.evaluate(weights, d2.reshape(1, -1)))
        return self.combination.combine(q, s, d2, self.w), own

    def with_pullback(self, C: Tensor, precomputed: tuple[PairEntries, Tensor]) -> tuple[Tensor, Tensor, ByPosition]:
        (weights, own), d2 = precomputed, self.squared_distance(C)
        gradients = GraphPartWithGradient(self.graphs, weights, d2.reshape(1, -1))
        q, s, q_slope, s_slope = (part.reshape(d2.shape) for part in (gradients.q, gradients.s, *gradients.slopes()))
        by_q, by_s, by_d2, _ = self.combination.slopes(q, s, d2, self.w)
        slope = by_d2 + by_q * q_slope + by_s * s_slope  # d r / d d2

        def pullback(by_r: Tensor, by_own: Tensor) -> Tensor:
            pulled = by_r * slope
            gradient = pulled.sum(-1, keepdim=True) * C - pulled @ self.points.C
            return 2.0 * gradient / self.theta.square()

        return self.combination.combine(q, s, d2, self.w), own, pullback

    def squared_distance(self, C: Tensor) -> Tensor:
        """Return d2 [m, n] of continuous parts C [m, D]."""
        theta = self.theta
        return torch.cdist(C / theta, self.points.C / theta, compute_mode="donot_use_mm_for_euclid_dist").square_()

    def neighbours(self, points: Points) -> tuple[Tensor, Tensor]:
        d2 = self.squared_distance(points.C)
        r = combine_tables(self.combination, self.graphs.tables(self._rows, d2), points.V, d2, self.w)
        return r, self._own_around(points.V)

    def _own_around(self, V: Tensor) -> Tensor:
        own, sizes = self._own.gather(1, V.T), torch.tensor([len(diagonal) for diagonal in self._diagonals])
        new, old = torch.cat(self._diagonals), own.T.repeat_interleave(sizes, 1)  # [K], [m, K]
        return self._own_of(own.prod(0)[:, None] * (new / old), own.mean(0)[:, None] + (new - old) / len(own))

    def _own_of(self, q: Tensor, s: Tensor) -> Tensor:
        return self.combination.combine(q, s, torch.zeros_like(q), self.w)


def combine_tables(combination: Combination, tables: list[Tensor], V: Tensor, d2: Tensor, w: Tensor) -> Tensor:
    """Return r [m, K, n] of m points with vertices V [m, P] after one variable is set to one of its vertices.

    tables: each variable's factor between m points at all of its vertices and n points, P times [m, V_p, n]; d2 [m, n].
    """
    every, sizes = torch.cat(tables, 1), torch.tensor([table.shape[1] for table in tables])
    own = every[torch.arange(len(V)), (V + sizes.cumsum(0) - sizes).T].contiguous()  # [P, m, n]
    variable = torch.repeat_interleave(sizes)  # [K]
    q = every * _leave_one_out_products(own)[variable].transpose(0, 1)
    s = (every + (own.sum(0) - own)[variable].transpose(0, 1)) / len(own) if combination.additive else q
    return combination.combine(q, s, d2[:, None], w)


def _leave_one_out_products(own: Tensor) -> Tensor:
    """Return [P, m, n]: at p the product of all but the p-th."""
    one = torch.ones_like(own[:1])
    before = torch.cat([one, own[:-1]]).cumprod(0)
    after = torch.cat([one, own[1:].flip(0)]).cumprod(0).flip(0)
    return before * after
