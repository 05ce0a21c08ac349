"""Trials of fmnas as studies in a storage of Optuna, for optuna-dashboard and Optuna's importance evaluators.

A study is one optimizer and repeat, named EXPERIMENT/OPTIMIZER/repeat-N, and minimises. A trial has its parameters and
their distributions, its times, and as user attributes what `describe_trial` returns.

| trial of fmnas | trial of Optuna |
|---|---|
| finished, full fidelity | COMPLETE, its value the objective |
| finished, a short training | PRUNED, its value the objective |
| failed, timed out, lost | FAIL, without a value |

The objective is also the intermediate value at the number of epochs. Reals and integers keep their ranges and scales.
The values of all other variables are categories, which have no order. Constraints are in the study's attributes only.
It needs optuna: pip install 'fmnas[optuna]'.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from typing import Any

from fmnas.integrations.exported import EndedTrial, ExportedExperiment, ExportedRun, ExportError, describe_trial
from fmnas.search_spaces import Integer, Real, Space
from fmnas.search_spaces.errors import optional_module
from fmnas.search_spaces.records import is_full
from fmnas.search_spaces.variables import Value, Variable


def export_studies(experiment: ExportedExperiment, url: str) -> Iterator[tuple[str, int]]:
    """Write a study for each run, yielding its name and the number of its trials as each is written.

    url: of the storage, e.g. sqlite:///studies.db. Raises ExportError without Optuna, for a storage that cannot be
    used, and if it has one of the studies, before any is written.
    """
    optuna = optional_module("optuna", "this export", ExportError)
    names = {f"{experiment.name}/{run.optimizer}/repeat-{run.repeat}": run for run in experiment.runs}
    with _quiet(optuna):
        try:
            storage = optuna.storages.RDBStorage(url)
            present = {study.study_name for study in storage.get_all_studies()}
            if existing := [name for name in names if name in present]:
                raise ExportError(f"{url} has the study {existing[0]}: delete it, or choose another storage")
            for name, run in names.items():
                _write_study(optuna.create_study(storage=storage, study_name=name), run, experiment)
                yield name, len(run.trials)
        except ExportError:
            raise
        except Exception as error:  # of SQLAlchemy, of the driver of a database, or of Optuna
            first = (str(error).splitlines() or [""])[0]
            raise ExportError(
                f"{url}: Optuna cannot write to it ({type(error).__name__}: {first}): give the URL of a storage, e.g. "
                "sqlite:///studies.db, in a folder that you can write to"
            ) from error


def export_distributions(space: Space) -> dict[str, Any]:
    """Optuna's distributions by variable name, whose values are those of configurations."""
    return {variable.name: _distribution(variable) for variable in space.variables}


def _write_study(study: Any, run: ExportedRun, experiment: ExportedExperiment) -> None:
    facts = {**experiment.facts, "optimizer": run.optimizer, "repeat": run.repeat, "epochs": experiment.epochs}
    facts |= {"constraints": [str(constraint) for constraint in experiment.space.constraints]}
    for key, value in facts.items():
        study.set_user_attr(key, value)
    distributions = export_distributions(experiment.space)
    study.add_trials([_frozen_trial(ended, experiment, distributions) for ended in run.trials])


def _frozen_trial(ended: EndedTrial, experiment: ExportedExperiment, distributions: dict[str, Any]) -> Any:
    from optuna.trial import FrozenTrial, TrialState

    trial, objective = ended.trial, ended.evaluation and ended.evaluation.objective
    state = TrialState.COMPLETE if is_full(ended.epochs, experiment.epochs) else TrialState.PRUNED
    return FrozenTrial(
        number=-1,  # this and trial_id: the storage gives them
        trial_id=-1,
        state=TrialState.FAIL if objective is None else state,
        value=objective,
        datetime_start=datetime.fromtimestamp(ended.started_at),
        datetime_complete=datetime.fromtimestamp(ended.finished_at),
        params={v.name: _category(v, trial.configuration[v.name]) for v in experiment.space.variables},
        distributions=distributions,
        user_attrs=describe_trial(ended),
        system_attrs={},
        intermediate_values={} if objective is None else {trial.epochs: objective},
    )


def _distribution(variable: Variable) -> Any:
    from optuna import distributions

    if isinstance(variable, Real):
        return distributions.FloatDistribution(variable.low, variable.high, log=variable.log)
    if isinstance(variable, Integer):
        return distributions.IntDistribution(variable.low, variable.high)
    return distributions.CategoricalDistribution([_category(variable, value) for value in variable.vertices])


def _category(variable: Variable, value: Value) -> Value:
    """The value; as JSON if it equals another value of the variable in Python, as 1 equals true."""
    if isinstance(variable, Real | Integer) or len({*variable.vertices}) == len(variable.vertices):
        return value
    return json.dumps(value)


@contextmanager
def _quiet(optuna: Any) -> Iterator[None]:
    """Without Optuna's line for each study."""
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    try:
        yield
    finally:
        optuna.logging.set_verbosity(before)
