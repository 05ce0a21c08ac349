"""Hyperband: its rungs, its brackets, and that its configurations are random search's."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.baselines import RandomSearch
from fmnas.baselines.asha import ASHA
from fmnas.baselines.brackets import ROUNDING_MARGIN, brackets, rungs
from fmnas.baselines.dehb import DEHB
from fmnas.baselines.external import suppress_logs
from fmnas.baselines.hyperband import Hyperband
from fmnas.optimizers import Optimizer
from fmnas.optimizers.optimizer import SearchPlan
from fmnas.search_spaces import Integer, Real, Space, Trial
from fmnas.search_spaces.records import PROMOTION, RANDOM

pytestmark = pytest.mark.slow

SPACE = Space([Real("x", 0.0, 1.0), Integer("k", 0, 4)])
COUNTS, ETAS = st.integers(1, 300), st.integers(2, 10)


def run_trials(optimizer: Optimizer, count: int) -> list[Trial]:
    trials = []
    for _ in range(count):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, float(trial.configuration["x"]))
        trials.append(trial)
    return trials


@pytest.mark.parametrize(
    ("epochs", "eta", "min_epochs", "expected"),
    [
        *((25, 3, 1, [1, 3, 8, 25]), (81, 3, 1, [1, 3, 9, 27, 81]), (25, 3, 3, [3, 8, 25]), (1, 3, 1, [1])),
        *((25, 3, 9, [25]), (25, 3, 25, [25]), (25, 3, 26, [25]), (4, 2, 1, [1, 2, 4]), (9, 2, 1, [1, 2, 5, 9])),
    ],
)
def test_rungs(epochs: int, eta: int, min_epochs: int, expected: list[int]) -> None:
    assert [round(budget) for budget in rungs(epochs, eta, min_epochs)] == expected


@given(epochs=COUNTS, eta=ETAS, min_epochs=COUNTS)
def test_each_rung_trains_longer_and_the_last_one_in_full(epochs: int, eta: int, min_epochs: int) -> None:
    budgets = [round(budget) for budget in rungs(epochs, eta, min_epochs)]
    assert budgets == sorted(set(budgets))
    assert budgets[-1] == epochs
    assert budgets[0] >= min(min_epochs, epochs)


@given(epochs=COUNTS, eta=ETAS)
def test_a_rung_has_the_most_trials_in_the_bracket_that_begins_with_it(epochs: int, eta: int) -> None:
    cycle = brackets(epochs, eta)
    for first, (sizes, budgets) in enumerate(cycle):
        assert budgets == cycle[0][1][first:]
        assert all(1 <= high <= low for low, high in pairwise(sizes))
        assert all(sizes[0] >= earlier[first - i] for i, (earlier, _) in enumerate(cycle[:first]))


def test_each_rung_has_one_of_eta_trials_of_the_rung_below() -> None:
    """Also where a power of eta is rounded: 343 / 49 is 7."""
    assert brackets(200, 7)[0][0] == (343, 49, 7, 1)
    assert brackets(10_000, 3)[0][0][-4:] == (27, 9, 3, 1)


@pytest.mark.parametrize("epochs", [3, 9, 25, 100])
def test_the_brackets_are_hpbandsters(epochs: int) -> None:
    with suppress_logs("hpbandster"):
        from hpbandster.optimizers import HyperBand
    budgets = np.array(rungs(epochs))
    master = SimpleNamespace(eta=3, max_SH_iter=len(budgets), budgets=budgets, config_generator=SimpleNamespace())
    master.config_generator.get_config = None
    for i, (sizes, expected) in enumerate(brackets(epochs)):
        iteration = HyperBand.get_next_iteration(master, i)
        assert iteration.num_configs == list(sizes)
        assert iteration.budgets == pytest.approx(expected)
    least = 1.0 - ROUNDING_MARGIN
    assert least <= budgets[0] < 3 * least


def test_new_configurations_are_those_of_random_search_and_the_best_are_promoted() -> None:
    trials = run_trials(Hyperband(SPACE, seed=5, epochs=9), 20)
    drawn = run_trials(RandomSearch(SPACE, seed=5, epochs=9), 20)
    assert [trial.epochs for trial in trials] == [1] * 9 + [3] * 3 + [9] + [3] * 3 + [9] + [9] * 3
    for trial in trials:
        source = drawn[trial.id] if trial.parent is None else trials[trial.parent]
        assert trial.configuration == source.configuration
        assert trial.origin == (RANDOM if trial.parent is None else PROMOTION)
    ranked = sorted(trials[:9], key=lambda trial: float(trial.configuration["x"]))
    assert {trial.parent for trial in trials[9:12]} == {trial.id for trial in ranked[:3]}
    best = min(trials[9:12], key=lambda trial: float(trial.configuration["x"]))
    assert trials[12].parent == best.id, "its last trial, which trained longest"


@pytest.mark.parametrize("optimizer", [Hyperband, ASHA])
def test_one_rung_is_named_in_a_warning(optimizer: type[Optimizer]) -> None:
    plan = SearchPlan(evaluations=50, epochs=9, dimensions=2, option="-o optimizers.0.")
    assert optimizer.config_warning({"eta": 3, "min_epochs": 3}, plan) == ""
    for options in ({"min_epochs": 9}, {"eta": 100}):
        warning = optimizer.config_warning(options, plan)
        assert "-o optimizers.0.min_epochs=1" in warning
    assert optimizer.config_warning({}, SearchPlan(50, epochs=1, dimensions=2)) != ""
    assert optimizer.config_warning({}, SearchPlan(50, epochs=2, dimensions=2)) == ""


@pytest.mark.parametrize(
    ("epochs", "options"), [(9, {}), (1, {}), (25, {"eta": 4}), (9, {"min_epochs": 3}), (9, {"eta": 9})]
)
def test_dehb_has_its_first_child_after_just_the_epochs_that_are_said(epochs: int, options: dict[str, int]) -> None:
    optimizer, spent = DEHB(SPACE, epochs=epochs, **options), 0  # type: ignore[arg-type]  # of all of them
    while (trial := run_trials(optimizer, 1)[0]).origin != "mutation":
        spent += trial.epochs
    enough = spent // epochs + 1
    for evaluations in (enough - 1, enough):
        warning = DEHB.config_warning(options, SearchPlan(evaluations, epochs, 2, budget="evaluations"))
        assert warning.endswith(f"evaluations={enough}") == (evaluations < enough)
        assert bool(warning) == (evaluations < enough)
