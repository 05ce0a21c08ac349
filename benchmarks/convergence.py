"""How converged the fit and the search are: likelihoods and expected improvements on data of the joint space.

    python benchmarks/convergence.py [--data FILE] [--seeds N]

Fit: negative log likelihood per observation of the standardised objective, of the paper's mode (maximum likelihood, ten
cold starts) and of the default mode's settings without its prior; the best and the worst over the seeds.
Search: log EI of the default mode's search, median and worst over the seeds, beside the paper's (40 starts from 100,000
points), at the same fitted parameters.

--data: a JSON file with X [n][18] (log learning rate, momentum, log weight decay, gamma, r1, r2, then 12 vertex
indices), bounds [6][2] and y [n]; 200 points of the joint space with a synthetic y unless given.
"""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from command import run_command
from suggestion import JOINT_POINTS, dataset

from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.fit import PAPER_FIT, FitSettings, Surrogate
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.frequency_modulation import FAST_KERNELS
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Posterior
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import (
    PAPER_SEARCH,
    SearchSettings,
    SearchState,
    Surface,
    alternating_search,
    start_points,
)
from fmnas.search_spaces import Space, joint_space

SIZES = (20, 50, 100, 200)
FORM = FAST_KERNELS["modlap"]


def observations(space: Space, n: int, path: Path) -> tuple[np.ndarray, Points, torch.Tensor]:
    """(X [n, 18], the same as points, standardised y [n])."""
    configurations, ys = dataset(space, n, path)
    X, y = space.encode_all(configurations), np.array(ys)
    return X, Points.from_encoded(space, X), torch.from_numpy((y - y.mean()) / y.std(ddof=1))


def best_ei(
    space: Space, X: np.ndarray, posterior: Posterior, y: torch.Tensor, settings: SearchSettings, seed: int
) -> float:
    """The largest log EI that a search finds."""
    surface, region = Surface(posterior, LogEI(float(y.min()))), Region(space)
    state = SearchState(X[int(y.argmin())], X, settings, np.random.default_rng(seed))
    starts = start_points(surface, region, state)
    return float(alternating_search(surface, region, starts, settings)[1][0])


def line(n: int, path: Path, seeds: Sequence[int]) -> str:
    """Return the row of the table of the first n observations."""
    space = joint_space()
    X, points, y = observations(space, n, path)
    paper, default = (
        [Surrogate(FMKernel(space, FORM), settings).fit(points, y, np.random.default_rng(seed)) for seed in seeds]
        for settings in (PAPER_FIT, FitSettings(prior=False))
    )
    best = min(paper, key=lambda fit: fit.nll)
    log_ei = [best_ei(space, X, best.posterior, y, SearchSettings(), seed) for seed in seeds]
    theirs = best_ei(space, X, best.posterior, y, PAPER_SEARCH, seeds[0])
    of_paper, of_default = [fit.nll for fit in paper], [fit.nll for fit in default]
    return (
        f"{n:>5} {min(of_paper):>10.4f}{max(of_paper):>10.4f} {min(of_default):>10.4f}{max(of_default):>10.4f} "
        f"{np.median(log_ei):>11.4f}{min(log_ei):>11.4f} {theirs:>14.4f}"
    )


def main() -> None:
    """Compute and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, default=JOINT_POINTS)
    parser.add_argument("--seeds", type=int, default=5, metavar="N", help="0 to N - 1")
    arguments = parser.parse_args()
    if arguments.seeds < 1:
        parser.error(f"--seeds {arguments.seeds}: at least 1")
    torch.set_num_threads(1)
    print(f"{'n':>5} {'nll, paper mode':>20} {'nll, default':>20} {'log EI, default':>22} {'log EI, paper':>14}")
    with torch.no_grad():
        for n in SIZES:
            print(line(n, arguments.data, range(arguments.seeds)), flush=True)


if __name__ == "__main__":
    run_command(main)
