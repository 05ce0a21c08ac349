"""Where a configuration comes from: a file or a shipped one, as strict YAML, with overrides from the command line."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode
from yaml.reader import ReaderError

from fmnas.platform.config.errors import shown
from fmnas.platform.errors import ConfigError, cut
from fmnas.search_spaces.errors import did_you_mean

_OUT_OF_PLACE = "it is no YAML from here on: look for a bracket, a quote or an indentation that does not fit"
_OPENED = "that begins here is not closed"
_MEANINGS = {
    "mapping values are not allowed here": "a second colon in one line: put the value in quotes, or begin a new line",
    "cannot start any token": "no value begins with this character: indent with spaces, or put the value in quotes",
    "expected ',' or ']'": f"the [ {_OPENED}, or a comma is missing in it",
    "expected ',' or '}'": f"the {{ {_OPENED}, or a comma is missing in it",
    "could not determine a constructor for the tag": "a tag (!...) that is not allowed: plain values alone are",
    "found undefined alias": "an alias (*...) of an anchor that there is none of",
    "unhashable key": "a key must be a word",
    "while scanning a quoted scalar": f"the quote {_OPENED}",
}
"""What the parser says, and what it means."""


def read_source(source: str | Path) -> tuple[Path, str]:
    """Path and text of a configuration. Raises ConfigError for one that is not there, or cannot be read."""
    path, shipped = Path(source), shipped_configs()
    name = path.as_posix().removeprefix("configs/").removesuffix(".yaml")
    try:
        if path.is_file():
            return path, path.read_text(encoding="utf-8")
        what = "is a folder" if path.is_dir() else "no such file"
    except UnicodeDecodeError:
        raise ConfigError(f"configuration {cut(str(path))} is no text: give a YAML file, in UTF-8") from None
    except OSError as error:
        raise ConfigError(
            f"configuration {cut(str(path))} cannot be read ({error.strerror}): give a YAML file that can, or the name "
            f"of a shipped one: {', '.join(shipped)}"
        ) from None
    if name in shipped:
        return path, shipped[name]
    raise ConfigError(
        f"configuration {cut(str(path))}: {what}; give a YAML file, or one that is shipped: {', '.join(shipped)}."
        f"{did_you_mean(name, list(shipped))}"
    )


def shipped_configs() -> dict[str, str]:
    """Name -> text of the configurations that come with the package; those of the papers' tables are paper/NAME."""
    folder = resources.files("fmnas.configs")
    return {
        f"{group}{entry.name.removesuffix('.yaml')}": entry.read_text(encoding="utf-8")
        for group in ("", "paper/")
        for entry in sorted((folder / group).iterdir() if group else folder.iterdir(), key=lambda e: e.name)
        if entry.name.endswith(".yaml")
    }


def parse(text: str, place: str) -> dict[str, Any]:
    """The keys and values of a configuration's text. Raises ConfigError, naming line and column, for other text."""
    try:
        data = _plain(text)
    except _NotYamlError as error:
        raise ConfigError(f"{place}{error.where}: {error}") from None
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ConfigError(f"{place}: a configuration is a mapping of keys such as problem, optimizers, budget")
    return data


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> list[str]:
    """Apply each `key=value` in turn; the keys, one of an appended value with its "+".

    Raises ConfigError as `override`, and for an override that a later one of the section around it discards.
    """
    keys = [override(data, each) for each in overrides]
    for i, later in enumerate(keys):
        for earlier in keys[:i]:
            if earlier.startswith(f"{later}."):
                raise ConfigError(
                    f"-o {cut(earlier)}: -o {cut(later)} comes after it and replaces it: give -o {cut(later)} first, "
                    "or leave one of the two out"
                )
    return keys


def replaced(keys: Sequence[str]) -> list[str]:
    """A line for each key that is overridden more than once. keys: of `apply_overrides`."""
    return [
        f"-o {cut(key)} is given {keys.count(key)} times: the last one counts"
        for key in dict.fromkeys(keys)
        if keys.count(key) > 1 and not key.endswith("+")
    ]


