"""What a user may set of an optimizer: the keyword-only parameters of its constructor that the platform does not set.

    class Mine(Optimizer):
        def __init__(self, space, *, rate: Annotated[float, Between(0, 1)] = 0.5, rule: Literal["a", "b"] = "a"):
            check_options(type(self), rate=rate, rule=rule)

The annotation alone says what is allowed: a configuration is checked by it, and so is a caller in Python.

What was not written for this contract has the options that its own signature takes, as far as YAML can give them:

    parameters = plain_parameters(optuna.samplers.GPSampler, leave_out=("seed",))
    sampled = with_parameters(OptunaSampler, "GPSampler", parameters)

A class made so has a constructor that takes, beside what every optimizer takes, those parameters by keyword.
"""

import builtins
import inspect
import typing
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from fmnas.optimizers.optimizer import Optimizer, OptimizerError
from fmnas.search_spaces import Space

Kind = TypeVar("Kind", bound=Optimizer)

PROVIDED = ("seed", "epochs", "evaluations", "log_objective", "initial_design")
"""What the platform sets, where a constructor takes it."""

WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", NoneType: "null"}
PLAIN_TYPES = tuple(WORDS)


@dataclass(frozen=True, eq=False)
class Between:
    """The least and the greatest value that an option may have; None: no bound."""

    least: float | None = None
    greatest: float | None = None

    def __eq__(self, other: object) -> bool:
        """As it is written: typing keeps one of equal annotations, and a message would have 0.0 of another for 0."""
        return repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(repr(self))

    def allows(self, value: float) -> bool:
        """Whether the value lies between them, or is one of them."""
        return (self.least is None or value >= self.least) and (self.greatest is None or value <= self.greatest)

    def __str__(self) -> str:
        bounds = (("at least", self.least), ("at most", self.greatest))
        return " and ".join(f"{word} {bound}" for word, bound in bounds if bound is not None)


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
    return typing.get_type_hints(annotated, {}, names, include_extras=True)["given"]


def options_of(optimizer: type[Optimizer]) -> dict[str, Parameter]:
    """The options of a class, by name, in its constructor's order; of plain types, Literals and Betweens."""
    hints = _hints(optimizer)
    own = {name: each for name, each in parameters_of(optimizer).items() if name not in PROVIDED}
    return {name: each.replace(annotation=_plain(hints.get(name, Any))) for name, each in own.items()}


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


def plain_parameters(function: Callable[..., Any], leave_out: Container[str]) -> list[Parameter]:
    """What a function or a constructor takes by name, annotated with the plain types among those it allows.

    What no YAML can give, such as a function, is left to its default. Raises OptimizerError where it has none.
    """
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        by_name = parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        if not by_name or name in leave_out:
            continue
        annotation = _yaml_of(_annotation_of(parameter, function))
        if annotation is not None:
            found.append(parameter.replace(kind=Parameter.KEYWORD_ONLY, annotation=annotation))
        elif parameter.default is Parameter.empty:
            raise OptimizerError(
                f"its {name} must be given, and is of no type that a configuration can give ({parameter.annotation}): "
                "derive a class of your own that sets it, and name that"
            )
    return found


def with_parameters(base: type[Kind], title: str, parameters: Sequence[Parameter], **attributes: Any) -> type[Kind]:
    """A class on `base` whose constructor takes these parameters, too, and hands them on by keyword.

    title: its name. attributes: of the class.
    """

    def __init__(self: Kind, space: Space, **given: Any) -> None:  # noqa: N807  # it becomes one
        base.__init__(self, space, **given)

    taken = inspect.signature(base.__init__).parameters.values()
    common = [each for each in taken if each.kind is not Parameter.VAR_KEYWORD]
    own = [each for each in parameters if each.name not in {shared.name for shared in common}]
    signature = inspect.Signature([*common, *own])
    vars(__init__)["__signature__"] = signature
    __init__.__annotations__ = {each.name: each.annotation for each in own}
    return type(title, (base,), {"__init__": __init__, "__module__": base.__module__, **attributes})


class _Unknown(type):
    def __getattr__(cls, name: str) -> "_Unknown":
        if name.startswith("__"):
            raise AttributeError(name)
        return cls

    def __getitem__(cls, inner: Any) -> "_Unknown":
        return cls


class _Elsewhere(metaclass=_Unknown):
    """Stands for a name that only a type checker knows, and for what is in it."""


class _Names(dict[str, Any]):
    def __missing__(self, name: str) -> _Unknown:
        return _Elsewhere


def _annotation_of(parameter: Parameter, function: Callable[..., Any]) -> Any:
    """An annotation as an object, also where its module imports the types for type checkers alone.

    Without one, anything of the sort that the default is.
    """
    annotation, default = parameter.annotation, parameter.default
    if annotation is Parameter.empty:
        return Any if default is Parameter.empty or isinstance(default, (*PLAIN_TYPES, list, dict)) else type(default)
    if not isinstance(annotation, str):
        return annotation
    called = function.__init__ if isinstance(function, type) else function  # type: ignore[misc]  # of this very class
    known = {**vars(typing), "Callable": Callable, "Mapping": Mapping, "Sequence": Sequence, **vars(builtins)}
    try:
        return as_object(annotation, called, _Names(known))
    except Exception:  # whatever it is, it says nothing of what may be given
        return Any


def _yaml_of(annotation: Any) -> Any:
    """The part of an annotation that YAML can give; None where there is none."""
    if annotation is Any or get_origin(annotation) is Annotated:
        return annotation
    parts = [_yaml_part(part) for part in members_of(annotation)]
    kept = tuple(part for part in parts if part is not None)
    return Union[kept] if set(kept) - {NoneType} else None  # noqa: UP007  # of a tuple


def _yaml_part(part: Any) -> Any:
    """A member of a union as YAML has it: what holds plain values is a list or a mapping of anything."""
    if part is Any or part is None or part in PLAIN_TYPES or get_origin(part) is Literal:
        return NoneType if part is None else part
    holds = get_origin(part) or part
    if not isinstance(holds, type) or any(_yaml_of(each) is None for each in get_args(part) if each is not ...):
        return None
    if issubclass(dict, holds) and issubclass(holds, Mapping):
        return dict[str, Any]
    return list[Any] if issubclass(list, holds) or holds is tuple else None
