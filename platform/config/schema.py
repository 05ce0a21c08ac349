"""The schema of a configuration: its keys, types, bounds and defaults.

The text below each key is its description in docs/configuration.md and in what `fmnas config` prints.
"""

import json
import os
import re
from functools import cached_property
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from fmnas.platform.config.errors import format_count
from fmnas.platform.config.source import dump_yaml
from fmnas.platform.config.uri import check_no_password, make_absolute
from fmnas.platform.problems import display_name
from fmnas.platform.references import absolute_reference, find_plugins
from fmnas.platform.registry import OPTIMIZERS, OptimizerEntry
from fmnas.trainers.problem import AUTHORS_POINTS, Arrangement, DataSettings, FlopsConvention, Hardware, ProblemSettings

IN_PROCESS: Final = "in-process"
"""The value of workers.kind for which the driver trains in its own process."""
RAY: Final = "ray"
"""The value of workers.kind for which Ray actors train."""
SIMULATED: Final = "simulated"
"""The value of workers.kind for which the driver's process evaluates trials, and their time is computed."""
AUTO: Final = "auto"
INSTANT: Final = "instant"
"""The value of workers.suggestions for which a suggestion takes no simulated time."""
ALL_PAIRS = "all"
"""The value of hypotheses for tests of every pair; `comparison` has the same as ALL, but is slow to import."""
AUTHORS = "authors"
"""The value of initial_design for the points of the BO-FM paper's runs."""
MAX_SECONDS = 1e9
"""About thirty years; timers of the operating system overflow at a few times that."""
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
"""A name that becomes part of the names of runs and files."""
MIN_RESOURCE = 0.0001
"""The smallest share of a CPU or GPU that Ray can count."""


def check_name(name: str) -> str:
    """Return the name. Raises ValueError if it cannot be part of a file's name."""
    if not NAME_PATTERN.fullmatch(name):
        raise ValueError("must be letters, digits, '.', '_' or '-', of which the first is a letter or a digit")
    return name


def check_no_nan(value: Any) -> Any:
    """Return the value of an option. Raises ValueError if it is NaN, or holds one: it would differ from itself."""
    if json.loads(json.dumps(value)) != value:
        raise ValueError("must not be NaN")
    return value


class Section(BaseModel):
    """A mapping with known keys and strict types."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, allow_inf_nan=False, use_attribute_docstrings=True
    )


class BudgetConfig(Section):
    """The budget of each run."""

    evaluations: int = Field(ge=1, le=10_000_000, examples=["20"])
    """Full trainings of each optimizer in each repeat; shorter trainings cost their epochs: the budget in epochs is
    evaluations x fidelity.epochs."""
    seconds: float | None = Field(default=None, gt=0, le=MAX_SECONDS, examples=["86400"])
    """Limit of training plus suggestion time; no trial starts after it. null: no limit."""
    trial_seconds: float | None = Field(default=None, gt=0, le=MAX_SECONDS, examples=["3600"])
    """Limit of one trial; a trial that exceeds it is stopped and has status timed_out. null: no limit."""


class FidelityConfig(Section):
    """The full fidelity. May be left out for a user-defined problem, and for a problem without epochs."""

    epochs: int = Field(ge=1, le=1_000_000, examples=["5"])
    """Epochs of a full training; 1 for a problem without epochs."""
    schedule_epochs: int | None = Field(default=None, ge=1, le=1_000_000, examples=["25"])
    """The epochs that the learning-rate schedule spans. With fidelity.epochs, a shorter trial is the beginning of a
    full one, as in the BO-FM paper's runs of BOHB. null: each trial's own epochs; with checkpoints.continue_promoted,
    fidelity.epochs. Retraining always uses its own epochs."""


class WorkersConfig(Section):
    """The pool of workers."""

    kind: Literal["auto", "ray", "in-process", "simulated"] = AUTO
    """ray; in-process: one trial at a time in the driver's process, for a debugger and for functions that take
    milliseconds; simulated: in the driver's process, too, but time is computed, and a trial takes the seconds that its
    evaluation reports; auto: simulated for a recorded problem, in-process for the synthetic and engineering functions
    of the registry unless count, cpus, gpus, an optimizer's concurrency or --address is given, else ray."""
    count: Annotated[int, Field(ge=1, le=100_000)] | Literal["auto"] = AUTO
    """Number of workers. auto: what fits on the cluster and the runs can use; simulated, what the runs can use."""
    autoscale: bool = False
    """Whether all `count` workers (auto: what the runs can use) are requested from Ray although they do not fit yet, so
    that Ray's autoscaler adds nodes for them. For a cluster with an autoscaler, by --address."""
    cpus: float = Field(default=1, ge=MIN_RESOURCE, le=100_000)
    """CPUs per worker. A worker with several trains that many seeds of its trial in parallel."""
    gpus: float = Field(default=0, ge=0, le=1)
    """GPUs per worker, at most 1: a worker trains on one GPU; with a fraction, workers share one; with 0 it trains on
    CPUs. Several workers use several GPUs."""
    arrangement: Arrangement = "auto"
    """How a worker trains the seeds of one evaluation. auto: the fastest (fast on CPUs, stacked on GPUs); plain is the
    reference implementation."""
    attempts: int = Field(default=3, ge=1, le=1_000_000)
    """Maximum attempts of a trial whose workers are lost."""
    failures: int = Field(default=5, ge=1, le=1_000_000)
    """Consecutive failed, timed-out or lost trials that end the experiment."""
    grace_seconds: float = Field(default=30, ge=0, le=MAX_SECONDS)
    """Seconds that Ctrl-C and SIGTERM wait for running trials; simulated, 0."""
    system_metrics: bool = False
    """Whether workers measure what each trial uses of processors, memory and GPU; MLflow shows it with the trial. Every
    node needs `pip install psutil`, for GPUs also `nvidia-ml-py`."""
    suggestions: Literal["measured", "instant"] = "measured"
    """How much simulated time an ask or a tell takes: its measured seconds, during which the driver serves no worker,
    or none. With instant, the seconds of suggestions are not recorded, and the same seed gives the same times."""

    @model_validator(mode="after")
    def _check_gpus(self) -> "WorkersConfig":
        if 0 < self.gpus < MIN_RESOURCE:
            raise ValueError(f"gpus must be 0, or at least {MIN_RESOURCE}")
        if self.arrangement == "fast" and self.gpus > 0:
            raise ValueError("arrangement fast is for CPUs: set gpus to 0, or arrangement to auto")
        return self

    @property
    def hardware(self) -> Hardware:
        """The hardware of one worker; the driver's own process trains with one thread."""
        threads = 1 if self.is_in_driver else max(1, int(self.cpus))
        return Hardware("cuda" if self.gpus > 0 else "cpu", threads, self.arrangement)

    @property
    def is_in_driver(self) -> bool:
        """Whether trials are evaluated in the driver's process."""
        return self.kind in (IN_PROCESS, SIMULATED)

    @property
    def is_simulated(self) -> bool:
        """Whether time is computed."""
        return self.kind == SIMULATED


