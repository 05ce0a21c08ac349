"""The tables of the page: from records to cells of text. Escaping is the template's business."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, TypeVar

from fmnas.comparison.analysis.efficiency import Equivalent, Reached
from fmnas.comparison.analysis.formatting import (
    MISSING,
    count,
    counts,
    duration,
    interval,
    is_missing,
    number,
    share,
    shown,
    with_error,
)
from fmnas.comparison.analysis.paired_tests import FIRST, SECOND, Comparisons
from fmnas.comparison.analysis.retrained import Retrained
from fmnas.comparison.summary import FINAL_HEADER, Summary, final_rows

Kind = Literal["", "text", "wide"]
"""Of tables: of numbers; of texts, aligned left; of numbers, but the last column wraps."""
Row = TypeVar("Row")


@dataclass(frozen=True)
class Table:
    """header: a text per column. rows: as long each. kind: its look."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    kind: Kind = ""

    def __bool__(self) -> bool:
        return bool(self.rows)

    def filled(self, always: Set[str] = frozenset()) -> "Table":
        """Without the columns in which no row has a value, except those that are always there."""
        kept = [
            i
            for i, name in enumerate(self.header)
            if name in always or any(row[i] not in ("", MISSING) for row in self.rows)
        ]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows) if kept else ()
        return Table(tuple(self.header[i] for i in kept), rows, self.kind)


def table(
    rows: Iterable[Row], columns: Mapping[str, Callable[[Row], str]], kind: Kind = "", always: Set[str] = frozenset()
) -> Table:
    """A row per record, of the cells that the columns make of it; without empty columns, as `Table.filled`."""
    cells = tuple(tuple(cell(row) for cell in columns.values()) for row in rows)
    return Table(tuple(columns), cells, kind).filled(always)


def final(summary: Summary) -> Table:
    """The final table; without the column of errors where nothing has one."""
    return Table(FINAL_HEADER, tuple(final_rows(summary))).filled({*FINAL_HEADER} - {"its error"})


def final_with_repeats(summary: Summary) -> Table:
    """The same, with every repeat's value."""
    found, each = final(summary), (_values(row.values) for row in summary.optimizers.values())
    rows = tuple((*row, values) for row, values in zip(found.rows, each, strict=True))
    return Table((*found.header, "each repeat"), rows, "wide")


def checkpoints(summary: Summary) -> Table:
    """A row per optimizer, by its rank at the end; mean, interval and rank at each checkpoint."""
    last = summary.checkpoints[-1].rows if summary.checkpoints else ()
    ranked = sorted(last, key=lambda row: (inf if is_missing(row.rank) else row.rank, row.optimizer))
    header, rows = ["optimizer"], {row.optimizer: [row.optimizer] for row in ranked}
    for step in summary.checkpoints:
        header += [f"at {step.share:.0%}", "95% interval", "rank"]
        for row in step.rows:
            mean = with_error(row.mean, row.standard_error)
            rows[row.optimizer] += [mean, interval(row.low, row.high), count(row.rank)]
    return Table(tuple(header), tuple(map(tuple, rows.values()))).filled()


def pairs(tests: Comparisons) -> Table:
    """A row per pair of optimizers, with the verdict in words."""
    return table(
        tests.pairs,
        {
            "pair": lambda test: f"{test.first} − {test.second}",
            "verdict": lambda test: {
                FIRST: f"{test.first} is better",
                SECOND: f"{test.second} is better",
            }.get(test.verdict, test.verdict),
            "difference": lambda test: number(test.difference),
            "95% interval": lambda test: interval(test.low, test.high),
            "p": lambda test: number(test.p, digits=2),
            "p corrected": lambda test: number(test.p_corrected, digits=2),
            "effect": lambda test: MISSING if is_missing(test.effect) else f"{test.effect:+.2f}",
            "repeats": lambda test: str(test.repeats),
            "differ": lambda test: count(test.differing),
        },
    )


def areas(summary: Summary) -> Table:
    """A row per optimizer, the lowest mean height first."""
    return table(
        summary.area,
        {
            "optimizer": lambda row: row.optimizer,
            "mean height": lambda row: with_error(row.mean, row.standard_error),
            "each repeat": lambda row: _values(row.values),
        },
        "wide",
    )


def targets(summary: Summary) -> Table:
    """A row per target, a column per optimizer."""
    names = [row.optimizer for row in summary.targets[0].rows] if summary.targets else []
    rows = []
    for target in summary.targets:
        reached = {row.optimizer: _reached(row) for row in target.rows}
        rows.append((number(target.target), *(reached[name] for name in names), target.source))
    return Table(("target", *names, "which is"), tuple(rows), "wide").filled()


def equivalents(summary: Summary) -> Table:
    """A row per optimizer and checkpoint, a column per other optimizer."""
    names = [name for name in summary.optimizers if any(row.other == name for row in summary.equivalents)]
    cells: dict[tuple[str, float], dict[str, str]] = {}
    values = {(row.optimizer, row.at): number(row.value) for row in summary.equivalents}
    for row in summary.equivalents:
        cells.setdefault((row.optimizer, row.at), {})[row.other] = _matched(row)
    rows = [
        (f"{name} at {count(at)}", values[name, at], *(others.get(other, MISSING) for other in names))
        for (name, at), others in cells.items()
    ]
    return Table(("evaluations", "mean objective", *names), tuple(rows)).filled()


