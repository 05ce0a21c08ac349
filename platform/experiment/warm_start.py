"""What an optimizer knows of an earlier experiment when it begins: trials that were evaluated there.

They take the place of the initial design. The optimizer is asked for them as for any other trial, and the driver
answers at once, with the result from there and without a worker. So each is asked, finished, charged and told like any
other, and whoever follows the journal needs no second rule; `origin` and `note` of the trial say where it is from.

The journal keeps them whole, in the record with which the experiment, or an extension, begins:

    {"event": "experiment", ..., "warm_start": {"bo-fm": {"directory": ..., "label": ..., "trials": [[...], ...], ...}}}

So the earlier run directory may change, move or go away.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import Any

from fmnas.optimizers.optimizer import OptimizerError
from fmnas.platform.errors import RunDirectoryError, one_line
from fmnas.platform.experiment.journal import Record, stages
from fmnas.platform.experiment.trial_result import run_name
from fmnas.search_spaces import Configuration, Evaluation, Trial
from fmnas.search_spaces.records import WARM_START


@dataclass(frozen=True)
class KnownTrial:
    """A full trial that finished in an earlier experiment. number: its own there. configuration: of the whole space."""

    number: int
    configuration: Configuration
    epochs: int
    seed: int
    evaluation: Evaluation

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "KnownTrial":
        """The inverse of `asdict`."""
        return cls(**{**data, "evaluation": Evaluation.from_dict(data["evaluation"])})


@dataclass(frozen=True)
class WarmStart:
    """What one run begins with, in the order in which it is asked. source: the run it is of, in words."""

    source: str = ""
    trials: tuple[KnownTrial, ...] = ()

    def evaluation(self, trial: Trial) -> Evaluation | None:
        """Of a trial of the run, if it is one of these."""
        return self.trials[trial.id].evaluation if trial.id < len(self.trials) else None

    def marked(self, trial: Trial) -> Trial:
        """A trial as the run's optimizer suggests it; if it is one of these, with its seed and where it is from.

        Raises OptimizerError where another was to come.
        """
        if trial.id >= len(self.trials):
            return trial
        known = self.trials[trial.id]
        if (trial.configuration, trial.epochs) != (known.configuration, known.epochs):
            raise OptimizerError(
                f"trial {trial.id}: it suggests {trial.configuration}, and was given {known.configuration} to "
                "begin with: it must ask for its initial design first, in order, or have no warm_start"
            )
        return replace(trial, origin=WARM_START, seed=known.seed, note=f"trial {known.number} of {self.source}")


@dataclass(frozen=True)
class Knowledge:
    """What an optimizer begins with in every repeat.

    directory: the earlier run directory, as it was named. label: of the optimizer there. experiment: its id.
    data: SHA-256 of the data there, where a user gave them; else empty. altered: whether the problem's file is known to
    have been another. trials: of each repeat.
    """

    directory: str
    label: str
    experiment: str
    data: str
    altered: bool
    trials: tuple[tuple[KnownTrial, ...], ...]

    def of(self, repeat: int) -> WarmStart:
        """What that repeat begins with."""
        return WarmStart(f"{run_name(self.label, repeat)} in {self.directory}", self.trials[repeat])

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Knowledge":
        """The inverse of `asdict`."""
        trials = tuple(tuple(map(KnownTrial.from_dict, repeat)) for repeat in data["trials"])
        return cls(**{**data, "trials": trials})


NOTHING: Mapping[str, Knowledge] = MappingProxyType({})
"""Where no optimizer knows anything."""


def as_recorded(knowledge: Mapping[str, Knowledge]) -> dict[str, Any]:
    """What the record says that it begins with; nothing where nobody knows anything."""
    return {WARM_START: {label: asdict(each) for label, each in knowledge.items()}} if knowledge else {}


def recorded_knowledge(records: Sequence[Record]) -> dict[str, Knowledge]:
    """By label: what the optimizers of an experiment began with. records: of the journal, from its first.

    Raises RunDirectoryError where it cannot be read.
    """
    found: dict[str, Knowledge] = {}
    for record in stages(records):
        try:
            found |= {label: Knowledge.from_dict(each) for label, each in record.get(WARM_START, {}).items()}
        except (LookupError, TypeError, ValueError, AttributeError) as error:
            raise RunDirectoryError(
                f"the journal's record {record['event']!r} holds no whole {WARM_START} ({one_line(error)}): put the "
                "journal back as it was; it says which trials the optimizers began with"
            ) from None
    return found
