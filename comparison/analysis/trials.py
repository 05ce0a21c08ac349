"""The table of trials: what trials.csv holds, typed. One row per trial that ended.

| columns | type | meaning |
|---|---|---|
| run, optimizer, repeat | str, str, Int64 | whose trial it is; a run is one optimizer x one repeat |
| trial, attempt, parent | Int64 | its number within the run, which attempt ended, the trial it descends from |
| origin | str | one of ORIGINS |
| epochs | Int64 | its fidelity, and what it costs |
| objective, error, error_seed_1.. | float | what is minimised; validation errors (none for a synthetic problem) |
| flops, flops_ratio | float | of one forward pass; ratio to the space's largest network |
| diverged | bool | whether a training's loss stopped being finite |
| status, reason | str | one of STATUSES, and why it did not finish |
| suggest_seconds, train_seconds | float | the optimizer's time to ask, the worker's time to evaluate |
| started_at, finished_at | UTC time | of the last attempt |
| worker | str | who ran it |
| lost_seconds | float | worker time of earlier attempts, which came to nothing; it may be absent, in older files |
| device, arrangement | str, str | what it was trained on, and how; they may be absent, in older files |
| fallback | str | one of FALLBACKS: whether chance chose in place of a model; if absent, in older files, notes tell |
| note | str | what its optimizer wants known |
| any other | as inferred | the variables of the space |
"""

import re
from collections.abc import Callable, Hashable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from fmnas.search_spaces import FmnasError
from fmnas.search_spaces.records import FALLBACKS, ORIGINS, STATUSES

_TEXT_COLUMNS = ("run", "optimizer", "origin", "status", "worker", "reason", "note")
_INTEGER_COLUMNS = ("repeat", "trial", "parent", "epochs", "attempt")
_FLOAT_COLUMNS = ("objective", "error", "flops", "flops_ratio", "suggest_seconds", "train_seconds")
_TIME_COLUMNS = ("started_at", "finished_at")
COLUMNS = (*_TEXT_COLUMNS, *_INTEGER_COLUMNS, *_FLOAT_COLUMNS, "diverged", *_TIME_COLUMNS)
LOST_SECONDS = "lost_seconds"
WAY_COLUMNS = ("device", "arrangement")
FALLBACK_COLUMN = "fallback"
SOURCE = "run_directory"
"""The run directory of a trial, where several were put together: its clock and its workers are those of no other."""
_ADDED: dict[str, Any] = {
    # A first attempt had none before it; what a later one's cost is not known.
    LOST_SECONDS: lambda table: [0.0 if str(attempt) == "1" else None for attempt in table["attempt"]],
    **dict.fromkeys((SOURCE, *WAY_COLUMNS, FALLBACK_COLUMN), ""),
}
"""What a table without one of these columns, as of an older file, gets in its place."""
NEVER_EMPTY = ("run", "optimizer", "origin", "status", "repeat", "trial", "epochs", "attempt", "finished_at")
LAST_COLUMN = "note"
"""In a file, everything after this column is a variable."""

_SEED_ERROR = re.compile(r"error_seed_\d+")
_INTEGER = re.compile(r"[+-]?\d+")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")


@dataclass(frozen=True)
class Budget:
    """What every optimizer may spend in each repeat.

    evaluations: full trainings.
    epochs_per_evaluation: the epochs of a full training: the full fidelity.
    seconds: limit on training plus suggestion, or None; whichever ends first ends a run.
    """

    evaluations: int
    epochs_per_evaluation: int
    seconds: float | None = None

    def __post_init__(self) -> None:
        for name in ("evaluations", "epochs_per_evaluation"):
            if getattr(self, name) < 1:
                raise ReportError(f"budget: {name} = {getattr(self, name)}; give an integer of at least 1")
        if self.seconds is not None and not self.seconds > 0:
            raise ReportError(f"budget: seconds = {self.seconds}; give a number above 0, or None for no limit")

    @property
    def epochs(self) -> int:
        """The budget in epochs, the unit of cost."""
        return self.evaluations * self.epochs_per_evaluation


class PlannedRun(NamedTuple):
    """A run that the experiment has, whether or not one of its trials has ended."""

    run: str
    optimizer: str
    repeat: int


def read_trials(path: Path) -> pd.DataFrame:
    """The typed table of a trials.csv. A file without rows gives a table without rows.

    Raises ReportError, naming file and column, for a missing or unknown column or a value that does not parse.
    """
    try:
        # Everything arrives as text: pandas' guesses would turn an operation called "None" into a missing value.
        raw = pd.read_csv(path, dtype=object, keep_default_na=False, encoding="utf-8")
    except pd.errors.EmptyDataError:
        return typed_trials(pd.DataFrame(), str(path))
    except (OSError, UnicodeDecodeError, pd.errors.ParserError) as error:
        raise ReportError(f"cannot read the trials of {path}: {error}; is it a run directory's trials.csv?") from error
    _check_file_columns(list(raw.columns), path)
    for name in variable_columns(raw):
        raw[name] = _inferred(raw[name])
    return typed_trials(raw, str(path))


