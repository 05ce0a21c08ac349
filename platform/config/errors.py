"""What is wrong with a configuration, in lines that a user can act on: key = value: what is allowed."""

import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.metadata import version
from itertools import chain, repeat
from math import isfinite, isnan
from typing import Any

from pydantic import BaseModel
from pydantic_core import ErrorDetails

from fmnas.platform.errors import LONGEST, cut
from fmnas.search_spaces.errors import did_you_mean

MEND = "Mend it there, or override a key with -o KEY=VALUE."
CALL = "Mend it in the call."
PUT_BACK = "The experiment needs its problem as it was when it began: put it back there, and try again."

SECTIONS = {
    "budget": ("evaluations", "20"),
    "fidelity": ("epochs", "5"),
    "workers": ("cpus", "1"),
    "checkpoints": ("every", "5"),
    "tracking": ("experiment", "my-experiment"),
    "data": ("root", "/a/folder"),
}
"""Of each section, the key that most people set, and a value of it."""

TOP_EXAMPLES = {
    **{"name": "my-experiment", "problem": "joint", "optimizers": "[bo-fm, random]"},
    **{section: f"{{{key}: {value}}}" for section, (key, value) in SECTIONS.items()},
}
"""Of keys at the top, a value that may be set."""
_COMPARISONS = {
    "greater_than_equal": "at least",
    "greater_than": "above",
    "less_than_equal": "at most",
    "less_than": "below",
}
_ALLOWED_BY_KIND = {
    **dict.fromkeys(("int_type", "int_from_float", "int_parsing", "int_parsing_size"), "it must be a whole number"),
    **dict.fromkeys(("float_type", "float_parsing"), "it must be a number"),
    **dict.fromkeys(("bool_type", "bool_parsing"), "it must be true or false"),
    "finite_number": "it must be a finite number",
    "string_type": "it must be text",
    "string_too_short": "it must not be empty; leave it out, or say null, for the default",
    "string_pattern_mismatch": "it must be letters, digits, '.', '_' and '-', 100 at most, and begin with a letter or "
    "digit; give one with -o name=NAME",
    "too_short": "name at least one (`fmnas list optimizers`)",
    "invalid_key": "a key must be a word",
    "recursion_loop": "it contains itself",
}


def explain(place: str, problems: Sequence[str], advice: str = MEND) -> str:
    """The message about a configuration from `place`: every problem once, and how to mend them."""
    lines = "\n".join(f"  {problem}" for problem in dict.fromkeys(problems))
    return f"{place}:\n{lines}\n{advice}"


def of_another_version(begun_with: str | None = None) -> str:
    """Advice about a configuration that lies in a run directory, where fmnas itself wrote it, whole.

    begun_with: the other fmnas that did, where it is known to be another.
    """
    it = begun_with or "the version of fmnas that it was begun with"
    return (
        "fmnas wrote this when the experiment began. If it was changed since, put it back; if not, it is of another "
        f"version than this one, fmnas {version('fmnas')}: go on with {it}."
    )


def recipes(changed: Iterable[str], directory: str) -> str:
    """How to come by what a changed configuration of an experiment wants, by the keys changed; empty without a way."""
    grown = {
        "repeats": "-o repeats=N",
        "budget.evaluations": "-o budget.evaluations=N",
        "budget.seconds": "-o budget.seconds=N",
        "optimizers": "-o optimizers+=NEW",
    }
    ways = [how for key, how in grown.items() if any(each == key or each.startswith(f"{key}.") for each in changed)]
    if not ways:
        return ""
    command = f"fmnas extend {shlex.quote(directory)} {' '.join(ways)}"
    return f"\nBut what there is can be added to: with the file put back, `{command}`."


def unknown(key: str, value: str, allowed: Sequence[str], command: str) -> str:
    """A name that is none of those allowed; `command` lists them."""
    near = did_you_mean(value, allowed)
    return f"{key} = {shown(value)}: unknown; it must be one of {', '.join(allowed)} (`{command}`).{near}"


