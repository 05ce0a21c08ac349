"""Hashes of what an experiment was begun with: the data and the code that a user provided.

environment.json has the SHA-256 of user-provided data, and the journal, with every driver, that of each user-defined
file: of the problem and of optimizers. For a function that was passed to `minimize`, its bytecode is hashed.
"""

import dis
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from hashlib import sha256
from types import CodeType
from typing import Any

from fmnas.platform.config.schema import Config
from fmnas.platform.environment import current_software, describe_environment, format_software, is_same_version
from fmnas.platform.errors import RunDirectoryError, legible
from fmnas.platform.experiment.events import DriverStarted, DriverWork
from fmnas.platform.experiment.experiment import Experiment
from fmnas.platform.experiment.ledger import Ledger
from fmnas.platform.experiment.run_directory import RunDirectory, write_json
from fmnas.platform.experiment.saved_problem import save_user_code
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.problems import display_name
from fmnas.platform.references import IN_MEMORY, import_reference, is_registered, read_source_file, split_reference
from fmnas.trainers.problem import Data
from fmnas.trainers.split import Split

DATA_HASH = "data_sha256"
"""Key in environment.json of the hash of user-provided data."""
DATA_ARRAYS = "data_arrays"
"""Key in environment.json of the type and the shape of the inputs to train on, and of those held out."""
PROBLEM = "problem"
"""Key of the problem's file; that of an optimizer is `optimizers.LABEL`."""


def read_environment(directory: RunDirectory) -> dict[str, Any]:
    """Return the content of environment.json; if it cannot be read, the reason in its place."""
    try:
        return dict(json.loads(directory.environment.read_text(encoding="utf-8")))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError) as error:
        return {directory.environment.name: f"cannot be read: {legible(str(error))}"}


def describe_data(data: Data | None) -> dict[str, Any]:
    """Return what environment.json records about data: location, size, and, if a user provided them, their hash."""
    if data is None:
        return {}
    facts: dict[str, Any] = {"data": data.place}
    if digest := getattr(data, "digest", ""):
        facts[DATA_HASH] = digest
    if isinstance(data, Split):
        parts = {"train": data.train_inputs, "held_out": data.held_out_inputs}
        facts[DATA_ARRAYS] = {name: {"dtype": str(part.dtype), "shape": part.shape} for name, part in parts.items()}
    return facts


def save_inputs(experiment: Experiment, data: Data | None, directory: RunDirectory, is_changed: bool) -> None:
    """Write environment.json, unless it exists, and problem.json, if it is missing or `is_changed`."""
    if not directory.environment.exists():
        write_json(directory.environment, {**describe_environment(), **describe_data(data)})
    if is_changed or not directory.problem.exists():
        save_user_code(experiment.config, experiment.problem, directory)


def data_hash(directory: RunDirectory) -> str:
    """Return the hash of the data that the experiment was begun with; empty if it used none of a user's."""
    return str(read_environment(directory).get(DATA_HASH, ""))


def check_same_data(data: Data | None, directory: RunDirectory) -> None:
    """Raise RunDirectoryError if the data are known to differ from those that the experiment was begun with."""
    before, now = data_hash(directory), describe_data(data)
    if before and before != now.get(DATA_HASH):
        raise RunDirectoryError(
            f"{directory.root}: the data have changed since the experiment was begun ({now.get('data')}; SHA-256 was "
            f"{before}): restore them, or set data.root in {directory.config} to where they are now"
        )


def user_file_hashes(config: Config) -> dict[str, str]:
    """Return key -> SHA-256 of every user-defined file: PROBLEM, or that of an optimizer.

    What was passed to `minimize` has the hash of its code. A module named without its file is not hashed: it may
    consist of several files.
    """
    uses = {f"optimizers.{entry.label}": entry.use for entry in config.optimizers if entry.use is not None}
    files = {key: read_source_file(use) for key, use in {PROBLEM: config.problem, **uses}.items()}
    hashes = {key: file.digest for key, file in files.items() if file is not None}
    if is_in_memory(config) and is_registered(config.problem):
        task = import_reference(config.problem)
        hashes[PROBLEM] = hash_function(task.function or task.build)
    for key, use in uses.items():
        if split_reference(use)[0] == IN_MEMORY and is_registered(use):
            hashes[key] = hash_optimizer(import_reference(use))
    return {key: digest for key, digest in hashes.items() if digest}


def is_in_memory(config: Config) -> bool:
    """Whether the problem is a function that was passed to `minimize`."""
    return split_reference(config.problem)[0] == IN_MEMORY


