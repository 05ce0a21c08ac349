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
from typing import Never

from fmnas.platform.config.config import Config, OptimizerConfig
from fmnas.platform.config.sections import LABEL
from fmnas.platform.drive.description import differing, objective_settings
from fmnas.platform.drive.inputs import data_digest, is_altered
from fmnas.platform.errors import ConfigError, RunDirectoryError
from fmnas.platform.messages import shown
from fmnas.platform.named import HANDED_OVER, parted
from fmnas.platform.problems import problem
from fmnas.platform.record.configuration import current_config
from fmnas.platform.record.handed_over import kept_space, standing_in
from fmnas.platform.record.journal import DRIVER, Record, experiment_records
from fmnas.platform.record.ledger import Ledger, accounts_of
from fmnas.platform.record.run_directory import RunDirectory, run_directory
from fmnas.platform.record.warm_start import NOTHING, Knowledge, KnownTrial
from fmnas.search_spaces import SpaceError
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
                known = _Reading(config, entry, f"optimizers.{i}.warm_start = {shown(entry.warm_start)}").read(known)
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

    @property
    def identity(self) -> str:
        """The experiment's id."""
        return str(self.records[0]["id"])

    @property
    def drivers(self) -> list[Record]:
        """The records of those that worked there."""
        return [record for record in self.records if record["event"] == DRIVER]

    @property
    def labels(self) -> list[str]:
        """Of its optimizers."""
        return [entry.label for entry in self.config.optimizers]


@dataclass(frozen=True)
class _Reading:
    """Of what one optimizer of a configuration begins with. key: `optimizers.N.warm_start = TEXT`, for messages."""

    config: Config
    entry: OptimizerConfig
    key: str

    def read(self, kept: Knowledge | None) -> Knowledge:
        """All repeats; those kept, if any, as they are."""
        source, label = self._source()
        if kept is not None and (kept.experiment, kept.label) != (source.identity, label):
            self._refuse(
                f"{source.name} is another experiment than the one whose trials it has begun with: put that one back, "
                "or add no repeats"
            )
        self._check_comparable(source)
        there = source.config.repeats
        if there < self.config.repeats:
            self._refuse(
                f"{source.name} has {_count(there, 'repeat')}, and here are {self.config.repeats}, each with the "
                f"trials of its own number there: ask for at most {there}, or extend that experiment first"
            )
        before, trials = kept.trials if kept else (), _finished(source, label)
        added = range(len(before), self.config.repeats)
        known = (*before, *(self._checked(source, label, repeat, trials.get(repeat, [])) for repeat in added))
        digest, altered = data_digest(source.directory), is_altered(self.config, source.directory, source.drivers)
        return Knowledge(source.name, label, source.identity, digest, altered, known)

    def _source(self) -> tuple[Earlier, str]:
        """The earlier experiment, and whose trials of it are meant."""
        text = self.entry.warm_start or ""
        name, _, wanted = text.rpartition(":")
        if not name or not LABEL.fullmatch(wanted):
            name, wanted = text, ""
        try:
            directory = run_directory(Path(name).expanduser())
            records = experiment_records(directory)
            with standing_in(directory):
                source = Earlier(name, directory, current_config(directory, records), records)
        except (ConfigError, RunDirectoryError, RuntimeError) as error:  # the last is of nobody's home
            self._refuse(str(error))
        return source, self._label(source, wanted)

    def _label(self, source: Earlier, wanted: str) -> str:
        labels = source.labels
        if wanted and wanted not in labels:
            self._refuse(f"{source.name} has no {wanted}; it has {', '.join(labels)}.{did_you_mean(wanted, labels)}")
        own = [self.entry.label] if self.entry.label in labels else []
        (label, *more) = [wanted] if wanted else own or labels
        if more:
            self._refuse(
                f"{source.name} has several optimizers: say which, as {source.name}:LABEL: {', '.join(labels)}"
            )
        return label

    def _check_comparable(self, source: Earlier) -> None:
        given = parted(self.config.problem)[0] == HANDED_OVER
        space = problem(self.config.problem, self.config.problem_settings).space if given else None
        ours = objective_settings(self.config, space)
        lines = list(differing(ours, objective_settings(source.config, kept_space(source.directory))))
        if lines:
            self._refuse(
                f"its results cannot be compared with those of {source.name}, which has another objective: "
                f"{'; '.join(lines)}. Make them the same, or leave warm_start out"
            )

    def _checked(
        self, source: Earlier, label: str, repeat: int, trials: Sequence[KnownTrial]
    ) -> tuple[KnownTrial, ...]:
        """What a repeat begins with, where something is left to choose after it."""
        budget = self.config.budget
        has = f"repeat {repeat} of {label} in {source.name} has"
        if not trials:
            self._refuse(f"{has} no finished trial of {source.config.fidelity.epochs} epochs: there is nothing to know")
        if len(trials) >= budget.evaluations:
            self._refuse(
                f"{has} {_count(len(trials), 'trial')}, and budget.evaluations is {budget.evaluations}: nothing would "
                f"be left to choose; raise it above {len(trials)}"
            )
        seconds = sum(trial.evaluation.seconds for trial in trials)
        if budget.seconds is not None and seconds >= budget.seconds:
            self._refuse(
                f"{has} trained for {seconds:.0f} s, and budget.seconds is {budget.seconds:g}: nothing would be left; "
                f"raise it above {seconds:.0f}"
            )
        self._check_space(source, trials)
        return tuple(trials)

    def _check_space(self, source: Earlier, trials: Sequence[KnownTrial]) -> None:
        space = problem(self.config.problem, self.config.problem_settings).space
        try:
            for trial in trials:
                space.validate(trial.configuration)
        except SpaceError as error:
            self._refuse(f"a trial of {source.name} does not lie in this space: {error}")

    def _refuse(self, why: str) -> Never:
        raise ConfigError(f"{self.key}: {why}")


def _finished(source: Earlier, label: str) -> dict[int, list[KnownTrial]]:
    """Of an optimizer, by repeat: its full trials that finished, in the order asked, each configuration once."""
    ledger = Ledger(accounts_of(source.config.model_dump(mode="json")), source.config.fidelity.epochs)
    ledger.replay(source.records[1:])
    found: dict[int, dict[str, KnownTrial]] = {}
    for outcome, _ in sorted(ledger.outcomes, key=lambda ended: ended[0].trial.id):
        trial, evaluation = outcome.trial, outcome.evaluation
        if outcome.optimizer == label and evaluation is not None and is_full(trial.epochs, ledger.full):
            known = KnownTrial(trial.id, dict(trial.configuration), trial.epochs, trial.seed, evaluation)
            found.setdefault(outcome.repeat, {}).setdefault(json.dumps(known.configuration, sort_keys=True), known)
    return {repeat: list(trials.values()) for repeat, trials in found.items()}


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"
