"""The reference of every key of a configuration, read from the schema.

`python -m fmnas.platform.config.reference` prints docs/configuration.md; `fmnas config` prints the descriptions as
comments.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from fmnas.platform.config.schema import Config

REQUIRED = "required"
_BOUNDS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
_TYPES = {
    "integer": "whole number",
    "number": "number",
    "string": "text",
    "boolean": "true or false",
    "null": "null",
    "array": "list",
    "object": "mapping",
}
_KEY = re.compile(r"(?P<indent>[ -]*)(?P<key>\w+):")
"""A key at the beginning of a line of YAML; the first key of an optimizer follows "- "."""
_HEADER = """# Every key of a configuration

A configuration is a YAML file. `-o KEY=VALUE` overrides a key by its dotted name; `optimizers.0` is the first
optimizer. `-o optimizers+=NAME` appends to the list. 1e-3 is a number; text that looks like one is written in quotes.
`fmnas config FILE` prints a configuration with all defaults, and its cost. `fmnas list optimizers --options` prints the
options of each optimizer. This page is generated from the schema by `python -m fmnas.platform.config.reference`.

| key | may be | default | example | meaning |
|---|---|---|---|---|
"""


@dataclass(frozen=True)
class ConfigKey:
    """A key: its dotted name (0 for an item of a list), allowed values, default, meaning, and an example value."""

    name: str
    kind: str
    default: str
    meaning: str
    example: str


def read_keys() -> list[ConfigKey]:
    """All keys in the order of the schema; the keys of a section follow it."""
    schema = Config.model_json_schema()
    return list(_read_section(schema, schema["$defs"], ""))


def _read_section(section: Mapping[str, Any], known: Mapping[str, Any], prefix: str) -> Iterator[ConfigKey]:
    for name, key in section["properties"].items():
        inner, items = (
            known.get(part.get("$ref", "").removeprefix("#/$defs/"), {}) for part in (key, key.get("items", {}))
        )
        value = key.get("default", {})
        default = value if isinstance(value, str) else json.dumps(value)
        default = REQUIRED if name in section.get("required", ()) else "–" if inner else default
        meaning = " ".join((key.get("description") or inner.get("description", "")).split())
        kind = "list of names or mappings" if items else "mapping" if inner else _describe(key)
        yield ConfigKey(prefix + name, kind, default, meaning, key.get("examples", [default])[0])
        if inner or items:
            yield from _read_section(inner or items, known, f"{prefix}{name}." if inner else f"{prefix}{name}.0.")


def _describe(key: Mapping[str, Any]) -> str:
    """The allowed values of a key."""
    if "anyOf" in key:
        return ", or ".join(map(_describe, key["anyOf"]))
    if "enum" in key:
        return ", ".join(map(str, key["enum"]))
    if "const" in key:
        return str(key["const"])
    bounds = [f"{text} {key[at]:,.16g}".replace(f"{2**64:,.16g}", "2**64") for at, text in _BOUNDS.items() if at in key]
    return " ".join([_TYPES.get(key.get("type", ""), "text"), " and ".join(bounds)]).strip()


def to_commented_yaml(config: Config) -> str:
    """A configuration with every default, as YAML that loads to the same, with a comment above each key's first use."""
    meanings = {key.name.replace(".0.", "."): key.meaning for key in read_keys()}
    lines: list[str] = []
    place: list[str] = []
    for line in config.to_yaml().splitlines():
        if match := _KEY.match(line):
            depth = len(match["indent"]) // 2
            place = [*place[:depth], match["key"]]
            indent = f"{'  ' * depth}# "
            lines += wrap(meanings.pop(".".join(place), ""), 118, initial_indent=indent, subsequent_indent=indent)
        lines.append(line)
    return "\n".join(lines) + "\n"


def to_markdown() -> str:
    """docs/configuration.md."""
    rows = [(f"`{key.name}`", key.kind, key.default, f"`{key.example}`", key.meaning) for key in read_keys()]
    lines = ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return _HEADER + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(to_markdown())
