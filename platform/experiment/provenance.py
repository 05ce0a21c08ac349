"""What an experiment began with: whether its data, and a user's own files of code, are still the same.

environment.json keeps the SHA-256 of the data that a user gave, and of the file of a user's own problem; the journal
that of every such file, of the problem and of optimizers, with each driver, so that none is altered unseen. Of a
function that was handed to `minimize`, its source takes the place of the file.
"""

import dis
import inspect
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import sha256
from itertools import accumulate, groupby, pairwise
from types import CodeType
from typing import Any

from fmnas.comparison.analysis.formatting import join_names
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import RunDirectoryError, legible
from fmnas.platform.experiment.journal import OWN_FILES, Record
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import ExperimentState
from fmnas.platform.experiment.trial_result import Outcome
from fmnas.platform.problems import display_name
from fmnas.platform.registry import IN_MEMORY, import_reference, is_registered, read_source_file, split_reference
from fmnas.search_spaces.records import WARM_START
from fmnas.trainers.problem import Data

PROBLEM_DIGEST = "problem_sha256"
"""In environment.json: of the file of a user's own problem, as the experiment began with it."""
DATA_DIGEST = "data_sha256"
"""In environment.json: of data that a user gave, as the experiment began with them."""
PROBLEM = "problem"
"""Whose file it is, if not an optimizer's."""


