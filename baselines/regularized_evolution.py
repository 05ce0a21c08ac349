"""Regularized (aging) evolution (Real et al. 2019) with mixed mutations (BO-FM paper, Supp. D.2)."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from fmnas.baselines.mutation import mutated, mutation_for
from fmnas.optimizers import Optimizer, OptimizerError, Suggestion
from fmnas.optimizers.optimizer import Plan
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space
from fmnas.search_spaces.records import MUTATION, RANDOM

POPULATION, TOURNAMENT = 50, 15
"""The paper's."""


class RegularizedEvolution(Optimizer):
    """The population is the last `population` evaluated; a child is the mutated best of a tournament among them.

    population: size of the population, and number of trials (the initial design included) before the first child.
    tournament: members drawn, with replacement; the best of them is the parent.

    With trials pending, the tournament is among those told. Until the first result, children are random. Where the
    space has constraints and a parent no feasible child, chance chooses, and the trial's note says so.
    """

    chooses = MUTATION

    def __init__(
        self,
        space: Space,
        *,
        population: Annotated[int, Interval(ge=2, le=10_000_000)] = POPULATION,
        tournament: Annotated[int, Interval(ge=1, le=10_000_000)] = TOURNAMENT,
        **others: Any,
    ) -> None:
        super().__init__(space, **others)
        check_options(type(self), population=population, tournament=tournament)
        self.population = population
        self.tournament = tournament
        self._mutate = mutation_for(space)

    @classmethod
    def check_together(cls, options: Mapping[str, Any]) -> None:
        """A tournament that is given is one among the population; the paper's, of 15, is left alone."""
        tournament, population = options.get("tournament"), options.get("population", POPULATION)
        if tournament is not None and tournament > population:
            raise OptimizerError(
                f"tournament = {tournament}: it must be at most the population, {population}; lower it, or raise "
                "population"
            )

    @classmethod
    def foreseen(cls, options: Mapping[str, Any], plan: Plan) -> str:
        """Whether the population is never full, or a tournament among it no choice."""
        population, tournament = options.get("population"), options.get("tournament")
        if population is not None and population >= plan.evaluations:
            return (
                f"a population of {population} takes all of {plan.evaluations} evaluations, so that none is a child "
                f"and all is random search: {plan.option}population={max(2, plan.evaluations // 5)} leaves some"
            )
        if population is not None and tournament is not None and tournament > population:
            return (
                f"a tournament of {tournament} among {population} finds nearly always the best of all: "
                f"{plan.option}tournament={max(1, population // 3)} leaves others a chance"
            )
        return ""

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        if self._asked < self.population or not self.history:
            return Suggestion(self.space.sample(rng), RANDOM)
        members = self.history[-self.population :]
        drawn = rng.integers(len(members), size=self.tournament)
        parent, _ = min((members[int(i)] for i in drawn), key=lambda member: member[1].objective)
        return mutated(self.space, self._mutate, parent, rng)
