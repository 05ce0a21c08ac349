"""The tables of the page: from records to cells of text. Escaping is the template's business."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

from fmnas.comparison.numbers.efficiency import Equivalent, Reached
from fmnas.comparison.numbers.honesty import Honesty
from fmnas.comparison.numbers.ledger import LedgerRow
from fmnas.comparison.numbers.notation import (
    MISSING,
    count,
    counts,
    interval,
    is_missing,
    number,
    seconds,
    share,
    shown,
    with_error,
)
from fmnas.comparison.numbers.paired_tests import FIRST, SECOND, Comparisons, PairedTest
from fmnas.comparison.numbers.retrained import Retrained
from fmnas.comparison.summary import FINAL_HEADER, Summary, final_rows
from fmnas.search_spaces.records import CANCELLED, FAILED, LOST, TIMED_OUT

Kind = Literal["", "text", "wide"]
"""Of tables: of numbers; of texts, aligned left; of numbers, but the last column wraps."""
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
    "wall-clock",
    "idle",
    "lost",
    "pending",
    "origins",
)
ALWAYS = {
    "run",
    "trials",
    "not finished",
    "diverged",
    "duplicates",
    "full trainings",
    "epochs",
    "training",
    "suggestion",
}
"""These columns of the ledger stand there even when they are empty."""


@dataclass(frozen=True)
class Table:
    """header: a text per column. rows: as long each. kind: its look."""

    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    kind: Kind = ""

    def __bool__(self) -> bool:
        return bool(self.rows)

    def filled(self, always: frozenset[str] | set[str] = frozenset()) -> "Table":
        """Without the columns in which no row has a value, except those that are always there."""
        kept = [
            i
            for i, name in enumerate(self.header)
            if name in always or any(row[i] not in ("", MISSING) for row in self.rows)
        ]
        rows = tuple(tuple(row[i] for i in kept) for row in self.rows) if kept else ()
        return Table(tuple(self.header[i] for i in kept), rows, self.kind)


def final(summary: Summary) -> Table:
    """The final table, with every repeat's value; without the column of errors where nothing has one."""
    rows = zip(final_rows(summary), summary.optimizers.values(), strict=True)
    table = Table((*FINAL_HEADER, "each repeat"), tuple((*row, _values(of.values)) for row, of in rows), "wide")
    return table.filled({*table.header} - {"its error"})


def checkpoints(summary: Summary) -> Table:
    """A row per optimizer, by its rank at the end; mean, interval and rank at each checkpoint."""
    header, rows = ["optimizer"], {row.optimizer: [row.optimizer] for row in summary.checkpoints[-1].rows}
    for step in summary.checkpoints:
        header += [f"at {step.share:.0%}", "95% interval", "rank"]
        for row in step.rows:
            told = [with_error(row.mean, row.standard_error), interval(row.low, row.high), count(row.rank)]
            rows[row.optimizer] += told
    last = {row.optimizer: inf if is_missing(row.rank) else row.rank for row in summary.checkpoints[-1].rows}
    ordered = sorted(rows, key=lambda name: (last[name], name))
    return Table(tuple(header), tuple(tuple(rows[name]) for name in ordered)).filled()


def pairs(tests: Comparisons) -> Table:
    """A row per pair of optimizers, with the verdict in words."""
    header = ("pair", "verdict", "difference", "95% interval", "p", "p corrected", "effect", "repeats", "differ")
    return Table(header, tuple(map(_pair, tests.pairs))).filled()


def areas(summary: Summary) -> Table:
    """A row per optimizer, the lowest mean height first."""
    rows = [(row.optimizer, with_error(row.mean, row.standard_error), _values(row.values)) for row in summary.area]
    return Table(("optimizer", "mean height", "each repeat"), tuple(rows), "wide").filled()


def targets(summary: Summary) -> Table:
    """A row per target, a column per optimizer."""
    names = [row.optimizer for row in summary.targets[0].rows]
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
    rows = [
        (row.optimizer, with_error(row.mean, row.standard_error), str(len(row.front)), _values(row.values))
        for row in summary.tradeoff
    ]
    return Table(("optimizer", "hypervolume", "on the front", "each repeat"), tuple(rows), "wide").filled()


def retrained_means(found: Retrained) -> Table:
    """A row per optimizer, the lowest mean test error first."""
    rows = [
        (
            row.optimizer,
            number(row.selected_error),
            with_error(row.error, row.standard_error),
            interval(row.low, row.high),
        )
        for row in found.means
    ]
    return Table(("optimizer", "selected error", "test error", "95% interval"), tuple(rows)).filled()


