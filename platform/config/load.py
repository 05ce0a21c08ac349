"""Load a configuration from YAML, apply overrides, check it, and fill in every default."""

import copy
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from fmnas.platform.config.checks import CHECKS, MACHINE_CHECKS
from fmnas.platform.config.dependent_keys import PLACEHOLDERS, default_kind, fall_back, find_ineffective_keys
from fmnas.platform.config.errors import (
    CALL_HINT,
    EDIT_HINT,
    RESTORE_HINT,
    format_errors,
    format_problems,
    format_unknown,
)
from fmnas.platform.config.schema import AUTO, RAY, Config
from fmnas.platform.config.source import apply_overrides, find_repeated_keys, parse_yaml, read_source
from fmnas.platform.config.user_problem import fill_problem_defaults, resolve_files_beside
from fmnas.platform.errors import ConfigError
from fmnas.platform.problems import (
    ALIASES,
    PROBLEMS,
    ProblemEntry,
    display_name,
    find_problem,
    is_user_defined,
)


def load_config(
    source: str | Path,
    overrides: Sequence[str] = (),
    report: Callable[[str], None] = lambda _: None,
    address: str | None = None,
) -> Config:
    """The configuration of a new experiment on this machine, from a file or by the name of a shipped one.

    overrides: each `key=value`, or `key+=value` to append to a list. report: called with a line for each value that was
    changed because an override makes it meaningless, and for each that has no effect. address: of the Ray cluster to
    use, if any.

    Raises ConfigError that names every wrong key, its value and what is allowed.
    """
    path, text = read_source(source)
    data = parse_yaml(text, str(path))
    data.setdefault("name", path.stem)
    if path.is_file():
        resolve_files_beside(data, path.parent)
    before = copy.deepcopy(data)
    keys = apply_overrides(data, overrides)
    overridden = {key.removesuffix("+") for key in keys}
    for line in (*find_repeated_keys(keys), *fall_back(data, before, overridden)):
        report(line)
    workers = data.get("workers", {})
    if address is not None and isinstance(workers, dict) and workers.get("kind", AUTO) == AUTO:
        data["workers"] = {**workers, "kind": RAY}
    config = check_config(data, str(path), here=True)
    for line in find_ineffective_keys(config, overridden):
        report(line)
    if is_user_defined(config.problem) and "workers" not in data:
        report(
            f"{display_name(config.problem)} is evaluated by Ray's workers: if it takes milliseconds, "
            "-o workers.kind=in-process starts sooner"
        )
    return config


def check_config(data: dict[str, Any], place: str, advice: str = EDIT_HINT, here: bool = False) -> Config:
    """A checked Config from plain data, with the values of all keys that were left out.

    place: the name of its source in errors. advice: how to fix it there. here: whether it will run on this machine, so
    that its data, its MLflow store and a GPU for this process must be available.

    Raises ConfigError with everything that is wrong; a check that reads a wrong key is left out.
    """
    problems: list[str] = []
    wrong: set[str] = set()
    try:
        data = fill_problem_defaults(data)
    except ConfigError as error:
        problems, wrong = [str(error)], {"problem"}
        data = {"fidelity": PLACEHOLDERS["fidelity"], **data}
        advice = advice if advice in (EDIT_HINT, CALL_HINT) else RESTORE_HINT
    try:
        config = Config.model_validate(data)
    except ValidationError as error:
        problems += format_errors(error, Config, data)
        wrong |= {str(key) for item in error.errors() for key in item["loc"][:1]}
        right = {key: value for key, value in data.items() if str(key) not in wrong}
        config = Config.model_validate({**PLACEHOLDERS, **right})
    entry = find_problem(PLACEHOLDERS["problem"] if "problem" in wrong else config.problem)
    if entry is None:
        problems.append(
            f"{format_unknown('problem', config.problem, [*PROBLEMS, *ALIASES], 'fmnas list problems')} "
            "A user-defined problem is FILE.py:NAME or MODULE:NAME."
        )
        wrong.add("problem")
        entry = PROBLEMS[PLACEHOLDERS["problem"]]
    for check, keys in {**CHECKS, **(MACHINE_CHECKS if here else {})}.items():
        if not wrong & {*keys}:
            problems += check(config, entry)
    if problems:
        raise ConfigError(format_problems(place, problems, advice))
    return _resolve(config, entry)


def _resolve(config: Config, entry: ProblemEntry) -> Config:
    """The configuration with the values that follow from others in place of null and auto."""
    settings, workers = entry.with_defaults(config.problem_settings), config.workers
    kind = default_kind(workers, entry, [optimizer.concurrency for optimizer in config.optimizers])
    sections = {
        "initial_design": config.initial_points if config.initial_design is None else config.initial_design,
        "data": config.data.model_copy(update=vars(settings.data)),
        "objective": config.objective.model_copy(update={"flops_weight": settings.flops_weight}),
        "workers": workers.model_copy(update={"kind": kind if workers.kind == AUTO else workers.kind}),
    }
    return config.model_copy(update=sections)
