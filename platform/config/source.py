"""The YAML of a configuration: a file or a shipped one, and overrides from the command line."""

from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, Node, ScalarNode

from fmnas.platform.config.errors import format_value
from fmnas.platform.errors import ConfigError, cut, legible
from fmnas.search_spaces.errors import did_you_mean


def read_source(source: str | Path) -> tuple[Path, str]:
    """Path and text of a configuration. Raises ConfigError if it is missing or cannot be read."""
    path, shipped = Path(source), shipped_configs()
    name = path.as_posix().removeprefix("configs/").removesuffix(".yaml")
    try:
        if path.is_file():
            return path, path.read_text(encoding="utf-8")
        reason = "is a folder" if path.is_dir() else "no such file"
    except UnicodeDecodeError:
        raise ConfigError(f"configuration {cut(str(path))} is not a UTF-8 text file") from None
    except OSError as error:
        reason = f"cannot be read ({error.strerror})"
    if name in shipped:
        return path, shipped[name]
    raise ConfigError(
        f"configuration {cut(str(path))}: {reason}; give a YAML file, or a shipped configuration: {', '.join(shipped)}."
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


class _Loader(yaml.SafeLoader):
    """YAML of plain values that refuses a key given twice."""

    def compose_mapping_node(self, anchor: dict[Any, Node]) -> MappingNode:
        node = super().compose_mapping_node(anchor)
        keys: set[tuple[str, str]] = set()
        for key, _ in node.value:
            if isinstance(key, ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if (key.tag, key.value) in keys:
                    raise ConstructorError(None, None, f"duplicate key {format_value(key.value)}", key.start_mark)
                keys.add((key.tag, key.value))
        return node


def _load_yaml(text: str, place: str) -> Any:
    """The plain data of a text. Raises ConfigError with PyYAML's message for text that is not YAML."""
    try:
        return _Loader(text).get_single_data()
    except yaml.MarkedYAMLError as error:
        message = ", ".join(filter(None, (error.context, error.problem)))
        mark = error.problem_mark or error.context_mark
        where = f", line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        raise ConfigError(f"{place}{where}: invalid YAML: {legible(message)}") from None
    except RecursionError:
        raise ConfigError(f"{place}: nested too deeply") from None
    except (yaml.YAMLError, ValueError, OverflowError, LookupError, AttributeError, TypeError) as error:
        # e.g. 2001-99-99, which looks like a date
        raise ConfigError(f"{place}: invalid YAML: {legible(str(error))}") from None


def parse_yaml(text: str, place: str) -> dict[str, Any]:
    """The keys and values of a configuration's text. Raises ConfigError, naming the line, for other text."""
    data = _load_yaml(text, place)
    if not isinstance(data, dict) or not all(isinstance(key, str) for key in data):
        raise ConfigError(f"{place}: a configuration is a mapping of keys such as problem, optimizers, budget")
    return data


def apply_overrides(data: dict[str, Any], overrides: Sequence[str]) -> list[str]:
    """Apply each override in turn, and return their keys.

    Raises ConfigError as `apply_override`, and for an override that a later one of its section discards.
    """
    keys = [apply_override(data, override) for override in overrides]
    for i, later in enumerate(keys):
        for earlier in keys[:i]:
            if earlier.startswith(f"{later}."):
                raise ConfigError(f"-o {cut(earlier)}: a later -o {cut(later)} replaces it: swap them, or drop one")
    return keys


def find_repeated_keys(keys: Sequence[str]) -> list[str]:
    """A line for each key that is overridden more than once. keys: of `apply_overrides`."""
    return [
        f"-o {cut(key)} is given {keys.count(key)} times: the last one counts"
        for key in dict.fromkeys(keys)
        if keys.count(key) > 1 and not key.endswith("+")
    ]


def apply_override(data: dict[str, Any], text: str) -> str:
    """Apply one `key=value`, or `key+=value` to append to a list, with a value in YAML; returns the key, with the "+".

    Raises ConfigError if there is no such key or the value is not YAML.
    """
    key, equals, yaml_text = text.partition("=")
    appends, key = key.endswith("+"), key.removesuffix("+")
    flag = f"-o {cut(text)}"
    if not equals or not key:
        raise ConfigError(f"{flag}: write key=value, e.g. -o budget.evaluations=20")
    value = _load_yaml(yaml_text, flag)
    *parents, last = key.split(".")
    place: Any = data
    for part in parents:
        at = _find_item(part, place, key, flag)
        if isinstance(place, list) and isinstance(place[at], str):
            place[at] = {"name": place[at]}
        elif isinstance(place, dict) and place.get(at) is None:
            place[at] = {}
        place = place[at]
    at = _find_item(last, place, key, flag)
    if not appends:
        place[at] = value
        return key
    entries = place.get(at, []) if isinstance(place, dict) else place[at]
    if not isinstance(entries, list):
        raise ConfigError(f"{flag}: += appends to a list, and {format_value(key)} is not one; optimizers is")
    place[at] = [*entries, *(value if isinstance(value, list) else [value])]
    return f"{key}+"


def _find_item(part: str, place: Any, key: str, flag: str) -> Any:
    """A part of a key as the key of a mapping, or the index of an item in a list. Raises ConfigError for neither."""
    if isinstance(place, dict):
        return part
    is_index = isinstance(place, list) and part.isascii() and part.isdecimal() and len(part) < 10
    if is_index and int(part) < len(place):
        return int(part)
    allowed = f"; the items of a list have the keys 0 to {len(place) - 1}" if isinstance(place, list) and place else ""
    raise ConfigError(f"{flag}: {format_value(key)} is not a key of the configuration{allowed}")
