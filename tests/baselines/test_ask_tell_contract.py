"""What every optimizer of the registry owes its caller, whatever its method and whatever the space."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.baselines.wrapped import WrappedOptimizer
from fmnas.optimizers import BayesianOptimizer, Optimizer, OptimizerError, random_design
from fmnas.optimizers.bofm import Mode
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.search import SearchSettings
from fmnas.optimizers.options import parameters_of
from fmnas.platform.optimizers import OPTIMIZERS, Row
from fmnas.search_spaces import (
    Evaluation,
    Graph,
    Integer,
    LinearConstraint,
    Nominal,
    Ordinal,
    QuadraticConstraint,
    Real,
    Space,
    Trial,
    joint_space,
)
from fmnas.search_spaces.records import INITIAL, MUTATION, ORIGINS, PROMOTION, RANDOM

EPOCHS = 9
DESIGN = 3
SPACES = {
    "mixed": Space(
        [
            Real("x", 0.0, 1.0),
            Nominal("op", ["a", "b", "c"]),
            Real("rate", 1e-3, 1e-1, log=True),
            Graph("g", ("s", "t", "u"), (("s", "t"), ("t", "u"))),
        ]
    ),
    "discrete": Space([Nominal("op", list("abcdef")), Integer("k", 0, 9), Ordinal("width", [8, 16, 32, 64])]),
    "continuous": Space([Real("x", 0.0, 1.0), Real("z", -5.0, 5.0)]),
}
CONSTRAINED = {
    "cardinality": Space(
        [Integer(f"b{i}", 0, 1) for i in range(8)], [LinearConstraint({f"b{i}": 1 for i in range(8)}, 2)]
    ),
    "mixed": Space(
        [Real("x", 0.0, 1.0), Ordinal("width", [1, 2, 4, 8]), Integer("depth", 1, 5), Nominal("op", ["a", "b"])],
        [
            QuadraticConstraint({}, {("width", "depth"): 1}, 8),
            LinearConstraint({"x": 1, "depth": 0.1}, 0.9),
        ],
    ),
}
"""37 of 256 configurations are feasible; 11 of 20 pairs (width, depth), with less of x the deeper."""


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
}
"""What makes an optimizer quick, or lets few asks show what it does; of others, their defaults will do."""
SHORT = ("bohb",)
"""Those that train for less than full fidelity, and promote."""

Method = Callable[[Space, int], Optimizer]


def method_of(row: Row) -> Method:
    """Builds the optimizer of a row of the registry, with the initial design if it takes one, and any model quick."""
    taken = parameters_of(row.optimizer)

    def build(space: Space, seed: int) -> Optimizer:
        provided = {"seed": seed, "epochs": EPOCHS, "initial_design": random_design(space, DESIGN, 99)}
        given_ = {name: value for name, value in provided.items() if name in taken}
        optimizer = row.optimizer(space, **given_, **SMALL.get(row.name, {}))
        if isinstance(optimizer, BayesianOptimizer):
            optimizer.settings = replace(optimizer.settings, fit=QUICK.fit, search=QUICK.search)
        return optimizer

    return build


def allowed(row: Row) -> set[str]:
    """Where its trials may come from."""
    design = {INITIAL} if row.takes_initial_design else set[str]()
    return {RANDOM, row.optimizer.chooses} | design | ({PROMOTION} if row.name in SHORT else set())


METHODS: dict[str, Method] = {name: method_of(row) for name, row in OPTIMIZERS.items()}
ALLOWED = {name: allowed(row) for name, row in OPTIMIZERS.items()}
TAKES_DESIGN = [name for name, row in OPTIMIZERS.items() if row.takes_initial_design]
FOREIGN = [name for name, row in OPTIMIZERS.items() if issubclass(row.optimizer, WrappedOptimizer)]
SLOW_TO_ASK = ("smac", "botorch")
"""Those whose packages take tenths of a second for a suggestion, whatever is set."""
QUICK_TO_ASK = [
    name
    for name, row in OPTIMIZERS.items()
    if not issubclass(row.optimizer, BayesianOptimizer) and name not in SLOW_TO_ASK
]
ASKS = {name: 12 if name in FOREIGN else 40 if name in QUICK_TO_ASK else 24 for name in METHODS}
"""How many asks show whether constraints are met: fewer of those that take long."""


@pytest.fixture(params=list(METHODS))
def name(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture
def method(name: str) -> Method:
    return METHODS[name]


@pytest.fixture(params=list(SPACES))
def space(request: pytest.FixtureRequest) -> Space:
    return SPACES[request.param]


def ask(optimizer: Optimizer) -> Trial:
    trial = optimizer.ask()
    assert trial is not None
    return trial


def score(space: Space, trial: Trial) -> float:
    """A bowl in the encoded space, the better the longer the training."""
    return float(((space.encode(trial.configuration) - 0.37) ** 2).sum()) + 0.1 / trial.epochs


def played(optimizer: Optimizer, count: int) -> list[Trial]:
    """Ask and tell in turn."""
    trials = []
    for _ in range(count):
        trials.append(ask(optimizer))
        optimizer.tell(trials[-1], score(optimizer.space, trials[-1]))
    return trials


Event = tuple[Trial, float | None]
"""A trial and the objective told for it; None: it was asked."""


def busy(optimizer: Optimizer, events: int, seed: int) -> list[Event]:
    """Ask and tell in a random order, with up to four trials pending; what happened."""
    rng, happened = np.random.default_rng(seed), []
    for _ in range(events):
        pending = list(optimizer.pending.values())
        if not pending or (len(pending) < 4 and rng.random() < 0.6):
            happened.append((ask(optimizer), None))
        else:
            trial = pending[int(rng.integers(len(pending)))]
            happened.append((trial, score(optimizer.space, trial)))
            optimizer.tell(*happened[-1])
    return happened


def restored(optimizer: Optimizer, happened: list[Event]) -> Optimizer:
    """A fresh optimizer brought to where `happened` ends, by way of JSON and without asking."""
    for trial, objective in happened:
        copy = Trial.from_dict(json.loads(json.dumps(trial.to_dict())))
        if objective is None:
            optimizer.restore(copy)
        else:
            evaluation = Evaluation(objective, epochs=trial.epochs)
            optimizer.tell(copy, Evaluation.from_dict(json.loads(json.dumps(evaluation.to_dict()))))
    return optimizer


def test_trials_are_valid_and_numbered(name: str, method: Method, space: Space) -> None:
    optimizer = method(space, 0)
    trials = played(optimizer, 7)
    assert optimizer.chooses in ALLOWED[name]
    assert [t.id for t in trials] == list(range(7))
    for trial in trials:
        space.validate(trial.configuration)
        assert list(trial.configuration) == list(space.names)
        assert 1 <= trial.epochs <= EPOCHS
        assert json.loads(json.dumps(trial.to_dict())) == trial.to_dict()
        assert trial.origin in ALLOWED[name] <= set(ORIGINS)
        assert trial.parent is None or trial.parent < trial.id
        assert (trial.parent is not None) == (trial.origin in (MUTATION, PROMOTION))


@pytest.mark.parametrize("name", list(METHODS))
@pytest.mark.parametrize("space", CONSTRAINED.values(), ids=list(CONSTRAINED))
@given(seed=st.integers(0, 2**20))
@settings(max_examples=4)
def test_constraints_are_respected(name: str, space: Space, seed: int) -> None:
    """With results that reward leaving the feasible region."""
    optimizer = METHODS[name](space, seed)
    for _ in range(ASKS[name]):
        trial = ask(optimizer)
        space.validate(trial.configuration)
        assert space.feasible(space.encode_all([trial.configuration])).all()
        optimizer.tell(trial, -float(space.encode(trial.configuration).sum()))
    assert {t.origin for t, _ in optimizer.history} <= ALLOWED[name]


def test_the_joint_space(method: Method) -> None:
    space = joint_space()
    trials = played(method(space, 0), 6)
    for trial in trials:
        space.validate(trial.configuration)
    assert len({json.dumps(trial.configuration) for trial in trials}) == 6


def test_same_seed_same_trials(method: Method, space: Space) -> None:
    assert busy(method(space, 7), 10, 0) == busy(method(space, 7), 10, 0)


def test_another_seed_other_trials(method: Method, space: Space) -> None:
    """In a small space two seeds may agree; four do not."""
    runs = [[t.configuration for t in played(method(space, seed), 5)[DESIGN:]] for seed in range(4)]
    assert len({json.dumps(run) for run in runs}) > 1


def test_restored_at_any_point_it_goes_on_the_same(method: Method, space: Space) -> None:
    happened = busy(method(space, 2), 14, 1)
    for cut, (trial, objective) in enumerate(happened):
        if objective is None:
            assert restored(method(space, 2), happened[:cut]).ask() == trial


@pytest.mark.parametrize("name", QUICK_TO_ASK)
@given(
    seed=st.integers(0, 2**20),
    cut=st.integers(0, 60),
    space=st.sampled_from([*SPACES.values(), *CONSTRAINED.values()]),
)
@settings(max_examples=15)
def test_restored_from_any_history(name: str, seed: int, cut: int, space: Space) -> None:
    optimizer = METHODS[name](space, seed)
    happened = busy(optimizer, cut, seed)
    copy = restored(METHODS[name](space, seed), happened)
    assert copy.pending == optimizer.pending
    assert copy.history == optimizer.history
    assert busy(copy, 8, seed + 1) == busy(optimizer, 8, seed + 1)


def test_results_may_come_in_any_order(method: Method, space: Space) -> None:
    optimizer = method(space, 0)
    first = [ask(optimizer) for _ in range(4)]
    assert list(optimizer.pending) == [0, 1, 2, 3]
    for trial in reversed(first):
        optimizer.tell(trial, score(space, trial))
    assert [t.id for t, _ in optimizer.history] == [3, 2, 1, 0]
    second = [ask(optimizer) for _ in range(4)]
    assert [t.id for t in second] == [4, 5, 6, 7]
    for i in (5, 4, 7, 6):
        optimizer.tell(second[i - 4], score(space, second[i - 4]))
    assert optimizer.pending == {}
    space.validate(ask(optimizer).configuration)


def test_many_may_be_pending(method: Method, space: Space) -> None:
    optimizer = method(space, 0)
    assert [ask(optimizer).id for _ in range(9)] == list(range(9))


def test_a_trial_is_told_once(method: Method, space: Space) -> None:
    optimizer = method(space, 0)
    trial = ask(optimizer)
    optimizer.tell(trial, 0.5)
    with pytest.raises(OptimizerError, match=f"trial {trial.id} is not pending"):
        optimizer.tell(trial, 0.5)
    assert len(optimizer.history) == 1


@pytest.mark.parametrize("bad", [float("nan"), float("inf"), -float("inf")])
@pytest.mark.parametrize("whole", [False, True], ids=["float", "evaluation"])
def test_an_objective_is_finite(method: Method, bad: float, whole: bool) -> None:
    optimizer = method(SPACES["mixed"], 0)
    trial = ask(optimizer)
    with pytest.raises(OptimizerError, match=rf"trial 0: objective {bad}.*finite"):
        optimizer.tell(trial, Evaluation(bad) if whole else bad)
    optimizer.tell(trial, 0.5)  # it is still pending, and a penalty is taken
    assert len(optimizer.history) == 1


def test_a_forgotten_trial_is_gone(method: Method, space: Space) -> None:
    optimizer = method(space, 0)
    trials = [ask(optimizer) for _ in range(5)]
    for trial in trials[:4]:
        optimizer.tell(trial, score(space, trial))
    optimizer.forget(trials[4])
    assert optimizer.pending == {}
    for call in (lambda: optimizer.tell(trials[4], 0.5), lambda: optimizer.forget(trials[4])):
        with pytest.raises(OptimizerError, match="trial 4 is not pending"):
            call()
    assert [t.id for t, _ in optimizer.history] == [0, 1, 2, 3]
    assert [t.id for t in played(optimizer, 3)] == [5, 6, 7]


@pytest.mark.parametrize("name", TAKES_DESIGN)
def test_the_initial_design_is_played_first(method: Method, space: Space) -> None:
    optimizer = method(space, 0)
    trials = [ask(optimizer) for _ in range(DESIGN)]
    assert [t.configuration for t in trials] == random_design(space, DESIGN, 99)
    assert [(t.origin, t.epochs) for t in trials] == [(INITIAL, EPOCHS)] * DESIGN
    for trial in trials:
        optimizer.tell(trial, score(space, trial))
    assert ask(optimizer).origin != INITIAL


def test_only_some_ask_for_less_than_full_fidelity(name: str, method: Method, space: Space) -> None:
    epochs = {t.epochs for t in played(method(space, 0), 13 if name in SHORT else 5)}
    assert epochs == ({1, 3, 9} if name in SHORT else {EPOCHS})


def test_global_random_state_is_untouched(method: Method, space: Space) -> None:
    np.random.seed(5)
    torch.manual_seed(5)
    random.seed(5)
    before = np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(), random.getstate()
    threads = torch.get_num_threads()
    optimizer = method(space, 0)
    played(optimizer, 5)
    optimizer.forget(ask(optimizer))
    assert (np.random.get_state()[1].tolist(), torch.get_rng_state().tolist(), random.getstate()) == before
    assert torch.get_num_threads() == threads


def test_global_random_state_has_no_influence(method: Method, space: Space) -> None:
    runs = []
    for seed in (1, 2):
        np.random.seed(seed)
        torch.manual_seed(seed)
        random.seed(seed)
        runs.append(played(method(space, 3), 5))
    assert runs[0] == runs[1]


def everything() -> dict[str, list[dict[str, object]]]:
    """Trials of every method on every space, as plain data."""
    free = {(name, place): SPACES[place] for name in METHODS for place in SPACES}
    constrained = {(name, f"constrained {place}"): CONSTRAINED[place] for name in METHODS for place in CONSTRAINED}
    return {
        f"{name} {place}": [t.to_dict() for t in played(METHODS[name](space, 11), 6)]
        for (name, place), space in {**free, **constrained}.items()
    }


def test_another_process_suggests_the_same(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONHASHSEED": "4711"}
    command = [sys.executable, str(Path(__file__).resolve())]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path, env=environment)
    assert json.loads(done.stdout) == everything()


def test_packages_are_loaded_by_their_users_alone() -> None:
    packages = {"hpbandster", "ConfigSpace", "statsmodels", "optuna", "smac", "botorch"}
    code = f"import sys, fmnas.baselines; print(sorted({packages} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


if __name__ == "__main__":
    json.dump(everything(), sys.stdout)
