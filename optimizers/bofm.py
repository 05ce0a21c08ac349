"""BO-FM: Bayesian optimization with frequency-modulated kernels (Oh, Gavves, Welling 2021)."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
import torch

from fmnas.optimizers.close_up import NOISELESS, closer
from fmnas.optimizers.coverage import Part, covering, fifths, rarest, values
from fmnas.optimizers.exploration import LOST, Turn, doubt, doubted, ending, refined, stalled, turn_of, unlearned
from fmnas.optimizers.optimizer import Optimizer, OptimizerError, Suggestion, random_design
from fmnas.optimizers.points import Points
from fmnas.optimizers.posterior import Posterior
from fmnas.optimizers.scale import SCALES, Scale, likeliest
from fmnas.optimizers.search import (
    PAPER_SEARCH,
    Acquisition,
    SearchSettings,
    Situation,
    alternate,
    new_among,
    start_points,
)
from fmnas.optimizers.structures import BLENDED_KERNELS, FAST_KERNELS
from fmnas.optimizers.surrogate import PAPER_FIT, Fit, FitError, FitSettings, Surrogate
from fmnas.search_spaces import Configuration, Evaluation, Space, Trial
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

INITIAL_POINTS = 10
TOLD_THE_BUDGET = (
    "knows the size of its budget and makes use of it: the last tenth of its suggestions after the initial design, ten "
    "at most, explore no more. The others make no use of it."
)
REFITS = 2  # at most, when another scale turns out to be likelier


@dataclass(frozen=True)
class Mode:
    """How a suggestion is made.

    fit, search: how hard. scales: the model sees the objective on the likeliest of them (scale.py).
    blended: ModLap and ModDif have additive terms, too (structures.py).
    turns: what the asks do, in turn (exploration.py); largest_doubt: the most by which exploring asks multiply the
    model's standard deviations.
    """

    fit: FitSettings = field(default_factory=FitSettings)
    search: SearchSettings = field(default_factory=SearchSettings)
    scales: tuple[Scale, ...] = SCALES
    blended: bool = True
    turns: tuple[Turn, ...] = ("expect", "explore", "refine", "rethink")
    largest_doubt: float = 8.0


MODES = {
    "default": Mode(),
    "paper": Mode(PAPER_FIT, PAPER_SEARCH, scales=(Scale(),), blended=False, turns=("expect",)),
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
        kernel: Literal["modlap", "moddif", "prodlap", "proddif", "addlap", "adddif"] = "modlap",
        seed: int = 0,
        epochs: int = 1,
        initial_design: Sequence[Configuration] | None = None,
        log_objective: bool = False,
        mode: Literal["default", "paper"] | Mode = "default",
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
        self._scale = self.mode.scales[0]  # and on which scale

    @classmethod
    def caveat(cls, options: Mapping[str, Any]) -> str:
        """That it is told its budget, which its default mode makes use of."""
        return TOLD_THE_BUDGET if options["mode"] == "default" else ""

    def restore(self, trial: Trial) -> None:
        """Note that this trial was asked before; its memo says where that fit ended."""
        super().restore(trial)
        if trial.memo:
            *eta, scale = trial.memo
            self._warm, self._scale = torch.tensor(eta, dtype=torch.float64), self.mode.scales[int(scale)]

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
        memo = (*fitted.eta.tolist(), float(self.mode.scales.index(self._scale)))
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
        """The process fitted to the history with objectives y [n], on the likeliest scale."""
        points = Points.of(self.space, self._encoded([trial for trial, _ in self.history]))
        fitted = self._fit_on_scale(points, y, rng, afresh=self._asked % len(self.mode.turns) == 0)
        for _ in range(REFITS if len(self.mode.scales) > 1 else 0):
            scale = likeliest(fitted.posterior, y, self.mode.scales)
            if scale == self._scale:
                break
            self._scale = scale
            fitted = self._fit_on_scale(points, y, rng, afresh=False)
        return fitted, points

    def _fit_on_scale(self, points: Points, y: np.ndarray, rng: np.random.Generator, afresh: bool) -> Fit:
        fitted = self.surrogate.fit(points, torch.from_numpy(self._scale.of(y)), rng, self._warm, afresh)
        self._warm = fitted.eta
        return fitted

    def _maximise(self, fitted: Fit, points: Points, rng: np.random.Generator) -> Configuration | None:
        """The new configuration with the largest EI; None if the search found only ones tried before."""
        y = fitted.y
        acquisition = Acquisition(self.space, self._believing_pending(fitted, points), best=float(y.min()))
        known = self._known()
        situation = Situation(known[int(y.argmin())], known, self.mode.search, rng)
        candidates = self._candidates(acquisition, y.numpy(), situation).encoded(self.space)
        new = (x for x in candidates if new_among(x[None], known).all())  # one by one: the first is mostly enough
        return next((self.space.decode(x) for x in new), None)

    def _candidates(self, acquisition: Acquisition, y: np.ndarray, situation: Situation) -> Points:
        """Configurations worth trying, the best first: by the turn of this ask (exploration.py)."""
        turn = self._turn(noisy=acquisition.posterior.parameters.g >= NOISELESS)
        if turn == "refine":
            found = self._refined(acquisition, situation)
            if len(found):
                return found
        if turn in ("explore", "rethink"):
            posterior = unlearned(acquisition.posterior) if turn == "rethink" else acquisition.posterior
            believed = Acquisition(self.space, posterior, acquisition.best)
            found = covering(acquisition, situation)
            found = found if len(found) else rarest(self._parts(turn, y), believed, situation)
            if len(found):
                return found
            unsure = doubted(posterior, doubt(stalled(y, len(self.initial_design)), self.mode.largest_doubt))
            acquisition = Acquisition(self.space, unsure, acquisition.best)
        starts = start_points(acquisition, situation)
        found, _ = alternate(acquisition, starts, situation.settings)
        return found.and_then(starts)

    def _turn(self, noisy: bool) -> Turn:
        """What this ask does; one of the last has no turn."""
        turns, initial, committed = self.mode.turns, len(self.initial_design), len(self.history) + len(self.pending)
        if "refine" in turns and ending(committed, initial, self.evaluations):
            return "expect" if noisy else "refine"
        return turn_of(turns, self._asked, self._objectives(), initial)

    def _parts(self, turn: Turn, y: np.ndarray) -> list[Part]:
        """Of these an exploring ask takes the rarest: nominal values; after a long stall, parts of other variables."""
        lost = turn == "rethink" and stalled(y, len(self.initial_design)) >= LOST
        return values(self.space) + (fifths(self.space) if lost else [])

    def _refined(self, acquisition: Acquisition, situation: Situation) -> Points:
        """Points on the incumbent's vertices, the best first; the closer look's where it sees anything."""
        if acquisition.posterior.parameters.g < NOISELESS:
            found = closer(self.space, self._objectives(), self.mode.fit, situation)
            if len(found):
                return found
        return refined(acquisition, situation)

    def _believing_pending(self, fitted: Fit, points: Points) -> Posterior:
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
