"""GEBO (Ahn, Kim, Yun 2022, "Mold into a Graph"): Bayesian optimization in the latent space of graph autoencoders.

A bandit (graph_bandits.py) draws one of five graphs of the variables. Its encoder (graph_autoencoder.py) maps the
results to R^4, where a Gaussian process is fitted and its confidence bound maximised. The decoder, which all graphs
share, maps the points found to configurations. The result rewards the graph, and its encoder and the decoder are
trained on five configurations, drawn in favour of the best. A graph that often fails to improve is replaced.

| changed | source | here | reason |
|---|---|---|---|
| reward | the objective, which is minimised | from 0 for the worst result to 1 for the best | an error of sign; \
`reward: published` has it |
| gamma of the bandits | not bounded | at most 1 | otherwise probabilities may be negative |
| a single hub | paper: alone; code: with two other nodes | alone | |
| training | size of its batches not stated | one configuration after another | |
| metric of the loss | compared results not stated | nearest and farthest of all others | |
| output scale, mean | not stated | maximised out; the noise is 0.1 of the scale | shared process |
| first fit | none, the lengthscale is 2 | as all others | |
| pending trials | none | their predicted means | asynchronous workers |
| constraints | none | the best sample whose decoded point is feasible | |
| known configurations | tried again | next best new one | no optimizer here repeats one |

If none of the samples decodes to a new feasible configuration, a random one is suggested, and the graph has failed.

Where paper and code differ otherwise, the code is followed: the latent region exceeds the data by the lengthscale times
their deviation (paper: by the deviation), failures need not be successive, and hubs are rewarded with gamma and number
of arms of their own bandit (paper: those of the graphs).

The rows on training and metric were chosen on the four functions of the paper's table, with the seeds 0 to 4.

Limitation: values of integers and ordinals are categories. After some training the decoder yields few of them.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from fmnas.baselines.bodi import DictionaryConditioned, DictionaryKernel, DictionaryPairs
from fmnas.baselines.graph_autoencoder import WIDTH, Encoder, GraphAutoencoder
from fmnas.baselines.graph_bandits import NestedBandits
from fmnas.optimizers import Optimizer, Suggestion, random_design
from fmnas.optimizers.bayesian import INITIAL_POINTS
from fmnas.optimizers.gp.acquisition import LowerConfidenceBound
from fmnas.optimizers.gp.bfgs import Box
from fmnas.optimizers.gp.fit import FitError, FitSettings, Surrogate
from fmnas.optimizers.gp.kernel import pair_indices
from fmnas.optimizers.gp.parameters import Constant, LogUniform, Parameter, Values
from fmnas.optimizers.gp.points import Points, is_new, sample_new, standardise, unfittable_reason
from fmnas.optimizers.gp.process import Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import Surface, best_of
from fmnas.optimizers.isolation import one_thread
from fmnas.optimizers.optimizer import check_budget
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Configuration, Evaluation, Real, Space, Trial
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

DEFAULT_PULLS = 100
"""Evaluations after the initial design if unknown: the number of the authors' runs."""
KAPPA, SAMPLES, STARTS, STEPS = 2.0, 5000, 3, 30
DECODED = 64  # samples at once
TRAINED = 5  # configurations per training
WARM_UP, FOCUS = 1e3, 1e-2  # k of the weights 1 / (k n + rank), at first and later
LATENT = Space([Real(f"z{d}", 0.0, 1.0) for d in range(WIDTH)])
TIE_GUARD = 1e-6  # added to differences of objectives
FIT = FitSettings(starts=5, screening=4, finalists=1, prior=False, warm=False, smooth=False, plug_in=True)
Count = Annotated[int, Interval(ge=1)]


