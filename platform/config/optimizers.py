"""The registry of optimizers: one entry each, with the options a configuration may set."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from fmnas.optimizers import Optimizer
from fmnas.search_spaces import Configuration, Space


@dataclass(frozen=True)
class Setting:
    """What every method is built from: the space, its seed, full fidelity, the budget, the shared initial design."""

    space: Space
    seed: int
    epochs: int
    evaluations: int
    log_objective: bool
    initial_design: tuple[Configuration, ...]


class Options(BaseModel):
    """A method's own options; none by default."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


class BOFMOptions(Options):
    """kernel: the method's or its ablation's. mode: "default", or "paper" for the paper's restarts and start points."""

    kernel: Literal["modlap", "moddif", "prodlap", "proddif", "addlap", "adddif"] = "modlap"
    mode: Literal["default", "paper"] = "default"


class EvolutionOptions(Options):
    """population and tournament sizes; the paper's are 50 and 15."""

    population: int = Field(default=50, ge=2, le=10_000_000)
    tournament: int = Field(default=15, ge=1, le=10_000_000)

    @field_validator("tournament")  # of one that is given: the default is left alone
    @classmethod
    def _within_population(cls, given: int, others: ValidationInfo) -> int:
        population = others.data.get("population", given)
        if given > population:
            raise ValueError(f"it must be at most the population, {population}; lower it, or raise population")
        return given


class BOHBOptions(Options):
    """eta: how many compete for one place in the next rung."""

    eta: int = Field(default=3, ge=2, le=1_000_000)


@dataclass(frozen=True)
class Method:
    """An optimizer that a configuration can name."""

    name: str
    summary: str
    options: type[Options]
    takes_initial_design: bool
    build: Callable[[Setting, Any], Optimizer]


def _bofm(setting: Setting, options: BOFMOptions) -> Optimizer:
    from fmnas.optimizers.bofm import BOFM

    return BOFM(
        setting.space,
        kernel=options.kernel,
        seed=setting.seed,
        epochs=setting.epochs,
        initial_design=setting.initial_design,
        log_objective=setting.log_objective,
        mode=options.mode,
        evaluations=setting.evaluations,
    )


def _evolution(setting: Setting, options: EvolutionOptions) -> Optimizer:
    from fmnas.baselines.regularized_evolution import RegularizedEvolution

    return RegularizedEvolution(
        setting.space,
        seed=setting.seed,
        epochs=setting.epochs,
        initial_design=setting.initial_design,
        population=options.population,
        tournament=options.tournament,
    )


def _bohb(setting: Setting, options: BOHBOptions) -> Optimizer:
    from fmnas.baselines.bohb import BOHB

    return BOHB(setting.space, seed=setting.seed, epochs=setting.epochs, eta=options.eta)


def _random(setting: Setting, options: Options) -> Optimizer:
    from fmnas.baselines.random_search import RandomSearch

    return RandomSearch(setting.space, seed=setting.seed, epochs=setting.epochs, initial_design=setting.initial_design)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method("bo-fm", "Bayesian optimization with frequency-modulated kernels", BOFMOptions, True, _bofm),
        Method("regularized-evolution", "aging evolution with mixed mutations", EvolutionOptions, True, _evolution),
        Method("bohb", "Hyperband with kernel density models (hpbandster)", BOHBOptions, False, _bohb),
        Method("random", "random search", Options, True, _random),
    )
}
