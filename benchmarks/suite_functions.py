"""Problems of the suite (suite.py): functions of the field, shifted and permuted, and a few of our own.

The real variables of the published functions are shifted, their nominal ones permuted, both drawn once from a fixed
seed. `fmnas` takes each by its name, as benchmarks/suite_functions.py:levy.

| problem | real | ordinal (values) | nominal (values) | structure |
|---|---|---|---|---|
| levy, rosenbrock, rastrigin, styblinski_tang, michalewicz, griewank | 2 or 3 | | 3 or 4 (5 to 11) | as published |
| ackley_bits | 3 | | 20 (2) | Ackley's function around a random vertex |
| rotated, rotated_steep | 5 | 3 (13) | 2 (4) | an ellipsoid, rotated; a nominal value moves its centre |
| cliff | 2 | 2 (80, 99) | | a smooth cost whose lowest part is infeasible and penalised |
| gear_train | | 4 (49) | | the ratio of two pairs of gears (Sandgren 1990) |
| labs30 | | | 30 (2) | low-autocorrelation binary sequences: interactions of four |
| qubo, ising | | | 30, 24 (2) | all pairs; the pairs of a 4 x 6 torus |
| joint_like | 6 | | 12 of the joint space | a synthetic error over the cell and the schedule |
| svc_cancer | 2 | | 3 | support vectors on scikit-learn's breast cancer table |
"""

import math
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
from error_counts import make_scaler
from numpy.typing import NDArray

from fmnas.search_spaces import Nominal, Ordinal, Real
from fmnas.search_spaces.nasnet import joint_space
from fmnas.trainers import objective
from fmnas.trainers.problem import Problem

Vector = NDArray[np.float64]
Configuration = Mapping[str, Any]


def of_levy(z: Vector) -> float:
    """Levy's function."""
    w = 1 + (z - 1) / 4
    middle = (w[:-1] - 1) ** 2 * (1 + 10 * np.sin(np.pi * w[:-1] + 1) ** 2)
    last = (w[-1] - 1) ** 2 * (1 + np.sin(2 * np.pi * w[-1]) ** 2)
    return float(np.sin(np.pi * w[0]) ** 2 + middle.sum() + last)


def of_styblinski_tang(z: Vector) -> float:
    """Styblinski's and Tang's function."""
    return float((z**4 - 16 * z**2 + 5 * z).sum() / 2)


def of_rosenbrock(z: Vector) -> float:
    """Rosenbrock's function: each variable interacts with its neighbours alone."""
    return float((100 * (z[1:] - z[:-1] ** 2) ** 2 + (z[:-1] - 1) ** 2).sum())


def of_rastrigin(z: Vector) -> float:
    """Rastrigin's function."""
    return float((z**2 - 10 * np.cos(2 * math.pi * z) + 10).sum())


def of_michalewicz(z: Vector) -> float:
    """Michalewicz's function with m = 5: steep valleys on flat ground."""
    i = np.arange(1, len(z) + 1)
    return float(-(np.sin(z) * np.sin(i * z**2 / np.pi) ** 10).sum())


def of_griewank(z: Vector) -> float:
    """Griewank's function; 0 at 0."""
    return float((z**2).sum() / 40 - np.prod(np.cos(z / np.sqrt(np.arange(1, len(z) + 1)))) + 1)


def make_mixed(
    function: Callable[[Vector], float], low: float, high: float, nominal: tuple[int, int], seed: int
) -> Problem:
    """Return the function of 2 or 3 real and nominal[0] nominal variables of nominal[1] values, in a random order.

    The real variables' box is shifted by up to a tenth of its width; nominal values are permuted numbers of a shifted
    grid.
    """
    rng = np.random.default_rng(seed)
    count, values = nominal
    reals = [Real(f"x{i}", low, high) for i in range(6 - count)]
    shift = rng.uniform(-0.1, 0.1, 6) * (high - low)
    grids = [rng.permutation(np.linspace(low, high, values)) for _ in range(count)]
    order = rng.permutation(6)

    @objective([*reals, *(Nominal(f"h{j}", tuple(range(values))) for j in range(count))])
    def value(configuration: Configuration) -> float:
        x = [configuration[variable.name] for variable in reals]
        h = [grid[configuration[f"h{j}"]] for j, grid in enumerate(grids)]
        return function((np.array([*x, *h]) + shift)[order])

    return value


