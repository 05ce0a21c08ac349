"""Every key of a configuration: what it may be, its default and what it means, read off the schema.

docs/configuration.md is made of it (`python -m fmnas.platform.config.reference`), and `fmnas config` comments with it.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import wrap
from typing import Any

from fmnas.platform.config.config import Config
from fmnas.platform.config.errors import SECTIONS, TOP_EXAMPLES

REQUIRED = "required"
EXAMPLES = TOP_EXAMPLES | {
    **{f"{section}.{key}": value for section, (key, value) in SECTIONS.items()},
    "budget.seconds": "86400",
    "budget.trial_seconds": "3600",
    "fixed": "{op1: conv3x3, output: 3}",
    "fidelity.schedule_epochs": "25",
    "objective.flops_weight": "0.05",
    "objective.flops": "pthflops",
    "data.name": "digits",
    "data.train": "2000",
    "data.validation": "2000",
    "data.batch_size": "64",
    "data.early_validation": "500",
    "tracking.uri": "http://mlflow.example:5000",
    "optimizers.0.name": "bo-fm",
    "optimizers.0.use": "mine.py:Mine",
    "optimizers.0.label": "bo-fm-moddif",
    "optimizers.0.warm_start": "runs/earlier:random",
    "optimizers.0.options": "{kernel: moddif}",
}
"""Of keys that have no default, or one that shows nothing; of the others the default is one."""
_LIMITS = {"minimum": "at least", "exclusiveMinimum": "above", "maximum": "at most", "exclusiveMaximum": "below"}
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
"""A key at the beginning of a line of YAML, where an optimizer's first stands after "- "."""


@dataclass(frozen=True)
class Key:
    """One key: its dotted name (of a list's items with 0), what it may be, its default, and what it means."""

    name: str
    kind: str
    default: str
    meaning: str

    @property
    def example(self) -> str:
        """A value that may be set."""
        return EXAMPLES.get(self.name, self.default)


def keys() -> list[Key]:
    """All of them, in the order of the schema: a section is followed by its own."""
    schema = Config.model_json_schema()
    return list(_keys(schema, schema["$defs"], ""))


def _keys(schema: Mapping[str, Any], known: Mapping[str, Any], prefix: str) -> Iterator[Key]:
    for name, given in schema["properties"].items():
        inner, items = _section(given, known), _section(given.get("items", {}), known)
        default = REQUIRED if name in schema.get("required", ()) else "–" if inner else _default(given)
        told = " ".join((given.get("description") or inner.get("description", "")).split())
        kind = "list of names or mappings" if items else "mapping" if inner else _kind(given)
        yield Key(prefix + name, kind, default, told)
        if inner:
            yield from _keys(inner, known, f"{prefix}{name}.")
        if items:
            yield from _keys(items, known, f"{prefix}{name}.0.")


def _section(given: Mapping[str, Any], known: Mapping[str, Any]) -> Mapping[str, Any]:
    """The schema of the section that a key holds; empty where it holds a plain value."""
    found = known.get(given.get("$ref", "").removeprefix("#/$defs/"), {})
    return found if "properties" in found else {}


def _default(given: Mapping[str, Any]) -> str:
    value = given.get("default", {})
    return value if isinstance(value, str) else json.dumps(value)


def _kind(given: Mapping[str, Any]) -> str:
    """What a plain value may be, in words."""
    if "anyOf" in given:
        return ", or ".join(map(_kind, given["anyOf"]))
    if "enum" in given:
        return ", ".join(map(str, given["enum"]))
    if "const" in given:
        return str(given["const"])
    bounds = [f"{words} {given[key]:,.16g}" for key, words in _LIMITS.items() if key in given]
    return " ".join([_TYPES.get(given.get("type", ""), "text"), " and ".join(bounds)]).strip()


def commented(config: Config) -> str:
    """A configuration with every default, as YAML that loads to the same; above each key, once, what it means."""
    told = {key.name.replace(".0.", "."): key.meaning for key in keys()}
    lines: list[str] = []
    place: list[str] = []
    for line in config.to_yaml().splitlines():
        found = _KEY.match(line)
        if found:
            depth = len(found["indent"]) // 2
            place = [*place[:depth], found["key"]]
            before = f"{'  ' * depth}# "
            lines += wrap(told.pop(".".join(place), ""), 118, initial_indent=before, subsequent_indent=before)
        lines.append(line)
    return "\n".join(lines) + "\n"


def markdown() -> str:
    """The reference as a page."""
    lines = [
        "# Every key of a configuration",
        "",
        "A configuration is a YAML file; `-o KEY=VALUE` overrides a key by its dotted name, `optimizers.0` being the",
        "first; `-o optimizers+=NAME` adds an entry to the list. `fmnas config FILE` prints one with all defaults, and",
        "what it costs. What an optimizer itself takes, `fmnas list optimizers` says. Made from the schema by",
        "`python -m fmnas.platform.config.reference`.",
        "",
        "| key | may be | default | example | meaning |",
        "|---|---|---|---|---|",
    ]
    for key in keys():
        cells = (f"`{key.name}`", key.kind, key.default, f"`{key.example}`", key.meaning)
        lines.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(markdown())
