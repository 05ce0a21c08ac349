"""BO-FM: Bayesian optimization with frequency-modulated kernels (Oh, Gavves, Welling 2021)."""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

import numpy as np
import torch

from fmnas.optimizers.bofm.local_model import NOISELESS, local_candidates
from fmnas.optimizers.bofm.rare_values import Part, fifths, rarest_value, untried_values, values
from fmnas.optimizers.bofm.turns import (
    LOST,
    Turn,
    at_prior_medians,
    doubt,
    is_exploitation_phase,
    refined,
    stalled,
    turn_of,
    with_inflated_variance,
)
from fmnas.optimizers.gp.fit import PAPER_FIT, Fit, FitError, FitSettings, Surrogate
from fmnas.optimizers.gp.frequency_modulation import BLENDED_KERNELS, FAST_KERNELS, KernelName
from fmnas.optimizers.gp.output_warping import WARPINGS, Warping, likeliest
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.posterior import Posterior
from fmnas.optimizers.gp.search import (
    PAPER_SEARCH,
    Acquisition,
    SearchSettings,
    SearchState,
    alternate,
    new_among,
    start_points,
)
from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion, random_design
from fmnas.search_spaces import Configuration, Evaluation, Space, Trial
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

INITIAL_POINTS = 10
ModeName = Literal["default", "paper"]
REFITS = 2  # at most, when another warping turns out to be likelier


