"""The registry of optimizers: a row each. What a configuration may set of one is what its constructor takes.

A row's class is loaded when it is asked for: a list of names, or a wrong key elsewhere, needs no torch.
"""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, isabstract
from typing import TYPE_CHECKING, Annotated, Any, Union, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, WrapValidator, create_model

from fmnas.optimizers.optimizer import Optimizer, OptimizerError
from fmnas.optimizers.options import allowed, members_of, options_of, parameters_of
from fmnas.platform.errors import ConfigError, explained
from fmnas.platform.named import is_given, named

if TYPE_CHECKING:
    from fmnas.search_spaces import Configuration, Space

OPTUNA, OPTUNAS = "optuna:", "optuna.samplers:"
"""A sampler of Optuna's own is named in short."""


@dataclass(frozen=True)
class Setting:
    """What the platform sets of an optimizer, as far as its constructor takes it.

    seed: of this run. epochs: full fidelity. evaluations: the budget. log_objective: whether models see the logarithm.
    initial_design: the points that the optimizers of a repeat share.
    """

    seed: int
    epochs: int
    evaluations: int
    log_objective: bool
    initial_design: "tuple[Configuration, ...]"


class Options(BaseModel):
    """An optimizer's own options; none by default."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False, protected_namespaces=())


@dataclass(frozen=True)
class Row:
    """An optimizer that a configuration can name, or that it brings: its class as named.py has it, and a summary."""

    name: str
    use: str
    summary: str

    @cached_property
    def optimizer(self) -> type[Optimizer]:
        """The class. Raises ConfigError for a name of something else, or of nothing."""
        short = self.use.startswith(OPTUNA) and not is_given(self.use)
        found = named(OPTUNAS + self.use.removeprefix(OPTUNA) if short else self.use)
        if isabstract(found):
            lacking = ", ".join(sorted(found.__abstractmethods__))
            raise ConfigError(f"{self.use} cannot be built: it lacks {lacking}")
        return _class_of(found, self.use)

    @cached_property
    def options(self) -> type[Options]:
        """A schema of the options: types, bounds and defaults are those of the constructor."""
        fields: dict[str, Any] = {
            name: (_bounded(option.annotation), ... if option.default is Parameter.empty else option.default)
            for name, option in options_of(self.optimizer).items()
        }
        with warnings.catch_warnings():  # a constructor may have a parameter `copy`, which a BaseModel has, too
            warnings.filterwarnings("ignore", "Field name .* shadows an attribute in parent", UserWarning)
            return create_model(f"{self.optimizer.__name__}Options", __base__=Options, **fields)

    @cached_property
    def takes_initial_design(self) -> bool:
        """Whether it begins with the points that are given."""
        return "initial_design" in parameters_of(self.optimizer)

    @property
    def takes_budget(self) -> bool:
        """Whether it makes use of the number of evaluations."""
        return self.optimizer.uses_budget and "evaluations" in parameters_of(self.optimizer)

    def complete(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """The options given, checked, with defaults for the rest.

        Raises pydantic's ValidationError for an option that cannot be, OptimizerError for some that cannot be together.
        """
        options = dict(self.options.model_validate(dict(given)))
        self.optimizer.check_together(given)
        return options

    def build(self, space: "Space", setting: Setting, given: Mapping[str, Any]) -> Optimizer:
        """An optimizer with the options given, at its beginning."""
        taken = parameters_of(self.optimizer)
        provided = {name: value for name, value in vars(setting).items() if name in taken}
        arguments = dict(provided, **self.complete(given))
        if self.use.startswith("fmnas."):  # what goes wrong there is a mistake of our own
            return self.optimizer(space, **arguments)
        return explained(f"{self.name} ({self.use}) cannot be built", self.optimizer, space, **arguments)


OPTIMIZERS: dict[str, Row] = {
    row.name: row
    for row in (
        Row("bo-fm", "fmnas.optimizers.bofm:BOFM", "Bayesian optimization with frequency-modulated kernels"),
        Row(
            "regularized-evolution",
            "fmnas.baselines.regularized_evolution:RegularizedEvolution",
            "aging evolution with mixed mutations",
        ),
        Row("bohb", "fmnas.baselines.bohb:BOHB", "Hyperband with kernel density models (hpbandster)"),
        Row(
            "cocabo", "fmnas.baselines.cocabo:CoCaBO", "bandits for discrete variables, a Gaussian process for the rest"
        ),
        Row("casmopolitan", "fmnas.baselines.casmopolitan:Casmopolitan", "Bayesian optimization in trust regions"),
        Row("rounding-gp", "fmnas.baselines.rounding_gp:RoundingGP", "a Gaussian process on relaxed codes, rounded"),
        Row("tpe", "fmnas.baselines.tpe:TPE", "tree-structured Parzen estimators (Optuna)"),
        Row("smac", "fmnas.baselines.smac:SMAC", "a random forest and expected improvement (smac)"),
        Row("botorch", "fmnas.baselines.botorch:BoTorch", "BoTorch's Gaussian process for mixed spaces"),
        Row("random", "fmnas.baselines.random_search:RandomSearch", "random search"),
    )
}


def _class_of(found: Any, use: str) -> type[Optimizer]:
    """The class of optimizers that is meant by a class of them, of samplers, or what makes an object to ask and tell.

    Raises ConfigError for anything else.
    """
    from fmnas.baselines.optuna_sampler import is_sampler, optimizer_from_sampler
    from fmnas.optimizers.ask_tell import can_make, optimizer_made_by

    if isinstance(found, type) and issubclass(found, Optimizer):
        return found
    try:
        if is_sampler(found):
            return optimizer_from_sampler(found)
        if can_make(found):
            return optimizer_made_by(found)
    except OptimizerError as error:
        raise ConfigError(f"{use} cannot be used: {error}") from None
    raise ConfigError(
        f"{use} is no class of optimizers: derive one from fmnas.optimizers.Optimizer; or name a sampler of Optuna, or "
        "a function make(space, seed) of an object with ask() and tell(configuration, objective), or its class"
    )


def _bounded(annotation: Any) -> Any:
    """The annotation of an option, its bounds as pydantic has them."""
    members = members_of(annotation)
    if len(members) > 1:
        either: Any = Union[tuple(map(_bounded, members))]  # noqa: UP007  # of a tuple
        return Annotated[either, WrapValidator(_in_one_sentence(annotation))]
    bounds = getattr(annotation, "__metadata__", ())
    if not bounds:
        return annotation
    return Annotated[get_args(annotation)[0], Field(ge=bounds[0].least, le=bounds[0].greatest)]


def _in_one_sentence(annotation: Any) -> Callable[[Any, Callable[[Any], Any]], Any]:
    """Validates what one of several annotations must allow: where none does, pydantic has an error for each."""

    def validated(value: Any, validate: Callable[[Any], Any]) -> Any:
        try:
            return validate(value)
        except ValidationError:
            raise ValueError(f"it must be {allowed(annotation)}") from None

    return validated