def read_environment(directory: RunDirectory) -> dict[str, Any]:
    """environment.json; in its place, where it cannot be read, why."""
    try:
        data = json.loads(directory.environment.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        return {directory.environment.name: f"cannot be read: {legible(str(error))}"}
    return data if isinstance(data, dict) else {directory.environment.name: "holds no JSON object"}


def described(data: Data | None, files: Mapping[str, str]) -> dict[str, str]:
    """What environment.json keeps: where the data were found, and what it has digests of. files: of `own_digests`."""
    problem = {PROBLEM_DIGEST: files[PROBLEM]} if PROBLEM in files else {}
    if data is None:
        return problem
    digest = getattr(data, "digest", "")
    return {"data": data.place, **({DATA_DIGEST: digest} if digest else {}), **problem}


def data_digest(directory: RunDirectory) -> str:
    """Of the data that the experiment began with; empty where it had none that a user gave."""
    return str(read_environment(directory).get(DATA_DIGEST, ""))


def check_same_data(data: Data | None, directory: RunDirectory) -> None:
    """Raise RunDirectoryError where they are known to be others than those that the experiment began with."""
    begun, now = data_digest(directory), described(data, {})
    if begun and begun != now.get(DATA_DIGEST):
        raise RunDirectoryError(
            f"{directory.root} began with data of the SHA-256 {begun}, and these are others ({now.get('data')}): put "
            f"them back, or say in {directory.config} where they are now (data.root)"
        )


def own_digests(config: Config) -> dict[str, str]:
    """SHA-256 of every file of a user's own that is code, by whose it is: PROBLEM, or an optimizer's, as `whose`.

    A module that is named without its file has none here: it need not be one file. Of a function that was handed over,
    it is `function_digest`.
    """
    uses = {whose(entry.label): entry.use for entry in config.optimizers if entry.use is not None}
    files = {PROBLEM: read_source_file(config.problem), **{key: read_source_file(use) for key, use in uses.items()}}
    digests = {key: file.digest for key, file in files.items() if file is not None}
    if is_handed_over(config) and is_registered(config.problem):
        task = import_reference(config.problem)
        digests[PROBLEM] = function_digest(task.function or task.build)
    return {key: digest for key, digest in digests.items() if digest}


def is_handed_over(config: Config) -> bool:
    """Whether its problem is a function that was given to `minimize`."""
    return split_reference(config.problem)[0] == IN_MEMORY


def function_digest(function: Callable[..., Any]) -> str:
    """SHA-256 of a function's source and of the numbers and texts that it is bound to.

    Without a source, and of a lambda, whose source is the statement around it, the bytecode takes its place. Empty
    where there is none of both, as of a function in C.
    """
    parts = list(_parts(function))
    return sha256("\0".join(parts).encode("utf-8", "backslashreplace")).hexdigest() if parts else ""


def _parts(function: Callable[..., Any]) -> Iterator[str]:
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
        return
    try:
        yield from _code(code) if code.co_name == "<lambda>" else [inspect.getsource(called)]
    except (OSError, TypeError):
        yield from _code(code)
    bound += [*(called.__defaults__ or ()), *(called.__kwdefaults__ or {}).values()]
    changed = {each.argval for each in dis.get_instructions(code) if each.opname == "STORE_DEREF"}
    cells = dict(zip(code.co_freevars, called.__closure__ or (), strict=True))
    bound += [cell.cell_contents for name, cell in cells.items() if name not in changed]
    yield from (repr(value) for value in bound if isinstance(value, bool | int | float | complex | str | bytes))


def _code(code: CodeType) -> Iterator[str]:
    """What bytecode does, wherever it stands in a file."""
    yield from (code.co_code.hex(), repr(code.co_names), repr(code.co_varnames))
    for value in code.co_consts:
        if isinstance(value, CodeType):
            yield from _code(value)
        else:  # the order of a set's repr is another one in each process
            yield repr(sorted(map(repr, value)) if isinstance(value, frozenset) else value)


def whose(label: str) -> str:
    """The key of an optimizer's file."""
    return f"optimizers.{label}"


def known_digests(key: str, directory: RunDirectory, drivers: Sequence[Record]) -> frozenset[str]:
    """Of a file, each that an experiment is known to have worked with."""
    begun = read_environment(directory).get(PROBLEM_DIGEST) if key == PROBLEM else None
    known = [begun, *(driver.get(OWN_FILES, {}).get(key) for driver in drivers)]
    return frozenset(digest for digest in known if digest is not None)


def is_altered(key: str, now: str | None, directory: RunDirectory, drivers: Sequence[Record]) -> bool:
    """Whether a file, whose digest is that now, is known to have been another in the experiment in the directory."""
    return bool(known_digests(key, directory, drivers) - {now})


def altered_since(state: ExperimentState, directory: RunDirectory) -> list[str]:
    """A sentence for each file that is another now than some driver had it, if anything of it is still to run."""
    config = state.experiment.config
    busy = {PROBLEM, *(whose(run.optimizer_name) for run in state.runs.values() if not run.done)}
    return [
        f"{_in_words(key, config)}: its {_code_of(key, config)} was altered since the experiment began, and results of "
        f"both stand in one {'comparison' if key == PROBLEM else 'row'}. Unless that only mends what failed, run it "
        "anew into another directory"
        for key, now in own_digests(config).items()
        if key in busy and is_altered(key, now, directory, state.drivers)
    ]


def alterations(state: ExperimentState, directory: RunDirectory) -> list[str]:
    """A sentence for each file of which an experiment has trials from before an alteration, and from after it."""
    config = state.experiment.config
    keys = [PROBLEM, *(whose(entry.label) for entry in config.optimizers)]
    versions = {key: _versions(key, state, directory) for key in keys}
    return [_alteration(key, each, config) for key, each in versions.items() if len(each) > 1]


def differing_files(experiments: Sequence[tuple[RunDirectory, ExperimentState]]) -> list[str]:
    """A sentence for each file that was not the same in all experiments of a report."""
    configs = [state.experiment.config for _, state in experiments]
    holders = {whose(entry.label): config for config in configs for entry in config.optimizers}
    told = []
    for key, config in {PROBLEM: configs[0], **holders}.items():
        known = {known_digests(key, directory, state.drivers) for directory, state in experiments}
        if len(known - {frozenset()}) > 1:
            where = "in one comparison" if key == PROBLEM else "in its row"
            told.append(
                f"{_in_words(key, config)} was altered between these experiments: their {_code_of(key, config)}s "
                f"differ, and results of each stand {where}."
            )
    return told


def _in_words(key: str, config: Config) -> str:
    """e.g. "mine.py:bowl"; of an optimizer, "mine (mine.py:Mine)"."""
    names = {
        whose(entry.label): f"{entry.label} ({display_name(entry.use or entry.name)})" for entry in config.optimizers
    }
    return names.get(key, display_name(config.problem))


def _code_of(key: str, config: Config) -> str:
    """What its digest is of: "file", or "function" where one was handed over."""
    return "function" if key == PROBLEM and is_handed_over(config) else "file"


def _alteration(key: str, versions: Sequence[Sequence[Outcome]], config: Config) -> str:
    """After how many of its trials a file was altered, and what came after that."""
    *ends, count = accumulate(map(len, versions))
    what = (
        f"{_in_words(key, config)}: its {_code_of(key, config)} was altered after {join_names(list(map(str, ends)))} of"
    )
    if key != PROBLEM:
        return f"{what} its {count} trials had ended: its row holds results of each version."
    later = dict.fromkeys(outcome.optimizer for trials in versions[1:] for outcome in trials)
    return f"{what} the {count} trials had ended: later ones, of {join_names(list(later))}, are of another version."


def _versions(key: str, state: ExperimentState, directory: RunDirectory) -> list[list[Outcome]]:
    """Version by version of a file, in turn, the trials that ended with it; where none is known, none.

    A driver that says nothing of it is of a journal that says it later or nowhere: it is taken to have had the one of
    before. What was known from an earlier experiment came of no file here.
    """
    known: str | None = read_environment(directory).get(PROBLEM_DIGEST) if key == PROBLEM else None
    found: list[tuple[str | None, Outcome]] = []
    for driver, (begin, end) in zip(state.drivers, pairwise((*state.ended_before, len(state.outcomes))), strict=True):
        known = driver.get(OWN_FILES, {}).get(key, known)
        found += [
            (known, outcome)
            for outcome in state.outcomes[begin:end]
            if outcome.trial.origin != WARM_START and key in (PROBLEM, whose(outcome.optimizer))
        ]
    return [[each for _, each in trials] for version, trials in groupby(found, lambda each: each[0]) if version]
