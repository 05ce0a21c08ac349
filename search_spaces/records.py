"""The records that pass between optimizer, driver and trainer. Frozen, and plain JSON inside."""

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fmnas.search_spaces.errors import SpaceError
from fmnas.search_spaces.space import Configuration

INITIAL, RANDOM, MODEL, MUTATION, PROMOTION = "initial", "random", "model", "mutation", "promotion"
SUGGESTED = (INITIAL, RANDOM, MODEL, MUTATION, PROMOTION)
"""Where an optimizer takes a trial from: the initial design, chance, a model, a mutated parent, a promotion to more
epochs."""
WARM_START = "warm_start"
ORIGINS = (*SUGGESTED, WARM_START)
"""Where a trial came from: one of SUGGESTED, or an earlier experiment, which evaluated it."""

FAILED_FIT, FALLBACK = "failed fit", "fallback"
FALLBACKS = ("", FAILED_FIT, FALLBACK)
"""Whether chance chose in place of a model or a mutation: no; the model could not be fitted; for another reason."""

FINISHED, FAILED, LOST, TIMED_OUT, CANCELLED = "finished", "failed", "lost", "timed_out", "cancelled"
STATUSES = (FINISHED, FAILED, LOST, TIMED_OUT, CANCELLED)
"""How a trial ended: a diverged training is finished."""
CHARGED = (FINISHED, FAILED, TIMED_OUT)
"""The statuses that cost budget: the configuration brought them about. It is not to blame for a lost worker."""

_OLDER_NOTES = (
    (r"fit failed|the model failed and chance chose", FAILED_FIT),
    (r"fewer than two results to model|all results are equal|every candidate was tried before", FALLBACK),
    (r"none of .* feasible and chance chose", FALLBACK),
)


@dataclass(frozen=True)
class Trial:
    """A configuration to evaluate. Raises SpaceError for an origin or a fallback that is not known.

    id: number within its run, from 0 in the order asked.
    epochs: its fidelity: how many epochs each of its trainings lasts.
    origin: one of ORIGINS.
    parent: the trial it was promoted or mutated from.
    seed: what its trainings derive their randomness from; the driver sets it.
    memo: numbers that its optimizer wants back when history is replayed, e.g. fitted parameters to start from.
    fallback: one of FALLBACKS. note: what its optimizer wants known, for people; empty when all is well.
    """

    id: int
    configuration: Configuration
    epochs: int
    origin: str
    parent: int | None = None
    seed: int = 0
    note: str = ""
    memo: tuple[float, ...] = ()
    fallback: str = ""

    def __post_init__(self) -> None:
        if self.origin not in ORIGINS:  # at once: a report would refuse it after the last trial
            raise SpaceError(
                f"trial {self.id}: origin = {self.origin!r}: it must be one of {', '.join(ORIGINS)}; say which of them "
                "its configuration came from"
            )
        if self.fallback not in FALLBACKS:
            raise SpaceError(
                f"trial {self.id}: fallback = {self.fallback!r}: it must be one of {', '.join(map(repr, FALLBACKS))}; "
                "say anything more in its note"
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {**asdict(self), "memo": list(self.memo)}  # as JSON gives it back

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Trial":
        """The inverse of `to_dict`. Of older data, which have no fallback, the note tells it."""
        fallback = data.get("fallback", fallback_of_older(data.get("note", "")))
        return cls(**{**data, "memo": tuple(data.get("memo", ())), "fallback": fallback})


def is_full(epochs: Any, full: int) -> Any:
    """Whether a trial of so many epochs is at full fidelity, which alone makes an incumbent; of a column, each."""
    return epochs >= full


def fallback_of_older(note: str) -> str:
    """The fallback that a note tells of, in data from before trials had that field; empty for any other note."""
    return next((kind for pattern, kind in _OLDER_NOTES if re.match(pattern, note)), "")


@dataclass(frozen=True)
class Conditions:
    """How a trial was trained, and on what. Its numbers depend on it, by rounding.

    arrangement: how its trainings were arranged on the device, e.g. "fast". captured: whether steps were a CUDA graph.
    device: the model of a GPU, or "cpu".
    torch, cudnn: versions, the second as cuDNN counts them (91002 is 9.10.2); None where it computed nothing.
    """

    arrangement: str
    captured: bool
    device: str
    torch: str
    cudnn: int | None = None

    @property
    def way(self) -> str:
        """The arrangement in words, e.g. "stacked (captured)"."""
        return f"{self.arrangement} (captured)" if self.captured else self.arrangement


@dataclass(frozen=True)
class Evaluation:
    """What came out of a trial.

    objective: what is minimised.
    epochs: epochs trained, the unit of cost.
    errors: validation error of each seed after the last epoch (empty for a synthetic problem).
    flops, flops_ratio: of one forward pass of one image; the ratio is to the largest network of the space.
    curve: validation error after each epoch, averaged over seeds.
    seconds: wall-clock of the whole evaluation on its worker.
    diverged: whether any training's loss stopped being finite (its error is then that of guessing).
    conditions: how it was trained, and on what; None where its trainer does not say, and of older journals.
    """

    objective: float
    epochs: int = 1
    errors: tuple[float, ...] = ()
    flops: int | None = None
    flops_ratio: float | None = None
    curve: tuple[float, ...] = field(default=())
    seconds: float = 0.0
    diverged: bool = False
    conditions: Conditions | None = None

    @property
    def error(self) -> float | None:
        """Validation error averaged over seeds; None for a synthetic problem."""
        return sum(self.errors) / len(self.errors) if self.errors else None

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Evaluation":
        """The inverse of `to_dict`."""
        given = data.get("conditions")
        conditions = None if given is None else Conditions(**given)
        series = {name: tuple(data[name]) for name in ("errors", "curve")}
        return cls(**{**data, **series, "conditions": conditions})
