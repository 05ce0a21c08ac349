"""What an experiment began with: whether its data, and a user's own files of code, are still the same.

environment.json keeps the SHA-256 of the data that a user gave, and of the file of a user's own problem; the journal
that of every such file, of the problem and of optimizers, with each driver, so that none is altered unseen.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import accumulate, groupby, pairwise
from typing import Any

from fmnas.comparison.numbers.notation import listed
from fmnas.platform.config.config import Config
from fmnas.platform.errors import RunDirectoryError, legible
from fmnas.platform.named import source_file
from fmnas.platform.problems import short_name
from fmnas.platform.record.journal import OWN_FILES, Record
from fmnas.platform.record.outcome import Outcome
from fmnas.platform.record.run_directory import RunDirectory
from fmnas.platform.record.state import ExperimentState
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

    A module that is named without its file has none here: it need not be one file.
    """
    uses = {whose(entry.label): entry.use for entry in config.optimizers if entry.use is not None}
    files = {PROBLEM: source_file(config.problem), **{key: source_file(use) for key, use in uses.items()}}
    return {key: file.digest for key, file in files.items() if file is not None}


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
        f"{_in_words(key, config)}: its file was altered since the experiment began, and results of both "
        f"stand in one {'comparison' if key == PROBLEM else 'row'}. Unless that only mends what failed, run it "
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
                f"{_in_words(key, config)} was altered between these experiments: their files differ, and results of "
                f"each stand {where}."
            )
    return told


def _in_words(key: str, config: Config) -> str:
    """e.g. "mine.py:bowl"; of an optimizer, "mine (mine.py:Mine)"."""
    names = {
        whose(entry.label): f"{entry.label} ({short_name(entry.use or entry.name)})" for entry in config.optimizers
    }
    return names.get(key, short_name(config.problem))


def _alteration(key: str, versions: Sequence[Sequence[Outcome]], config: Config) -> str:
    """After how many of its trials a file was altered, and what came after that."""
    *ends, count = accumulate(map(len, versions))
    what = f"{_in_words(key, config)}: its file was altered after {listed(list(map(str, ends)))} of"
    if key != PROBLEM:
        return f"{what} its {count} trials had ended: its row holds results of each version."
    later = dict.fromkeys(outcome.optimizer for trials in versions[1:] for outcome in trials)
    return f"{what} the {count} trials had ended: later ones, of {listed(list(later))}, are of another version."


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
