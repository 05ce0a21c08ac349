"""The records that optimizers, driver and trainers exchange: frozen, and JSON-serializable."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from fmnas.search_spaces.errors import SpaceError
from fmnas.search_spaces.space import Configuration

INITIAL, RANDOM, MODEL, MUTATION, PROMOTION = "initial", "random", "model", "mutation", "promotion"
SUGGESTED = (INITIAL, RANDOM, MODEL, MUTATION, PROMOTION)
"""Origins of an optimizer's trial: initial design, random draw, model, mutated parent, or promotion to more epochs."""
WARM_START = "warm_start"
ORIGINS = (*SUGGESTED, WARM_START)
"""All origins: those of SUGGESTED, and an earlier experiment that evaluated the configuration."""

FAILED_FIT, FALLBACK = "failed fit", "fallback"
FALLBACKS = ("", FAILED_FIT, FALLBACK)
"""Whether a random draw replaced a model or a mutation: no; the model could not be fitted; for a different reason."""

FINISHED, FAILED, LOST, TIMED_OUT, CANCELLED = "finished", "failed", "lost", "timed_out", "cancelled"
STATUSES = (FINISHED, FAILED, LOST, TIMED_OUT, CANCELLED)
"""How a trial ended; a diverged training is finished."""
CHARGED = (FINISHED, FAILED, TIMED_OUT)
"""The statuses that count towards the budget. A lost worker is not the configuration's fault."""


@dataclass(frozen=True)
class Trial:
    """A configuration to evaluate. Raises SpaceError for an unknown origin or fallback.

    id: number within the run, from 0 in the order asked.
    epochs: the fidelity, in epochs per training.
    origin: one of ORIGINS. parent: id of the trial that it was promoted or mutated from.
    seed: seed of its trainings. run: name of its run, which owns its checkpoints. The driver sets both.
    memo: numbers that the optimizer gets back in `restore`, e.g. fitted parameters to start from.
    fallback: one of FALLBACKS. note: a remark of the optimizer for the user; usually empty.
    first_seeds, stop_above: the trial ends after this many trainings if their objective is above this; the driver sets
    both. None: it has all its trainings.
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
    first_seeds: int | None = None
    stop_above: float | None = None
    run: str = ""

    def __post_init__(self) -> None:
        for name, value, known in (("origin", self.origin, ORIGINS), ("fallback", self.fallback, FALLBACKS)):
            if value not in known:  # at once: a report would refuse it after the last trial
                raise SpaceError(f"trial {self.id}: {name} = {value!r}; it must be one of {known}")

    def loses_race(self, objective: float) -> bool:
        """Whether the trial ends after its first trainings. objective: of these."""
        return self.stop_above is not None and objective > self.stop_above

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable data."""
        return {**asdict(self), "memo": list(self.memo)}

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Trial":
        """Invert `to_dict`."""
        return cls(**{**data, "memo": tuple(data.get("memo", ()))})


def is_full(epochs: Any, full: int) -> Any:
    """Return whether `epochs`, a number or a column, is full fidelity. Only such trials can be incumbents."""
    return epochs >= full


@dataclass(frozen=True)
class Conditions:
    """Software and hardware of a trial's trainings; results depend on them by rounding.

    arrangement: how the trainings share the device, e.g. "fast". captured: whether the steps were a CUDA graph.
    device: the GPU's model name, or "cpu".
    torch, cudnn: versions; cuDNN's as its number (91002 is 9.10.2), None if cuDNN was not used.
    """

    arrangement: str
    captured: bool
    device: str
    torch: str
    cudnn: int | None = None

    @property
    def label(self) -> str:
        """A label of the arrangement, e.g. "stacked (captured)"."""
        return f"{self.arrangement} (captured)" if self.captured else self.arrangement


@dataclass(frozen=True)
class Evaluation:
    """The result of a trial.

    objective: the value to minimise.
    epochs: epochs trained, the unit of cost.
    errors: validation error per seed after the last epoch (empty for synthetic problems).
    flops, flops_ratio: FLOPs of one image's forward pass; their ratio to those of the space's largest network.
    curve: validation error per epoch, averaged over seeds.
    seconds: wall-clock time of the evaluation on its worker.
    diverged: whether any training's loss became non-finite (its error is then that of guessing).
    conditions: software and hardware of the trainings; None if the trainer does not report them.
    seed_curves: [seeds][epochs], the curve of each seed; empty if the trainer does not report them.
    values: of a function with several objectives, the value of each; empty for any other.
    share: of the trial's trainings that ran; below 1 if it was stopped after its first ones.
    extrapolated: whether a surrogate predicted it far from all that it was fitted to.
    system_metrics: what it used of its worker's machine, by name; empty unless measured. No part of the result.
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
    seed_curves: tuple[tuple[float, ...], ...] = ()
    values: tuple[float, ...] = ()
    share: float = 1.0
    extrapolated: bool = False
    system_metrics: Mapping[str, float] = field(default_factory=dict, compare=False)

    @property
    def error(self) -> float | None:
        """Validation error averaged over seeds; None for synthetic problems."""
        return sum(self.errors) / len(self.errors) if self.errors else None

    @property
    def objectives(self) -> tuple[float, ...]:
        """What an optimizer of several objectives minimises.

        The values of a function that has several; of a network its error and flops_ratio; else the objective alone.
        """
        if self.values:
            return self.values
        if self.error is not None and self.flops_ratio is not None:
            return self.error, self.flops_ratio
        return (self.objective,)

    def to_dict(self) -> dict[str, Any]:
        """Return JSON-serializable data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Evaluation":
        """Invert `to_dict`."""
        conditions = None if data.get("conditions") is None else Conditions(**data["conditions"])
        series: dict[str, Any] = {name: tuple(data[name]) for name in ("errors", "curve")}
        series["seed_curves"] = tuple(map(tuple, data.get("seed_curves", ())))
        series["values"] = tuple(data.get("values", ()))
        return cls(**{**data, **series, "conditions": conditions})
