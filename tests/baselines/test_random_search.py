"""Random search draws uniformly, and never its initial design again."""

import numpy as np

from fmnas.baselines import RandomSearch
from fmnas.search_spaces import Integer, Nominal, Real, Space
from fmnas.search_spaces.records import RANDOM

SPACE = Space([Real("rate", 1e-4, 1e-2, log=True), Nominal("op", ["a", "b", "c"]), Integer("k", 1, 4)])


def test_uniform_on_the_scale_and_over_the_vertices() -> None:
    optimizer = RandomSearch(SPACE, seed=0)
    trials = [optimizer.ask() for _ in range(1500)]
    configurations = [t.configuration for t in trials if t]
    units = SPACE.encode_all(configurations)
    np.testing.assert_allclose(np.quantile(units[:, 0], [0.25, 0.5, 0.75]), [0.25, 0.5, 0.75], atol=0.05)
    np.testing.assert_allclose(np.bincount(units[:, 1].astype(int)) / 1500, 1 / 3, atol=0.05)
    np.testing.assert_allclose(np.bincount(units[:, 2].astype(int)) / 1500, 1 / 4, atol=0.05)
    assert {t.origin for t in trials if t} == {RANDOM}
    assert abs(np.corrcoef(units.T) - np.eye(3)).max() < 0.1
