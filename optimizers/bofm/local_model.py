"""A local model of what surrounds the incumbent: the last digits of its continuous part, where nothing blurs them.

The process of the whole space has one length scale for all of it, and at best a noise of a thousandth of what the
objective spans: it cannot see the last digits. A second one, of the continuous part alone and given only the nearest
trials on the incumbent's vertices, can; as they come nearer, so does it. It would learn the noise of a noisy objective,
so it is only asked where the large one sees hardly any.
"""

import math

import numpy as np
import torch
from numpy.typing import NDArray

from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.fit import FitError, FitSettings, Surrogate
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.frequency_modulation import FAST_KERNELS
from fmnas.optimizers.gp.points import Points, new_among, standardised
from fmnas.optimizers.gp.region import Region
from fmnas.optimizers.gp.search import SearchState, Surface, alternate, best_of
from fmnas.search_spaces import Real, Space
from fmnas.search_spaces.variables import Floats

NOISELESS = 1e-4  # noise variance over output scale, a hundredth in deviations: below, it is at most a misfit
PER_DIMENSION = 3  # nearest trials for each continuous variable, and as many more
FRAME_MARGIN = 0.25  # of the box around them, on each side
REACH = 8.0  # how many times as far as the D nearest trials a look goes
LEAST_LOCAL_PROMISE = 1e-6  # of the standard deviation of all objectives: a closer look that promises less waits


def local_candidates(space: Space, y: Floats, fit: FitSettings, state: SearchState) -> Points:
    """New points near the incumbent, on its vertices, whose expected improvement is worth trying, the best first.

    y [n]: the objectives of the first n known configurations. There may be no such point.
    """
    D, tried, search, rng = len(space.continuous), state.known, state.settings, state.rng
    nothing = Points.of(space, np.empty((0, len(space))))
    near = _nearest(tried[: len(y)], y, D)
    if len(near) < D + 1 or D == 0 or np.ptp(y[near]) == 0.0:
        return nothing
    incumbent = state.incumbent
    lower, width = _frame(incumbent[:D], tried[near, :D])
    local = Space([Real(f"x{d}", 0.0, 1.0) for d in range(D)])
    points = Points.of(local, (tried[near, :D] - lower) / width)
    try:
        surrogate = Surrogate(FMKernel(local, FAST_KERNELS["modlap"]), fit)
        process = surrogate.fit(points, torch.from_numpy(standardised(y[near])), rng).posterior
    except FitError:  # the whole space's process is there to ask
        return nothing
    surface = Surface(process, LogEI(float(process.likelihood.y.min())))
    anywhere = Points.of(local, rng.random((search.random_points, D)))
    starts = best_of(anywhere, surface.value(anywhere), search.starts)
    found, log_ei = alternate(surface, Region(local), starts, search)
    X = np.tile(incumbent, (len(found), 1))
    X[:, :D] = (lower + found.C.numpy() * width).clip(0.0, 1.0)
    new = new_among(X, tried)
    promised = log_ei.numpy() + math.log(y[near].std(ddof=1))
    return Points.of(
        space, X[new & (promised > math.log(LEAST_LOCAL_PROMISE * y.std())) & space.feasible(X, strictly=True)]
    )


def _nearest(X: Floats, y: Floats, D: int) -> NDArray[np.int64]:
    """Rows of X [n, D + P] on the incumbent's vertices, the nearest to it and itself: at most 3 (D + 1)."""
    incumbent = X[int(y.argmin())]
    same = np.flatnonzero((X[:, D:] == incumbent[D:]).all(axis=1))
    distance = np.abs(X[same, :D] - incumbent[:D]).max(axis=1, initial=0.0)
    return same[np.argsort(distance, kind="stable")[: PER_DIMENSION * (D + 1)]]


def _frame(centre: Floats, C: Floats) -> tuple[Floats, Floats]:
    """Lower corner and width [D] of the box around C [m, D], with a margin, but no farther from the centre [D] than C.

    Whatever is tried in it is one of the nearest from then on: no look is repeated. Nor does it go much farther than
    the D nearest of C: where some are far away, halving the distance again and again would take many looks.
    """
    lowest, highest, distance = C.min(axis=0), C.max(axis=0), np.sort(np.abs(C - centre).max(axis=1))
    reach = min(distance[-1], REACH * distance[len(centre)])  # the first is the centre's own
    margin = FRAME_MARGIN * (highest - lowest)
    lower = np.maximum(lowest - margin, centre - reach).clip(0.0, 1.0)
    upper = np.minimum(highest + margin, centre + reach).clip(0.0, 1.0)
    return lower, np.maximum(upper - lower, 1e-12)
