"""BO-FM as an optimizer: pending trials, awkward objectives, spaces of one kind."""

import itertools
import json
import pickle
from typing import Any

import numpy as np
import pytest

from fmnas.optimizers import BOFM, OptimizerError, random_design
from fmnas.optimizers.bofm import Mode
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.search import SearchSettings, SearchState, Surface
from fmnas.search_spaces import Configuration, Integer, Nominal, Real, Space, Trial
from fmnas.search_spaces.records import FALLBACK, INITIAL, MODEL, RANDOM

pytestmark = pytest.mark.slow

QUICK = {"mode": Mode(FitSettings(starts=2, screening=5, finalists=1), SearchSettings(100, 30, 3, 5, 5))}
MIXED = Space(
    [Real("x", 0.0, 1.0), Nominal("op", ["a", "b", "c"]), Integer("k", 0, 4), Real("rate", 0.1, 10, log=True)]
)
DISCRETE = Space([Nominal("op", list("abcdefgh")), Integer("k", 0, 7), Nominal("mode", list("rstuv"))])
CONTINUOUS = Space([Real("x", 0.0, 1.0), Real("z", -1.0, 1.0)])
TWELVE = Space([Nominal("op", ["a", "b", "c"]), Integer("k", 0, 3)])


def score(configuration: Configuration) -> float:
    """A smooth bowl over all variables."""
    total = 0.0
    for name, best in (("x", 0.3), ("z", 0.2), ("k", 3)):
        if name in configuration:
            total += (float(configuration[name]) - best) ** 2
    return total + 0.1 * len(set("ae") ^ {str(configuration.get("op", "a"))})


def build_optimizer(space: Space, design: int = 3, **settings: Any) -> BOFM:
    seed = settings.setdefault("seed", 0)
    return BOFM(space, initial_design=random_design(space, design, seed), **{**QUICK, **settings})


def run_trials(optimizer: BOFM, count: int, objective: Any = score) -> list[Trial]:
    trials = []
    for _ in range(count):
        trial = optimizer.ask()
        optimizer.tell(trial, objective(trial.configuration))
        trials.append(trial)
    return trials


def key(trial: Trial | None) -> str:
    return json.dumps(trial.configuration)


KINDS = {"mixed": MIXED, "discrete": DISCRETE, "continuous": CONTINUOUS}
WITHOUT_A_MODEL = ("moddif", "continuous")  # its kernel is constant there


@pytest.mark.parametrize(
    ("kernel", "kind"),
    sorted({*itertools.product(["modlap", "moddif", "mixture", "kernel-modulated"], KINDS)} - {WITHOUT_A_MODEL}),
)
def test_after_the_design_the_model_suggests(kernel: str, kind: str) -> None:
    space = KINDS[kind]
    trials = run_trials(build_optimizer(space, kernel=kernel), 8)
    assert [t.origin for t in trials] == [INITIAL] * 3 + [MODEL] * 5
    assert len({key(t) for t in trials}) == 8
    for trial in trials:
        space.validate(trial.configuration)
        assert trial.note == ""


def test_a_kernel_that_would_be_constant_is_refused() -> None:
    with pytest.raises(OptimizerError, match="moddif"):
        build_optimizer(CONTINUOUS, kernel="moddif")


@pytest.mark.parametrize("is_forgotten", [False, True], ids=["pending", "forgotten"])
def test_a_trial_without_a_result_is_not_asked_for_again(is_forgotten: bool) -> None:
    optimizer = build_optimizer(MIXED)
    run_trials(optimizer, 10)
    first = optimizer.ask()
    if is_forgotten:
        optimizer.forget(first)
    second = optimizer.ask()
    assert np.abs(MIXED.encode(second.configuration) - MIXED.encode(first.configuration)).max() > 0.1


def test_penalties_hide_nothing() -> None:
    """A quarter of the space costs a billion times what counts; the minimum is 0.1."""

    def penalise(configuration: Configuration) -> float:
        return 1e9 if float(configuration["x"]) > 0.75 else score(configuration)

    for seed in range(3):
        optimizer = build_optimizer(MIXED, design=10, seed=seed)
        objectives = [penalise(trial.configuration) for trial in run_trials(optimizer, 30, penalise)]
        assert max(objectives[:10]) == 1e9
        assert min(objectives) - 0.1 < 0.1 * (min(objectives[:10]) - 0.1)


