"""Warm starts: finished trials of an earlier experiment that an optimizer begins with.

They take the place of the initial design. The optimizer is asked for them as for any other trial, and the driver
answers at once with the earlier result and without a worker. So each is suggested, finished, charged and reported like
any other; `origin` and `note` of the trial say where it is from.
The journal keeps them, so the earlier run directory may change, move or be deleted.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from fmnas.optimizers.optimizer import OptimizerError
from fmnas.platform.experiment.trial_result import run_name
from fmnas.search_spaces import Configuration, Evaluation, Trial
from fmnas.search_spaces.records import WARM_START


@dataclass(frozen=True)
class WarmStartTrial:
    """A finished full-fidelity trial of an earlier experiment. number: its id there."""

    number: int
    configuration: Configuration
    epochs: int
    seed: int
    evaluation: Evaluation


@dataclass(frozen=True)
class WarmStart:
    """What one run begins with, in the order suggested. source: the run that the trials are of, for messages."""

    source: str = ""
    trials: tuple[WarmStartTrial, ...] = ()

    def evaluation(self, trial: Trial) -> Evaluation | None:
        """Return the earlier result of a trial of the run; None if the trial is new."""
        return self.trials[trial.id].evaluation if trial.id < len(self.trials) else None

    def annotate(self, trial: Trial) -> Trial:
        """Return a suggested trial with seed, origin and note of the earlier one, if it repeats one.

        Raises OptimizerError if a different configuration was due.
        """
        if trial.id >= len(self.trials):
            return trial
        known = self.trials[trial.id]
        if (trial.configuration, trial.epochs) != (known.configuration, known.epochs):
            raise OptimizerError(
                f"trial {trial.id}: suggested {trial.configuration} instead of {known.configuration}: an optimizer "
                "with a warm_start must suggest its initial design first, in order"
            )
        return replace(trial, origin=WARM_START, seed=known.seed, note=f"trial {known.number} of {self.source}")


@dataclass(frozen=True)
class WarmStartData:
    """What an optimizer begins with in every repeat.

    directory: the earlier run directory, as the user named it. label: of the optimizer there. experiment: its id.
    data: SHA-256 of user-provided data there, else empty. altered: whether the file of the problem has changed since.
    trials: of each repeat.
    """

    directory: str
    label: str
    experiment: str
    data: str
    altered: bool
    trials: tuple[tuple[WarmStartTrial, ...], ...]

    def for_repeat(self, repeat: int) -> WarmStart:
        """Return what one repeat begins with."""
        return WarmStart(f"{run_name(self.label, repeat)} in {self.directory}", self.trials[repeat])

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "WarmStartData":
        """Convert the output of `asdict` back."""
        trials = tuple(
            tuple(
                WarmStartTrial(**{**trial, "evaluation": Evaluation.from_dict(trial["evaluation"])}) for trial in repeat
            )
            for repeat in data["trials"]
        )
        return cls(**{**data, "trials": trials})


NO_WARM_STARTS: Mapping[str, WarmStartData] = MappingProxyType({})
