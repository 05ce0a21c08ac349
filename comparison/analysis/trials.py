"""The table of trials: what trials.csv holds, with types. One row per trial that ended.

| columns | type | meaning |
|---|---|---|
| run, optimizer, repeat | str, str, Int64 | the trial's run: one optimizer x one repeat |
| trial, attempt, parent | Int64 | number within the run, the attempt that ended, the trial it descends from |
| origin | str | one of ORIGINS |
| epochs | Int64 | its cost: its fidelity; float after racing, averaged over all seeds |
| objective, error, error_seed_1.. | float | what is minimised; validation errors (none for a synthetic problem) |
| objective_1, objective_2 | float | of a problem whose evaluations are two numbers; else absent |
| flops, flops_ratio | float | of one forward pass; ratio to the space's largest network |
| diverged | bool | whether a training's loss stopped being finite |
| extrapolated | bool | whether a surrogate predicted it far from all that it was fitted to; optional |
| status, reason | str | one of STATUSES, and why it did not finish |
| suggest_seconds, train_seconds | float | the optimizer's time, tells before the ask included; the worker's |
| started_at, finished_at | UTC time | of the last attempt |
| worker | str | name of the worker that ran it |
| lost_seconds | float | worker time of earlier attempts, which were lost; optional |
| device, arrangement | str, str | what it was trained on, and how; optional |
| fallback | str | one of FALLBACKS: whether it was drawn at random in place of a model's suggestion; optional |
| note | str | a remark of the optimizer |
| any other | inferred | the variables of the space |
"""

import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from fmnas.search_spaces import FmnasError
from fmnas.search_spaces.records import FALLBACKS, ORIGINS, STATUSES

_TEXT_COLUMNS = ("run", "optimizer", "origin", "status", "worker", "reason", "note")
_INTEGER_COLUMNS = ("repeat", "trial", "parent", "attempt")
_FLOAT_COLUMNS = ("epochs", "objective", "error", "flops", "flops_ratio", "suggest_seconds", "train_seconds")
_TIME_COLUMNS = ("started_at", "finished_at")
COLUMNS = (*_TEXT_COLUMNS, *_INTEGER_COLUMNS, *_FLOAT_COLUMNS, "diverged", *_TIME_COLUMNS)
LOST_SECONDS = "lost_seconds"
EXECUTION_COLUMNS = ("device", "arrangement")
FALLBACK_COLUMN = "fallback"
EXTRAPOLATED = "extrapolated"
SOURCE = "run_directory"
"""The run directory of a trial, in a report of several: clocks and workers are only comparable within one."""
OPTIONAL_COLUMNS: dict[str, Any] = {
    LOST_SECONDS: 0.0,
    EXTRAPOLATED: False,
    **dict.fromkeys((SOURCE, *EXECUTION_COLUMNS, FALLBACK_COLUMN), ""),
}
"""Columns that a table may lack, with their default values."""
NEVER_EMPTY = ("run", "optimizer", "origin", "status", "repeat", "trial", "epochs", "attempt", "finished_at")
LAST_COLUMN = "note"
"""In a file, every column after this one is a variable."""

_NUMBERED = re.compile(r"error_seed_\d+|objective_\d+")


class ReportError(FmnasError, ValueError):
    """A table of trials that cannot be compared: the input is wrong."""


class ReportNotWritten(OSError):  # noqa: N818  # the disk failed, not the input
    """A file of a report could not be written. The input is right: the same report may succeed later."""


