"""The contract's rules: a plain optimizer keeps them all, and each that breaks one is found."""

import inspect
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.optimizers import Optimizer, OptimizerError, Suggestion, random_design
from fmnas.platform.check import RULES, run_rules
from fmnas.platform.errors import CheckResult
from fmnas.search_spaces import Configuration, Evaluation, Space, SpaceError, Trial
from fmnas.search_spaces.records import MODEL, MUTATION
from fmnas.testing import OptimizerContract, Subject
from fmnas.testing.optimizers import require_same_suggestions, suggest_on_all_spaces
from fmnas.testing.subject import CONSTRAINED, DESIGN, DESIGN_SEED, EPOCHS, SPACES


class Plain(Optimizer):
    """Random search."""

    def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
        return Suggestion(self.space.sample(rng), MODEL)


class Outside(Plain):
    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion({**self.space.sample(rng), self.space.names[0]: 77}, MODEL)


class Raw(Plain):
    """Its suggestions are recorded unchanged."""

    def _validate(self, suggestion: Suggestion) -> Suggestion:
        return suggestion


class Disordered(Raw):
    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(dict(reversed(self.space.sample(rng).items())), MODEL)


class Infeasible(Raw):
    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(Space(self.space.variables).sample(rng), MODEL)


class Gaps(Plain):
    def _register(self, trial: Trial) -> None:
        super()._register(trial)
        self._asked += 1


class NoJSON(Raw):
    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(self.space.sample(rng), MODEL, memo=(np.float32(1.5),))  # type: ignore[arg-type]


class Orphan(Plain):
    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(self.space.sample(rng), MUTATION)


class TooLong(Raw):
    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(self.space.sample(rng), MODEL, epochs=EPOCHS + 1)


class OwnDesign(Plain):
    def __init__(self, space: Space, *, initial_design: Sequence[Configuration] = (), **given: Any) -> None:
        super().__init__(space, initial_design=list(reversed(initial_design)), **given)


class Unseeded(Plain):
    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(self.space.sample(np.random.default_rng()), MODEL)


class Seedless(Plain):
    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion(self.space.sample(np.random.default_rng(self._asked)), MODEL)


def drawing(draw: Callable[[], float]) -> type[Optimizer]:
    class Draws(Plain):
        def _suggest(self, rng: np.random.Generator) -> Suggestion:
            return Suggestion(self.space.sample(np.random.default_rng(int(1e9 * draw()))), MODEL)

    return Draws


class Sequential(Plain):
    def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
        return None if self.pending else super()._suggest(rng)


class InOrder(Plain):
    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        if trial.id != len(self.history) - 1:
            raise RuntimeError(f"trial {trial.id} comes too early")


class ToldAgain(Plain):
    def tell(self, trial: Trial, evaluation: Evaluation | float) -> None:
        self.pending.setdefault(trial.id, trial)
        super().tell(trial, evaluation)


class TakesNan(Plain):
    def tell(self, trial: Trial, evaluation: Evaluation | float) -> None:
        result = evaluation if isinstance(evaluation, Evaluation) else Evaluation(evaluation, epochs=trial.epochs)
        self._pop_pending(trial)
        self.history.append((trial, result))


class NeverForgets(Plain):
    def forget(self, trial: Trial) -> None:
        if trial.id not in self.pending:
            raise OptimizerError(f"trial {trial.id} is not pending")


class Counting(Plain):
    count = 0

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        self.count += 1
        return Suggestion(self.space.sample(np.random.default_rng([self.seed, self.count])), MODEL)


DRAWS = (np.random.random, random.random, lambda: float(torch.rand(1)))

BREAKS: list[tuple[type[Optimizer], str]] = [
    (Outside, "trials_are_valid"),
    (Disordered, "trials_are_valid"),
    (Infeasible, "constraints_are_met"),
    (Gaps, "results_may_come_in_any_order"),
    (NoJSON, "trials_are_valid"),
    (Orphan, "trials_are_valid"),
    (TooLong, "trials_are_valid"),
    (OwnDesign, "the_initial_design_comes_first"),
    (Unseeded, "the_same_seed_gives_the_same_trials"),
    (Seedless, "another_seed_gives_other_trials"),
    *((drawing(draw), "global_random_state_is_untouched") for draw in DRAWS),
    *((drawing(draw), "the_same_seed_gives_the_same_trials") for draw in DRAWS),
    (Sequential, "results_may_come_in_any_order"),
    (InOrder, "results_may_come_in_any_order"),
    (ToldAgain, "a_result_is_taken_once"),
    (TakesNan, "an_objective_is_finite"),
    (NeverForgets, "a_forgotten_trial_is_gone"),
    (Counting, "restored_from_any_history_it_goes_on_the_same"),
]
OTHER_ERRORS: dict[type[Optimizer], type[Exception]] = {
    Outside: SpaceError,
    Infeasible: SpaceError,
    NoJSON: TypeError,
    InOrder: RuntimeError,
}
"""How a rule fails where the optimizer, the space or JSON raise before it compares anything."""
UNBREAKABLE = {"it_can_be_built_asked_and_told", "another_process_suggests_the_same"}


