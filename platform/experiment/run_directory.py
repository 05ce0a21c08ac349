"""The run directory: the names of its files, how they are written, and the checks of a directory that a user names."""

import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError, truncate
from fmnas.search_spaces.files import write_aside

ANOTHER = "choose another run directory (--out DIR, or out=DIR in Python)"


class RunDirectory:
    """A folder such as runs/NAME. Its journal is the truth; everything else can be rebuilt from it.

    root: as the user wrote it, for messages. place: the absolute path, as user code may change the working directory.
    config: the configuration with every default. lock: held while a driver works here; driver: who holds it.
    environment: versions, commit, host and devices. problem: user-defined problem and optimizers, for reading.
    checkpoints: folder of unfinished trainings. models: of trained networks. report: of the page and its figures.
    artifacts: folder of the default MLflow store; database: its file.
    """

    def __init__(self, root: Path) -> None:
        self.root, self.place = root, root.absolute()
        self.config = self.place / "config.yaml"
        self.journal = self.place / "journal.jsonl"
        self.lock = self.place / "driver.lock"
        self.driver = self.place / "driver.json"
        self.environment = self.place / "environment.json"
        self.problem = self.place / "problem.json"
        self.checkpoints = self.place / "checkpoints"
        self.trials = self.place / "trials.csv"
        self.models = self.place / "models"
        self.retrained = self.place / "retrained.csv"
        self.summary = self.place / "summary.json"
        self.report = self.place / "report"
        self.page = self.report / "index.html"
        self.artifacts = self.place / "mlartifacts"
        self.database = self.place / "mlflow.db"

    @property
    def store(self) -> str:
        """URI of the default MLflow store."""
        return f"sqlite:///{self.database.resolve()}"

    def command(self, name: str) -> str:
        """Return a command on this directory, as it can be typed after `fmnas`."""
        return f"{name} {shlex.quote(str(self.root))}"

    def create(self) -> None:
        """Make the folder. Raises RunDirectoryError if it is not empty or cannot be made."""
        self.check_absent()
        try:
            self.place.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunDirectoryError(
                f"run directory {self.root} cannot be made ({error.strerror}: {error.filename}): {ANOTHER}"
            ) from None

    def check_absent(self) -> None:
        """Raise RunDirectoryError if the directory has anything in it. Nothing is written."""
        if self.journal.exists():
            raise RunDirectoryError(
                f"run directory {self.root} already has an experiment: `fmnas {self.command('resume')}` continues it, "
                f"`fmnas {self.command('extend')} -o KEY=VALUE` adds to it; or {ANOTHER}"
            )
        if self.place.exists() and not self.place.is_dir():
            raise RunDirectoryError(f"{self.root} is a file: {ANOTHER}")
        files = self.place.iterdir() if self.place.exists() else ()
        if not all(file.name.lstrip(".").startswith("driver.") for file in files):  # only the lock tells if it is held
            is_begun = self.config.exists() or self.environment.exists()
            delete = "delete it if an earlier run was stopped before it began, or " if is_begun else ""
            raise RunDirectoryError(f"run directory {self.root} is not empty: {delete}{ANOTHER}")

    def check_present(self) -> None:
        """Raise RunDirectoryError unless the directory has an experiment."""
        if not self.journal.is_file():
            raise RunDirectoryError(
                f"{self.root} is not a run directory ({self.journal.name} is missing): give the folder that `fmnas run`"
                " printed; if the run was stopped before it began, run it again"
            )


def check_links(directory: RunDirectory) -> None:
    """Raise RunDirectoryError if what is written to is a link out of the directory."""
    for folder in (directory.report, directory.artifacts, directory.checkpoints, directory.models, directory.database):
        if folder.is_symlink() and not folder.resolve().is_relative_to(directory.place.resolve()):
            raise RunDirectoryError(
                f"{folder} is a link to {truncate(str(folder.resolve()))}, outside the run directory, whose files "
                "would be replaced: delete the link"
            )


def write_text(path: Path, text: str) -> None:
    """Write a file atomically. Raises ExperimentFailed if the disk does not take it."""
    try:
        write_aside(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ExperimentFailed(
            f"{path} cannot be written ({error.strerror}): fix that and repeat the command"
        ) from error


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write indented JSON atomically. Raises ExperimentFailed if the disk does not take it."""
    write_text(path, json.dumps(data, indent=2, default=str) + "\n")


def read_json(path: Path) -> dict[str, Any]:
    """Return the mapping of a JSON file; empty if there is none that can be read."""
    try:
        return dict(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, TypeError):
        return {}


def run_directory(path: Path, write: bool = False) -> RunDirectory:
    """Return an existing run directory that can be read, and written if `write`.

    Raises RunDirectoryError otherwise. Nothing is written.
    """
    with readable(path):
        directory = RunDirectory(path)
        directory.check_present()
        for file in (directory.journal, directory.config):
            if file.exists():
                file.open("rb").close()
        if write:
            check_links(directory)
    for needed in (path, directory.journal) if write else ():
        if not os.access(needed, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise RunDirectoryError(
                f"{truncate(str(needed))}: no permission to write: copy the run directory, or ask its owner; `fmnas "
                "report` can write to another folder with --out DIR"
            )
    return directory


def latest_run_directory(folder: Path) -> Path:
    """Return the run directory in a folder whose journal was written last. Raises RunDirectoryError without one."""
    with readable(folder):
        journals = [(path.stat().st_mtime, path) for path in folder.glob("*/journal.jsonl")]
    if not journals:
        raise RunDirectoryError(f"{folder} has no run directory: name one, as in `fmnas status DIR`")
    return max(journals)[1].parent


def new_run_directory(path: Path) -> RunDirectory:
    """Return a run directory for a new experiment. Raises RunDirectoryError if it has anything in it."""
    with readable(path, "(--out DIR, or out=DIR in Python)"):
        directory = RunDirectory(path)
        directory.check_absent()
    return directory


@contextmanager
def readable(path: Path, how: str = "") -> Iterator[None]:
    """Raise RunDirectoryError if the context cannot access the path. how: how to choose another, for the message."""
    try:
        yield
    except OSError as error:
        name = Path(error.filename or path).name
        reading = f"reading {name} failed; " if name != path.name else ""
        raise RunDirectoryError(
            f"directory {truncate(str(path))} cannot be accessed ({error.strerror}): {reading}choose one that you can "
            f"access {how}".rstrip()
        ) from None
