"""The claim in small: with the same budget and the same start, BO-FM ends lower than chance."""

import numpy as np

from fmnas.baselines import RandomSearch
from fmnas.optimizers import BOFM, Optimizer, random_design
from fmnas.optimizers.bofm import Mode
from fmnas.optimizers.search import SearchSettings
from fmnas.optimizers.surrogate import FitSettings
from fmnas.search_spaces import Configuration, Integer, Nominal, Real, Space

SPACE = Space(
    [Real("x", 0.0, 1.0), Real("rate", 1e-4, 1e-1, log=True), Nominal("op", list("abcde")), Integer("k", 0, 7)]
)
BUDGET, SEEDS = 20, range(5)


def objective(configuration: Configuration) -> float:
    """A bowl with its bottom, 0, at op = c, k = 5, x = 0.3, rate = 10^-2.5."""
    k, x, rate = int(configuration["k"]), float(configuration["x"]), np.log10(float(configuration["rate"]))
    return 0.4 * (configuration["op"] != "c") + 0.05 * (k - 5) ** 2 + 4 * (x - 0.3) ** 2 + 0.5 * (rate + 2.5) ** 2


def best_of(optimizer: Optimizer) -> float:
    for _ in range(BUDGET):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, objective(trial.configuration))
    return min(evaluation.objective for _, evaluation in optimizer.history)


def test_bofm_beats_random_search() -> None:
    search, fit = SearchSettings(200, 60, 4, 5, 5), FitSettings(starts=3, screening=8, finalists=1)
    pairs = []
    for seed in SEEDS:
        design = random_design(SPACE, 6, seed)
        model = BOFM(SPACE, seed=seed, initial_design=design, mode=Mode(fit, search))
        pairs.append((best_of(model), best_of(RandomSearch(SPACE, seed=seed, initial_design=design))))
    ours, chance = np.array(pairs).T
    assert (ours < chance).sum() >= 4
    assert np.median(ours) < 0.25 * np.median(chance)
