"""The mixed functions: their minima are where the table says."""

import itertools

import numpy as np
import pytest
import sample_efficiency

from fmnas.search_spaces import Nominal, Trial


@pytest.mark.parametrize(
    ("name", "at", "least"),
    [
        ("levy", 1.0, 0.0),
        ("styblinski_tang", -2.903534, -2 * 39.166166 - 4 * 39),
        ("rosenbrock", 1.0, 0.0),
        ("rastrigin", 0.0, 0.0),
    ],
)
def test_the_least_over_all_nominal_values_is_the_table_s(name: str, at: float, least: float) -> None:
    problem = sample_efficiency.problem_of(f"mixed_{name}")
    nominal = {each.name: each.vertices for each in problem.space.discrete if isinstance(each, Nominal)}
    real = {each.name: at for each in problem.space.continuous}
    values = [
        problem.trainer.evaluate(Trial(0, {**real, **dict(zip(nominal, chosen, strict=True))}, 1, "random")).objective
        for chosen in itertools.product(*nominal.values())
    ]
    assert min(values) == pytest.approx(least, abs=1e-4)
    assert values.count(min(values)) == 1
    assert np.median(values) > min(values) + 1
