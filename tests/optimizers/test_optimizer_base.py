"""The bookkeeping that every optimizer inherits, shown on one that draws numbers."""

import json
import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.optimizers import BOFM, Optimizer, OptimizerError, Suggestion, random_design
from fmnas.optimizers.optimizer import MAX_NOTE_LENGTH
from fmnas.search_spaces import FmnasError, Integer, Nominal, Real, Space, Trial
from fmnas.search_spaces.records import INITIAL, PROMOTION, RANDOM

SPACE = Space([Real("x", 0.0, 1.0), Integer("k", 0, 9)])
DESIGN = [{"x": 0.25, "k": 1}, {"x": 0.75, "k": 2}]


class Drawing(Optimizer):
    """Suggests what its generator draws; None while two trials are pending."""

    def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
        if len(self.pending) == 2:
            return None
        parent = self._asked - 1 if self._asked else None
        return Suggestion(self.space.sample(rng), PROMOTION, epochs=3, parent=parent, note="drawn")


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (Suggestion({"x": 0.5, "k": 3}, "mine"), "origin = 'mine'"),
        (Suggestion({"x": 0.5, "k": 3}, RANDOM, epochs=26), "epochs = 26"),
        (Suggestion({"x": 0.5, "k": 3}, RANDOM, epochs=0), "epochs = 0"),
        (Suggestion({"x": 1.5, "k": 3}, RANDOM), "x = 1.5"),
        (Suggestion({"x": 0.5}, RANDOM), "k"),
        (Suggestion({"x": 0.5, "k": 3}, RANDOM, epochs=2.5), "epochs = 2.5"),
        (Suggestion({"x": 0.5, "k": 3}, RANDOM, parent="0"), "parent = '0'"),
        (Suggestion({"x": 0.5, "k": 3}, RANDOM, parent=1), "parent = 1"),
        (Suggestion({"x": 0.5, "k": 3}, RANDOM, parent=10**30), "parent = 10+"),
        (Suggestion({"x": 0.5, "k": 3}, RANDOM, parent=-1), "parent = -1"),
        (Suggestion({"x": 0.5, "k": 3}, RANDOM, memo=(0.5, math.nan)), r"memo = \(0.5, nan\)"),
    ],
)
def test_a_suggestion_that_is_none_is_refused_and_takes_no_number(wrong: Suggestion, words: str) -> None:
    class Wrong(Drawing):
        def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
            return wrong

    optimizer = Wrong(SPACE, epochs=25, initial_design=DESIGN[:1])
    first = optimizer.ask()
    with pytest.raises(FmnasError, match=words):
        optimizer.ask()
    assert optimizer.pending == {0: first}


def test_a_long_note_is_cut() -> None:
    class Talking(Drawing):
        def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
            return Suggestion(self.space.sample(rng), RANDOM, note="n" * (MAX_NOTE_LENGTH + self._asked))

    optimizer = Talking(SPACE)
    assert [optimizer.ask().note for _ in range(2)] == ["n" * MAX_NOTE_LENGTH] * 2


def test_a_trial_holds_pythons_own_numbers_as_the_variables_have_them() -> None:
    suggestion: Any = Suggestion(
        {"k": np.int64(3), "x": np.float32(0.5)},
        PROMOTION,
        epochs=np.int64(3),
        parent=np.argmin([1, 0]),
        memo=(np.float32(1.5), 2),
    )

    class Numpys(Drawing):
        def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
            return suggestion

    design: Any = [{"k": 3.0, "x": 1}]
    numpys = Numpys(SPACE, epochs=25, initial_design=DESIGN)
    trials = [[numpys.ask() for _ in range(3)][-1], Drawing(SPACE, initial_design=design).ask()]
    assert [trial and json.dumps(trial.to_dict()["configuration"]) for trial in trials] == [
        '{"x": 0.5, "k": 3}',
        '{"x": 1.0, "k": 3}',
    ]
    first = trials[0]
    assert json.dumps([first.epochs, first.parent, first.memo]) == "[3, 1, [1.5, 2.0]]"


