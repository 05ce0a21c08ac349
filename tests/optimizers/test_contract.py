"""The rules of fmnas.optimizers.contract: a plain optimizer keeps them all, and each that breaks one is found."""

import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch

from fmnas.optimizers import Optimizer, OptimizerError, Suggestion, random_design
from fmnas.optimizers.contract import RULES, BrokenRuleError, Subject, checks
from fmnas.optimizers.contract.play import DESIGN, DESIGN_SEED, EPOCHS
from fmnas.optimizers.contract.rules import rules
from fmnas.search_spaces import Configuration, Evaluation, Space, Trial
from fmnas.search_spaces.records import MODEL, MUTATION


class Plain(Optimizer):
    """Random search."""

    def _suggest(self, rng: np.random.Generator) -> Suggestion | None:
        return Suggestion(self.space.sample(rng), MODEL)


class Outside(Plain):
    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        return Suggestion({**self.space.sample(rng), self.space.names[0]: 77}, MODEL)


class Raw(Plain):
    """Its suggestions go on record as they are."""

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


BREAKS: dict[str, tuple[type[Optimizer], str]] = {
    "outside": (Outside, "suggestions lie in the space"),
    "disordered": (Disordered, "suggestions lie in the space"),
    "infeasible": (Infeasible, "constraints are met"),
    "gaps": (Gaps, "trials are numbered from 0"),
    "no JSON": (NoJSON, "trials are plain JSON"),
    "orphan": (Orphan, "origins are known"),
    "too long": (TooLong, "the epochs of a trial are within its fidelity"),
    "own design": (OwnDesign, "the initial design comes first"),
    "unseeded": (Unseeded, "the same seed gives the same trials"),
    "seedless": (Seedless, "another seed gives other trials"),
    "draws": (drawing(np.random.random), "global random state is untouched"),
    "draws of Python": (drawing(random.random), "global random state is untouched"),
    "draws of torch": (drawing(lambda: float(torch.rand(1))), "global random state is untouched"),
    "heeds": (drawing(np.random.random), "global random state has no influence"),
    "heeds Python": (drawing(random.random), "global random state has no influence"),
    "heeds torch": (drawing(lambda: float(torch.rand(1))), "global random state has no influence"),
    "sequential": (Sequential, "many trials may be pending"),
    "in order": (InOrder, "results may come in any order"),
    "told again": (ToldAgain, "a result is taken once"),
    "takes NaN": (TakesNan, "an objective is finite"),
    "never forgets": (NeverForgets, "a forgotten trial is gone"),
    "counting": (Counting, "restored at any point it goes on the same"),
    "counting on": (Counting, "restored from any history it goes on the same"),
}


def subject(optimizer: type[Optimizer], parallel: bool = True) -> Subject:
    def build(space: Space, seed: int) -> Optimizer:
        return optimizer(space, seed=seed, epochs=EPOCHS, initial_design=random_design(space, DESIGN, DESIGN_SEED))

    return Subject(build, parallel=parallel)


def test_a_plain_optimizer_keeps_every_rule() -> None:
    here = checks.suggested_everywhere(subject(Plain))
    for rule in rules(lambda: here).values():
        rule.examine(subject(Plain))


def test_a_sequential_optimizer_keeps_the_rest() -> None:
    for rule in RULES:
        if not rule.parallel:
            rule.examine(subject(Sequential, parallel=False))


@pytest.mark.parametrize("case", BREAKS)
def test_what_breaks_a_rule_is_found(case: str) -> None:
    optimizer, name = BREAKS[case]
    (rule,) = (rule for rule in RULES if rule.name == name)
    with pytest.raises(BrokenRuleError) as broken:
        rule.examine(subject(optimizer))
    assert "space: " in str(broken.value)


def test_every_rule_is_broken_by_one() -> None:
    told = {name for _, name in BREAKS.values()}
    assert told == {rule.name for rule in RULES} - {"repeats are allowed"}


def test_another_process_must_suggest_the_same() -> None:
    other, elsewhere = checks.suggested_everywhere(subject(Counting)), "another process suggests the same"
    with pytest.raises(BrokenRuleError, match="continuous space: in another process"):
        rules(lambda: other)[elsewhere].examine(subject(Plain))
    with pytest.raises(BrokenRuleError, match="there are 6, and then 0"):
        rules(lambda: {place: [] for place in other})[elsewhere].examine(subject(Plain))


def test_constraints_may_be_refused_and_it_is_said() -> None:
    class Free(Plain):
        def __init__(self, space: Space, **given: Any) -> None:
            if space.constraints:
                raise OptimizerError("no constraints, please")
            super().__init__(space, **given)

    (rule,) = (rule for rule in RULES if rule.name == "constraints are met")
    assert rule.examine(subject(Free)) == "it refuses spaces with constraints: no constraints, please"
    assert checks.suggested_everywhere(subject(Free))["constrained mixed"] == []


def test_repeats_and_shorter_trainings_are_told() -> None:
    class Repeats(Plain):
        def _suggest(self, rng: np.random.Generator) -> Suggestion:
            return Suggestion(self.space.sample(np.random.default_rng(0)), MODEL, epochs=1 + self._asked % 2)

    told = {rule.name: rule.examine for rule in RULES}
    assert told["repeats are allowed"](subject(Repeats)).startswith("20 of its first 24 suggestions")
    fidelity = told["the epochs of a trial are within its fidelity"]
    assert fidelity(subject(Repeats)) == f"it also trains for 1, 2 of {EPOCHS} epochs"
    assert fidelity(subject(Plain)) == ""
