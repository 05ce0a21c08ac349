"""Optimizers that ask a package: what the package receives, what becomes of its suggestions, and that they are good."""

import pickle
from collections.abc import Iterator
from importlib import import_module
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.baselines.botorch import BoTorch
from fmnas.baselines.external import MAX_REJECTED, WrappedOptimizer
from fmnas.baselines.smac import SMAC
from fmnas.baselines.space_conversion import from_optuna, to_optuna
from fmnas.baselines.tpe import TPE
from fmnas.optimizers import Optimizer, OptimizerError, Suggestion, random_design
from fmnas.search_spaces import (
    Configuration,
    Graph,
    Integer,
    LinearConstraint,
    Nominal,
    Ordinal,
    Real,
    Space,
    Trial,
    errors,
)
from fmnas.search_spaces.records import FAILED_FIT, FALLBACK, MODEL, RANDOM

pytestmark = pytest.mark.slow

WRAPPED: dict[type[WrappedOptimizer], dict[str, Any]] = {
    TPE: {},
    SMAC: {"challengers": 1000, "local_searches": 5},
    BoTorch: {"fit_steps": 15, "raw_samples": 16, "restarts": 1},
}
"""Each with what makes it quick."""
BOWL = Space(
    [Real("x", 0.0, 1.0), Real("rate", 1e-4, 1e-1, log=True), Nominal("op", list("abcde")), Integer("k", 0, 7)]
)
KINDS = Space(
    [
        Nominal("op", ["a", "b", "c"]),
        Real("rate", 0.001, 0.1, log=True),
        Integer("k", 3, 7),
        Real("x", -1.0, 3.0),
        Ordinal("width", [8, 16, 64]),
        Graph("g", ("s", "t", "u"), (("s", "t"), ("t", "u"))),
    ]
)
RESULTS = [
    ({"op": "b", "rate": 0.01, "k": 3, "x": 0.0, "width": 64, "g": "t"}, 0.5),
    ({"op": "c", "rate": 0.1, "k": 7, "x": 3.0, "width": 8, "g": "s"}, -0.25),
    ({"op": "a", "rate": 0.001, "k": 5, "x": -1.0, "width": 16, "g": "u"}, 2.0),
]
PENDING = {"op": "c", "rate": 0.01, "k": 4, "x": 1.0, "width": 16, "g": "u"}


def bowl(configuration: Configuration) -> float:
    """A bowl with its bottom, 0, at op = c, k = 5, x = 0.3, rate = 10^-2.5."""
    k, x, rate = int(configuration["k"]), float(configuration["x"]), np.log10(float(configuration["rate"]))
    return 0.4 * (configuration["op"] != "c") + 0.05 * (k - 5) ** 2 + 4 * (x - 0.3) ** 2 + 0.5 * (rate + 2.5) ** 2


def ask(optimizer: Optimizer) -> Trial:
    return optimizer.ask()


def best_of(optimizer: Optimizer, budget: int) -> float:
    for _ in range(budget):
        trial = ask(optimizer)
        optimizer.tell(trial, bowl(trial.configuration))
    return min(evaluation.objective for _, evaluation in optimizer.history)


def build_informed(method: type[WrappedOptimizer]) -> Any:
    """With the results of RESULTS, the last one first, while PENDING, which was asked second, is pending."""
    first, second, third = RESULTS
    design = [first[0], PENDING, second[0], third[0]]
    optimizer = method(KINDS, initial_design=design, **WRAPPED[method])
    trials = [ask(optimizer) for _ in design]
    for i, objective in ((3, third[1]), (2, second[1]), (0, first[1])):
        optimizer.tell(trials[i], objective)
    return optimizer


def test_trials_passed_to_optuna() -> None:
    from optuna.distributions import CategoricalDistribution, FloatDistribution, IntDistribution
    from optuna.trial import TrialState

    trials = build_informed(TPE)._study.get_trials()
    assert [trial.state for trial in trials] == [TrialState.COMPLETE, TrialState.RUNNING, *[TrialState.COMPLETE] * 2]
    assert [trial.value for trial in trials] == [0.5, None, -0.25, 2.0]
    assert [trial.params for trial in trials] == [
        {"op": 1, "rate": 0.01, "k": 3, "x": 0.0, "width": 2, "g": 1},
        {"op": 2, "rate": 0.01, "k": 4, "x": 1.0, "width": 1, "g": 2},
        {"op": 2, "rate": 0.1, "k": 7, "x": 3.0, "width": 0, "g": 0},
        {"op": 0, "rate": 0.001, "k": 5, "x": -1.0, "width": 1, "g": 2},
    ]
    for trial in trials:
        assert trial.distributions == {
            "op": CategoricalDistribution((0, 1, 2)),
            "rate": FloatDistribution(0.001, 0.1, log=True),
            "k": IntDistribution(3, 7),
            "x": FloatDistribution(-1.0, 3.0),
            "width": IntDistribution(0, 2),
            "g": CategoricalDistribution((0, 1, 2)),
        }


