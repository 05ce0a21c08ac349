"""The configuration of an experiment: what its journal recorded, and what config.yaml says now.

The journal is the truth. In config.yaml a user may change MUTABLE_KEYS, and nothing else. If a driver crashed between
recording an extension and writing config.yaml, the file still has the configuration before it; it is then ignored.

`fmnas extend` resumes an experiment with a configuration in which EXTENDABLE_KEYS have grown. The seed of a trial
follows from the experiment's seed, its repeat and its number, and that of an optimizer from the experiment's seed, the
repeat and its label. So more repeats, another optimizer and a larger budget leave the results so far unchanged, and
paired with those to come. One thing differs: an optimizer that knows its budget knew the smaller one before; reports
state that.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from fmnas.platform.config.errors import RESTORE_HINT, format_problems, format_value
from fmnas.platform.config.load import check_config, find_labels
from fmnas.platform.config.schema import SIMULATED, Config, OptimizerConfig, TrackingConfig, expand_entry
from fmnas.platform.config.source import apply_overrides, parse_yaml
from fmnas.platform.errors import ConfigError, RunDirectoryError, legible, truncate
from fmnas.platform.experiment.events import Begun, Event, Extended
from fmnas.platform.experiment.run_directory import RunDirectory, write_text
from fmnas.platform.problems import is_user_defined
from fmnas.platform.references import IN_MEMORY, RECORDED, import_reference, split_reference

MUTABLE_KEYS = ("workers", "tracking", "data.root", "checkpoints.every", "hypotheses")
"""Keys that a resume may change: where and how fast trials run, and which differences a report tests.

