"""The tables of the page: from records to cells of text. The template escapes them."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from math import inf
from typing import Any, Literal, TypeVar

from fmnas.comparison.analysis.checkpoints import Reached
from fmnas.comparison.analysis.formatting import (
    MISSING,
    format_count,
    format_duration,
    format_interval,
    format_number,
    format_share,
    format_value,
    format_with_error,
    is_missing,
    join_counts,
)
from fmnas.comparison.analysis.hypervolume import Hypervolumes
from fmnas.comparison.analysis.paired_tests import FIRST, SECOND, Comparisons
from fmnas.comparison.analysis.retrained import Retrained
from fmnas.comparison.summary import FINAL_HEADER, Summary, final_rows

Kind = Literal["", "text", "wide"]
"""Numbers; texts, aligned left; numbers with a last column that wraps."""
Row = TypeVar("Row")


@dataclass(frozen=True)
class Table:
    """A table of text. kind: its style. links: what the first cell of each row links to; "" or none: nothing."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    kind: Kind = ""
    links: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.rows)

    def without_empty_columns(self, keep: Set[str] = frozenset()) -> "Table":
        """Drop the columns in which no row has a value, except those to keep."""
        columns = enumerate(self.header)
        empty = {i for i, name in columns if name not in keep and all(row[i] in ("", MISSING) for row in self.rows)}
        return self._drop(empty)

    def without_column(self, name: str) -> "Table":
        """Drop the columns of this name."""
        return self._drop({i for i, other in enumerate(self.header) if other == name})

    def _drop(self, columns: Set[int]) -> "Table":
        kept = [i for i in range(len(self.header)) if i not in columns]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows) if kept else ()
        return Table(tuple(self.header[i] for i in kept), rows, self.kind, self.links)


def build_table(
    rows: Iterable[Row], columns: Mapping[str, Callable[[Row], str]], kind: Kind = "", keep: Set[str] = frozenset()
) -> Table:
    """A row per record, with the cells that the columns' functions give; without empty columns."""
    cells = tuple(tuple(cell(row) for cell in columns.values()) for row in rows)
    return Table(tuple(columns), cells, kind).without_empty_columns(keep)


def results_table(summary: Summary) -> Table:
    """The final table; errors and regrets only with values, epochs only if they are not the evaluations."""
    optional = {"its error", "mean regret"}
    table = Table(FINAL_HEADER, tuple(final_rows(summary))).without_empty_columns({*FINAL_HEADER} - optional)
    return table.without_column("epochs") if summary.budget.epochs_per_evaluation == 1 else table


def results_by_repeat(summary: Summary) -> Table:
    """The final table with every repeat's value."""
    table, values = results_table(summary), (_join_values(row.values) for row in summary.optimizers.values())
    rows = tuple((*row, text) for row, text in zip(table.rows, values, strict=True))
    return Table((*table.header, "each repeat"), rows, "wide")


def checkpoints(summary: Summary) -> Table:
    """A row per optimizer, by its rank at the end; mean, interval and rank at each checkpoint."""
    last = summary.checkpoints[-1].rows if summary.checkpoints else ()
    ranked = sorted(last, key=lambda row: (inf if is_missing(row.rank) else row.rank, row.optimizer))
    header, rows = ["optimizer"], {row.optimizer: [row.optimizer] for row in ranked}
    for point in summary.checkpoints:
        header += [f"at {point.share:.0%}", "95% interval", "rank"]
        for row in point.rows:
            mean = format_with_error(row.mean, row.standard_error)
            rows[row.optimizer] += [mean, format_interval(row.low, row.high), format_count(row.rank)]
    return Table(tuple(header), tuple(map(tuple, rows.values()))).without_empty_columns()


def pairs(tests: Comparisons) -> Table:
    """A row per pair of optimizers, with the verdict in words."""
    return build_table(
        tests.pairs,
        {
            "pair": lambda test: f"{test.first} − {test.second}",
            "verdict": lambda test: {
                FIRST: f"{test.first} is better",
                SECOND: f"{test.second} is better",
            }.get(test.verdict, test.verdict),
            "difference": lambda test: format_number(test.difference),
            "95% interval": lambda test: format_interval(test.low, test.high),
            "p": lambda test: format_number(test.p, digits=2),
            "p corrected": lambda test: format_number(test.p_corrected, digits=2),
            "effect": lambda test: MISSING if is_missing(test.effect) else f"{test.effect:+.2f}",
            "repeats": lambda test: str(test.repeats),
            "not ties": lambda test: format_count(test.differing),
        },
    )


def hypervolumes(volumes: Hypervolumes) -> Table:
    """A row per optimizer, the highest mean first."""
    return build_table(
        volumes.rows,
        {
            "optimizer": lambda row: row.optimizer,
            "mean hypervolume": lambda row: format_with_error(row.mean, row.standard_error),
            "95% interval": lambda row: format_interval(row.low, row.high),
            "rank": lambda row: format_count(row.rank),
            "each repeat": lambda row: _join_values(row.values),
        },
        "wide",
    )


