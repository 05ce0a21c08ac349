"""What each part of BO-FM's default brings: runs with another part, on the suite (suite.py).

    python benchmarks/bofm_parts.py run FILE [--arms default correlation=0 ...] [arguments of suite.py run]
    python benchmarks/suite.py table FILE

An arm is named by what differs from BO-FM's default, "kernel=plain,warpings=5" say.

| part | levels, the default first |
|---|---|
| warpings | 26; 13: those without the log scale above the median; 5; 1 |
| kernel | blended: the product of factors and their mean s; plain: the product; pairs: the product and (s + s^2) / 2 |
| search | 6 starts of 600 points; 20 of 2,000 |
| correlation | of the priors: 0.5, or another one |
| prior | of the parameters: weak; none: maximum likelihood |
| starts | of the fit: every second one smoother; plain: the paper's |
| prediction | ordinary: the mean and the output scale are estimates; plug-in: they are known |
"""

import argparse
import sys
from dataclasses import asdict, dataclass, replace
from typing import Any

import suite
import torch
from torch import Tensor

from fmnas.optimizers import BOFM, Optimizer
from fmnas.optimizers.bofm import Mode
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.frequency_modulation import (
    BLENDED_KERNELS,
    FAST_KERNELS,
    Blended,
    FastKernel,
    ModulatedLaplacian,
)
from fmnas.optimizers.gp.output_warping import WARPINGS, Warping, identity, log_above_median
from fmnas.optimizers.gp.search import SearchSettings
from fmnas.search_spaces import Configuration, Space

FEW = (
    Warping(log_above_median),
    Warping(identity),
    Warping(identity, -0.5),
    Warping(identity, 0.75),
    Warping(identity, 1.5),
)


class WithPairs(Blended):
    """r = (1 - w) q + w (s + s^2) / 2: the square of a sum of factors has all products of two."""

    def combine(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> Tensor:
        return q + w * (0.5 * (s + s * s) - q)

    def slopes(self, q: Tensor, s: Tensor, d2: Tensor, w: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        by_s = w * (0.5 + s)
        return (1.0 - w).expand_as(q), by_s, torch.zeros_like(q), 0.5 * (s + s * s) - q


KERNELS = {
    "plain": FAST_KERNELS["modlap"],
    "blended": BLENDED_KERNELS["modlap"],
    "pairs": FastKernel(ModulatedLaplacian(), WithPairs()),
}


@dataclass(frozen=True)
class Arm:
    """The level of each part."""

    warpings: str = "26"
    kernel: str = "blended"
    search: str = "6"
    correlation: str = "0.5"
    prior: str = "weak"
    starts: str = "smooth"
    prediction: str = "ordinary"

    @property
    def name(self) -> str:
        """What differs from the default, e.g. "kernel=plain,warpings=5"; "default" if nothing does."""
        levels = asdict(self).items()
        changed = [f"{factor}={level}" for factor, level in levels if level != getattr(Arm, factor)]
        return ",".join(changed) or "default"

    @classmethod
    def from_name(cls, name: str) -> "Arm":
        """Invert `name`."""
        return cls() if name == "default" else cls(**dict(part.split("=") for part in name.split(",")))


class PartsBOFM(BOFM):
    """BO-FM with the parts of an arm."""

    def __init__(self, space: Space, *, arm: Arm, **others: Any) -> None:
        linear = tuple(warping for warping in WARPINGS if warping.warp is identity)
        warpings = {"26": WARPINGS, "13": linear, "5": FEW, "1": (Warping(),)}[arm.warpings]
        fit = FitSettings(
            prior={"weak": True, "none": False}[arm.prior],
            smooth={"smooth": True, "plain": False}[arm.starts],
            plug_in={"ordinary": False, "plug-in": True}[arm.prediction],
        )
        super().__init__(space, mode=Mode(fit, warpings=warpings), **others)
        if arm.search == "20":
            wide = SearchSettings(random_points=1600, spray_points=400, starts=20)
            self.settings = self.mode = replace(self.mode, search=wide)
        self.arm = arm

    def kernel(self, space: Space) -> FMKernel:
        kernel = FMKernel(space, KERNELS[self.arm.kernel])
        kernel.parameters = tuple(
            replace(p, prior=replace(p.prior, correlation=float(self.arm.correlation))) if p.size > 1 and p.prior else p
            for p in kernel.parameters
        )
        return kernel


def build_arm(name: str, space: Space, seed: int, design: list[Configuration], evaluations: int) -> Optimizer:
    """The optimizer of an arm, by the arm's name."""
    return PartsBOFM(space, arm=Arm.from_name(name), seed=seed, initial_design=design)


def main() -> None:
    """Run what is missing."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    suite.add_run_arguments(run := commands.add_parser("run"))
    run.add_argument("--arms", nargs="+", required=True)
    arguments = parser.parse_args()
    suite.run_missing(arguments, arguments.arms, build_arm)


if __name__ == "__main__":
    sys.exit(main())
