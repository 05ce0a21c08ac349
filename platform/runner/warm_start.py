"""The trials of an earlier run directory, for an optimizer to begin with.

Repeat r begins with those of repeat r, so repeats stay independent. It gets the full trials that finished, in the order
in which they were asked; a configuration that came twice counts once, with its first result. A driver may still be at
work there: what has finished when it is read is what counts. Nothing is written there, and once the trials stand in the
new journal, nothing is read there any more but for repeats that an extension adds.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from fmnas.platform.config.errors import format_count, format_value
from fmnas.platform.config.schema import LABEL_PATTERN, BudgetConfig, Config
from fmnas.platform.errors import ConfigError, RunDirectoryError
from fmnas.platform.experiment.comparability import format_differences, objective_settings
from fmnas.platform.experiment.configuration import current_config
from fmnas.platform.experiment.journal import DRIVER, Record, experiment_records
from fmnas.platform.experiment.ledger import new_ledger
from fmnas.platform.experiment.provenance import PROBLEM, data_digest, is_altered, own_digests
from fmnas.platform.experiment.run_directory import RunDirectory, run_directory
from fmnas.platform.experiment.saved_problem import kept_space, reading
from fmnas.platform.experiment.warm_start import NOTHING, Knowledge, KnownTrial
from fmnas.platform.problems import problem
from fmnas.platform.registry import IN_MEMORY, split_reference
from fmnas.search_spaces import Space, SpaceError
from fmnas.search_spaces.errors import did_you_mean
from fmnas.search_spaces.records import is_full


def read_knowledge(config: Config, kept: Mapping[str, Knowledge] = NOTHING) -> dict[str, Knowledge]:
    """By label: what the optimizers with a warm_start begin with.

    kept: what an experiment that grows has of it, which stays as it is. Raises ConfigError, naming the optimizer, for a
    directory that cannot be read or not be compared with this experiment, or whose trials are too few or too many.
    """
    found = {}
    for i, entry in enumerate(config.optimizers):
        if entry.warm_start is not None:
            known = kept.get(entry.label)
            if known is None or len(known.trials) < config.repeats:
                space = problem(config.problem, config.problem_settings).space
                try:
                    known = _read(config, space, entry.label, entry.warm_start, known)
                except (ConfigError, RunDirectoryError) as error:
                    raise ConfigError(
                        f"optimizers.{i}.warm_start = {format_value(entry.warm_start)}: {error}"
                    ) from None
            found[entry.label] = known
    return found


def check_known_data(knowledge: Mapping[str, Knowledge], digest: str) -> None:
    """Raise ConfigError where data that a user gave were others in the earlier experiment. digest: of these, or ""."""
    for label, known in knowledge.items():
        if known.data and digest and known.data != digest:
            raise ConfigError(
                f"{label}: warm_start: {known.directory} has other data: their SHA-256 is {known.data}, and of these "
                f"{digest}: give the data that it was run with, or leave warm_start out"
            )


@dataclass(frozen=True)
class Earlier:
    """An earlier experiment. name: its directory as the configuration says it."""

    name: str
    directory: RunDirectory
    config: Config
    records: Sequence[Record]


def _read(config: Config, space: Space, own: str, text: str, kept: Knowledge | None) -> Knowledge:
    """What an optimizer begins with in all repeats; in those kept, if any, as it did. own, text: label and warm_start.

    Raises ConfigError or RunDirectoryError as `read_knowledge`, without the optimizer's name.
    """
    source, label = _source(text, own)
    identity = str(source.records[0]["id"])
    if kept is not None and (kept.experiment, kept.label) != (identity, label):
        raise ConfigError(
            f"{source.name} is another experiment than the one whose trials it has begun with: put that one back, "
            "or add no repeats"
        )
    _check_comparable(config, space, source)
    there = source.config.repeats
    if there < config.repeats:
        raise ConfigError(
            f"{source.name} has {format_count(there, 'repeat')}, and here are {config.repeats}, each with the "
            f"trials of its own number there: ask for at most {there}, or extend that experiment first"
        )
    known, trials = list(kept.trials if kept else ()), _finished(source, label)
    for repeat in range(len(known), config.repeats):
        has = f"repeat {repeat} of {label} in {source.name} has"
        known.append(tuple(trials.get(repeat, ())))
        if not known[-1]:
            raise ConfigError(
                f"{has} no finished trial of {source.config.fidelity.epochs} epochs: there is nothing to know"
            )
        _check_budget(config.budget, known[-1], has, source.directory)
        _check_space(space, known[-1], source.name)
    drivers = [record for record in source.records if record["event"] == DRIVER]
    altered = is_altered(PROBLEM, own_digests(config).get(PROBLEM), source.directory, drivers)
    return Knowledge(source.name, label, identity, data_digest(source.directory), altered, tuple(known))


def _source(text: str, own: str) -> tuple[Earlier, str]:
    """The earlier experiment, and whose trials of it are meant: the label said, or the own one, or the only one."""
    name, _, wanted = text.rpartition(":")
    if not name or not LABEL_PATTERN.fullmatch(wanted):
        name, wanted = text, ""
    try:
        directory = run_directory(Path(name).expanduser())
    except RuntimeError as error:  # of nobody's home
        raise ConfigError(str(error)) from None
    records = experiment_records(directory)
    with reading(directory, records):
        source = Earlier(name, directory, current_config(directory, records), records)
    labels = [entry.label for entry in source.config.optimizers]
    if wanted and wanted not in labels:
        raise ConfigError(f"{name} has no {wanted}; it has {', '.join(labels)}.{did_you_mean(wanted, labels)}")
    mine = [own] if own in labels else []
    (label, *more) = [wanted] if wanted else mine or labels
    if more:
        raise ConfigError(f"{name} has several optimizers: say which, as {name}:LABEL: {', '.join(labels)}")
    return source, label


def _check_comparable(config: Config, space: Space, source: Earlier) -> None:
    given = split_reference(config.problem)[0] == IN_MEMORY
    ours = objective_settings(config, space if given else None)
    lines = list(format_differences(ours, objective_settings(source.config, kept_space(source.directory))))
    if lines:
        raise ConfigError(
            f"its results cannot be compared with those of {source.name}, which has another objective: "
            f"{'; '.join(lines)}. Make them the same, or leave warm_start out"
        )


def _check_budget(budget: BudgetConfig, trials: Sequence[KnownTrial], has: str, directory: RunDirectory) -> None:
    """Raise ConfigError where nothing is left to choose after these. has: who has them, in words. directory: theirs."""
    if len(trials) >= budget.evaluations:
        raise ConfigError(
            f"{has} {format_count(len(trials), 'trial')}, and budget.evaluations is {budget.evaluations}: nothing "
            f"would be left to choose; raise it above {len(trials)}, say to N (one report of both directories takes "
            f"the same budget there: `fmnas {directory.command('extend')} -o budget.evaluations=N`)"
        )
    seconds = sum(trial.evaluation.seconds for trial in trials)
    if budget.seconds is not None and seconds >= budget.seconds:
        raise ConfigError(
            f"{has} trained for {seconds:.0f} s, and budget.seconds is {budget.seconds:g}: nothing would be left; "
            f"raise it above {seconds:.0f}"
        )


def _check_space(space: Space, trials: Sequence[KnownTrial], name: str) -> None:
    try:
        for trial in trials:
            space.validate(trial.configuration)
    except SpaceError as error:
        raise ConfigError(f"a trial of {name} does not lie in this space: {error}") from None


def _finished(source: Earlier, label: str) -> dict[int, list[KnownTrial]]:
    """Of an optimizer, by repeat: its full trials that finished, in the order asked, each configuration once."""
    ledger = new_ledger(source.config.model_dump(mode="json"))
    ledger.replay(source.records[1:])
    found: dict[int, dict[str, KnownTrial]] = {}
    for outcome in sorted(ledger.outcomes, key=lambda ended: ended.trial.id):
        trial, evaluation = outcome.trial, outcome.evaluation
        if outcome.optimizer == label and evaluation is not None and is_full(trial.epochs, ledger.full):
            known = KnownTrial(trial.id, dict(trial.configuration), trial.epochs, trial.seed, evaluation)
            found.setdefault(outcome.repeat, {}).setdefault(json.dumps(known.configuration, sort_keys=True), known)
    return {repeat: list(trials.values()) for repeat, trials in found.items()}
