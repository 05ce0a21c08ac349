"""The last asks of a known budget: a closer look at the incumbent where nothing blurs it, and none where noise does."""

from collections.abc import Callable

import numpy as np
import pytest

from fmnas.optimizers import BOFM, random_design
from fmnas.optimizers.bofm import Mode
from fmnas.optimizers.bofm import bofm as module
from fmnas.optimizers.gp.fit import FitSettings
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.search import SearchSettings
from fmnas.search_spaces import Configuration, Nominal, Real, Space, Trial

SPACE = Space([Real("x", 0.0, 1.0), Real("z", 0.0, 1.0), Nominal("op", ["a", "b", "c"])])
QUICK = Mode(FitSettings(starts=2, screening=5, finalists=1), SearchSettings(100, 30, 3, 5, 5))
DESIGN, TOLD, EVALUATIONS = 20, 39, 41  # the last tenth of 21 suggestions: two
Objective = Callable[[Configuration, np.random.Generator], float]


def bowl(configuration: Configuration, rng: np.random.Generator) -> float:
    """0 at x = 0.3, z = 0.6, op = b."""
    x, z = float(configuration["x"]), float(configuration["z"])
    return (x - 0.3) ** 2 + (z - 0.6) ** 2 + 0.3 * (configuration["op"] != "b")


def noisy_bowl(configuration: Configuration, rng: np.random.Generator) -> float:
    return bowl(configuration, rng) + 0.2 * rng.standard_normal()


def near_its_end(objective: Objective, evaluations: int | None = EVALUATIONS) -> BOFM:
    """BO-FM with TOLD random results, of which some are near the minimum."""
    rng = np.random.default_rng(3)
    optimizer = BOFM(SPACE, initial_design=random_design(SPACE, DESIGN, 0), mode=QUICK, evaluations=evaluations)
    for number in range(TOLD):
        configuration = SPACE.sample(rng)
        if number % 3 == 0:
            x, z = np.clip([0.3, 0.6] + 0.05 * rng.standard_normal(2), 0.0, 1.0)
            configuration = {"x": float(x), "z": float(z), "op": "b"}
        trial = Trial(number, configuration, 1, "random")
        optimizer.restore(trial)
        optimizer.tell(trial, objective(configuration, rng))
    return optimizer


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[Points]:
    """What each closer look saw, in turn."""
    seen: list[Points] = []
    local_candidates = module.local_candidates

    def noted(*given: object) -> Points:
        seen.append(local_candidates(*given))  # type: ignore[arg-type]
        return seen[-1]

    monkeypatch.setattr(module, "local_candidates", noted)
    return seen


def test_the_last_asks_are_what_a_closer_look_promises(looks: list[Points]) -> None:
    optimizer = near_its_end(bowl)
    before = min(evaluation.objective for _, evaluation in optimizer.history)
    for number in (1, 2):
        trial = optimizer.ask()
        assert trial is not None
        assert len(looks) == number
        best = SPACE.decode(looks[-1].encoded(SPACE)[0])
        assert trial.configuration == best
        optimizer.tell(trial, bowl(trial.configuration, np.random.default_rng(0)))
    after = min(evaluation.objective for _, evaluation in optimizer.history)
    assert after < 0.01 * before


def test_noise_leaves_nothing_to_look_at(looks: list[Points]) -> None:
    assert near_its_end(noisy_bowl).ask() is not None
    assert looks == []


def test_without_a_known_end_the_ask_has_its_turn(looks: list[Points]) -> None:
    """Number 39 of untold ones is the last of its round: it refines, and looks closer too."""
    turns = []
    for evaluations in (None, 200):
        optimizer = near_its_end(bowl, evaluations)
        turns.append(optimizer.ask())
    assert turns[0] == turns[1]
    assert len(looks) == 2