@pytest.mark.parametrize("multivariate", [True, False])
def test_one_study_for_all_asks_draws_what_a_new_study_would(multivariate: bool) -> None:
    """With pending, rejected and forgotten trials, and after it was copied."""
    space = Space(BOWL.variables, [LinearConstraint({"k": 1}, 5)])
    optimizer = TPE(space, startup=4, multivariate=multivariate, seed=3)
    pending: list[Trial] = []
    for i in range(30):
        drawn = [suggestion.configuration for suggestion in islice(optimizer.suggestions(seed=i), 3)]
        assert drawn == draw_of_new_study(optimizer, seed=i, count=3)
        pending.append(ask(optimizer))
        if i % 3:
            trial = pending.pop(i % len(pending))
            if i % 5:
                optimizer.tell(trial, bowl(trial.configuration))
            else:
                optimizer.forget(trial)
        if i % 10 == 9:
            optimizer = pickle.loads(pickle.dumps(optimizer))
    assert 0 < len(optimizer.pending) < len(optimizer.history)


def draw_of_new_study(optimizer: TPE, seed: int, count: int) -> list[Configuration]:
    import optuna
    from optuna.trial import TrialState, create_trial

    sampler = optuna.samplers.TPESampler(
        n_startup_trials=optimizer.startup, multivariate=optimizer.multivariate, constant_liar=True, seed=seed
    )
    study = optuna.create_study(sampler=sampler)
    for trial, objective in optimizer.all_trials():
        state = TrialState.RUNNING if objective is None else TrialState.COMPLETE
        params = to_optuna(optimizer.space, trial.configuration)
        study.add_trial(
            create_trial(state=state, value=objective, params=params, distributions=optimizer.distributions)
        )
    drawn = []
    for _ in range(count):
        draw = study.ask(optimizer.distributions)
        drawn.append(from_optuna(optimizer.space, draw.params))
        study.tell(draw, state=TrialState.FAIL)
    return drawn


def test_trials_passed_to_smac() -> None:
    history = build_informed(SMAC).selector(seed=0)._runhistory
    from ConfigSpace import CategoricalHyperparameter, UniformFloatHyperparameter, UniformIntegerHyperparameter
    from smac.runhistory import StatusType

    assert [value.status for value in history.values()] == [
        StatusType.SUCCESS,
        StatusType.RUNNING,
        *[StatusType.SUCCESS] * 2,
    ]
    assert [value.cost for value in history.values() if value.status == StatusType.SUCCESS] == [0.5, -0.25, 2.0]
    configs = history.get_configs()
    assert [dict(config) for config in configs] == [
        {"rate": pytest.approx(0.5), "x": 0.25, "op": 1, "k": 0, "width": 2, "g": 1},
        {"rate": pytest.approx(0.5), "x": 0.5, "op": 2, "k": 1, "width": 1, "g": 2},
        {"rate": 1.0, "x": 1.0, "op": 2, "k": 4, "width": 0, "g": 0},
        {"rate": 0.0, "x": 0.0, "op": 0, "k": 2, "width": 1, "g": 2},
    ]
    space = configs[0].config_space
    assert dict(space) == {
        "rate": UniformFloatHyperparameter("rate", 0.0, 1.0),
        "x": UniformFloatHyperparameter("x", 0.0, 1.0),
        "op": CategoricalHyperparameter("op", [0, 1, 2]),
        "k": UniformIntegerHyperparameter("k", 0, 4),
        "width": UniformIntegerHyperparameter("width", 0, 2),
        "g": CategoricalHyperparameter("g", [0, 1, 2]),
    }


