"""BOFMSampler: what BO-FM receives of a study's trials, and what becomes of its suggestions."""

import math
import pickle
from collections.abc import Iterator
from typing import Any

import optuna
import pytest
from optuna.distributions import CategoricalDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from fmnas.integrations.optuna import BOFMSampler, objectives
from fmnas.optimizers import OptimizerError

pytestmark = pytest.mark.slow

NINE = {"a": CategoricalDistribution("pqr"), "b": CategoricalDistribution([None, 1, "1"])}
"""A space of nine configurations."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


def bowl(trial: optuna.Trial) -> float:
    """Least, 0, at op = c, k = 5, x = 0.3, rate = 10^-2.5."""
    x, rate = trial.suggest_float("x", 0.0, 1.0), trial.suggest_float("rate", 1e-4, 1e-1, log=True)
    op, k = trial.suggest_categorical("op", list("abcde")), trial.suggest_int("k", 0, 7)
    return 0.4 * (op != "c") + 0.05 * (k - 5) ** 2 + 4 * (x - 0.3) ** 2 + 0.5 * (math.log10(rate) + 2.5) ** 2


def ask_next(study: optuna.Study, count: int, state: TrialState | None = None) -> list[tuple[Any, Any]]:
    """The configurations of NINE that are asked for: reported as failed, or left running with one parameter unasked."""
    trials = []
    for _ in range(count):
        trial = study.ask()
        trial.suggest_categorical("a", NINE["a"].choices)
        if state is not None:
            trial.suggest_categorical("b", NINE["b"].choices)
            study.tell(trial, state=state)
        trials.append(trial)
    return [(t.params["a"], t.params.get("b", t.relative_params["b"])) for t in trials]


def nine(sampler: BOFMSampler) -> optuna.Study:
    """A study of NINE with three trials."""
    study = optuna.create_study(sampler=sampler)
    for value, (a, b) in enumerate([("p", None), ("q", 1), ("r", "1")]):
        study.add_trial(create_trial(params={"a": a, "b": b}, distributions=NINE, value=float(value)))
    return study


def test_the_same_seed_gives_the_same_trials_and_maximising_the_negation_too() -> None:
    result = []
    for direction, sign in (("minimize", 1), ("minimize", 1), ("maximize", -1)):
        study = optuna.create_study(sampler=BOFMSampler(seed=3, n_startup_trials=4), direction=direction)
        study.optimize(lambda trial, sign=sign: sign * bowl(trial), n_trials=10)
        result.append([trial.params for trial in study.trials])
    assert result[0] == result[1] == result[2]


def test_running_trials_are_pending_with_what_they_have_not_asked_for_yet() -> None:
    study = nine(BOFMSampler(seed=0, n_startup_trials=3))
    assert len(set(ask_next(study, 6)) | {("p", None), ("q", 1), ("r", "1")}) == 9


@pytest.mark.filterwarnings("ignore:Choices for a categorical distribution should be")
def test_choices_may_have_any_type_also_while_a_trial_runs() -> None:
    study = optuna.create_study(sampler=BOFMSampler(seed=0, n_startup_trials=2))
    choices = [object, dict, (1, 2), (3,)]
    study.optimize(lambda trial: float(choices.index(trial.suggest_categorical("a", choices))), n_trials=2)
    suggested = [study.ask({"a": optuna.distributions.CategoricalDistribution(choices)}).params["a"] for _ in range(2)]
    tried = {trial.params["a"] for trial in study.get_trials(states=[TrialState.COMPLETE])}
    assert len({*tried, *suggested}) == min(4, len(tried) + 2)


def test_a_study_continues_with_another_sampler_and_a_pickled_one() -> None:
    study = nine(pickle.loads(pickle.dumps(BOFMSampler(seed=0, n_startup_trials=3))))
    first = ask_next(study, 3)
    study.sampler = BOFMSampler(seed=5, n_startup_trials=3)
    assert len({*first, *ask_next(study, 3), ("p", None), ("q", 1), ("r", "1")}) == 9


def trial_with(state: TrialState, value: float | None = None, **more: Any) -> FrozenTrial:
    return create_trial(state=state, value=value, **more)


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_results_received_from_each_state(sign: float) -> None:
    trials = [
        trial_with(TrialState.COMPLETE, sign * 2.0),
        trial_with(TrialState.COMPLETE, sign * 5.0),
        trial_with(TrialState.COMPLETE, math.inf * sign),
        trial_with(TrialState.COMPLETE, sign * 2.5, constraints={"memory": 0.1}),
        trial_with(TrialState.COMPLETE, sign * 2.5, constraints={"memory": 0.0}),
        trial_with(TrialState.PRUNED, intermediate_values={1: sign * 9.0, 7: sign * 3.0}),
        trial_with(TrialState.PRUNED, intermediate_values={1: sign * 1.0}),
        trial_with(TrialState.PRUNED, intermediate_values={1: sign * 8.0}),
        trial_with(TrialState.PRUNED),
        trial_with(TrialState.FAIL),
        trial_with(TrialState.RUNNING),
    ]
    assert objectives(trials, sign) == [2.0, 5.0, 5.0, 5.0, 2.5, 3.0, 2.0, 5.0, 5.0, 5.0, None]


def test_several_objectives_are_refused_with_a_way_out() -> None:
    study = optuna.create_study(directions=["minimize", "minimize"], sampler=BOFMSampler(seed=0))
    with pytest.raises(OptimizerError, match=r"2 objectives.*single direction.*GPSampler"):
        study.ask().suggest_float("x", 0.0, 1.0)


@pytest.mark.parametrize(
    "options", [{"kernel": "rbf"}, {"mode": "fast"}, {"n_startup_trials": -1}, {"n_startup_trials": "a"}, {"seed": -1}]
)
def test_options_that_cannot_be_are_refused_at_once(options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(OptimizerError, match=f"^{name} = .*it must be"):
        BOFMSampler(**options)