class LatentKernel(DictionaryKernel):
    """The isotropic Matern-5/2 of embeddings, with fixed noise: BODi's without anchors, and with one lengthscale."""

    noise = Parameter("noise", 1, (0.1, 0.1), Constant(0.1))

    def __init__(self) -> None:
        super().__init__(LATENT, torch.zeros(0, 0, dtype=torch.int64))
        self.parameters = (Parameter("theta", 1, (1e-4, 3.0), LogUniform(-2.0, 1.1)),)

    def pairs(self, points: Points) -> DictionaryPairs:
        i, j = pair_indices(len(points))
        return DictionaryPairs((points.C[i] - points.C[j]).square().sum(1, keepdim=True))

    def condition_on(self, values: Values, points: Points) -> DictionaryConditioned:
        return super().condition_on({"theta": values["theta"].expand(WIDTH)}, points)


class GEBO(Optimizer):
    """Bayesian optimization in a latent space, which bandits over graphs of the variables choose.

    graphs: number of graphs. hubs: draws of hubs for a graph; equal ones count once.
    reward: of a graph; "published": the minimised objective, as in the authors' code, by an error.
    evaluations: total number of evaluations, if known: with more, the bandits explore less.
    initial_design: configurations to try first; 10 random ones by default.

    Bandits, encoders and decoder follow from the results in their order, and are built when first needed. The memo of a
    trial is its graph: place and number.
    """

    def __init__(
        self,
        space: Space,
        *,
        graphs: Count = 5,
        hubs: Count = 3,
        reward: Literal["scaled", "published"] = "scaled",
        evaluations: int | None = None,
        initial_design: Sequence[Configuration] | None = None,
        log_objective: bool = False,
        seed: int = 0,
        **others: Any,
    ) -> None:
        check_options(type(self), graphs=graphs, hubs=hubs, reward=reward)
        check_budget(evaluations)
        design = random_design(space, INITIAL_POINTS, seed) if initial_design is None else initial_design
        super().__init__(space, seed=seed, initial_design=design, **others)
        self.log_objective, self.reward, self._counts = log_objective, reward, (graphs, hubs)
        self._pulls = DEFAULT_PULLS if evaluations is None else max(evaluations - len(self.initial_design), 1)
        self._codes: dict[int, np.ndarray] = {}  # encoded configurations by trial id

    @classmethod
    def caveat(cls, options: Mapping[str, Any]) -> str:
        """Return that the budget is used."""
        return "uses the size of its budget: it determines how much its bandits explore."

    @cached_property
    def _bandits(self) -> NestedBandits:
        return NestedBandits(len(self.space), *self._counts, self._pulls, self._training_rng(0))

    @cached_property
    def _autoencoder(self) -> GraphAutoencoder:
        """The autoencoder after the warm-up: one training of each encoder on the results so far."""
        rng = self._training_rng(1 + self._asked)
        autoencoder = GraphAutoencoder(self.space, [graph.adjacency for graph in self._bandits.graphs], rng)
        for arm in range(len(autoencoder.encoders)):
            self._train(autoencoder, arm, WARM_UP, rng)
        return autoencoder

    def restore(self, trial: Trial) -> None:
        """Register a trial that was asked before; the first that the model chose builds the model as its ask did."""
        super().restore(trial)
        if trial.memo:
            self._autoencoder  # noqa: B018  # a cached property

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        y, known = self._objectives(), self._known_points()
        if reason := unfittable_reason(y):
            return self._suggest_random(rng, reason)
        arm = self._bandits.draw(rng)
        memo = (arm, self._bandits.graphs[arm].number)
        with one_thread():
            points = as_points(self._autoencoder.encode(arm, torch.from_numpy(known)))
            try:
                posterior = fit(points.select(slice(len(y))), y, rng)
            except FitError as error:
                return self._suggest_random(rng, f"fit failed: {error}", memo, FAILED_FIT)
            if self.pending:
                pending = points.select(slice(len(y), None))
                posterior = posterior.with_observations(pending, posterior.predict(pending)[0])
            for z in maximise(posterior, rng).split(DECODED):
                X = self._autoencoder.decode(z)
                X = X[self.space.feasible(X, strictly=True) & is_new(X, known)]
                if len(X):
                    return Suggestion(self.space.decode(X[0]), MODEL, memo=memo)
        return self._suggest_random(rng, "no sample decodes to a new feasible configuration", memo)

    def _suggest_random(
        self, rng: np.random.Generator, note: str, memo: tuple[float, ...] = (), fallback: str = FALLBACK
    ) -> Suggestion:
        """Suggest a random configuration, a new one if possible."""
        x = sample_new(self.space, self._known_points(), rng)
        return Suggestion(self.space.decode(x), RANDOM, note=note, memo=memo, fallback=fallback)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        """Reward and train the trial's graph, unless it was replaced meanwhile; replace it if it failed too often."""
        arm, number = map(int, trial.memo or (0, -1))
        if self._bandits.graphs[arm].number != number:
            return
        y, rng = self._objectives(), self._training_rng(1 + trial.id)
        if trial.origin == MODEL:
            scaled = (y.max() - y[-1]) / max(float(np.ptp(y)), 1e-300)
            self._bandits.reward(arm, float(y[-1] if self.reward == "published" else scaled))
        with one_thread():
            self._train(self._autoencoder, arm, FOCUS, rng)
        if (trial.origin != MODEL or y[-1] > y.min()) and self._bandits.fail(arm, rng):
            self._autoencoder.encoders[arm] = Encoder.draw(self._bandits.graphs[arm].adjacency, rng)

    def _train(self, autoencoder: GraphAutoencoder, arm: int, k: float, rng: np.random.Generator) -> None:
        """Train an encoder and the decoder on some of the results, drawn by their weights."""
        X, y = self._known_points()[: len(self.history)], standardise(self._objectives())
        w = 1.0 / (k * len(y) + (y < y[:, None]).sum(1))
        w /= w.sum()
        chosen = rng.choice(len(y), size=TRAINED, p=w)
        gaps = np.abs(y[chosen, None] - y)
        near, far = np.where(gaps > 0.0, gaps, np.inf).argmin(1), gaps.argmax(1)
        to_near, to_far = (np.log(np.abs(y[chosen] - y[other]) + TIE_GUARD) for other in (near, far))
        triplets, noise = X[np.stack([chosen, near, far], 1)], rng.standard_normal((TRAINED, WIDTH))
        autoencoder.train(arm, *map(torch.from_numpy, (triplets, to_far - to_near, w[chosen], noise)))

    def _training_rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, number, 0x6E])  # three numbers: distinct from the seeds of all asks

    def _register(self, trial: Trial) -> None:
        super()._register(trial)
        self._codes[trial.id] = self.space.encode(trial.configuration)

    def _known_points(self) -> np.ndarray:
        """Return all finished and pending configurations [m, N], in this order."""
        trials = [*(trial for trial, _ in self.history), *self.pending.values()]
        return np.array([self._codes[trial.id] for trial in trials]).reshape(-1, len(self.space))

    def _objectives(self) -> np.ndarray:
        y = np.array([evaluation.objective for _, evaluation in self.history])
        return np.log(y) if self.log_objective else y