@dataclass(frozen=True)
class Budget:
    """The budget of every optimizer in each repeat.

    evaluations: full trainings.
    epochs_per_evaluation: the epochs of a full training: the full fidelity.
    seconds: limit on training plus suggestion time, or None; a run ends at whichever limit comes first.
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

    def format_cost(self, epochs: int) -> str:
        """A number of epochs as text: "24 epochs", or "24 evaluations" where an evaluation has one epoch."""
        unit = "evaluation" if self.epochs_per_evaluation == 1 else "epoch"
        return f"{epochs} {unit}{'' if epochs == 1 else 's'}"


class PlannedRun(NamedTuple):
    """A run of the experiment, whether or not one of its trials has ended."""

    run: str
    optimizer: str
    repeat: int


def read_trials(path: Path) -> pd.DataFrame:
    """The typed table of a trials.csv. A file without rows gives a table without rows.

    Raises ReportError, with file and column, for a missing column or a value that does not parse.
    """
    try:
        # Read everything as text: pandas would turn an operation named "None" into a missing value.
        raw = pd.read_csv(path, dtype=object, keep_default_na=False, encoding="utf-8")
    except pd.errors.EmptyDataError:
        return typed_trials(pd.DataFrame(), str(path))
    except (OSError, UnicodeDecodeError, pd.errors.ParserError) as error:
        raise ReportError(f"cannot read the trials of {path}: {error}; is it a run directory's trials.csv?") from error
    for name in variable_columns(raw):
        raw[name] = _infer_type(raw[name])
    return typed_trials(raw, str(path))


def typed_trials(table: pd.DataFrame, source: str) -> pd.DataFrame:
    """The table with every fixed column typed and checked. Variables are unchanged.

    source: the name of the table in error messages. Raises ReportError as `read_trials`.
    """
    if table.columns.empty:
        table = pd.DataFrame(columns=list(COLUMNS))
    missing = [name for name in COLUMNS if name not in table]
    if missing:
        raise ReportError(f"{source}: column {missing[0]!r} is missing; a table of trials has {', '.join(COLUMNS)}")
    defaults = {name: value for name, value in OPTIONAL_COLUMNS.items() if name not in table}
    typed = table.reset_index(drop=True).assign(**defaults)
    floats = (*_FLOAT_COLUMNS, LOST_SECONDS, *filter(_NUMBERED.fullmatch, map(str, typed.columns)))
    texts = (*_TEXT_COLUMNS, SOURCE, *EXECUTION_COLUMNS, FALLBACK_COLUMN)
    dtypes: dict[str, Any] = {
        **dict.fromkeys(texts, "object"),
        **dict.fromkeys(_INTEGER_COLUMNS, "Int64"),
        **dict.fromkeys(floats, "float64"),
        **dict.fromkeys(("diverged", EXTRAPOLATED), "bool"),
        **dict.fromkeys(_TIME_COLUMNS, "datetime64[ns, UTC]"),
    }
    for name, dtype in dtypes.items():
        try:
            typed[name] = _convert(typed[name], dtype)
        except (ValueError, TypeError, OverflowError) as error:
            raise ReportError(f"{source}: column {name!r} does not parse: {error}") from error
    _check_values(typed, source)
    if not (typed["epochs"] % 1).any():
        typed["epochs"] = typed["epochs"].astype("Int64")
    return typed


def variable_columns(table: pd.DataFrame) -> list[str]:
    """The columns that are variables of the space: all but the fixed and the numbered ones."""
    return [str(name) for name in table.columns if not is_column(str(name))]


def configuration_of(row: "pd.Series[Any]", variables: list[str]) -> dict[str, Any]:
    """The configuration of one row, as plain Python values."""
    values = {name: row[name] for name in variables}
    return {name: value.item() if hasattr(value, "item") else value for name, value in values.items()}


def is_column(name: str) -> bool:
    """Whether a name is reserved for a fixed column. Variables must have other names."""
    return name in COLUMNS or name in OPTIONAL_COLUMNS or _NUMBERED.fullmatch(name) is not None


def _check_values(table: pd.DataFrame, source: str) -> None:
    for name in NEVER_EMPTY:
        empty = table[name].isna() | (table[name].astype(object) == "")
        if empty.any():
            raise ReportError(f"{source}: column {name!r} is empty in row {table.index[empty][0]}; every trial has one")
    for name, allowed in (("status", STATUSES), ("origin", ORIGINS), (FALLBACK_COLUMN, FALLBACKS)):
        wrong = sorted(set(table[name]) - set(allowed))
        if wrong:
            raise ReportError(
                f"{source}: column {name!r} holds {wrong[0]!r}; allowed are {', '.join(filter(None, allowed))}"
            )
    if len(costs := table.loc[~table["epochs"].between(0, float("inf"), inclusive="neither"), "epochs"]):
        raise ReportError(f"{source}: column 'epochs' holds {costs.iloc[0]:g}; allowed are finite numbers above 0")
    repeated = table[table.duplicated(["optimizer", "repeat", "trial", "attempt"])]
    if len(repeated):
        run, trial = repeated["run"].iloc[0], repeated["trial"].iloc[0]
        raise ReportError(
            f"{source}: trial {trial} of run {run!r} appears twice; run directories with the same optimizer and repeat "
            f"cannot be combined in one report: leave one out"
        )


def _infer_type(column: "pd.Series[Any]") -> "pd.Series[Any]":
    """A variable's column of text as integers, floats, booleans or text, whichever fits all values and loses none."""
    for dtype in ("int64", "float64"):
        with suppress(ValueError, OverflowError):
            numbers = column.astype(dtype)
            loses = numbers.nunique() < column.nunique() if dtype == "int64" else numbers.isna().any()
            return column if loses else numbers  # "8" is not "08", and "nan" may be a text
    return column == "True" if set(column) <= {"True", "False"} else column


def _convert(column: "pd.Series[Any]", dtype: Any) -> "pd.Series[Any]":
    """A fixed column converted; missing values and "" are "", False or missing. Raises if a value does not parse."""
    values = column.astype(object).where(column.notna() & (column.astype(object) != ""), None)
    if dtype == "object":
        return values.fillna("").astype(str).astype(object)
    if dtype == "bool":
        if not set(values.dropna().astype(str)) <= {"True", "False"}:
            raise ValueError(f"it holds {sorted(set(map(str, values)))}; allowed are True and False")
        return values.astype(str) == "True"
    if dtype in ("Int64", "float64"):
        return values.astype("float64").astype(dtype)
    return pd.to_datetime(values, utc=True, format="ISO8601").astype(dtype)