@dataclass(frozen=True)
class Mode:
    """How a suggestion is made.

    fit, search: how hard. warpings: the model sees the objective on the likeliest of them (output_warping.py).
    blended: ModLap and ModDif have additive terms, too (frequency_modulation.py).
    turns: what the asks do, in turn (turns.py); largest_doubt: the most by which exploring asks multiply the
    model's standard deviations.
    """

    fit: FitSettings = field(default_factory=FitSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    warpings: tuple[Warping, ...] = WARPINGS
    blended: bool = True
    turns: tuple[Turn, ...] = ("expect", "explore", "refine", "rethink")
    largest_doubt: float = 8.0


MODES: dict[ModeName, Mode] = {
    "default": Mode(),
    "paper": Mode(PAPER_FIT, PAPER_SEARCH, warpings=(Warping(),), blended=False, turns=("expect",)),
}
"""paper: maximum likelihood from ten cold starts, 40 starts of the search, the objective and the kernel as they are."""


class BOFM(Optimizer):
    """Gaussian process with a frequency-modulated kernel, expected improvement, alternating search.

    kernel: one of FAST_KERNELS; "modlap" is the method.
    log_objective: model log of the objective; it must then be positive.
    initial_design: configurations to begin with; 10 random ones by default.
    mode: one of MODES, or a Mode of one's own.
    evaluations: how many there will be in all, if that is known: where asks take turns, the last explore no more.

    Pending trials enter the model with the value it predicts for them, so any number may be asked ahead and no two
    asks give the same configuration. Each fit starts from where the last one ended, too, and with many results only
    the first of each round of turns from elsewhere; a trial's memo remembers that place, so that a replay goes on as
    if nothing had happened.

    Example:
        opt = BOFM(space, seed=0)
        trial = opt.ask()
        opt.tell(trial, 0.07)
    """

    def __init__(
        self,
        space: Space,
        *,
        kernel: KernelName = "modlap",
        seed: int = 0,
        epochs: int = 1,
        initial_design: Sequence[Configuration] | None = None,
        log_objective: bool = False,
        mode: ModeName | Mode = "default",
        evaluations: int | None = None,
    ) -> None:
        if kernel not in FAST_KERNELS:
            raise OptimizerError(f"kernel = {kernel!r}: it must be one of {sorted(FAST_KERNELS)}")
        if isinstance(mode, str) and mode not in MODES:
            raise OptimizerError(f"mode = {mode!r}: it must be one of {sorted(MODES)}, or a Mode")
        if evaluations is not None and evaluations < 1:
            raise OptimizerError(f"evaluations = {evaluations}: it must be at least 1, or None where it is not known")
        design = random_design(space, INITIAL_POINTS, seed) if initial_design is None else initial_design
        super().__init__(space, seed=seed, epochs=epochs, initial_design=design)
        self.log_objective = log_objective
        self.evaluations = evaluations
        self.mode = MODES[mode] if isinstance(mode, str) else mode
        kernels = FAST_KERNELS | BLENDED_KERNELS if self.mode.blended else FAST_KERNELS
        self.surrogate = Surrogate(space, kernels[kernel], self.mode.fit)
        self._codes: dict[int, np.ndarray] = {}  # trial -> its configuration, encoded
        self._warm: torch.Tensor | None = None  # eta where the last fit ended
        self._warping = self.mode.warpings[0]  # and under which warping

    def restore(self, trial: Trial) -> None:
        """Note that this trial was asked before; its memo says where that fit ended."""
        super().restore(trial)
        if trial.memo:
            *eta, warping = trial.memo
            self._warm, self._warping = torch.tensor(eta, dtype=torch.float64), self.mode.warpings[int(warping)]

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        if len(self.history) < 2:
            return Suggestion(self._fresh(rng), RANDOM, note="fewer than two results to model", fallback=FALLBACK)
        y = self._objectives()
        if np.ptp(y) < 1e-12:
            return Suggestion(
                self._fresh(rng), RANDOM, note="all results are equal: nothing to model", fallback=FALLBACK
            )
        with _one_thread():
            try:
                fitted, points = self._fit(y, rng)
            except FitError as error:
                return Suggestion(self._fresh(rng), RANDOM, note=f"fit failed: {error}", fallback=FAILED_FIT)
            configuration = self._maximise(fitted, points, rng)
        memo = (*fitted.eta.tolist(), float(self.mode.warpings.index(self._warping)))
        if configuration is None:
            note = "every candidate was tried before"
            return Suggestion(self._fresh(rng), RANDOM, note=note, memo=memo, fallback=FALLBACK)
        return Suggestion(configuration, MODEL, memo=memo)

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

    def _fit(self, y: np.ndarray, rng: np.random.Generator) -> tuple[Fit, Points]:
        """The process fitted to the history with objectives y [n], on the likeliest warping."""
        points = Points.of(self.space, self._encoded([trial for trial, _ in self.history]))
        fitted = self._fit_warped(points, y, rng, afresh=self._asked % len(self.mode.turns) == 0)
        for _ in range(REFITS if len(self.mode.warpings) > 1 else 0):
            warping = likeliest(fitted.posterior, y, self.mode.warpings)
            if warping == self._warping:
                break
            self._warping = warping
            fitted = self._fit_warped(points, y, rng, afresh=False)
        return fitted, points

    def _fit_warped(self, points: Points, y: np.ndarray, rng: np.random.Generator, afresh: bool) -> Fit:
        fitted = self.surrogate.fit(points, torch.from_numpy(self._warping.of(y)), rng, self._warm, afresh)
        self._warm = fitted.eta
        return fitted

    def _maximise(self, fitted: Fit, points: Points, rng: np.random.Generator) -> Configuration | None:
        """The new configuration with the largest EI; None if the search found only ones tried before."""
        y = fitted.y
        acquisition = Acquisition(self.space, self._with_fantasies(fitted, points), best=float(y.min()))
        known = self._known()
        state = SearchState(known[int(y.argmin())], known, self.mode.search, rng)
        candidates = self._candidates(acquisition, y.numpy(), state).encoded(self.space)
        new = (x for x in candidates if new_among(x[None], known).all())  # one by one: the first is mostly enough
        return next((self.space.decode(x) for x in new), None)

    def _candidates(self, acquisition: Acquisition, y: np.ndarray, state: SearchState) -> Points:
        """Configurations worth trying, the best first: by the turn of this ask (turns.py)."""
        turn = self._turn(noisy=acquisition.posterior.parameters.g >= NOISELESS)
        if turn == "refine":
            found = self._refined(acquisition, state)
            if len(found):
                return found
        if turn in ("explore", "rethink"):
            posterior = at_prior_medians(acquisition.posterior) if turn == "rethink" else acquisition.posterior
            believed = Acquisition(self.space, posterior, acquisition.best)
            found = untried_values(acquisition, state)
            found = found if len(found) else rarest_value(self._parts(turn, y), believed, state)
            if len(found):
                return found
            unsure = with_inflated_variance(
                posterior, doubt(stalled(y, len(self.initial_design)), self.mode.largest_doubt)
            )
            acquisition = Acquisition(self.space, unsure, acquisition.best)
        starts = start_points(acquisition, state)
        found, _ = alternate(acquisition, starts, state.settings)
        return found.and_then(starts)

    def _turn(self, noisy: bool) -> Turn:
        """What this ask does; one of the last has no turn."""
        turns, initial, committed = self.mode.turns, len(self.initial_design), len(self.history) + len(self.pending)
        if "refine" in turns and is_exploitation_phase(committed, initial, self.evaluations):
            return "expect" if noisy else "refine"
        return turn_of(turns, self._asked, self._objectives(), initial)

    def _parts(self, turn: Turn, y: np.ndarray) -> list[Part]:
        """Of these an exploring ask takes the rarest: nominal values; after a long stall, parts of other variables."""
        lost = turn == "rethink" and stalled(y, len(self.initial_design)) >= LOST
        return values(self.space) + (fifths(self.space) if lost else [])

    def _refined(self, acquisition: Acquisition, state: SearchState) -> Points:
        """Points on the incumbent's vertices, the best first; the closer look's where it sees anything."""
        if acquisition.posterior.parameters.g < NOISELESS:
            found = local_candidates(self.space, self._objectives(), self.mode.fit, state)
            if len(found):
                return found
        return refined(acquisition, state)

    def _with_fantasies(self, fitted: Fit, points: Points) -> Posterior:
        """The posterior with every pending trial added at its predicted mean, under the fitted parameters."""
        if not self.pending:
            return fitted.posterior
        extra = Points.of(self.space, self._encoded(self.pending.values()))
        believed, _ = fitted.posterior.predict(extra.C, extra.V)
        every = points.and_then(extra)
        return Posterior(self.surrogate.likelihood(every, torch.cat([fitted.y, believed])), every, fitted.eta)

    def _register(self, trial: Trial) -> None:
        super()._register(trial)
        self._codes[trial.id] = self.space.encode(trial.configuration)

    def _encoded(self, trials: Iterable[Trial]) -> np.ndarray:
        """X [m, D + P] of trials asked before; each was encoded once."""
        return np.array([self._codes[trial.id] for trial in trials]).reshape(-1, len(self.space))

    def _known(self) -> np.ndarray:
        """All that was tried, and is being tried: the history comes first."""
        return self._encoded([*(trial for trial, _ in self.history), *self.pending.values()])

    def _fresh(self, rng: np.random.Generator) -> Configuration:
        known = self._known()
        for _ in range(100):
            x = self.space.sample_encoded(rng, 1)[0]
            if new_among(x[None], known).all():
                break
        return self.space.decode(x)


@contextmanager
def _one_thread() -> Iterator[None]:
    """One torch thread: as fast at these sizes, and the same rounding in every process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
