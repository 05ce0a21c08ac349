"""What a run directory keeps of a problem and of optimizers that are not in the registry: all that reading it needs.

A report, a notebook, `sync` and a warm start ask for variables, names and settings, and evaluate nothing. problem.json
has these, so the directory can be read wherever it is, and reading runs none of the code that its configuration names.
To go on takes that code: of a function that was handed over in Python, which stands in no file, whoever wants to
evaluate is told how to bring it.
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
from fmnas.platform.experiment.configuration import names_of
from fmnas.platform.experiment.experiment import NotAsked
from fmnas.platform.experiment.journal import Record, stages
from fmnas.platform.experiment.run_directory import RunDirectory, write_json
from fmnas.platform.problems import display_name, find_problem, is_user_defined
from fmnas.platform.registry import (
    IN_MEMORY,
    OptimizerEntry,
    absolute_reference,
    is_registered,
    replace_references,
    split_reference,
)
from fmnas.search_spaces import FmnasError, Space
from fmnas.trainers.problem import ConfigurableProblem, Problem

KEPT = (
    *("penalty", "epochs", "log_objective", "minimum", "dataset", "seeds", "objective", "has_authors_points"),
    "description",
)
"""Of a problem, in addition to its space."""
SETTABLE = ("data", "checkpoints", "flops_weight")
"""Of a problem of which a configuration may set something."""


class KeptOptimizer(NotAsked):
    """Stands for an optimizer of a user's own; `_stand_in` adds what is known of it.

    caveats: all its settings, and what a reader must know of it with them.
    """

    caveats: ClassVar[Sequence[tuple[Mapping[str, Any], str]]] = ()

    def __init__(self, space: Space, **given: Any) -> None:
        super().__init__(space)

    @classmethod
    def caveat(cls, options: Mapping[str, Any]) -> str:
        """As recorded."""
        return next((text for settings, text in cls.caveats if settings == options), "")


def keep_own(config: Config, task: Problem, directory: RunDirectory, anew: bool = True) -> None:
    """Write problem.json where the configuration names a problem or optimizers that are not in the registry.

    task: the problem, with the settings of the configuration. anew: whether to write it where it is whole already.
    """
    names = names_of(config.model_dump(mode="json"))
    if not names or (not anew and set(names) <= set(_read(directory))):
        return
    kept: dict[str, Any] = {"problem": config.problem}
    if is_user_defined(config.problem):
        row = find_problem(config.problem)
        assert row is not None, "it has a row: it is no name of the registry"
        settable = row.target if isinstance(row.target, ConfigurableProblem) else None
        kept |= {"name": display_name(config.problem), "space": task.space.to_dict()}
        kept |= {key: _plain(getattr(task, key)) for key in KEPT}
        kept |= {} if settable is None else {"settable": {key: getattr(settable, key) for key in SETTABLE}}
    optimizers: dict[str, Any] = {}
    for entry in config.optimizers:
        if entry.use is not None:
            told = [entry.settings, entry.implementation.optimizer.caveat(entry.settings)]
            optimizers.setdefault(entry.use, {**_facts(entry.implementation), "settings": []})["settings"].append(told)
    write_json(directory.problem, {**kept, "optimizers": optimizers})


def kept_space(directory: RunDirectory) -> Space | None:
    """The space of a problem that was handed over; None where there was none. Raises RunDirectoryError."""
    tasks = [thing for name, thing in _read(directory).items() if split_reference(name)[0] == IN_MEMORY]
    return tasks[0].space if tasks else None


@contextmanager
def standing_in(directory: RunDirectory) -> Iterator[None]:
    """While in the block, a directory's problem that was handed over can be named, unless it is given here again.

    Raises RunDirectoryError for a problem.json that cannot be read.
    """
    handed = {name: thing for name, thing in _read(directory).items() if split_reference(name)[0] == IN_MEMORY}
    with replace_references({name: thing for name, thing in handed.items() if not is_registered(name)}):
        yield


@contextmanager
def reading(directory: RunDirectory, records: Sequence[Record]) -> Iterator[None]:
    """While in the block, what is kept stands for the problem and the optimizers, and none of their code is imported.

    records: of the journal, from its first. Raises RunDirectoryError for a problem.json that cannot be read, or lacks
    something that the journal names.
    """
    kept = _read(directory)
    lacking = [name for record in stages(records) for name in names_of(record["config"]) if name not in kept]
    if lacking:
        handed = any(split_reference(name)[0] == IN_MEMORY for name in kept)
        again = (
            "minimize, called again with the same arguments," if handed else f"`fmnas {directory.command('resume')}`"
        )
        raise RunDirectoryError(
            f"{directory.root} does not hold what reading it needs of {', '.join(dict.fromkeys(lacking))}: an older "
            f"fmnas has written it. {again} writes that into {directory.problem.name}. It imports the code that is "
            "named, so do it only where you trust that"
        )
    with replace_references(
        {**kept, **{absolute_reference(name): thing for name, thing in kept.items()}}, imports=False
    ):
        yield


def _facts(row: OptimizerEntry) -> dict[str, Any]:
    """What a reader asks of an optimizer."""
    takes = {"initial_design": row.takes_initial_design, "evaluations": row.takes_budget}
    options = get_options(row.optimizer).items()
    defaults = {name: option.default for name, option in options if option.default is not Parameter.empty}
    return {
        "chooses": row.optimizer.chooses,
        "takes": [name for name, taken in takes.items() if taken],
        "options": [name for name, _ in options],
        "defaults": defaults,
    }


def _plain(value: Any) -> Any:
    """A number of numpy's as Python's own."""
    return value.item() if isinstance(value, np.generic) else value


def _read(directory: RunDirectory) -> dict[str, Any]:
    """Name -> what stands in for it while the directory is read; nothing without a file."""
    try:
        kept = json.loads(directory.problem.read_text(encoding="utf-8"))
        name = str(kept["problem"] if "problem" in kept else f"{IN_MEMORY}:{kept['name']}")
        things = {str(use): _stand_in(str(use), facts) for use, facts in kept.get("optimizers", {}).items()}
        return {**things, **({name: _task(name, kept)} if is_user_defined(name) else {})}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, LookupError, TypeError, AttributeError, FmnasError) as error:
        raise RunDirectoryError(
            f"{directory.problem} cannot be read ({legible(str(error))}): put it back as it was; it holds the space "
            "that the trials are of"
        ) from None


def _task(name: str, kept: Mapping[str, Any]) -> Problem | ConfigurableProblem:
    def build(data: object, hardware: object) -> Never:
        raise RunDirectoryError(f"the function {display_name(name)} is not here, only what it was asked over")

    task = Problem(Space.from_dict(kept["space"]), build, **{key: kept[key] for key in KEPT if key in kept})
    if "settable" not in kept:
        return task
    return ConfigurableProblem(lambda _: task, **{key: kept["settable"][key] for key in SETTABLE})


def _stand_in(use: str, facts: Mapping[str, Any]) -> type[Optimizer]:
    """A class with the options that an optimizer had; one whose values were floats takes a whole number as a float."""
    caveats = [(dict(settings), str(text)) for settings, text in facts["settings"]]

    def parameter(name: str) -> Parameter:
        kinds = {type(settings[name]) for settings, _ in caveats}
        annotation = float | None if float in kinds and kinds <= {float, type(None)} else Any
        default = facts["defaults"].get(name, Parameter.empty)
        return Parameter(name, Parameter.KEYWORD_ONLY, default=default, annotation=annotation)

    provided = [Parameter(name, Parameter.KEYWORD_ONLY, default=()) for name in facts["takes"]]
    parameters = [*provided, *map(parameter, facts["options"])]
    title = split_reference(use)[1] or "Optimizer"
    return subclass_with_parameters(KeptOptimizer, title, parameters, caveats=caveats, chooses=str(facts["chooses"]))
