"""How often three bootstrap intervals of nominally 95% contain the mean of normal values.

    python benchmarks/coverage_of_intervals.py [--sets N] [--seed N | --fresh] [--quick] [--json FILE]

A row for each number of repeats: the share of simulated sets whose interval holds the mean, by the percentile interval,
by BCa (bias-corrected and accelerated; Efron, 1987), and by the expanded percentile interval of
`fmnas.comparison.analysis.resampling`, which reports use. All three take the same resamples. Every set is drawn from a
standard normal distribution; the standard error of a share is at most 0.5 / sqrt(sets). `--fresh`: sets that nobody has
seen. `--quick`: 500 sets.
"""

import argparse
import json
import os
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from numpy.typing import NDArray
from scipy.stats import norm

from fmnas.comparison.analysis.resampling import CONFIDENCE, mean_interval, resampling_weights

REPEATS = (2, 3, 4, 5, 6, 7, 8, 10)
METHODS = ("percentile", "BCa", "expanded percentile")
SETS, QUICK, AT_ONCE = 20_000, 500, 500

Floats = NDArray[np.float64]


def coverage(repeats: int, sets: int, rng: np.random.Generator) -> dict[str, float]:
    """Return method -> the share of `sets` sets whose interval contains the mean."""
    held = dict.fromkeys(METHODS, 0)
    for start in range(0, sets, AT_ONCE):
        values = rng.standard_normal((repeats, min(AT_ONCE, sets - start)))
        ends = {
            "percentile": percentile_interval(values),
            "BCa": bca_interval(values),
            "expanded percentile": mean_interval(values),
        }
        for method, (low, high) in ends.items():
            held[method] += int(((low <= 0) & (high >= 0)).sum())
    return {method: count / sets for method, count in held.items()}


def percentile_interval(values: Floats) -> tuple[Floats, Floats]:
    """The plain percentile interval of the mean over the first axis of values [n, sets]."""
    below = (1 - CONFIDENCE) / 2
    low, high = np.quantile(resampling_weights(len(values)) @ values, [below, 1 - below], axis=0)
    return low, high


def bca_interval(values: Floats) -> tuple[Floats, Floats]:
    """The BCa interval: bias by the share of resampled means below the mean, acceleration by the jackknife."""
    means, mean = np.sort(resampling_weights(len(values)) @ values, axis=0), values.mean(axis=0)
    share = ((means < mean).mean(axis=0) + (means <= mean).mean(axis=0)) / 2
    bias = norm.ppf(share)
    # The mean of all jackknifed means, less the one without value i, is (value_i - mean) / (n - 1); n - 1 cancels.
    change = values - mean
    acceleration = (change**3).sum(axis=0) / (6 * (change**2).sum(axis=0) ** 1.5)
    ends = []
    for quantile in ((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2):
        shifted = bias + norm.ppf(quantile)
        place = norm.cdf(bias + shifted / (1 - acceleration * shifted)) * (len(means) - 1)
        under = np.floor(place).astype(int)
        above = np.minimum(under + 1, len(means) - 1)
        lower, upper = (np.take_along_axis(means, at[None], axis=0)[0] for at in (under, above))
        ends.append(lower + (place - under) * (upper - lower))
    return ends[0], ends[1]


def main() -> None:
    """Simulate and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--sets", type=int, default=SETS, help=f"simulated sets of each size; default {SETS}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fresh", action="store_true", help="a seed from the operating system")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} sets")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    seed = int(np.random.SeedSequence().generate_state(1)[0]) if arguments.fresh else arguments.seed
    sets = QUICK if arguments.quick else arguments.sets
    print(f"{sets} sets of normal values for each number of repeats, seed {seed}\n")
    print(f"| repeats | {' | '.join(METHODS)} |\n|{'---|' * (1 + len(METHODS))}")
    results = {}
    for repeats in REPEATS:
        results[repeats] = coverage(repeats, sets, np.random.default_rng([seed, repeats]))
        print(f"| {repeats} | {' | '.join(f'{results[repeats][method]:.3f}' for method in METHODS)} |", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps({"sets": sets, "seed": seed, "coverage": results}, indent=2))


if __name__ == "__main__":
    main()
