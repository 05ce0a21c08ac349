"""BO-FM as an optimizer: pending trials, awkward objectives, spaces of one kind."""

import json
import math
import pickle
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fmnas.optimizers import BOFM, OptimizerError, random_design
from fmnas.optimizers.bofm import Mode
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.search import SearchSettings
from fmnas.search_spaces import Configuration, Integer, Nominal, Real, Space, SpaceError, Trial
from fmnas.search_spaces.records import INITIAL, MODEL, RANDOM

QUICK = {"mode": Mode(FitSettings(starts=2, screening=5, finalists=1), SearchSettings(100, 30, 3, 5, 5))}
MIXED = Space(
    [Real("x", 0.0, 1.0), Nominal("op", ["a", "b", "c"]), Integer("k", 0, 4), Real("rate", 0.1, 10, log=True)]
)
DISCRETE = Space([Nominal("op", list("abcdefgh")), Integer("k", 0, 7), Nominal("mode", list("rstuv"))])
CONTINUOUS = Space([Real("x", 0.0, 1.0), Real("z", -1.0, 1.0)])
TWELVE = Space([Nominal("op", ["a", "b", "c"]), Integer("k", 0, 3)])


def score(configuration: Configuration) -> float:
    """A smooth bowl over whatever is there."""
    total = 0.0
    for name, best in (("x", 0.3), ("z", 0.2), ("k", 3)):
        if name in configuration:
            total += (float(configuration[name]) - best) ** 2
    return total + 0.1 * len(set("ae") ^ {str(configuration.get("op", "a"))})


def built(space: Space, design: int = 3, **settings: Any) -> BOFM:
    seed = settings.setdefault("seed", 0)
    return BOFM(space, initial_design=random_design(space, design, seed), **{**QUICK, **settings})


def played(optimizer: BOFM, count: int, objective: Any = score) -> list[Trial]:
    trials = []
    for _ in range(count):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, objective(trial.configuration))
        trials.append(trial)
    return trials


def key(trial: Trial | None) -> str:
    assert trial is not None
    return json.dumps(trial.configuration)


@pytest.mark.parametrize("kernel", ["modlap", "moddif"])
@pytest.mark.parametrize("space", [MIXED, DISCRETE, CONTINUOUS], ids=["mixed", "discrete", "continuous"])
def test_after_the_design_the_model_suggests(space: Space, kernel: str) -> None:
    trials = played(built(space, kernel=kernel), 8)
    assert [t.origin for t in trials] == [INITIAL] * 3 + [MODEL] * 5
    assert len({key(t) for t in trials}) == 8
    for trial in trials:
        space.validate(trial.configuration)
        assert trial.note == ""


def test_ten_random_configurations_by_default() -> None:
    trials = played(BOFM(MIXED, seed=4, **QUICK), 11)
    assert [t.origin for t in trials] == [INITIAL] * 10 + [MODEL]
    assert [t.configuration for t in trials[:10]] == random_design(MIXED, 10, 4)


@pytest.mark.parametrize("space", [MIXED, DISCRETE, CONTINUOUS], ids=["mixed", "discrete", "continuous"])
def test_eight_pending_asks_are_eight_configurations(space: Space) -> None:
    optimizer = built(space)
    told = {key(t) for t in played(optimizer, 4)}
    pending = [optimizer.ask() for _ in range(8)]
    assert len({key(t) for t in pending} | told) == 12
    assert {t.origin for t in pending if t} == {MODEL}


@pytest.mark.parametrize("told", [6, 8, 10])
def test_a_pending_trial_is_not_asked_for_again(told: int) -> None:
    alone, ahead = built(MIXED), built(MIXED)
    for optimizer in (alone, ahead):
        played(optimizer, told)
    first = ahead.ask()
    assert first == alone.ask()
    alone.forget(first)
    second, without = ahead.ask(), alone.ask()
    near, far = (
        np.abs(MIXED.encode(t.configuration) - MIXED.encode(first.configuration)).max()  # type: ignore[union-attr]
        for t in (without, second)
    )
    assert near < 0.05, "whose trial is forgotten expects most where it did before"
    assert far > 0.1


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_small_space_is_explored_to_the_end(seed: int) -> None:
    optimizer = BOFM(TWELVE, seed=seed, initial_design=[{"op": "a", "k": 0}, {"op": "b", "k": 2}], **QUICK)
    assert len({key(t) for t in played(optimizer, 12)}) == 12


@pytest.mark.parametrize(("seed", "objective"), [(2, score), (0, lambda c: 0.25)], ids=["model", "all equal"])
def test_pending_asks_differ_in_a_small_space(seed: int, objective: Any) -> None:
    optimizer = BOFM(TWELVE, seed=seed, initial_design=random_design(TWELVE, 3, seed))
    played(optimizer, 3, objective)
    assert len({key(optimizer.ask()) for _ in range(8)}) == 8


def test_the_model_goes_on_when_the_best_lies_in_a_corner() -> None:
    optimizer = BOFM(CONTINUOUS, seed=0, initial_design=random_design(CONTINUOUS, 4, 0))
    trials = played(optimizer, 14, lambda c: float(c["x"]) + float(c["z"]))
    assert [t.note for t in trials if t.note] == []


