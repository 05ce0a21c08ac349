"""The optimizers that a configuration can name: those of fmnas, and classes or functions that references name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from inspect import Parameter, isabstract
from types import UnionType
from typing import TYPE_CHECKING, Any, Literal, Union, get_args, get_origin
from warnings import catch_warnings, simplefilter

from fmnas.optimizers.optimizer import Optimizer, SearchPlan, Suggestion
from fmnas.optimizers.options import PLAIN_TYPES, get_options, get_parameters, read_signature, yaml_types
from fmnas.platform.errors import ConfigError, RunDirectoryError, call_user_code
from fmnas.platform.references import import_reference, is_registered

if TYPE_CHECKING:
    import numpy as np
    from pydantic import BaseModel

    from fmnas.search_spaces import Configuration, Space

OPTUNA, OPTUNA_SAMPLERS = "optuna:", "optuna.samplers:"
"""The short and the full module of Optuna's samplers."""


@dataclass(frozen=True)
class OptimizerContext:
    """What the platform passes to an optimizer's constructor, if that has a parameter of the name.

    seed: of this run. epochs: full fidelity. evaluations: the budget. log_objective: whether models see the logarithm.
    initial_design: the points that the optimizers of a repeat share.
    """

    seed: int
    epochs: int
    evaluations: int
    log_objective: bool
    initial_design: "tuple[Configuration, ...]"


class PlaceholderOptimizer(Optimizer):
    """Takes the place of an optimizer in an experiment that is only read."""

    def _suggest(self, rng: "np.random.Generator") -> Suggestion:
        raise RunDirectoryError("this experiment was opened for reading, so its optimizers cannot be asked")


@dataclass(frozen=True)
class OptimizerEntry:
    """An optimizer by name. use: the reference to its class, which is imported on first use. summary: one line."""

    name: str
    use: str
    summary: str

    @cached_property
    def optimizer(self) -> type[Optimizer]:
        """The class. Raises ConfigError if the reference names something else, or nothing."""
        if isabstract(self._target):
            raise ConfigError(
                f"{self.use} is abstract: implement {', '.join(sorted(self._target.__abstractmethods__))}"
            )
        return _as_optimizer_class(self._target, self.use)

    @cached_property
    def _target(self) -> Any:
        """What the reference names. Raises ConfigError if it is nothing."""
        is_short = self.use.startswith(OPTUNA) and not is_registered(self.use)
        return import_reference(OPTUNA_SAMPLERS + self.use.removeprefix(OPTUNA) if is_short else self.use)

    @cached_property
    def is_own(self) -> bool:
        """Whether it is fmnas's: then its constructor has a typed option for each key of a configuration."""
        return self.use.startswith("fmnas.") and not is_registered(self.use)

    @cached_property
    def options(self) -> "type[BaseModel]":
        """The schema of the options: types, bounds and defaults are those of the constructor.

        Of a user-defined optimizer, the names, and the types that are plain.
        """
        from pydantic import BaseModel, ConfigDict, create_model

        is_own = self.is_own
        options = get_options(self.optimizer).values() if is_own else _find_user_options(self.optimizer, self._target)
        fields: dict[str, Any] = {
            option.name: (
                yaml_types(option.annotation) if is_own else _plain_type(option),
                None if option.default is option.empty else option.default,  # if one is missing, the constructor fails
            )
            for option in options
            if option.kind is not option.VAR_KEYWORD and not option.name.startswith("_")
            if not (option.name.startswith("model_") and hasattr(BaseModel, option.name))  # pydantic's names
        }
        extra: Literal["allow", "forbid"] = "forbid" if {option.name for option in options} == set(fields) else "allow"
        strict = ConfigDict(extra=extra, frozen=True, strict=True, allow_inf_nan=not is_own, protected_namespaces=())
        with catch_warnings():
            simplefilter("ignore")  # an option may be called copy, as a method of pydantic is
            return create_model(f"{self.optimizer.__name__}Options", __config__=strict, **fields)

    @cached_property
    def takes_initial_design(self) -> bool:
        """Whether it starts from given points."""
        return "initial_design" in get_parameters(self.optimizer)

    @property
    def takes_budget(self) -> bool:
        """Whether it uses the number of evaluations."""
        return self.optimizer.uses_budget and "evaluations" in get_parameters(self.optimizer)

    def validate_options(self, options: Mapping[str, Any]) -> dict[str, Any]:
        """The options with defaults for the rest. A user-defined optimizer's constructor checks more than plain types.

        Raises pydantic's ValidationError for a wrong option, and OptimizerError for a combination that is not allowed.
        """
        if self.is_own:
            validated = dict(self.options.model_validate(dict(options)))
            self.optimizer.check_combination(options)
            return validated
        if not issubclass(self.optimizer, PlaceholderOptimizer):  # its options were checked before they were saved
            self.options.model_validate(dict(options))
        defaults = {name: option.default for name, option in get_options(self.optimizer).items()}
        return {name: value for name, value in {**defaults, **options}.items() if value is not Parameter.empty}

    def caveat(self, options: Mapping[str, Any]) -> str:
        """What it says of itself with all its options. Raises ConfigError if a user's method fails."""
        return call_user_code(f"{self.name}.caveat", self.optimizer.caveat, options)

    def config_warning(self, options: Mapping[str, Any], plan: SearchPlan) -> str:
        """What it says of a plan. Raises ConfigError if a user's method fails."""
        return call_user_code(f"{self.name}.config_warning", self.optimizer.config_warning, options, plan)

    def build(self, space: "Space", context: OptimizerContext, options: Mapping[str, Any]) -> Optimizer:
        """A new optimizer with these options. Raises ConfigError if a user's constructor fails."""
        taken = get_parameters(self.optimizer)
        provided = {name: value for name, value in vars(context).items() if name in taken}

        def build() -> Optimizer:
            built = self.optimizer(space, **provided, **self.validate_options(options))
            if not hasattr(built, "history"):
                raise ConfigError(f"{self.use}: its __init__ must call super().__init__(space, seed=seed, ...)")
            return built

        if self.is_own:
            return build()  # it fails by a bug alone
        from fmnas.optimizers.ask_tell import AskTellOptimizer

        is_factory = issubclass(self.optimizer, AskTellOptimizer)
        call = f" by {self.optimizer.__name__}(space, seed)" if is_factory else ""
        return call_user_code(f"it cannot be built{call}", build)


