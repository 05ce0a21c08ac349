"""The configuration of an experiment: what its journal says it began with and has grown to, and what lies there now.

The journal is the truth. In config.yaml a user may change what is FREE_TO_CHANGE, and nothing else. A driver that died
between the record of an extension and the writing of config.yaml left the file of before there: it is taken for that.
"""

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import yaml
from pydantic import ValidationError

from fmnas.platform.config.errors import extend_hint, version_hint
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import Config, TrackingConfig
from fmnas.platform.environment import driver_in_words, provenance, same_fmnas
from fmnas.platform.errors import ConfigError, RunDirectoryError, cut, legible
from fmnas.platform.experiment.journal import DRIVER, Record, experiment_records, stages
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.problems import is_user_defined
from fmnas.platform.registry import IN_MEMORY, split_reference

FREE_TO_CHANGE = ("workers", "tracking", "data.root", "checkpoints.every", "hypotheses")
"""What a resume may change: where and how fast trials run, and which differences a report tests.

What comes out of the trials changes by rounding at most.
"""

GROWING = ("repeats", "budget.evaluations", "budget.seconds", "optimizers")
"""What an extension may add to."""


def recorded_configs(directory: RunDirectory, records: Sequence[Record]) -> list[Config]:
    """What the experiment began with, and what it was after each extension; keys that came later have their defaults.

    records: of the journal, from its first. Raises ConfigError for a configuration that this fmnas does not take.
    """
    advice = _advice(records)
    return [check_config(record["config"], str(directory.journal), advice) for record in stages(records)]


def current_config(directory: RunDirectory, records: Sequence[Record]) -> Config:
    """The configuration as it lies there now; that of the journal where there is no file any more.

    Raises RunDirectoryError where the file cannot be read, or differs from the journal in what is not free to change.
    """
    recorded = recorded_configs(directory, records)
    config, latest = _written(directory, _advice(records)), recorded[-1]
    if config is None:
        return latest
    if any(not _changed(stage, config) for stage in recorded[:-1]):
        return config.model_copy(update={key: getattr(latest, key) for key in ("repeats", "budget", "optimizers")})
    if changed := _changed(latest, config):
        has = "has grown to" if len(recorded) > 1 else "began with"
        lines = "\n".join(
            f"  {key} = {now!r}: the experiment {has} {before!r}" for key, (before, now) in changed.items()
        )
        raise RunDirectoryError(
            f"{directory.config} was changed:\n{lines}\nPut it back to resume, or run the new configuration into "
            f"another directory. Only {', '.join(FREE_TO_CHANGE)} may change."
            f"{extend_hint(changed, str(directory.root))}"
        )
    return config


def current_tracking(directory: RunDirectory) -> tuple[str, TrackingConfig]:
    """The experiment's name, and where MLflow keeps it, as it lies there now. Nothing else of the configuration is
    looked at: a problem's file may be gone, and its store is still there to be seen.

    Raises RunDirectoryError where that cannot be read, or MLflow was told nothing.
    """
    data = _read(directory) or stages(experiment_records(directory))[-1]["config"]
    try:
        tracking = TrackingConfig.model_validate(data.get("tracking") or {})
    except ValidationError as error:
        found = error.errors()[0]
        raise RunDirectoryError(
            f"{directory.config}: {'.'.join(map(str, ('tracking', *found['loc'])))}: {found['msg']}: mend it there"
        ) from None
    check_tracked(tracking, directory)
    return str(data.get("name", "")), tracking


def check_tracked(tracking: TrackingConfig, directory: RunDirectory) -> None:
    """Raise RunDirectoryError where MLflow is told nothing."""
    if not tracking.enabled:
        raise RunDirectoryError(
            f"{directory.config} says tracking.enabled = false: MLflow has nothing of this experiment; say true there, "
            f"and `fmnas {directory.command('sync')}` sends it"
        )


def is_written(config: Config, directory: RunDirectory) -> bool:
    """Whether config.yaml says just this."""
    return _written(directory, version_hint()) == config


def flat(data: Any, prefix: str = "") -> dict[str, Any]:
    """Nested data, or a configuration, as dotted keys."""
    if isinstance(data, Config):
        data = data.model_dump(mode="json")
    if isinstance(data, Mapping):
        items = [(str(key), value) for key, value in data.items()]
    elif isinstance(data, list):
        items = [(str(i), value) for i, value in enumerate(data)]
    else:
        return {prefix: data}
    return {key: value for name, part in items for key, value in flat(part, f"{prefix}.{name}".lstrip(".")).items()}


def differences(before: Any, now: Any) -> dict[str, tuple[Any, Any]]:
    """Dotted key -> (before, now), of what differs in nested data or configurations."""
    old, new = flat(before), flat(now)
    return {key: (old.get(key), new.get(key)) for key in {**old, **new} if old.get(key) != new.get(key)}


def is_within(key: str, names: Iterable[str]) -> bool:
    """Whether a dotted key is one of these, or stands below one."""
    return any(key == name or key.startswith(f"{name}.") for name in names)


def names_of(data: Mapping[str, Any]) -> list[str]:
    """What a configuration, as plain data, names that is not in the registries: its problem, and optimizers."""
    entries = data.get("optimizers")
    uses = [entry.get("use") for entry in (entries if isinstance(entries, list) else ()) if isinstance(entry, dict)]
    problem = data.get("problem")
    own = [problem] if isinstance(problem, str) and is_user_defined(problem) else []
    return list(dict.fromkeys([*own, *(use for use in uses if isinstance(use, str))]))


def check_own_code(directory: RunDirectory, records: Sequence[Record], say: Callable[[str], None]) -> None:
    """Say which files and modules are about to be imported, because the experiment names them.

    records: of the journal, from its first. Raises ConfigError where such a file is gone.
    """
    written = _read(directory)
    data = [*(record["config"] for record in stages(records)), *([] if written is None else [written])]
    modules = [split_reference(name)[0] for each in data for name in names_of(each)]
    modules = [module for module in dict.fromkeys(modules) if module != IN_MEMORY]
    for module in modules:
        if module.endswith(".py") and not os.path.exists(module):
            raise ConfigError(
                f"{directory.root}: {cut(module)} cannot be imported: the file is gone. The experiment needs it to go "
                f"on: put it back there, and try again. `fmnas {directory.command('report')}` does not need it"
            )
    if modules:
        say(f"importing {', '.join(map(cut, modules))}: the configuration in {directory.root} names this code")


def _changed(before: Config, now: Config) -> dict[str, tuple[Any, Any]]:
    """Of what is not free to change."""
    return {key: both for key, both in differences(before, now).items() if not is_within(key, FREE_TO_CHANGE)}


def _written(directory: RunDirectory, advice: str) -> Config | None:
    """What config.yaml says; None where there is none."""
    data = _read(directory)
    return None if data is None else check_config(data, str(directory.config), advice)


def _read(directory: RunDirectory) -> dict[str, Any] | None:
    """The data of config.yaml, unchecked; None where there is none."""
    try:
        data = yaml.safe_load(directory.config.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise RunDirectoryError(
            f"{directory.config} cannot be read ({legible(str(error))}): mend it, or remove it, and the configuration "
            "in the journal takes its place"
        ) from None
    return data if isinstance(data, dict) else {}


def _advice(records: Sequence[Record]) -> str:
    """What to do about a configuration in a run directory that this fmnas does not take."""
    driver = next((record for record in records if record["event"] == DRIVER), None)
    known = driver is not None and not same_fmnas(driver, provenance())
    return version_hint(driver_in_words(driver) if driver is not None and known else None)
