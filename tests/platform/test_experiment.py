"""What an experiment is built of: the designs that the optimizers of a repeat share, and what BO-FM receives."""

from typing import Any

import pytest

from fmnas.platform.config.load import check_config
from fmnas.platform.experiment.experiment import Experiment, build_experiment, derived_seed
from fmnas.platform.registry import OPTIMIZERS
from fmnas.search_spaces import Trial
from fmnas.trainers.problem import authors_points

TAKERS = [name for name, row in OPTIMIZERS.items() if row.takes_initial_design]


def built(**changes: Any) -> Experiment:
    data = {
        "name": "t",
        "problem": "func2c",
        "optimizers": list(OPTIMIZERS),
        "repeats": 3,
        "budget": {"evaluations": 15},
        "fidelity": {"epochs": 1},
    }
    return build_experiment(check_config({**data, **changes}, "here"))


@pytest.mark.parametrize(
    ("problem", "name"), [("func2c",) * 2, ("func3c",) * 2, ("ackley5c",) * 2, ("fashion_mnist", "joint")]
)
def test_with_seed_0_repeat_r_has_the_authors_points_of_seed_r(problem: str, name: str) -> None:
    experiment = built(problem=problem, initial_design="authors", seed=0)
    for run in experiment.runs.values():
        expected = authors_points(experiment.problem.space, run.repeat) if run.label in TAKERS else []
        assert list(run.optimizer.initial_design) == expected


def test_with_another_seed_the_points_are_a_fresh_sample_by_the_authors_recipe() -> None:
    designs = [
        list(run.optimizer.initial_design)
        for seed in (0, 7, 8, 2**64 - 1)
        for run in built(initial_design="authors", seed=seed, optimizers=["random"]).runs.values()
    ]
    assert len(designs) == 4 * 3
    assert all(design not in designs[:i] for i, design in enumerate(designs))
    space = built().problem.space
    assert designs[3:6] == [authors_points(space, derived_seed(7, repeat)) for repeat in range(3)]


@pytest.mark.parametrize("design", ["authors", 10])
def test_every_optimizer_that_takes_the_design_begins_with_it(design: int | str) -> None:
    asked: dict[int, list[list[Any]]] = {}
    for run in built(initial_design=design).runs.values():
        trials = [run.optimizer.ask() for _ in range(10)]
        if run.label in TAKERS:
            assert [trial and trial.origin for trial in trials] == ["initial"] * 10
            asked.setdefault(run.repeat, []).append([trial and trial.configuration for trial in trials])
    assert {"bo-fm", "random", "regularized-evolution"} <= set(TAKERS)
    for designs in asked.values():
        assert len(designs) == len(TAKERS)
        assert all(design == designs[0] for design in designs)
    firsts = [designs[0] for designs in asked.values()]
    assert firsts[0] != firsts[1] != firsts[2] != firsts[0]


def test_cocabo_receives_its_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    received = []
    monkeypatch.setattr("fmnas.baselines.cocabo.check_budget", received.append)
    built(optimizers=["cocabo"], budget={"evaluations": 17})
    assert set(received) == {17}


def test_random_designs_differ_by_the_seed() -> None:
    first, second = (built(seed=seed).runs["bo-fm/repeat-0"].optimizer.initial_design for seed in (0, 1))
    assert len(first) == len(second) == 5
    assert first != second


def test_the_seed_of_a_trial_follows_from_repeat_and_number_for_every_optimizer() -> None:
    seeds: dict[tuple[int, int], set[int]] = {}
    for seed in (0, 1):
        experiment = built(seed=seed)
        for run in experiment.runs.values():
            for number in range(4):
                derived = experiment.trial_seed(run, Trial(number, {}, 1, "random"), {})
                seeds.setdefault((10 * seed + run.repeat, number), set()).add(derived)
    assert len(seeds) == 2 * 3 * 4
    assert {len(derived) for derived in seeds.values()} == {1}
    assert len(set().union(*seeds.values())) == 2 * 3 * 4


def test_the_driver_has_a_configuration_that_its_optimizer_cannot_change() -> None:
    experiment = built(optimizers=["random"])
    run = next(iter(experiment.runs.values()))
    suggested = run.optimizer.ask()
    assert suggested is not None
    final = experiment.finalize_trial(run, suggested, {})
    assert final.configuration == suggested.configuration
    assert final.configuration is not suggested.configuration
    assert final.run == run.name
