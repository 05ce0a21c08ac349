"""What an experiment began with: whether its data, and the file of a user's own problem, are still the same.

environment.json keeps their SHA-256, of those that can be others next time: a user's own.
"""

import json
from typing import Any

from fmnas.platform.config.config import Config
from fmnas.platform.errors import RunDirectoryError, legible
from fmnas.platform.problems import own_file
from fmnas.platform.record.run_directory import RunDirectory
from fmnas.trainers.problem import Data

PROBLEM_DIGEST = "problem_sha256"
"""In environment.json: of the file of a user's own problem, as the experiment began with it."""
DATA_DIGEST = "data_sha256"
"""In environment.json: of data that a user gave, as the experiment began with them."""


def read_environment(directory: RunDirectory) -> dict[str, Any]:
    """environment.json; in its place, where it cannot be read, why."""
    try:
        data = json.loads(directory.environment.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        return {directory.environment.name: f"cannot be read: {legible(str(error))}"}
    return data if isinstance(data, dict) else {directory.environment.name: "holds no JSON object"}


def described(data: Data | None) -> dict[str, str]:
    """Where the data were found and, of those that a user gave, their digest."""
    if data is None:
        return {}
    digest = getattr(data, "digest", "")
    return {"data": data.place, **({DATA_DIGEST: digest} if digest else {})}


def data_digest(directory: RunDirectory) -> str:
    """Of the data that the experiment began with; empty where it had none that a user gave."""
    return str(read_environment(directory).get(DATA_DIGEST, ""))


def check_same_data(data: Data | None, directory: RunDirectory) -> None:
    """Raise RunDirectoryError where they are known to be others than those that the experiment began with."""
    begun, now = data_digest(directory), described(data)
    if begun and begun != now.get(DATA_DIGEST):
        raise RunDirectoryError(
            f"{directory.root} began with data of the SHA-256 {begun}, and these are others ({now.get('data')}): put "
            f"them back, or say in {directory.config} where they are now (data.root)"
        )


def problem_digest(config: Config) -> dict[str, str]:
    """What tells the file of a user's own problem from an altered one; of any other problem nothing."""
    file = own_file(config.problem)
    return {} if file is None else {PROBLEM_DIGEST: file.digest}


def is_altered(config: Config, directory: RunDirectory) -> bool:
    """Whether the file of its own problem is known to have been another when the experiment in the directory began."""
    begun, now = read_environment(directory).get(PROBLEM_DIGEST), problem_digest(config).get(PROBLEM_DIGEST)
    return begun is not None and begun != now