class DataConfig(Section):
    """The data of a real problem. A key that is null has the problem's own value."""

    name: Literal["fashion_mnist", "digits", "mnist", "kmnist", "own"] | None = Field(default=None, examples=["digits"])
    """The data set. digits is small and needs no network. mnist, kmnist and own (any images of 28 x 28 in up to ten
    classes) are read from files in root."""
    root: Annotated[str, AfterValidator(os.path.expanduser), AfterValidator(os.path.abspath)] | None = Field(
        default=None, examples=["/a/folder"]
    )
    """The folder or .npz file with the data, or svm_boston's file; stored as an absolute path. null: FashionMNIST's
    usual places."""
    train: int | None = Field(default=None, ge=1, examples=["2000"])
    """Number of training images."""
    validation: int | None = Field(default=None, ge=1, examples=["2000"])
    """Number of validation images; none of them is a training image."""
    batch_size: int | None = Field(default=None, ge=1, examples=["64"])
    """Images per step of SGD."""
    early_validation: int | None = Field(default=None, ge=1, examples=["500"])
    """How many of the validation images (the first of them) measure each epoch before a trial's last. The last epoch,
    and so the objective, uses all of them. null: all."""


class ObjectiveConfig(Section):
    """The objective of the joint problem."""

    flops_weight: float | None = Field(default=None, ge=0, le=1000, examples=["0.05"])
    """Weight of FLOPs / FLOPs of the largest network, which is added to the error; 0: the error alone. null: the
    problem's own, 0.02."""
    flops: FlopsConvention = Field(default="torch", examples=["pthflops"])
    """How FLOPs are counted. torch: two per multiply-add of convolutions and the fully connected layer. pthflops, as in
    the BO-FM paper: one, and biases, BatchNorm, ReLU, max pools and sums count, too."""


FixedValue = Annotated[str, Field(max_length=200)] | bool | Annotated[int, Field(gt=-(2**64), lt=2**64)] | float


