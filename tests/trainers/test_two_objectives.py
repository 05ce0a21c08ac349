"""Functions of two objectives: ZDT1 on mixed variables, and what a user's function may return."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from fmnas.search_spaces import Real, Trial
from fmnas.trainers import Problem, TrainerError, objective
from fmnas.trainers.functions.two_objectives import OBJECTIVES, SPACE, ZDT1_MIXED, zdt1_mixed

TWO = {"f": 1.0, "g": 2.0}
TRIAL = Trial(0, {"x": 0.25}, epochs=1, origin="random")


def configuration(x1: float, *others: float, level: int = 0) -> dict[str, Any]:
    reals = dict(zip(("x1", "x2", "x3"), (x1, *(others or (0.0, 0.0))), strict=True))
    return {**reals, **{f"h{j}": level for j in (1, 2, 3, 4)}}


def test_zdt1_has_its_published_front_and_its_worst_value_in_the_reference_point() -> None:
    for f1 in (0.0, 0.25, 0.81, 1.0):
        assert zdt1_mixed(configuration(f1)) == pytest.approx((f1, 1 - np.sqrt(f1)))
    assert zdt1_mixed(configuration(0.0, 1.0, 1.0, level=4)) == (0.0, 10.0)
    assert zdt1_mixed({**configuration(0.5, 0.5, 0.25), "h2": 3}) == pytest.approx((0.5, 3.25 - np.sqrt(0.5 * 3.25)))


@given(seed=st.integers(0, 10**6))
def test_no_result_is_below_the_front_or_above_the_reference_point(seed: int) -> None:
    f1, f2 = zdt1_mixed(SPACE.sample(np.random.default_rng(seed)))
    assert 1 - np.sqrt(f1) <= f2 <= OBJECTIVES["f2"]
    assert 0 <= f1 <= OBJECTIVES["f1"]
    assert ZDT1_MIXED.minimum is not None
    assert f1 + f2 >= ZDT1_MIXED.minimum - 1e-12


def test_the_single_objective_is_the_sum() -> None:
    evaluation = ZDT1_MIXED.trainer.evaluate(Trial(0, configuration(0.25), 1, "random"))
    assert evaluation.objective == ZDT1_MIXED.minimum == 0.75
    assert evaluation.objectives == evaluation.values == (0.25, 0.5)


def two(result: Any, **options: Any) -> Problem:
    return objective([Real("x", 0.0, 1.0)], **{"objectives": TWO, **options})(lambda configuration: result)


@pytest.mark.parametrize("result", [(1, 2.0), [np.float32(1), 2], np.array([1.0, 2.0]), torch.tensor([1, 2])])
def test_any_two_numbers_are_values(result: Any) -> None:
    evaluation = two(result, weights=(3.0, 0.5)).trainer.evaluate(TRIAL)
    assert (evaluation.values, evaluation.objective) == ((1.0, 2.0), 4.0)
    assert all(type(value) is float for value in evaluation.values)


def test_a_weighted_sum_that_is_not_finite_is_named() -> None:
    with pytest.raises(TrainerError, match=r"weighted sum .* inf"):
        two((1e308, 1e308)).trainer.evaluate(TRIAL)


@pytest.mark.parametrize("result", [1.0, None, "ab", (1.0,), (1.0, 2.0, 3.0), (1.0, np.nan), (1.0, True)])
def test_anything_else_is_named(result: Any) -> None:
    with pytest.raises(TrainerError, match=r"it (must )?return"):
        two(result).trainer.evaluate(TRIAL)


def test_with_log_objective_the_sum_must_be_positive() -> None:
    with pytest.raises(TrainerError, match="above 0"):
        two((1.0, -1.0), log_objective=True).trainer.evaluate(TRIAL)


@pytest.mark.parametrize(
    "options",
    [{"objectives": {"f": 1.0}}, {"objectives": {**TWO, "h": 1.0}}, {"weights": (1.0,)}, {"weights": (1.0, np.inf)}],
)
def test_one_or_three_objectives_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(TrainerError, match=r"objectives = .*reference point|weights"):
        two((1.0, 2.0), **options)


def test_a_reference_point_is_finite() -> None:
    with pytest.raises(TrainerError, match="objectives: g = nan"):
        two((1.0, 2.0), objectives={"f": 1.0, "g": np.nan})


def test_a_problem_knows_its_objectives() -> None:
    problem = two((1.0, 2.0), weights=(1.0, 0.5))
    assert problem.objectives == TWO
    assert "1 x f + 0.5 x g" in problem.objective
