"""BO-FM: Bayesian optimization with frequency-modulated kernels (Oh, Gavves, Welling 2021)."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion, random_design
from fmnas.optimizers.search import Acquisition, SearchSettings, alternate, start_points
from fmnas.optimizers.spectral import SPECTRAL_FUNCTIONS
from fmnas.optimizers.surrogate import Fit, FitError, FitSettings, Likelihood, Points, Posterior, fit
from fmnas.search_spaces import Configuration, Evaluation, Space, Trial
from fmnas.search_spaces.records import MODEL, RANDOM

INITIAL_POINTS = 10


class BOFM(Optimizer):
    """Gaussian process with a frequency-modulated kernel, expected improvement, alternating search.

    kernel: "modlap" (the method) or "moddif" (its ablation).
    log_objective: model log of the objective; it must then be positive.
    initial_design: configurations to begin with; 10 random ones by default.

    Pending trials enter the model with the value it predicts for them, so any number may be asked ahead and no two
    asks give the same configuration.

    Example:
        opt = BOFM(space, seed=0)
        trial = opt.ask()
        opt.tell(trial, 0.07)
    """

    def __init__(
        self,
        space: Space,
        *,
        kernel: str = "modlap",
        seed: int = 0,
        epochs: int = 1,
        initial_design: Sequence[Configuration] | None = None,
        log_objective: bool = False,
        fit: FitSettings | None = None,
        search: SearchSettings | None = None,
    ) -> None:
        if kernel not in SPECTRAL_FUNCTIONS:
            raise OptimizerError(f"kernel = {kernel!r}: it must be one of {sorted(SPECTRAL_FUNCTIONS)}")
        design = random_design(space, INITIAL_POINTS, seed) if initial_design is None else initial_design
        super().__init__(space, seed=seed, epochs=epochs, initial_design=design)
        self.spectral = SPECTRAL_FUNCTIONS[kernel]
        self.log_objective = log_objective
        self.fit_settings = fit or FitSettings()
        self.search_settings = search or SearchSettings()

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        if len(self.history) < 2:
            return Suggestion(self._fresh(rng), RANDOM, note="fewer than two results to model")
        y = self._objectives()
        if np.ptp(y) < 1e-12:
            return Suggestion(self._fresh(rng), RANDOM, note="all results are equal: nothing to model")
        with _one_thread():
            try:
                configuration = self._maximise(standardised(y), rng)
            except FitError as error:
                return Suggestion(self._fresh(rng), RANDOM, note=f"fit failed: {error}")
        if configuration is None:
            return Suggestion(self._fresh(rng), RANDOM, note="every candidate was tried before")
        return Suggestion(configuration, MODEL)

    def tell(self, trial: Trial, evaluation: Evaluation | float) -> None:
        """Take a result; OptimizerError, and the trial stays pending, for one whose logarithm cannot be modelled."""
        objective = evaluation.objective if isinstance(evaluation, Evaluation) else float(evaluation)
        if self.log_objective and objective <= 0:
            raise OptimizerError(
                f"trial {trial.id}: objective {objective} with log_objective; it must be positive "
                "(or set log_objective=False)"
            )
        super().tell(trial, evaluation)

    def _objectives(self) -> np.ndarray:
        y = np.array([evaluation.objective for _, evaluation in self.history])
        return np.log(y) if self.log_objective else y

    def fitted(self, y: np.ndarray, rng: np.random.Generator) -> tuple[Fit, Points]:
        """The process fitted to the history with objectives y [n]."""
        X = self.space.encode_all([trial.configuration for trial, _ in self.history])
        points = Points.of(self.space, X)
        likelihood = Likelihood(self.space, self.spectral, points, torch.from_numpy(y))
        return fit(likelihood, points, self.fit_settings, rng), points

    def _maximise(self, y: np.ndarray, rng: np.random.Generator) -> Configuration | None:
        """The new configuration with the largest EI; None if the search found only ones tried before."""
        fitted, points = self.fitted(y, rng)
        posterior = self._believing_pending(fitted, points, y)
        acquisition = Acquisition(self.space, posterior, best=float(y.min()))
        incumbent = torch.from_numpy(self.space.encode(self.history[int(y.argmin())][0].configuration))
        starts = start_points(self.space, acquisition, incumbent, self.search_settings, rng, self._known())
        found, _ = alternate(acquisition, starts, self.search_settings)
        candidates = Points(torch.cat([found.C, starts.C]), torch.cat([found.V, starts.V]))
        return self._first_new(candidates)

    def _believing_pending(self, fitted: Fit, points: Points, y: np.ndarray) -> Posterior:
        """The posterior with every pending trial added at its predicted mean, under the fitted parameters."""
        if not self.pending:
            return fitted.posterior
        X = self.space.encode_all([trial.configuration for trial in self.pending.values()])
        extra = Points.of(self.space, X)
        believed, _ = fitted.posterior.predict(extra.C, extra.V)
        every = Points(torch.cat([points.C, extra.C]), torch.cat([points.V, extra.V]))
        likelihood = Likelihood(self.space, self.spectral, every, torch.cat([torch.from_numpy(y), believed]))
        return Posterior(likelihood, every, fitted.eta)

    def _known(self) -> np.ndarray:
        tried = [trial.configuration for trial, _ in self.history]
        tried += [trial.configuration for trial in self.pending.values()]
        return self.space.encode_all(tried)

    def _fresh(self, rng: np.random.Generator) -> Configuration:
        known = self._known()
        for _ in range(100):
            x = self.space.sample_encoded(rng, 1)[0]
            if not len(known) or np.abs(known - x).max(axis=1).min() > 1e-9:
                break
        return self.space.decode(x)

    def _first_new(self, candidates: Points) -> Configuration | None:
        known = self._known()
        vertices = candidates.V.numpy() if self.space.discrete else np.empty((len(candidates), 0))
        for x in np.concatenate([candidates.C.numpy(), vertices], axis=1):
            if np.abs(known - x).max(axis=1).min() > 1e-9:
                return self.space.decode(x)
        return None


def standardised(y: np.ndarray) -> np.ndarray:
    """y with mean 0 and standard deviation 1 (ddof 1)."""
    return np.asarray((y - y.mean()) / y.std(ddof=1))


@contextmanager
def _one_thread() -> Iterator[None]:
    """One torch thread: as fast at these sizes, and the same rounding in every process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
