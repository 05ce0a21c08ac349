"""One driver at a time in a run directory: a lock file that names the process that holds it.

The file appears whole or not at all. Who died without removing it is recognised by its process: the pid is gone, or
belongs to a process that began later. Of a process elsewhere nothing can be known, so its lock stays.
"""

import fcntl
import json
import os
import socket
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from fmnas.platform.errors import RunDirectoryError


@dataclass(frozen=True)
class Holder:
    """A process, and the machine on which its pid means anything.

    began: when the process began, in clock ticks since the machine did; a pid may be given again, but not with it.
    boot: the machine's current boot. namespace: whose pids these are; containers of one machine have their own.
    """

    host: str
    pid: int
    began: int
    boot: str
    namespace: str

    @classmethod
    def this(cls) -> "Holder":
        """The process that asks."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        pid = os.getpid()
        return cls(socket.gethostname(), pid, _began(pid) or 0, boot, os.readlink("/proc/self/ns/pid"))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Holder":
        """The inverse of asdict. Raises KeyError, TypeError or ValueError for anything else."""
        texts = {name: str(data[name]) for name in ("host", "boot", "namespace")}
        return cls(pid=int(data["pid"]), began=int(data["began"]), **texts)

    def is_dead(self, here: "Holder") -> bool:
        """Whether the process surely is gone, as far as the process `here` can know."""
        if self.host != here.host:
            return False
        if self.boot != here.boot:
            return True
        return self.namespace == here.namespace and _began(self.pid) != self.began


@dataclass(frozen=True)
class AtWork:
    """What a lock file tells someone who only looks.

    alive: False if its process surely is gone. visible: whether its process could be seen from here. facts: what it
    noted.
    """

    holder: Holder
    alive: bool
    visible: bool
    facts: Mapping[str, Any]


def look(path: Path) -> AtWork | None:
    """Who holds the lock; None if nobody does. Nothing is written or waited for.

    Raises RunDirectoryError for a file that is no lock.
    """
    held, here = _read(path), Holder.this()
    if held is None:
        return None
    holder, facts = held
    visible = (holder.host, holder.namespace) == (here.host, here.namespace)
    return AtWork(holder, not holder.is_dead(here), visible, facts)


class Note(Protocol):
    """Writes into the held lock what its holder does, as plain JSON data, for those who look."""

    def __call__(self, **facts: Any) -> None:
        """In the place of what was noted before."""


@contextmanager
def locked(path: Path, say: Callable[[str], None]) -> Iterator[Note]:
    """Hold the lock file while in the block; removed however the block is left.

    say: told when the lock of a dead process is taken over. Raises RunDirectoryError while another holds it.
    """
    here = Holder.this()
    with _alone(path.parent):
        held = _read(path)
        if held is not None:
            holder, _ = held
            if not holder.is_dead(here):
                raise RunDirectoryError(_refusal(path, holder, here))
            say(f"{path}: its driver (process {holder.pid} on {holder.host}) is dead; taking over")
        _write(path, here, {})

    def note(**facts: Any) -> None:
        if _is_held(path, here):
            with suppress(OSError):  # a full disk; it is only for those who look
                _write(path, here, facts)

    try:
        yield note
    finally:
        if _is_held(path, here):
            path.unlink()


def _is_held(path: Path, here: Holder) -> bool:
    """Whether the lock is ours; not if someone was told to remove it and did."""
    held = _read(path)
    return held is not None and held[0] == here


def _write(path: Path, here: Holder, facts: Mapping[str, Any]) -> None:
    aside = path.with_name(f".{path.name}.{here.pid}")
    aside.write_text(json.dumps({**asdict(here), "facts": facts}))
    os.replace(aside, path)


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """No other process of this machine looks at locks in the folder meanwhile."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        raise RunDirectoryError(
            f"run directory {folder} cannot be locked ({error.strerror}): give one on a file system that can, "
            "e.g. a local disk"
        ) from None
    try:
        yield
    finally:
        os.close(descriptor)


def _read(path: Path) -> tuple[Holder, Mapping[str, Any]] | None:
    """Who holds it, and what it noted."""
    try:
        data = json.loads(path.read_text())
        facts = data.get("facts", {}) if isinstance(data, dict) else {}
        return Holder.from_dict(data), facts if isinstance(facts, dict) else {}
    except FileNotFoundError:
        return None
    except (OSError, KeyError, TypeError, ValueError):
        raise RunDirectoryError(
            f"{path} is no lock of fmnas: if no driver works in {path.parent}, remove the file and try again"
        ) from None


def _refusal(path: Path, held: Holder, here: Holder) -> str:
    who = f"a driver works in {path.parent} already: process {held.pid} on {held.host}"
    if (held.host, held.namespace) == (here.host, here.namespace):
        return f"{who}; wait for it, or stop it with `kill {held.pid}`, and then `fmnas resume {path.parent}`"
    where = "in another container" if held.host == here.host else "which cannot be seen from here"
    return f"{who}, {where}; stop it there, or, if it surely is dead, remove {path}, and try again"


def _began(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, see proc(5); None where there is no such process, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
