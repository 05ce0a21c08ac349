"""What random points of a problem are like: their cost and their values, and how much of them is a sum over variables.

    python benchmarks/scales.py [--quick] [--problems ackley5c ...] [--points N] [--seed K] [--json FILE]

For each problem the CPU-milliseconds of an evaluation; the least value, the quartiles and the largest of N uniform
points; and the share of the variance of the logarithm of the values, of the values, and of their exponential that a sum
of functions of one variable each explains. The logarithm is of the value above the least one known, the exponential of
u / 2 and of u, where u is the value standardised: the scales that BO-FM may choose among are of this kind
(optimizers/gp/output_warping.py).

Of Ackley5C the same for points half of whose variables, chosen at random, have the optimum's value: nearer to it, as
the points of a search are.
"""

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from fmnas.platform.problems import PROBLEMS as REGISTERED
from fmnas.search_spaces import Space, Trial
from fmnas.search_spaces.records import RANDOM
from fmnas.trainers import Problem
from fmnas.trainers.functions.synthetic import PUBLISHED_NOISE
from fmnas.trainers.problem import ProblemSettings

SYNTHETIC = {
    name: row.target for name, row in REGISTERED.items() if isinstance(row.target, Problem) and row.target.function
}
TABLES = ("nusvr_diabetes", "dt_wine", "mlp_digits", "xgb_table", "robot_pushing")
PROBLEMS = (*SYNTHETIC, *TABLES)
PARTS = 32
"""The number of intervals of a continuous variable on which a function of it is constant."""

SHARE_AT_OPTIMUM = 0.5
RIDGE = 1e-9


def values(problem: Problem, X: np.ndarray) -> np.ndarray:
    """The objective at X [n, variables], without noise where it is a plain function."""
    results = [problem.space.decode(x) for x in X]
    if problem.function is not None:
        return np.array([problem.function(configuration) for configuration in results])
    trials = (Trial(number, configuration, problem.epochs, RANDOM) for number, configuration in enumerate(results))
    return np.array([problem.trainer.evaluate(trial).objective for trial in trials])


def points(space: Space, count: int, rng: np.random.Generator, optimum: np.ndarray | None = None) -> np.ndarray:
    """X [count, variables], uniform; with an optimum, each variable has its value with probability 1/2."""
    X = space.sample_encoded(rng, count)
    if optimum is None:
        return X
    return np.where(rng.random(X.shape) < SHARE_AT_OPTIMUM, optimum, X)


def additive_share(space: Space, X: np.ndarray, y: np.ndarray) -> float:
    """The share of the variance of y [n] that a sum of functions of one variable each explains (least squares).

    Not a number where there are too few points to tell.
    """
    D = len(space.continuous)
    columns = [np.minimum((x * PARTS).astype(int), PARTS - 1) for x in X.T[:D]] + [x.astype(int) for x in X.T[D:]]
    indicators = np.concatenate([np.eye(int(c.max()) + 1)[c] for c in columns], axis=1)
    residual = y - y.mean()
    A = indicators - indicators.mean(axis=0)
    weights = np.linalg.solve(A.T @ A + RIDGE * len(y) * np.eye(A.shape[1]), A.T @ residual)
    explained = 1.0 - float(np.square(residual - A @ weights).sum() / np.square(residual).sum())
    spare = len(y) - int(np.linalg.matrix_rank(A)) - 1
    return 1.0 - (1.0 - explained) * (len(y) - 1) / spare if spare > 0 else np.nan  # adjusted R^2


def row(problem: str, count: int, seed: int, near: bool) -> dict[str, Any]:
    """A row of the table."""
    task = REGISTERED[problem].problem(ProblemSettings())
    space = task.space
    optimum = np.array([0.5] + [8.0] * 5) if near else None  # of Ackley5C: x1 = 0, every h = 8
    X = points(space, count, np.random.default_rng(seed), optimum)
    values(task, X[:1])  # reads the data, if there are any
    start = time.process_time()
    y = values(task, X)
    milliseconds = 1000.0 * (time.process_time() - start) / count
    least = min(np.inf if task.minimum is None else task.minimum, float(y.min()))
    kept = y > least + PUBLISHED_NOISE  # the logarithm of the optimum itself is undefined
    u = (y - y.mean()) / y.std(ddof=1)
    seen = {"log": (X[kept], np.log(y[kept] - least)), "plain": (X, y), "exp u/2": (X, np.exp(u / 2))}
    seen["exp u"] = (X, np.exp(u))
    shares = {name: additive_share(space, at, value) for name, (at, value) in seen.items()}
    quantiles = np.quantile(y, [0.0, 0.25, 0.5, 0.75, 1.0]).tolist()
    return {"problem": problem, "near": near, "milliseconds": milliseconds, "quantiles": quantiles, "shares": shares}


def main() -> None:
    """Compute and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="500 points, Ackley5C")
    parser.add_argument("--problems", nargs="+", default=PROBLEMS, choices=PROBLEMS)
    parser.add_argument("--points", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    problems, count = (["ackley5c"], 500) if arguments.quick else (arguments.problems, arguments.points)
    print(f"{'problem':<26}{'ms':>7}{'least, quartiles, largest':>44}{'log':>8}{'plain':>8}{'exp u/2':>8}{'exp u':>8}")
    rows = []
    for problem, near in [(p, False) for p in problems] + [("ackley5c", True)] * ("ackley5c" in problems):
        results = row(problem, count, arguments.seed, near)
        rows.append(results)
        spread = " ".join(f"{q:8.3f}" for q in results["quantiles"])
        shares = "".join(f"{share:8.2f}" for share in results["shares"].values())
        print(
            f"{problem + (', half at optimum' if near else ''):<26}{results['milliseconds']:7.2f}{spread:>44}{shares}",
            flush=True,
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"points": count, "seed": arguments.seed, "rows": rows}, indent=2))


if __name__ == "__main__":
    main()
