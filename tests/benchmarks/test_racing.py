"""What racing saves: hopeless configurations cost one seed, equal ones all."""

import numpy as np
import pytest
from racing import draw, race

from fmnas.platform.runner.racing import MIN_RESULTS
from fmnas.search_spaces import Evaluation


def evaluations(*means: float) -> list[Evaluation]:
    return [Evaluation(mean, errors=(mean - 0.01, mean + 0.01, mean - 0.01, mean + 0.01)) for mean in means]


def test_hopeless_configurations_cost_their_first_seed() -> None:
    drawn = evaluations(*[0.1] * MIN_RESULTS, *[0.9] * (10 - MIN_RESULTS))
    saved, higher = race(drawn, 1, 2.0)
    assert saved == pytest.approx((10 - MIN_RESULTS) / 10 * 3 / 4)
    assert higher == 0.0


def test_the_best_one_is_missed_if_its_first_seed_is_bad() -> None:
    unlucky = Evaluation(0.05, errors=(0.2, 0.0, 0.0, 0.0))
    _, higher = race([*evaluations(*[0.1] * MIN_RESULTS), unlucky], 1, 2.0)
    assert higher == pytest.approx(0.05)


def test_a_draw_keeps_the_errors_of_each() -> None:
    results = evaluations(0.1, 0.2, 0.3)
    drawn = draw(results, 3, np.random.default_rng(0))
    assert sorted(sorted(result.errors) for result in drawn) == sorted(sorted(result.errors) for result in results)
