"""The page of a report: one self-contained file, for screen, phone and paper. No scripts, nothing fetched."""

import json
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import Any

from fmnas.comparison.summary import FINAL_HEADER, ReportContext, Summary, final_rows
from fmnas.comparison.wording import MISSING, duration, number
from fmnas.search_spaces.records import ORIGINS

LEDGER_HEADER = (
    "run",
    "trials",
    "not finished",
    "diverged",
    "duplicates",
    "known cells",
    "full trainings",
    "epochs",
    "training",
    "suggestion",
    "origins",
)
_NOT_FINISHED = ("failed", "timed_out", "lost", "cancelled")

_STYLE = """
:root { color-scheme: light dark; --ink: #1c2126; --soft: #5b6670; --line: #d9dee3; --ground: #ffffff; --card: #f5f7f9;
  --accent: #0072b2; --warn: #9a5b00; }
@media (prefers-color-scheme: dark) { :root { --ink: #e6e9ec; --soft: #a3adb6; --line: #39424b; --ground: #14181c;
  --card: #1d2329; --accent: #6db8e8; --warn: #f0b04f; } }
* { box-sizing: border-box; }
body { margin: 0 auto; max-width: 70rem; padding: 1.5rem 1.25rem 4rem; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; overflow-wrap: anywhere; }
h1 { font-size: 1.5rem; line-height: 1.25; margin: 0; }
h2 { font-size: 1.1rem; margin: 2.4rem 0 .6rem; }
.soft, .hint { color: var(--soft); margin: .2rem 0 0; }
.hint { font-size: .85rem; }
.headline { font-size: 1.2rem; line-height: 1.4; margin: 1.2rem 0 .5rem; }
.caution { margin: 0; padding: .6rem .9rem; border-left: 4px solid var(--warn); background: var(--card); }
.scroll { overflow-x: auto; }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums; }
th, td { padding: .35rem .9rem .35rem 0; text-align: right; white-space: nowrap; border-bottom: 1px solid var(--line); }
th { color: var(--soft); font-weight: 600; vertical-align: bottom; white-space: normal; overflow-wrap: normal; }
th:first-child, td:first-child, .text th, .text td { text-align: left; }
.text td:last-child, .wide td:last-child { white-space: normal; min-width: 10rem; text-align: left; }
.wide th:last-child { text-align: left; }
@media (max-width: 40rem) { th:first-child, td:first-child { position: sticky; left: 0; background: var(--ground);
  min-width: 7.5rem; white-space: normal; overflow-wrap: normal; } .text td:first-child { position: static; } }
figure { margin: .5rem 0 0; }
figure .card { background: #ffffff; border-radius: 6px; padding: .5rem; }
figure svg { display: block; width: 100%; min-width: 40rem; height: auto; }
figcaption { color: var(--soft); font-size: .85rem; margin-top: .4rem; }
pre { overflow-x: auto; padding: .8rem; background: var(--card); font-size: .82rem; line-height: 1.45; }
summary { cursor: pointer; color: var(--accent); }
@media print { :root { --ink: #000; --soft: #444; --line: #bbb; --ground: #fff; --card: #fff; }
  body { max-width: none; padding: 0; font-size: 11px; } figure svg { min-width: 0; }
  th, td { white-space: normal; } figure, tr { break-inside: avoid; } }
"""


