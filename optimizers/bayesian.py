"""Bayesian optimization with a Gaussian process, independent of the kernel and the search.

    class MyMethod(BayesianOptimizer):
        def kernel(self, space):
            return MyKernel(space)

is an optimizer. Subclasses may override `candidates` (the search), `acquisition` (the function that is maximised),
`settings`, and `_observe` (to process results outside the model).
"""

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import torch

from fmnas.optimizers.gp.acquisition import Acquisition, LogEI
from fmnas.optimizers.gp.fit import Fit, FitSettings, Surrogate
from fmnas.optimizers.gp.kernel import Kernel
from fmnas.optimizers.gp.output_warping import Warping, most_likely_warping
from fmnas.optimizers.gp.points import Points, is_new, sample_new, unfittable_reason
from fmnas.optimizers.gp.process import FitError, Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface, alternating_search, start_points
from fmnas.optimizers.isolation import one_thread
from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion, random_design
from fmnas.search_spaces import Configuration, Space, Trial
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

INITIAL_POINTS = 10
LARGEST_GRAPH = 2000  # values of a discrete variable: an ask then takes half a minute and gigabytes
MAX_REFITS = 2  # after a change of the warping
RESTART_FIT_EVERY = 4  # asks; in between, with many results, a fit starts only from the previous optimum


def check_graph_sizes(space: Space) -> None:
    """Raise OptimizerError if a matrix over the values of a discrete variable would be too large."""
    for variable in space.discrete:
        if (count := len(variable.vertices)) > LARGEST_GRAPH:
            raise OptimizerError(
                f"{variable.name} has {count} values: a Gaussian process stores a matrix over the values of a "
                f"discrete variable, at most {LARGEST_GRAPH}; use a Real and round it in the objective function"
            )


