"""What is said before an experiment begins, and that it is true."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fmnas.baselines import BOHB
from fmnas.baselines.bohb import epochs_to_model, results_needed
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config
from fmnas.platform.problems import problem
from fmnas.platform.runner.preflight import cost_of, design_warnings

PLAIN = {"name": "t", "problem": "func2c", "initial_design": 1, "fidelity": {"epochs": 1}}


def config(optimizers: list[Any], evaluations: int = 100, repeats: int = 8, **others: Any) -> Config:
    budget = {"evaluations": evaluations}
    return check_config({**PLAIN, "optimizers": optimizers, "repeats": repeats, "budget": budget, **others}, "here")


def evolution(**options: int) -> dict[str, Any]:
    return {"name": "regularized-evolution", **options}


def test_one_of_a_thing_is_not_many() -> None:
    one = config(["random"], evaluations=1, repeats=1, initial_design=0)
    assert str(cost_of(one)) == "1 run, 1 evaluation, 1 training, 1 epoch in all"
    assert one.summary_line == "t: random on func2c, 1 repeat of 1 evaluation of 1 epoch"
    assert str(cost_of(config(["random"], 1000))) == "8 runs, 8,000 evaluations, 8,000 trainings, 8,000 epochs in all"


def test_nothing_is_said_of_an_experiment_that_can_answer() -> None:
    assert design_warnings(config(["bo-fm", "regularized-evolution", "bohb", "random"])) == []


@pytest.mark.parametrize(
    ("names", "repeats", "line"),
    [
        (["random", "bo-fm"], 5, "5 repeats of 2 optimizers: no verdict is possible, 6 are needed: -o repeats=6"),
        (
            ["random", "bo-fm", "bohb"],
            1,
            "1 repeat of 3 optimizers: no verdict is possible, 7 are needed: -o repeats=7",
        ),
    ],
)
def test_too_few_repeats_for_a_verdict_are_said(names: list[str], repeats: int, line: str) -> None:
    assert design_warnings(config(names, repeats=repeats)) == [line]
    enough = int(line.rpartition("=")[2])
    assert design_warnings(config(names, repeats=enough)) == []
    assert design_warnings(config(names, repeats=enough - 1)) != []


def test_one_optimizer_alone_needs_no_verdict() -> None:
    assert design_warnings(config(["random"], repeats=1)) == []


def test_a_population_that_is_never_full_is_said() -> None:
    (line,) = design_warnings(config(["random", evolution()], evaluations=50))
    assert line.startswith("regularized-evolution: a population of 50 takes all of 50 evaluations")
    assert line.endswith("-o optimizers.1.population=10 leaves some")
    assert design_warnings(config(["random", evolution()], evaluations=51)) == []


def test_a_tournament_larger_than_the_population_is_said() -> None:
    (line,) = design_warnings(config([evolution(population=6)], repeats=1))
    assert "a tournament of 15 among 6" in line
    assert line.endswith("-o optimizers.0.tournament=2 leaves others a chance")
    assert design_warnings(config([evolution(population=6, tournament=2)], repeats=1)) == []


OWN = """
from fmnas.baselines import BOHB, RegularizedEvolution


class Mine(RegularizedEvolution):
    def __init__(self, space, *, rate: float = 0.5, **others):
        super().__init__(space, **others)


class Small(RegularizedEvolution):
    def __init__(self, space, *, seed: int = 0, epochs: int = 1, initial_design=()):
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design, population=3, tournament=2)


class Half(BOHB):
    def __init__(self, space, *, half: bool = True, **others):
        super().__init__(space, **others)
"""


@pytest.mark.parametrize(
    ("name", "words"),
    [("Mine", "own: a population of 50 takes all of 10"), ("Small", ""), ("Half", "own: its model needs 10 results")],
)
def test_the_same_warning_for_a_custom_optimizer_with_other_options(tmp_path: Path, name: str, words: str) -> None:
    (tmp_path / "own.py").write_text(OWN)
    warnings = design_warnings(config([{"name": "own", "use": f"{tmp_path}/own.py:{name}"}], evaluations=10))
    assert [line[: len(words)] for line in warnings] == ([words] if words else [])


def test_what_a_remark_advises_silences_it() -> None:
    names = ["bo-fm", evolution(population=30), "bohb"]
    before = config(names, evaluations=6, repeats=2, fidelity={"epochs": 9})
    assert len(design_warnings(before)) == 3
    after = config(["bo-fm", evolution(population=2, tournament=1), "bohb"], evaluations=9, fidelity={"epochs": 9})
    assert design_warnings(after) == []


@pytest.mark.parametrize(
    ("epochs", "eta", "options"),
    [
        *((1, 3, {}), (3, 3, {}), (9, 3, {}), (25, 3, {}), (4, 2, {})),
        *((1, 3, {"min_points_in_model": 3}), (1, 3, {"min_points_in_model": 9}), (9, 3, {"min_points_in_model": 9})),
        *((1, 3, {"top_n_percent": 90}), (9, 3, {"top_n_percent": 60, "min_points_in_model": 6})),
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


def test_a_budget_that_leaves_bohb_without_a_model_is_said() -> None:
    (line,) = design_warnings(
        config(["bohb"], evaluations=10)
    )  # 10 results are needed in 4 dimensions, and none is left
    assert line.startswith("bohb: its model needs 10 results of one length, which take 11 evaluations; with 10 all")
    assert line.endswith("-o budget.evaluations=11, or more")
    assert design_warnings(config(["bohb"], evaluations=11)) == []


def test_the_results_that_bohb_needs_follow_its_options() -> None:
    for options, needed in (({"min_points_in_model": 20}, 25), ({"top_n_percent": 90}, 41)):
        (line,) = design_warnings(config([{"name": "bohb", **options}], evaluations=15))
        assert line.startswith(f"bohb: its model needs {needed} results of one length")