def typed_trials(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """The table with every fixed column typed and checked; variables are left as they are.

    source: what to call the table in a message. Raises ReportError as `read_trials` does.
    """
    if table.columns.empty:
        table = pd.DataFrame(columns=list(COLUMNS))
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        raise ReportError(f"{source}: column {missing[0]!r} is missing; a table of trials has {', '.join(COLUMNS)}")
    typed = table.reset_index(drop=True).assign(**{name: of for name, of in _ADDED.items() if name not in table})
    floats = (*_FLOAT_COLUMNS, LOST_SECONDS, *filter(_SEED_ERROR.fullmatch, map(str, typed.columns)))
    conversions: list[tuple[tuple[str, ...], Callable[[Any], Any], Any, Any]] = [
        ((*_TEXT_COLUMNS, SOURCE, *WAY_COLUMNS, FALLBACK_COLUMN), str, "", "object"),
        (_INTEGER_COLUMNS, lambda value: np.int64(int(value)), None, "Int64"),
        (floats, float, None, "float64"),
        (("diverged",), _boolean, False, "bool"),
        (_TIME_COLUMNS, _time, None, "datetime64[ns, UTC]"),
    ]
    for names, convert, empty, dtype in conversions:
        for name in names:
            typed[name] = _typed(typed[name], convert, empty, source).astype(dtype)
    _check_values(typed, source)
    return typed


def variable_columns(table: pd.DataFrame) -> list[str]:
    """The columns that are variables of the space: all but the fixed ones and the errors per seed."""
    return [str(name) for name in table.columns if not is_column(str(name))]


def configuration_of(row: "pd.Series[Any]", variables: list[str]) -> dict[str, Any]:
    """The configuration of one row, as plain Python values."""
    values = {name: row[name] for name in variables}
    return {name: value.item() if hasattr(value, "item") else value for name, value in values.items()}


def is_column(name: str) -> bool:
    """Whether a name is that of a column which is no variable: no variable may have it."""
    return name in COLUMNS or name in _ADDED or _SEED_ERROR.fullmatch(name) is not None


def _check_file_columns(columns: list[str], path: Path) -> None:
    known = columns.index(LAST_COLUMN) if LAST_COLUMN in columns else 0
    unknown = [name for name in columns[:known] if not is_column(name)]
    if unknown:
        raise ReportError(
            f"{path}: column {unknown[0]!r} is unknown; before {LAST_COLUMN!r} there may be {', '.join(COLUMNS)} "
            f"and error_seed_1.., after it the variables. Write the file with index=False"
        )


def _check_values(table: pd.DataFrame, source: str) -> None:
    for name in NEVER_EMPTY:
        empty = table[name].isna() | (table[name].astype(object) == "")
        if empty.any():
            raise ReportError(f"{source}: column {name!r} is empty in row {table.index[empty][0]}; every trial has one")
    for name, allowed in (("status", STATUSES), ("origin", ORIGINS), (FALLBACK_COLUMN, FALLBACKS)):
        odd = sorted(set(table[name]) - set(allowed))
        if odd:
            raise ReportError(
                f"{source}: column {name!r} holds {odd[0]!r}; allowed are {', '.join(filter(None, allowed))}"
            )
    if (table["epochs"] < 1).any():
        raise ReportError(f"{source}: column 'epochs' holds {table['epochs'].min()}; a trial has at least 1")
    twice = table[table.duplicated(["optimizer", "repeat", "trial", "attempt"])]
    if len(twice):
        run, trial = twice["run"].iloc[0], twice["trial"].iloc[0]
        raise ReportError(
            f"{source}: trial {trial} of run {run!r} is there twice; run directories that hold the same optimizer and "
            f"repeat cannot be put into one report: leave one out"
        )


def _typed(column: "pd.Series[Any]", convert: Callable[[Any], Any], missing: Any, source: str) -> "pd.Series[Any]":
    """A fixed column converted."""
    if convert is float:
        with suppress(ValueError, TypeError):  # in one go; what is not a number is named below
            return column.astype(object).where(column != "", None).astype("float64")

    def converted(value: Hashable) -> Any:
        try:
            return convert(value)
        except (ValueError, TypeError, OverflowError) as error:
            told = f"{source}: column {column.name!r} holds {value!r}, which does not parse: {error}"
            raise ReportError(told) from error

    return _each(column, converted, missing)


def _each(column: "pd.Series[Any]", convert: Callable[[Any], Any], missing: Any = None) -> "pd.Series[Any]":
    """The values converted, equal ones once, which for most columns is soon done; for "" and none at all `missing`."""
    codes, distinct = pd.factorize(column.astype(object))
    values = np.empty(len(distinct) + 1, dtype=object)
    values[:] = [*(missing if value == "" else convert(value) for value in distinct), missing]
    return pd.Series(values[codes], index=column.index, dtype="object")  # the code of a missing value is -1


def _time(value: str | datetime) -> datetime:
    time = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return time if time.tzinfo else time.replace(tzinfo=UTC)


def _boolean(value: object) -> bool:
    if str(value) not in ("True", "False"):
        raise ValueError("allowed are True and False")
    return str(value) == "True"


def _inferred(column: "pd.Series[str]") -> "pd.Series[Any]":
    """A variable's column of text as integers, floats, booleans or text, whichever all its values are."""
    given = [value for value in column.dropna().unique() if value != ""]
    convert: Callable[[str], Any] = str
    if all(_INTEGER.fullmatch(value) for value in given):
        convert = int
    elif all(_NUMBER.fullmatch(value) for value in given):
        convert = float  # Python's parser is exact; pandas' fast one is off by an ulp now and then
    elif all(value in ("True", "False") for value in given):
        convert = _boolean
    return _each(column, convert)


class ReportError(FmnasError, ValueError):
    """A table of trials that cannot be compared: the input is wrong."""


class ReportNotWritten(OSError):  # noqa: N818  # it is what the disk did, no mistake in a call
    """A file of a report that the disk would not take: the input is right, and the same report may succeed later."""
