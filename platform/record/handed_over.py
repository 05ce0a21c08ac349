"""A problem that was handed over in Python and stands in no file: its run directory keeps all but the function.

So the directory can be read wherever it lies, by a report, a notebook or a replay: they ask for the space, and
evaluate nothing. To go on takes the function: what stands in for the problem is there while an experiment is read, and
whoever wants to evaluate finds none, and is told how to bring it.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Never

from fmnas.platform.config.config import Config
from fmnas.platform.errors import RunDirectoryError, legible
from fmnas.platform.named import HANDED_OVER, given, is_given, parted
from fmnas.platform.record.run_directory import RunDirectory, write_json
from fmnas.search_spaces import FmnasError, Space
from fmnas.trainers.problem import Problem

KEPT = ("penalty", "epochs", "log_objective", "minimum", "dataset", "seeds", "objective")
"""Of a problem, beside its space; the last two are not in directories of before."""


def keep_problem(config: Config, task: Problem, directory: RunDirectory) -> None:
    """Write problem.json where the configuration names a problem that was handed over; else nothing."""
    module, name = parted(config.problem)
    if module == HANDED_OVER:
        plain = {key: getattr(task, key) for key in KEPT}
        write_json(directory.problem, {"name": name, **plain, "space": task.space.to_dict()})


def kept_space(directory: RunDirectory) -> Space | None:
    """The space of the problem that was handed over; None where there was none. Raises RunDirectoryError."""
    kept = _read(directory)
    return None if kept is None else kept[1].space


@contextmanager
def standing_in(directory: RunDirectory) -> Iterator[None]:
    """While in the block, a directory's problem that was handed over can be named, unless it is given here again.

    Raises RunDirectoryError for a problem.json that cannot be read.
    """
    kept = _read(directory)
    if kept is None or is_given(f"{HANDED_OVER}:{kept[0]}"):
        yield
        return
    with given(*kept):
        yield


def _read(directory: RunDirectory) -> tuple[str, Problem] | None:
    """Its name, and what stands in for it."""
    try:
        kept = json.loads(directory.problem.read_text(encoding="utf-8"))
        name, plain = str(kept["name"]), {key: kept[key] for key in KEPT if key in kept}

        def build(data: object, hardware: object) -> Never:
            raise RunDirectoryError(f"the function {name} is not here, only what it was asked over")

        return name, Problem(Space.from_dict(kept["space"]), build, **plain)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, LookupError, TypeError, FmnasError) as error:
        raise RunDirectoryError(
            f"{directory.problem} cannot be read ({legible(str(error))}): put it back as it was; it holds the space "
            "that the trials are of"
        ) from None
