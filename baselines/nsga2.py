"""NSGA-II (Deb, Pratap, Agarwal, Meyarivan 2002): a genetic algorithm for several objectives, by Optuna.

Optuna's NSGAIISampler with its own operators and defaults: uniform crossover with probability 0.9, and a variable
mutates to a random value with probability 1 / their number. (The paper has simulated binary crossover, polynomial
mutation, and tournaments that the less crowded of two incomparable parents wins; Optuna takes the second.) Infeasible
children are discarded and Optuna makes others.

The initial design is the first generation, filled up with random draws; children count as trials of a model, as those
of any sampler do. It minimises `Evaluation.objectives`. A single objective counts as both of two: it is then a genetic
algorithm. More than two are refused. With several pending trials a generation may have more than `population` trials. A
budget of a few generations shows little: the published runs have 250.
"""

from collections.abc import Mapping
from typing import Annotated, Any

from annotated_types import Interval

from fmnas.baselines.optuna_sampler import OptunaSampler
from fmnas.optimizers.optimizer import OptimizerError, SearchPlan
from fmnas.optimizers.options import check_options
from fmnas.search_spaces import Evaluation, Space, Trial


class NSGA2(OptunaSampler):
    """population: the number of trials in a generation."""

    name = "nsga2"
    directions = 2

    def __init__(
        self, space: Space, *, population: Annotated[int, Interval(ge=2, le=1_000_000)] = 50, **others: Any
    ) -> None:
        check_options(type(self), population=population)
        super().__init__(space, population_size=population, **others)
        self._startup = population

    @classmethod
    def config_warning(cls, options: Mapping[str, Any], plan: SearchPlan) -> str:
        """Return a warning if no child is ever made."""
        advice = f"{plan.option}population={max(2, plan.evaluations // 5)}"
        return plan.warn_of_random_search("population", options.get("population"), advice)

    def sampler_class(self) -> type[Any]:
        """Optuna's sampler."""
        from optuna.samplers import NSGAIISampler

        return NSGAIISampler

    def tell(self, trial: Trial, evaluation: Evaluation | float) -> None:
        """Report the result of a pending trial. Raises OptimizerError for three objectives: Optuna would drop them."""
        if isinstance(evaluation, Evaluation) and (count := len(evaluation.objectives)) > self.directions:
            raise OptimizerError(f"trial {trial.id}: {count} objectives; nsga2 minimises at most {self.directions}")
        super().tell(trial, evaluation)

    def values(self, evaluation: Evaluation) -> tuple[float, ...]:
        """The two objectives."""
        objectives = evaluation.objectives
        return objectives * 2 if len(objectives) == 1 else objectives
