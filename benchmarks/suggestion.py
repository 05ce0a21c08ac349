"""How long one `ask` takes on the joint space, beside Optuna's Gaussian process on the same data in the same run.

    python benchmarks/suggestion.py [--quick] [--json FILE] [--data FILE] [--loop N]

CPU-seconds on one thread, median of 5 asks; between two asks, one result is observed, as in a run. `first` is the
ask after all results were observed at once: nothing is cached. Fit and acquisition are parts of `ask`. A second table
is on spaces of more and more variables, half of them nominal with four values, half real; a third on two integers of
more and more values and two reals. Optuna is optional: pip install 'fmnas[benchmarks]'.

--loop: only how long the asks of a search of N evaluations of the recorded joint problem take, whose objectives are
noisy.

The observations are random points with a smooth synthetic objective, up to 2,000 of them, the same in every run.
--data: a JSON file with X [n][18] (log learning rate, momentum, log weight decay, gamma, r1, r2, then 12 vertex
indices), bounds [6][2] and y [n] to use instead, for the sizes that it has: benchmarks/data/joint_points.json has 200.
"""

import argparse
import json
import os
import resource
import statistics
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import torch
from command import run_command

from fmnas.optimizers import BOFM
from fmnas.search_spaces import Configuration, Integer, Nominal, Real, Space, Trial, joint_space

SIZES = (20, 50, 100, 200, 500, 1000, 2000)
ASKS = 5
JOINT_POINTS = Path(__file__).parent / "data" / "joint_points.json"
"""200 points of the joint space with a synthetic objective; the file says where they are from."""
VARIABLES, VALUES, OBSERVATIONS = (4, 8, 16, 32, 60), (8, 30, 100, 300), 100


def dataset(space: Space, count: int, path: Path | None) -> tuple[list[Configuration], list[float]]:
    """Configurations and objectives: from a file as far as it goes, else random ones with a smooth synthetic y."""
    if path is not None:
        data = json.loads(path.read_text())
        X, bounds = np.array(data["X"]), np.array(data["bounds"])
        X[:, :6] = (X[:, :6] - bounds[:, 0]) / (bounds[:, 1] - bounds[:, 0])
        return [space.decode(x) for x in X[:count]], [float(y) for y in data["y"][:count]]
    X = space.sample_encoded(np.random.default_rng(0), count)
    weights = np.random.default_rng(1).normal(size=X.shape[1])
    scores = np.tanh((X - X.mean(0)) / X.std(0) * weights).sum(1) + 0.1 * np.random.default_rng(2).normal(size=count)
    return [space.decode(x) for x in X], [float(np.exp(-2.0 + 0.1 * s)) for s in scores]


class Stopwatch:
    """Adds up the CPU-seconds spent in a function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        start = time.process_time()
        try:
            return self.function(*arguments, **named)
        finally:
            self.seconds += time.process_time() - start


def time_bofm(
    space: Space, configurations: Sequence[Configuration], ys: Sequence[float], asks: int
) -> dict[str, float]:
    """Median ask, fit and acquisition, and the first ask."""
    opt = BOFM(space, initial_design=configurations, log_objective=True)
    for y in ys:
        opt.tell(opt.ask(), y)
    fit = opt.surrogate.fit = Stopwatch(opt.surrogate.fit)
    totals, fits = [], []
    for _ in range(asks + 2):  # the first two are cold: the most likely warping is searched
        fit.seconds, start = 0.0, time.process_time()
        trial = opt.ask()
        totals.append(time.process_time() - start)
        fits.append(fit.seconds)
        opt.tell(trial, float(np.median(ys)))
    rest = [total - part for total, part in zip(totals, fits, strict=True)]
    return {
        "first": totals[0],
        "ask": statistics.median(totals[2:]),
        "fit": statistics.median(fits[2:]),
        "acquisition": statistics.median(rest[2:]),
    }


def distributions_of(space: Space) -> dict[str, Any]:
    """A space as Optuna's distributions."""
    from optuna import distributions as kinds

    distributions: dict[str, Any] = {}
    for variable in space.variables:
        if isinstance(variable, Real):
            distributions[variable.name] = kinds.FloatDistribution(variable.low, variable.high, log=variable.log)
        elif isinstance(variable, Integer):
            distributions[variable.name] = kinds.IntDistribution(variable.low, variable.high)
        else:
            distributions[variable.name] = kinds.CategoricalDistribution(list(variable.vertices))
    return distributions


