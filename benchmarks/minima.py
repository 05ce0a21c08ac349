"""The minima of problems that no paper prints, computed: what the docstrings of trainers/functions/ state.

    python benchmarks/minima.py            # about two minutes
    python benchmarks/minima.py --quick    # contamination with its first 9 values at the minimum; one assignment each

contamination: all vectors. mivabo_*: for each assignment of the binaries, L-BFGS-B from the best 16 of 64 points.
"""

import argparse
import json
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import minimize

from fmnas.platform.problems import PROBLEMS
from fmnas.search_spaces.variables import Floats
from fmnas.trainers.functions import combinatorial as c
from fmnas.trainers.functions import linear_features as linear

FIRST = 9
"""Values that are tried one after the other; the others at once."""
MINIMUM = "1011010110110110110110110"
POINTS, STARTS = 64, 16
DISCRETE = 1 + linear.BINARIES * (linear.BINARIES + 1) // 2
"""Features of the binaries."""


def contamination_minimum(firsts: list[tuple[int, ...]]) -> float:
    """Return the least objective over all vectors that begin with one of these."""
    fraction, contaminating, restoring = c._draw_contamination()
    best = np.inf
    for first in firsts:
        fractions, costs = fraction[None], np.zeros(1)
        for i in range(c.STAGES):
            choices = first[i : i + 1] or (0, 1)
            steps = [
                (1.0 - restoring[i]) * fractions if choice else contaminating[i] * (1.0 - fractions) + fractions
                for choice in choices
            ]
            costs = np.concatenate([costs + c.PREVENTION_COST * choice for choice in choices])
            fractions = np.concatenate(steps)
            costs += c.REQUIRED - (fractions < c.LIMIT).mean(axis=1)
        best = min(best, float(costs.min()))
    return best


def mivabo_minimum(name: str, assignments: list[tuple[int, ...]]) -> float:
    """Return the least objective found over these assignments that are feasible."""
    omega, shift, gaussian, sparse = linear.draw_parameters()
    w, space = gaussian if "gaussian" in name else sparse, PROBLEMS[name].problem().space
    rng, best = np.random.default_rng(0), np.inf
    for bits in assignments:
        points = rng.random((POINTS, linear.REALS))
        binaries = {f"h{j}": bit for j, bit in enumerate(bits, start=1)}
        if not space.meets_constraints({f"x{i}": 0.5 for i in range(1, linear.REALS + 1)} | binaries):
            continue
        # For fixed binaries the function is a constant and a sum of cosines.
        discrete = linear.features(np.array(bits, dtype=float), points[0], omega, shift)[:DISCRETE]
        constant = float(w[:DISCRETE] @ discrete)
        weights = w[DISCRETE : DISCRETE + linear.WAVES] + discrete @ w[DISCRETE + linear.WAVES :].reshape(DISCRETE, -1)
        weights = weights * np.sqrt(2.0 / linear.WAVES)

        def value(
            x: Floats, constant: float = constant, weights: Floats = weights
        ) -> tuple[float, Floats]:  # and its gradient
            phase = omega @ x + shift
            return constant + float(weights @ np.cos(phase)), -(weights * np.sin(phase)) @ omega

        starts = sorted(points, key=lambda x: value(x)[0])[:STARTS]
        ends = (minimize(value, x, jac=True, method="L-BFGS-B", bounds=[(0, 1)] * linear.REALS) for x in starts)
        best = min(best, *(end.fun for end in ends))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--json", type=Path, metavar="FILE")
    arguments = parser.parse_args()
    firsts = [tuple(map(int, MINIMUM[:FIRST]))] if arguments.quick else list(product((0, 1), repeat=FIRST))
    minima: dict[str, Any] = {"contamination": contamination_minimum(firsts)}
    print(f"{'problem':<28}{'found':>14}{'stated':>14}")
    for name in ("contamination", *(name for name in PROBLEMS if name.startswith("mivabo_"))):
        if name != "contamination":
            every = list(product((0, 1), repeat=8))
            minima[name] = mivabo_minimum(name, every[:1] if arguments.quick else every)
        print(f"{name:<28}{minima[name]:>14.6f}{PROBLEMS[name].problem().minimum:>14.6f}", flush=True)
    if arguments.json:
        arguments.json.write_text(json.dumps(minima))


if __name__ == "__main__":
    main()
