"""The optimizers that the contract suites of tests/baselines run: those of the registry and adapters of strangers."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from fmnas.optimizers import BayesianOptimizer, Optimizer, random_design
from fmnas.optimizers.bofm import Mode
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.search import SearchSettings
from fmnas.optimizers.options import get_parameters
from fmnas.platform.registry import OPTIMIZERS, OptimizerEntry
from fmnas.search_spaces import Space
from fmnas.search_spaces.records import INITIAL, PROMOTION, RANDOM
from fmnas.testing import Subject
from fmnas.testing.optimizers import Suggestions, suggest_on_all_spaces
from fmnas.testing.subject import DESIGN, DESIGN_SEED, EPOCHS

EXAMPLES = Path(__file__).resolve().parent.parent / "examples"
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
    "parego": {"mode": QUICK},
    "nsga2": {"population": 6},
    "regularized-evolution": {"population": 5, "tournament": 2},
    "bodi": {"anchors": 4},
    "hybo": {"samples": 1, "max_order": 2},
    "tpe": {"startup": 4},
    "smac": {"challengers": 20, "local_searches": 1},
    "botorch": {"fit_steps": 5, "raw_samples": 8, "restarts": 1},
    "gp-sa": {"annealing_steps": 500},
    "optuna-tpe": {"n_startup_trials": 4},
    "optuna-nsga": {"population_size": 4},
}
"""What makes an optimizer quick, or lets few asks show what it does; of others, their defaults will do."""
SHORT = ("bohb", "dehb", "hyperband", "asha")
"""Those that train for less than full fidelity, and promote."""


def build_of(row: OptimizerEntry) -> Callable[[Space, int], Optimizer]:
    """Builds the optimizer of a row, with the initial design if it takes one, and any model quick."""
    taken = get_parameters(row.optimizer)

    def build(space: Space, seed: int) -> Optimizer:
        provided = {"seed": seed, "epochs": EPOCHS, "initial_design": random_design(space, DESIGN, DESIGN_SEED)}
        accepted = {name: value for name, value in provided.items() if name in taken}
        optimizer = row.optimizer(space, **accepted, **SMALL.get(row.name, {}))
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


def suggest_with_all() -> dict[str, Suggestions]:
    """Trials of every optimizer on every space, as plain data."""
    return {name: suggest_on_all_spaces(subject) for name, subject in SUBJECTS.items()}
