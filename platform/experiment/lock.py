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
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

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
    since the epoch; 0 in the lock of an older fmnas. facts: what it noted.
    """

    host: str
    pid: int
    began: int
    boot: str
    namespace: str
    machine: str = ""
    booted: float = 0.0
    taken: float = 0.0
    facts: Mapping[str, Any] = field(default_factory=dict, compare=False)

    @classmethod
    def this(cls) -> "Holder":
        """The process that asks."""
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        pid, now = os.getpid(), time.time()
        up = float(Path("/proc/uptime").read_text().split()[0])
        where = os.readlink("/proc/self/ns/pid")
        return cls(socket.gethostname(), pid, _began(pid) or 0, boot, where, _machine(), round(now - up), round(now))

    @property
    def visible(self) -> bool:
        """Whether its pid means something here."""
        here = Holder.this()
        return (self.host, self.boot, self.namespace) == (here.host, here.boot, here.namespace)

    @property
    def dead(self) -> bool:
        """Whether the process surely is gone, as far as can be known here."""
        here = Holder.this()
        if self.host != here.host:
            return False
        if self.boot != here.boot:
            return self.machine in ("", here.machine) and self.taken < here.booted
        return self.namespace == here.namespace and not _lives(self.pid, self.began)


_HOLDER = TypeAdapter(Holder)


def look(path: Path) -> Holder | None:
    """Who holds the lock; None if nobody does. Nothing is written or waited for.

    Raises RunDirectoryError for a file that is no lock.
    """
    try:
        return _HOLDER.validate_json(path.read_text())
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise RunDirectoryError(f"{path} cannot be read: {error.strerror}") from None
    except ValueError:
        raise RunDirectoryError(
            f"{path} is no lock of fmnas: if no driver works in {path.parent}, remove the file and try again"
        ) from None


Note = Callable[..., None]
"""Writes into the held lock what its holder does, keywords of plain JSON data, in the place of what it noted before."""


@contextmanager
def locked(path: Path, say: Callable[[str], None]) -> Iterator[Note]:
    """Hold the lock file while in the block; removed however the block is left.

    say: told when the lock of a dead process is taken over. Raises RunDirectoryError while another holds it.
    """
    here = Holder.this()

    def note(**facts: Any) -> None:
        if look(path) == here:
            with suppress(OSError):  # a full disk; it is only for those who look
                _write(path, replace(here, facts=facts))

    taken = False
    try:
        with _alone(path.parent):
            held = look(path)
            if held is not None and not held.dead:
                raise RunDirectoryError(_refusal(path, held))
            _take(path, here, new=held is None)
            taken = True
        if held is not None:
            say(f"{path}: its driver (process {held.pid} on {held.host}) is dead; taking over")
        yield note
    finally:
        if taken and look(path) == here:  # not if someone was told to remove it and did
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


def _take(path: Path, here: Holder, new: bool) -> None:
    """Write the lock. new: nobody held it. Raises RunDirectoryError where that may not be."""
    try:
        _write(path, here, new)
    except FileExistsError:  # between our look and this: another host's, which `_alone` does not keep away
        held = look(path)
        raise RunDirectoryError(
            _refusal(path, held) if held else f"{path}: another driver was here just now; try again"
        ) from None
    except OSError as error:
        raise RunDirectoryError(
            f"{path} cannot be written ({error.strerror}), so no driver can work in {path.parent}: mend that, or run "
            "as the user whose directory it is"
        ) from None


def _write(path: Path, here: Holder, new: bool = False) -> None:
    write_aside(path, json.dumps(asdict(here)).encode(), durable=False, new=new)


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


def _refusal(path: Path, held: Holder) -> str:
    who = f"a driver works in {path.parent} already: process {held.pid} on {held.host}"
    if held.visible:
        resume = f"fmnas resume {shlex.quote(str(path.parent))}"
        return f"{who}; wait for it, or stop it with `kill {held.pid}`, and then `{resume}`"
    here, where = Holder.this(), "which cannot be seen from here"
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
        pass
    return False  # or a zombie of ours


def _began(pid: int) -> int | None:
    """Field 22 of /proc/PID/stat, see proc(5); None where there is no such process, or only its zombie."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else int(fields[19])