levy = make_mixed(of_levy, -7.0, 9.0, (4, 9), 11)
rosenbrock = make_mixed(of_rosenbrock, -2.0, 2.0, (3, 9), 12)
rastrigin = make_mixed(of_rastrigin, -4.0, 4.0, (3, 10), 13)
styblinski_tang = make_mixed(of_styblinski_tang, -5.0, 5.0, (4, 11), 14)
michalewicz = make_mixed(of_michalewicz, 0.0, math.pi, (3, 9), 15)
griewank = make_mixed(of_griewank, -10.0, 10.0, (4, 5), 16)


@objective([*(Real(f"x{i}", -1.0, 1.0) for i in range(3)), *(Nominal(f"h{j}", (0, 1)) for j in range(20))])
def ackley_bits(configuration: Configuration) -> float:
    """Ackley's function around random bits and a random real point."""
    bits, center = _random_bits(20, 21), np.array([0.31, -0.47, 0.12])
    z = np.array([configuration[f"x{i}"] for i in range(3)]) - center
    z = np.concatenate([z, [float(configuration[f"h{j}"] != bits[j]) for j in range(20)]])
    return float(-20 * np.exp(-0.2 * np.sqrt((z**2).mean())) - np.exp(np.cos(2 * np.pi * z).mean()) + 20 + math.e)


def ellipsoid(condition: float, seed: int) -> Problem:
    """Return a rotated ellipsoid: 5 real, 3 ordinal and 2 nominal variables; each nominal value moves the centre."""
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    scales = condition ** np.linspace(0, 1, 8)
    centre, moves = rng.uniform(-0.5, 0.5, 8), rng.normal(0, 0.4, (2, 4, 8))
    offsets = rng.uniform(0, 0.5, (2, 4))
    reals = [Real(f"x{i}", -1.0, 1.0) for i in range(5)]
    ordinals = [Ordinal(f"k{i}", tuple(range(13))) for i in range(3)]

    @objective([*reals, *ordinals, *(Nominal(f"h{j}", (0, 1, 2, 3)) for j in range(2))])
    def value(configuration: Configuration) -> float:
        h = [configuration[f"h{j}"] for j in range(2)]
        z = np.array([*(configuration[f"x{i}"] for i in range(5)), *(configuration[f"k{i}"] / 6 - 1 for i in range(3))])
        z = z - centre - moves[0, h[0]] - moves[1, h[1]]
        return float(np.log1p((scales * (rotation @ z) ** 2).sum()) + offsets[0, h[0]] + offsets[1, h[1]])

    return value


rotated = ellipsoid(30.0, 31)
rotated_steep = ellipsoid(300.0, 32)


@objective(
    [Real("x0", 0.0, 1.0), Real("x1", 0.0, 1.0), Ordinal("k0", tuple(range(80))), Ordinal("k1", tuple(range(99)))]
)
def cliff(configuration: Configuration) -> float:
    """A cost that falls towards a curved border; beyond it, a penalty of ten times the cost's range."""
    x0, x1 = configuration["x0"], configuration["x1"]
    a, b = configuration["k0"] / 79, configuration["k1"] / 98
    cost = (a - 0.1) ** 2 + (b - 0.15) ** 2 + a * b + 0.3 * (x0 - 0.37) ** 2 + 0.2 * (x1 - 0.71) ** 2
    margin = a + b + 0.3 * math.sin(5 * x0) * x1 - 0.62
    return cost if margin >= 0 else 3.0 - 10.0 * margin


@objective([Ordinal(f"k{i}", tuple(range(12, 61))) for i in range(4)])
def gear_train(configuration: Configuration) -> float:
    """log10 of the squared error of the ratio of two pairs of gears to 1 / 6.931; 2.7e-12 at best (Sandgren 1990)."""
    a, b, c, d = (configuration[f"k{i}"] for i in range(4))
    return math.log10((1 / 6.931 - a * b / (c * d)) ** 2 + 1e-12)


