"""The configuration of an experiment: YAML, checked by pydantic, every default filled in."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from fmnas.optimizers.optimizer import OptimizerError
from fmnas.platform.config.dependent_keys import (
    ALL_PAIRS,
    AUTHORS,
    STAND_INS,
    default_initial_points,
    default_kind,
    fall_back,
    without_effect,
)
from fmnas.platform.config.errors import CALL, MEND, PUT_BACK, counted, describe, explain, shown, unknown
from fmnas.platform.config.machine_checks import CHECKS_HERE, Check
from fmnas.platform.config.sections import (
    AUTO,
    RAY,
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
from fmnas.platform.config.source import apply_overrides, parse, read_source, replaced
from fmnas.platform.config.user_problem import completed, with_files_beside
from fmnas.platform.errors import ConfigError
from fmnas.platform.optimizers import OPTIMIZERS
from fmnas.platform.problems import ALIASES, PROBLEMS, Row, is_own, row_of, short_name
from fmnas.search_spaces.subspace import fixed_value_errors
from fmnas.trainers.problem import AUTHORS_POINTS, USER_SETS, DataSettings, Problem, ProblemSettings

__all__ = ["ALL_PAIRS", "AUTHORS", "Config", "check_config", "load_config"]


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
    initial_design: Annotated[int | Literal["authors"] | None, number_or(AUTHORS, 0, 100_000, null=True)] = None
    """How many random points the optimizers of a repeat share; or authors: with `seed: 0`, repeat r, from 0, has the
    ten points of the BO-FM paper's run with seed r; with another seed, ten points drawn in the same way, from a seed
    that depends on `seed` and on the repeat. null: a third of budget.evaluations, at least 1 and at most 10."""
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
        if self.initial_design is None:
            return default_initial_points(self.budget.evaluations)
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


def _say_nothing(_: str) -> None: ...


def load_config(
    source: str | Path,
    overrides: Sequence[str] = (),
    say: Callable[[str], None] = _say_nothing,
    address: str | None = None,
) -> Config:
    """The configuration of a new experiment on this machine: of a file, or a shipped one by its name.

    overrides: each `key=value`, or `key+=value` for one more entry of a list. say: called with a line for each value
    that an override left without a meaning, and that was changed, and for each that has no effect. address: of the Ray
    cluster that is to be used; None without one.

    Raises ConfigError that names every offending key, its value, what is allowed and the next step.
    """
    path, text = read_source(source)
    data = parse(text, str(path))
    data.setdefault("name", path.stem)
    if path.is_file():
        with_files_beside(data, path.parent)
    before = copy.deepcopy(data)
    keys = apply_overrides(data, overrides)
    overridden = {key.removesuffix("+") for key in keys}
    for line in (*replaced(keys), *fall_back(data, before, overridden)):
        say(line)
    workers = data.get("workers", {})
    if address is not None and isinstance(workers, dict) and workers.get("kind", AUTO) == AUTO:
        data["workers"] = {**workers, "kind": RAY}
    config = check_config(data, str(path), here=True)
    for line in without_effect(config, overridden):
        say(line)
    if is_own(config.problem) and "workers" not in data:
        say(
            f"Ray's workers evaluate {short_name(config.problem)}: where that takes milliseconds, "
            "-o workers.kind=in-process starts sooner"
        )
    return config


def check_config(data: dict[str, Any], place: str, advice: str = MEND, here: bool = False) -> Config:
    """A checked Config from plain data, with the values of all keys that were left out.

    place: names its source in errors. advice: says how to correct it there. here: whether it is to be run on this
    machine, so that its data, its MLflow store and a GPU for this process must be here.

    Raises ConfigError with everything that is wrong: only a check that reads a wrong key is left out.
    """
    problems: list[str] = []
    wrong: set[str] = set()
    try:
        data = completed(data)
    except ConfigError as error:
        problems, wrong = [str(error)], {"problem"}
        data = {"fidelity": STAND_INS["fidelity"], **data}
        advice = advice if advice in (MEND, CALL) else PUT_BACK
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        problems += [describe(e, Config) for e in error.errors()]
        wrong |= {str(key) for e in error.errors() for key in e["loc"][:1]}
        config = Config.model_validate(STAND_INS | {key: value for key, value in data.items() if str(key) not in wrong})
    row = None if "problem" in wrong else row_of(config.problem)
    checks = {**_CHECKS, **(CHECKS_HERE if here else {})}
    problems += [each for check, keys in checks.items() if not wrong & {*keys} for each in check(config, row)]
    if problems:
        raise ConfigError(explain(place, problems, advice))
    assert row is not None, "its absence is a problem"
    return _resolved(config, row)


def _resolved(config: Config, row: Row) -> Config:
    """A checked configuration with the values that follow from others, in place of null and auto."""
    settings, workers = row.complete(config.problem_settings), config.workers
    auto = default_kind(workers, row, [entry.concurrency for entry in config.optimizers])
    sections = {
        "initial_design": config.initial_points if config.initial_design is None else config.initial_design,
        "data": config.data.model_copy(update=vars(settings.data)),
        "objective": config.objective.model_copy(update={"flops_weight": settings.flops_weight}),
        "workers": workers.model_copy(update={"kind": auto if workers.kind == AUTO else workers.kind}),
    }
    return config.model_copy(update=sections)


def _check_problem(config: Config, row: Row | None) -> list[str]:
    if row is not None:
        return []
    wrong = unknown("problem", config.problem, [*PROBLEMS, *ALIASES], "fmnas list problems")
    return [f"{wrong} One of your own is FILE.py:NAME or MODULE:NAME."]


def _check_names(config: Config, _: Row | None) -> list[str]:
    labels = [entry.label for entry in config.optimizers]
    return [
        unknown(f"optimizers.{i}", entry.name, list(OPTIMIZERS), "fmnas list optimizers")
        for i, entry in enumerate(config.optimizers)
        if entry.use is None and entry.name not in OPTIMIZERS
    ] + [
        f"optimizers: {label!r} is given twice: leave one out or, to compare its options, tell them apart by labels: "
        f"{{name: {label}, label: {label}-2, KEY: VALUE}}"
        for label in dict.fromkeys(labels)
        if labels.count(label) > 1
    ]


def _check_hypotheses(config: Config, _: Row | None) -> list[str]:
    labels = dict.fromkeys(entry.label for entry in config.optimizers)
    if config.hypotheses in {ALL_PAIRS, *labels}:
        return []
    return [
        f"hypotheses = {config.hypotheses!r}: it must be {ALL_PAIRS}, for every pair, or the one optimizer of this "
        f"configuration that is tested against each of the rest: {', '.join(labels)}"
    ]


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
    takers = dict.fromkeys(
        entry.label for entry in config.optimizers if entry.warm_start is None and _takes_design(entry)
    )
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
    return fixed_value_errors(row.problem(config.problem_settings).space, config.fixed) if row and config.fixed else []


_CHECKS: dict[Check, tuple[str, ...]] = {
    _check_problem: ("problem",),
    _check_names: ("optimizers",),
    _check_hypotheses: ("optimizers", "hypotheses"),
    _check_options: ("optimizers",),
    _check_design: ("problem", "initial_design", "fixed"),
    _check_budget: ("optimizers", "initial_design", "budget"),
    _check_warm_starts: ("optimizers",),
    _check_data: ("problem", "data"),
    _check_fidelity: ("problem", "fidelity", "checkpoints"),
    _check_checkpoints: ("problem", "checkpoints"),
    _check_objective: ("problem", "objective"),
    _check_fixed: ("problem", "fixed"),
}
"""Check -> the keys that it reads. A check returns what is wrong, given the row of the problem, if there is one."""
