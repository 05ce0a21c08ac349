"""Rungs and brackets of successive halving over epochs (Hyperband, Li et al. 2018), spaced as in hpbandster.

A bracket's first rung trains its configurations with a small budget; each rung promotes its best to the next one, which
trains eta times as long. Hyperband plays brackets in a cycle, from many short trainings to a few full ones.
"""

import math
from collections.abc import Mapping
from typing import Annotated, Any

from annotated_types import Interval

from fmnas.optimizers import Optimizer
from fmnas.optimizers.optimizer import SearchPlan
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space
from fmnas.search_spaces.records import RANDOM

ETA, MIN_EPOCHS = 3, 1
ROUNDING_MARGIN = 0.5 - 1e-6
"""Budgets range from min_epochs - 0.5 + 1e-6 to epochs + 0.5 - 1e-6 (BO-FM paper), so that rounded rungs are evenly
spaced."""

Eta = Annotated[int, Interval(ge=2, le=1_000_000)]
"""One of eta trials of a rung is promoted to the next one, which trains eta times as long."""
MinEpochs = Annotated[int, Interval(ge=1, le=1_000_000)]
"""Epochs of the shortest trainings, at least."""

Bracket = tuple[tuple[int, ...], tuple[float, ...]]
"""Trials and budgets of its rungs."""


def rungs(epochs: int, eta: Eta = ETA, min_epochs: MinEpochs = MIN_EPOCHS) -> list[float]:
    """Return the budgets of the rungs: epochs before rounding, ascending, the last of them full fidelity.

    For 25 epochs and eta 3, they round to 1, 3, 8 and 25. If min_epochs is at least `epochs`, there is one rung.
    """
    least, most = min(min_epochs, epochs) - ROUNDING_MARGIN, epochs + ROUNDING_MARGIN
    count = -int(math.log(least / most) / math.log(eta)) + 1
    budgets = [most * eta**-i for i in reversed(range(count))]
    # With eta 2 the lowest two may both round to 1 epoch: a promotion would train no longer.
    return budgets[1:] if len(set(map(round, budgets))) < count else budgets


def brackets(epochs: int, eta: Eta = ETA, min_epochs: MinEpochs = MIN_EPOCHS) -> list[Bracket]:
    """Return one cycle of brackets; number i begins at rung i.

    For 25 epochs and eta 3: 27-9-3-1, 9-3-1, 6-2 and 4 trials at 1, 3, 8 and 25 epochs (rounded). With the formula of
    Li et al., which rounds the sizes up, these rungs would have 27, 12, 6 and 4 configurations.
    """
    budgets = rungs(epochs, eta, min_epochs)
    cycle = []
    for s in reversed(range(len(budgets))):
        first = len(budgets) // (s + 1) * eta**s
        sizes = tuple(first // eta**i for i in range(s + 1))
        cycle.append((sizes, tuple(budgets[-s - 1 :])))
    return cycle


class RungOptimizer(Optimizer):
    """Base class of optimizers that promote trials from rung to rung. It takes no initial design.

    eta: one of eta trials of a rung is promoted to the next one, which trains eta times as long.
    min_epochs: epochs of the shortest trainings, at least.
    """

    chooses = RANDOM

    def __init__(
        self, space: Space, *, seed: int = 0, epochs: int = 1, eta: Eta = ETA, min_epochs: MinEpochs = MIN_EPOCHS
    ) -> None:
        super().__init__(space, seed=seed, epochs=epochs)
        check_options(type(self), eta=eta, min_epochs=min_epochs)
        self.eta, self.min_epochs = eta, min_epochs

    @classmethod
    def config_warning(cls, options: Mapping[str, Any], plan: SearchPlan) -> str:
        """Return a warning if there is one rung, so that every trial has full fidelity: that is random search."""
        eta, min_epochs = options.get("eta", ETA), options.get("min_epochs", MIN_EPOCHS)
        if len(rungs(plan.epochs, eta, min_epochs)) > 1:
            return ""
        if plan.epochs == 1:
            return "every trial has 1 epoch: set fidelity.epochs to 2 or more"
        return (
            f"every trial has {plan.epochs} epochs with eta {eta} and min_epochs {min_epochs}; try "
            f"{plan.option}eta={ETA} {plan.option}min_epochs={MIN_EPOCHS}"
        )
