"""GEBO (Ahn, Kim, Yun 2022, "Mold into a Graph"): Bayesian optimization in the latent space of graph autoencoders.

A bandit (graph_bandits.py) draws one of five graphs of the variables. Its encoder (graph_autoencoder.py) maps the
results to R^4, where a Gaussian process is fitted and its confidence bound maximised. The decoder, which all graphs
share, maps the points found to configurations. The result rewards the graph, and its encoder and the decoder are
trained on five results, mostly of the best. A graph that often fails to improve is replaced.

| changed | source | here | reason |
|---|---|---|---|
| reward | the objective | from 0 for the worst result to 1 for the best | an error of sign (`reward: published`) |
| gamma of the bandits | not bounded | at most 1 | otherwise probabilities may be negative |
| a single hub | paper: alone; code: with two others | alone | |
| training | size of its batches not known | one result after another | |
| metric of the loss | compared results not known | those of nearest and farthest objective | |
| first suggestion | lengthscale 2, not fitted | fitted, as the later ones | |
| initial points | 40 | 10 random ones | as for all |
| output scale, mean | not known | maximised out; the noise is 0.1 of the scale | shared process |
| pending trials | none | their predicted means | asynchronous workers |
| constraints, known configurations | none, tried again | best sample of a new feasible one | |
| samples | 5,000 | 1,000 | time |

If no sample decodes to a new feasible configuration, a random one is suggested, and the graph has failed. Else the
code is followed where the paper differs: the latent region exceeds the data by the lengthscale times their deviation
(paper: by the deviation), failures need not be successive, the warm-up has five results per encoder (five epochs), and
hubs are rewarded with gamma and arms of their own bandit (those of the graphs). Training and metric were chosen on
seeds 0 to 4 of pressure_vessel, speed_reducer, environmental_model and ackley53c_gebo. Limitation: values of integers
and ordinals are categories, and the decoder soon yields only those of the best results.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
import torch
from annotated_types import Interval
from torch import Tensor

from fmnas.baselines.graph_autoencoder import WIDTH, Encoder, GraphAutoencoder, result_weights
from fmnas.baselines.graph_bandits import NestedBandits
from fmnas.optimizers import Suggestion
from fmnas.optimizers.bayesian import BayesianOptimizer, ModelSettings
from fmnas.optimizers.gp.acquisition import LowerConfidenceBound
from fmnas.optimizers.gp.autograd_kernel import PairKernel
from fmnas.optimizers.gp.bfgs import Box
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.kernel import matern52
from fmnas.optimizers.gp.parameters import Constant, LogUniform, Parameter, Values
from fmnas.optimizers.gp.points import Points, is_new, standardise, unfittable_reason
from fmnas.optimizers.gp.process import FitError, Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchSettings, Surface, best_of
from fmnas.optimizers.isolation import one_thread
from fmnas.optimizers.optimizer import check_budget
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Evaluation, Real, Space, Trial
from fmnas.search_spaces.records import FAILED_FIT, MODEL

DEFAULT_PULLS = 100  # evaluations after the initial design if unknown: the number of the authors' runs
KAPPA, DECODED, TRAINED = 2.0, 32, 5  # of the bound; embeddings decoded at once, results per training
WARM_UP, LATER = 1e3, 1e-2  # k of `result_weights`
LATENT = Space([Real(f"z{d}", 0.0, 1.0) for d in range(WIDTH)])
Count = Annotated[int, Interval(ge=1)]


class LatentKernel(PairKernel):
    """The isotropic Matern-5/2 of embeddings, with fixed noise."""

    noise = Parameter("noise", 1, (0.1, 0.1), Constant(0.1))
    parameters = (Parameter("theta", 1, (1e-4, 3.0), LogUniform(-2.0, 1.1)),)

    def r(self, x2: Tensor, a: Tensor, values: Values) -> Tensor:
        """Return the correlations."""
        return matern52(x2 / values["theta"].square())


class GEBO(BayesianOptimizer):
    """Bayesian optimization in latent spaces, of which a bandit draws one.

    graphs: number of graphs. hubs: draws of hubs for each graph; equal ones count once.
    reward: of a graph; "published": the objective, as in the authors' code, by an error.
    evaluations: total number of evaluations, if known: with more, the bandits explore less.
    The other parameters are those of `BayesianOptimizer`. The memo of a trial is the place and the number of its graph.
    """

    settings = ModelSettings(
        FitSettings(
            starts=5, screening=3, finalists=1, tolerance=1e-2, prior=False, warm=False, smooth=False, plug_in=True
        ),
        SearchSettings(random_points=1000, starts=3, steps=20, gain=1e-5),
    )

    def __init__(
        self,
        space: Space,
        *,
        graphs: Count = 5,
        hubs: Count = 3,
        reward: Literal["scaled", "published"] = "scaled",
        evaluations: int | None = None,
        **others: Any,
    ) -> None:
        check_options(type(self), graphs=graphs, hubs=hubs, reward=reward)
        check_budget(evaluations)
        super().__init__(space, **others)
        self.reward = reward
        pulls = DEFAULT_PULLS if evaluations is None else max(evaluations - len(self.initial_design), 1)
        self._bandits = NestedBandits(len(space), graphs, hubs, pulls, self._training_rng(0))

    @classmethod
    def caveat(cls, options: Mapping[str, Any]) -> str:
        """Return that the budget is used."""
        return "uses the size of its budget: it determines how much its bandits explore."

    def kernel(self, space: Space) -> LatentKernel:
        """Return the kernel of the process, whose points are embeddings."""
        return LatentKernel([])

    @cached_property
    def _autoencoder(self) -> GraphAutoencoder:
        """The autoencoder after the warm-up: each encoder was trained once on the results so far."""
        rng = self._training_rng(1)
        autoencoder = GraphAutoencoder(self.space, [graph.adjacency for graph in self._bandits.graphs], rng)
        for arm in range(len(autoencoder.encoders)):
            self._train(autoencoder, arm, WARM_UP, rng)
        return autoencoder

    def _read_memo(self, memo: tuple[float, ...]) -> None:
        """Build the autoencoder at the first trial that the model chose, as its ask did."""
        with one_thread():
            self._autoencoder  # noqa: B018  # cached

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        y, known = self.objectives(), self._known_points()
        if reason := unfittable_reason(y):
            return self._suggest_random(rng, reason)
        arm = self._bandits.draw(rng)
        memo = (arm, self._bandits.graphs[arm].number)
        with one_thread():
            try:
                posterior = self._fit_embeddings(self._autoencoder.encode(arm, torch.from_numpy(known)), y, rng)
            except FitError as error:
                return self._suggest_random(rng, f"fit failed: {error}", memo=memo, fallback=FAILED_FIT)
            for z in self._maximise_bound(posterior, rng).split(DECODED):
                X = self._autoencoder.decode(z)
                if (good := self.space.feasible(X, strictly=True) & is_new(X, known)).any():
                    return Suggestion(self.space.decode(X[good][0]), MODEL, memo=memo)
        return self._suggest_random(rng, "no sample decodes to a new feasible configuration", memo=memo)

    def _fit_embeddings(self, z: Tensor, y: np.ndarray, rng: np.random.Generator) -> Posterior:
        """Fit the process to y [n] at the first n embeddings; add its predictions at the others, which are pending."""
        points, n = Points(z, torch.zeros(len(z), 1, dtype=torch.int64)), len(y)
        posterior = self.surrogate.fit(points.select(slice(n)), torch.from_numpy(standardise(y)), rng).posterior
        pending = points.select(slice(n, None))
        return posterior.with_observations(pending, posterior.predict(pending)[0]) if len(pending) else posterior

    def _maximise_bound(self, posterior: Posterior, rng: np.random.Generator) -> Tensor:
        """Return embeddings [m, d]: the best samples of the latent region, climbed; then all samples, best first."""
        settings, theta = self.settings.search, posterior.parameters["theta"]
        region = Region(LATENT, box=latent_box(posterior.likelihood.points.C, theta))
        surface, samples = Surface(posterior, LowerConfidenceBound(KAPPA)), region.sample(rng, settings.random_points)
        ordered = best_of(samples, surface.value(samples), len(samples))
        starts = ordered.select(slice(settings.starts))
        climbed, value = surface.climb(starts, region, settings.steps, settings.gain)
        return torch.cat([climbed[value.argsort(descending=True, stable=True)], ordered.C])

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        """Reward and train the graph of a trial, unless it was replaced meanwhile; replace it if it fails too often."""
        arm, number = map(int, trial.memo or (0, -1))
        if self._bandits.graphs[arm].number != number:
            return
        y, rng, is_pull = self.objectives(), self._training_rng(2 + trial.id), trial.origin == MODEL
        if is_pull:
            scaled = (y.max() - y[-1]) / max(float(np.ptp(y)), 1e-300)
            self._bandits.reward(arm, float(y[-1] if self.reward == "published" else scaled))
        with one_thread():
            self._train(self._autoencoder, arm, LATER, rng)
        if (y[-1] > y.min() or not is_pull) and self._bandits.fail(arm, rng):
            self._autoencoder.encoders[arm] = Encoder.draw(self._bandits.graphs[arm].adjacency, rng)

    def _train(self, autoencoder: GraphAutoencoder, arm: int, k: float, rng: np.random.Generator) -> None:
        """Train an encoder and the decoder on results that are drawn by their weights."""
        X, y = self._encode(trial for trial, _ in self.history), standardise(self.objectives())
        w = result_weights(y, k)
        chosen = rng.choice(len(y), size=TRAINED, p=w)
        gaps = np.abs(y[chosen, None] - y)
        near, far = np.where(gaps > 0.0, gaps, np.inf).argmin(1), gaps.argmax(1)
        to_near, to_far = (np.log(np.abs(y[chosen] - y[other]) + 1e-6) for other in (near, far))
        triplets, noise = X[np.stack([chosen, near, far], 1)], rng.standard_normal((TRAINED, WIDTH))
        autoencoder.train(arm, *map(torch.from_numpy, (triplets, to_far - to_near, w[chosen], noise)))

    def _training_rng(self, number: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, number, 0x6E])  # three numbers: distinct from the seeds of all asks


def latent_box(z: Tensor, factor: Tensor | float) -> Box:
    """Return the box around embeddings [m, d], wider by `factor` times their deviation on each side."""
    margin = factor * (z.std(0, correction=0) + 1e-6)
    return Box(z.amin(0) - margin, z.amax(0) + margin)
