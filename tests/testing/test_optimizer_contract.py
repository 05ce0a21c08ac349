"""The contract's rules: a plain optimizer keeps them all, and each that breaks one is found."""

import inspect
import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.optimizers import Optimizer, OptimizerError, Suggestion, random_design
from fmnas.search_spaces import Configuration, Evaluation, Space, Trial
from fmnas.search_spaces.records import MODEL, MUTATION
from fmnas.testing import OptimizerContract, Subject
from fmnas.testing.optimizers import require_same_suggestions, suggest_in_another_process, suggest_on_all_spaces
from fmnas.testing.session import RuleResult, get_rules, run_rules
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
    (Outside, "suggestions_lie_in_the_space"),
    (Disordered, "suggestions_lie_in_the_space"),
    (Infeasible, "constraints_are_met"),
    (Gaps, "trials_are_numbered_from_0"),
    (NoJSON, "trials_are_plain_json"),
    (Orphan, "origins_are_known"),
    (TooLong, "the_epochs_of_a_trial_are_within_its_fidelity"),
    (OwnDesign, "the_initial_design_comes_first"),
    (Unseeded, "the_same_seed_gives_the_same_trials"),
    (Seedless, "another_seed_gives_other_trials"),
    *((drawing(draw), "global_random_state_is_untouched") for draw in DRAWS),
    *((drawing(draw), "global_random_state_has_no_influence") for draw in DRAWS),
    (Sequential, "many_trials_may_be_pending"),
    (InOrder, "results_may_come_in_any_order"),
    (ToldAgain, "a_result_is_taken_once"),
    (TakesNan, "an_objective_is_finite"),
    (NeverForgets, "a_forgotten_trial_is_gone"),
    (Counting, "restored_at_any_point_it_goes_on_the_same"),
    (Counting, "restored_from_any_history_it_goes_on_the_same"),
]
UNBREAKABLE = {"it_can_be_built_asked_and_told", "repeats_are_allowed", "another_process_suggests_the_same"}


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


def run(optimizer: type[Optimizer]) -> dict[str, RuleResult]:
    """The result of every rule in a session of pytest's."""
    results: list[RuleResult] = []
    run_rules(make_subject(optimizer), get_rules(), results.append)
    return {result.rule.removeprefix("test_"): result for result in results}


def test_a_plain_optimizer_keeps_every_rule() -> None:
    results = run(Plain)
    assert list(results) == [rule.removeprefix("test_") for rule in get_rules()]
    assert [result for result in results.values() if result.error is not None] == []


def test_a_sequential_optimizer_keeps_the_rest() -> None:
    results = run(Sequential)
    assert [result for result in results.values() if result.error is not None] == []
    skipped = {rule for rule, result in results.items() if result.is_skipped}
    assert skipped >= {"many_trials_may_be_pending", "results_may_come_in_any_order"}


@pytest.mark.parametrize(("optimizer", "rule"), BREAKS, ids=lambda value: getattr(value, "__name__", value))
def test_what_breaks_a_rule_is_found(optimizer: type[Optimizer], rule: str) -> None:
    with pytest.raises((AssertionError, ValueError, RuntimeError)):
        examine(rule, make_subject(optimizer, parallel=True))


def test_every_rule_is_broken_by_one() -> None:
    assert {rule for _, rule in BREAKS} == {rule.removeprefix("test_") for rule in get_rules()} - UNBREAKABLE


def test_a_session_names_the_first_space_on_which_a_rule_is_broken() -> None:
    result = run(Seedless)["another_seed_gives_other_trials"]
    assert isinstance(result.error, AssertionError)
    assert result.case == "continuous"


def test_another_process_must_suggest_the_same(tmp_path: Path) -> None:
    here = suggest_on_all_spaces(make_subject(Plain))
    with pytest.raises(AssertionError, match="continuous"):
        require_same_suggestions(here, suggest_on_all_spaces(make_subject(Counting)))
    with pytest.raises(AssertionError, match="6, and then 0"):
        require_same_suggestions(here, {space: [] for space in here})
    with pytest.raises(pytest.skip.Exception):
        suggest_in_another_process(make_subject(Plain), tmp_path)  # its build is a local function


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


def test_repeats_and_shorter_trainings_are_noted() -> None:
    class Repeats(Plain):
        def _suggest(self, rng: np.random.Generator) -> Suggestion:
            return Suggestion(self.space.sample(np.random.default_rng(0)), MODEL, epochs=1 + self._asked % 2)

    (note,) = examine("repeats_are_allowed", make_subject(Repeats))
    assert note.startswith("20 of its first 24 suggestions")
    notes = examine("the_epochs_of_a_trial_are_within_its_fidelity", make_subject(Repeats))
    assert all("1, 2 of" in note for note in notes)
    assert examine("the_epochs_of_a_trial_are_within_its_fidelity", make_subject(Plain)) == []
