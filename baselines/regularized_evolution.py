"""Regularized (aging) evolution (Real et al. 2019) with mixed mutations, as in the BO-FM paper (Supp. D.2)."""

from collections.abc import Mapping
from typing import Annotated, Any

import numpy as np
from annotated_types import Interval

from fmnas.baselines.mutation import mutate_feasibly, mutation_for
from fmnas.optimizers import Optimizer, OptimizerError, Suggestion
from fmnas.optimizers.optimizer import SearchPlan
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Space
from fmnas.search_spaces.records import MUTATION, RANDOM

POPULATION, TOURNAMENT = 50, 15
"""The values of the BO-FM paper."""


class RegularizedEvolution(Optimizer):
    """A child is the mutated winner of a tournament among the last `population` results.

    population: size of the population, and number of trials (including the initial design) before the first child.
    tournament: members drawn with replacement; the best of them is the parent.
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
    def check_combination(cls, options: Mapping[str, Any]) -> None:
        """Raise OptimizerError for a tournament that is larger than the population."""
        tournament, population = options.get("tournament"), options.get("population", POPULATION)
        if tournament is not None and tournament > population:
            raise OptimizerError(f"tournament = {tournament}: it must be at most population = {population}")

    @classmethod
    def config_warning(cls, options: Mapping[str, Any], plan: SearchPlan) -> str:
        """Return a warning if no child is ever made, or if the tournament leaves no choice."""
        population, tournament = options.get("population"), options.get("tournament")
        smaller = max(2, plan.evaluations // 5)
        advice = f"{plan.option}population={smaller} {plan.option}tournament={max(1, smaller // 3)}"
        if warning := plan.warn_of_random_search("population", population, advice):
            return warning
        if population is not None and tournament is not None and tournament > population:
            advice = f"try {plan.option}tournament={max(1, population // 3)}"
            return f"tournament {tournament} > population {population}: the best member nearly always wins; {advice}"
        return ""

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        if self._asked < self.population or not self.history:
            return Suggestion(self.space.sample(rng), RANDOM)
        members = self.history[-self.population :]
        drawn = rng.integers(len(members), size=self.tournament)
        parent, _ = min((members[int(i)] for i in drawn), key=lambda member: member[1].objective)
        return mutate_feasibly(self.space, self._mutate, parent, rng)