def describe(
    error: ErrorDetails, schema: type[BaseModel], prefix: Sequence[str | int] = (), besides: Sequence[str] = ()
) -> str:
    """One of pydantic's errors about `schema`, which stands at `prefix` and allows the keys `besides` its own."""
    place = [part for part in error["loc"] if part not in ("int", "[key]")]
    key = ".".join(_word(part) for part in (*prefix, *place))
    if error["type"] == "extra_forbidden":
        names = [*_fields_at(schema, place[:-1]), *besides]
        return f"{key}: unknown key; allowed are {', '.join(names)}.{did_you_mean(str(place[-1]), names)}"
    if error["type"] == "missing":
        if prefix:
            return f"{key}: missing; it has no default: write {place[-1]}: VALUE beside the optimizer's name"
        section = key.partition(".")[0]
        return f"{key}: missing; it is required: write e.g. {section}: {TOP_EXAMPLES.get(section, '...')}"
    return f"{key} = {shown(error['input'])}: {_rule(error, [*prefix, *place])}"


def _rule(error: ErrorDetails, place: Sequence[str | int]) -> str:
    """What is allowed at a place."""
    kind, context, given = error["type"], error.get("ctx", {}), error["input"]
    if kind in _COMPARISONS:
        return f"it must be {_COMPARISONS[kind]} {next(iter(context.values()))}"
    if kind == "literal_error":
        return f"it must be {context['expected']}"
    if kind == "list_type":
        meant = f"[{shown(given, quoted=False)}]" if given and isinstance(given, str | dict) else "[NAME, NAME]"
        return f"it must be a list: write {meant}"
    if kind in ("dict_type", "model_type", "model_attributes_type"):
        return _mapping(place, given)
    if kind == "float_type" and _is_number(given):
        return "it must be a number, which YAML takes for one: 1e-3 is text, 1.0e-3 a number"
    return _ALLOWED_BY_KIND.get(kind, error["msg"].removeprefix("Value error, "))


def _mapping(place: Sequence[str | int], given: Any) -> str:
    """What is allowed at a place that takes keys with values."""
    section = str(place[-1])
    if section in SECTIONS:
        inner, value = SECTIONS[section]
        meant = isinstance(given, int) and not isinstance(given, bool) and value.isdecimal()
        return f"it must be a mapping: write {section}: {{{inner}: {given if meant and given > 0 else value}}}"
    if place[0] == "optimizers" and len(place) == 2:
        return "it must be a name, or {name: NAME, KEY: VALUE} with its options (`fmnas list optimizers`)"
    return f"it must be a mapping: write {section}: {{KEY: VALUE}}"


def _is_number(given: Any) -> bool:
    try:
        return isinstance(given, str) and isfinite(float(given))
    except ValueError:
        return False


def counted(number: int, what: str) -> str:
    """e.g. "1 epoch", "2,000 epochs"."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def shown(value: Any, quoted: bool = True) -> str:
    """A value as YAML has it, in one line, cut after LONGEST characters. quoted: whether text has quotes."""
    text = ""
    for piece in _pieces(value, quoted):
        text += piece
        if len(text) > LONGEST:
            break
    return cut(text)


def _pieces(value: Any, quoted: bool) -> Iterator[str]:
    """The parts of a value's text, one by one: a value may be endless, as one that contains itself."""
    if isinstance(value, Mapping):
        for before, (key, inner) in zip(chain("{", repeat(", ")), value.items(), strict=False):
            yield f"{before}{_word(key)}: "
            yield from _pieces(inner, quoted)
        yield "}" if value else "{}"
    elif isinstance(value, list):
        for before, inner in zip(chain("[", repeat(", ")), value, strict=False):
            yield before
            yield from _pieces(inner, quoted)
        yield "]" if value else "[]"
    elif value is None or isinstance(value, bool):
        yield {None: "null", True: "true", False: "false"}[value]
    elif isinstance(value, float) and not isfinite(value):
        yield ".nan" if isnan(value) else ".inf" if value > 0 else "-.inf"
    elif isinstance(value, int):  # Python refuses to write the decimals of a very large one
        yield str(value) if value.bit_length() < 4 * LONGEST else hex(value)
    elif isinstance(value, str):
        start = value[: LONGEST + 1]
        yield start if not quoted and start.isprintable() else repr(start)
    else:
        yield repr(value) if isinstance(value, float | bytes) else " ".join(str(value).split())


def _word(part: Any) -> str:
    """A key, or a number in a list."""
    text = part[: LONGEST + 1] if isinstance(part, str) else shown(part)
    return cut(text if text.isprintable() and text.strip() == text != "" else repr(text))


def _fields_at(schema: type[BaseModel], place: Sequence[str | int]) -> list[str]:
    """The keys that the section at a place has."""
    for part in place:
        annotation = schema.model_fields[str(part)].annotation
        if not (isinstance(annotation, type) and issubclass(annotation, BaseModel)):
            return []
        schema = annotation
    return list(schema.model_fields)
