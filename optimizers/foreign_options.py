"""The options of what was not written for this contract: what its own signature takes, as far as YAML can give it.

    parameters = plain_parameters(optuna.samplers.GPSampler, leave_out=("seed",))
    sampled = with_parameters(OptunaSampler, "GPSampler", parameters)

A class made so has a constructor that takes, beside what every optimizer takes, those parameters by keyword: whatever
checks the options of a class (options.py, and the platform's configuration) checks these as well.
"""

import builtins
import inspect
import typing
from collections.abc import Callable, Container, Mapping, Sequence
from inspect import Parameter
from types import NoneType
from typing import Annotated, Any, Literal, TypeVar, Union, get_args, get_origin

from fmnas.optimizers.optimizer import Optimizer, OptimizerError
from fmnas.optimizers.options import PLAIN_TYPES, as_object, members_of
from fmnas.search_spaces import Space

Kind = TypeVar("Kind", bound=Optimizer)


def plain_parameters(function: Callable[..., Any], leave_out: Container[str]) -> list[Parameter]:
    """What a function or a constructor takes by name, annotated with the plain types among those it allows.

    What no YAML can give, such as a function, is left to its default. Raises OptimizerError where it has none.
    """
    found = []
    for name, parameter in inspect.signature(function).parameters.items():
        by_name = parameter.kind in (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
        if not by_name or name in leave_out:
            continue
        annotation = _plain(_resolved(parameter, function))
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


def _resolved(parameter: Parameter, function: Callable[..., Any]) -> Any:
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


def _plain(annotation: Any) -> Any:
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
    if not isinstance(holds, type) or any(_plain(each) is None for each in get_args(part) if each is not ...):
        return None
    if issubclass(dict, holds) and issubclass(holds, Mapping):
        return dict[str, Any]
    return list[Any] if issubclass(list, holds) or holds is tuple else None