def settings(given: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row per optimizer: its options."""
    rows = [
        (name, ", ".join(f"{key} {shown(value)}" for key, value in options.items()) or "none")
        for name, options in given.items()
    ]
    return Table(("optimizer", "options"), tuple(rows), "text")


def tradeoffs(summary: Summary) -> Table:
    """A row per optimizer, the largest hypervolume first."""
    return table(
        summary.tradeoff,
        {
            "optimizer": lambda row: row.optimizer,
            "hypervolume": lambda row: with_error(row.mean, row.standard_error),
            "on the front": lambda row: str(len(row.front)),
            "each repeat": lambda row: _values(row.values),
        },
        "wide",
    )


def retrained_means(found: Retrained) -> Table:
    """A row per optimizer, the lowest mean test error first."""
    return table(
        found.means,
        {
            "optimizer": lambda row: row.optimizer,
            "selected error": lambda row: number(row.selected_error),
            "test error": lambda row: with_error(row.error, row.standard_error),
            "95% interval": lambda row: interval(row.low, row.high),
        },
    )


def retrained_rows(found: Retrained) -> Table:
    """A row per configuration that was trained again."""
    return table(
        found.rows,
        {
            "run": lambda row: row.run,
            "trial": lambda row: str(row.trial),
            "selected objective": lambda row: number(row.selected_objective),
            "selected error": lambda row: number(row.selected_error),
            "test error": lambda row: with_error(row.error, row.standard_error),
            "training": lambda row: duration(row.seconds),
        },
    )


def ledger(summary: Summary) -> Table:
    """A row per run."""
    return table(
        summary.ledger,
        {
            "run": lambda run: run.run,
            "trials": lambda run: str(run.trials),
            "not finished": lambda run: counts(
                {"failed": run.failed, "timed out": run.timed_out, "lost": run.lost, "cancelled": run.cancelled}
            ),
            "diverged": lambda run: str(run.diverged),
            "duplicates": lambda run: counts({"exact": run.duplicates, "isomorphic": run.isomorphic_duplicates}),
            "known cells": lambda run: counts({"exact": run.known_cells, "isomorphic": run.isomorphic_cells}),
            "full trainings": lambda run: str(run.full_evaluations),
            "epochs": lambda run: str(run.epochs),
            "training": lambda run: duration(run.train_seconds),
            "suggestion": lambda run: duration(run.suggest_seconds),
            "wall-clock": lambda run: duration(run.wall_seconds),
            "idle": lambda run: duration(run.idle_seconds),
            "lost": lambda run: duration(run.lost_seconds or None),
            "pending": lambda run: count(run.pending or None),
            "origins": lambda run: ", ".join(f"{origin} {part:.0%}" for origin, part in run.shares.items() if part),
        },
        "wide",
        always={"not finished", "duplicates", "training", "suggestion"},
    )


def honesty(summary: Summary) -> Table:
    """A row per optimizer."""
    return table(
        summary.honesty,
        {
            "optimizer": lambda row: row.optimizer,
            "trials": lambda row: str(row.trials),
            "by method": lambda row: share(row.method_share),
            "fallbacks": lambda row: count(row.fallbacks),
            "failed fits": lambda row: count(row.failed_fits),
            "duplicates": lambda row: count(row.duplicates),
            "isomorphic": lambda row: count(row.isomorphic_duplicates or None),
            "per suggestion": lambda row: duration(row.suggest_seconds),
            "share of time": lambda row: share(row.suggest_share),
            "idle": lambda row: duration(row.idle_seconds),
            "origins": lambda row: ", ".join(f"{origin} {share(part)}" for origin, part in row.shares.items() if part),
        },
        "wide",
    )


def incidents(summary: Summary) -> Table:
    """What went wrong or was noted, how often."""
    rows = [(each.optimizer, each.what.replace("_", " "), str(each.trials), each.text) for each in summary.incidents]
    return Table(("optimizer", "what", "trials", "in words"), tuple(rows), "text")


def configurations(summary: Summary) -> Table:
    """A column per optimizer, a row per variable; without rows where there is no full result."""
    best = {name: row.best_configuration for name, row in summary.optimizers.items() if row.best_configuration}
    places = (summary.optimizers[name].found_in.removeprefix(f"{name}/") for name in best)
    variables = dict.fromkeys(variable for configuration in best.values() for variable in configuration)
    values = ((name, *(shown(configuration.get(name)) for configuration in best.values())) for name in variables)
    return Table(("variable", *best), (("found in", *places), *values) if best else ())


def environment(values: Mapping[str, Any]) -> Table:
    """A row per value of a nested mapping, its name dotted."""
    return Table(("", ""), tuple(_flat("", values)), "text")


def _values(values: Mapping[int, float]) -> str:
    return "  ".join(map(number, values.values()))


def _reached(row: Reached) -> str:
    return f"{count(row.evaluations)} ({row.reached} of {row.repeats})" if row.reached else "never"


def _matched(row: Equivalent) -> str:
    """ "12 (8 to 20; late 3%)"."""
    between = "" if is_missing(row.low) else f"{count(row.low)} to {_or_never(row.high)}"
    told = [text for text in (between, f"late {share(row.late)}" if row.late > 0 else "") if text]
    return _or_never(row.evaluations) + (f" ({'; '.join(told)})" if told else "")


def _or_never(evaluations: float) -> str:
    return "never" if is_missing(evaluations) else count(evaluations)


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", shown(value)