def _find_user_options(optimizer: type[Optimizer], target: Any) -> list[Parameter]:
    """The parameters of user code that are options: after (self, space) in a class, after (space, seed) in a factory.

    Those of a sampler of Optuna are all but its seed. One of them may be for any name.
    """
    from fmnas.optimizers.ask_tell import AskTellOptimizer

    if issubclass(optimizer, AskTellOptimizer):
        return _find_parameters(target, passed=2)
    if optimizer is not target:
        return [parameter for parameter in _find_parameters(target) if parameter.name != "seed"]
    constructors = [vars(base)["__init__"] for base in optimizer.__mro__[:-1] if "__init__" in vars(base)]
    parameters = [parameter for constructor in constructors for parameter in _find_parameters(constructor, passed=2)]
    return [*(p for p in parameters if p.kind is p.POSITIONAL_OR_KEYWORD), *get_options(optimizer).values()]


def _find_parameters(called: Callable[..., Any], passed: int = 0) -> list[Parameter]:
    """The parameters with names after those that are passed by position, and the one for any name."""
    try:
        parameters = read_signature(called).parameters.values()
    except (TypeError, ValueError):  # it has no signature
        return [Parameter("options", Parameter.VAR_KEYWORD)]
    positional = [parameter for parameter in parameters if parameter.kind is parameter.POSITIONAL_OR_KEYWORD]
    return [*positional[passed:], *(p for p in parameters if p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD))]


def _plain_type(option: Parameter) -> Any:
    """The annotation of an option if it has only plain types and Literals, else Any. A default of None is allowed."""
    annotation = option.annotation
    parts = get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
    if not all(part in PLAIN_TYPES or get_origin(part) is Literal for part in parts):
        return Any
    return annotation if option.default is not None else annotation | None


def _as_optimizer_class(target: Any, use: str) -> type[Optimizer]:
    """The class itself, or an adapter of a sampler of Optuna or of a factory of an ask/tell object.

    Raises ConfigError for anything else.
    """
    from fmnas.baselines.optuna_sampler import is_sampler, optimizer_from_sampler
    from fmnas.optimizers.ask_tell import is_factory, optimizer_from_factory

    if isinstance(target, type) and issubclass(target, Optimizer):
        return target
    if is_sampler(target):
        return optimizer_from_sampler(target)
    if is_factory(target):
        return optimizer_from_factory(target)
    raise ConfigError(
        f"{use} is not an optimizer: give a subclass of fmnas.optimizers.Optimizer, a sampler of Optuna, or a class or "
        "function make(space, seed) of an object with ask() and tell(configuration, objective)"
    )


OPTIMIZERS = {
    name: OptimizerEntry(name, f"fmnas.{use}", summary)
    for name, use, summary in (
        ("bo-fm", "optimizers.bofm:BOFM", "Bayesian optimization with frequency-modulated kernels"),
        (
            *("regularized-evolution", "baselines.regularized_evolution:RegularizedEvolution"),
            "aging evolution with mixed mutations",
        ),
        ("bohb", "baselines.bohb:BOHB", "Hyperband with kernel density models (hpbandster)"),
        ("dehb", "baselines.dehb:DEHB", "differential evolution in Hyperband's brackets"),
        ("hyperband", "baselines.hyperband:Hyperband", "brackets of successive halving, random configurations"),
        ("asha", "baselines.asha:ASHA", "asynchronous successive halving, random configurations"),
        ("cocabo", "baselines.cocabo:CoCaBO", "bandits for discrete variables, a Gaussian process for the rest"),
        ("casmopolitan", "baselines.casmopolitan:Casmopolitan", "Bayesian optimization in trust regions"),
        ("bodi", "baselines.bodi:BODi", "a Gaussian process on distances to a dictionary of random anchors"),
        ("hybo", "baselines.hybo:HyBO", "additive hybrid kernels over all subsets of variables, sampled"),
        ("gebo", "baselines.gebo:GEBO", "a Gaussian process in the latent space of graph autoencoders"),
        ("rounding-gp", "baselines.rounding_gp:RoundingGP", "a Gaussian process on relaxed codes, rounded"),
        ("mivabo", "baselines.mivabo:MiVaBO", "Thompson sampling with a linear model of bits and Fourier features"),
        ("gp-sa", "baselines.gp_annealing:GPAnnealing", "a Gaussian process, its acquisition by simulated annealing"),
        ("tpe", "baselines.tpe:TPE", "tree-structured Parzen estimators (Optuna)"),
        ("smac", "baselines.smac:SMAC", "a random forest and expected improvement (smac)"),
        ("botorch", "baselines.botorch:BoTorch", "BoTorch's Gaussian process for mixed spaces"),
        ("nsga2", "baselines.nsga2:NSGA2", "a genetic algorithm for several objectives (Optuna)"),
        ("parego", "baselines.parego:ParEGO", "BO-FM on random scalarisations of several objectives"),
        ("random", "baselines.random_search:RandomSearch", "random search"),
    )
}
