"""What a user may set of an optimizer: the keyword-only parameters of its constructor that the platform does not set.

    class Mine(Optimizer):
        def __init__(self, space, *, rate: Annotated[float, Between(0, 1)] = 0.5, rule: Literal["a", "b"] = "a"):
            check_options(type(self), rate=rate, rule=rule)

The annotation alone says what is allowed: a configuration is checked by it, and so is a caller in Python.
"""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from inspect import Parameter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from fmnas.optimizers.optimizer import Optimizer, OptimizerError

PROVIDED = ("seed", "epochs", "evaluations", "log_objective", "initial_design")
"""What the platform sets, where a constructor takes it."""

WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "null"}
PLAIN_TYPES = tuple(WORDS)


@dataclass(frozen=True)
class Between:
    """The least and the greatest value that an option may have; None: no bound."""

    least: float | None = None
    greatest: float | None = None

    def allows(self, value: float) -> bool:
        """Whether the value lies between them, or is one of them."""
        return (self.least is None or value >= self.least) and (self.greatest is None or value <= self.greatest)

    def __str__(self) -> str:
        bounds = (("at least", self.least), ("at most", self.greatest))
        return " and ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)


@dataclass(frozen=True)
class Option:
    """annotation: what it may be, of plain types and Literals, perhaps with a Between. default: unless it is set."""

    annotation: Any
    default: Any


def parameters_of(optimizer: type[Optimizer]) -> Mapping[str, Parameter]:
    """The keyword-only parameters of the constructor; of one that hands on `**others`, those of its base, too."""
    found: dict[str, Parameter] = {}
    for _, taken in reversed(_constructors(optimizer)):
        found.update(taken)
    return found


def _constructors(optimizer: type[Optimizer]) -> list[tuple[Callable[..., None], dict[str, Parameter]]]:
    """That of the class, and of its bases as far as each hands on what it does not name; with what each names."""
    found = []
    for base in optimizer.__mro__:
        if "__init__" in vars(base):
            constructor = vars(base)["__init__"]
            parameters = inspect.signature(constructor).parameters
            found.append((constructor, {k: one for k, one in parameters.items() if one.kind is Parameter.KEYWORD_ONLY}))
            if not any(one.kind is Parameter.VAR_KEYWORD for one in parameters.values()):
                break
    return found


def _hints(optimizer: type[Optimizer]) -> dict[str, Any]:
    """The annotations of the options. Those of other parameters may be known to a type checker alone.

    Raises OptimizerError where a name in one is not known.
    """
    found: dict[str, Any] = {}
    for constructor, taken in _constructors(optimizer):
        for name, each in taken.items():
            if name in (*PROVIDED, *found) or each.annotation is each.empty:
                continue
            try:
                found[name] = as_object(each.annotation, constructor, {})
            except NameError as error:
                raise OptimizerError(
                    f"{optimizer.__name__}: the annotation of {name} cannot be read ({error}): import what it names "
                    "outside TYPE_CHECKING"
                ) from error
    return found


def as_object(annotation: Any, function: Callable[..., Any], names: dict[str, Any]) -> Any:
    """An annotation, which may be a text, of a function. names: what it may name beside what the module has."""

    def annotated() -> None: ...

    annotated.__annotations__ = {"given": annotation}
    names.update(getattr(inspect.unwrap(function), "__globals__", {}))
    return get_type_hints(annotated, {}, names, include_extras=True)["given"]


def options_of(optimizer: type[Optimizer]) -> dict[str, Option]:
    """The options of a class, by name, in the constructor's order."""
    hints = _hints(optimizer)
    own = {name: each for name, each in parameters_of(optimizer).items() if name not in PROVIDED}
    return {name: Option(_plain(hints.get(name, Any)), each.default) for name, each in own.items()}


def check_options(optimizer: type[Optimizer], **values: Any) -> None:
    """Raise OptimizerError for an option that no Between and no Literal of its annotation allows."""
    hints = _hints(optimizer)
    for name, value in values.items():
        bounds, choices = _limits(hints[name])
        if value in choices or (isinstance(value, int | float) and any(each.allows(value) for each in bounds)):
            continue
        if bounds or (choices and isinstance(value, PLAIN_TYPES)):
            raise OptimizerError(f"{name} = {value!r}: it must be {allowed(hints[name])}")


def allowed(annotation: Any) -> str:
    """What an annotation's Betweens and Literals allow, or without them its types, as one says after "it must be"."""
    bounds, choices = _limits(annotation)
    listed = ["one of " + ", ".join(map(repr, choices))] if choices else []
    kinds = [] if bounds or choices else [WORDS[part] for part in members_of(annotation) if part in WORDS]
    return ", or ".join([*map(str, bounds), *listed, *kinds])


def choices_of(annotation: Any) -> list[Any]:
    """The values that an annotation's Literals name."""
    return _limits(annotation)[1]


def _limits(annotation: Any) -> tuple[list[Between], list[Any]]:
    """The Betweens of an annotation, and all choices of its Literals."""
    parts = members_of(annotation)
    bounds = [each for part in parts for each in getattr(part, "__metadata__", ()) if isinstance(each, Between)]
    return bounds, [choice for part in parts if get_origin(part) is Literal for choice in get_args(part)]


def members_of(annotation: Any) -> tuple[Any, ...]:
    """The members of a union; of anything else, itself."""
    return get_args(annotation) if get_origin(annotation) in (Union, UnionType) else (annotation,)


def _bounded(part: Any) -> Any:
    """Without what an Annotated says beside its Betweens, which is for others."""
    if get_origin(part) is not Annotated:
        return part
    bounds = tuple(each for each in part.__metadata__ if isinstance(each, Between))
    return Annotated[part.__origin__, *bounds] if bounds else part.__origin__


def _plain(annotation: Any) -> Any:
    """Without the members of a union that only a caller in Python can give."""
    kinds = (Literal, Annotated, dict, list)
    parts = map(_bounded, members_of(annotation))
    kept = tuple(part for part in parts if part in (*PLAIN_TYPES, Any) or get_origin(part) in kinds)
    if not kept:
        raise TypeError(f"an option must be of plain types or Literals, and this is {annotation}")
    return Union[kept]  # noqa: UP007  # of a tuple
