"""The run directory: every file name in it, how its files are written, and what is checked when a user names one."""

import errno
import json
import os
import shlex
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, overload

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError, cut
from fmnas.search_spaces.files import write_aside


class _In:
    """A file or folder of a run directory, by its name there; of the class, this itself."""

    def __init__(self, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, directory: None, kind: type) -> "_In": ...
    @overload
    def __get__(self, directory: "RunDirectory", kind: type) -> Path: ...
    def __get__(self, directory: "RunDirectory | None", kind: type) -> "Path | _In":
        return self if directory is None else directory.place / self._name


@dataclass(frozen=True)
class RunDirectory:
    """runs/<name>: the journal is the truth; all but retrained.csv can be rebuilt from it.

    root: as the user wrote it, for messages. place: the same as an absolute path, which every file is found by: code
    of a user's may change the working directory.
    """

    root: Path
    place: Path = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "place", self.root.absolute())

    config = _In("config.yaml")
    """The configuration as resolved, with every default."""
    journal = _In("journal.jsonl")
    """The append-only log."""
    lock = _In("driver.lock")
    """There while a driver works in the directory."""
    environment = _In("environment.json")
    """Versions, commit, host, devices."""
    problem = _In("problem.json")
    """Of a problem that stands in no file: all but its function."""
    checkpoints = _In("checkpoints")
    """Folder of unfinished trainings, while there are any."""
    trials = _In("trials.csv")
    """A row per trial."""
    retrained = _In("retrained.csv")
    """A row per best configuration that was trained again; with the journal, what cannot be rebuilt."""
    summary = _In("summary.json")
    """The final table."""
    report = _In("report")
    """Folder of the page and its figures."""
    page = _In("report/index.html")
    """The self-contained page."""
    artifacts = _In("mlartifacts")
    """Where the default MLflow store keeps its artifacts."""

    @property
    def store(self) -> str:
        """URI of the default MLflow store."""
        return f"sqlite:///{(self.place / 'mlflow.db').resolve()}"

    def command(self, name: str) -> str:
        """A command on it as it can be typed after `fmnas`."""
        return f"{name} {shlex.quote(str(self.root))}"

    def create(self) -> None:
        """Make the folder. Raises RunDirectoryError when it exists with anything in it, or cannot be written."""
        self.check_absent()
        try:
            self.place.mkdir(parents=True, exist_ok=True)
            probe = self.place / ".writable"
            probe.touch()
            probe.unlink(missing_ok=True)
        except OSError as error:
            raise RunDirectoryError(
                f"run directory {self.root} cannot be written ({error.strerror}): give another with --out DIR"
            ) from None

    def check_absent(self) -> None:
        """Raise RunDirectoryError if something is there already; nothing is touched."""
        if self.journal.exists():
            raise RunDirectoryError(
                f"run directory {self.root} holds an experiment: go on with "
                f"`fmnas {self.command('resume')}`, or give another with --out DIR"
            )
        if self.config.is_file() and self.environment.is_file():
            raise RunDirectoryError(
                f"run directory {self.root} was cut off before anything ran: remove it and run the configuration "
                "again, or give another with --out DIR"
            )
        if self.place.exists() and not self.place.is_dir():
            raise RunDirectoryError(f"{self.root} is a file: give a run directory with --out DIR")
        ours = (".writable", self.lock.name)  # whether the lock is held, only the lock itself can tell
        files = self.place.iterdir() if self.place.exists() else ()
        if any(file.name not in ours and not file.name.startswith(f".{self.lock.name}") for file in files):
            raise RunDirectoryError(f"{self.root} exists and is not empty: give another run directory with --out DIR")

    def check_present(self) -> None:
        """Raise RunDirectoryError unless an experiment lies here."""
        if not self.journal.is_file():
            raise RunDirectoryError(
                f"{self.root} is no run directory: {self.journal.name} is missing; give the folder that `fmnas run` "
                "named. One that was stopped before its first line there has nothing to go on with: run it again"
            )


def check_links(directory: RunDirectory) -> None:
    """Raise RunDirectoryError where a folder that is written to is a link out of the directory."""
    for folder in (directory.report, directory.artifacts, directory.checkpoints):
        if folder.is_symlink() and not folder.resolve().is_relative_to(directory.place.resolve()):
            raise RunDirectoryError(
                f"{folder} is a link to {cut(str(folder.resolve()))}, outside the run directory: files there would be "
                "replaced. Remove the link, or write the report elsewhere with --out DIR"
            )


def write_text(path: Path, text: str) -> None:
    """Write a file whole, see `write_aside`. Raises ExperimentFailed when the disk will not take it."""
    try:
        write_aside(path, text.encode("utf-8", "backslashreplace"))
    except OSError as error:
        raise ExperimentFailed(f"{path} cannot be written ({error.strerror}): mend that and resume") from error


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """The same, as indented JSON."""
    write_text(path, json.dumps(data, indent=2, default=str) + "\n")


def run_directory(path: Path, write: bool = False) -> RunDirectory:
    """A directory that holds an experiment and can be read; and written, if that is to be done.

    Raises RunDirectoryError for any other; nothing is touched.
    """
    directory = RunDirectory(path)
    with looked_at(path):
        directory.check_present()
        for file in (directory.journal, directory.config, directory.lock):
            if file.exists():
                file.open("rb").close()
        if write:
            check_links(directory)
    needed = (path, directory.journal) if write else ()
    shut = next((each for each in needed if not os.access(each, os.W_OK, effective_ids=True)), None)
    if shut is not None:
        raise RunDirectoryError(
            f"{cut(str(shut))} cannot be written by you: copy it to a place that can, or ask its owner; a report "
            "alone can be written elsewhere with --out DIR"
        )
    return directory


def new_run_directory(path: Path) -> RunDirectory:
    """A directory to run an experiment in. Raises RunDirectoryError where something is there, or nobody may look."""
    directory = RunDirectory(path)
    with looked_at(path, "with --out DIR"):
        directory.check_absent()
    return directory


@contextmanager
def looked_at(path: Path, how: str = "") -> Iterator[None]:
    """Raise RunDirectoryError where the block cannot look at the path: its name is too long, or it is another's.

    how: to give another, where that is not plain.
    """
    try:
        # In bytes, on Linux; also below a folder that is yet to be.
        if any(len(os.fsencode(part)) > 255 for part in path.parts):
            raise OSError(errno.ENAMETOOLONG, os.strerror(errno.ENAMETOOLONG))
        yield
    except OSError as error:
        step = "give a shorter name" if error.errno == errno.ENAMETOOLONG else "give one that you may read"
        raise RunDirectoryError(
            f"directory {cut(str(path))} cannot be looked at ({error.strerror}): {step} {how}".rstrip()
        ) from None
