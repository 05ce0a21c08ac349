"""BO-FM: Bayesian optimization with frequency-modulated kernels (Oh, Gavves, Welling 2021)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fmnas.optimizers.bayesian import BayesianOptimizer, ModelSettings
from fmnas.optimizers.bofm.local_model import NOISELESS, local_candidates
from fmnas.optimizers.bofm.turns import (
    Turn,
    doubted,
    is_exploitation_phase,
    rarest_value,
    refined,
    turn_of,
    untried_values,
)
from fmnas.optimizers.gp.fit import PAPER_FIT
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.frequency_modulation import BLENDED_KERNELS, FAST_KERNELS, KernelName
from fmnas.optimizers.gp.output_warping import WARPINGS, Warping
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.search import PAPER_SEARCH, SearchState, Surface
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Configuration, Space

ModeName = Literal["default", "paper"]
TOLD_THE_BUDGET = (
    "knows the size of its budget and makes use of it: the last tenth of its suggestions after the initial design, ten "
    "at most, explore no more. An optimizer of which nothing is said makes no use of it."
)


@dataclass(frozen=True)
class Mode(ModelSettings):
    """How a suggestion is made; fit, search and warpings are as in `ModelSettings`.

    blended: ModLap and ModDif have additive terms, too (frequency_modulation.py).
    turns: what the asks do, in turn (turns.py); largest_doubt: the most by which exploring asks multiply the model's
    standard deviations.
    """

    warpings: tuple[Warping, ...] = WARPINGS
    blended: bool = True
    turns: tuple[Turn, ...] = ("expect", "expect", "explore", "refine")
    largest_doubt: float = 8.0


MODES: dict[ModeName, Mode] = {
    "default": Mode(),
    "paper": Mode(PAPER_FIT, PAPER_SEARCH, warpings=(Warping(),), blended=False, turns=("expect",)),
}
"""paper: maximum likelihood from ten cold starts, 40 starts of the search, the objective and the kernel as they are."""


class BOFM(BayesianOptimizer):
    """Gaussian process with a frequency-modulated kernel, expected improvement, alternating search.

    kernel: one of FAST_KERNELS; "modlap" is the method.
    mode: one of MODES, or a Mode of one's own.
    evaluations: how many there will be in all, if that is known: where asks take turns, the last explore no more.

    With many results only the first fit of each round of turns tries random starts. The rest is as in
    `BayesianOptimizer`.

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
        check_options(type(self), kernel=kernel, mode=mode)
        super().__init__(
            space,
            seed=seed,
            epochs=epochs,
            initial_design=initial_design,
            log_objective=log_objective,
            evaluations=evaluations,
        )
        self.settings = self.mode = MODES[mode] if isinstance(mode, str) else mode
        self._form = (FAST_KERNELS | BLENDED_KERNELS if self.mode.blended else FAST_KERNELS)[kernel]

    @classmethod
    def caveat(cls, options: Mapping[str, Any]) -> str:
        """That it is told its budget, which its default mode makes use of."""
        return TOLD_THE_BUDGET if options["mode"] == "default" else ""

    def kernel(self, space: Space) -> FMKernel:
        """The fast path of the chosen kernel."""
        return FMKernel(space, self._form)

    def fits_afresh(self) -> bool:
        """With the first ask of each round of turns."""
        return self._asked % len(self.mode.turns) == 0

    def candidates(self, surface: Surface, state: SearchState) -> Points:
        """Configurations worth trying, the best first: by the turn of this ask (turns.py)."""
        noisy = surface.posterior.g >= NOISELESS
        turn = self._turn(noisy)
        if turn == "refine":
            found = self._refined(surface, state, noisy)
            if len(found):
                return found
        if turn == "explore":
            for values in (untried_values, rarest_value):
                found = values(self.space, surface, state)
                if len(found):
                    return found
            surface = doubted(surface, len(self.history), len(self.initial_design), self.mode.largest_doubt)
        return super().candidates(surface, state)

    def _turn(self, noisy: bool) -> Turn:
        """What this ask does; one of the last has no turn."""
        turns, initial, committed = self.mode.turns, len(self.initial_design), len(self.history) + len(self.pending)
        if "refine" in turns and is_exploitation_phase(committed, initial, self.evaluations):
            return "expect" if noisy else "refine"
        return turn_of(turns, self._asked, self.objectives(), initial)

    def _refined(self, surface: Surface, state: SearchState, noisy: bool) -> Points:
        """Points on the incumbent's vertices, the best first; the local model's where it sees anything."""
        if not noisy:
            found = local_candidates(self.space, self.objectives(), self.mode.fit, state)
            if len(found):
                return found
        return refined(self.space, surface, state)
