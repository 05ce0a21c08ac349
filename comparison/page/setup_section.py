"""What was found and what it was found with: best configurations, environment, configuration."""

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any

from fmnas.comparison.numbers.notation import shown
from fmnas.comparison.page.html_parts import Pictures, Section, table
from fmnas.comparison.summary import ReportContext, Summary


def configurations_section(summary: Summary, _: Pictures) -> Section | None:
    """A column per optimizer, a row per variable."""
    best = {name: row["best_configuration"] for name, row in summary["optimizers"].items()}
    found = {name: configuration for name, configuration in best.items() if configuration}
    if not found:
        return None
    variables = list(dict.fromkeys(variable for configuration in found.values() for variable in configuration))
    rows = [("found in", *(_place(name, summary["optimizers"][name]) for name in found))]
    rows += [(variable, *(shown(found[name].get(variable)) for name in found)) for variable in variables]
    return Section("configurations", "Best configurations", table(("variable", *found), rows))


def environment_section(context: ReportContext) -> Section | None:
    """Versions, commit, host, devices."""
    rows = list(_flat("", context.environment))
    return Section("environment", "Environment", table(("", ""), rows, "text"), folded=True) if rows else None


def configuration_section(context: ReportContext) -> Section | None:
    """The configuration as resolved."""
    text = context.config_text
    return Section("configuration", "Configuration", f"<pre>{escape(text)}</pre>", folded=True) if text else None


def _place(optimizer: str, row: Mapping[str, Any]) -> str:
    return f"{row['best_run'].removeprefix(f'{optimizer}/')}, trial {row['best_trial']}"


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A nested mapping as (dotted name, text) pairs."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", shown(value)
