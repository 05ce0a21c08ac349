"""Reading the trials of an earlier run directory, for an optimizer to begin with.

Repeat r begins with the trials of repeat r, so repeats stay independent: all finished full-fidelity trials in the order
suggested, each configuration once, with its first result. A driver may still be at work there. Nothing is written
there, and the directory is not read again unless an extension adds repeats.
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
from fmnas.platform.experiment.journal import read_events
from fmnas.platform.experiment.ledger import Ledger, fold
from fmnas.platform.experiment.provenance import PROBLEM, data_hash, is_in_memory, recorded_hashes, user_file_hashes
from fmnas.platform.experiment.run_directory import RunDirectory, run_directory
from fmnas.platform.experiment.saved_problem import load_space, placeholders
from fmnas.platform.experiment.warm_start import NO_WARM_STARTS, WarmStartData, WarmStartTrial
from fmnas.platform.problems import problem
from fmnas.search_spaces import SpaceError
from fmnas.search_spaces.errors import did_you_mean
from fmnas.search_spaces.records import is_full


@dataclass(frozen=True)
class SourceExperiment:
    """An earlier experiment. name: its directory as the user wrote it."""

    name: str
    directory: RunDirectory
    config: Config
    ledger: Ledger


def load_warm_starts(
    config: Config, existing: Mapping[str, WarmStartData] = NO_WARM_STARTS
) -> dict[str, WarmStartData]:
    """Return label -> what each optimizer with a warm_start begins with.

    existing: of an extended experiment; kept unchanged. Raises ConfigError, naming the optimizer, if a directory
    cannot be read or compared with this experiment, or has too few or too many trials.
    """
    warm_starts = {}
    for i, entry in enumerate(config.optimizers):
        if entry.warm_start is None:
            continue
        data = existing.get(entry.label)
        if data is None or len(data.trials) < config.repeats:
            try:
                data = _load(config, entry.label, entry.warm_start, data)
            except (ConfigError, RunDirectoryError) as error:
                raise ConfigError(f"optimizers.{i}.warm_start = {format_value(entry.warm_start)}: {error}") from None
        warm_starts[entry.label] = data
    return warm_starts


def check_warm_start_data(warm_starts: Mapping[str, WarmStartData], digest: str) -> None:
    """Raise ConfigError if an earlier experiment used other user-provided data. digest: SHA-256 of these, or empty."""
    for label, source in warm_starts.items():
        if source.data and digest and source.data != digest:
            raise ConfigError(
                f"{label}: warm_start: {source.directory} was run with other data (SHA-256 {source.data}, here "
                f"{digest}): use the same data, or remove warm_start"
            )


def _load(config: Config, own_label: str, reference: str, existing: WarmStartData | None) -> WarmStartData:
    """Return what an optimizer begins with; in the existing repeats, if any, as it did before."""
    source, label = _find_source(reference, own_label)
    ledger = source.ledger
    if existing is not None and (existing.experiment, existing.label) != (ledger.id, label):
        raise ConfigError(f"{source.name} is not the experiment that {own_label} was warm-started from: restore it")
    space = problem(config.problem, config.problem_settings).space
    ours = objective_settings(config, space if is_in_memory(config) else None)
    differences = list(format_differences(ours, objective_settings(source.config, load_space(source.directory))))
    if differences:
        raise ConfigError(f"{source.name} has a different objective: {'; '.join(differences)}: make them equal")
    if source.config.repeats < config.repeats:
        raise ConfigError(
            f"{source.name} has {format_count(source.config.repeats, 'repeat')}, and here are {config.repeats}: lower "
            "repeats, or extend that experiment first"
        )
    trials, finished = list(existing.trials if existing else ()), _finished_trials(ledger, label)
    for repeat in range(len(trials), config.repeats):
        trials.append(tuple(finished.get(repeat, ())))
        name = f"repeat {repeat} of {label} in {source.name}"
        if not trials[-1]:
            raise ConfigError(f"{name} has no finished trial of {source.config.fidelity.epochs} epochs")
        _check_budget(config.budget, trials[-1], name)
        try:
            for trial in trials[-1]:
                space.validate(trial.configuration)
        except SpaceError as error:
            raise ConfigError(f"{name}: trial outside this space: {error}") from None
    hashes = user_file_hashes(config)
    is_altered = bool(recorded_hashes(ledger, PROBLEM) - {hashes.get(PROBLEM, "")})
    return WarmStartData(source.name, label, ledger.id, data_hash(source.directory), is_altered, tuple(trials))


def _find_source(reference: str, own_label: str) -> tuple[SourceExperiment, str]:
    """Return the experiment of `DIR` or `DIR:LABEL`, and the optimizer: that label, the same one, or the only one."""
    name, _, wanted = reference.rpartition(":")
    if not name or not LABEL_PATTERN.fullmatch(wanted):
        name, wanted = reference, ""
    try:
        directory = run_directory(Path(name).expanduser())
    except RuntimeError as error:  # unknown home folder
        raise ConfigError(str(error)) from None
    events = read_events(directory)
    with placeholders(directory, events):
        source = SourceExperiment(name, directory, current_config(directory, events), fold(events))
    labels = [entry.label for entry in source.config.optimizers]
    if wanted and wanted not in labels:
        raise ConfigError(f"{name} has no {wanted}; it has {', '.join(labels)}.{did_you_mean(wanted, labels)}")
    candidates = [wanted] if wanted else [own_label] if own_label in labels else labels
    if len(candidates) > 1:
        raise ConfigError(f"{name} has several optimizers: name one, as {name}:LABEL: {', '.join(labels)}")
    return source, candidates[0]


def _check_budget(budget: BudgetConfig, trials: Sequence[WarmStartTrial], name: str) -> None:
    """Raise ConfigError if the warm start would use up the whole budget."""
    if len(trials) >= budget.evaluations:
        raise ConfigError(
            f"{name} has {format_count(len(trials), 'trial')}: raise budget.evaluations = {budget.evaluations} above "
            f"{len(trials)}, so that there is something to choose"
        )
    seconds = sum(trial.evaluation.seconds for trial in trials)
    if budget.seconds is not None and seconds >= budget.seconds:
        raise ConfigError(f"{name} trained for {seconds:.0f} s: raise budget.seconds = {budget.seconds:g} above that")


def _finished_trials(ledger: Ledger, label: str) -> dict[int, list[WarmStartTrial]]:
    """Return repeat -> the finished full-fidelity trials of an optimizer, as suggested, each configuration once."""
    trials_of: dict[int, dict[str, WarmStartTrial]] = {}
    for result in sorted(ledger.results, key=lambda result: result.trial.id):
        trial, evaluation = result.trial, result.evaluation
        if result.optimizer == label and evaluation is not None and is_full(trial.epochs, ledger.full_epochs):
            known = WarmStartTrial(trial.id, dict(trial.configuration), trial.epochs, trial.seed, evaluation)
            trials_of.setdefault(result.repeat, {}).setdefault(json.dumps(known.configuration, sort_keys=True), known)
    return {repeat: list(trials.values()) for repeat, trials in trials_of.items()}
