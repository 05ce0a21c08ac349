"""Every file name of a run directory, and how its files are written."""

import json
import os
import shlex
import socket
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fmnas.platform.errors import ExperimentFailed, RunDirectoryError


@dataclass(frozen=True)
class RunDirectory:
    """runs/<name>: the journal is the truth; all but retrained.csv can be rebuilt from it."""

    root: Path

    @property
    def config(self) -> Path:
        """The configuration as resolved, with every default."""
        return self.root / "config.yaml"

    @property
    def journal(self) -> Path:
        """The append-only log."""
        return self.root / "journal.jsonl"

    @property
    def lock(self) -> Path:
        """There while a driver works in the directory."""
        return self.root / "driver.lock"

    @property
    def environment(self) -> Path:
        """Versions, commit, host, devices."""
        return self.root / "environment.json"

    @property
    def checkpoints(self) -> Path:
        """Folder of unfinished trainings, while there are any."""
        return self.root / "checkpoints"

    @property
    def trials(self) -> Path:
        """A row per trial."""
        return self.root / "trials.csv"

    @property
    def retrained(self) -> Path:
        """A row per best configuration that was trained again; with the journal, what cannot be rebuilt."""
        return self.root / "retrained.csv"

    @property
    def summary(self) -> Path:
        """The final table."""
        return self.root / "summary.json"

    @property
    def report(self) -> Path:
        """Folder of the page and its figures."""
        return self.root / "report"

    @property
    def page(self) -> Path:
        """The self-contained page."""
        return self.report / "index.html"

    @property
    def secret(self) -> Path:
        """The tracking URI with its password, where it has one; never shown and never sent."""
        return self.root / "mlflow.secret"

    @property
    def artifacts(self) -> Path:
        """Where the default MLflow store keeps its artifacts."""
        return self.root / "mlartifacts"

    @property
    def store(self) -> str:
        """URI of the default MLflow store."""
        return f"sqlite:///{(self.root / 'mlflow.db').resolve()}"

    def create(self) -> None:
        """Make the folder. Raises RunDirectoryError when it exists with anything in it, or cannot be written."""
        self.check_absent()
        try:
            self.root.mkdir(parents=True, exist_ok=True)
            probe = self.root / ".writable"
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
                f"`fmnas resume {shlex.quote(str(self.root))}`, or give another with --out DIR"
            )
        if self.config.is_file() and self.environment.is_file():
            raise RunDirectoryError(
                f"run directory {self.root} was cut off before anything ran: remove it and run the configuration "
                "again, or give another with --out DIR"
            )
        if self.root.exists() and (not self.root.is_dir() or any(map(self._counts, self.root.iterdir()))):
            raise RunDirectoryError(f"{self.root} exists and is not empty: give another run directory with --out DIR")

    def _counts(self, path: Path) -> bool:
        """Whether a file shows that the folder is taken; whether its lock is, only the lock itself can tell."""
        return path.name not in (".writable", self.lock.name) and not path.name.startswith(f".{self.lock.name}")

    def check_present(self) -> None:
        """Raise RunDirectoryError unless an experiment lies here."""
        if not self.journal.is_file():
            raise RunDirectoryError(
                f"{self.root} is no run directory: {self.journal.name} is missing; give the folder that `fmnas run` "
                "named. One that was stopped before its first line there has nothing to go on with: run it again"
            )


def write_aside(path: Path, text: str) -> None:
    """Write a file so that a reader, and one after a power failure, sees the old or the new one, never half of it.

    Two processes may write it at once; one of theirs stays. Raises ExperimentFailed when the disk will not take it; the
    journal has it all.
    """
    aside = path.with_name(f".{path.name}.{socket.gethostname()}.{os.getpid()}.part")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with aside.open("w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)
    except OSError as error:
        with suppress(OSError):
            aside.unlink(missing_ok=True)
        raise ExperimentFailed(f"{path} cannot be written ({error.strerror}): mend that and resume") from error


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """The same, as indented JSON."""
    write_aside(path, json.dumps(data, indent=2, default=str) + "\n")
