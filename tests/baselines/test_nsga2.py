"""NSGA-II: the same trials as Optuna's own sampler; restored; a genetic algorithm for one objective."""

from typing import Any

import optuna
import pytest
from optuna.samplers import NSGAIISampler

from fmnas.baselines.nsga2 import NSGA2
from fmnas.baselines.space_conversion import from_optuna, optuna_distributions, to_optuna
from fmnas.optimizers import OptimizerError, random_design
from fmnas.optimizers.optimizer import SearchPlan
from fmnas.search_spaces import Evaluation, LinearConstraint, Nominal, Real, Space, Trial
from fmnas.search_spaces.records import INITIAL, MODEL, RANDOM
from fmnas.trainers.functions.two_objectives import SPACE, zdt1_mixed

DESIGN = random_design(SPACE, 3, 0)


def evaluate(trial: Trial) -> Evaluation:
    f1, f2 = zdt1_mixed(trial.configuration)
    return Evaluation(f1 + f2, values=(f1, f2))


def run_trials(optimizer: NSGA2, count: int, evaluate: Any = evaluate) -> list[Trial]:
    trials = []
    for _ in range(count):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, evaluate(trial))
        trials.append(trial)
    return trials


def test_it_suggests_what_optunas_own_sampler_does() -> None:
    study = optuna.create_study(sampler=NSGAIISampler(population_size=8, seed=5), directions=["minimize"] * 2)
    for configuration in DESIGN:
        study.enqueue_trial(to_optuna(SPACE, configuration))
    expected = []
    for _ in range(40):
        trial = study.ask(optuna_distributions(SPACE))
        expected.append(from_optuna(SPACE, trial.params))
        study.tell(trial, zdt1_mixed(expected[-1]))
    trials = run_trials(NSGA2(SPACE, seed=5, population=8, initial_design=DESIGN), 40)
    assert [trial.configuration for trial in trials] == expected
    assert [trial.origin for trial in trials] == [INITIAL] * 3 + [RANDOM] * 5 + [MODEL] * 32


def test_restored_it_goes_on_the_same() -> None:
    optimizer, copy = (NSGA2(SPACE, seed=4, population=5, initial_design=DESIGN) for _ in range(2))
    for trial in run_trials(optimizer, 17):
        copy.restore(Trial.from_dict(trial.to_dict()))
        copy.tell(trial, evaluate(trial))
    assert run_trials(optimizer, 8) == run_trials(copy, 8)


def test_one_objective_counts_as_both() -> None:
    assert NSGA2(SPACE).values(Evaluation(3.0)) == (3.0, 3.0)
    assert NSGA2(SPACE).values(Evaluation(3.0, values=(1.0, 2.0))) == (1.0, 2.0)


def test_with_one_objective_it_minimises_that() -> None:
    def sum_objectives(trial: Trial) -> Evaluation:
        return Evaluation(sum(zdt1_mixed(trial.configuration)))

    optimizer = NSGA2(SPACE, seed=1, population=10)
    run_trials(optimizer, 150, sum_objectives)
    values = [evaluation.objective for _, evaluation in optimizer.history]
    assert min(values[10:]) < min(values[:10])
    assert sum(values[-10:]) < sum(values[:10])


def test_three_objectives_are_refused_and_the_trial_stays_pending() -> None:
    optimizer = NSGA2(SPACE)
    trial = optimizer.ask()
    assert trial is not None
    with pytest.raises(OptimizerError):
        optimizer.tell(trial, Evaluation(1.0, values=(1.0, 2.0, 3.0)))
    optimizer.tell(trial, Evaluation(1.0, values=(1.0, 2.0)))


def test_it_meets_constraints() -> None:
    space = Space(
        [Real("x", 0.0, 1.0), Real("y", 0.0, 1.0), Nominal("op", ["a", "b"])], [LinearConstraint({"x": 1, "y": 1}, 1)]
    )
    trials = run_trials(NSGA2(space, population=4), 20, lambda trial: Evaluation(0.0, values=(0.0, 1.0)))
    assert all(space.meets_constraints(trial.configuration) for trial in trials)


def test_a_population_of_one_is_refused() -> None:
    with pytest.raises(OptimizerError, match="population = 1: it must be at least 2"):
        NSGA2(SPACE, population=1)


def test_a_first_generation_that_takes_the_whole_budget_is_named_with_a_smaller_one() -> None:
    plan = SearchPlan(30, epochs=1, dimensions=7)
    assert NSGA2.config_warning({"population": 29}, plan) == ""
    assert "population=6" in NSGA2.config_warning({"population": 30}, plan)
