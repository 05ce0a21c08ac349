"""What is wrong with a configuration, in lines that a user can act on: key = value: what is allowed."""

from collections.abc import Sequence
from difflib import get_close_matches

from pydantic import BaseModel
from pydantic_core import ErrorDetails


def explain(place: str, problems: Sequence[str]) -> str:
    """The message about a configuration from `place`: every problem once, and how to mend them."""
    lines = "\n".join(f"  {problem}" for problem in dict.fromkeys(problems))
    return f"{place}:\n{lines}\nMend it there, or override a key with -o KEY=VALUE."


def unknown(key: str, value: str, allowed: Sequence[str], command: str) -> str:
    """A name that is none of those allowed; `command` lists them."""
    close = get_close_matches(value, allowed, n=1)
    hint = f" Did you mean {close[0]!r}?" if close else ""
    return f"{key} = {value!r}: unknown; it must be one of {', '.join(allowed)} (`{command}`).{hint}"


def describe(
    error: ErrorDetails, schema: type[BaseModel], prefix: Sequence[str | int] = (), besides: Sequence[str] = ()
) -> str:
    """One of pydantic's errors about `schema`, which stands at `prefix` and allows the keys `besides` its own."""
    place = [part for part in error["loc"] if part not in ("int", "literal['auto']")]
    key = ".".join(str(part) for part in (*prefix, *place))
    kind, context = error["type"], error.get("ctx", {})
    if kind == "extra_forbidden":
        names = [*_fields_at(schema, place[:-1]), *besides]
        close = get_close_matches(str(place[-1]), names, n=1)
        hint = f" Did you mean {close[0]!r}?" if close else ""
        return f"{key}: unknown key; allowed are {', '.join(names)}.{hint}"
    if kind == "missing":
        return f"{key}: missing; it is required"
    bounds = {"greater_than_equal": "at least", "greater_than": "above", "less_than_equal": "at most"}
    if kind in bounds:
        rule = f"it must be {bounds[kind]} {next(iter(context.values()))}"
    elif kind in ("int_type", "int_from_float", "int_parsing"):
        rule = "it must be a whole number"
    elif kind == "literal_error":
        rule = f"it must be {context['expected']}"
    elif kind == "string_pattern_mismatch":
        rule = "it must be letters, digits, '.', '_' and '-', and begin with a letter or digit"
    else:
        rule = error["msg"].removeprefix("Value error, ")
    return f"{key} = {error['input']!r}: {rule}"


def _fields_at(schema: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """The keys that the section at a place has."""
    for part in place:
        annotation = schema.model_fields[str(part)].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        schema = annotation
    return list(schema.model_fields)