def make_subject(optimizer: type[Optimizer], parallel: bool | None = None) -> Subject:
    def build(space: Space, seed: int) -> Optimizer:
        return optimizer(space, seed=seed, epochs=EPOCHS, initial_design=random_design(space, DESIGN, DESIGN_SEED))

    return Subject(build, parallel=parallel)


def examine(rule: str, subject: Subject) -> list[str]:
    """Call a rule on each of its spaces; returns its notes."""
    test, notes = getattr(OptimizerContract(), f"test_{rule}"), list[str]()
    taken = inspect.signature(test).parameters
    notice = {"record_property": lambda _, note: notes.append(note)} if "record_property" in taken else {}
    spaces = CONSTRAINED if rule == "constraints_are_met" else SPACES
    for space in spaces.values() if "space" in taken else [None]:
        test(subject, **({} if space is None else {"space": space}), **notice)
    return notes


def run(optimizer: type[Optimizer]) -> dict[str, CheckResult]:
    """The result of every rule in a session of pytest's."""
    results: list[CheckResult] = []
    run_rules(make_subject(optimizer), results.append)
    assert [result.name for result in results] == RULES
    return {result.name.removeprefix("test_"): result for result in results}


def test_a_plain_optimizer_keeps_every_rule() -> None:
    passed = {rule: result.passed for rule, result in run(Plain).items()}
    skipped = {"another_process_suggests_the_same"}  # a local function cannot be pickled
    assert passed == {rule: None if rule in skipped else True for rule in passed}


@pytest.mark.parametrize(("optimizer", "rule"), BREAKS, ids=lambda value: getattr(value, "__name__", value))
def test_what_breaks_a_rule_is_found(optimizer: type[Optimizer], rule: str) -> None:
    with pytest.raises(OTHER_ERRORS.get(optimizer, (AssertionError, pytest.fail.Exception))):
        examine(rule, make_subject(optimizer, parallel=True))


def test_every_rule_is_broken_by_one() -> None:
    assert {rule for _, rule in BREAKS} == {rule.removeprefix("test_") for rule in RULES} - UNBREAKABLE


def test_a_session_names_the_first_space_on_which_a_rule_is_broken() -> None:
    result = run(Seedless)["another_seed_gives_other_trials"]
    assert result.passed is False
    assert result.detail.startswith("continuous space: ")


def test_another_process_must_suggest_the_same() -> None:
    here = suggest_on_all_spaces(make_subject(Plain))
    with pytest.raises(AssertionError, match="continuous"):
        require_same_suggestions(here, suggest_on_all_spaces(make_subject(Counting)))
    with pytest.raises(AssertionError, match="6, and then 0"):
        require_same_suggestions(here, {space: [] for space in here})


def test_constraints_may_be_refused_with_a_note() -> None:
    class Free(Plain):
        def __init__(self, space: Space, **given: Any) -> None:
            if space.constraints:
                raise OptimizerError("no constraints, please")
            super().__init__(space, **given)

    notes = examine("constraints_are_met", make_subject(Free))
    assert len(notes) == 2
    assert "no constraints, please" in notes[0]
    assert suggest_on_all_spaces(make_subject(Free))["constrained mixed"] == []


def test_an_optimizer_may_need_positive_objectives() -> None:
    class Logarithmic(Plain):
        log_objective = True

    assert all(result.passed is not False for result in run(Logarithmic).values())


def test_shorter_trainings_are_noted() -> None:
    class Shorter(Plain):
        def _suggest(self, rng: np.random.Generator) -> Suggestion:
            return Suggestion(self.space.sample(rng), MODEL, epochs=1 + self._asked % 2)

    notes = examine("trials_are_valid", make_subject(Shorter))
    assert all("1, 2 of" in note for note in notes)
    assert examine("trials_are_valid", make_subject(Plain)) == []
