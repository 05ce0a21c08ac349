"""The user-defined problem of a configuration: its import reference, and the defaults that follow from it.

    problem: ./tune_me.py:svm      a name in a file of the current folder, or beside the configuration
    problem: ./tune_me.py          the only problem in the file
    problem: my_module:svm         a name in a module, which each node must have

The path is made absolute, so that the experiment can be resumed from any folder. `fidelity` and `seeds` may be left
out: the problem has its own. `fidelity` may also be left out for a problem of the registry that has no epochs.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from fmnas.platform.config.errors import format_value
from fmnas.platform.config.schema import expand_entry
from fmnas.platform.errors import ConfigError
from fmnas.platform.problems import OBJECTIVE_HINT, ProblemEntry, find_problem, is_user_defined
from fmnas.platform.references import absolute_reference, find_names, find_plugins, resolve_beside, split_reference
from fmnas.search_spaces import FmnasError
from fmnas.trainers.problem import ConfigurableProblem, Problem


def fill_problem_defaults(data: Mapping[str, Any]) -> dict[str, Any]:
    """A configuration's plain data with the absolute reference of its problem, and the problem's own defaults.

    A name of another distribution's entry point becomes its reference. Raises ConfigError, naming the key, for a
    problem that cannot be used.
    """
    name = data.get("problem")
    if not isinstance(name, str):
        return {"fidelity": {"epochs": 1}, **data}  # the right name may need none
    if find_problem(name) is None:
        name = find_plugins("fmnas.problems").get(name, name)
    try:
        entry = find_entry(name)
        if entry is None or not (is_user_defined(name) or entry.is_recorded):
            has_epochs = entry is not None and not entry.takes_milliseconds and entry.problem().epochs > 1
            return dict(data) if has_epochs else {"fidelity": {"epochs": 1}, **data}
        from fmnas.comparison.analysis.trials import is_column

        task = entry.problem()
        if taken := next(filter(is_column, task.space.names), None):
            raise ConfigError(f"variable {taken!r} has the name of a column of trials.csv: rename it, e.g. to {taken}_")
    except FmnasError as error:
        raise ConfigError(f"problem = {format_value(name)}: {error}") from None
    defaults: dict[str, Any] = {"fidelity": {"epochs": task.epochs}}
    if isinstance(entry.target, Problem):  # it averages in its own way
        seeds = defaults["seeds"] = max(1, task.seeds)
        if data.get("seeds", seeds) != seeds:
            raise ConfigError(
                f"seeds = {format_value(data['seeds'])}: must be {seeds}, as the problem has it; average in the "
                "function, or leave seeds out"
            )
    return {**defaults, **data, "problem": entry.name}


def resolve_files_beside(data: dict[str, Any], folder: Path) -> None:
    """Resolve the files that a configuration names: those that the current folder lacks are taken from its folder."""
    entries = data["optimizers"] if isinstance(data.get("optimizers"), list) else []
    entries[:] = map(expand_entry, entries)
    for place, key in (data, "problem"), *((entry, "use") for entry in entries):
        if isinstance(place, dict) and isinstance(place.get(key), str):
            place[key] = resolve_beside(place[key], folder)


def find_entry(name: str) -> ProblemEntry | None:
    """The entry of the problem that a configuration names; None for an unknown name.

    Raises ConfigError for a reference to a file without exactly one problem.
    """
    if not is_user_defined(name):
        return find_problem(name)
    use = absolute_reference(name)
    module, inside = split_reference(use)
    if not inside:
        names = find_names(module, Problem | ConfigurableProblem)
        if not names:
            raise ConfigError(f"{module} has no problem: {OBJECTIVE_HINT}")
        if len(names) > 1:
            raise ConfigError(f"{module} has the problems {', '.join(names)}: name one, e.g. {module}:{names[0]}")
        use = f"{module}:{names[0]}"
    return ProblemEntry(use, use, "")