def time_loops(evaluations: int) -> None:
    """Print the seconds of BO-FM's and Optuna's asks in a search of the recorded joint problem."""
    import optuna

    from fmnas.platform.problems import problem

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    warnings.simplefilter("ignore")
    task = problem("joint_recorded")
    opt, distributions = BOFM(task.space, log_objective=True), distributions_of(task.space)
    study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=0, n_startup_trials=10))

    def evaluate(number: int, configuration: Configuration) -> float:
        trial = Trial(number, task.space.coerce(configuration), task.epochs, "model", seed=number)
        return task.trainer.evaluate(trial).objective

    def advance_bofm(number: int) -> float:
        start = time.process_time()
        trial = opt.ask()
        seconds = time.process_time() - start
        assert trial is not None
        opt.tell(trial, evaluate(number, trial.configuration))
        return seconds

    def advance_optuna(number: int) -> float:
        start = time.process_time()
        trial = study.ask(distributions)
        seconds = time.process_time() - start
        study.tell(trial, float(np.log(evaluate(number, trial.params))))
        return seconds

    for name, advance in (("bo-fm", advance_bofm), ("Optuna", advance_optuna)):
        seconds = [advance(number) for number in range(evaluations)]
        last = statistics.mean(seconds[-10:])
        print(f"{name:>6}: {sum(seconds):.1f} s in all, {last:.3f} s each of the last ten of {evaluations} asks")


def time_optuna(space: Space, configurations: Sequence[Configuration], ys: Sequence[float], asks: int) -> float | None:
    """The median ask of Optuna's GPSampler, or None where Optuna is not installed."""
    try:
        import optuna
    except ImportError:
        return None
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    distributions = distributions_of(space)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        study = optuna.create_study(sampler=optuna.samplers.GPSampler(seed=0))
        for configuration, y in zip(configurations, ys, strict=True):
            known = optuna.trial.create_trial(params=configuration, distributions=distributions, value=float(np.log(y)))
            study.add_trial(known)
        seconds = []
        for _ in range(asks):
            start = time.process_time()
            trial = study.ask(distributions)
            seconds.append(time.process_time() - start)
            study.tell(trial, float(np.log(np.median(ys))))
    return statistics.median(seconds)


def measure(space: Space, n: int, path: Path | None, asks: int) -> dict[str, Any] | None:
    """A row of a table; None where the file has too few observations."""
    configurations, ys = dataset(space, n, path)
    if len(ys) < n:
        return None
    row: dict[str, Any] = {"n": n, "variables": len(space), **time_bofm(space, configurations, ys, asks)}
    row["megabytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    row["optuna"] = time_optuna(space, configurations, ys, asks)
    return row


def show(row: dict[str, Any]) -> None:
    """Print a row."""
    optuna = "-" if row["optuna"] is None else f"{row['optuna']:.3f}"
    print(
        f"{row['n']:>5} {row['variables']:>5} {row['first']:>8.3f} {row['ask']:>8.3f} {row['fit']:>8.3f} "
        f"{row['acquisition']:>8.3f} {optuna:>8} {row['megabytes']:>5.0f} MB",
        flush=True,
    )


def half_nominal(variables: int) -> Space:
    """A space of that many variables, half of them nominal."""
    half = variables // 2
    nominal = [Nominal(f"v{k}", list("pqrs")) for k in range(half)]
    return Space([*nominal, *(Real(f"x{k}", 0.0, 1.0) for k in range(variables - half))])


def two_integers(values: int) -> Space:
    """A space of two integers of that many values each, and two reals."""
    return Space([*(Integer(f"n{k}", 1, values) for k in range(2)), *(Real(f"x{k}", 0.0, 1.0) for k in range(2))])


def main() -> None:
    """Measure and print three tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="up to 200 observations and 16 variables, 3 asks")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--loop", type=int)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.loop:
        time_loops(arguments.loop)
        return
    asks, rows = (3 if arguments.quick else ASKS), []
    head = f"{'first':>8} {'ask':>8} {'fit':>8} {'acquis.':>8} {'Optuna':>8} {'memory':>8}"
    print(f"{'n':>5} {'vars':>5} {head}")
    for n in [size for size in SIZES if not arguments.quick or size <= 200]:
        row = measure(joint_space(), n, arguments.data, asks)
        if row is None:
            break
        rows.append(row)
        show(row)
    for variables in [] if arguments.data else [v for v in VARIABLES if not arguments.quick or v <= 16]:
        row = measure(half_nominal(variables), OBSERVATIONS, None, asks)
        assert row is not None
        rows.append(row)
        show(row)
    for values in [] if arguments.data else VALUES:
        row = measure(two_integers(values), OBSERVATIONS, None, asks)
        assert row is not None
        rows.append({**row, "values": values})
        print(f"two integers of {values} values:")
        show(row)
    if arguments.json:
        arguments.json.write_text(json.dumps({"seconds": "CPU, one thread", "rows": rows}, indent=2))


if __name__ == "__main__":
    run_command(main)
