"""The configuration of an experiment: YAML, checked by pydantic, every default filled in."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from fmnas.optimizers.optimizer import OptimizerError
from fmnas.platform.config.own_problem import completed, with_files_beside
from fmnas.platform.config.sections import (
    BudgetConfig,
    CheckpointsConfig,
    DataConfig,
    FidelityConfig,
    Fixed,
    ObjectiveConfig,
    OptimizerConfig,
    Section,
    TrackingConfig,
    WorkersConfig,
    number_or,
)
from fmnas.platform.config.source import override, parse, read_source
from fmnas.platform.errors import ConfigError
from fmnas.platform.messages import CALL, MEND, PUT_BACK, counted, describe, explain, shown, unknown
from fmnas.platform.optimizers import OPTIMIZERS
from fmnas.platform.problems import ALIASES, PROBLEMS, Row, row_of, short_name
from fmnas.search_spaces.subspace import misfits
from fmnas.trainers.problem import AUTHORS_POINTS, USER_SETS, DataSettings, Problem, ProblemSettings

AUTHORS = "authors"
"""The initial design of the BO-FM paper's own runs."""
ALL_PAIRS = "all"
"""Hypotheses on every pair of optimizers; what the room `comparison` calls ALL, which takes long to import."""


class Config(Section):
    """An experiment: a problem, optimizers, repeats and an equal budget for each.

    What has no text here is a section, and its class says what it is.
    """

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")
    """Of the experiment, of its folder in runs/ and in MLflow; the file's name unless given."""
    problem: str
    """Of the registry (`fmnas list problems`), or one of your own: FILE.py:NAME, or MODULE:NAME; a file is looked for
    in the current folder, then beside the configuration."""
    optimizers: list[OptimizerConfig] = Field(min_length=1)
    """Who competes: names, or mappings with options."""
    repeats: int = Field(default=1, ge=1, le=1000)
    """How often each optimizer runs, each time from another seed and another initial design."""
    seed: int = Field(default=0, ge=0, lt=2**64)
    """What all randomness derives from."""
    initial_design: Annotated[int | Literal["authors"], number_or(AUTHORS, 0, 100_000)] = 10
    """How many random points the optimizers of a repeat share; or authors: with `seed: 0`, repeat r, from 0, has the
    ten points that the BO-FM paper's run with seed r began with; with any other seed, ten points drawn in the same way
    from a seed that depends on `seed` and on the repeat."""
    seeds: int = Field(default=4, ge=1, le=1000)
    """Trainings that are averaged in one evaluation."""
    budget: BudgetConfig
    fidelity: FidelityConfig
    on_failure: Literal["penalty", "skip"] = "penalty"
    """What an optimizer hears of a trial that failed or timed out: the problem's penalty as its objective, or nothing
    (skip); it is charged either way."""
    hypotheses: str = ALL_PAIRS
    """Which differences the report tests: all pairs, or one optimizer, by its label, against each of the rest."""
    fixed: Fixed = Field(default_factory=dict)
    """Variables that have one value in every trial; the optimizers choose the others."""
    objective: ObjectiveConfig = ObjectiveConfig()
    data: DataConfig = DataConfig()
    """What a real problem trains on."""
    workers: WorkersConfig = WorkersConfig()
    """Who trains."""
    checkpoints: CheckpointsConfig = CheckpointsConfig()
    """Whether trainings are kept while they run."""
    tracking: TrackingConfig = TrackingConfig()
    """MLflow."""

    @property
    def initial_points(self) -> int:
        """How many points the initial design has."""
        return AUTHORS_POINTS if self.initial_design == AUTHORS else int(self.initial_design)

    @property
    def concurrency(self) -> int:
        """How many trials all runs together may have in flight."""
        return self.repeats * sum(entry.concurrency for entry in self.optimizers)

    @property
    def problem_settings(self) -> ProblemSettings:
        """What it sets of its problem, for a search without checkpoints.

        Where promoted trials go on, every training's learning rate is planned for a full one.
        """
        planned = self.fidelity.epochs if self.checkpoints.continue_promoted else self.fidelity.schedule_epochs
        return ProblemSettings(
            DataSettings(**dict(self.data)),
            self.seeds,
            schedule_epochs=planned,
            flops_weight=self.objective.flops_weight,
            flops=self.objective.flops,
        )

    @property
    def in_a_line(self) -> str:
        """What it is, for a person."""
        who = ", ".join(entry.label for entry in self.optimizers)
        cost = f"{counted(self.budget.evaluations, 'evaluation')} of {counted(self.fidelity.epochs, 'epoch')}"
        return f"{self.name}: {who} on {short_name(self.problem)}, {counted(self.repeats, 'repeat')} of {cost}"

    def to_yaml(self) -> str:
        """The configuration with every default, as YAML that loads to the same."""
        return yaml.safe_dump(self.model_dump(mode="json"), sort_keys=False)


