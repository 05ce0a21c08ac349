"""The options of an optimizer: the keyword-only parameters of its constructor that the platform does not set.

    class Mine(Optimizer):
        def __init__(self, space, *, rate: Annotated[float, Interval(ge=0, le=1)] = 0.5, rule: Literal["a", "b"] = "a"):
            check_options(type(self), rate=rate, rule=rule)

The annotations say what is allowed: `check_options` checks a call. A configuration is checked against those of the
registry's optimizers, whose options all have defaults; of a user-defined one, names and plain types are checked.
"""

import inspect
import operator
from collections.abc import Callable, Mapping
from functools import cache
from inspect import Parameter
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from fmnas.optimizers.optimizer import Optimizer, OptimizerError

PLATFORM_PARAMETERS = ("seed", "epochs", "evaluations", "log_objective", "initial_design")
"""What the platform passes to each constructor that has a parameter of the name."""
PLAIN_TYPES = (bool, int, float, str, NoneType)
BOUNDS = {
    "gt": ("above", operator.gt),
    "ge": ("at least", operator.ge),
    "lt": ("below", operator.lt),
    "le": ("at most", operator.le),
}


def read_signature(called: Callable[..., Any]) -> inspect.Signature:
    """The signature with annotations as objects or, if one has a name that only a type checker knows, as texts."""
    try:
        return inspect.signature(called, eval_str=True)
    except Exception:
        return inspect.signature(called)


@cache
def get_parameters(called: type[object]) -> Mapping[str, Parameter]:
    """The keyword-only parameters of the constructor; with those of its bases if it passes `**others` on."""
    levels: list[dict[str, Parameter]] = []
    for base in called.__mro__:
        if "__init__" not in vars(base):
            continue
        parameters = read_signature(vars(base)["__init__"]).parameters.values()
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


def check_options(called: type[object], **values: Any) -> None:
    """Raise OptimizerError for a value that is outside the bounds and Literals of its annotation.

    called: the class whose constructor has the annotations; an optimizer, or another package's adapter of one. An
    annotation without either is not checked, nor is a value that no YAML file can hold, if the annotation allows more
    than numbers.
    """
    parameters = get_parameters(called)  # type: ignore[arg-type]  # mypy takes a class for not hashable
    for name, value in values.items():
        parts = _split_union(parameters[name].annotation)
        limited = [part for part in parts if get_origin(part) in (Annotated, Literal)]
        is_checked = isinstance(value, PLAIN_TYPES) or all(get_origin(part) is Annotated for part in limited)
        if not limited or not is_checked or (value is None and NoneType in parts):
            continue
        if not any(_contains(part, value) for part in limited):
            raise OptimizerError(f"{name} = {value!r}: it must be {', or '.join(map(_describe, limited))}")


def get_choices(annotation: Any) -> list[Any]:
    """The values that an annotation's Literals name."""
    return [choice for part in _split_union(annotation) if get_origin(part) is Literal for choice in get_args(part)]


def _contains(part: Any, value: Any) -> bool:
    """Whether a Literal, or a type with bounds, allows a value."""
    if get_origin(part) is Literal:
        return value in get_args(part)
    kind = Integral if get_args(part)[0] is int else Real
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    return is_number and all(is_within(value, bound) for _, is_within, bound in _bounds(part))


def _bounds(part: Any) -> list[tuple[str, Callable[[Any, Any], bool], Any]]:
    """The bounds of a type with those of `annotated_types`: (word, comparison, bound)."""
    of_items = [(*BOUNDS[name], getattr(item, name, None)) for item in part.__metadata__ for name in BOUNDS]
    return [bound for bound in of_items if bound[-1] is not None]


def _describe(part: Any) -> str:
    if get_origin(part) is Literal:
        return f"one of {', '.join(map(repr, get_args(part)))}"
    kind = " (an integer)" if get_args(part)[0] is int else ""
    return " and ".join(f"{word} {bound}" for word, _, bound in _bounds(part)) + kind


def _split_union(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; of anything else, itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)