@pytest.mark.parametrize(("seed", "objective"), [(2, score), (0, lambda c: 0.25)], ids=["model", "all equal"])
def test_pending_asks_differ_in_a_small_space(seed: int, objective: Any) -> None:
    optimizer = BOFM(TWELVE, seed=seed, initial_design=random_design(TWELVE, 3, seed))
    run_trials(optimizer, 3, objective)
    assert len({key(optimizer.ask()) for _ in range(8)}) == 8


def test_the_same_point_with_two_results() -> None:
    point: Configuration = {"x": 0.5, "op": "a", "k": 2, "rate": 1.0}
    other: Configuration = {"x": 0.1, "op": "b", "k": 0, "rate": 0.2}
    optimizer = BOFM(MIXED, initial_design=[point, point, other, point], **QUICK)
    trials = run_trials(optimizer, 6)
    assert [t.origin for t in trials[4:]] == [MODEL, MODEL]
    assert {key(t) for t in trials[4:]}.isdisjoint({json.dumps(point), json.dumps(other)})


@pytest.mark.parametrize(
    "objective",
    [
        lambda c: 1e6 if float(c["x"]) > 0.6 else score(c),
        lambda c: -1e6 if c["op"] == "b" else score(c),
        lambda c: 1e9 + score(c),
        lambda c: 1e-15 * score(c),
    ],
    ids=["outlier above", "outlier below", "far from zero", "very small"],
)
def test_objectives_of_any_size(objective: Any) -> None:
    trials = run_trials(build_optimizer(MIXED, design=5), 9, objective)
    assert [t.origin for t in trials[5:]] == [MODEL] * 4


def test_a_suggestion_does_not_depend_on_the_unit_of_the_objective() -> None:
    assert run_trials(build_optimizer(MIXED), 6) == run_trials(build_optimizer(MIXED), 6, lambda c: 4.0 * score(c))


def test_log_objective_models_the_logarithm() -> None:
    logged = run_trials(build_optimizer(MIXED, log_objective=True), 6, lambda c: 0.01 + score(c))
    assert logged == run_trials(build_optimizer(MIXED), 6, lambda c: float(np.log(0.01 + score(c))))
    assert logged != run_trials(build_optimizer(MIXED), 6, lambda c: 0.01 + score(c))


def test_the_budget_does_not_change_what_is_suggested() -> None:
    assert run_trials(build_optimizer(MIXED, evaluations=9), 9) == run_trials(build_optimizer(MIXED), 9)


def test_a_pickled_one_continues_the_same() -> None:
    optimizer = build_optimizer(MIXED)
    run_trials(optimizer, 5)
    optimizer.ask()
    assert pickle.loads(pickle.dumps(optimizer)).ask() == optimizer.ask()


def test_a_small_space_is_explored_to_its_end_and_then_chance_chooses() -> None:
    trials = run_trials(build_optimizer(TWELVE), 13)
    assert len({key(trial) for trial in trials[:12]}) == 12
    assert [trial.fallback for trial in trials] == [*[""] * 12, FALLBACK]


def test_a_variable_with_too_many_values_is_refused_at_once() -> None:
    BOFM(Space([Integer("n", 1, 2000)]), initial_design=[])
    with pytest.raises(OptimizerError, match=r"n has 2001 values.* 2000.*Real"):
        BOFM(Space([Integer("n", 1, 2001)]), initial_design=[])


def test_a_search_that_finds_nothing_feasible_is_not_taken_for_one_of_known_points() -> None:
    class Nothing(BOFM):
        def candidates(self, surface: Surface, state: SearchState) -> Points:
            return super().candidates(surface, state).select(slice(0))

    trial = run_trials(Nothing(MIXED, initial_design=random_design(MIXED, 3, 0), **QUICK), 4)[-1]
    assert (trial.origin, trial.fallback, trial.note) == (RANDOM, FALLBACK, "no candidate was feasible")
    assert trial.memo


def test_equal_results_leave_it_to_chance() -> None:
    trial = run_trials(build_optimizer(MIXED, design=2), 3, lambda c: 0.5)[-1]
    assert (trial.origin, trial.fallback) == (RANDOM, FALLBACK)
    assert "all results are equal" in trial.note
