"""Messages about a configuration: a line "key = value: what is wrong" for each error."""

import json
import reprlib
from collections.abc import Sequence
from difflib import get_close_matches
from importlib.metadata import version
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from fmnas.platform.errors import LONGEST, truncate

EDIT_HINT = "Fix it there, or override a key with -o KEY=VALUE."
CALL_HINT = "Fix it in the call."
RESTORE_HINT = (
    f"fmnas {version('fmnas')} cannot use what this experiment began with. If you changed its configuration or a "
    "file that it names, restore them; if not, resume with the version of fmnas that wrote it."
)
"""How to fix a configuration in a run directory."""
_VALUES = reprlib.Repr()
_VALUES.maxdict = _VALUES.maxlist = 10
_VALUES.maxlevel = 4
_VALUES.maxstring = _VALUES.maxother = _VALUES.maxlong = LONGEST + 1


def format_problems(place: str, problems: Sequence[str], advice: str = EDIT_HINT) -> str:
    """The message about a configuration from `place`: each problem once, then how to fix them."""
    lines = "\n".join(f"  {problem}" for problem in dict.fromkeys(problems))
    return f"{place}:\n{lines}\n{advice}"


def format_unknown(key: str, value: str, allowed: Sequence[str], command: str) -> str:
    """The line for an unknown name. command: lists the known ones."""
    hint = suggest_similar(value, allowed) or f"must be one of {', '.join(allowed)}"
    return f"{key} = {format_value(value)}: unknown; {hint} (`{command}`)."


def suggest_similar(name: str, names: Sequence[str]) -> str:
    """The names that are similar to a name, if any, as "did you mean NAME?"."""
    similar = get_close_matches(name.lower(), names, n=2, cutoff=0.7)
    return f"did you mean {' or '.join(similar)}?" if similar else ""


def format_errors(
    error: ValidationError,
    schema: type[BaseModel],
    data: Any,
    prefix: Sequence[str | int] = (),
    also: Sequence[str] = (),
) -> list[str]:
    """A line for each key that pydantic refuses, with its messages; the members of a union share one.

    data: what `schema` validated. prefix: its place in the configuration. also: allowed keys beside the schema's.
    """
    lines: dict[str, list[str]] = {}
    for item in error.errors(include_url=False):
        path, place = list(prefix), data
        for part in item["loc"]:  # pydantic adds names of types, which are not keys
            if part in place if isinstance(place, dict) else isinstance(place, list) and isinstance(part, int):
                place = place[part]
                path.append(part)
        if item["type"] == "missing":
            path.append(item["loc"][-1])
        key, text = ".".join(map(_format_key, path)), item["msg"].removeprefix("Value error, ")
        if item["type"] == "string_type" and isinstance(item["input"], int | float):
            text += "; write it in quotes"
        if item["type"] == "extra_forbidden":
            names = [*_find_keys(schema, path[len(prefix) : -1]), *also]
            hint = suggest_similar(str(item["loc"][-1]), names) or f"allowed are {', '.join(names) or 'none'}"
            lines[key] = [f"unknown key; {hint}"]
        elif item["type"] == "missing":
            lines[key] = ["missing, and it has no default"]
        elif item["type"] == "model_type":
            keys = ", ".join(_find_keys(schema, path[len(prefix) :]))
            lines[f"{key} = {format_value(item['input'])}"] = [f"must be a mapping with the keys {keys}"]
        else:
            lines.setdefault(f"{key} = {format_value(item['input'])}", []).append(text)
    return [f"{key}: {'; or: '.join(dict.fromkeys(texts))}" for key, texts in lines.items()]


def _find_keys(schema: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The keys of the section at a path."""
    for part in (part for part in path if isinstance(part, str)):
        annotation = schema.model_fields[part].annotation
        kinds = [kind for kind in (annotation, *get_args(annotation)) if isinstance(kind, type)]
        sections = [kind for kind in kinds if issubclass(kind, BaseModel)]
        if not sections:
            return []
        schema = sections[0]
    return list(schema.model_fields)


def _format_key(part: str | int) -> str:
    text = str(part)
    return truncate(text if text.isprintable() and text.strip() == text != "" else repr(text))


def format_count(number: int, noun: str) -> str:
    """e.g. "1 epoch", "2,000 epochs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def format_value(value: Any) -> str:
    """A value in one line of at most LONGEST characters; null, true and false as in YAML."""
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    try:
        return truncate(_VALUES.repr(value))
    except ValueError:  # Python does not print a whole number of more than 4,300 digits
        return f"a {type(value).__name__} that is too long to show"