def targets(summary: Summary) -> Table:
    """A row per target, a column per optimizer."""
    names = [row.optimizer for row in summary.targets[0].rows] if summary.targets else []
    rows = []
    for target in summary.targets:
        reached = {row.optimizer: _format_reached(row) for row in target.rows}
        rows.append((format_number(target.target), *(reached[name] for name in names), target.source))
    return Table(("target", *names, "source"), tuple(rows), "wide").without_empty_columns()


def settings(options_of: Mapping[str, Mapping[str, Any]]) -> Table:
    """A row per optimizer, with its options."""
    rows = [
        (name, ", ".join(f"{key} {format_value(value)}" for key, value in options.items()) or "none")
        for name, options in options_of.items()
    ]
    return Table(("optimizer", "options"), tuple(rows), "text")


def retrained_means(retrained: Retrained) -> Table:
    """A row per optimizer, the lowest mean test error first."""
    return build_table(
        retrained.means,
        {
            "optimizer": lambda row: row.optimizer,
            "selected error": lambda row: format_number(row.selected_error),
            "test error": lambda row: format_with_error(row.error, row.standard_error),
            "95% interval": lambda row: format_interval(row.low, row.high),
        },
    )


def retrained_rows(retrained: Retrained) -> Table:
    """A row per retrained configuration."""
    return build_table(
        retrained.rows,
        {
            "run": lambda row: row.run,
            "trial": lambda row: str(row.trial),
            "selected objective": lambda row: format_number(row.selected_objective),
            "selected error": lambda row: format_number(row.selected_error),
            "test error": lambda row: format_with_error(row.error, row.standard_error),
            "training": lambda row: format_duration(row.seconds),
        },
    )


def ledger(summary: Summary) -> Table:
    """A row per run."""
    return build_table(
        summary.ledger,
        {
            "run": lambda run: run.run,
            "trials": lambda run: str(run.trials),
            "not finished": lambda run: join_counts(
                {"failed": run.failed, "timed out": run.timed_out, "lost": run.lost, "cancelled": run.cancelled}
            ),
            "diverged": lambda run: str(run.diverged),
            "duplicates": lambda run: join_counts({"exact": run.duplicates, "isomorphic": run.isomorphic_duplicates}),
            "full trainings": lambda run: str(run.full_evaluations),
            "epochs": lambda run: format_count(run.epochs),
            "training": lambda run: format_duration(run.train_seconds),
            "suggestion": lambda run: format_duration(run.suggest_seconds),
            "wall-clock": lambda run: format_duration(run.wall_seconds),
            "lost": lambda run: format_duration(run.lost_seconds or None),
            "pending": lambda run: format_count(run.pending or None),
            "origins": lambda run: ", ".join(f"{name} {format_share(x)}" for name, x in run.shares.items() if x),
        },
        "wide",
        keep={"not finished", "duplicates", "training", "suggestion"},
    )


def sanity_checks(summary: Summary) -> Table:
    """A row per optimizer."""
    return build_table(
        summary.sanity_checks,
        {
            "optimizer": lambda row: row.optimizer,
            "trials": lambda row: str(row.trials),
            "by method": lambda row: format_share(row.method_share),
            "fallbacks": lambda row: format_count(row.fallbacks),
            "failed fits": lambda row: format_count(row.failed_fits),
            "extrapolated": lambda row: format_share(row.extrapolated) if row.extrapolated else MISSING,
            "duplicates": lambda row: format_count(row.duplicates),
            "isomorphic": lambda row: format_count(row.isomorphic_duplicates or None),
            "per suggestion": lambda row: format_duration(row.suggest_seconds),
            "share of time": lambda row: format_share(row.suggest_share),
            "origins": lambda row: ", ".join(f"{name} {format_share(x)}" for name, x in row.shares.items() if x),
        },
        "wide",
    )


def incidents(summary: Summary) -> Table:
    """A row per failure or note, with its number of trials."""
    rows = [(row.optimizer, row.what.replace("_", " "), str(row.trials), row.text) for row in summary.incidents]
    return Table(("optimizer", "status", "trials", "message"), tuple(rows), "text")


def configurations(summary: Summary) -> Table:
    """A column per optimizer, a row per variable; rows only with a full result."""
    best = {name: row.best_configuration for name, row in summary.optimizers.items() if row.best_configuration}
    places = (summary.optimizers[name].found_in.removeprefix(f"{name}/") for name in best)
    variables = dict.fromkeys(variable for configuration in best.values() for variable in configuration)
    values = ((name, *(format_value(configuration.get(name)) for configuration in best.values())) for name in variables)
    return Table(("variable", *best), (("found in", *places), *values) if best else ())


def environment(values: Mapping[str, Any]) -> Table:
    """A row per value of a nested mapping, with a dotted name."""
    return Table(("", ""), tuple(_flatten("", values)), "text")


def _join_values(values: Mapping[int, float]) -> str:
    return "  ".join(map(format_number, values.values()))


def _format_reached(row: Reached) -> str:
    return f"{format_count(row.evaluations)} ({row.reached} of {row.repeats})" if row.reached else "never"


def _flatten(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flatten(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", format_value(value)
