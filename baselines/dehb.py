"""DEHB (Awad et al. 2021): differential evolution in Hyperband's brackets, with a subpopulation per rung.

| changed | source | here | reason |
|---|---|---|---|
| first generation | mutated before it is evaluated | evaluated first | as in Hyperband |
| integers | rounded: both ends are half as likely | equal bins | uniform |
| first coordinate of a category | the lower end of its bin | uniform in its bin | mutants favour no category |
| promotions | only while the newest bracket is of the first cycle | in all brackets of that cycle | many workers |
| parents of a mutant | may include the target | other points; random ones if there are too few | |
| a single rung | refused | differential evolution, whose parents are all members | for comparison |
| too few to promote | the rung below is listed again | the target, or a child of it | |
| infeasible children | none | drawn again, 100 times at most | constraints |
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from fmnas.baselines.brackets import ETA, MIN_EPOCHS, Eta, MinEpochs, brackets, rungs
from fmnas.baselines.dehb_bracket import Bracket, Member
from fmnas.baselines.differential_evolution import PARENTS, DifferentialEvolution, Point
from fmnas.optimizers import Optimizer, OptimizerError, Suggestion
from fmnas.optimizers.optimizer import SearchPlan
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Evaluation, Space, Trial
from fmnas.search_spaces.records import FALLBACK, MUTATION, PROMOTION, RANDOM
from fmnas.search_spaces.variables import Floats

SINGLE_POPULATION = 20
"""Size of the population of a single rung: the default of the authors' differential evolution."""
MAX_CHILDREN = 100
"""Attempts to find a feasible child before a random configuration is suggested."""


@dataclass(frozen=True)
class Run:
    """A pending trial: its bracket, and the place of the subpopulation that its point competes for."""

    bracket: Bracket
    rung: int
    place: int
    u: Point