def page(summary: Summary, context: ReportContext, figures: Mapping[str, str]) -> str:
    """The report as an HTML document.

    figures: <svg> elements by name: "anytime", and "best_cell" where the space has a cell. Every other text is escaped.
    """
    budget = summary["budget"]
    name, problem = escape(summary["name"]), escape(summary["problem"])
    paid = f"{budget['evaluations']} evaluations of {budget['epochs_per_evaluation']} epochs per repeat"
    sections = [
        f"<h1>{name}</h1>\n<p class='soft'>{problem}, {paid}</p>",
        f"<p class='headline'>{escape(summary['headline'])}</p>\n<p class='caution'>{escape(summary['caution'])}</p>",
        _final_section(summary),
        _figure("Best objective so far", figures.get("anytime", ""), _ANYTIME_CAPTION),
        _figure("Best cell", figures.get("best_cell", ""), _CELL_CAPTION),
        _ledger_section(summary),
        _incidents(summary),
        _configurations(summary),
        _environment(context),
        f"<details><summary>Configuration</summary><pre>{escape(context.config_text)}</pre></details>",
    ]
    body = "\n".join(section for section in sections if section)
    return (
        "<!doctype html>\n<html lang='en'>\n<head>\n<meta charset='utf-8'>\n"
        "<meta name='viewport' content='width=device-width, initial-scale=1'>\n"
        f"<title>{name}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )


_ANYTIME_CAPTION = (
    "Thick lines: mean over repeats with one standard error. Thin lines, for up to four optimizers: single repeats. "
    "Dots: results at full fidelity. Short trainings cost their epochs and are never the best so far. Time is that of "
    "all trainings and suggestions of a run added up, however many workers shared it."
)
_CELL_CAPTION = "Every state adds its two inputs, each through the operation on its edge. Grey: reaches no output."


def _final_section(summary: Summary) -> str:
    if not summary["optimizers"]:
        return ""
    values = [_each_repeat(row["values"]) for row in summary["optimizers"].values()]
    rows = [(*row, each) for row, each in zip(final_rows(summary), values, strict=True)]
    at = summary["compared_at"]
    hint = f"The best full-fidelity objective of each repeat after {at['epochs']} epochs; the lowest mean first."
    return f"<h2>Result</h2>\n{_table((*FINAL_HEADER, 'each repeat'), rows, 'wide')}\n<p class='hint'>{hint}</p>"


def _each_repeat(values: Mapping[str, float | None]) -> str:
    return "  ".join(number(value) for value in values.values())


def _configurations(summary: Summary) -> str:
    """A column per optimizer, a row per variable."""
    best = {name: row["best_configuration"] for name, row in summary["optimizers"].items()}
    found = {name: configuration for name, configuration in best.items() if configuration}
    if not found:
        return ""
    variables = list(dict.fromkeys(variable for configuration in found.values() for variable in configuration))
    rows = [("found in", *(_place(name, summary["optimizers"][name]) for name in found))]
    rows += [(variable, *(_value(found[name].get(variable)) for name in found)) for variable in variables]
    return f"<h2>Best configuration of each optimizer</h2>\n{_table(('', *found), rows)}"


def _place(optimizer: str, row: Mapping[str, Any]) -> str:
    return f"{row['best_run'].removeprefix(f'{optimizer}/')}, trial {row['best_trial']}"


def _ledger_section(summary: Summary) -> str:
    runs = summary["ledger"]
    if not runs:
        return ""
    header: tuple[str, ...] = LEDGER_HEADER
    rows = [_ledger_row(run) for run in runs]
    hint = "Failed and timed-out trials are charged for their epochs; lost and cancelled ones are not."
    if any(run["duplicates"] for run in runs):
        hint += " A duplicate repeats an earlier configuration of its run at the same epochs."
    if any(run["known_cells"] + run["isomorphic_cells"] for run in runs):
        hint += " A known cell was trained before at the same epochs, whatever its schedule;"
        hint += " isomorphic is the same network in another encoding."
    else:
        known = header.index("known cells")
        header, *rows = [(*row[:known], *row[known + 1 :]) for row in (header, *rows)]
    return f"<h2>What was spent</h2>\n{_table(header, rows, 'wide')}\n<p class='hint'>{hint}</p>"


def _ledger_row(run: Mapping[str, Any]) -> tuple[str, ...]:
    """A row under LEDGER_HEADER."""
    return (
        run["run"],
        str(run["trials"]),
        _counts({status.replace("_", " "): run[status] for status in _NOT_FINISHED}),
        str(run["diverged"]),
        _counts({"exact": run["duplicates"], "isomorphic": run["isomorphic_duplicates"]}),
        _counts({"exact": run["known_cells"], "isomorphic": run["isomorphic_cells"]}),
        str(run["full_evaluations"]),
        str(run["epochs"]),
        duration(run["train_seconds"]),
        duration(run["suggest_seconds"]),
        ", ".join(f"{o} {run[f'share_{o}']:.0%}" for o in ORIGINS if run[f"share_{o}"]),
    )


def _incidents(summary: Summary) -> str:
    if not summary["incidents"]:
        return ""
    rows = [(i["optimizer"], i["what"].replace("_", " "), str(i["trials"]), i["text"]) for i in summary["incidents"]]
    return f"<h2>Failures and notes</h2>\n{_table(('optimizer', 'what', 'trials', 'in words'), rows, 'text')}"


def _environment(context: ReportContext) -> str:
    rows = list(_flat("", context.environment))
    return f"<h2>Environment</h2>\n{_table(('', ''), rows, 'text')}" if rows else ""


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    """A nested mapping as (dotted name, text) pairs."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", _value(value)


def _value(value: Any) -> str:
    if value is None:
        return MISSING
    if isinstance(value, float):
        return f"{value:.4g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {name}" for name, count in counts.items() if count) or MISSING


def _figure(title: str, svg: str, caption: str) -> str:
    if not svg:
        return ""
    card = f"<div class='scroll card' tabindex='0'>{svg}</div>"
    return f"<h2>{title}</h2>\n<figure>{card}<figcaption>{caption}</figcaption></figure>"


def _table(header: Sequence[str], rows: Iterable[Sequence[str]], kind: str = "") -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in header)
    head = f"<thead><tr>{head}</tr></thead>" if any(header) else ""
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    table = f"<table class='{kind}'>{head}<tbody>\n{body}\n</tbody></table>"
    return f"<div class='scroll' tabindex='0'>{table}</div>"
