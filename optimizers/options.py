"""The options of an optimizer: the keyword-only parameters of its constructor that the platform does not set.

    class Mine(Optimizer):
        def __init__(self, space, *, rate: Annotated[float, Interval(ge=0, le=1)] = 0.5, rule: Literal["a", "b"] = "a"):
            check_options(type(self), rate=rate, rule=rule)

The annotations say what is allowed: `check_options` checks a call. A configuration is checked against those of the
registry's optimizers, whose options all have defaults; options of a user-defined one are checked by its constructor.
"""

import inspect
from collections.abc import Mapping
from functools import cache
from inspect import Parameter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from annotated_types import Interval

from fmnas.optimizers.optimizer import Optimizer, OptimizerError

PLATFORM_PARAMETERS = ("seed", "epochs", "evaluations", "log_objective", "initial_design")
"""What the platform passes to each constructor that has a parameter of the name."""
PLAIN_TYPES = (bool, int, float, str, NoneType)


@cache
def get_parameters(optimizer: type[Optimizer]) -> Mapping[str, Parameter]:
    """The keyword-only parameters of the constructor; with those of its bases if it passes `**others` on."""
    levels: list[dict[str, Parameter]] = []
    for base in optimizer.__mro__:
        if "__init__" not in vars(base):
            continue
        try:
            signature = inspect.signature(vars(base)["__init__"], eval_str=True)
        except Exception:  # an annotation has a name that only a type checker knows: they stay texts
            signature = inspect.signature(vars(base)["__init__"])
        parameters = signature.parameters.values()
        levels.append({p.name: p for p in parameters if p.kind is p.KEYWORD_ONLY})
        if all(p.kind is not p.VAR_KEYWORD for p in parameters):
            break
    return {name: parameter for parameters in reversed(levels) for name, parameter in parameters.items()}


def get_options(optimizer: type[Optimizer]) -> dict[str, Parameter]:
    """The options of a class by name, in the constructor's order."""
    return {name: option for name, option in get_parameters(optimizer).items() if name not in PLATFORM_PARAMETERS}


def yaml_types(annotation: Any) -> Any:
    """The members of a union that YAML can hold: plain types, with or without bounds, and Literals."""
    return Union[  # noqa: UP007  # of a tuple
        tuple(p for p in _split_union(annotation) if p in PLAIN_TYPES or get_origin(p) in (Annotated, Literal))
    ]


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
    parts = _split_union(annotation)
    intervals = [item for part in parts for item in getattr(part, "__metadata__", ()) if isinstance(item, Interval)]
    return intervals, [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]


def _contains(interval: Interval, value: Any) -> bool:
    return (interval.ge is None or interval.ge <= value) and (interval.le is None or value <= interval.le)


def _describe(interval: Interval) -> str:
    bounds = (("at least", interval.ge), ("at most", interval.le))
    return " and ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)


def _split_union(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; of anything else, itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