With one trial at a time they change results by rounding at most; with several, also the order in which they end.
"""
EXTENDABLE_KEYS = ("repeats", "budget.evaluations", "budget.seconds", "optimizers")
"""Keys whose values `fmnas extend` may raise or add to."""
EXTEND_HINT = (
    f"Nothing was written. {', '.join(EXTENDABLE_KEYS)} may grow by `fmnas extend DIR -o KEY=VALUE`, and "
    f"{', '.join(MUTABLE_KEYS)} may change. For any other change, `fmnas run` the configuration in a new directory."
)


def config_events(events: Sequence[Event]) -> list[Begun | Extended]:
    """Return the events that hold a configuration: the beginning and every extension."""
    return [event for event in events if isinstance(event, Begun | Extended)]


def recorded_configs(directory: RunDirectory, events: Sequence[Event]) -> list[Config]:
    """Return the configuration at the beginning and after each extension. Raises ConfigError for an invalid one."""
    return [check_saved_config(event.config, directory.journal) for event in config_events(events)]


def current_config(directory: RunDirectory, events: Sequence[Event]) -> Config:
    """Return the configuration of config.yaml; that of the journal if there is no such file.

    Raises RunDirectoryError if the file cannot be read, or differs from the journal in more than MUTABLE_KEYS.
    """
    recorded = recorded_configs(directory, events)
    data, latest = _read_yaml(directory), recorded[-1]
    if data is None:
        return latest
    config = check_saved_config(data, directory.config)
    if any(not _fixed_differences(earlier, config) for earlier in recorded[:-1]):
        return config.model_copy(update={key: getattr(latest, key) for key in ("repeats", "budget", "optimizers")})
    if changed := _fixed_differences(latest, config):
        lines = [
            f"{key} = {format_value(now)}: it was {format_value(before)}" for key, (before, now) in changed.items()
        ]
        raise RunDirectoryError(
            format_problems(f"{directory.config} was changed", lines, f"Restore the file. {EXTEND_HINT}")
        )
    return config


def check_saved_config(data: Mapping[str, Any], place: Path) -> Config:
    """Return the configuration that a file of a run directory has. Raises ConfigError, which says how to restore it."""
    for use in user_references(data):
        if split_reference(use)[0] == IN_MEMORY:
            import_reference(use)  # raises, with the call to repeat, if it is not in memory
    return check_config(dict(data), str(place), RESTORE_HINT)


def extended_config(config: Config, overrides: Sequence[str], root: Path) -> Config:
    """Return the configuration with overrides, as `KEY=VALUE`, with the labels of optimizers replaced by their entries.

    Repeating `optimizers+=NEW` adds nothing: of several entries with the label of a present optimizer, the last counts.
    root: the run directory, for messages. Raises ConfigError as `check_extension`.
    """
    place = f"the experiment in {root}"
    if not overrides:
        raise ConfigError(f"{place}: nothing to extend: pass -o KEY=VALUE. {EXTEND_HINT}")
    data = config.model_dump(mode="json")
    apply_overrides(data, overrides)
    present = {entry.label: entry.model_dump(mode="json") for entry in config.optimizers}
    if isinstance(data["optimizers"], list):
        entries = [present.get(entry, entry) if isinstance(entry, str) else entry for entry in data["optimizers"]]
        labels = find_labels(entries)
        data["optimizers"] = [
            entry
            for i, (label, entry) in enumerate(zip(labels, entries, strict=True))
            if label not in [*present] or label not in labels[i + 1 :]
        ]
    if lowered := list(
        _find_lowered(config, data, ["repeats", "budget.evaluations"])
    ):  # else a check says how much the rest of it would need
        raise ConfigError(format_problems(place, lowered, EXTEND_HINT))
    after = check_config(data, place, EXTEND_HINT)
    check_extension(config, after, root)
    added = [entry for entry in after.optimizers if entry.label not in present]
    return after.model_copy(update={"optimizers": [*config.optimizers, *added]})


def check_extension(before: Config, after: Config, root: Path) -> dict[str, Any]:
    """Return key -> [before, after] of what has grown; optimizers by their labels.

    Raises ConfigError, naming every key, if the later configuration changes what was done with the earlier one.
    """
    if errors := list(_find_refused_changes(before, after)):
        raise ConfigError(format_problems(f"the experiment in {root}", errors, EXTEND_HINT))
    old, new = (
        flatten(config) | {"optimizers": [entry.label for entry in config.optimizers]} for config in (before, after)
    )
    return {key: [old[key], new[key]] for key in EXTENDABLE_KEYS if old[key] != new[key]}


def _find_lowered(before: Any, after: Any, keys: Sequence[str]) -> Iterator[str]:
    """Yield a line for each number that may only grow and is lower; for budget.seconds, None means no limit."""
    for key, (old, new) in diff(before, after).items():
        if key in keys and isinstance(new, int | float) and (old is None or new < old):
            yield f"{key} = {format_value(new)}: cannot be lowered from {format_value(old)}"


def _find_refused_changes(before: Config, after: Config) -> Iterator[str]:
    """Yield a line for each key that neither may change nor has grown."""
    yield from _find_lowered(before, after, EXTENDABLE_KEYS)
    for key, (old, new) in diff(before, after).items():
        if not (key in EXTENDABLE_KEYS or _may_change(key, old, new) or is_under(key, ["optimizers"])):
            yield f"{key} = {format_value(new)}: cannot change; the experiment has {format_value(old)}"
    now = {entry.label: entry for entry in after.optimizers}
    for entry in before.optimizers:
        if entry.label not in now:
            yield f"optimizers: {entry.label} cannot be removed: write -o optimizers+=NEW to add one"
        elif optimizer_settings(entry) != optimizer_settings(now[entry.label]):
            yield f"optimizers: the options of {entry.label} cannot change: add it with another label"


def optimizer_settings(entry: OptimizerConfig) -> dict[str, Any]:
    """Return everything that decides what an optimizer suggests: its class, options, concurrency and warm start."""
    plain = entry.model_dump(mode="json", include={"name", "use", "concurrency", "warm_start"})
    return {**plain, **entry.settings}


def require_tracking(tracking: TrackingConfig, directory: RunDirectory) -> None:
    """Raise RunDirectoryError if tracking is disabled."""
    if not tracking.enabled:
        raise RunDirectoryError(
            f"{directory.config}: tracking.enabled = false: nothing was logged to MLflow. Set it to true, and "
            f"`fmnas {directory.command('sync')}` logs the experiment"
        )


def save_config(config: Config, directory: RunDirectory) -> None:
    """Write config.yaml, unless it holds just this configuration."""
    data = _read_yaml(directory)
    if data is None or check_saved_config(data, directory.config) != config:
        write_text(directory.config, config.to_yaml())


def flatten(data: Any, prefix: str = "") -> dict[str, Any]:
    """Return nested data, or a configuration, as dotted keys."""
    if isinstance(data, Config):
        data = data.model_dump(mode="json")
    if isinstance(data, Mapping):
        items = [(str(key), value) for key, value in data.items()]
    elif isinstance(data, list):
        items = [(str(i), value) for i, value in enumerate(data)]
    else:
        return {prefix: data}
    return {key: value for name, part in items for key, value in flatten(part, f"{prefix}.{name}".lstrip(".")).items()}


def diff(before: Any, now: Any) -> dict[str, tuple[Any, Any]]:
    """Return dotted key -> (before, now), of what differs between nested data or configurations."""
    old, new = flatten(before), flatten(now)
    return {key: (old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)}


def is_under(key: str, names: Iterable[str]) -> bool:
    """Whether a dotted key is one of these names, or below one."""
    return any(key == name or key.startswith(f"{name}.") for name in names)


def user_references(config: Mapping[str, Any]) -> list[str]:
    """Return the import references of a configuration, as plain data, that are not in the registries."""
    entries = config.get("optimizers")
    items = [expand_entry(entry) for entry in (entries if isinstance(entries, list) else ())]
    uses = [item.get("use") for item in items if isinstance(item, dict)]
    problem = config.get("problem")
    own = [problem] if isinstance(problem, str) and is_user_defined(problem) else []
    return list(dict.fromkeys([*own, *(use for use in uses if isinstance(use, str))]))


def announce_user_code(directory: RunDirectory, events: Sequence[Event], notify: Callable[[str], None]) -> None:
    """Notify which files and modules are about to be imported."""
    configs = [*(event.config for event in config_events(events)), _read_yaml(directory) or {}]
    modules = dict.fromkeys(split_reference(name)[0] for config in configs for name in user_references(config))
    code = [module for module in modules if module not in (IN_MEMORY, RECORDED)]
    if code:
        notify(f"importing {', '.join(map(truncate, code))}, named in {directory.root}")


def _fixed_differences(before: Config, now: Config) -> dict[str, tuple[Any, Any]]:
    return {key: both for key, both in diff(before, now).items() if not _may_change(key, *both)}


def _may_change(key: str, before: Any, now: Any) -> bool:
    """Whether a resume may change the value of a key: real and simulated time are not mixed."""
    return is_under(key, MUTABLE_KEYS) and not (key == "workers.kind" and SIMULATED in (before, now))


def _read_yaml(directory: RunDirectory) -> dict[str, Any] | None:
    """Return the data of config.yaml, unchecked; None if there is no such file."""
    try:
        return parse_yaml(directory.config.read_text(encoding="utf-8"), directory.config.name)
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise RunDirectoryError(
            f"{directory.config} cannot be read ({legible(str(error))}): fix it, or delete it, and the configuration "
            "in the journal is used"
        ) from None
