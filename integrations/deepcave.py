"""Trials of fmnas as runs in DeepCAVE's own format, a folder per optimizer and repeat.

| file | what it holds |
|---|---|
| configspace.json | the space, as ConfigSpace writes it |
| configs.json, origins.json | configuration id -> its values; its origin in fmnas |
| history.jsonl | a row per trial: configuration id, budget, seed, costs, start, end, status, more |
| meta.json | the objectives with their bounds, the budgets and the seeds |

The costs are the objective and the training time in seconds, the budget is the number of epochs. The seed is always -1:
DeepCAVE takes several seeds as repetitions of all configurations. A configuration that was evaluated twice at the same
budget has the row of its last evaluation, as DeepCAVE itself keeps it. Rows have the eight entries that all versions up
to 1.4.1 read; 1.4, which has a ninth for the CPU time, takes their start for that, their end for the start, and 0 for
the end. The format was taken from DeepCAVE 1.3.4 and 1.4. Constraints are not written.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fmnas.integrations.exported import EndedTrial, ExportedExperiment, ExportedRun, ExportError, describe_trial
from fmnas.search_spaces import Integer, Ordinal, Real, Space
from fmnas.search_spaces.files import write_aside
from fmnas.search_spaces.records import FINISHED, LOST, TIMED_OUT

SUCCESS, TIMEOUT, CRASHED, ABORTED = 1, 2, 4, 5
STATUS = {FINISHED: SUCCESS, TIMED_OUT: TIMEOUT, LOST: ABORTED}
"""Status -> DeepCAVE's number of it; all others crashed."""
SEED = -1


def export_runs(experiment: ExportedExperiment, folder: Path) -> Iterator[tuple[str, int]]:
    """Write a run for each run with a finished trial, to FOLDER/OPTIMIZER-repeat-N.

    The iterator writes them; it yields the folder and the number of rows of each. Raises ExportError at once if FOLDER
    is not empty, and for a space that ConfigSpace refuses; later if FOLDER cannot be written.
    """
    try:
        if folder.exists() and any(folder.iterdir()):
            raise ExportError(f"{folder} is not empty: choose another folder")
        space = configuration_space(experiment.space)
    except ValueError as error:  # e.g. of values that Python takes for equal, as 1 and true
        raise ExportError(f"ConfigSpace refuses the space: {error}") from None
    except OSError as error:
        raise ExportError(f"{folder} cannot be read ({error.strerror}): choose another folder") from error
    return _write_runs(experiment, folder, space)


def _write_runs(experiment: ExportedExperiment, folder: Path, space: Any) -> Iterator[tuple[str, int]]:
    try:
        for run in experiment.runs:
            if any(ended.evaluation for ended in run.trials):
                place = folder / f"{run.optimizer}-repeat-{run.repeat}"
                files = run_files(experiment, run, list(space))
                for name, text in files.items():
                    write_aside(place / name, text.encode(), durable=False)
                space.to_json(place / "configspace.json")
                yield str(place), files["history.jsonl"].count("\n")
    except OSError as error:
        raise ExportError(f"{folder} cannot be written ({error.strerror}): choose another folder") from error


def configuration_space(space: Space) -> Any:
    """A ConfigSpace.ConfigurationSpace whose values are those of configurations."""
    import ConfigSpace

    converted = ConfigSpace.ConfigurationSpace()
    for v in space.variables:
        if isinstance(v, Real):
            converted.add(ConfigSpace.UniformFloatHyperparameter(v.name, v.low, v.high, log=v.log))
        elif isinstance(v, Integer):
            converted.add(ConfigSpace.UniformIntegerHyperparameter(v.name, v.low, v.high))
        elif isinstance(v, Ordinal):
            converted.add(ConfigSpace.OrdinalHyperparameter(v.name, v.vertices))
        else:
            converted.add(ConfigSpace.CategoricalHyperparameter(v.name, v.vertices))
    return converted


def run_files(experiment: ExportedExperiment, run: ExportedRun, names: Sequence[str]) -> dict[str, str]:
    """Name -> text of the files of a run, without its space. Times are from the start of its first trial.

    names: the variables in ConfigSpace's order. DeepCAVE finds no configuration whose values are in another one.
    """
    begun = min(ended.started_at for ended in run.trials)
    configs: dict[str, int] = {}
    origins: dict[int, str] = {}
    rows: dict[tuple[int, int], list[Any]] = {}
    for ended in run.trials:
        values = json.dumps({name: ended.trial.configuration[name] for name in names})
        number = configs.setdefault(values, len(configs))
        origins.setdefault(number, ended.trial.origin)
        key = number, ended.trial.epochs
        if ended.evaluation or key not in rows:  # the last evaluation counts, also if a later trial failed
            rows[key] = _row(number, ended, begun)
    costs = [row[3] for row in rows.values() if row[3][0] is not None]
    meta = {
        "objectives": [
            _objective("objective", [cost for cost, _ in costs]),
            {**_objective("time", [seconds for _, seconds in costs]), "lower": 0.0, "lock_lower": True},
        ],
        "budgets": sorted({row[1] for row in rows.values()}),
        "seeds": [SEED],
        **experiment.facts,
        "optimizer": run.optimizer,
        "repeat": run.repeat,
    }
    return {
        "configs.json": json.dumps({str(number): json.loads(values) for values, number in configs.items()}, indent=4),
        "origins.json": json.dumps({str(number): origin for number, origin in origins.items()}, indent=4),
        "meta.json": json.dumps(meta, indent=4),
        "history.jsonl": "".join(f"{json.dumps(row)}\n" for row in rows.values()),
    }


def _row(number: int, ended: EndedTrial, begun: float) -> list[Any]:
    times = [round(at - begun, 2) for at in (ended.started_at, ended.finished_at)]
    costs = [ended.evaluation.objective, ended.charged_seconds] if ended.evaluation else [None, None]
    more = describe_trial(ended)
    return [number, float(ended.trial.epochs), SEED, costs, *times, STATUS.get(ended.status, CRASHED), more]


def _objective(name: str, values: list[float]) -> Mapping[str, Any]:
    bounds = {"lower": min(values), "upper": max(values), "lock_lower": False, "lock_upper": False}
    return {"name": name, **bounds, "optimize": "lower"}
