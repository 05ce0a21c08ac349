"""What a configuration sets reaches the optimizer: it suggests what one built by hand with that setting suggests."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest

from fmnas.optimizers import Optimizer, OptimizerError
from fmnas.optimizers.options import get_parameters
from fmnas.platform.config.load import check_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.registry import OPTIMIZERS
from fmnas.search_spaces import Configuration, Trial

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class Case:
    """An option with a value other than its default, the other options it needs, and how many asks show it."""

    optimizer: str
    option: str
    value: Any
    asks: int
    others: tuple[tuple[str, Any], ...] = ()
    problem: str = "func2c"

    @property
    def options(self) -> dict[str, Any]:
        return {**dict(self.others), self.option: self.value}


CASES = [
    Case("bo-fm", "kernel", "addlap", 9),
    Case("bo-fm", "kernel", "moddif", 9),
    Case("bo-fm", "kernel", "mixture", 9),
    Case("bo-fm", "kernel", "kernel-modulated", 9),
    Case("bo-fm", "mode", "paper", 7),
    Case("regularized-evolution", "population", 7, 12),
    Case("regularized-evolution", "tournament", 2, 20, (("population", 7),)),
    Case("bohb", "eta", 2, 12),
    Case("bohb", "min_epochs", 3, 4),
    Case("bohb", "min_points_in_model", 7, 14, (("eta", 9),)),
    Case("bohb", "top_n_percent", 60, 14, (("eta", 9),)),
    Case("bohb", "num_samples", 2, 14, (("eta", 9),)),
    Case("bohb", "random_fraction", 0.0, 17, (("eta", 9),)),
    Case("bohb", "bandwidth_factor", 0.5, 14, (("eta", 9),)),
    Case("bohb", "min_bandwidth", 0.5, 14, (("eta", 9),)),
    Case("dehb", "eta", 2, 12),
    Case("dehb", "min_epochs", 3, 4),
    Case("dehb", "mutation_factor", 0.9, 18),
    Case("dehb", "crossover_prob", 0.9, 18),
    Case("hyperband", "eta", 2, 12),
    Case("hyperband", "min_epochs", 3, 4),
    Case("asha", "eta", 2, 12),
    Case("asha", "min_epochs", 3, 4),
    Case("cocabo", "mix", "learned", 9),
    Case("cocabo", "mix", 0.9, 9),
    Case("cocabo", "mix", 1, 9),
    Case("bodi", "anchors", 3, 13),
    Case("bodi", "dictionary", "wavelet", 9, (("anchors", 8),), "labs"),
    Case("gebo", "graphs", 2, 9),
    Case("gebo", "hubs", 1, 9),
    Case("gebo", "reward", "published", 13),
    Case("hybo", "samples", 2, 8, (("max_order", 1),)),
    Case("hybo", "max_order", 2, 8, (("samples", 1),)),
    Case("hybo", "published_errors", True, 8, (("samples", 1), ("max_order", 1))),
    Case("mivabo", "search", "dual", 9),
    Case("mivabo", "search", "annealing", 13, (("annealing_steps", 500),)),
    Case("mivabo", "features", 5, 13),
    Case("mivabo", "bandwidth", 0.5, 13),
    Case("mivabo", "alpha", 0.1, 13),
    Case("mivabo", "beta", 100.0, 13),
    Case("mivabo", "objective_scale", "unit", 13),
    Case("mivabo", "posterior_scale", 9.0, 13),
    Case("mivabo", "posterior_scale", "theory", 13),
    Case("mivabo", "temperatures", "published", 13, (("annealing_steps", 500), ("search", "annealing"))),
    Case("mivabo", "annealing_steps", 500, 8, (("search", "annealing"),)),
    Case("gp-sa", "temperatures", "published", 13, (("annealing_steps", 500),)),
    Case("gp-sa", "annealing_steps", 500, 8),
    Case("tpe", "startup", 7, 9),
    Case("tpe", "multivariate", False, 9, (("startup", 6),)),
    Case("smac", "challengers", 20, 8),
    Case("smac", "local_searches", 1, 8, (("challengers", 20),)),
    Case("botorch", "fit_steps", 2, 7, (("raw_samples", 8), ("restarts", 1))),
    Case("botorch", "raw_samples", 8, 7, (("fit_steps", 5), ("restarts", 1))),
    Case("botorch", "restarts", 1, 7, (("fit_steps", 5), ("raw_samples", 16))),
    Case("nsga2", "population", 7, 9),
    Case("parego", "rho", 1.0, 9),
    Case("parego", "kernel", "addlap", 9),
    Case("parego", "mode", "paper", 7),
]
EPOCHS, EVALUATIONS = 9, 40


def built(entry: dict[str, Any], problem: str = "func2c") -> Optimizer:
    """As an experiment has it."""
    data = {
        "name": "t",
        "problem": problem,
        "optimizers": [entry],
        "initial_design": 6,
        "budget": {"evaluations": EVALUATIONS},
        "fidelity": {"epochs": EPOCHS},
    }
    (run,) = build_experiment(check_config(data, "here")).runs.values()
    return run.optimizer


def by_hand(like: Optimizer, name: str, **settings: Any) -> Optimizer:
    """The same, from its class: with the same design and the budget, where it takes them."""
    optimizer = OPTIMIZERS[name].optimizer
    arguments = {"initial_design": like.initial_design, "evaluations": EVALUATIONS}
    taken = {key: value for key, value in arguments.items() if key in get_parameters(optimizer)}
    return optimizer(like.space, seed=like.seed, epochs=EPOCHS, **taken, **settings)


def score(configuration: Configuration) -> float:
    return sum((float(value) - 0.3) ** 2 for value in configuration.values())


def play_trials(optimizer: Optimizer, asks: int) -> list[Trial]:
    trials = []
    for _ in range(asks):
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, score(trial.configuration))
        trials.append(trial)
    return trials


@cache
def default_player(name: str, others: tuple[tuple[str, Any], ...], problem: str) -> "Player":
    """The trials of an optimizer with these options, whose others are their defaults; cases share them."""
    return Player(by_hand(built({"name": name}, problem), name, **dict(others)))


class Player:
    """An optimizer that is asked only as often as its trials are needed."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._optimizer = optimizer
        self._trials: list[Trial] = []

    def trials(self, asks: int) -> list[Trial]:
        """Its first trials."""
        self._trials += play_trials(self._optimizer, asks - len(self._trials))
        return self._trials[:asks]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.optimizer}-{case.option}={case.value}")