@dataclass(frozen=True)
class ModelSettings:
    """Settings of fit and search.

    warpings: the model uses the most likely of them (output_warping.py).
    """

    fit: FitSettings = field(default_factory=FitSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    warpings: tuple[Warping, ...] = (Warping(),)


class BayesianOptimizer(Optimizer):
    """Base class of optimizers whose model is a Gaussian process; subclasses define the kernel.

    log_objective: model the logarithm of the objective, which must then be positive.
    initial_design: configurations to try first; 10 random ones by default.

    Pending and forgotten trials enter the model with their predicted values, and the incumbent is the lowest of all
    values (the kriging believer of Ginsbourger et al. 2010): any number of trials may be pending, and no configuration
    is suggested twice unless the search finds no new one. Each fit also starts from the previous optimum, which a
    trial's memo stores so that a replay repeats every fit. If no model can be fitted, the suggestion is random, and the
    trial's note says why.
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
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design or ())
        check_graph_sizes(space)
        if initial_design is None:
            self.initial_design = tuple(random_design(space, INITIAL_POINTS, seed))
        self.log_objective = log_objective
        self._codes: dict[int, np.ndarray] = {}  # encoded configurations by trial id
        self._last_eta: torch.Tensor | None = None  # optimum of the previous fit
        self._warping: Warping | None = None  # its warping, if not the first

    @abstractmethod
    def kernel(self, space: Space) -> Kernel:
        """Return the kernel of the process."""

    def acquisition(self, y: torch.Tensor) -> Acquisition:
        """Return the acquisition function, given the objectives y [n] of the model, including pending trials."""
        return LogEI(float(y.min()))

    def candidates(self, surface: Surface, state: SearchState) -> Points:
        """Return candidate configurations, best first; the first new one is suggested."""
        region = Region(self.space)
        starts = start_points(surface, region, state)
        improved, _ = alternating_search(surface, region, starts, state.settings)
        return improved.concat(starts)

    @cached_property
    def surrogate(self) -> Surrogate:
        """The surrogate that fits the process."""
        return Surrogate(self.kernel(self.space), self.settings.fit)

    def restore(self, trial: Trial) -> None:
        """Register a trial that was asked before, with the state in its memo."""
        super().restore(trial)
        if trial.memo:
            self._read_memo(trial.memo)

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        y = self.objectives()
        if reason := unfittable_reason(y):
            return self._suggest_random(rng, reason)
        with one_thread():
            try:
                return self._maximise(self._fit(y, rng).posterior, rng)
            except FitError as error:
                return self._suggest_random(rng, f"fit failed: {error}", memo=self._memo(), fallback=FAILED_FIT)

    def _memo(self) -> tuple[float, ...]:
        """Return the optimum and the warping of the last successful fit; empty before the first."""
        if self._last_eta is None:
            return ()
        return (*self._last_eta.tolist(), float(self.settings.warpings.index(self._current_warping())))

    def _read_memo(self, memo: tuple[float, ...]) -> None:
        """Restore what `_memo` returned."""
        *eta, warping = memo
        self._last_eta, self._warping = torch.tensor(eta, dtype=torch.float64), self.settings.warpings[int(warping)]

    def _fit(self, y: np.ndarray, rng: np.random.Generator) -> Fit:
        """Fit the process to the observations with objectives y [n] under the most likely warping."""
        points = Points.from_encoded(self.space, self._encode(trial for trial, _ in self.observations()))
        fitted = self._fit_warped(points, y, rng, restart=self._asked % RESTART_FIT_EVERY == 0)
        warpings = self.settings.warpings
        for _ in range(MAX_REFITS if len(warpings) > 1 else 0):
            warping = most_likely_warping(fitted.posterior, y, warpings)
            if warping == self._current_warping():
                break
            before, self._warping = self._warping, warping
            try:
                fitted = self._fit_warped(points, y, rng, restart=False)
            except FitError:  # the fit under the warping before is as good as ever
                self._warping = before
                break
        return fitted

    def _fit_warped(self, points: Points, y: np.ndarray, rng: np.random.Generator, restart: bool) -> Fit:
        warped = torch.from_numpy(self._current_warping().apply(y))
        fitted = self.surrogate.fit(points, warped, rng, self._last_eta, restart)
        self._last_eta = fitted.posterior.eta
        return fitted

    def _current_warping(self) -> Warping:
        return self._warping or self.settings.warpings[0]

    def _maximise(self, posterior: Posterior, rng: np.random.Generator) -> Suggestion:
        """Suggest the new configuration with the largest acquisition; a random one if the search found none."""
        known, best = self._known_points(), self.observations()[int(posterior.likelihood.y.argmin())][0]
        posterior = self._with_fantasies(posterior)
        surface = Surface(posterior, self.acquisition(posterior.likelihood.y))
        state = SearchState(self._codes[best.id], known, self.settings.search, rng)
        candidates = self.candidates(surface, state).to_encoded(self.space)
        for x in candidates:  # one by one: usually the first is new
            if is_new(x[None], known).all():
                return Suggestion(self.space.decode(x), MODEL, memo=self._memo())
        reason = "every candidate was tried before" if len(candidates) else "no candidate was feasible"
        return self._suggest_random(rng, reason, memo=self._memo())

    def _with_fantasies(self, posterior: Posterior) -> Posterior:
        """Add every trial without a result at its predicted mean, under the fitted parameters."""
        if not (trials := self.trials_without_result()):
            return posterior
        points = Points.from_encoded(self.space, self._encode(trials))
        believed, _ = posterior.predict(points)
        return posterior.with_observations(points, believed)

    def _register(self, trial: Trial) -> None:
        super()._register(trial)
        self._codes[trial.id] = self.space.encode(trial.configuration)

    def _encode(self, trials: Iterable[Trial]) -> np.ndarray:
        """Return X [m, D + P] of asked trials; each was encoded once."""
        return np.array([self._codes[trial.id] for trial in trials]).reshape(-1, len(self.space))

    def _known_points(self) -> np.ndarray:
        """Return the configurations [m, D + P] of all trials, those with a result first."""
        return self._encode(self.known_trials())

    def _suggest_random(
        self, rng: np.random.Generator, note: str, *, memo: tuple[float, ...] = (), fallback: str = FALLBACK
    ) -> Suggestion:
        """Suggest a random configuration, a new one if possible."""
        x = sample_new(self.space, self._known_points(), rng)
        return Suggestion(self.space.decode(x), RANDOM, note=note, memo=memo, fallback=fallback)
