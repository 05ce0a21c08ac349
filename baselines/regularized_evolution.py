"""Regularized (aging) evolution (Real et al. 2019) with mixed mutations (BO-FM paper, Supp. D.2)."""

from collections.abc import Sequence

import numpy as np

from fmnas.baselines.mutation import TRIES, feasible_child, mutation_for
from fmnas.optimizers import Optimizer, OptimizerError, Suggestion
from fmnas.search_spaces import Configuration, Space
from fmnas.search_spaces.records import FALLBACK, MUTATION, RANDOM


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
        seed: int = 0,
        epochs: int = 1,
        initial_design: Sequence[Configuration] = (),
        population: int = 50,
        tournament: int = 15,
    ) -> None:
        super().__init__(space, seed=seed, epochs=epochs, initial_design=initial_design)
        if population < 2 or tournament < 1:
            raise OptimizerError(
                f"population = {population}, tournament = {tournament}: at least 2 members and a tournament of 1"
            )
        self.population = population
        self.tournament = tournament
        self._mutate = mutation_for(space)

    def _suggest(self, rng: np.random.Generator) -> Suggestion:
        if self._asked < self.population or not self.history:
            return Suggestion(self.space.sample(rng), RANDOM)
        members = self.history[-self.population :]
        drawn = rng.integers(len(members), size=self.tournament)
        parent, _ = min((members[int(i)] for i in drawn), key=lambda member: member[1].objective)
        child = feasible_child(self.space, self._mutate, parent.configuration, rng)
        if child is None:
            note = f"none of {TRIES} children of trial {parent.id} was feasible and chance chose"
            return Suggestion(self.space.sample(rng), RANDOM, note=note, fallback=FALLBACK)
        return Suggestion(child, MUTATION, parent=parent.id)
