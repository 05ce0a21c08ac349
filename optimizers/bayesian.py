"""Bayesian optimization with a Gaussian process: all that does not depend on the kernel or on the way of searching.

    class MyMethod(BayesianOptimizer):
        def kernel(self, space):
            return MyKernel(space)

is an optimizer. `candidates` may search otherwise than by expected improvement over the whole space, `acquisition` say
what is maximised, and `settings` how hard; what a result teaches a method apart from its model is for `_observe`.
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from fmnas.optimizers.gp.acquisition import Acquisition, LogEI
from fmnas.optimizers.gp.fit import Fit, FitError, FitSettings, Surrogate
from fmnas.optimizers.gp.kernel import Kernel
from fmnas.optimizers.gp.output_warping import Warping, likeliest
from fmnas.optimizers.gp.points import Points, new_among, nothing_to_model
from fmnas.optimizers.gp.process import Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface, alternate, start_points
from fmnas.optimizers.isolation import one_thread
from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion, random_design
from fmnas.search_spaces import Configuration, Evaluation, Space, Trial
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

INITIAL_POINTS = 10
LARGEST_GRAPH = 2000  # values of a discrete variable: with so many an ask takes half a minute and gigabytes
REFITS = 2  # at most, when another warping turns out to be likelier
AFRESH_EVERY = 4  # asks; in between, where there are many results, a fit goes on from where the last one ended


@dataclass(frozen=True)
class ModelSettings:
    """How hard a model is fitted and searched.

    warpings: the model sees the objective under the likeliest of them (output_warping.py).
    """

    fit: FitSettings = field(default_factory=FitSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    warpings: tuple[Warping, ...] = (Warping(),)


class BayesianOptimizer(Optimizer):
    """Base of optimizers whose model is a Gaussian process; a method says which kernel it has.

    log_objective: model log of the objective; it must then be positive.
    initial_design: configurations to begin with; 10 random ones by default.

    Pending trials enter the model with the value it predicts for them, and the incumbent is the lowest of all (the
    kriging believer of Ginsbourger et al. 2010): any number may be asked ahead, and no two asks give the same
    configuration. Each fit starts from where the last one ended, too; a trial's memo keeps that place, so that a replay
    repeats every fit. Where no model can be had the suggestion is random, and the trial says so.
    """

    settings: ModelSettings = ModelSettings()

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        epochs: int = 1,
        initial_design: Sequence[Configuration] | None = None,
        log_objective: bool = False,
    ) -> None:
        _check_sizes(space)
        design = random_design(space, INITIAL_POINTS, seed) if initial_design is None else initial_design
        super().__init__(space, seed=seed, epochs=epochs, initial_design=design)
        self.log_objective = log_objective
        self._codes: dict[int, np.ndarray] = {}  # trial -> its configuration, encoded
        self._warm: torch.Tensor | None = None  # eta where the last fit ended
        self._warping: Warping | None = None  # and under which warping, if not the first

    @abstractmethod
    def kernel(self, space: Space) -> Kernel:
        """The kernel of the process."""

    def acquisition(self, y: torch.Tensor) -> Acquisition:
        """What is maximised, given the objectives y [n] that the model sees; those of pending trials are among them."""
        return LogEI(float(y.min()))

    def candidates(self, surface: Surface, state: SearchState) -> Points:
        """Configurations worth trying, the best first; the first that is new is taken."""
        region = Region(self.space)
        starts = start_points(surface, region, state)
        found, _ = alternate(surface, region, starts, state.settings)
        return found.and_then(starts)

    def observations(self) -> list[tuple[Trial, Evaluation]]:
        """The results that the model is given, in the order told: all of them."""
        return self.history

    def fits_afresh(self) -> bool:
        """Whether this ask's fit tries random starts even where there are many results."""
        return self._asked % AFRESH_EVERY == 0

    @cached_property
    def surrogate(self) -> Surrogate:
        """What fits the process."""
        return Surrogate(self.kernel(self.space), self.settings.fit)

    def restore(self, trial: Trial) -> None:
        """Note that this trial was asked before; its memo says where that fit ended."""
        super().restore(trial)
        if trial.memo:
            *eta, warping = trial.memo
            self._warm, self._warping = torch.tensor(eta, dtype=torch.float64), self.settings.warpings[int(warping)]

    def objectives(self) -> np.ndarray:
        """Those of the observations [n], as they are modelled but for the warping."""
        y = np.array([evaluation.objective for _, evaluation in self.observations()])
        return np.log(y) if self.log_objective else y

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        y = self.objectives()
        if why := nothing_to_model(y):
            return self._by_chance(rng, why)
        with one_thread():
            try:
                fitted = self._fit(y, rng)
            except FitError as error:
                return self._by_chance(rng, f"fit failed: {error}", memo=self._memo(), fallback=FAILED_FIT)
            return self._maximise(fitted.posterior, rng)

    def _memo(self) -> tuple[float, ...]:
        """Where the last fit ended and under which warping, also where the one after it failed; empty before any."""
        if self._warm is None:
            return ()
        return (*self._warm.tolist(), float(self.settings.warpings.index(self._current_warping())))

    def _fit(self, y: np.ndarray, rng: np.random.Generator) -> Fit:
        """The process fitted to the observations with objectives y [n], under the likeliest warping."""
        points = Points.of(self.space, self._encoded(trial for trial, _ in self.observations()))
        fitted = self._fit_warped(points, y, rng, afresh=self.fits_afresh())
        warpings = self.settings.warpings
        for _ in range(REFITS if len(warpings) > 1 else 0):
            warping = likeliest(fitted.posterior, y, warpings)
            if warping == self._current_warping():
                break
            self._warping = warping
            fitted = self._fit_warped(points, y, rng, afresh=False)
        return fitted

    def _fit_warped(self, points: Points, y: np.ndarray, rng: np.random.Generator, afresh: bool) -> Fit:
        warped = torch.from_numpy(self._current_warping().of(y))
        fitted = self.surrogate.fit(points, warped, rng, self._warm, afresh)
        self._warm = fitted.posterior.eta
        return fitted

    def _current_warping(self) -> Warping:
        return self._warping or self.settings.warpings[0]

    def _maximise(self, posterior: Posterior, rng: np.random.Generator) -> Suggestion:
        """The new configuration with the largest acquisition; a random one where the search found none."""
        known, best = self._known(), self.observations()[int(posterior.likelihood.y.argmin())][0]
        posterior = self._with_fantasies(posterior)
        surface = Surface(posterior, self.acquisition(posterior.likelihood.y))
        state = SearchState(self._codes[best.id], known, self.settings.search, rng)
        candidates = self.candidates(surface, state).encoded(self.space)
        for x in candidates:  # one by one: the first is mostly enough
            if new_among(x[None], known).all():
                return Suggestion(self.space.decode(x), MODEL, memo=self._memo())
        why = "every candidate was tried before" if len(candidates) else "no candidate was feasible"
        return self._by_chance(rng, why, memo=self._memo())

    def _with_fantasies(self, posterior: Posterior) -> Posterior:
        """The posterior with every pending trial added at its predicted mean, under the fitted parameters."""
        if not self.pending:
            return posterior
        pending = Points.of(self.space, self._encoded(self.pending.values()))
        believed, _ = posterior.predict(pending)
        return posterior.with_observations(pending, believed)

    def _register(self, trial: Trial) -> None:
        super()._register(trial)
        self._codes[trial.id] = self.space.encode(trial.configuration)

    def _encoded(self, trials: Iterable[Trial]) -> np.ndarray:
        """X [m, D + P] of trials asked before; each was encoded once."""
        return np.array([self._codes[trial.id] for trial in trials]).reshape(-1, len(self.space))

    def _known(self) -> np.ndarray:
        """All that was tried, and is being tried: the history comes first."""
        return self._encoded([*(trial for trial, _ in self.history), *self.pending.values()])

    def _by_chance(
        self, rng: np.random.Generator, note: str, *, memo: tuple[float, ...] = (), fallback: str = FALLBACK
    ) -> Suggestion:
        """A random configuration, new if that can be had."""
        known = self._known()
        for _ in range(100):
            x = self.space.sample_encoded(rng, 1)[0]
            if new_among(x[None], known).all():
                break
        return Suggestion(self.space.decode(x), RANDOM, note=note, memo=memo, fallback=fallback)


def _check_sizes(space: Space) -> None:
    """Raise OptimizerError for a variable with too many values for a process: before anything is evaluated."""
    for variable in space.discrete:
        if (count := len(variable.vertices)) > LARGEST_GRAPH:
            raise OptimizerError(
                f"{variable.name} has {count} values: a Gaussian process of a discrete variable holds numbers for all "
                f"pairs of its values, and takes at most {LARGEST_GRAPH}; make it a Real, and round it in your function"
            )