def test_two_results_are_needed() -> None:
    optimizer = BOFM(MIXED, seed=0, initial_design=[], **QUICK)
    first, second = optimizer.ask(), optimizer.ask()
    assert first is not None
    assert second is not None
    assert (first.origin, second.origin) == (RANDOM, RANDOM)
    assert "fewer than two" in second.note
    optimizer.tell(first, 0.5)
    optimizer.tell(second, 0.7)
    third = optimizer.ask()
    assert third is not None
    assert third.origin == MODEL


def test_equal_results_leave_it_to_chance() -> None:
    trials = played(built(MIXED), 6, lambda c: 0.25)
    assert [(t.origin, "all results are equal" in t.note) for t in trials[3:]] == [(RANDOM, True)] * 3
    assert len({key(t) for t in trials}) == 6


def test_the_same_point_told_twice() -> None:
    point: Configuration = {"x": 0.5, "op": "a", "k": 2, "rate": 1.0}
    other: Configuration = {"x": 0.1, "op": "b", "k": 0, "rate": 0.2}
    optimizer = BOFM(MIXED, initial_design=[point, point, other, point], **QUICK)
    trials = played(optimizer, 6)
    assert [t.origin for t in trials[4:]] == [MODEL, MODEL]
    assert {key(t) for t in trials[4:]}.isdisjoint({json.dumps(point), json.dumps(other)})


@pytest.mark.parametrize(
    "objective",
    [
        lambda c: 1e6 if float(c["x"]) > 0.6 else score(c),
        lambda c: -1e6 if c["op"] == "b" else score(c),
        lambda c: 1e6 * score(c),
        lambda c: 1e9 + score(c),
        lambda c: 1e-6 * score(c),
        lambda c: 1e-15 * score(c),
    ],
    ids=["outlier above", "outlier below", "large", "far from zero", "small", "very small"],
)
def test_objectives_of_any_size(objective: Any) -> None:
    trials = played(built(MIXED, design=5), 9, objective)
    assert [t.origin for t in trials[5:]] == [MODEL] * 4


def test_a_suggestion_does_not_depend_on_the_unit_of_the_objective() -> None:
    assert played(built(MIXED), 6) == played(built(MIXED), 6, lambda c: 4.0 * score(c))


def test_log_objective_models_the_logarithm() -> None:
    logged = played(built(MIXED, log_objective=True), 6, lambda c: 0.01 + score(c))
    assert logged == played(built(MIXED), 6, lambda c: float(np.log(0.01 + score(c))))
    assert logged != played(built(MIXED), 6, lambda c: 0.01 + score(c))


@pytest.mark.parametrize("bad", [0.0, -0.5])
def test_log_objective_needs_positive_values(bad: float) -> None:
    optimizer = built(MIXED, log_objective=True)
    with pytest.raises(OptimizerError) as caught:
        played(optimizer, 4, lambda c: bad)
    assert str(bad) in str(caught.value)
    assert "log_objective" in str(caught.value)
    assert "positive" in str(caught.value)


def test_unknown_kernel_is_explained() -> None:
    with pytest.raises(OptimizerError, match=r"kernel = 'rbf': it must be one of 'modlap', .*'adddif'"):
        BOFM(MIXED, kernel="rbf")


def test_kernels_suggest_differently() -> None:
    one, other = (played(built(MIXED, kernel=kernel), 8)[3:] for kernel in ("modlap", "moddif"))
    assert sum(a.configuration != b.configuration for a, b in zip(one, other, strict=True)) >= 2


@pytest.mark.parametrize("mode", ["default", "paper"])
def test_the_budget_does_not_change_what_is_suggested(mode: str) -> None:
    settings = {} if mode == "default" else {"mode": replace(QUICK["mode"], blended=False)}
    informed, uninformed = built(MIXED, evaluations=23, **settings), built(MIXED, **settings)
    assert played(informed, 23) == played(uninformed, 23)


def test_at_least_one_evaluation() -> None:
    with pytest.raises(OptimizerError, match=r"evaluations = 0: it must be at least 1"):
        BOFM(MIXED, evaluations=0)


def test_initial_design_must_fit_the_space() -> None:
    with pytest.raises(SpaceError, match="k = 9"):
        BOFM(MIXED, initial_design=[{"x": 0.5, "op": "a", "k": 9, "rate": 1.0}])


def test_survives_pickling_in_the_middle_of_a_run() -> None:
    optimizer = built(MIXED)
    played(optimizer, 5)
    waiting = optimizer.ask()
    assert waiting is not None
    copy = pickle.loads(pickle.dumps(optimizer))
    assert copy.ask() == optimizer.ask()
    for each in (copy, optimizer):
        each.tell(waiting, 0.1)
    assert copy.ask() == optimizer.ask()


def test_the_search_goes_where_the_model_expects_the_minimum() -> None:
    trials = played(built(MIXED, design=6), 24)
    late = [score(t.configuration) for t in trials[-5:]]
    assert min(score(t.configuration) for t in trials) < 0.15
    assert np.median(late) < np.median([score(t.configuration) for t in trials[:6]])
    assert math.isfinite(sum(late))