def hash_optimizer(target: Any) -> str:
    """Return the SHA-256 of a function, or of the methods of a class."""
    if not isinstance(target, type):
        return hash_function(target)
    methods = [value for value in vars(target).values() if inspect.isfunction(value)]
    return sha256(" ".join(map(hash_function, methods)).encode()).hexdigest()


def hash_function(function: Callable[..., Any]) -> str:
    """Return the SHA-256 of a function's bytecode and of the numbers and texts bound to it; empty if it has none."""
    bound: list[Any] = []
    if isinstance(function, partial):
        bound += [*function.args, *function.keywords.values()]
        function = function.func
    called: Any = inspect.unwrap(function)
    if not inspect.isroutine(called):
        called = type(called).__call__
    called = getattr(called, "__func__", called)
    code = getattr(called, "__code__", None)
    if code is None:
        return ""
    bound += [*(called.__defaults__ or ()), *(called.__kwdefaults__ or {}).values()]
    changed = {instruction.argval for instruction in dis.get_instructions(code) if instruction.opname == "STORE_DEREF"}
    cells = dict(zip(code.co_freevars, called.__closure__ or (), strict=True))
    for cell in (cell for name, cell in cells.items() if name not in changed):
        with suppress(ValueError):  # nothing was assigned to it yet
            bound.append(cell.cell_contents)
    values = (repr(value) for value in bound if isinstance(value, bool | int | float | complex | str | bytes))
    return sha256("\0".join([*_code_parts(code), *values]).encode("utf-8", "backslashreplace")).hexdigest()


def _code_parts(code: CodeType) -> Iterator[str]:
    """Yield what bytecode does, wherever it is in a file."""
    yield from (code.co_code.hex(), repr(code.co_names), repr(code.co_varnames))
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _code_parts(value)
        else:  # the repr of a set has a different order in each process
            yield repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)


def driver_started(config: Config, work: DriverWork, at: float) -> DriverStarted:
    """Return the event of a driver that begins in this process."""
    return DriverStarted(work, current_software(), at, user_file_hashes(config))


def recorded_hashes(ledger: Ledger, key: str) -> frozenset[str]:
    """Return every hash that a driver recorded for a user-defined file."""
    return frozenset(driver.user_files[key] for driver in ledger.drivers if key in driver.user_files)


def changes_of_code(state: ExperimentState) -> list[str]:
    """Return a warning for each user-defined file that differs from an earlier driver's, and one for the versions."""
    warnings = [
        f"{_file_label(key, state.config)} has changed since the experiment was begun: results before and after the "
        "change may not be comparable"
        for key, digest in user_file_hashes(state.config).items()
        if recorded_hashes(state.ledger, key) - {digest}
    ]
    now = current_software()
    before = state.ledger.drivers[-1].software if state.ledger.drivers else now
    if not is_same_version(before, now) or before.torch != now.torch:
        versions = f"{format_software(before)} before, {format_software(now)} now"
        warnings.append(f"resuming with a different version: {versions}; reports say so")
    return warnings


def changed_file_notes(state: ExperimentState) -> list[str]:
    """Return a sentence for each user-defined file that changed between drivers of an experiment."""
    return [
        f"{label} was changed during the experiment: results of several versions are compared."
        for label, hashes in _recorded_files(state).values()
        if len(hashes) > 1
    ]


def different_file_notes(states: Sequence[ExperimentState]) -> list[str]:
    """Return a sentence for each user-defined file that differs between experiments of a report."""
    files = [_recorded_files(state) for state in states]
    labels = {key: label for recorded in reversed(files) for key, (label, _) in recorded.items()}
    return [
        f"{label} differs between these experiments: results of several versions are compared."
        for key, label in labels.items()
        if len({recorded[key][1] for recorded in files if key in recorded}) > 1
    ]


def _recorded_files(state: ExperimentState) -> dict[str, tuple[str, frozenset[str]]]:
    """Return key -> label and hashes of each user-defined file that a driver recorded."""
    keys = dict.fromkeys(key for driver in state.ledger.drivers for key in driver.user_files)
    return {key: (_file_label(key, state.config), recorded_hashes(state.ledger, key)) for key in keys}


def _file_label(key: str, config: Config) -> str:
    """Return e.g. "mine.py:bowl"; for an optimizer, "mine (mine.py:Mine)"."""
    labels: Mapping[str, str] = {
        f"optimizers.{entry.label}": f"{entry.label} ({display_name(entry.use or entry.name)})"
        for entry in config.optimizers
    }
    return labels.get(key, display_name(config.problem))
