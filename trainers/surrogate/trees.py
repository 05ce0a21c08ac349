"""Ensembles of regression trees as plain arrays: they predict the same numbers on every machine, without a library."""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from math import fsum
from typing import Any

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True, eq=False)
class Trees:
    """An ensemble whose prediction is a constant plus the value of one leaf of each tree.

    roots [T]: the first node of each tree. Of each node [N]: which feature is compared with which threshold, the node
    if it is at most that, and the node if it is above; a leaf leads to itself. values [N]: of leaves. constant: [].
    """

    roots: NDArray[np.int32]
    features: NDArray[np.int16]
    thresholds: NDArray[np.float64]
    low: NDArray[np.int32]
    high: NDArray[np.int32]
    values: NDArray[np.float64]
    constant: NDArray[np.float64]

    def predict(self, x: NDArray[np.float32]) -> float:
        """Return the prediction for features [F]. The sum is exact before it is rounded, whatever its order."""
        nodes = self.roots
        while True:
            are_low = x[self.features[nodes]] <= self.thresholds[nodes]
            following = np.where(are_low, self.low[nodes], self.high[nodes])
            if np.array_equal(following, nodes):
                return fsum([float(self.constant), *self.values[nodes].tolist()])
            nodes = following

    def to_arrays(self, prefix: str) -> dict[str, Any]:
        """Return the arrays by name, for a file."""
        return {f"{prefix}.{field.name}": getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any], prefix: str) -> "Trees":
        """Invert `to_arrays`."""
        return cls(**{field.name: arrays[f"{prefix}.{field.name}"] for field in fields(cls)})