class CheckpointsConfig(Section):
    """Checkpoints of running trainings.

    With continue_promoted, files of shorter trials, up to 2.4 megabytes per training, are kept until a full trial has
    continued from them or the experiment is done.
    """

    every: int | None = Field(default=None, ge=1, le=1_000_000, examples=["5"])
    """Epochs between checkpoints, which are written to the run directory. null: none. A trial that is repeated because
    its worker was lost or the experiment interrupted continues from the last ones, with the same results. On a cluster,
    all nodes must share the run directory."""
    continue_promoted: bool = False
    """Whether a trial that is promoted to more epochs continues the training of the trial that it promotes, with its
    seed. Learning rates are then planned for fidelity.epochs, so a promoted trial has the results of an uninterrupted
    training. false, as in BOHB's paper: a promoted trial trains from scratch, and learning rates are planned for each
    trial's own epochs. Either way all epochs of a promoted trial are charged: the budget does not depend on whether a
    file was found."""


StoreUri = Annotated[str, Field(min_length=1), AfterValidator(check_no_password), AfterValidator(make_absolute)]


class TrackingConfig(Section):
    """MLflow."""

    enabled: bool = True
    """Whether results are sent to MLflow."""
    uri: StoreUri | None = Field(default=None, examples=["http://mlflow.example:5000"])
    """MLflow's server or store, without a password. null: SQLite in the run directory."""
    experiment: str | None = Field(default=None, min_length=1, examples=["my-experiment"])
    """Name of the MLflow experiment. null: the experiment's name."""


def expand_entry(entry: Any) -> Any:
    """An optimizer's entry as a mapping: NAME is {name: NAME}, FILE.py:CLASS {name: CLASS, use: FILE.py:CLASS}."""
    fields = {"name": entry} if isinstance(entry, str) else entry
    if not isinstance(fields, dict):
        return fields
    name = fields.get("name")
    use = fields.get("use", name)
    if not isinstance(use, str) or not (":" in use or use.endswith(".py")):
        return fields
    return {**fields, "use": use, "name": os.path.basename(use.rpartition(":")[2]) if name in (None, use) else name}


class OptimizerConfig(Section, allow_inf_nan=True, ser_json_inf_nan="constants"):
    """One optimizer. A bare name is short for {name: NAME}; other keys than these are the optimizer's own options."""

    name: str = Field(examples=["bo-fm"])
    """A name of the registry (`fmnas list optimizers`); with `use`, any name. mine.py:Mine in its place is short for
    {name: Mine, use: mine.py:Mine}."""
    use: Annotated[str, AfterValidator(absolute_reference)] | None = Field(default=None, examples=["mine.py:Mine"])
    """The class of a user-defined optimizer, as "module:Class" or "FILE.py:Class". A file is searched for in the
    current folder, then beside the configuration; stored as an absolute path."""
    label: Annotated[str, AfterValidator(check_name)] = Field(default="", max_length=40, examples=["bo-fm-moddif"])
    """Its name in tables, curves, files and MLflow; must be unique. Default: the name."""
    concurrency: int = Field(default=1, ge=1, le=100_000)
    """Number of trials that may run at the same time."""
    warm_start: Annotated[str, Field(pattern=r"^[^\x00-\x1f]+$")] | None = Field(
        default=None, examples=["runs/earlier:random"]
    )
    """An earlier run directory, or DIR:LABEL for one of its optimizers: instead of the shared initial design, repeat r
    starts from the finished full trials of its repeat r. They are charged, but not trained again. null: none."""
    options: dict[str, Annotated[JsonValue, AfterValidator(check_no_nan)]] = Field(
        default_factory=dict, examples=["{kernel: moddif}"]
    )
    """The optimizer's own options; they may also be written beside the name, which counts if both are given."""

    @cached_property
    def implementation(self) -> OptimizerEntry:
        """The optimizer of the registry, or the user-defined one. Raises KeyError for an unknown name."""
        return OPTIMIZERS[self.name] if self.use is None else OptimizerEntry(self.name, self.use, "")

    @property
    def settings(self) -> dict[str, Any]:
        """All options with defaults. Raises as `OptimizerEntry.validate_options`."""
        return self.implementation.validate_options(self.options)

    @model_validator(mode="before")
    @classmethod
    def _collect_options(cls, value: Any) -> Any:
        """Expand a bare name, and move unknown keys into options."""
        value = expand_entry(value)
        if not isinstance(value, dict):
            return value
        if "name" not in value:
            raise ValueError("name is missing: write {name: NAME, KEY: VALUE}")
        entry = {key: inner for key, inner in value.items() if key in cls.model_fields}
        entry.setdefault("label", entry["name"])
        name = entry["name"]
        if isinstance(name, str) and name not in OPTIMIZERS and (use := find_plugins("fmnas.optimizers").get(name)):
            entry.setdefault("use", use)
        options = entry.get("options", {})
        if isinstance(options, dict):
            entry["options"] = options | {key: inner for key, inner in value.items() if key not in cls.model_fields}
        return entry


