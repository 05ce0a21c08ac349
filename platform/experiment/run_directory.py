"""The run directory: the names of its files, how they are written, and the checks of a directory that a user names."""

import errno
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError, cut
from fmnas.search_spaces.files import write_aside


def _path(name: str) -> "cached_property[Path]":
    def join(directory: "RunDirectory") -> Path:
        return directory.place / name

    return cached_property(join)


@dataclass(frozen=True)
class RunDirectory:
    """A folder such as runs/NAME. Its journal is the truth; everything else can be rebuilt from it.

    root: as the user wrote it, for messages. place: the absolute path, as user code may change the working directory.
    config: the configuration with every default. lock: held while a driver works here; driver: who holds it.
    environment: versions, commit, host and devices. problem: user-defined problem and optimizers, for reading.
    checkpoints: folder of unfinished trainings. report: folder of the page and its figures.
    artifacts: folder of the default MLflow store.
    """

    root: Path
    place: Path = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", self.root.absolute())

    config = _path("config.yaml")
    journal = _path("journal.jsonl")
    lock = _path("driver.lock")
    driver = _path("driver.json")
    environment = _path("environment.json")
    problem = _path("problem.json")
    checkpoints = _path("checkpoints")
    trials = _path("trials.csv")
    retrained = _path("retrained.csv")
    summary = _path("summary.json")
    report = _path("report")
    page = _path("report/index.html")
    artifacts = _path("mlartifacts")

    @property
    def store(self) -> str:
        """URI of the default MLflow store."""
        return f"sqlite:///{(self.place / 'mlflow.db').resolve()}"

    def command(self, name: str) -> str:
        """Return a command on this directory, as it can be typed after `fmnas`."""
        return f"{name} {shlex.quote(str(self.root))}"

    def create(self) -> None:
        """Make the folder. Raises RunDirectoryError if it is not empty or cannot be written."""
        self.check_absent()
        try:
            self.place.mkdir(parents=True, exist_ok=True)
            probe = self.place / ".writable"
            probe.touch()
            probe.unlink(missing_ok=True)
        except OSError as error:
            raise RunDirectoryError(
                f"run directory {self.root} cannot be written ({error.strerror}): choose another with --out DIR"
            ) from None

    def check_absent(self) -> None:
        """Raise RunDirectoryError if the directory has anything in it. Nothing is written."""
        if self.journal.exists():
            raise RunDirectoryError(
                f"run directory {self.root} already has an experiment: continue it with "
                f"`fmnas {self.command('resume')}`, or choose another with --out DIR"
            )
        if self.place.exists() and not self.place.is_dir():
            raise RunDirectoryError(f"{self.root} is a file: choose a run directory with --out DIR")
        ours = (".writable", self.lock.name, self.driver.name)  # whether the lock is held, only the lock itself tells
        files = self.place.iterdir() if self.place.exists() else ()
        if any(file.name not in ours and not file.name.startswith(f".{self.driver.name}") for file in files):
            raise RunDirectoryError(
                f"run directory {self.root} is not empty: delete it if an earlier run was stopped before it began, or "
                "choose another with --out DIR"
            )

    def check_present(self) -> None:
        """Raise RunDirectoryError unless the directory has an experiment."""
        if not self.journal.is_file():
            raise RunDirectoryError(
                f"{self.root} is not a run directory ({self.journal.name} is missing): give the folder that `fmnas run`"
                " printed; if the run was stopped before it began, run it again"
            )


def check_links(directory: RunDirectory) -> None:
    """Raise RunDirectoryError if a folder that is written to is a link out of the directory."""
    for folder in (directory.report, directory.artifacts, directory.checkpoints):
        if folder.is_symlink() and not folder.resolve().is_relative_to(directory.place.resolve()):
            raise RunDirectoryError(
                f"{folder} is a link to {cut(str(folder.resolve()))}, outside the run directory, whose files would be "
                "replaced: delete the link, or write the report to another folder with --out DIR"
            )


def write_text(path: Path, text: str) -> None:
    """Write a file atomically. Raises ExperimentFailed if the disk does not take it."""
    try:
        write_aside(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ExperimentFailed(f"{path} cannot be written ({error.strerror}): fix that and resume") from error


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write indented JSON atomically. Raises ExperimentFailed if the disk does not take it."""
    write_text(path, json.dumps(data, indent=2, default=str) + "\n")


def run_directory(path: Path, write: bool = False) -> RunDirectory:
    """Return an existing run directory that can be read, and written if `write`.

    Raises RunDirectoryError otherwise. Nothing is written.
    """
    directory = RunDirectory(path)
    with readable(path):
        directory.check_present()
        for file in (directory.journal, directory.config):
            if file.exists():
                file.open("rb").close()
        if write:
            check_links(directory)
    for needed in (path, directory.journal) if write else ():
        if not os.access(needed, os.W_OK, effective_ids=os.access in os.supports_effective_ids):
            raise RunDirectoryError(
                f"{cut(str(needed))}: no permission to write: copy the run directory, or ask its owner; `fmnas report` "
                "can write to another folder with --out DIR"
            )
    return directory


def new_run_directory(path: Path) -> RunDirectory:
    """Return a run directory for a new experiment. Raises RunDirectoryError if it has anything in it."""
    directory = RunDirectory(path)
    with readable(path, "with --out DIR"):
        directory.check_absent()
    return directory


@contextmanager
def readable(path: Path, how: str = "") -> Iterator[None]:
    """Raise RunDirectoryError if the context cannot access the path. how: how to choose another, for the message."""
    try:
        # In bytes, on Linux and macOS; also below a folder that does not exist yet.
        if any(len(os.fsencode(part)) > 255 for part in path.parts):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        yield
    except OSError as error:
        step = "choose a shorter name" if error.errno == errno.ENAMETOOLONG else "choose one that you can access"
        raise RunDirectoryError(
            f"directory {cut(str(path))} cannot be accessed ({error.strerror}): {step} {how}".rstrip()
        ) from None