def test_initial_design_comes_first_at_full_fidelity() -> None:
    optimizer = Drawing(SPACE, epochs=25, initial_design=DESIGN)
    trials = [optimizer.ask(), optimizer.ask()]
    assert [t and t.configuration for t in trials] == DESIGN
    assert [t and (t.origin, t.epochs, t.parent, t.note) for t in trials] == [(INITIAL, 25, None, "")] * 2


def test_nothing_to_do_takes_no_number() -> None:
    optimizer = Drawing(SPACE, epochs=25)
    first, _ = optimizer.ask(), optimizer.ask()
    assert optimizer.ask() is None
    assert optimizer.ask() is None
    optimizer.tell(first, 1.0)
    third = optimizer.ask()
    assert third.id == 2


def test_an_ask_draws_from_its_seed_and_number_alone() -> None:
    """However many results there were before: the third ask is the third ask."""
    patient, hasty = Drawing(SPACE, seed=3, epochs=25), Drawing(SPACE, seed=3, epochs=25)
    for optimizer, value in ((patient, 0.0), (hasty, 9.0)):
        for _ in range(2):
            trial = optimizer.ask()
            if optimizer is patient:
                optimizer.tell(trial, value)
            else:
                optimizer.forget(trial)
    assert patient.ask() == hasty.ask()
    again = Drawing(SPACE, seed=3, epochs=25)
    numbers = [again.ask(), again.ask()]
    assert numbers[0] is not None
    assert numbers[1] is not None
    assert numbers[0].configuration != numbers[1].configuration


def test_a_gap_in_the_history_is_explained() -> None:
    optimizer = Drawing(SPACE, epochs=25)
    optimizer.restore(Trial(0, {"x": 0.5, "k": 3}, 1, INITIAL))
    assert list(optimizer.pending) == [0]
    with pytest.raises(OptimizerError, match=r"trial 2 .* trial 1"):
        optimizer.restore(Trial(2, {"x": 0.5, "k": 3}, 1, INITIAL))


def test_invalid_suggestions_are_explained() -> None:
    """The commonest first mistake."""

    class Plain(Drawing):
        def _suggest(self, rng: np.random.Generator) -> Any:
            return self.space.sample(rng)

    with pytest.raises(OptimizerError, match=r"dict.*Suggestion"):
        Plain(SPACE).ask()


@given(count=st.integers(0, 30), seed=st.integers(0, 50))
def test_a_random_design_repeats_nothing_while_it_need_not(count: int, seed: int) -> None:
    space = Space([Nominal("op", ["a", "b", "c"]), Integer("k", 0, 3)])
    design = random_design(space, count, seed)
    assert len(design) == count
    assert len({tuple(configuration.values()) for configuration in design}) == min(count, 12)
    assert design[:5] == random_design(space, 5, seed)[: min(count, 5)]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"space": [Real("x", 0.0, 1.0)]}, "space"),
        ({"seed": "a"}, "seed = 'a'"),
        ({"seed": None}, "seed = None"),
        ({"seed": -1}, "seed = -1"),
        ({"epochs": 0}, "epochs = 0"),
        ({"epochs": 2.5}, "epochs = 2.5"),
    ],
)
@pytest.mark.parametrize("optimizer", [Drawing, BOFM])
def test_what_no_optimizer_can_be_built_from(optimizer: type[Optimizer], arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(OptimizerError, match=words):
        optimizer(**{"space": SPACE, **arguments})


@pytest.mark.parametrize("result", [None, "0.3", [0.1, 0.2], {}])
def test_what_is_no_objective_leaves_the_trial_pending(result: Any) -> None:
    optimizer = Drawing(SPACE, epochs=25)
    trial = optimizer.ask()
    with pytest.raises(OptimizerError, match="objective"):
        optimizer.tell(trial, result)
    with pytest.raises(OptimizerError, match="trial"):
        optimizer.tell(trial.configuration, 0.3)
    assert list(optimizer.pending) == [0]
    optimizer.tell(trial, np.float32(0.25))
    assert optimizer.history[0][1].objective == 0.25