def retrained_rows(found: Retrained) -> Table:
    """A row per configuration that was trained again."""
    header = ("run", "trial", "selected objective", "selected error", "test error", "training")
    rows = [
        (
            row.run,
            str(row.trial),
            number(row.selected_objective),
            number(row.selected_error),
            with_error(row.error, row.standard_error),
            seconds(row.seconds),
        )
        for row in found.rows
    ]
    return Table(header, tuple(rows)).filled()


def ledger(summary: Summary) -> Table:
    """A row per run."""
    return Table(LEDGER_HEADER, tuple(map(_spent, summary.ledger)), "wide").filled(ALWAYS)


def honesty(summary: Summary) -> Table:
    """A row per optimizer."""
    header = (
        "optimizer",
        "trials",
        "by method",
        "fallbacks",
        "failed fits",
        "duplicates",
        "isomorphic",
        "per suggestion",
        "share of time",
        "idle",
        "origins",
    )
    return Table(header, tuple(map(_honest, summary.honesty)), "wide").filled()


def incidents(summary: Summary) -> Table:
    """What went wrong or was noted, how often."""
    rows = [(each.optimizer, each.what.replace("_", " "), str(each.trials), each.text) for each in summary.incidents]
    return Table(("optimizer", "what", "trials", "in words"), tuple(rows), "text")


def configurations(summary: Summary) -> Table | None:
    """A column per optimizer, a row per variable; None without any full result."""
    best = {name: (row, row.best_configuration) for name, row in summary.optimizers.items() if row.best_configuration}
    if not best:
        return None
    variables = dict.fromkeys(variable for _, configuration in best.values() for variable in configuration)
    places = [
        f"{str(row.best_run).removeprefix(f'{name}/')}, trial {row.best_trial}" for name, (row, _) in best.items()
    ]
    rows = [("found in", *places)]
    rows += [(name, *(shown(configuration.get(name)) for _, configuration in best.values())) for name in variables]
    return Table(("variable", *best), tuple(rows))


def environment(values: Mapping[str, Any]) -> Table:
    """A row per value of a nested mapping, its name dotted."""
    return Table(("", ""), tuple(_flat("", values)), "text")


def _values(values: Mapping[int, float]) -> str:
    return "  ".join(map(number, values.values()))


def _pair(test: PairedTest) -> tuple[str, ...]:
    better = {FIRST: f"{test.first} is better", SECOND: f"{test.second} is better"}
    return (
        f"{test.first} − {test.second}",
        better.get(test.verdict, test.verdict),
        number(test.difference, digits=3),
        interval(test.low, test.high),
        number(test.p, digits=2),
        number(test.p_corrected, digits=2),
        MISSING if is_missing(test.effect) else f"{test.effect:+.2f}",
        str(test.repeats),
        count(test.differing),
    )


def _reached(row: Reached) -> str:
    return f"{count(row.evaluations)} ({row.reached} of {row.repeats})" if row.reached else "never"


def _matched(row: Equivalent) -> str:
    """ "12 (8 to 20; late 3%)"."""
    between = "" if is_missing(row.low) else f"{count(row.low)} to {_or_never(row.high)}"
    told = [text for text in (between, f"late {share(row.late)}" if row.late > 0 else "") if text]
    return _or_never(row.evaluations) + (f" ({'; '.join(told)})" if told else "")


def _or_never(evaluations: float) -> str:
    return "never" if is_missing(evaluations) else count(evaluations)


def _spent(run: LedgerRow) -> tuple[str, ...]:
    """A row under LEDGER_HEADER."""
    missed = {FAILED: run.failed, TIMED_OUT: run.timed_out, LOST: run.lost, CANCELLED: run.cancelled}
    return (
        run.run,
        str(run.trials),
        counts({status.replace("_", " "): trials for status, trials in missed.items()}),
        str(run.diverged),
        counts({"exact": run.duplicates, "isomorphic": run.isomorphic_duplicates}),
        counts({"exact": run.known_cells, "isomorphic": run.isomorphic_cells}),
        str(run.full_evaluations),
        str(run.epochs),
        seconds(run.train_seconds),
        seconds(run.suggest_seconds),
        seconds(run.wall_seconds),
        seconds(run.idle_seconds),
        seconds(run.lost_seconds or None),
        count(run.pending or None),
        ", ".join(f"{origin} {part:.0%}" for origin, part in run.shares.items() if part),
    )


def _honest(row: Honesty) -> tuple[str, ...]:
    return (
        row.optimizer,
        str(row.trials),
        share(row.method_share),
        count(row.fallbacks),
        count(row.failed_fits),
        count(row.duplicates),
        count(row.isomorphic_duplicates or None),
        seconds(row.suggest_seconds),
        share(row.suggest_share),
        seconds(row.idle_seconds),
        ", ".join(f"{origin} {share(part)}" for origin, part in row.shares.items() if part),
    )


def _flat(prefix: str, values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from _flat(f"{prefix}{name}.", value)
        else:
            yield f"{prefix}{name}", shown(value)
