"""The file of recorded results: a .npz of plain arrays, read without pickle and without fmnas by any numpy.

| array | shape, type | meaning |
|---|---|---|
| header | [], text | JSON: format, space, problem, settings, sources (the experiments), conditions |
| variable.NAME | [n] | value of a Real; of any other variable the index of its value among its `vertices` |
| source, run, trial, origin | [n] | index of the experiment in the header; run, trial and its origin there |
| epochs, seed | [n] | of the trial: its fidelity, and the seed of its trainings |
| status, reason | [n], text | finished, failed or timed_out; why it has no evaluation |
| seconds | [n] | what it took |
| objective, flops_ratio | [n] | NaN if unknown |
| flops | [n] | -1 if unknown |
| diverged | [n], bool | |
| errors | [n, S] | error of each seed after the last epoch |
| values | [n, 2] | the objectives of a function that has several; not in every file |
| curve | [n, E] | error after each epoch, averaged over the seeds |
| seed_curves | [n, S, E] | error of each seed after each epoch |
| conditions | [n] | index of the software and hardware in the header, -1 if unknown |

n results, at most S seeds and E epochs; shorter rows end with NaN. A configuration that was evaluated several times has
a result for each; the seeds tell them apart.
"""

import io
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np

from fmnas.search_spaces import Conditions, Configuration, Evaluation, FmnasError, Space, Trial
from fmnas.search_spaces.files import write_aside
from fmnas.search_spaces.records import FINISHED
from fmnas.search_spaces.variables import Real
from fmnas.trainers.contract import DAMAGED, DataError

FORMAT = 1
"""Version of the file's format."""
SERIES = ("errors", "curve", "seed_curves")
VALUES = "values"
COLUMNS = (
    *("source", "run", "trial", "origin", "epochs", "seed", "status", "reason", "seconds"),
    *("objective", "flops", "flops_ratio", "diverged", "conditions"),
)
"""The arrays with a number or a text for each result."""
Arrays = Mapping[str, Any]


@dataclass(frozen=True)
class RecordedResult:
    """How a trial ended. source: index of its experiment. run: of which it is a trial, e.g. "bo-fm/repeat-0".

    status: FINISHED, FAILED or TIMED_OUT. evaluation: None unless finished. seconds: what it took.
    """

    source: int
    run: str
    trial: Trial
    status: str
    seconds: float
    evaluation: Evaluation | None = None
    reason: str = ""


@dataclass(frozen=True)
class TableHeader:
    """What the results have in common.

    problem: its name, and the attributes of a `Problem` that are plain data. settings: what defines its objective.
    sources: of each experiment: its id, name, seed, software, processor, and more.
    """

    space: Space
    problem: Mapping[str, Any]
    settings: Mapping[str, Any]
    sources: Sequence[Mapping[str, Any]]


@dataclass(frozen=True, eq=False)
class RecordedTable:
    """A file of recorded results in memory. place: its path. digest: SHA-256 of the file."""

    header: TableHeader
    conditions: Sequence[Conditions]
    arrays: Arrays
    place: str
    digest: str

    def __len__(self) -> int:
        return len(self.arrays["epochs"])

    @cached_property
    def configurations(self) -> list[Configuration]:
        """The configuration of each result."""
        columns = {}
        for variable in self.header.space.variables:
            values = self.arrays[_column(variable.name)].tolist()
            columns[variable.name] = values if isinstance(variable, Real) else [variable.vertices[i] for i in values]
        return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]

    def result(self, row: int) -> RecordedResult:
        """Return a result, equal to the recorded one but for the trial's parent, note, memo, fallback and race."""
        value = {name: self.arrays[name][row].item() for name in COLUMNS}
        trial = Trial(
            value["trial"], self.configurations[row], value["epochs"], value["origin"], seed=int(value["seed"])
        )
        result = value["source"], value["run"], trial, value["status"], value["seconds"]
        if value["status"] != FINISHED:
            return RecordedResult(*result, reason=value["reason"])
        errors, curve, seed_curves = (_without_nan(self.arrays[name][row]) for name in SERIES)
        evaluation = Evaluation(
            objective=value["objective"],
            epochs=trial.epochs,
            errors=errors,
            flops=None if value["flops"] < 0 else value["flops"],
            flops_ratio=None if np.isnan(value["flops_ratio"]) else value["flops_ratio"],
            curve=curve,
            seconds=value["seconds"],
            diverged=value["diverged"],
            conditions=None if value["conditions"] < 0 else self.conditions[value["conditions"]],
            seed_curves=tuple(seed_curve for seed_curve in seed_curves if seed_curve),
            values=_without_nan(self.arrays[VALUES][row]) if VALUES in self.arrays else (),
        )
        return RecordedResult(*result, evaluation)