def load_config(source: str | Path, overrides: Sequence[str] = (), advice: str = MEND) -> Config:
    """Read a configuration file, or a shipped one by its name; apply overrides `key=value`; check everything.

    Raises ConfigError that names every offending key, its value, what is allowed and the next step, `advice`.
    """
    path, text = read_source(source)
    data = parse(text, str(path))
    data.setdefault("name", path.stem)
    if path.is_file():
        with_files_beside(data, path.parent)
    for each in overrides:
        override(data, each)
    return check_config(data, str(path), advice)


def check_config(data: dict[str, Any], place: str, advice: str = MEND) -> Config:
    """A checked Config from plain data; `place` names its source in errors, and `advice` says how to mend it there."""
    try:
        config = Config.model_validate(completed(data))
    except ConfigError as error:
        raise ConfigError(explain(place, [str(error)], advice if advice in (MEND, CALL) else PUT_BACK)) from None
    except ValidationError as error:
        raise ConfigError(explain(place, [describe(e, Config) for e in error.errors()], advice)) from None
    row = row_of(config.problem)
    problems = [each for check in _CHECKS for each in check(config, row)]
    if problems:
        raise ConfigError(explain(place, problems, advice))
    assert row is not None, "its absence is a problem"
    settings = row.complete(config.problem_settings)
    sections = {
        "data": config.data.model_copy(update=vars(settings.data)),
        "objective": config.objective.model_copy(update={"flops_weight": settings.flops_weight}),
    }
    return config.model_copy(update=sections)


def _check_names(config: Config, row: Row | None) -> list[str]:
    found = []
    if row is None:
        wrong = unknown("problem", config.problem, [*PROBLEMS, *ALIASES], "fmnas list problems")
        found.append(f"{wrong} One of your own is FILE.py:NAME or MODULE:NAME.")
    for i, entry in enumerate(config.optimizers):
        if entry.use is None and entry.name not in OPTIMIZERS:
            found.append(unknown(f"optimizers.{i}", entry.name, list(OPTIMIZERS), "fmnas list optimizers"))
    labels = [entry.label for entry in config.optimizers]
    found += [
        f"optimizers: {label!r} is given twice: leave one out or, to compare its options, tell them apart by labels: "
        f"{{name: {label}, label: {label}-2, KEY: VALUE}}"
        for label in dict.fromkeys(labels)
        if labels.count(label) > 1
    ]
    if config.hypotheses not in {ALL_PAIRS, *labels}:
        found.append(
            f"hypotheses = {config.hypotheses!r}: it must be {ALL_PAIRS}, for every pair, or the one optimizer of this "
            f"configuration that is tested against each of the rest: {', '.join(dict.fromkeys(labels))}"
        )
    return found


def _check_options(config: Config, _: Row | None) -> list[str]:
    """Of the optimizers that have some, or are a user's: the others' defaults are good, and they need not be loaded."""
    found = []
    for i, entry in enumerate(config.optimizers):
        if entry.use is not None or (entry.options and entry.name in OPTIMIZERS):
            try:
                entry.row.complete(entry.options)
            except ValidationError as error:
                schema, place, besides = entry.row.options, ("optimizers", i), ("concurrency", "warm_start")
                found += [describe(each, schema, place, besides) for each in error.errors()]
            except OptimizerError as error:
                found.append(f"optimizers.{i}.{error}")
            except (ConfigError, TypeError) as error:
                found.append(f"optimizers.{i}.use = {shown(entry.use)}: {error}")
    return found


def _check_design(config: Config, row: Row | None) -> list[str]:
    if config.initial_design != AUTHORS or row is None:
        return []
    if config.fixed:
        why = "of the whole space, and fixed leaves a part of it"
    elif not _has_authors_points(row):
        able = ", ".join(name for name, other in PROBLEMS.items() if _has_authors_points(other))
        why = f"known for {able}, not for {config.problem}"
    else:
        return []
    return [f"initial_design = {AUTHORS!r}: the authors' points are {why}; give a number of random points"]


def _has_authors_points(row: Row) -> bool:
    return row.problem(ProblemSettings()).has_authors_points