class DEHB(Optimizer):
    """A child competes with its target for the target's place in a rung; the places are targets in turn.

    In the first cycle of brackets, a rung's best are promoted to the next one, as in Hyperband. Mutants are made of the
    best of the rung below, in a bracket's first rung of that rung's best. With few epochs these are fewer than three,
    and mutants of all subpopulations are added. Short trainings cost their epochs. It takes no initial design. A trial
    without a result leaves its place unchanged. With a single rung, this is differential evolution.

    eta, min_epochs: as for Hyperband.
    mutation_factor: F. crossover_prob: CR, the probability that a coordinate comes from the mutant.
    """

    chooses = MUTATION

    def __init__(
        self,
        space: Space,
        *,
        seed: int = 0,
        epochs: int = 1,
        eta: Eta = ETA,
        min_epochs: MinEpochs = MIN_EPOCHS,
        mutation_factor: Annotated[float, Interval(ge=0.0, le=2.0)] = 0.5,
        crossover_prob: Annotated[float, Interval(ge=0.0, le=1.0)] = 0.5,
    ) -> None:
        super().__init__(space, seed=seed, epochs=epochs)
        check_options(type(self), eta=eta, min_epochs=min_epochs)
        check_options(type(self), mutation_factor=mutation_factor, crossover_prob=crossover_prob)
        self.evolution = DifferentialEvolution(space, mutation_factor, crossover_prob)
        self.rungs = [round(budget) for budget in rungs(epochs, eta, min_epochs)]
        cycle = [sizes for sizes, _ in brackets(epochs, eta, min_epochs)]
        self.cycle = cycle if len(cycle) > 1 else [(SINGLE_POPULATION,)]
        rng = np.random.default_rng([seed, 0, 0xDE])  # three numbers: distinct from the seeds of all asks
        sizes = [sizes[0] for sizes in self.cycle]
        self.populations = [[Member(tuple(u)) for u in self.evolution.draw(size, rng).tolist()] for size in sizes]
        self._next_place = [0] * len(self.rungs)
        self._brackets: list[Bracket] = []
        self._opened = 0
        self._runs: dict[int, Run] = {}  # by trial id

    @classmethod
    def config_warning(cls, options: Mapping[str, Any], plan: SearchPlan) -> str:
        """Return a warning if the budget ends before the first child."""
        eta, min_epochs = options.get("eta", ETA), options.get("min_epochs", MIN_EPOCHS)
        epochs = epochs_to_child(plan.epochs, eta, min_epochs)
        if epochs < plan.evaluations * plan.epochs:
            return ""
        return f"no child before {epochs} epochs; use at least {plan.budget}={epochs // plan.epochs + 1}"

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        bracket = self._next_bracket()
        rung, place = bracket.rung, self._next_place[bracket.rung]
        bracket.free, bracket.running = bracket.free - 1, bracket.running + 1
        self._next_place[rung] = (place + 1) % len(self.populations[rung])
        target = self.populations[rung][place]
        suggestion = self._propose(bracket, target, rng)
        if target.trial is None and suggestion.origin == RANDOM:
            self.populations[rung][place] = replace(target, trial=self._asked)
        self._runs[self._asked] = Run(bracket, rung, place, suggestion.memo)
        return replace(suggestion, epochs=self.rungs[rung])

    def restore(self, trial: Trial) -> None:
        """Replay one ask, so that the brackets advance, and continue with the recorded point."""
        again = self._suggest(np.random.default_rng([self.seed, self._asked]))
        if (again.epochs, len(again.memo)) != (trial.epochs, len(trial.memo)):
            raise OptimizerError(f"trial {trial.id} does not follow from the trials before it: the journal was changed")
        self._runs[trial.id] = replace(self._runs[trial.id], u=trial.memo)
        super().restore(trial)

    def _observe(self, trial: Trial, evaluation: Evaluation) -> None:
        run = self._finish_run(trial)
        population = self.populations[run.rung]
        if evaluation.objective <= population[run.place].objective:
            population[run.place] = Member(run.u, trial.id, evaluation.objective)

    def forget(self, trial: Trial) -> None:
        """Drop a pending trial: its bracket continues without it."""
        super().forget(trial)
        self._finish_run(trial)

    def _finish_run(self, trial: Trial) -> Run:
        run = self._runs.pop(trial.id)
        run.bracket.running -= 1
        return run

    def _next_bracket(self) -> Bracket:
        """Return the oldest bracket with work; a new one if all wait for results."""
        for bracket in self._brackets:
            bracket.advance()
            if bracket.free:
                return bracket
        first, promotes = self._opened % len(self.cycle), self._opened < len(self.cycle)
        self._opened += 1
        new = Bracket(first, self.cycle[first], promotes=promotes)
        self._brackets = [*(bracket for bracket in self._brackets if not bracket.is_finished), new]
        return new

    def _propose(self, bracket: Bracket, target: Member, rng: np.random.Generator) -> Suggestion:
        """Return a promotion, the target itself if it was not asked yet, or a child of it; the memo is the point."""
        promoted = self._next_promotion(bracket)
        if promoted is not None:
            return Suggestion(self.evolution.decode(promoted.u), PROMOTION, parent=promoted.trial, memo=promoted.u)
        if target.trial is None:
            return Suggestion(self.evolution.decode(target.u), RANDOM, memo=target.u)
        pool = self._mutation_pool(bracket, target.u, rng)
        for _ in range(MAX_CHILDREN):
            child = self.evolution.cross(target.u, self.evolution.mutate(pool, target.u, rng), rng)
            configuration = self.evolution.decode(child)
            if self.space.meets_constraints(configuration, strictly=True):
                return Suggestion(configuration, MUTATION, parent=target.trial, memo=child)
        note = f"none of {MAX_CHILDREN} children of trial {target.trial} was feasible; random configuration instead"
        u = tuple(self.evolution.draw(1, rng)[0].tolist())
        return Suggestion(self.evolution.decode(u), RANDOM, note=note, memo=u, fallback=FALLBACK)

    def _next_promotion(self, bracket: Bracket) -> Member | None:
        """Return the next of the best of the rung below that are not in this one; None if there are no more."""
        if not bracket.promotes or bracket.rung == bracket.first:
            return None
        if bracket.promotions is None:
            present = {member.u for member in self.populations[bracket.rung]}
            below = [member for member in self.populations[bracket.rung - 1] if member.objective < inf]
            new = [member for member in below if member.u not in present]
            bracket.promotions = sorted(new, key=lambda member: member.objective)[: bracket.size]
        return bracket.promotions.pop(0) if bracket.promotions else None

    def _mutation_pool(self, bracket: Bracket, target: Point, rng: np.random.Generator) -> Floats:
        """Return the best points [m, D + P] of the rung below; of the rung itself if it is the bracket's first.

        Fewer than PARENTS are completed by mutants of all subpopulations.
        """
        source = self.populations[max(bracket.rung - 1, bracket.first)]
        best = sorted(source, key=lambda member: member.objective)[: bracket.size]
        pool = np.array([member.u for member in best])
        if len(pool) >= PARENTS:
            return pool
        everyone = np.array([member.u for population in self.populations for member in population])
        added = [self.evolution.mutate(everyone, target, rng) for _ in range(PARENTS - len(pool) + 1)]
        return np.concatenate([pool, added])


def epochs_to_child(epochs: int, eta: int, min_epochs: int) -> int:
    """Return the epochs that sequential DEHB needs before its first child."""
    cycle = brackets(epochs, eta, min_epochs)
    if len(cycle) == 1:
        return SINGLE_POPULATION * epochs
    (sizes, budgets), (following, _) = cycle[:2]
    first_bracket = sum(size * round(budget) for size, budget in zip(sizes, budgets, strict=True))
    return first_bracket + (following[0] - sizes[1]) * round(budgets[1])  # places that had no promotion come first
