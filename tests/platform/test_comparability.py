"""What is said before an experiment begins, and that it is true."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmnas.baselines import BOHB
from fmnas.baselines.bohb import epochs_to_model, results_needed
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.config.source import apply_override
from fmnas.platform.experiment.comparability import design_warnings, format_cost, format_differences
from fmnas.platform.problems import problem
from fmnas.search_spaces import LinearConstraint, Real, Space

PLAIN = {"name": "t", "problem": "func2c", "initial_design": 1, "fidelity": {"epochs": 1}}


def config(optimizers: list[Any], evaluations: int = 100, repeats: int = 8, **others: Any) -> Config:
    budget = {"evaluations": evaluations}
    return check_config({**PLAIN, "optimizers": optimizers, "repeats": repeats, "budget": budget, **others}, "here")


X, Y = Real("x", 0, 1), Real("y", 0, 1)
LIMIT = LinearConstraint({"x": 1}, 0.5)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (Space([Real("x", 0, 2), Y]), [[repr(X), repr(Real("x", 0, 2))]]),
        (Space([X]), [["y", repr(Y), "none"], ["x, y and x"]]),
        (Space([Y, X]), [["x, y and y, x"]]),
        (Space([X, Y], [LIMIT]), [["none", repr(LIMIT)]]),
    ],
)
def test_spaces_are_told_apart_by_what_differs_in_them(other: Space, words: list[list[str]]) -> None:
    lines = list(format_differences({"space": Space([X, Y]), "problem": "a"}, {"space": other, "problem": "a"}))
    assert len(lines) == len(words)
    for line, expected in zip(lines, words, strict=True):
        assert all(word in line for word in expected)
        assert " object at " not in line


def evolution(**options: int) -> dict[str, Any]:
    return {"name": "regularized-evolution", **options}


def test_one_of_a_thing_is_not_many() -> None:
    one = config(["random"], evaluations=1, repeats=1, initial_design=0)
    assert format_cost(one) == "1 run, 1 evaluation, 1 training, 1 epoch in all"
    assert one.summary_line == "t: random on func2c, 1 repeat of 1 evaluation of 1 epoch"
    assert format_cost(config(["random"], 1000)) == "8 runs, 8,000 evaluations, 8,000 trainings, 8,000 epochs in all"


def test_nothing_is_said_of_an_experiment_that_can_answer() -> None:
    assert design_warnings(config(["bo-fm", "regularized-evolution", "bohb", "random"])) == []


@pytest.mark.parametrize(
    ("names", "repeats", "line"),
    [
        (["random", "bo-fm"], 5, "5 repeats of 2 optimizers: no verdict is possible, 6 are needed: -o repeats=6"),
    ],
)
def test_too_few_repeats_for_a_verdict_are_said(names: list[str], repeats: int, line: str) -> None:
    assert design_warnings(config(names, repeats=repeats)) == [line]
    enough = int(line.rpartition("=")[2])
    assert design_warnings(config(names, repeats=enough)) == []
    assert design_warnings(config(names, repeats=enough - 1)) != []


@pytest.mark.parametrize(
    ("optimizers", "evaluations", "named", "advice"),
    [
        (["random", evolution()], 50, ["50"], "optimizers.1.population=10 -o optimizers.1.tournament=3"),
        ([evolution(population=6), "random"], 100, ["15", "6"], "optimizers.0.tournament=2"),
        (["random", "tpe"], 10, ["10"], "optimizers.1.startup=3"),
        ([{"name": "tpe", "startup": 4}, "random"], 2, ["4", "2"], "optimizers.0.startup=1"),
        (["random", "nsga2"], 50, ["50"], "optimizers.1.population=10"),
        (["bohb", "random"], 10, ["10"], "budget.evaluations=11"),
        ([{"name": "bohb", "top_n_percent": 90}, "random"], 15, ["41"], "budget.evaluations=42"),
    ],
)
def test_a_setting_that_makes_an_optimizer_useless_is_named_and_the_advice_helps(
    optimizers: list[Any], evaluations: int, named: list[str], advice: str
) -> None:
    (line,) = design_warnings(config(optimizers, evaluations))
    label, _, text = line.partition(": ")
    assert label in ("regularized-evolution", "bohb", "tpe", "nsga2")
    assert set(named) <= set(re.findall(r"\d+", text.partition("-o ")[0]))
    assert text.endswith(f"-o {advice}")
    assert "-o " not in text.removesuffix(f"-o {advice}")
    data = config(optimizers, evaluations).model_dump(mode="json")
    for override in advice.split(" -o "):
        apply_override(data, override)
    assert design_warnings(check_config(data, "here")) == []


def test_tpe_is_not_warned_of_when_its_last_trial_is_of_the_model() -> None:
    assert design_warnings(config(["tpe", "random"], 11)) == []


def test_one_optimizer_alone_needs_no_verdict() -> None:
    assert design_warnings(config(["random"], repeats=1)) == []


OWN = """
from fmnas.baselines import RegularizedEvolution


class Small(RegularizedEvolution):
    def __init__(self, space, *, seed: int = 0, epochs: int = 1, initial_design=()):
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design, population=3, tournament=2)
"""


def test_a_custom_optimizer_with_other_options_is_not_warned_of_those_that_it_lacks(tmp_path: Path) -> None:
    (tmp_path / "own.py").write_text(OWN)
    assert design_warnings(config([{"name": "own", "use": f"{tmp_path}/own.py:Small"}], evaluations=10)) == []


@pytest.mark.parametrize(
    ("epochs", "eta", "options"),
    [
        *((1, 3, {}), (9, 3, {}), (4, 2, {}), (9, 3, {"min_points_in_model": 9})),
        (9, 3, {"top_n_percent": 60, "min_points_in_model": 6}),
    ],
)
def test_bohb_has_its_model_after_just_the_epochs_that_are_said(epochs: int, eta: int, options: dict[str, int]) -> None:
    space = problem("func2c").space
    said = epochs_to_model(epochs, eta, results_needed(len(space.names), **options))
    optimizer, rng = BOHB(space, epochs=epochs, eta=eta, **options), np.random.default_rng(0)
    spent = 0
    while not optimizer._model.generator.kde_models and spent <= said:
        trial = optimizer.ask()
        assert trial is not None
        optimizer.tell(trial, float(rng.random()))
        spent += trial.epochs
    assert spent == said