def _check_budget(config: Config, _: Row | None) -> list[str]:
    if config.budget.evaluations > config.initial_points:
        return []
    takers = [entry.label for entry in config.optimizers if entry.warm_start is None and _takes_design(entry)]
    if not takers:
        return []
    points = f" ({config.initial_points} points)" if config.initial_design == AUTHORS else ""
    return [
        f"budget.evaluations = {config.budget.evaluations}: it must exceed initial_design = "
        f"{config.initial_design!r}{points}, or {', '.join(takers)} would have nothing left to choose; "
        "raise the one or lower the other"
    ]


def _check_warm_starts(config: Config, _: Row | None) -> list[str]:
    return [
        f"optimizers.{i}.warm_start = {shown(entry.warm_start)}: {entry.label} takes no initial design, in whose place "
        "an optimizer hears of earlier trials; leave it out"
        for i, entry in enumerate(config.optimizers)
        if entry.warm_start is not None and _takes_design(entry) is False
    ]


def _takes_design(entry: OptimizerConfig) -> bool | None:
    """None where there is no such optimizer, which is said of its `name` or `use`."""
    try:
        return entry.row.takes_initial_design
    except (KeyError, ConfigError):
        return None


def _check_data(config: Config, row: Row | None) -> list[str]:
    given = {key: value for key, value in config.data if value is not None}
    if row is None or not given:
        return []
    takes = row.settable.data
    has_none = isinstance(row.found, Problem) and not row.found.dataset
    without = "none, it has no data" if has_none else "none, its data are fixed"
    taken = ", ".join(f"data.{key}" for key in takes) or without
    found = [
        f"data.{key} = {shown(value)}: {config.problem} does not take it (of data.* it takes {taken}); leave it out"
        for key, value in given.items()
        if key not in takes
    ]
    early, complete = config.data.early_validation, row.complete(config.problem_settings).data
    if not found and complete.name in USER_SETS and complete.root is None:
        found.append(
            f"data.root: missing; data.name = {complete.name} needs a folder with its IDX files, or an .npz file"
        )
    if not found and early is not None and complete.validation is not None and early > complete.validation:
        found.append(f"data.early_validation = {early}: it must be at most data.validation, {complete.validation}")
    return found


def _check_fidelity(config: Config, row: Row | None) -> list[str]:
    epochs, planned = config.fidelity.epochs, config.fidelity.schedule_epochs
    if row is None or planned is None:
        return []
    if not row.settable.schedule:
        able = ", ".join(name for name, other in PROBLEMS.items() if other.settable.schedule)
        allowed = f"{config.problem} has no learning rates to plan ({able} has); leave it out"
    elif planned < epochs:
        allowed = f"it must be at least fidelity.epochs, {epochs}, since no trial may outlast its schedule; raise it"
    elif planned > epochs and config.checkpoints.continue_promoted:
        allowed = f"with checkpoints.continue_promoted it must be fidelity.epochs, {epochs}; leave it out"
    else:
        return []
    return [f"fidelity.schedule_epochs = {planned}: {allowed}"]


def _check_checkpoints(config: Config, row: Row | None) -> list[str]:
    chosen = config.checkpoints
    wanted = {key: value for key, value in chosen if value is not None and value is not False}
    if row is not None and wanted and not row.settable.checkpoints:
        able = ", ".join(name for name, other in PROBLEMS.items() if other.settable.checkpoints)
        return [
            f"checkpoints.{key} = {shown(value)}: {config.problem} keeps no checkpoints ({able} does); leave it out"
            for key, value in wanted.items()
        ]
    if chosen.continue_promoted and chosen.every is None:
        return [
            "checkpoints.continue_promoted = true: it needs checkpoints.every, the epochs between two checkpoints; "
            "set that, e.g. to 5, or leave continue_promoted out"
        ]
    return []


def _check_objective(config: Config, row: Row | None) -> list[str]:
    defaults = ObjectiveConfig()
    changed = {key: value for key, value in config.objective if value != getattr(defaults, key)}
    if row is None or not changed or row.settable.flops_weight is not None:
        return []
    able = ", ".join(name for name, other in PROBLEMS.items() if other.settable.flops_weight is not None)
    return [
        f"objective.{key} = {shown(value)}: the objective of {config.problem} has no FLOPs in it (that of {able} "
        "does); leave it out"
        for key, value in changed.items()
    ]


def _check_fixed(config: Config, row: Row | None) -> list[str]:
    return misfits(row.problem(config.problem_settings).space, config.fixed) if row and config.fixed else []


_CHECKS = (
    *(_check_names, _check_options, _check_design, _check_budget, _check_warm_starts),
    *(_check_data, _check_fidelity, _check_checkpoints, _check_objective, _check_fixed),
)
"""Each: what is wrong in a configuration, whose problem has that row, if there is one of its name."""
