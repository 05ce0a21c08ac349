"""problem.json: what reading a run directory needs of problems and optimizers that are not in the registry.

Reports, notebooks, `sync` and warm starts need variables, names and settings, and evaluate nothing. With this file a
directory can be read anywhere, and reading runs no user code. Resuming needs the code itself; for a function that was
passed to `minimize`, that means calling `minimize` again.
"""

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from inspect import Parameter, Signature
from typing import Any, Never

from fmnas.optimizers import Optimizer
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import RunDirectoryError, legible
from fmnas.platform.experiment.configuration import config_events, user_references
from fmnas.platform.experiment.events import Event
from fmnas.platform.experiment.run_directory import RunDirectory, write_json
from fmnas.platform.problems import display_name, find_problem, is_user_defined
from fmnas.platform.references import IN_MEMORY, absolute_reference, is_registered, replace_references, split_reference
from fmnas.platform.registry import OptimizerEntry, PlaceholderOptimizer
from fmnas.search_spaces import FmnasError, Space
from fmnas.search_spaces.variables import plain
from fmnas.trainers.problem import ConfigurableProblem, Problem

SAVED_FIELDS = (
    *("penalty", "epochs", "log_objective", "minimum", "dataset", "seeds", "objective", "has_authors_points"),
    *("description", "objectives"),
)
"""Attributes of a problem that are saved, besides its space."""


def save_user_code(config: Config, task: Problem, directory: RunDirectory) -> None:
    """Write problem.json if the configuration names a problem or optimizers that are not in the registry.

    task: the problem, built with the settings of the configuration.
    """
    if not user_references(config.model_dump(mode="json")):
        return
    data: dict[str, Any] = {"problem": config.problem}
    row = find_problem(config.problem)
    if is_user_defined(config.problem) and row is not None:
        data |= {"name": display_name(config.problem), "space": task.space.to_dict()}
        data |= {key: plain(getattr(task, key)) for key in SAVED_FIELDS}
        if isinstance(row.target, ConfigurableProblem):
            data["settable"] = {key: value for key, value in vars(row.target).items() if key != "make"}
    optimizers: dict[str, Any] = {}
    for entry in config.optimizers:
        if entry.use is not None:
            saved = optimizers.setdefault(entry.use, {**_describe_optimizer(entry.implementation), "settings": []})
            saved["settings"].append([entry.settings, entry.implementation.caveat(entry.settings)])
    write_json(directory.problem, {**data, "optimizers": optimizers})


def load_space(directory: RunDirectory) -> Space | None:
    """Return the space of a problem that was passed to `minimize`; None otherwise. Raises RunDirectoryError."""
    return next((task.space for task in _load_in_memory(directory).values()), None)


def placeholder_problem(directory: RunDirectory) -> AbstractContextManager[None]:
    """Return a context in which a problem that was passed to `minimize` can be named, unless it is registered again.

    Raises RunDirectoryError if problem.json cannot be read.
    """
    saved = _load_in_memory(directory)
    return replace_references({name: task for name, task in saved.items() if not is_registered(name)})


def placeholders(directory: RunDirectory, events: Sequence[Event]) -> AbstractContextManager[None]:
    """Return a context in which placeholders replace user-defined problems and optimizers: no user code is imported.

    Raises RunDirectoryError if problem.json cannot be read, or lacks something that the journal names.
    """
    saved = _load(directory)
    names = dict.fromkeys(name for event in config_events(events) for name in user_references(event.config))
    missing = [name for name in names if name not in saved]
    if missing:
        raise RunDirectoryError(
            f"{directory.problem}: {', '.join(missing)} missing: restore the file; or, if you trust the code that "
            f"{directory.root} names, write it again with `fmnas {directory.command('resume')}`"
        )
    absolute = {absolute_reference(name): thing for name, thing in saved.items()}
    return replace_references({**saved, **absolute}, imports=False)


def _describe_optimizer(entry: OptimizerEntry) -> dict[str, Any]:
    taken = {"initial_design": entry.takes_initial_design, "evaluations": entry.takes_budget}
    return {
        "chooses": entry.optimizer.chooses,
        "takes": [name for name, is_taken in taken.items() if is_taken],
        "defaults": entry.validate_options({}),
    }


def _load(directory: RunDirectory) -> dict[str, Any]:
    """Return import reference -> placeholder; empty if there is no problem.json."""
    try:
        saved = json.loads(directory.problem.read_text(encoding="utf-8"))
        name = str(saved["problem"])
        things = {str(use): _load_optimizer(data) for use, data in saved["optimizers"].items()}
        return {**things, **({name: _load_problem(name, saved)} if is_user_defined(name) else {})}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, FmnasError) as error:
        raise RunDirectoryError(
            f"{directory.problem} cannot be read ({legible(str(error))}): restore it; it has the space of the trials"
        ) from None


def _load_in_memory(directory: RunDirectory) -> dict[str, Problem]:
    """Return import reference -> placeholder of the problem that was passed to `minimize`; empty if none was."""
    saved = _load(directory).items()
    return {name: task for name, task in saved if split_reference(name)[0] == IN_MEMORY and isinstance(task, Problem)}


def _load_problem(name: str, saved: Mapping[str, Any]) -> Problem | ConfigurableProblem:
    def build(data: object, hardware: object) -> Never:
        raise RunDirectoryError(f"{display_name(name)}: the function is not saved: call minimize(..., out=DIR) with it")

    task = Problem(Space.from_dict(saved["space"]), build, **{key: saved[key] for key in SAVED_FIELDS if key in saved})
    if "settable" not in saved:
        return task
    return ConfigurableProblem(lambda _: task, **saved["settable"])


def _load_optimizer(saved: Mapping[str, Any]) -> type[Optimizer]:
    """Return a class whose constructor has the parameters and defaults, and which has the caveats, that were saved."""
    caveats = [(dict(settings), str(text)) for settings, text in saved["settings"]]
    defaults = {**dict.fromkeys(saved["takes"], ()), **saved["defaults"]}

    class SavedOptimizer(PlaceholderOptimizer):
        chooses = str(saved["chooses"])

        def __init__(self, space: Space, **options: Any) -> None: ...

        @classmethod
        def caveat(cls, options: Mapping[str, Any]) -> str:
            return next((text for settings, text in caveats if settings == options), "")

    vars(SavedOptimizer.__init__)["__signature__"] = Signature(
        [Parameter(name, Parameter.KEYWORD_ONLY, default=value) for name, value in defaults.items()]
    )
    return SavedOptimizer