class Config(Section):
    """An experiment: a problem, and optimizers with an equal budget."""

    name: Annotated[str, AfterValidator(check_name)] = Field(max_length=100, examples=["my-experiment"])
    """Name of the experiment, of its folder in runs/ and in MLflow; defaults to the file's name."""
    problem: str = Field(examples=["joint"])
    """A name of the registry (`fmnas list problems`); a user-defined problem as FILE.py:NAME or MODULE:NAME; or the
    results that `fmnas record` wrote, as recorded:FILE.npz. A file is searched for in the current folder, then beside
    the configuration."""
    optimizers: list[OptimizerConfig] = Field(min_length=1, examples=["[bo-fm, random]"])
    """The optimizers to compare: names, or mappings with options."""
    repeats: int = Field(default=1, ge=1, le=1000)
    """Runs of each optimizer, each with a different seed and initial design."""
    seed: int = Field(default=0, ge=0, lt=2**64)
    """The seed of all randomness."""
    initial_design: Annotated[int, Field(ge=0, le=100_000)] | Literal["authors"] | None = None
    """Number of random points that the optimizers of a repeat share. authors: with `seed: 0`, repeat r (from 0) has the
    ten points of the BO-FM paper's run with seed r; with a different seed, ten points drawn in the same way, from a
    seed that depends on `seed` and on the repeat. null: a third of budget.evaluations, from 1 to 10; with a single
    evaluation, 0."""
    seeds: int = Field(default=4, ge=1, le=1000)
    """Trainings that are averaged in one evaluation."""
    racing: int | None = Field(default=None, ge=1, examples=["1"])
    """Seeds after which a trial at full fidelity is stopped if it is clearly worse than the incumbent of its run; it is
    charged for these alone, and its optimizer learns their average. Fewer than `seeds`. null: every trial has all."""
    budget: BudgetConfig = Field(examples=["{evaluations: 20}"])
    fidelity: FidelityConfig = Field(examples=["{epochs: 5}"])
    on_failure: Literal["penalty", "skip"] = "penalty"
    """How an optimizer learns of a trial that failed or timed out. penalty: by the problem's penalty as the
    objective; skip: not at all. The trial is charged either way."""
    hypotheses: str = ALL_PAIRS
    """Which differences the report tests. all: every pair; or the label of one optimizer: it against each other one."""
    fixed: dict[str, FixedValue] = Field(default_factory=dict, examples=["{op1: conv3x3, output: 3}"])
    """Variables with the same value in every trial; the optimizers choose the others."""
    objective: ObjectiveConfig = ObjectiveConfig()
    data: DataConfig = Field(default=DataConfig(), examples=["{root: /a/folder}"])
    """The data that a real problem trains on."""
    workers: WorkersConfig = Field(default=WorkersConfig(), examples=["{cpus: 1}"])
    checkpoints: CheckpointsConfig = Field(default=CheckpointsConfig(), examples=["{every: 5}"])
    tracking: TrackingConfig = Field(default=TrackingConfig(), examples=["{experiment: my-experiment}"])

    @property
    def initial_points(self) -> int:
        """Number of points of the initial design; by default a third of the evaluations, from 1 to 10, but fewer."""
        if self.initial_design is None:
            evaluations = self.budget.evaluations
            return min(10, max(1, evaluations // 3), evaluations - 1)
        return AUTHORS_POINTS if self.initial_design == AUTHORS else int(self.initial_design)

    @property
    def concurrency(self) -> int:
        """Number of trials that all runs together may have in flight."""
        return self.repeats * sum(entry.concurrency for entry in self.optimizers)

    @property
    def problem_settings(self) -> ProblemSettings:
        """The settings of its problem. If promoted trials continue, learning rates are planned for full trainings."""
        planned = self.fidelity.epochs if self.checkpoints.continue_promoted else self.fidelity.schedule_epochs
        return ProblemSettings(
            DataSettings(**dict(self.data)),
            self.seeds,
            schedule_epochs=planned,
            flops_weight=self.objective.flops_weight,
            flops=self.objective.flops,
        )

    @property
    def summary_line(self) -> str:
        """The experiment in one line."""
        labels = ", ".join(entry.label for entry in self.optimizers)
        cost = f"{format_count(self.budget.evaluations, 'evaluation')} of {format_count(self.fidelity.epochs, 'epoch')}"
        return (
            f"{self.name}: {labels} on {display_name(self.problem)}, {format_count(self.repeats, 'repeat')} of {cost}"
        )

    def to_yaml(self) -> str:
        """The configuration with every default, as YAML that loads to the same."""
        return dump_yaml(self.model_dump(mode="json"))
