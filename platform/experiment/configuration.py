"""The configuration of an experiment: what its journal recorded, and what config.yaml says now.

The journal is the truth. In config.yaml a user may change MUTABLE_KEYS, and nothing else. If a driver crashed between
recording an extension and writing config.yaml, the file still has the configuration before it; it is then ignored.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from fmnas.platform.config.errors import extend_hint, version_hint
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config, TrackingConfig
from fmnas.platform.errors import ConfigError, RunDirectoryError, cut, legible
from fmnas.platform.experiment.events import Begun, Event, Extended
from fmnas.platform.experiment.journal import read_events
from fmnas.platform.experiment.run_directory import RunDirectory, write_text
from fmnas.platform.problems import is_user_defined
from fmnas.platform.registry import IN_MEMORY, split_reference

MUTABLE_KEYS = ("workers", "tracking", "data.root", "checkpoints.every", "hypotheses")
"""Keys that a resume may change: where and how fast trials run, and which differences a report tests.

They change results by rounding at most.
"""
EXTENDABLE_KEYS = ("repeats", "budget.evaluations", "budget.seconds", "optimizers")
"""Keys whose values `fmnas extend` may raise or add to."""


def config_events(events: Sequence[Event]) -> list[Begun | Extended]:
    """Return the events that hold a configuration: the beginning and every extension."""
    return [event for event in events if isinstance(event, Begun | Extended)]


def recorded_configs(directory: RunDirectory, events: Sequence[Event]) -> list[Config]:
    """Return the configuration at the beginning and after each extension. Raises ConfigError for an invalid one."""
    hint = version_hint()
    return [check_config(dict(event.config), str(directory.journal), hint) for event in config_events(events)]


def current_config(directory: RunDirectory, events: Sequence[Event]) -> Config:
    """Return the configuration of config.yaml; that of the journal if there is no such file.

    Raises RunDirectoryError if the file cannot be read, or differs from the journal in more than MUTABLE_KEYS.
    """
    recorded = recorded_configs(directory, events)
    data, latest = _read_yaml(directory), recorded[-1]
    if data is None:
        return latest
    config = check_config(data, str(directory.config), version_hint())
    if any(not _fixed_differences(earlier, config) for earlier in recorded[:-1]):
        return config.model_copy(update={key: getattr(latest, key) for key in ("repeats", "budget", "optimizers")})
    if changed := _fixed_differences(latest, config):
        lines = "\n".join(f"  {key} = {now!r}: the experiment has {before!r}" for key, (before, now) in changed.items())
        raise RunDirectoryError(
            f"{directory.config} was changed:\n{lines}\nRevert the change to resume, or run the new configuration in "
            f"a different directory. Only {', '.join(MUTABLE_KEYS)} may change."
            f"{extend_hint(changed, str(directory.root))}"
        )
    return config


def current_tracking(directory: RunDirectory) -> tuple[str, TrackingConfig]:
    """Return the experiment's name and its tracking settings; nothing else of the configuration is read.

    Raises RunDirectoryError if they cannot be read, or tracking is disabled.
    """
    data = _read_yaml(directory) or config_events(read_events(directory))[-1].config
    try:
        tracking = TrackingConfig.model_validate(data.get("tracking") or {})
    except ValidationError as error:
        details = error.errors()[0]
        key = ".".join(map(str, ("tracking", *details["loc"])))
        raise RunDirectoryError(f"{directory.config}: {key}: {details['msg']}: fix it there") from None
    require_tracking(tracking, directory)
    return str(data.get("name", "")), tracking


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
    if data is None or check_config(data, str(directory.config), version_hint()) != config:
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
    uses = [entry.get("use") for entry in (entries if isinstance(entries, list) else ()) if isinstance(entry, dict)]
    problem = config.get("problem")
    own = [problem] if isinstance(problem, str) and is_user_defined(problem) else []
    return list(dict.fromkeys([*own, *(use for use in uses if isinstance(use, str))]))


def announce_user_code(directory: RunDirectory, events: Sequence[Event], notify: Callable[[str], None]) -> None:
    """Notify which files and modules are about to be imported. Raises ConfigError if such a file is missing."""
    written = _read_yaml(directory)
    configs = [*(event.config for event in config_events(events)), *([] if written is None else [written])]
    modules = dict.fromkeys(split_reference(name)[0] for config in configs for name in user_references(config))
    modules.pop(IN_MEMORY, None)
    for module in modules:
        if module.endswith(".py") and not os.path.exists(module):
            raise ConfigError(
                f"{directory.root}: {cut(module)}: no such file; the experiment needs it to continue: restore it. "
                f"`fmnas {directory.command('report')}` does not need it"
            )
    if modules:
        notify(f"importing {', '.join(map(cut, modules))}, named in {directory.root}")


def _fixed_differences(before: Config, now: Config) -> dict[str, tuple[Any, Any]]:
    return {key: both for key, both in diff(before, now).items() if not is_under(key, MUTABLE_KEYS)}


def _read_yaml(directory: RunDirectory) -> dict[str, Any] | None:
    """Return the data of config.yaml, unchecked; None if there is no such file."""
    try:
        data = yaml.safe_load(directory.config.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RunDirectoryError(
            f"{directory.config} cannot be read ({legible(str(error))}): fix it, or delete it, and the configuration "
            "in the journal is used"
        ) from None
    return data if isinstance(data, dict) else {}
