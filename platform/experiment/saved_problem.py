"""problem.json: what reading a run directory needs of problems and optimizers that are not in the registry.

Reports, notebooks, `sync` and warm starts need variables, names and settings, and evaluate nothing. With this file a
directory can be read anywhere, and reading runs no user code. Resuming needs the code itself; for a function that was
passed to `minimize`, that means calling `minimize` again.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from inspect import Parameter
from typing import Any, ClassVar, Never

import numpy as np

from fmnas.optimizers import Optimizer
from fmnas.optimizers.options import get_options, subclass_with_parameters
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import RunDirectoryError, legible
from fmnas.platform.experiment.configuration import config_events, user_references
from fmnas.platform.experiment.events import Event
from fmnas.platform.experiment.experiment import PlaceholderOptimizer
from fmnas.platform.experiment.run_directory import RunDirectory, write_json
from fmnas.platform.problems import display_name, find_problem, is_user_defined
from fmnas.platform.registry import IN_MEMORY, absolute_reference, is_registered, replace_references, split_reference
from fmnas.search_spaces import FmnasError, Space
from fmnas.trainers.problem import ConfigurableProblem, Problem

SAVED_FIELDS = (
    *("penalty", "epochs", "log_objective", "minimum", "dataset", "seeds", "objective", "has_authors_points"),
    "description",
)
"""Attributes of a problem that are saved, besides its space."""
CONFIGURABLE_FIELDS = ("data", "checkpoints", "flops_weight")


class SavedOptimizer(PlaceholderOptimizer):
    """Takes the place of a user-defined optimizer. caveats: (options, text) for each of its entries."""

    caveats: ClassVar[Sequence[tuple[Mapping[str, Any], str]]] = ()

    def __init__(self, space: Space, **options: Any) -> None:
        super().__init__(space)

    @classmethod
    def caveat(cls, options: Mapping[str, Any]) -> str:
        """Return the saved text for these options."""
        return next((text for settings, text in cls.caveats if settings == options), "")


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
        data |= {key: _to_builtin(getattr(task, key)) for key in SAVED_FIELDS}
        if isinstance(row.target, ConfigurableProblem):
            data["settable"] = {key: getattr(row.target, key) for key in CONFIGURABLE_FIELDS}
    optimizers: dict[str, Any] = {}
    for entry in config.optimizers:
        if entry.use is not None:
            saved = optimizers.setdefault(entry.use, {**_describe_optimizer(entry.implementation), "settings": []})
            saved["settings"].append([entry.settings, entry.implementation.optimizer.caveat(entry.settings)])
    write_json(directory.problem, {**data, "optimizers": optimizers})


def load_space(directory: RunDirectory) -> Space | None:
    """Return the space of a problem that was passed to `minimize`; None otherwise. Raises RunDirectoryError."""
    tasks = [thing for name, thing in _load(directory).items() if split_reference(name)[0] == IN_MEMORY]
    return tasks[0].space if tasks else None


@contextmanager
def placeholder_problem(directory: RunDirectory) -> Iterator[None]:
    """Within the context, a problem that was passed to `minimize` can be named, unless it is registered here again.

    Raises RunDirectoryError if problem.json cannot be read.
    """
    saved = _load(directory).items()
    with replace_references(
        {name: thing for name, thing in saved if split_reference(name)[0] == IN_MEMORY and not is_registered(name)}
    ):
        yield


@contextmanager
def placeholders(directory: RunDirectory, events: Sequence[Event]) -> Iterator[None]:
    """Within the context, placeholders replace user-defined problems and optimizers: no user code is imported.

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
    with replace_references(
        {**saved, **{absolute_reference(name): thing for name, thing in saved.items()}}, imports=False
    ):
        yield


def _describe_optimizer(row: Any) -> dict[str, Any]:
    parameters = {"initial_design": row.takes_initial_design, "evaluations": row.takes_budget}
    options = get_options(row.optimizer).items()
    return {
        "chooses": row.optimizer.chooses,
        "takes": [name for name, is_taken in parameters.items() if is_taken],
        "options": [name for name, _ in options],
        "defaults": {name: option.default for name, option in options if option.default is not Parameter.empty},
    }


def _to_builtin(value: Any) -> Any:
    return value.item() if isinstance(value, np.generic) else value


def _load(directory: RunDirectory) -> dict[str, Any]:
    """Return import reference -> placeholder; empty if there is no problem.json."""
    try:
        saved = json.loads(directory.problem.read_text(encoding="utf-8"))
        name = str(saved["problem"])
        things = {str(use): _load_optimizer(str(use), data) for use, data in saved["optimizers"].items()}
        return {**things, **({name: _load_problem(name, saved)} if is_user_defined(name) else {})}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, FmnasError) as error:
        raise RunDirectoryError(
            f"{directory.problem} cannot be read ({legible(str(error))}): restore it; it has the space of the trials"
        ) from None


def _load_problem(name: str, saved: Mapping[str, Any]) -> Problem | ConfigurableProblem:
    def build(data: object, hardware: object) -> Never:
        raise RunDirectoryError(f"{display_name(name)}: the function is not saved: call minimize(..., out=DIR) with it")

    task = Problem(Space.from_dict(saved["space"]), build, **{key: saved[key] for key in SAVED_FIELDS if key in saved})
    if "settable" not in saved:
        return task
    return ConfigurableProblem(lambda _: task, **{key: saved["settable"][key] for key in CONFIGURABLE_FIELDS})


def _load_optimizer(use: str, saved: Mapping[str, Any]) -> type[Optimizer]:
    """Return a class that takes the options that the optimizer had; an option that was a float takes an int, too."""
    caveats = [(dict(settings), str(text)) for settings, text in saved["settings"]]

    def parameter(name: str) -> Parameter:
        types = {type(settings[name]) for settings, _ in caveats}
        annotation = float | None if float in types and types <= {float, type(None)} else Any
        default = saved["defaults"].get(name, Parameter.empty)
        return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    provided = [Parameter(name, Parameter.KEYWORD_ONLY, default=()) for name in saved["takes"]]
    parameters = [*provided, *map(parameter, saved["options"])]
    title = split_reference(use)[1] or "Optimizer"
    return subclass_with_parameters(SavedOptimizer, title, parameters, caveats=caveats, chooses=str(saved["chooses"]))