def as_points(z: Tensor) -> Points:
    """Return embeddings [m, d] as points of the latent space."""
    return Points(z, torch.zeros(len(z), 1, dtype=torch.int64))


def fit(points: Points, y: np.ndarray, rng: np.random.Generator) -> Posterior:
    """Fit the process to objectives y [n]. Raises FitError as `Surrogate.fit`."""
    return Surrogate(LatentKernel(), FIT).fit(points, torch.from_numpy(standardise(y)), rng).posterior


def maximise(posterior: Posterior, rng: np.random.Generator) -> Tensor:
    """Return embeddings [m, d] with large acquisition: the best samples, climbed, then all samples, best first."""
    z = posterior.likelihood.points.C
    margin = posterior.parameters["theta"] * (z.std(0, correction=0) + 1e-6)
    region = Region(LATENT, box=Box(z.amin(0) - margin, z.amax(0) + margin))
    surface = Surface(posterior, LowerConfidenceBound(KAPPA))
    samples = region.sample(rng, SAMPLES)
    ordered = best_of(samples, surface.value(samples), SAMPLES)
    climbed, value = surface.climb(ordered.select(slice(STARTS)), region, STEPS, 1e-6)
    return torch.cat([climbed[value.argsort(descending=True, stable=True)], ordered.C])
