"""The rules of fmnas.optimizers.contract, on every optimizer of the registry and on adapters of strangers."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.baselines.external import WrappedOptimizer
from fmnas.optimizers import BayesianOptimizer, Optimizer, random_design
from fmnas.optimizers.bofm import Mode
from fmnas.optimizers.contract import Subject, checks
from fmnas.optimizers.contract.play import CONSTRAINED, DESIGN, DESIGN_SEED, EPOCHS, SPACES, played
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.search import SearchSettings
from fmnas.optimizers.options import get_parameters
from fmnas.platform.registry import OPTIMIZERS, OptimizerEntry
from fmnas.search_spaces import Space, joint_space
from fmnas.search_spaces.records import INITIAL, PROMOTION, RANDOM

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
STRANGERS = {
    row.name: row
    for row in (
        OptimizerEntry("optuna-tpe", "optuna:TPESampler", "a sampler that follows from the trials"),
        OptimizerEntry("optuna-nsga", "optuna:NSGAIISampler", "a sampler with generations, which live in the study"),
        OptimizerEntry("ask-tell", f"{EXAMPLES}/ask_tell.py:make", "an object with ask and tell"),
    )
}
ROWS = {**OPTIMIZERS, **STRANGERS}

QUICK = Mode(
    FitSettings(starts=1, screening=0, finalists=1),
    SearchSettings(random_points=60, spray_points=20, starts=2, rounds=3, steps=3),
)
SMALL: dict[str, dict[str, Any]] = {
    "bo-fm": {"mode": QUICK},
    "regularized-evolution": {"population": 5, "tournament": 2},
    "tpe": {"startup": 4},
    "smac": {"challengers": 20, "local_searches": 1},
    "botorch": {"fit_steps": 5, "raw_samples": 8, "restarts": 1},
    "optuna-tpe": {"n_startup_trials": 4},
    "optuna-nsga": {"population_size": 4},
}
"""What makes an optimizer quick, or lets few asks show what it does; of others, their defaults will do."""
SHORT = ("bohb",)
"""Those that train for less than full fidelity, and promote."""


def build_of(row: OptimizerEntry) -> Callable[[Space, int], Optimizer]:
    """Builds the optimizer of a row, with the initial design if it takes one, and any model quick."""
    taken = get_parameters(row.optimizer)

    def build(space: Space, seed: int) -> Optimizer:
        provided = {"seed": seed, "epochs": EPOCHS, "initial_design": random_design(space, DESIGN, DESIGN_SEED)}
        given_ = {name: value for name, value in provided.items() if name in taken}
        optimizer = row.optimizer(space, **given_, **SMALL.get(row.name, {}))
        if isinstance(optimizer, BayesianOptimizer):
            optimizer.settings = replace(optimizer.settings, fit=QUICK.fit, search=QUICK.search)
        return optimizer

    return build


def subject_of(row: OptimizerEntry) -> Subject:
    """A row, with where its trials may come from and the epochs that they may have."""
    short = row.name in SHORT
    design = {INITIAL} if row.takes_initial_design else set[str]()
    origins = {RANDOM, row.optimizer.chooses} | design | ({PROMOTION} if short else set())
    fidelities = frozenset({1, 3, 9} if short else {EPOCHS})
    return Subject(build_of(row), row.takes_initial_design, frozenset(origins), fidelities)


SUBJECTS = {name: subject_of(row) for name, row in ROWS.items()}
TAKES_DESIGN = [name for name, subject in SUBJECTS.items() if subject.takes_design]
FOREIGN = [name for name, row in ROWS.items() if issubclass(row.optimizer, WrappedOptimizer)]
SLOW_TO_ASK = ("smac", "botorch")
"""Those whose packages take tenths of a second for a suggestion, whatever is set."""
QUICK_TO_ASK = [
    name for name, row in ROWS.items() if not issubclass(row.optimizer, BayesianOptimizer) and name not in SLOW_TO_ASK
]
ASKS = {name: 8 if name in FOREIGN else 40 if name in QUICK_TO_ASK else 14 for name in SUBJECTS}
"""How many asks show whether constraints are met: fewer of those that take long."""


@pytest.fixture(params=list(SUBJECTS))
def subject(request: pytest.FixtureRequest) -> Subject:
    return SUBJECTS[request.param]


@pytest.fixture(params=list(SPACES))
def space(request: pytest.FixtureRequest) -> Space:
    return SPACES[request.param]


def test_trials_are_valid_and_numbered(subject: Subject, space: Space) -> None:
    optimizer = subject.build(space, 0)
    trials = played(optimizer, checks.EXAMINED)
    assert optimizer.chooses in subject.origins
    checks.inside_the_space(space, trials)
    checks.numbered(trials)
    checks.plain_json(trials)
    checks.of_known_origin(subject, trials)
    checks.within_fidelity(trials)


@pytest.mark.parametrize("name", list(SUBJECTS))
@pytest.mark.parametrize("space", CONSTRAINED.values(), ids=list(CONSTRAINED))
@given(seed=st.integers(0, 2**20))
@settings(max_examples=2)
def test_constraints_are_respected(name: str, space: Space, seed: int) -> None:
    checks.meets_constraints(SUBJECTS[name], space, seed, ASKS[name])


def test_the_joint_space(subject: Subject) -> None:
    """The cell and its training: large, with categories of every sort."""
    space = joint_space()
    trials = played(subject.build(space, 0), 6)
    checks.inside_the_space(space, trials)
    assert len({json.dumps(trial.configuration) for trial in trials}) == 6


def test_same_seed_same_trials(subject: Subject, space: Space) -> None:
    checks.same_seed_same_trials(subject, space)


def test_another_seed_other_trials(subject: Subject, space: Space) -> None:
    checks.another_seed_other_trials(subject, space)


def test_restored_at_any_point_it_goes_on_the_same(subject: Subject, space: Space) -> None:
    checks.goes_on_the_same_from_any_point(subject, space)


@pytest.mark.parametrize("name", QUICK_TO_ASK)
@given(
    seed=st.integers(0, 2**20),
    cut=st.integers(0, 60),
    space=st.sampled_from([*SPACES.values(), *CONSTRAINED.values()]),
)
@settings(max_examples=15)
def test_restored_from_any_history(name: str, seed: int, cut: int, space: Space) -> None:
    checks.goes_on_the_same_from_a_history(SUBJECTS[name], space, seed, cut)


def test_results_may_come_in_any_order(subject: Subject, space: Space) -> None:
    checks.takes_results_in_any_order(subject, space)


def test_many_may_be_pending(subject: Subject, space: Space) -> None:
    checks.suggests_while_many_are_pending(subject, space)


def test_a_trial_is_told_once(subject: Subject, space: Space) -> None:
    checks.takes_a_result_once(subject, space)


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("whole", [False, True], ids=["float", "evaluation"])
def test_an_objective_is_finite(subject: Subject, bad: float, whole: bool) -> None:
    checks.takes_finite_results_alone(subject, SPACES["mixed"], bad, whole)


def test_a_forgotten_trial_is_gone(subject: Subject, space: Space) -> None:
    checks.forgets(subject, space)


@pytest.mark.parametrize("name", TAKES_DESIGN)
def test_the_initial_design_is_played_first(name: str, space: Space) -> None:
    checks.begins_with_the_initial_design(SUBJECTS[name], space)


def test_only_some_ask_for_less_than_full_fidelity(subject: Subject, space: Space) -> None:
    assert checks.asks_for_its_fidelities(subject, space) == subject.fidelities


def test_global_random_state_is_untouched(subject: Subject, space: Space) -> None:
    checks.leaves_global_random_state_alone(subject, space)


def test_global_random_state_has_no_influence(subject: Subject, space: Space) -> None:
    checks.does_not_heed_global_random_state(subject, space)


def everything() -> dict[str, checks.Suggested]:
    """Trials of every optimizer on every space, as plain data."""
    return {name: checks.suggested_everywhere(subject) for name, subject in SUBJECTS.items()}


def test_another_process_suggests_the_same(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    command = [sys.executable, str(Path(__file__).resolve())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment) as other:
        here = everything()  # meanwhile
        there = json.loads(other.communicate()[0])
    assert list(here) == list(there)
    for name, suggested in here.items():
        assert all(suggested.values()), f"{name} refuses a space"
        checks.same_in_another_process(suggested, there[name])


def test_packages_are_loaded_by_their_users_alone() -> None:
    packages = {"hpbandster", "ConfigSpace", "statsmodels", "optuna", "smac", "botorch"}
    code = f"import sys, fmnas.baselines; print(sorted({packages} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


if __name__ == "__main__":
    json.dump(everything(), sys.stdout)
