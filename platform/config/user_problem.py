"""A problem that a user brings, in a configuration: which it is, what may be left out, and what is refused.

    problem: ./tune_me.py:svm      a name in a file, of the current folder or beside the configuration; its path
                                   is made whole, so that it can be resumed from any folder
    problem: ./tune_me.py          the one problem in it
    problem: my_module:svm         of a module, which each node must have

What may be left out: `fidelity`, as the problem has its own epochs, and `seeds`. `fidelity` may also be left out for a
problem of the registry that has no epochs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fmnas.platform.config.errors import shown
from fmnas.platform.errors import ConfigError
from fmnas.platform.named import found_beside, parted, those_in, whole
from fmnas.platform.problems import HOW, Row, is_own, row_of
from fmnas.search_spaces import FmnasError
from fmnas.trainers.problem import ConfigurableProblem, Problem, ProblemSettings


def completed(data: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration's plain data with the whole name of its own problem, and what its problem has in place of what is
    left out.

    Raises ConfigError, naming the key, for a problem that cannot be used.
    """
    name = data.get("problem")
    if not isinstance(name, str):
        return dict(data)
    if not is_own(name):
        return dict(data) if "fidelity" in data or _has_epochs(row_of(name)) else {**data, "fidelity": {"epochs": 1}}
    try:
        row = problem_row(name)
        assert row is not None, "a problem that a user brings has a row"
        task = row.problem(ProblemSettings())
        _check_names(task)
    except FmnasError as error:
        raise ConfigError(f"problem = {shown(name)}: {error}") from None
    left_out: dict[str, Any] = {"fidelity": {"epochs": task.epochs}}
    if isinstance(row.found, Problem):  # nobody can tell it how many seeds to average
        seeds = left_out["seeds"] = max(1, task.seeds)
        if data.get("seeds", seeds) != seeds:
            raise ConfigError(
                f"seeds = {shown(data['seeds'])}: it must be {seeds}, as the problem has it; average in the function, "
                "or leave seeds out"
            )
    return {**left_out, **data, "problem": row.name}


def with_files_beside(data: dict[str, Any], folder: Path) -> None:
    """Let the files that a configuration of this folder names be those beside it, where the current folder has none."""
    entries = data.get("optimizers")
    places = [(data, "problem"), *((entry, "use") for entry in (entries if isinstance(entries, list) else ()))]
    for place, key in places:
        if isinstance(place, dict) and isinstance(place.get(key), str):
            place[key] = found_beside(place[key], folder)


def problem_row(name: Any) -> Row | None:
    """Of the problem that a configuration names; None for one that the registry does not have.

    Raises ConfigError for one of a user's that is not there.
    """
    if not isinstance(name, str):
        return None
    return _own_row(whole(name)) if is_own(name) else row_of(name)


def _has_epochs(row: Row | None) -> bool:
    """Whether a problem of the registry has epochs, of which a configuration must say how many make a full training."""
    return row is not None and not row.takes_milliseconds and row.problem(ProblemSettings()).epochs > 1


def _own_row(use: str) -> Row:
    """Of a whole name. Raises ConfigError where nothing is named and there is not exactly one problem."""
    module, name = parted(use)
    if not name:
        found = list(those_in(module, Problem | ConfigurableProblem))
        if not found:
            raise ConfigError(f"{module} holds no problem: {HOW}")
        if len(found) > 1:
            raise ConfigError(f"{module} holds the problems {', '.join(found)}: name one, e.g. {module}:{found[0]}")
        use = f"{module}:{found[0]}"
    return Row(use, use, "")


def _check_names(task: Problem) -> None:
    """Raise ConfigError for a variable that trials.csv could not hold beside its own columns."""
    from fmnas.comparison.analysis.trials import is_column

    for name in task.space.names:
        if is_column(name):
            raise ConfigError(f"its variable {name!r} has the name of a column of trials.csv: call it otherwise, e.g. "
                              f"{name}_")  # fmt: skip
