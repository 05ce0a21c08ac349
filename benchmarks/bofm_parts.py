"""What each part of BO-FM's default brings: runs with another part, on the suite (suite.py).

    python benchmarks/bofm_parts.py run FILE [--arms default correlation=0 ...] [arguments of suite.py run]
    python benchmarks/suite.py table FILE

An arm is named by what differs from BO-FM's default, "kernel=plain,warpings=26" say.

| part | levels, the default first |
|---|---|
| warpings | 18; 26: from -1 to 2, the earlier default; 42: from -2 to 3; 9: no log scale; 1 |
| kernel | blended: the product of factors and their mean s; plain: the product; pairs: the product and (s + s^2) / 2 |
| search | 6 starts of 600 points; 20 of 2,000; half or double of all its numbers |
| correlation | of the priors: 0.5, or another one |
| prior | of the parameters: weak; none: maximum likelihood |
| deviation | of the logarithms under the priors: of theta; alpha, beta and odds; noise: 1:1.5:2.5; a number for all |
| theta, beta, noise | medians of the priors: 0.5, 0.5 (times P), 0.001, or another one |
| normal | deviation of log theta and of the bend, and the largest bend: 1, or another number for all three |
| fit | its effort: whole; half or double of all its numbers |
| starts | of the fit: every second one smoother; plain: the paper's |
| prediction | ordinary: the mean and the output scale are estimates; plug-in: they are known |
"""

import argparse
import sys
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
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
from fmnas.optimizers.gp.parameters import LogNormal, Parameter
from fmnas.optimizers.gp.search import SearchSettings
from fmnas.search_spaces import Configuration, Space
from fmnas.search_spaces.variables import Floats


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

    warpings: str = "18"
    kernel: str = "blended"
    search: str = "6"
    correlation: str = "0.5"
    prior: str = "weak"
    starts: str = "smooth"
    prediction: str = "ordinary"
    deviation: str = "1:1.5:2.5"
    theta: str = "0.5"
    beta: str = "0.5"
    noise: str = "0.001"
    fit: str = "whole"
    normal: str = "1"

    @property
    def name(self) -> str:
        """What differs from the default, e.g. "kernel=plain,warpings=26"; "default" if nothing does."""
        levels = asdict(self).items()
        changed = [f"{factor}={level}" for factor, level in levels if level != getattr(Arm, factor)]
        return ",".join(changed) or "default"

    @classmethod
    def from_name(cls, name: str) -> "Arm":
        """Invert `name`."""
        return cls() if name == "default" else cls(**dict(part.split("=") for part in name.split(",")))


WHOLE_FIT, WHOLE_SEARCH = FitSettings(), SearchSettings()
FITS = {
    "whole": WHOLE_FIT,
    "half": replace(WHOLE_FIT, starts=2, screening=6, subset=32, finalists=1, iterations=30, patience=150_000.0),
    "double": replace(WHOLE_FIT, starts=8, screening=24, subset=128, finalists=4, iterations=120, patience=600_000.0),
}
SEARCHES = {
    "6": WHOLE_SEARCH,
    "20": SearchSettings(random_points=1600, spray_points=400, starts=20),
    "half": SearchSettings(random_points=250, spray_points=50, starts=3, rounds=10),
    "double": SearchSettings(random_points=1000, spray_points=200, starts=12, rounds=40),
}


@dataclass(frozen=True)
class ScaledWarping(Warping):
    """A warping that bends by `scale * bend`: the prior of what it bends by has the deviation `scale`."""

    scale: float = 1.0

    def bend_values(self, u: Floats) -> Floats:
        return Warping(self.warp, self.bend * self.scale).bend_values(u)


def bent(low: float, high: float, step: float) -> tuple[Warping, ...]:
    """The warpings with bends from low to high, both scales, by the size of the bend."""
    bends = sorted(np.arange(low, high + step / 2, step).tolist(), key=abs)
    return tuple(Warping(warp, bend) for bend in bends for warp in (log_above_median, identity))


ALL_WARPINGS = {
    "18": WARPINGS,
    "26": bent(-1.0, 2.0, 0.25),
    "42": bent(-2.0, 3.0, 0.25),
    "9": tuple(warping for warping in WARPINGS if warping.warp is identity),
    "1": (Warping(),),
}


class PartsBOFM(BOFM):
    """BO-FM with the parts of an arm."""

    def __init__(self, space: Space, *, arm: Arm, **others: Any) -> None:
        fit = replace(
            FITS[arm.fit],
            prior={"weak": True, "none": False}[arm.prior],
            smooth={"smooth": True, "plain": False}[arm.starts],
            plug_in={"ordinary": False, "plug-in": True}[arm.prediction],
        )
        scale = float(arm.normal)
        warpings = tuple(ScaledWarping(warping.warp, warping.bend, scale) for warping in ALL_WARPINGS[arm.warpings])
        super().__init__(space, mode=Mode(fit, SEARCHES[arm.search], warpings=warpings), **others)
        self.arm = arm

    def kernel(self, space: Space) -> FMKernel:
        kernel = FMKernel(space, KERNELS[self.arm.kernel])
        kernel.parameters = tuple(self._with_prior(parameter, kernel.factors.P) for parameter in kernel.parameters)
        kernel.noise = self._with_prior(kernel.noise, 1)
        return kernel

    def _with_prior(self, parameter: Parameter, P: int) -> Parameter:
        """The parameter with the arm's prior."""
        arm, prior = self.arm, parameter.prior
        assert prior is not None
        medians = {"theta": float(arm.theta), "beta": float(arm.beta) * P, "noise": float(arm.noise)}
        numbers = [float(number) for number in arm.deviation.split(":")]
        of_theta, of_others, of_noise = numbers if len(numbers) > 1 else numbers * 3
        deviations = {"theta": of_theta * float(arm.normal), "noise": of_noise}
        return replace(
            parameter,
            prior=LogNormal(
                medians.get(parameter.name, prior.median),
                deviations.get(parameter.name, of_others),
                float(arm.correlation) if prior.correlation else 0.0,
            ),
        )


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
