"""Which observations a fit looks at where there are many: the best ones always, and others by chance."""

from typing import Any

import numpy as np
import pytest
from torch import Tensor

from fmnas.optimizers.gp.fit import FitSettings, Surrogate
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.frequency_modulation import FAST_KERNELS
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Likelihood
from fmnas.search_spaces import Integer, Nominal, Real, Space

SPACE = Space([Real("x", 0.0, 1.0), Nominal("a", ["p", "q", "r"]), Integer("k", 0, 4)])


class Watched(Surrogate):
    """Notes the observations of every likelihood that it makes: size -> y, sorted."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.seen: dict[int, np.ndarray] = {}

    def likelihood(self, points: Points, y: Tensor) -> Likelihood:
        assert len(points) == len(y)
        self.seen[len(y)] = np.sort(y.numpy())
        return super().likelihood(points, y)


def seen_by_a_fit(problem: Any, settings: FitSettings, seed: int = 0) -> dict[int, np.ndarray]:
    surrogate = Watched(FMKernel(problem.space, FAST_KERNELS["modlap"]), settings)
    surrogate.fit(problem.points, problem.y, np.random.default_rng(seed))
    return surrogate.seen


@pytest.mark.parametrize(
    ("n", "settings", "sizes"),
    [
        (64, FitSettings(starts=1, screening=1), [64]),
        (130, FitSettings(starts=1, screening=1), [64, 130]),
        (410, FitSettings(starts=1, screening=1, iterations=1), [64, 400, 410]),
        (60, FitSettings(starts=1, screening=1, subset=8, largest=20), [8, 20, 60]),
    ],
)
def test_the_best_quarter_of_a_subset_are_the_best_of_all(
    make_problem: Any, n: int, settings: FitSettings, sizes: list[int]
) -> None:
    problem = make_problem(SPACE, n)
    seen, every = seen_by_a_fit(problem, settings), np.sort(problem.y.numpy())
    assert sorted(seen) == sizes
    for size, y in seen.items():
        np.testing.assert_array_equal(y[: size // 4], every[: size // 4])
        assert np.isin(y, every).all()


def test_the_other_three_quarters_are_drawn_from_all_that_are_left(make_problem: Any) -> None:
    problem = make_problem(SPACE, 60)
    settings = FitSettings(starts=1, screening=1, subset=20, iterations=1)
    drawn = [seen_by_a_fit(problem, settings, seed)[20][5:] for seed in range(30)]
    every = np.sort(problem.y.numpy())
    assert len({tuple(y) for y in drawn}) > 25
    assert np.isin(every[5:], np.concatenate(drawn)).all()
    middle = np.searchsorted(every, np.concatenate(drawn)).mean()
    assert middle == pytest.approx(32.0, abs=3.0), "the mean of ranks 5 to 59"
