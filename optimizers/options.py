"""The options of an optimizer: the keyword-only parameters of its constructor that the platform does not set.

    class Mine(Optimizer):
        def __init__(self, space, *, rate: Annotated[float, Interval(ge=0, le=1)] = 0.5, rule: Literal["a", "b"] = "a"):
            check_options(type(self), rate=rate, rule=rule)

The annotations say what is allowed. A configuration is checked against them, and `check_options` checks a call.

An adapter of other code gets that code's parameters as options:

    parameters = yaml_parameters(optuna.samplers.GPSampler, leave_out=("seed",))
    adapter = subclass_with_parameters(OptunaSampler, "GPSampler", parameters)
"""

import inspect
import typing
from collections.abc import Callable, Container, Mapping, Sequence
from functools import cache
from inspect import Parameter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from annotated_types import Interval

from fmnas.optimizers.optimizer import Optimizer, OptimizerError
from fmnas.search_spaces import Space

Kind = TypeVar("Kind", bound=Optimizer)

PLATFORM_PARAMETERS = ("seed", "epochs", "evaluations", "log_objective", "initial_design")
"""What the platform passes to each constructor that has a parameter of the name."""
PLAIN_TYPES = (bool, int, float, str, NoneType)


@cache
def get_parameters(optimizer: type[Optimizer]) -> Mapping[str, Parameter]:
    """The keyword-only parameters of the constructor; with those of its bases if it passes `**others` on.

    An annotation that cannot be resolved is Any.
    """
    levels: list[dict[str, Parameter]] = []
    for base in optimizer.__mro__:
        if "__init__" not in vars(base):
            continue
        constructor = vars(base)["__init__"]
        parameters = inspect.signature(constructor).parameters.values()
        levels.append({p.name: _resolve(p, constructor) for p in parameters if p.kind is p.KEYWORD_ONLY})
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            break
    return {name: parameter for parameters in reversed(levels) for name, parameter in parameters.items()}


def _resolve(parameter: Parameter, function: Callable[..., Any]) -> Parameter:
    """The parameter with its annotation as an object."""

    def stub() -> None: ...

    stub.__annotations__ = {} if parameter.annotation is parameter.empty else {"option": parameter.annotation}
    names = getattr(inspect.unwrap(function), "__globals__", {})
    try:
        hints = typing.get_type_hints(stub, names, include_extras=True)
    except Exception:  # a name that only a type checker knows
        hints = {}
    return parameter.replace(annotation=hints.get("option", Any))


def get_options(optimizer: type[Optimizer]) -> dict[str, Parameter]:
    """The options of a class by name, in the constructor's order, annotated with the types that YAML can hold."""
    return {
        name: parameter.replace(annotation=_yaml_types(parameter.annotation))
        for name, parameter in get_parameters(optimizer).items()
        if name not in PLATFORM_PARAMETERS
    }


def _yaml_types(annotation: Any) -> Any:
    """The members of a union that YAML can hold; Any if it can hold none of them."""
    kept = tuple(part for part in split_union(annotation) if _is_yaml(part))
    return Union[kept] if {*kept} - {NoneType} else Any  # noqa: UP007  # of a tuple


def _is_yaml(part: Any) -> bool:
    if get_origin(part) is Annotated:
        return _is_yaml(get_args(part)[0])
    if get_origin(part) in (list, dict):
        return all(inner is Any or _is_yaml(inner) for inner in get_args(part))
    return part in PLAIN_TYPES or get_origin(part) is Literal


def check_options(optimizer: type[Optimizer], **values: Any) -> None:
    """Raise OptimizerError for a value that is outside the Intervals and Literals of its annotation."""
    parameters = get_parameters(optimizer)
    for name, value in values.items():
        intervals, choices = _limits(parameters[name].annotation)
        if value in choices or (
            isinstance(value, int | float) and any(_contains(interval, value) for interval in intervals)
        ):
            continue
        if intervals or (choices and isinstance(value, PLAIN_TYPES)):
            allowed = [_describe(interval) for interval in intervals] + (
                [f"one of {', '.join(map(repr, choices))}"] if choices else []
            )
            raise OptimizerError(f"{name} = {value!r}: it must be {', or '.join(allowed)}")


def get_choices(annotation: Any) -> list[Any]:
    """The values that an annotation's Literals name."""
    return _limits(annotation)[1]


def _limits(annotation: Any) -> tuple[list[Interval], list[Any]]:
    """The Intervals of an annotation, and the choices of its Literals."""
    parts = split_union(annotation)
    intervals = [item for part in parts for item in getattr(part, "__metadata__", ()) if isinstance(item, Interval)]
    return intervals, [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]


def _contains(interval: Interval, value: Any) -> bool:
    return (interval.ge is None or interval.ge <= value) and (interval.le is None or value <= interval.le)


def _describe(interval: Interval) -> str:
    bounds = (("at least", interval.ge), ("at most", interval.le))
    return " and ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)


def split_union(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; of anything else, itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def yaml_parameters(function: Callable[..., Any], leave_out: Container[str]) -> list[Parameter]:
    """What a function or a constructor takes by name, as keyword-only parameters."""
    target = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]  # of this very class
    return [
        _resolve(parameter, target).replace(kind=Parameter.KEYWORD_ONLY)
        for name, parameter in inspect.signature(function).parameters.items()
        if parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY) and name not in leave_out
    ]


def subclass_with_parameters(
    base: type[Kind], title: str, parameters: Sequence[Parameter], **attributes: Any
) -> type[Kind]:
    """A subclass whose constructor takes these keyword-only parameters as well, and passes them on.

    title: its name. attributes: of the class.
    """

    def __init__(self: Kind, space: Space, **given: Any) -> None:  # noqa: N807  # it becomes one
        base.__init__(self, space, **given)

    inherited = inspect.signature(base.__init__).parameters.values()
    common = [p for p in inherited if p.kind is not Parameter.VAR_KEYWORD]
    added = [p for p in parameters if p.name not in {shared.name for shared in common}]
    vars(__init__)["__signature__"] = inspect.Signature([*common, *added])
    return type(title, (base,), {"__init__": __init__, "__module__": base.__module__, **attributes})
