"""The joint problem drawn from a surrogate of another kind: whether what simulated runs say depends on the kind.

    python benchmarks/second_surrogate.py                               # how well it predicts, beside the trees
    fmnas run joint_recorded -o problem=benchmarks/second_surrogate.py:JOINT_KERNEL -o workers.kind=simulated \
        -o fidelity.epochs=3 -o seed=SEED --out runs/kernel

`joint_recorded` has trees; here the same four targets are predicted by kernel ridge regression, which is continuous
where trees have steps. Its kernel exp(-WIDTH sum |x - z|) is on standardised logarithms of the features. WIDTH and
RIDGE were chosen by ten parts of the uniform configurations, before any simulated run.
"""

import argparse
import sys
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parent))  # a configuration may name this file from any folder

from surrogate import describe_facts
from surrogate_accuracy import lines_of_accuracy
from surrogate_data import Floats, read_observations
from surrogate_models import MODELS, Recorded, arrange, measure_flops, place_points

from fmnas.trainers.problem import Problem
from fmnas.trainers.recorded_table import read_table
from fmnas.trainers.surrogate.features import Features
from fmnas.trainers.surrogate.model import Surrogate
from fmnas.trainers.surrogate.problem import JOINT_RECORDED, SurrogateTrainer

RECORDED = Path(__file__).parent / "results" / "recorded"
FILES = tuple(RECORDED / f"{name}.npz" for name in ("uniform_800_images_3_epochs", "joint_comparison"))
WIDTH, RIDGE = 0.001, 0.01


class KernelRidge:
    """The regression of y [n] on features X [n, F]."""

    def __init__(self, X: NDArray[np.float32], y: Floats) -> None:
        self._scale = np.median(np.abs(X), axis=0) + 1e-9
        logs = _logs(X, self._scale)
        self._center, self._deviation = logs.mean(axis=0), logs.std(axis=0) + 1e-12
        self._Z, self._mean = (logs - self._center) / self._deviation, y.mean()
        gram = np.stack([self._kernel(z) for z in self._Z])
        self._weights = np.linalg.solve(gram + RIDGE * np.eye(len(y)), y - self._mean)

    def predict(self, x: NDArray[np.float32]) -> float:
        """Return the prediction for features [F]."""
        z = (_logs(x, self._scale) - self._center) / self._deviation
        return float(self._mean + self._kernel(z) @ self._weights)

    def _kernel(self, z: Floats) -> Floats:
        return np.asarray(np.exp(-WIDTH * np.abs(self._Z - z).sum(axis=1)))


def _logs(X: NDArray[np.float32], scale: Floats) -> Floats:
    return np.asarray(np.sign(X) * np.log1p(np.abs(X, dtype=float) / scale))


def fit_kernels(X: NDArray[np.float32], targets: dict[str, Floats]) -> dict[str, Any]:
    """Fit each model to the rows that have its target."""
    known = {name: ~np.isnan(targets[name]) for name in MODELS}
    return {name: KernelRidge(X[known[name]], targets[name][known[name]]) for name in MODELS}


def read_recorded() -> tuple[Recorded, Any]:
    """Return the recorded trainings as arrays, and their facts."""
    tables = [read_table(path) for path in FILES]
    observations = read_observations(tables)
    features = Features(measure_flops(), max(one.length for one in observations))
    return arrange(observations, features), describe_facts([t.header for t in tables], features, observations)


@cache
def fit_surrogate() -> Surrogate:
    """Fit the surrogate to all recorded trainings."""
    recorded, facts = read_recorded()
    models = fit_kernels(recorded.X, recorded.targets)
    return Surrogate(facts, models, place_points(recorded), "joint_kernel", str(FILES[-1]))


JOINT_KERNEL: Problem = replace(
    JOINT_RECORDED,
    build=lambda data, hardware: SurrogateTrainer(fit_surrogate()),
    load=lambda: None,
    dataset="",
)
"""The problem of a configuration."""


def main() -> None:
    """Print how well it predicts, as `surrogate.py validate` does for the trees."""
    argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0]).parse_args()
    recorded, facts = read_recorded()
    print("\n".join(lines_of_accuracy(replace(recorded, fit_rows=fit_kernels), facts.flops_weight)))


if __name__ == "__main__":
    main()
