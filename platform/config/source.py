"""The YAML of a configuration: a file or a shipped one, and overrides from the command line."""

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, ScalarNode

from fmnas import configs
from fmnas.platform.config.errors import format_value, suggest_similar
from fmnas.platform.errors import ConfigError, legible, truncate


def read_source(source: str | Path) -> tuple[Path, str]:
    """Path and text of a configuration. Raises ConfigError if it is missing or cannot be read."""
    path, shipped = Path(source), shipped_configs()
    name = path.as_posix().removeprefix("configs/").removesuffix(".yaml")
    try:
        if path.is_file() or name not in shipped:
            return path, path.read_text(encoding="utf-8")
        return path, shipped[name]
    except UnicodeDecodeError:
        reason = "it is not a UTF-8 text file"
    except OSError as error:
        reason = str(error.strerror)
    hint = suggest_similar(name, list(shipped)) or "give a YAML file, or a shipped configuration, e.g. quickstart"
    raise ConfigError(f"configuration {truncate(str(path))}: {reason}; {hint} (`fmnas list configs`)")


def shipped_configs() -> dict[str, str]:
    """Name -> text of the configurations that come with the package; those of the papers' tables are paper/NAME."""
    folder = Path(configs.__path__[0])
    paths = [*sorted(folder.glob("*.yaml")), *sorted(folder.glob("paper/*.yaml"))]
    return {path.relative_to(folder).with_suffix("").as_posix(): path.read_text(encoding="utf-8") for path in paths}


class _Loader(yaml.SafeLoader):
    """YAML 1.1 of plain values, with numbers such as 1e-3, which are text there; refuses a key given twice."""

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        keys: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, ScalarNode):
                if key.value in keys:
                    raise ConstructorError(None, None, f"duplicate key {format_value(key.value)}", key.start_mark)
                keys.add(key.value)
        return super().construct_mapping(node, deep)


class _Dumper(yaml.SafeDumper):
    """YAML that `_Loader` reads as the same values."""


_FLOAT = (
    "tag:yaml.org,2002:float",
    re.compile(r"[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)[eE][-+]?[0-9]+$"),
    list("-+.0123456789"),
)
_Loader.add_implicit_resolver(*_FLOAT)
_Dumper.add_implicit_resolver(*_FLOAT)


def dump_yaml(data: Mapping[str, Any]) -> str:
    """The text of plain data, in the order of its keys."""
    return yaml.dump(data, Dumper=_Dumper, sort_keys=False)


def _load_yaml(text: str, place: str) -> Any:
    """The plain data of a text. Raises ConfigError with PyYAML's message for text that is not YAML."""
    try:
        return _Loader(text).get_single_data()
    except RecursionError:
        raise ConfigError(f"{place}: nested too deeply") from None
    except (yaml.YAMLError, ValueError, OverflowError, LookupError, AttributeError, TypeError) as error:
        # ValueError: e.g. 2001-99-99, which looks like a date
        message = legible(str(error)).replace('"<unicode string>", ', "")
        raise ConfigError(f"{place}: invalid YAML: {message}") from None


def parse_yaml(text: str, place: str) -> dict[str, Any]:
    """The keys and values of a configuration's text. Raises ConfigError, naming the line, for other text."""
    data = _load_yaml(text, place)
    if not isinstance(data, dict):
        raise ConfigError(f"{place}: a configuration is a mapping of keys such as problem, optimizers, budget")
    if odd := [key for key in data if not isinstance(key, str)]:
        raise ConfigError(f"{place}: key {format_value(odd[0])}: a key is a text; write it in quotes, or leave it out")
    return data


def apply_overrides(data: dict[str, Any], texts: Sequence[str]) -> set[str]:
    """Apply overrides in order; returns their keys. Raises ConfigError if one replaces what an earlier one set."""
    applied: dict[str, str] = {}
    for text in texts:
        key = apply_override(data, text)
        lost = next((earlier for earlier in applied.values() if earlier.startswith((f"{key}.", f"{key}+="))), None)
        if lost is not None and text.startswith(f"{key}="):
            raise ConfigError(f"-o {truncate(lost)}: the later -o {truncate(text)} discards it; swap them, or omit one")
        applied[key] = text
    return set(applied)


def apply_override(data: dict[str, Any], text: str) -> str:
    """Apply one `key=value`, or `key+=value` to append to a list, with a value in YAML; returns the key.

    Raises ConfigError if there is no such key or the value is not YAML.
    """
    key, equals, yaml_text = text.partition("=")
    appends, key = key.endswith("+"), key.removesuffix("+")
    flag = f"-o {truncate(text)}"
    if not equals or not key:
        raise ConfigError(f"{flag}: write key=value, e.g. -o budget.evaluations=20")
    value = _load_yaml(yaml_text, flag)
    *parents, last = key.split(".")
    place: Any = data
    try:
        for part in parents:
            at = _key_in(place, part)
            if isinstance(place, list) and isinstance(place[at], str):
                place[at] = {"name": place[at]}
            elif isinstance(place, dict) and place.get(at) is None:
                place[at] = {}
            place = place[at]
        at = _key_in(place, last)
        if appends:
            present = place.get(at, []) if isinstance(place, dict) else place[at]
            if not isinstance(present, list):
                raise ConfigError(f"{flag}: += appends to a list, and {format_value(key)} is not one; optimizers is")
            value = [*present, *(value if isinstance(value, list) else [value])]
        place[at] = value
    except (IndexError, TypeError, ValueError):
        raise ConfigError(
            f"{flag}: {format_value(key)} is not a key of the configuration; items of a list have the keys 0, 1, ..."
        ) from None
    return key


def _key_in(place: Any, part: str) -> Any:
    """A part of a key as the key of a mapping or the index of a list. Raises ValueError for no index or a negative."""
    if not isinstance(place, list):
        return part
    if not part.isdecimal():
        raise ValueError(part)
    return int(part)
