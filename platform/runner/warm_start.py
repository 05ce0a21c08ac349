"""Reading the trials of an earlier run directory, for an optimizer to begin with.

Repeat r begins with the trials of repeat r, so repeats stay independent: all finished full-fidelity trials in the order
suggested, each configuration once, with its first result. The earlier experiment must have the same objective, enough
repeats, and fewer trials than the budget. A driver may still be at work there. Nothing is written there, and the
directory is not read again unless an extension adds repeats.
"""

import json
import os
from collections.abc import Mapping
from pathlib import Path

from fmnas.platform.config.errors import format_count, format_value
from fmnas.platform.config.schema import NAME_PATTERN, Config
from fmnas.platform.errors import ConfigError, RunDirectoryError
from fmnas.platform.experiment.comparability import format_differences, objective_settings
from fmnas.platform.experiment.ledger import Ledger
from fmnas.platform.experiment.provenance import PROBLEM, data_hash, recorded_hashes, user_file_hashes
from fmnas.platform.experiment.run_directory import run_directory
from fmnas.platform.experiment.state import read_state
from fmnas.platform.experiment.warm_start import NO_WARM_STARTS, WarmStartData, WarmStartTrial
from fmnas.platform.problems import problem
from fmnas.search_spaces.records import is_full


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
    """Return what an optimizer begins with; in the existing repeats, if any, as it did before.

    reference: `DIR` or `DIR:LABEL`; without a label, the trials are those of own_label, or of the only optimizer.
    """
    name, _, label = reference.rpartition(":")
    if not name or not NAME_PATTERN.fullmatch(label):
        name, label = reference, ""
    directory = run_directory(Path(os.path.expanduser(name)))
    state = read_state(directory)
    ledger, labels = state.ledger, [entry.label for entry in state.config.optimizers]
    label = label or (own_label if own_label in labels or len(labels) > 1 else labels[0])
    if label not in labels:
        raise ConfigError(f"{name} has no optimizer {label}: write {name}:LABEL, one of {', '.join(labels)}")
    if existing is not None and (existing.experiment, existing.label) != (ledger.id, label):
        raise ConfigError(f"{name} is not the experiment that {own_label} was warm-started from: restore it")
    space = problem(config.problem, config.problem_settings).space
    theirs = objective_settings(state.config, state.experiment.problem.space)
    if differences := list(format_differences(objective_settings(config, space), theirs)):
        raise ConfigError(f"{name} has a different objective: {'; '.join(differences)}: make them equal")
    trials, finished = list(existing.trials if existing else ()), _finished_trials(ledger, label)
    for repeat in range(len(trials), config.repeats):
        trials.append(tuple(finished.get(repeat, ())))
        if not 0 < len(trials[-1]) < config.budget.evaluations:
            raise ConfigError(
                f"repeat {repeat} of {label} in {name} has {format_count(len(trials[-1]), 'finished trial')} of "
                f"{format_count(ledger.full_epochs, 'epoch')}: it must have at least 1, and fewer than "
                f"budget.evaluations = {config.budget.evaluations}"
            )
    is_altered = bool(recorded_hashes(ledger, PROBLEM) - {user_file_hashes(config).get(PROBLEM, "")})
    return WarmStartData(name, label, ledger.id, data_hash(directory), is_altered, tuple(trials))


def _finished_trials(ledger: Ledger, label: str) -> dict[int, list[WarmStartTrial]]:
    """Return repeat -> the finished full-fidelity trials of an optimizer, as suggested, each configuration once."""
    trials_of: dict[int, dict[str, WarmStartTrial]] = {}
    for result in sorted(ledger.results, key=lambda result: result.trial.id):
        trial, evaluation = result.trial, result.evaluation
        if result.optimizer == label and evaluation is not None and is_full(result.epochs, ledger.full_epochs):
            known = WarmStartTrial(trial.id, dict(trial.configuration), trial.epochs, trial.seed, evaluation)
            trials_of.setdefault(result.repeat, {}).setdefault(json.dumps(known.configuration, sort_keys=True), known)
    return {repeat: list(trials.values()) for repeat, trials in trials_of.items()}
