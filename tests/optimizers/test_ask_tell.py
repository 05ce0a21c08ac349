"""Objects with ask and tell as optimizers: what they receive and when, how they are restored, and what is refused."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.optimizers import OptimizerError, random_design
from fmnas.optimizers.ask_tell import AskTellOptimizer, NonReproducibleError, is_factory, optimizer_from_factory
from fmnas.optimizers.isolation import IsolatedRNG
from fmnas.search_spaces import Configuration, Integer, Nominal, Real, Space, Trial
from fmnas.search_spaces.records import INITIAL, MODEL

SPACE = Space([Real("x", 0.0, 1.0), Integer("k", 0, 9), Nominal("op", ["a", "b"])])


class Recorder:
    """Suggests what is next, and records what it receives."""

    def __init__(self, space: Space, seed: int, start: int = 0) -> None:
        self.space, self.seed, self.count, self.heard = space, seed, start, list[tuple[Configuration, float]]()

    def ask(self) -> Any:
        self.count += 1
        return {"k": np.int64(self.count % 10), "op": np.str_("b"), "x": np.float64(0.25)}

    def tell(self, configuration: Configuration, objective: float) -> None:
        self.heard.append((dict(configuration), objective))
        configuration.clear()  # it is its own copy


def built(make: Callable[..., Any], **given: Any) -> AskTellOptimizer:
    return optimizer_from_factory(make)(SPACE, **given)


def test_it_receives_every_result_and_the_initial_design() -> None:
    made = []

    def make(space: Space, seed: int) -> Recorder:
        made.append(Recorder(space, seed))
        return made[-1]

    design = random_design(SPACE, 2, 0)
    optimizer = built(make, seed=3, initial_design=design)
    trials = [optimizer.ask() for _ in range(4)]
    assert [trial.origin for trial in trials if trial] == [INITIAL, INITIAL, MODEL, MODEL]
    for i in (3, 0, 2):
        trial = trials[i]
        assert trial is not None
        optimizer.tell(trial, float(i))
    (recorder,) = made
    assert (recorder.space, recorder.seed, recorder.count) == (SPACE, 3, 2)
    second = {"x": 0.25, "k": 2, "op": "b"}
    assert recorder.heard == [(second, 3.0), (design[0], 0.0), ({**second, "k": 1}, 2.0)]
    assert list(optimizer.pending) == [1]


def test_numpys_values_are_pythons_and_in_order() -> None:
    trial = built(Recorder).ask()
    assert trial is not None
    assert list(trial.configuration) == ["x", "k", "op"]
    assert {name: type(value) for name, value in trial.configuration.items()} == {"x": float, "k": int, "op": str}


def test_a_pair_of_functions_will_do_and_what_it_draws_is_its_own() -> None:
    def pair(space: Space, seed: int) -> Any:
        def ask() -> Configuration:
            draws = random.random(), np.random.random(), float(torch.rand(1))
            return {**space.sample(np.random.default_rng(0)), "x": sum(draws) / 3}

        return ask, lambda configuration, objective: random.random()

    def ask_values(seed: int, callers: int) -> list[Any]:
        random.seed(callers)
        optimizer, values = built(pair, seed=seed), []
        for _ in range(3):
            trial = optimizer.ask()
            assert trial is not None
            values.append(trial.configuration["x"])
            optimizer.tell(trial, 0.0)
        return values

    assert ask_values(5, 1) == ask_values(5, 2) != ask_values(6, 1)
    assert len(set(ask_values(5, 1))) == 3


def test_a_private_random_state_persists_and_leaves_the_callers_unchanged() -> None:
    private = IsolatedRNG(2**40 + 1)
    draws, callers = [], []
    for _ in range(2):
        random.seed(7)
        with private.activate():
            draws.append((random.random(), np.random.random(), float(torch.rand(1))))
        callers.append(random.random())
    assert callers[0] == callers[1]
    with IsolatedRNG(1).activate():
        again = [(random.random(), np.random.random(), float(torch.rand(1))) for _ in range(2)]
    assert draws == again


@pytest.mark.parametrize(
    ("suggested", "words"),
    [
        ([0.5, 1, "a"], "must return a mapping with a value for each of x, k, op"),
        ({"x": 2.0, "k": 1, "op": "a"}, r"x = 2\.0"),
        (None, "no trial is pending"),
    ],
)
def test_invalid_configurations_are_refused(suggested: Any, words: str) -> None:
    optimizer = built(lambda space, seed: (lambda: suggested, lambda *told: None))
    with pytest.raises((OptimizerError, ValueError), match=words):
        optimizer.ask()
    assert optimizer.pending == {}


def test_it_may_wait_for_a_result() -> None:
    optimizer = built(lambda space, seed: (iter([space.sample(np.random.default_rng(0)), None]).__next__, print))
    assert optimizer.ask() is not None
    assert optimizer.ask() is None


@pytest.mark.parametrize("made", [{}, (print, 3)])
def test_what_is_made_must_ask_and_tell(made: Any) -> None:
    def make(space: Space, seed: int) -> Any:
        return made

    with pytest.raises(OptimizerError, match="return an object with ask"):
        built(make)


def test_restored_it_asks_again_in_the_recorded_order() -> None:
    optimizer, copy = (built(Recorder, initial_design=random_design(SPACE, 1, 0)) for _ in range(2))
    for _ in range(3):
        trial = optimizer.ask()
        assert trial is not None
        copy.restore(Trial.from_dict({**trial.to_dict(), "seed": 9}))
        assert copy.pending[trial.id].seed == 9
    assert optimizer.ask() == copy.ask()


def test_what_is_not_as_recorded_is_an_error_that_names_the_trial() -> None:
    optimizer = built(Recorder)
    trial = optimizer.ask()
    assert trial is not None
    with pytest.raises(NonReproducibleError, match=r"trial 0: .*'k': 6.*'k': 1"):
        built(Recorder, start=5).restore(trial)
    with pytest.raises(OptimizerError, match="trial 3"):
        built(Recorder).restore(Trial.from_dict({**trial.to_dict(), "id": 3}))

    def broken(space: Space, seed: int) -> Any:
        return lambda: {}["nothing"], print

    with pytest.raises(NonReproducibleError, match=r"trial 0: .*KeyError"):
        built(broken).restore(trial)


class Silent:
    def __init__(self, space: Space, seed: int) -> None: ...


@pytest.mark.parametrize(
    ("candidate", "can"),
    [
        (Recorder, True),
        (Silent, False),
        (lambda space, seed: None, True),
        (3, False),
    ],
)
def test_what_can_make_one(candidate: Any, can: bool) -> None:
    assert is_factory(candidate) is can
