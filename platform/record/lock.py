"""One driver at a time in a run directory: a lock file that names the process that holds it.

The file appears whole or not at all. Who died without removing it is recognised by its process: the pid is gone, or
belongs to a process that began later. Of a process elsewhere nothing can be known, so its lock stays. Two machines may
share a name: a lock of another boot is this machine's own only where its id agrees, and it was taken before this boot.
"""

import fcntl
import json
import os
import shlex
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

from fmnas.platform.errors import RunDirectoryError
from fmnas.search_spaces.files import write_aside

NOTE_SECONDS = 5.0
"""How often a note that is kept up is looked after."""


@dataclass(frozen=True)
class Holder:
    """A process, and the machine on which its pid means anything.

    began: when the process began, in clock ticks since the machine did; a pid may be given again, but not with it.
    boot: the machine's current boot. namespace: whose pids these are; containers of one machine have their own.
    machine: the machine's own id, if it has one. booted, taken: when it started, and when this was written, in seconds
    since the epoch; 0 in the lock of an older fmnas.
    """

    host: str
    pid: int
    began: int
    boot: str
    namespace: str
    machine: str = ""
    booted: float = 0.0
    taken: float = 0.0

    @classmethod
    def this(cls) -> "Holder":
        """The process that asks."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        pid, now = os.getpid(), time.time()
        up = float(Path("/proc/uptime").read_text().split()[0])
        where = os.readlink("/proc/self/ns/pid")
        return cls(socket.gethostname(), pid, _began(pid) or 0, boot, where, _machine(), round(now - up), round(now))

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> "Holder":
        """The inverse of asdict. Raises KeyError, TypeError or ValueError for anything else."""
        host, boot, namespace = (str(data[name]) for name in ("host", "boot", "namespace"))
        booted, taken = (float(data.get(name, 0.0)) for name in ("booted", "taken"))
        machine = str(data.get("machine", ""))
        return cls(host, int(data["pid"]), int(data["began"]), boot, namespace, machine, booted, taken)

    def is_seen_from(self, here: "Holder") -> bool:
        """Whether its pid means something to the process `here`."""
        return (self.host, self.boot, self.namespace) == (here.host, here.boot, here.namespace)

    def is_dead(self, here: "Holder") -> bool:
        """Whether the process surely is gone, as far as the process `here` can know."""
        if self.host != here.host:
            return False
        if self.boot != here.boot:
            return self.machine in ("", here.machine) and self.taken < here.booted
        return self.namespace == here.namespace and not _lives(self.pid, self.began)


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
    return AtWork(holder, not holder.is_dead(here), holder.is_seen_from(here), facts)


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
        _take(path, here, new=held is None)

    def note(**facts: Any) -> None:
        if _is_held(path, here):
            with suppress(OSError):  # a full disk; it is only for those who look
                _write(path, here, facts)

    try:
        yield note
    finally:
        if _is_held(path, here):
            path.unlink()


@contextmanager
def kept_up(note: Note, facts: Callable[[], Mapping[str, Any]]) -> Iterator[None]:
    """Note the facts now and, while in the block, again whenever they have changed; a thread asks for them."""
    over, noted = threading.Event(), facts()
    note(**noted)

    def keep_up() -> None:
        last = noted
        while not over.wait(NOTE_SECONDS):
            now = facts()
            if now != last:
                last = now
                with suppress(RunDirectoryError):  # someone has meddled with the lock; those who look are told so
                    note(**now)

    thread = threading.Thread(target=keep_up, name="note", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _is_held(path: Path, here: Holder) -> bool:
    """Whether the lock is ours; not if someone was told to remove it and did."""
    held = _read(path)
    return held is not None and held[0] == here


def _take(path: Path, here: Holder, new: bool) -> None:
    """Write the lock. new: nobody held it. Raises RunDirectoryError where that may not be."""
    try:
        _write(path, here, {}, new)
    except FileExistsError:  # between our look and this: another host's, which `_alone` does not keep away
        held = _read(path)
        raise RunDirectoryError(
            _refusal(path, held[0], here) if held else f"{path}: another driver was here just now; try again"
        ) from None
    except OSError as error:
        raise RunDirectoryError(
            f"{path} cannot be written ({error.strerror}), so no driver can work in {path.parent}: mend that, or run "
            "as the user whose directory it is"
        ) from None


def _write(path: Path, here: Holder, facts: Mapping[str, Any], new: bool = False) -> None:
    write_aside(path, json.dumps({**asdict(here), "facts": facts}).encode(), durable=False, new=new)


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
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RunDirectoryError(f"{path} cannot be read: {error.strerror}") from None
    except (KeyError, TypeError, ValueError):
        raise RunDirectoryError(
            f"{path} is no lock of fmnas: if no driver works in {path.parent}, remove the file and try again"
        ) from None


def _refusal(path: Path, held: Holder, here: Holder) -> str:
    who = f"a driver works in {path.parent} already: process {held.pid} on {held.host}"
    if held.is_seen_from(here):
        resume = f"fmnas resume {shlex.quote(str(path.parent))}"
        return f"{who}; wait for it, or stop it with `kill {held.pid}`, and then `{resume}`"
    where = "which cannot be seen from here"
    if held.host == here.host:
        where = "in another container" if held.boot == here.boot else "another machine of this name"
    return f"{who}, {where}; stop it there, or, if it surely is dead, remove {path}, and try again"


def _machine() -> str:
    """What tells this machine from another of the same name; empty where nothing does."""
    try:
        return Path("/etc/machine-id").read_text().strip()
    except OSError:
        return ""


def _lives(pid: int, began: int) -> bool:
    """Whether the process that began then is there."""
    found = _began(pid)
    if found is not None:
        return found == began
    try:
        os.kill(pid, 0)
    except PermissionError:  # another user's, which /proc may hide from us (mount option hidepid)
        return True
    except OSError:
        return False
    return False  # a zombie of ours


def _began(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, see proc(5); None where there is no such process, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
