"""Messages about a configuration: a line "key = value: what is wrong" for each error."""

import re
import reprlib
import shlex
from collections.abc import Iterable, Sequence
from importlib.metadata import version
from typing import Any

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from fmnas.platform.errors import LONGEST, cut
from fmnas.search_spaces.errors import did_you_mean

EDIT_HINT = "Fix it there, or override a key with -o KEY=VALUE."
CALL_HINT = "Fix it in the call."
RESTORE_HINT = "The experiment needs its problem as it was at the start: restore it and try again."


_TEXTS = dict.fromkeys(("dict_type", "model_type", "model_attributes_type"), "must be a mapping, {KEY: VALUE}")
"""Type of an error -> its text, where pydantic's names a class of fmnas."""


def format_problems(place: str, problems: Sequence[str], advice: str = EDIT_HINT) -> str:
    """The message about a configuration from `place`: each problem once, then how to fix them."""
    lines = "\n".join(f"  {problem}" for problem in dict.fromkeys(problems))
    return f"{place}:\n{lines}\n{advice}"


def version_hint(begun_with: str | None = None) -> str:
    """Advice about the configuration in a run directory. begun_with: the version that wrote it, if known."""
    return (
        "fmnas wrote this file when the experiment began. If you changed it, restore it; if not, another version than "
        f"fmnas {version('fmnas')} wrote it: resume with {begun_with or 'that version'}."
    )


def extend_hint(changed: Iterable[str], directory: str) -> str:
    """The command that extends an experiment as its changed configuration wants; empty if it cannot be extended."""
    growing = {
        "repeats": "-o repeats=N",
        "budget.evaluations": "-o budget.evaluations=N",
        "budget.seconds": "-o budget.seconds=N",
        "optimizers": "-o optimizers+=NEW",
    }
    flags = [flag for key, flag in growing.items() if any(one == key or one.startswith(f"{key}.") for one in changed)]
    if not flags:
        return ""
    return f"\nTo extend it, restore the file and run `fmnas extend {shlex.quote(directory)} {' '.join(flags)}`."


def format_unknown(key: str, value: str, allowed: Sequence[str], command: str) -> str:
    """The line for an unknown name. command: lists the known ones."""
    near = did_you_mean(value, allowed)
    return f"{key} = {format_value(value)}: unknown; must be one of {', '.join(allowed)} (`{command}`).{near}"


def format_errors(
    error: ValidationError,
    schema: type[BaseModel],
    data: Any,
    prefix: Sequence[str | int] = (),
    also: Sequence[str] = (),
) -> list[str]:
    """A line for each key that pydantic refuses; the members of a union share one.

    data: what `schema` validated. prefix: its place in the configuration. also: allowed keys beside the schema's.
    """
    lines: dict[str, list[str]] = {}
    for item in error.errors(include_url=False):
        path = _find_path(item, data)
        key = ".".join(map(_format_key, (*prefix, *path)))
        if item["type"] == "extra_forbidden":
            names = [*_find_keys(schema, path[:-1]), *also]
            line = f"{key}: unknown key; allowed are {', '.join(names) or 'none'}.{did_you_mean(str(path[-1]), names)}"
            lines.setdefault(line, [])
        elif item["type"] == "missing":
            lines.setdefault(f"{key}: missing, and it has no default", [])
        else:
            text = _TEXTS.get(item["type"], item["msg"].removeprefix("Value error, "))
            if item["type"] == "float_type" and re.fullmatch(r"[-+]?\d+e[-+]?\d+", str(item["input"])):
                text += " (YAML reads 1e-3 as text; write 1.0e-3)"
            lines.setdefault(f"{key} = {format_value(item['input'])}", []).append(text)
    return [f"{line}: {'; or: '.join(dict.fromkeys(texts))}" if texts else line for line, texts in lines.items()]


def _find_path(error: ErrorDetails, data: Any) -> list[str | int]:
    """The keys of an error's location that the data has, without the names of types that pydantic adds."""
    path: list[str | int] = []
    for part in error["loc"]:
        is_key = part in data if isinstance(data, dict) else isinstance(data, list) and isinstance(part, int)
        if is_key:
            data = data[part]
            path.append(part)
    return [*path, error["loc"][-1]] if error["type"] == "missing" else path


def _find_keys(schema: type[BaseModel], path: Sequence[str | int]) -> list[str]:
    """The keys of the section at a path."""
    for part in path:
        annotation = schema.model_fields[str(part)].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        schema = annotation
    return list(schema.model_fields)


def format_count(number: int, noun: str) -> str:
    """e.g. "1 epoch", "2,000 epochs"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


class _ValueFormat(reprlib.Repr):
    """A bounded repr, since a YAML value may contain itself; with the names that YAML has for constants."""

    def __init__(self) -> None:
        super().__init__()
        self.maxdict = self.maxlist = 10
        self.maxlevel, self.maxlong = 4, LONGEST
        self.maxstring = self.maxother = LONGEST + 1

    def repr_bool(self, value: bool, level: int) -> str:
        return str(value).lower()

    def repr_NoneType(self, value: None, level: int) -> str:  # noqa: N802  # reprlib looks for this name
        return "null"

    def repr_float(self, value: float, level: int) -> str:
        return repr(value).replace("inf", ".inf").replace("nan", ".nan")

    def repr_int(self, value: int, level: int) -> str:  # Python refuses to print a very large one in decimals
        return str(value) if value.bit_length() < 4 * LONGEST else hex(value)


def format_value(value: Any) -> str:
    """A value in one line of at most LONGEST characters."""
    return cut(_ValueFormat().repr(value))


def _format_key(part: str | int) -> str:
    text = str(part)
    return cut(text if text.isprintable() and text.strip() == text != "" else repr(text))
