"""BO-FM: Bayesian optimization with frequency-modulated kernels (Oh, Gavves, Welling 2021)."""

from dataclasses import dataclass
from typing import Any, Literal

from fmnas.optimizers.bayesian import BayesianOptimizer, ModelSettings
from fmnas.optimizers.gp.fit import PAPER_FIT
from fmnas.optimizers.gp.frequency_modulation import KernelName
from fmnas.optimizers.gp.kernel import Kernel
from fmnas.optimizers.gp.output_warping import WARPINGS, Warping
from fmnas.optimizers.gp.power_kernel import build_kernel
from fmnas.optimizers.gp.search import PAPER_SEARCH
from fmnas.optimizers.optimizer import OptimizerError, check_budget
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space

ModeName = Literal["default", "paper"]


@dataclass(frozen=True)
class Mode(ModelSettings):
    """Settings of BO-FM; fit, search and warpings are those of `ModelSettings`.

    blended: whether modulated kernels have additive terms (frequency_modulation.py).
    """

    warpings: tuple[Warping, ...] = WARPINGS
    blended: bool = True


MODES: dict[ModeName, Mode] = {
    "default": Mode(),
    "paper": Mode(PAPER_FIT, PAPER_SEARCH, warpings=(Warping(),), blended=False),
}
"""paper: maximum likelihood from ten cold starts, 40 starts of the search, the paper's kernel, no output warping."""


class BOFM(BayesianOptimizer):
    """A Gaussian process with a frequency-modulated kernel, expected improvement, and alternating search.

    kernel: "modlap" is the paper's method; docs/bo-fm-measurements.md describes the others.
    mode: one of MODES, or a custom Mode.
    evaluations: not used; accepted because other optimizers need the budget.
    The other parameters are those of `BayesianOptimizer`.

    Example:
        opt = BOFM(space, seed=0)
        trial = opt.ask()
        opt.tell(trial, 0.07)
    """

    uses_budget = False

    def __init__(
        self,
        space: Space,
        *,
        kernel: KernelName = "modlap",
        mode: ModeName | Mode = "default",
        evaluations: int | None = None,
        **others: Any,
    ) -> None:
        check_options(type(self), kernel=kernel, mode=mode)
        check_budget(evaluations)
        super().__init__(space, **others)
        if kernel == "moddif" and not space.discrete:
            raise OptimizerError(
                "kernel = 'moddif': without discrete variables it is constant (Eq. 10); use another kernel"
            )
        self.settings = self.mode = MODES[mode] if isinstance(mode, str) else mode
        self._kernel: KernelName = kernel

    def kernel(self, space: Space) -> Kernel:
        """Return the chosen kernel."""
        return build_kernel(space, self._kernel, blended=self.mode.blended)
