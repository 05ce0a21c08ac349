"""The configuration of an experiment: YAML, checked by pydantic, every default filled in."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import Field, ValidationError

from fmnas.platform.config.checks import CHECKS, CHECKS_HERE
from fmnas.platform.config.dependent_keys import (
    ALL_PAIRS,
    AUTHORS,
    default_initial_points,
    default_kind,
    fall_back,
    without_effect,
)
from fmnas.platform.config.own_problem import completed, with_files_beside
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
from fmnas.platform.config.source import apply_overrides, parse, read_source
from fmnas.platform.errors import ConfigError
from fmnas.platform.messages import CALL, MEND, PUT_BACK, counted, describe, explain
from fmnas.platform.problems import Row, is_own, row_of, short_name
from fmnas.trainers.problem import AUTHORS_POINTS, DataSettings, ProblemSettings

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
    """How many random points the optimizers of a repeat share; or authors: repeat r, from 0, has the points that the
    BO-FM paper's run with seed r began with. null: a third of budget.evaluations, at least 1 and at most 10."""
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
        return ProblemSettings(
            DataSettings(**dict(self.data)),
            self.seeds,
            schedule_epochs=self.fidelity.epochs if self.checkpoints.continue_promoted else None,
            flops_weight=self.objective.flops_weight,
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
    for key in dict.fromkeys(key for key in keys if keys.count(key) > 1 and not key.endswith("+")):
        say(f"-o {key} is given {keys.count(key)} times: the last one counts")
    overridden = {key.removesuffix("+") for key in keys}
    for line in fall_back(data, before, overridden):
        say(line)
    workers = data.get("workers", {})
    if address is not None and isinstance(workers, dict) and workers.get("kind", AUTO) == AUTO:
        data["workers"] = {**workers, "kind": RAY}
    config = check_config(data, str(path), here=True)
    for line in without_effect(config, overridden, address):
        say(line)
    if is_own(config.problem) and "workers" not in data:
        name = short_name(config.problem)
        say(f"Ray's workers evaluate {name}: if that takes milliseconds, -o workers.kind=in-process starts sooner")
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
        data = {"fidelity": _STAND_INS["fidelity"], **data}
        advice = advice if advice in (MEND, CALL) else PUT_BACK
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        problems += [describe(e, Config) for e in error.errors()]
        wrong |= {key for e in error.errors() for key in e["loc"][:1]}
        config = Config.model_validate(_STAND_INS | {key: value for key, value in data.items() if key not in wrong})
    row = None if "problem" in wrong else row_of(config.problem)
    checks = {**CHECKS, **(CHECKS_HERE if here else {})}
    problems += [each for check, keys in checks.items() if not wrong & {*keys} for each in check(config, row)]
    if problems:
        raise ConfigError(explain(place, problems, advice))
    assert row is not None, "its absence is a problem"
    return _resolved(config, row)


_STAND_INS = {
    "name": "unnamed",
    "problem": "unknown",
    "optimizers": ["random"],
    "budget": {"evaluations": 1},
    "fidelity": {"epochs": 1},
}
"""Values for required keys that are missing or wrong, so that the other keys can be checked."""


def _resolved(config: Config, row: Row) -> Config:
    """A checked configuration with the values that follow from others, in place of null and auto."""
    settings, workers = row.complete(config.problem_settings), config.workers
    kind = workers.kind
    if kind == AUTO:
        kind = default_kind(workers, row, [entry.concurrency for entry in config.optimizers])
    sections = {
        "initial_design": config.initial_points if config.initial_design is None else config.initial_design,
        "data": config.data.model_copy(update=vars(settings.data)),
        "objective": config.objective.model_copy(update={"flops_weight": settings.flops_weight}),
        "workers": workers.model_copy(update={"kind": kind}),
    }
    return config.model_copy(update=sections)
