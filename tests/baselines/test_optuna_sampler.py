"""Optuna's samplers as optimizers: what the study holds, how it is restored, and what a sampler may do."""

import json
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from optuna.samplers import BaseSampler, NSGAIISampler, RandomSampler, TPESampler
from optuna.trial import TrialState

from fmnas.baselines.optuna_sampler import OptunaSampler, is_sampler, optimizer_from_sampler
from fmnas.baselines.space_conversion import from_optuna
from fmnas.optimizers import random_design
from fmnas.search_spaces import Integer, LinearConstraint, Nominal, Ordinal, Real, Space, Trial
from fmnas.search_spaces.records import FALLBACK, INITIAL, MODEL, RANDOM

KINDS = Space(
    [Real("rate", 1e-4, 1e-1, log=True), Nominal("op", list("abc")), Integer("k", 0, 7), Ordinal("w", [8, 16])]
)
DESIGN = random_design(KINDS, 3, 0)


def build_optimizer(sampler: type[Any], space: Space = KINDS, **given: Any) -> OptunaSampler:
    return optimizer_from_sampler(sampler)(space, **given)


def ask(optimizer: OptunaSampler) -> Trial:
    return optimizer.ask()


def run_trials(optimizer: OptunaSampler, count: int) -> list[Trial]:
    trials = []
    for i in range(count):
        trials.append(ask(optimizer))
        optimizer.tell(trials[-1], float(trials[-1].configuration.get("k", i)))
    return trials


def tell_results(optimizer: OptunaSampler) -> list[tuple[Any, ...]]:
    trials = optimizer._study.get_trials()
    return [(trial.state, trial.value, trial.params, trial.system_attrs) for trial in trials]


def test_the_study_holds_every_trial_with_its_state() -> None:
    optimizer = build_optimizer(TPESampler, initial_design=DESIGN)
    trials = [ask(optimizer) for _ in range(5)]
    optimizer.tell(trials[3], 0.5)
    optimizer.tell(trials[0], 1.5)
    optimizer.forget(trials[4])
    states = [(trial.state, trial.value) for trial in optimizer._study.get_trials()]
    complete, running = TrialState.COMPLETE, TrialState.RUNNING
    assert states == [(complete, 1.5), (running, None), (running, None), (complete, 0.5), (TrialState.FAIL, None)]
    assert [from_optuna(optimizer.space, trial.params) for trial in optimizer._study.get_trials()] == [
        trial.configuration for trial in trials
    ]


@pytest.mark.parametrize("sampler", [TPESampler, NSGAIISampler, RandomSampler])
def test_restored_its_study_is_the_same(sampler: type[Any]) -> None:
    options = {"population_size": 3} if sampler is NSGAIISampler else {}
    optimizer, copy = (build_optimizer(sampler, seed=4, initial_design=DESIGN, **options) for _ in range(2))
    for _ in range(12):
        trial = ask(optimizer)
        copy.restore(Trial.from_dict(trial.to_dict()))
        for item in (optimizer, copy):
            item.tell(trial, float(trial.configuration["k"]))
    assert tell_results(optimizer) == tell_results(copy)
    assert ask(optimizer) == ask(copy)


def test_origins_tell_chance_from_the_rest() -> None:
    def origins(sampler: type[Any], **options: Any) -> list[str]:
        return [trial.origin for trial in run_trials(build_optimizer(sampler, initial_design=DESIGN, **options), 6)]

    assert origins(TPESampler, n_startup_trials=5) == [INITIAL] * 3 + [RANDOM, RANDOM, MODEL]
    assert origins(TPESampler) == [INITIAL] * 3 + [RANDOM] * 3
    assert origins(RandomSampler) == [INITIAL] * 3 + [RANDOM] * 3
    assert origins(NSGAIISampler) == [INITIAL] * 3 + [MODEL] * 3
    assert optimizer_from_sampler(RandomSampler).chooses == RANDOM
    assert optimizer_from_sampler(TPESampler).chooses == MODEL


def test_infeasible_draws_are_withdrawn_and_where_none_is_feasible_chance_chooses() -> None:
    rare = Space([Integer("k", 0, 999)], [LinearConstraint({"k": 1}, 499)])
    optimizer = build_optimizer(RandomSampler, rare)
    trials = run_trials(optimizer, 6)
    study = optimizer._study.get_trials()
    kept = [trial.params["k"] for trial in study if trial.state == TrialState.COMPLETE]
    assert kept == [trial.configuration["k"] for trial in trials]
    withdrawn = [trial.params["k"] for trial in study if trial.state == TrialState.FAIL]
    assert withdrawn
    assert min(withdrawn) >= 500
    hopeless = Space([Integer("k", 0, 99_999)], [LinearConstraint({"k": 1}, 0)])
    optimizer = build_optimizer(RandomSampler, hopeless)
    trial = ask(optimizer)
    assert (trial.configuration, trial.fallback) == ({"k": 0}, FALLBACK)
    optimizer.tell(trial, 0.0)
    states = [item.state for item in optimizer._study.get_trials()]
    assert states == [TrialState.FAIL] * 20 + [TrialState.COMPLETE]


def test_what_is_a_sampler() -> None:
    assert is_sampler(TPESampler)
    assert not is_sampler(TPESampler())
    assert not is_sampler(Path)


class Careless(BaseSampler):
    """Draws from every global random state."""

    def infer_relative_search_space(self, study: Any, trial: Any) -> dict[str, Any]:
        return {}

    def sample_relative(self, study: Any, trial: Any, search_space: Any) -> dict[str, Any]:
        return {}

    def sample_independent(self, study: Any, trial: Any, name: str, distribution: Any) -> Any:
        drawn = int(1e6 * (random.random() + np.random.random() + float(torch.rand(1))))
        return RandomSampler(seed=drawn).sample_independent(study, trial, name, distribution)


def test_what_a_sampler_draws_from_global_states_is_its_own() -> None:
    def run(seed: int) -> list[Trial]:
        random.seed(seed)
        np.random.seed(seed)
        torch.manual_seed(seed)
        before = random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()
        trials = run_trials(build_optimizer(Careless, seed=4), 4)
        assert (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist()) == before
        return trials

    assert run(1) == run(2)
    assert len({json.dumps(trial.configuration) for trial in run(1)}) == 4
