"""Load a configuration from YAML, apply overrides, check it, and fill in every default."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

from pydantic import ValidationError

from fmnas.platform.config.checks import CHECKS, DRIVER_CHECKS, LOCAL_CHECKS, Checks, find_ineffective_keys
from fmnas.platform.config.errors import EDIT_HINT, format_errors, format_problems, format_unknown
from fmnas.platform.config.schema import AUTHORS, AUTO, IN_PROCESS, RAY, SIMULATED, Config, expand_entry
from fmnas.platform.config.source import apply_overrides, parse_yaml, read_source
from fmnas.platform.config.user_problem import fill_problem_defaults, resolve_files_beside
from fmnas.platform.errors import ConfigError
from fmnas.platform.problems import ALIASES, PROBLEMS, ProblemEntry, find_problem, resolve_alias
from fmnas.trainers.problem import AUTHORS_POINTS

PLACEHOLDERS: Mapping[str, Any] = {
    "name": "unnamed",
    "problem": "func2c",
    "optimizers": ["random"],
    "budget": {"evaluations": 1},
    "fidelity": {"epochs": 1},
}
"""Values for required keys that are missing or wrong, so that the other keys can be checked."""


def load_config(
    source: str | Path,
    overrides: Sequence[str] = (),
    report: Callable[[str], None] = lambda _: None,
    address: str | None = None,
) -> Config:
    """The configuration of a new experiment, from a file or by the name of a shipped one.

    overrides: each `key=value`, or `key+=value` to append to a list. report: called with a line about values that an
    override makes meaningless, which were dropped, and one about each value without effect. address: of the Ray
    cluster to use, if any.

    Raises ConfigError that names every wrong key, its value and what is allowed.
    """
    path, text = read_source(source)
    data = parse_yaml(text, str(path))
    data.setdefault("name", path.stem)
    if path.is_file():
        resolve_files_beside(data, path.parent)
    labels, problem = find_labels(data.get("optimizers")), data.get("problem")
    keys = apply_overrides(data, overrides)
    if dropped := _drop_meaningless_values(data, labels, problem, keys):
        report(f"left out of the configuration, as an override makes them meaningless: {', '.join(dropped)}")
    data.setdefault("name", Path(str(data.get("problem")).rpartition(":")[2]).stem)
    workers = data.get("workers", {})
    if address is not None and isinstance(workers, dict) and workers.get("kind", AUTO) == AUTO:
        data["workers"] = {**workers, "kind": RAY}
    config = check_config(data, str(path), machine=LOCAL_CHECKS if address is None else DRIVER_CHECKS)
    entry = find_problem(config.problem)
    assert entry is not None, "it was checked"
    for line in find_ineffective_keys(config, entry):
        report(f"without effect: {line}")
    return config


def _drop_meaningless_values(
    data: dict[str, Any], labels: Sequence[Any], problem: Any, overridden: set[str]
) -> list[str]:
    """Drop the values of a file that an override makes meaningless; returns their keys.

    With another problem, those of the old one, also its name for the experiment, and for a function, which has no
    epochs, `fidelity`; with other optimizers, `hypotheses` about one that is gone; with a smaller budget or `fixed`, an
    initial design that does not fit. data: the configuration with its overrides, which is changed. labels, problem: the
    file's. overridden: the keys of the overrides, whose values stay.
    """
    keys: list[tuple[str, ...]] = []
    changed = {key.partition(".")[0] for key in overridden}
    is_other_problem = "problem" in overridden and resolve_alias(str(problem)) != resolve_alias(str(data["problem"]))
    if is_other_problem:
        sections = {name: data.get(name) for name in ("data", "objective", "checkpoints", "fixed")}
        keys = [(name, str(key)) for name, values in sections.items() if isinstance(values, dict) for key in values]
        keys += [(key,) for key in ("seeds", "racing") if key in data]
        keys += [("name",)] if data["name"] == problem else []
        loses_epochs = _is_function(data["problem"]) and not _is_function(problem)
        keys += [("fidelity",)] if loses_epochs and "fidelity" in data and "fidelity" not in changed else []
    design, budget = data.get("initial_design"), data.get("budget")
    is_unknown = design == AUTHORS and (is_other_problem or "fixed" in changed)
    keys += [("initial_design",)] if is_unknown or ("budget" in changed and _uses_up(design, budget)) else []
    hypotheses, now = data.get("hypotheses"), find_labels(data.get("optimizers"))
    keys += [("hypotheses",)] if hypotheses in labels and now and hypotheses not in now else []
    dropped = [key for key in keys if not overridden & {".".join(key), key[0]}]
    for *section, name in dropped:
        (data[section[0]] if section else data).pop(name, None)
    return [".".join(key) for key in dropped]


def _is_function(name: Any) -> bool:
    """Whether a problem is a function of the registry, which has the same value after any number of epochs."""
    entry = find_problem(str(name))
    return entry is not None and entry.takes_milliseconds


def _uses_up(design: Any, budget: Any) -> bool:
    """Whether an initial design leaves nothing of a budget. Both: as in the plain data of a configuration."""
    points = AUTHORS_POINTS if design == AUTHORS else design
    evaluations = budget.get("evaluations") if isinstance(budget, dict) else None
    return isinstance(points, int) and isinstance(evaluations, int) and points >= evaluations


def find_labels(entries: Any) -> list[Any]:
    """Return the labels of the value of the key `optimizers`; none if it is not a list."""
    items = [expand_entry(entry) for entry in (entries if isinstance(entries, list) else ())]
    return [item.get("label") or item.get("name") if isinstance(item, dict) else item for item in items]


def check_config(
    data: dict[str, Any], place: str, advice: str = EDIT_HINT, machine: Checks = MappingProxyType({})
) -> Config:
    """A checked Config from plain data, with the values of all keys that were left out.

    place: the name of its source in errors. advice: how to fix it there. machine: checks of this machine.

    Raises ConfigError with everything that is wrong: checks that read a wrong key are left out.
    """
    problems: list[str] = []
    wrong: set[str] = set()
    try:
        data = fill_problem_defaults(data)
    except ConfigError as error:
        problems, wrong = [str(error)], {"problem"}
        data = {"fidelity": PLACEHOLDERS["fidelity"], **data, "problem": PLACEHOLDERS["problem"]}
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        problems += format_errors(error, Config, data)
        wrong |= {str(details["loc"][0]) for details in error.errors() if details["loc"]}
        kept = {key: value for key, value in data.items() if str(key) not in wrong}
        config = Config.model_validate({**PLACEHOLDERS, **kept})
    entry = find_problem(config.problem)
    if entry is None:
        unknown = format_unknown("problem", config.problem, [*PROBLEMS, *ALIASES], "fmnas list problems")
        problems.append(f"{unknown} A user-defined problem is FILE.py:NAME or MODULE:NAME.")
        wrong, entry = wrong | {"problem"}, PROBLEMS[PLACEHOLDERS["problem"]]
    resolved = _resolve(config, entry)
    for checks, checked in ((CHECKS, config), (machine, resolved)):
        problems += [line for check, read in checks.items() if not wrong & read for line in check(checked, entry)]
    if problems:
        raise ConfigError(format_problems(place, problems, advice))
    return resolved


def _resolve(config: Config, entry: ProblemEntry) -> Config:
    """The configuration with the values that follow from others in place of null and auto."""
    settings, workers = entry.with_defaults(config.problem_settings), config.workers
    kind = workers.kind
    if kind == AUTO and entry.is_recorded:
        kind = SIMULATED
    elif kind == AUTO:  # in-process for a function that takes milliseconds, unless several workers are asked for
        is_concurrent = any(optimizer.concurrency > 1 for optimizer in config.optimizers)
        wants_workers = is_concurrent or workers.model_fields_set & {"count", "cpus", "gpus", "autoscale"}
        kind = IN_PROCESS if entry.takes_milliseconds and not wants_workers else RAY
    sections = {
        "initial_design": config.initial_points if config.initial_design is None else config.initial_design,
        "data": config.data.model_copy(update=vars(settings.data)),
        "objective": config.objective.model_copy(update={"flops_weight": settings.flops_weight}),
        "workers": workers.model_copy(update={"kind": kind, **({"grace_seconds": 0.0} if kind == SIMULATED else {})}),
    }
    return config.model_copy(update=sections)