def test_trials_passed_to_botorch() -> None:
    """In the order of the results; the columns are rate, x, op, k, width, g."""
    acquisition = build_informed(BoTorch).acquisition()
    model = acquisition.model
    expected = [[0.0, 0.0, 0, 0.5, 0.5, 2], [1.0, 1.0, 2, 1.0, 0.0, 0], [0.5, 0.25, 1, 0.0, 1.0, 1]]
    assert torch.allclose(model.train_inputs[0], torch.tensor(expected, dtype=torch.float64))
    untransformed, _ = model.outcome_transform.untransform(model.train_targets[:, None])
    assert untransformed.flatten().tolist() == pytest.approx([-2.0, 0.25, -0.5])
    assert float(acquisition.best_f) == 0.25
    pending = torch.tensor([[0.5, 0.5, 2, 0.25, 0.5, 2]], dtype=torch.float64)
    assert torch.allclose(acquisition.X_pending, pending)


@pytest.mark.parametrize("method", WRAPPED)
def test_it_leaves_no_file_and_says_nothing(
    method: type[WrappedOptimizer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    best_of(method(BOWL, initial_design=random_design(BOWL, 10, 0), **WRAPPED[method]), 12)
    assert list(tmp_path.iterdir()) == []
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("method", WRAPPED)
def test_without_its_package_it_says_how_to_get_it(
    method: type[WrappedOptimizer], monkeypatch: pytest.MonkeyPatch
) -> None:
    def missing(name: str) -> object:
        if name == method.package:
            raise ModuleNotFoundError(name, name=name)
        return import_module(name)

    monkeypatch.setattr(errors, "import_module", missing)
    with pytest.raises(OptimizerError) as refused:
        method(BOWL)
    package = method.package
    assert str(refused.value) == (
        f"optimizer {method.name} needs {package}, which is not installed: pip install {package}"
    )


class Stubborn(WrappedOptimizer):
    """Suggests k = 0, 1, 2, ..."""

    name = "stubborn"
    package = "json"

    def suggestions(self, seed: int) -> Iterator[Suggestion]:
        """One after the other."""
        for k in range(100):
            yield Suggestion({"k": k}, MODEL)


@pytest.mark.parametrize("first", [0, 5, MAX_REJECTED - 1])
def test_the_first_feasible_suggestion_is_taken(first: int) -> None:
    space = Space([Integer("k", 0, 99)], [LinearConstraint({"k": -1}, -first)])
    trial = ask(Stubborn(space))
    assert (trial.configuration, trial.origin, trial.fallback) == ({"k": first}, MODEL, "")


def test_where_a_fit_fails_chance_chooses(monkeypatch: pytest.MonkeyPatch) -> None:
    optimizer = BoTorch(BOWL, initial_design=random_design(BOWL, 3, 0))  # it imports botorch, which warns
    from botorch.exceptions.errors import ModelFittingError

    def fail(self: BoTorch) -> None:
        raise ModelFittingError("All attempts to fit the model have failed.")

    monkeypatch.setattr(BoTorch, "acquisition", fail)
    best_of(optimizer, 3)
    trial = ask(optimizer)
    assert (trial.origin, trial.fallback) == (RANDOM, FAILED_FIT)
    assert trial.note == "fit failed: All attempts to fit the model have failed."


def test_smac_suggests_nothing_twice_until_the_space_is_used_up() -> None:
    space = Space([Integer("k", 0, 3), Nominal("op", ["a", "b"])])
    optimizer = SMAC(space, challengers=20)
    for i in range(8):
        optimizer.tell(ask(optimizer), float(i))
    tried = {tuple(trial.configuration.values()) for trial, _ in optimizer.history}
    assert len(tried) == 8
    assert ask(optimizer).fallback == FALLBACK


@pytest.mark.parametrize(
    ("count", "note"),
    [
        (0, "json: no suggestion left"),
        (3, "json: 3 suggestions were infeasible"),
        (MAX_REJECTED + 5, f"{MAX_REJECTED} suggestions were infeasible"),
    ],
)
def test_the_note_says_why_a_suggestion_is_random(count: int, note: str) -> None:
    class Fixed(WrappedOptimizer):
        name, package = "fixed", "json"

        def suggestions(self, seed: int) -> Iterator[Suggestion]:
            return iter([Suggestion({"k": 3}, MODEL)] * count)

    trial = ask(Fixed(Space([Integer("k", 0, 3)], [LinearConstraint({"k": 1}, 2)])))
    assert (trial.origin, trial.fallback) == (RANDOM, FALLBACK)
    assert note in trial.note