def write_table(path: Path, header: TableHeader, results: Sequence[RecordedResult]) -> None:
    """Write results to a file, which is replaced at once. Raises OSError if the disk does not take it."""
    evaluations = [result.evaluation or Evaluation(np.nan) for result in results]
    conditions = list(dict.fromkeys(evaluation.conditions for evaluation in evaluations if evaluation.conditions))
    facts = {
        "format": FORMAT,
        **{name: getattr(header, name) for name in ("problem", "settings", "sources")},
        "space": header.space.to_dict(),
        "conditions": [asdict(condition) for condition in conditions],
    }
    numbers = {condition: i for i, condition in enumerate(conditions)}
    arrays: dict[str, Any] = {
        "header": np.array(json.dumps(facts)),
        **{name: np.array([getattr(result, name) for result in results]) for name in ("source", "run", "status")},
        **{name: np.array([getattr(result.trial, name) for result in results]) for name in ("origin", "epochs")},
        "trial": np.array([result.trial.id for result in results]),
        "seed": np.array([result.trial.seed for result in results], dtype=np.uint64),
        "reason": np.array([result.reason for result in results]),
        "seconds": np.array([result.seconds for result in results], dtype=float),
        "objective": np.array([evaluation.objective for evaluation in evaluations], dtype=float),
        "flops": np.array([-1 if one.flops is None else one.flops for one in evaluations]),
        "flops_ratio": np.array([one.flops_ratio for one in evaluations], dtype=float),  # None becomes NaN
        "diverged": np.array([evaluation.diverged for evaluation in evaluations]),
        "conditions": np.array([-1 if one.conditions is None else numbers[one.conditions] for one in evaluations]),
        **{name: _pad([getattr(evaluation, name) for evaluation in evaluations]) for name in ("errors", "curve")},
        **({VALUES: _pad([one.values for one in evaluations])} if any(one.values for one in evaluations) else {}),
    }
    shape = max(len(one.seed_curves) for one in evaluations), max(len(one.curve) for one in evaluations)
    seeds = [_pad(one.seed_curves or [()], shape) for one in evaluations]
    arrays["seed_curves"] = np.stack(seeds)
    for variable in header.space.variables:
        values = [result.trial.configuration[variable.name] for result in results]
        encoded = values if isinstance(variable, Real) else [variable.index(value) for value in values]
        arrays[_column(variable.name)] = np.array(encoded, dtype=float if isinstance(variable, Real) else int)
    buffer = io.BytesIO()
    np.savez_compressed(buffer, **arrays)
    write_aside(path, buffer.getvalue())


def read_header(path: Path) -> TableHeader:
    """Return what the results of a file have in common. Raises DataError if it cannot be read."""
    with data_errors(path), _load(path.read_bytes()) as file:
        return _parse_header(file)[0]


def read_table(path: Path) -> RecordedTable:
    """Return the results of a file. Raises DataError if it cannot be read."""
    with data_errors(path):
        content = path.read_bytes()
        with _load(content) as file:
            header, conditions = _parse_header(file)
            names = [*COLUMNS, *SERIES, *map(_column, header.space.names)]
            arrays = {name: file[name] for name in (*names, *{VALUES} & {*file})}
        if len(lengths := {len(array) for array in arrays.values()}) > 1:
            raise ValueError(f"arrays of the lengths {sorted(lengths)}")
    return RecordedTable(header, conditions, arrays, str(path), sha256(content).hexdigest())


def _load(content: bytes) -> Any:
    """Return the arrays of a .npz, by name. Raises ValueError if it is not an archive."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        raise ValueError("it is not a .npz file")
    return np.load(io.BytesIO(content), allow_pickle=False)


@contextmanager
def data_errors(path: Path) -> Iterator[None]:
    """Within the context, what is wrong with a file is a DataError."""
    try:
        yield
    except (*DAMAGED, LookupError, TypeError, AttributeError, FmnasError) as error:
        detail = getattr(error, "strerror", None) or " ".join(f"{error}".split()) or type(error).__name__
        raise DataError(
            f"{path} cannot be read as recorded results ({detail}): give a file that `fmnas record` wrote"
        ) from None


def _parse_header(file: Arrays) -> tuple[TableHeader, list[Conditions]]:
    facts = json.loads(str(file["header"]))
    if facts["format"] > FORMAT:
        raise ValueError(f"its format is {facts['format']}, and this version reads formats up to {FORMAT}")
    header = TableHeader(Space.from_dict(facts["space"]), *(facts[key] for key in ("problem", "settings", "sources")))
    return header, [Conditions(**condition) for condition in facts["conditions"]]


def _column(variable: str) -> str:
    return f"variable.{variable}"


def _pad(rows: Sequence[Sequence[float]], shape: tuple[int, int] | None = None) -> Any:
    """Return rows as one array, filled up with NaN. shape: default: as many columns as the longest row."""
    padded = np.full(shape or (len(rows), max(map(len, rows))), np.nan)
    for row, values in zip(padded, rows, strict=False):
        row[: len(values)] = values
    return padded


def _without_nan(values: Any) -> tuple[Any, ...]:
    """Invert `_pad`, for one row of an array of any dimension."""
    if values.ndim > 1:
        return tuple(map(_without_nan, values))
    return tuple(values[~np.isnan(values)].tolist())
