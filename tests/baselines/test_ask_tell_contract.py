"""The rules of fmnas.testing on every optimizer of the registry and on adapters of strangers."""

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

from fmnas.optimizers import BayesianOptimizer, Optimizer, random_design
from fmnas.optimizers.bofm import Mode
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.search import SearchSettings
from fmnas.optimizers.options import get_parameters
from fmnas.platform.registry import OPTIMIZERS, OptimizerEntry
from fmnas.search_spaces import Space, joint_space
from fmnas.search_spaces.records import INITIAL, PROMOTION, RANDOM
from fmnas.testing import OptimizerContract, Subject
from fmnas.testing.optimizers import (
    Suggestions,
    check_restored,
    require_same_suggestions,
    suggest_on_all_spaces,
)
from fmnas.testing.subject import CONSTRAINED, DESIGN, DESIGN_SEED, EPOCHS, SPACES, run_sequentially

pytestmark = pytest.mark.slow

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
    return Subject(build_of(row), row.takes_initial_design, frozenset(origins), fidelities, parallel=True)


SUBJECTS = {name: subject_of(row) for name, row in ROWS.items()}
SLOW_TO_ASK = ("smac", "botorch")
"""Those whose packages take tenths of a second for a suggestion, under all settings."""
QUICK_TO_ASK = [
    name for name, row in ROWS.items() if not issubclass(row.optimizer, BayesianOptimizer) and name not in SLOW_TO_ASK
]


class TestOptimizers(OptimizerContract):
    """Every rule, on every optimizer and space."""

    @pytest.fixture(params=list(SUBJECTS))
    def subject(self, request: pytest.FixtureRequest) -> Subject:
        return SUBJECTS[request.param]

    def test_another_process_suggests_the_same(self) -> None:  # type: ignore[override]
        """Once for all of them, below."""


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_joint_space(name: str) -> None:
    """The cell and its training: large, with categories of every sort."""
    space = joint_space()
    optimizer = SUBJECTS[name].build(space, 0)
    trials = run_sequentially(optimizer, 6)
    assert optimizer.chooses in SUBJECTS[name].origins
    for trial in trials:
        space.validate(trial.configuration)
    assert len({json.dumps(trial.configuration) for trial in trials}) == 6


@pytest.mark.parametrize("name", QUICK_TO_ASK)
@given(
    seed=st.integers(0, 2**20),
    cut=st.integers(0, 60),
    space=st.sampled_from([*SPACES.values(), *CONSTRAINED.values()]),
)
@settings(max_examples=15)
def test_restored_from_any_history(name: str, seed: int, cut: int, space: Space) -> None:
    check_restored(SUBJECTS[name], space, seed, cut)


def suggest_with_all() -> dict[str, Suggestions]:
    """Trials of every optimizer on every space, as plain data."""
    return {name: suggest_on_all_spaces(subject) for name, subject in SUBJECTS.items()}


def test_another_process_suggests_the_same(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    command = [sys.executable, str(Path(__file__).resolve())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment) as other:
        here = suggest_with_all()  # meanwhile
        theirs = json.loads(other.communicate()[0])
    assert list(here) == list(theirs)
    for name, suggested in here.items():
        assert all(suggested.values()), f"{name} refuses a space"
        require_same_suggestions(suggested, theirs[name])


def test_packages_are_loaded_by_their_users_alone() -> None:
    packages = {"hpbandster", "ConfigSpace", "statsmodels", "optuna", "smac", "botorch"}
    code = f"import sys, fmnas.baselines; print(sorted({packages} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


if __name__ == "__main__":
    json.dump(suggest_with_all(), sys.stdout)