def test_an_option_of_a_configuration_changes_what_is_suggested(case: Case) -> None:
    optimizer = built({"name": case.optimizer, **case.options}, case.problem)
    expected = play_trials(by_hand(optimizer, case.optimizer, **case.options), case.asks)
    assert play_trials(optimizer, case.asks) == expected
    assert expected != default_player(case.optimizer, case.others, case.problem).trials(case.asks)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_without_options_an_optimizer_has_its_own_defaults(name: str) -> None:
    assert play_trials(built({"name": name}), 9) == default_player(name, (), "func2c").trials(9)


@pytest.mark.parametrize("mix", [1.5, "all", True])
def test_an_option_of_two_kinds_is_refused_in_one_sentence(mix: Any) -> None:
    with pytest.raises(ConfigError, match=r"^here:\n  optimizers\.0\.mix = .* 'learned'\n.*$"):
        built({"name": "cocabo", "mix": mix})


def test_every_option_that_a_configuration_may_set_is_tried_here() -> None:
    offered = {(name, option) for name, row in OPTIMIZERS.items() for option in row.options.model_fields}
    assert {(case.optimizer, case.option) for case in CASES} == offered


def test_the_joint_objective_is_modelled_by_its_logarithm() -> None:
    """BO-FM suggests for objectives what it suggests without a logarithm for their logarithms."""
    optimizer = built({"name": "bo-fm"}, "joint")
    logarithms = by_hand(optimizer, "bo-fm", log_objective=False)
    values = [0.9, 0.4, 0.05, 0.6, 0.09, 0.3]
    for value in values:
        for model, objective in ((optimizer, value), (logarithms, float(np.log(value)))):
            trial = model.ask()
            assert trial is not None
            model.tell(trial, objective)
    asked, expected = optimizer.ask(), logarithms.ask()
    assert asked is not None
    assert expected is not None
    assert asked.origin == "model"
    assert asked.configuration == expected.configuration
    with pytest.raises(OptimizerError, match=r"objective 0\.0 with log_objective"):
        optimizer.tell(asked, 0.0)


def test_the_objective_of_a_function_may_be_negative() -> None:
    optimizer = built({"name": "bo-fm"})
    trial = optimizer.ask()
    assert trial is not None
    optimizer.tell(trial, -0.2)
    assert len(optimizer.history) == 1