def bits_problem(count: int, energy: Callable[[Vector], float]) -> Problem:
    """Return a function of the signs of `count` bits."""

    @objective([Nominal(f"h{j}", (0, 1)) for j in range(count)])
    def value(configuration: Configuration) -> float:
        return energy(np.array([2.0 * configuration[f"h{j}"] - 1.0 for j in range(count)]))

    return value


def merit(signs: Vector) -> float:
    """Minus the merit factor of a sequence."""
    n = len(signs)
    return float(-n * n / (2 * (np.correlate(signs, signs, "full")[n:] ** 2).sum()))


def quadratic(count: int, pairs: list[tuple[int, int]], seed: int) -> Callable[[Vector], float]:
    """Return a quadratic form with standard normal couplings of the pairs and fields of the signs."""
    rng = np.random.default_rng(seed)
    first, second = np.array(pairs).T
    couplings, fields = rng.standard_normal(len(pairs)), 0.5 * rng.standard_normal(count)
    return lambda s: float(couplings @ (s[first] * s[second]) + fields @ s)


TORUS = [(6 * i + j, 6 * k + m) for i in range(4) for j in range(6) for k, m in (((i + 1) % 4, j), (i, (j + 1) % 6))]
labs30 = bits_problem(30, merit)
qubo = bits_problem(30, quadratic(30, [(i, j) for j in range(30) for i in range(j)], 41))
ising = bits_problem(24, quadratic(24, TORUS, 42))


@objective(list(joint_space().variables))
def joint_like(configuration: Configuration) -> float:
    """A synthetic error of the joint space: effects of values, of pairs of values, and a bowl over the schedule.

    It is drawn at random and has nothing to do with trainings but the space and the rough size of the effects.
    """
    space = joint_space()
    single, paired, centre = _joint_effects()
    values = [variable.vertices.index(configuration[variable.name]) for variable in space.discrete]
    x = space.encode(configuration)[: len(space.continuous)] - centre
    cell = sum(single[p][v] for p, v in enumerate(values))
    cell += sum(paired[p, q][v, w] for p, v in enumerate(values) for q, w in enumerate(values) if q < p)
    return float(0.1 + 0.02 * np.tanh(cell) + 0.3 * np.tanh((x**2).sum()) + 0.1 * abs(x[0]) * (1 + np.tanh(cell)))


@cache
def _joint_effects() -> tuple[list[Vector], dict[tuple[int, int], Vector], Vector]:
    rng, space = np.random.default_rng(51), joint_space()
    sizes = [len(variable.vertices) for variable in space.discrete]
    single = [rng.normal(0, 0.3, size) for size in sizes]
    paired = {(p, q): rng.normal(0, 0.1, (sizes[p], sizes[q])) for p in range(len(sizes)) for q in range(p)}
    return single, paired, rng.uniform(0.2, 0.8, len(space.continuous))


@objective(
    [
        Real("C", 1e-3, 1e3, log=True),
        Real("gamma", 1e-4, 1e1, log=True),
        Nominal("kernel", ("linear", "rbf", "poly", "sigmoid")),
        Nominal("scaling", ("none", "standard", "minmax", "robust")),
        Nominal("weights", ("equal", "balanced")),
    ]
)
def svc_cancer(configuration: Configuration) -> float:
    """The error of support vectors by five folds of scikit-learn's breast cancer table, of 200 of its rows."""
    from sklearn.datasets import load_breast_cancer
    from sklearn.model_selection import StratifiedKFold, cross_val_score
    from sklearn.pipeline import make_pipeline
    from sklearn.svm import SVC

    X, y = load_breast_cancer(return_X_y=True)
    rows = np.random.default_rng(0).permutation(len(y))[:200]
    model = SVC(
        C=configuration["C"],
        gamma=configuration["gamma"],
        kernel=configuration["kernel"],
        class_weight=None if configuration["weights"] == "equal" else "balanced",
        max_iter=5_000,
    )
    pipeline = make_pipeline(make_scaler(configuration["scaling"]), model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that max_iter ended a fit, which is part of the problem
        return float(1 - cross_val_score(pipeline, X[rows], y[rows], cv=StratifiedKFold(5)).mean())


def _random_bits(count: int, seed: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(0, 2, count)