def override(data: dict[str, Any], given: str) -> str:
    """Apply one `key=value`, or `key+=value` for one more entry of a list, with a value in YAML; returns its key.

    Raises ConfigError where it makes no sense.
    """
    key, equals, text = given.partition("=")
    appends, key = key.endswith("+"), key.removesuffix("+")
    told = f"-o {cut(given)}"
    if not equals or not key:
        raise ConfigError(f"{told}: write key=value, e.g. -o budget.evaluations=20")
    try:
        value = _plain(text)
    except _NotYamlError as error:
        raise ConfigError(f"{told}: the value is not valid YAML: {error}") from None
    *parents, last = key.split(".")
    place: Any = data
    for part in parents:
        at = _at(part, place)
        if at is None:
            raise ConfigError(f"{told}: {shown(part)} leads nowhere; {_no_key(key, place)}")
        if isinstance(place, list) and isinstance(place[at], str):
            place[at] = {"name": place[at]}
        elif isinstance(place, dict) and place.get(at) is None:
            place[at] = {}
        place = place[at]
    at = _at(last, place)
    if at is None:
        raise ConfigError(f"{told}: {_no_key(key, place)}")
    if not appends:
        place[at] = value
        return key
    entries = place.get(at, []) if isinstance(place, dict) else place[at]
    if not isinstance(entries, list):
        raise ConfigError(f"{told}: += adds to a list, and {shown(key)} is none; the list is optimizers")
    place[at] = [*entries, *(value if isinstance(value, list) else [value])]
    return f"{key}+"


def _at(part: str, place: Any) -> Any:
    """What a part of a key means in a mapping, or in a list, where that is a number; None where there is no such."""
    if isinstance(place, dict):
        return part
    is_number = part.isascii() and part.isdecimal() and len(part) < 10  # no list is longer
    return int(part) if isinstance(place, list) and is_number and int(part) < len(place) else None


def _no_key(key: str, place: Any) -> str:
    entries = f": a list has numbers for keys, here 0 to {len(place) - 1}" if isinstance(place, list) and place else ""
    return f"{shown(key)} is not a key of the configuration{entries}"


class _NotYamlError(Exception):
    """Text that is not YAML, and why. where: ", line 3, column 7", or empty."""

    def __init__(self, why: str, where: str = "") -> None:
        super().__init__(why)
        self.where = where


def _plain(text: str) -> Any:
    """The plain data that a text of YAML holds. Raises _NotYamlError."""
    try:
        loader = _StrictLoader(text)
        try:
            return loader.get_single_data()
        finally:
            loader.dispose()
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        column = error.position - (text.rfind("\n", 0, error.position) + 1) + 1
        why = f"a character that YAML does not allow ({error.character:#x})"
        raise _NotYamlError(why, f", line {line}, column {column}") from None
    except yaml.MarkedYAMLError as error:
        said = f"{error.context or ''}: {error.problem or ''}"
        why = next((ours for theirs, ours in _MEANINGS.items() if theirs in said), _OUT_OF_PLACE)
        mark = error.context_mark if _OPENED in why else error.problem_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise _NotYamlError(error.note or why, where) from None
    except yaml.YAMLError:
        raise _NotYamlError(_OUT_OF_PLACE) from None
    except RecursionError:
        raise _NotYamlError("it is nested too deeply") from None


class _StrictLoader(yaml.SafeLoader):
    """YAML of plain values, in which no key is given twice. What is ours to say stands in the errors' `note`."""

    def compose_mapping_node(self, anchor: dict[Any, Node]) -> MappingNode:
        node = super().compose_mapping_node(anchor)
        first: dict[tuple[str, str], int] = {}
        for key, _ in node.value:
            if isinstance(key, ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in first:
                    note = f"{shown(key.value)} is given twice, first in line {first[key.tag, key.value]}: keep one"
                    raise ConstructorError(None, None, None, key.start_mark, note)
                first[key.tag, key.value] = key.start_mark.line + 1
        return node

    def construct_object(self, node: Node, deep: bool = False) -> Any:
        try:
            return super().construct_object(node, deep)
        except (ValueError, OverflowError, LookupError, AttributeError, TypeError):  # e.g. 2001-99-99, or !!bool maybe
            note = f"{shown(getattr(node, 'value', ''))} looks like a date or a number and is none: put it in quotes"
            raise ConstructorError(None, None, None, node.start_mark, note) from None
