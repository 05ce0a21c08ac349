"""Import references, "module:NAME" or "FILE.py:NAME", and the entry points of other distributions.

Python looks for a module on its path, then in the current folder. A file is run as a module; it can import modules from
its folder. A node without the file gets its text. Another distribution adds optimizers, problems and observers by the
entry points fmnas.optimizers, fmnas.problems and fmnas.observers, whose values are references.
"""

import logging
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib import import_module
from importlib.metadata import distributions
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from fmnas.optimizers.isolation import same_working_directory
from fmnas.platform.errors import LET_THROUGH, ConfigError, code_location, one_line

IN_MEMORY = "<minimize>"
"""The module in a reference to an object that was passed to `fmnas.api.minimize`."""
RECORDED = "recorded"
"""The module in a reference to a file of recorded results, e.g. "recorded:runs/table.npz"."""

_LOGGER = logging.getLogger(__name__)
_replacements: ContextVar[Mapping[str, Any]] = ContextVar("replacements", default=MappingProxyType({}))
_may_import: ContextVar[bool] = ContextVar("may_import", default=True)


@dataclass(frozen=True)
class SourceFile:
    """A user's Python file: its absolute path on the driver's machine, and its text."""

    path: str
    text: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return sha256(self.text).hexdigest()


def split_reference(use: str) -> tuple[str, str]:
    """The module or file of a reference, and the name in it; either may be empty."""
    if use.startswith(f"{RECORDED}:"):
        return RECORDED, use.removeprefix(f"{RECORDED}:")
    if use.endswith(".py"):
        return use, ""
    module, _, name = use.rpartition(":")
    return module, name


def absolute_reference(use: str) -> str:
    """The reference with the absolute path of its file."""
    file = _file_of(use)
    if not file:
        return use
    try:
        return _with_file(use, file, Path(file).expanduser().resolve())
    except (OSError, ValueError, RuntimeError):  # an unknown user's home, or not a path
        return use  # importing it reports the error


def resolve_beside(use: str, folder: Path) -> str:
    """The reference with its file taken from a folder, if the current folder lacks the file and that one has it."""
    file = _file_of(use)
    if not file or Path(file).is_absolute() or file.startswith("~"):
        return use
    with suppress(OSError):  # the name is too long for a file
        if not Path(file).exists() and (folder / file).is_file():
            return _with_file(use, file, folder / file)
    return use


def _file_of(use: str) -> str:
    """The Python file or the recorded results of a reference; empty if it names a module."""
    module, name = split_reference(use)
    if module == RECORDED:
        return name
    return module if module.endswith(".py") else ""


def _with_file(use: str, file: str, path: Path) -> str:
    """The reference with another path of its file."""
    before, _, after = use.rpartition(file)
    return f"{before}{path}{after}"


def import_reference(use: str) -> Any:
    """The object that a reference names. Raises ConfigError if it names nothing."""
    if is_registered(use):
        return _replacements.get()[use]
    module, name = split_reference(use)
    if not module or not name:
        raise ConfigError("write MODULE:NAME, or FILE.py:NAME")
    if module == IN_MEMORY:
        raise ConfigError(
            f"{name} was passed to fmnas.api.minimize and is not in a file: call minimize again with the same "
            "function, space, optimizer and out=DIR to resume it or to get its results"
        )
    if module == RECORDED:
        from fmnas.trainers.recorded import recorded_problem

        return recorded_problem(Path(name))
    namespace = _import_module(module)
    if not hasattr(namespace, name):
        raise ConfigError(f"{module} has no {name}")
    return getattr(namespace, name)


@contextmanager
def replace_references(targets: Mapping[str, Any], imports: bool = True) -> Iterator[None]:
    """Let references name these objects while in the block.

    imports: whether other references may import code that is not part of fmnas.
    """
    before = _replacements.set({**_replacements.get(), **targets})
    imports_before = _may_import.set(imports and _may_import.get())
    try:
        yield
    finally:
        _replacements.reset(before)
        _may_import.reset(imports_before)


def is_registered(use: str) -> bool:
    """Whether a reference names an object in memory now."""
    return use in _replacements.get()


def find_names(module: str, kind: Any, defined_there: bool = False) -> list[str]:
    """The first name of each public object of a kind in a module or file. Raises ConfigError as import_reference.

    defined_there: whether to leave out classes and functions that it imports.
    """
    names: dict[int, str] = {}
    namespace = _import_module(module)
    for name, value in vars(namespace).items():
        is_imported = defined_there and getattr(value, "__module__", None) != namespace.__name__
        if not name.startswith("_") and isinstance(value, kind) and not is_imported:
            names.setdefault(id(value), name)
    return list(names.values())


def read_source_file(use: str) -> SourceFile | None:
    """The file of a reference; None for a module, which each node must have. Raises ConfigError if it is missing."""
    module, _ = split_reference(use)
    if not module.endswith(".py"):
        return None
    try:
        return SourceFile(module, Path(module).read_bytes())
    except OSError as error:
        raise ConfigError(f"{module} cannot be read: {one_line(error)}") from None


def load_source(file: SourceFile) -> ModuleType:
    """Import a file from its text, on a node that may lack the file. Raises ConfigError."""
    return _import_module(file.path, file.text)


def _import_module(module: str, text: bytes | None = None) -> ModuleType:
    """The module, or the file as one. Raises ConfigError for any failure in it, and where imports are not allowed."""
    if not _may_import.get() and (module.endswith(".py") or not module.startswith("fmnas.")):
        raise ConfigError(f"{module} is not imported: reading a run directory runs none of the code that it names")
    try:
        with same_working_directory():
            if module.endswith(".py"):
                return _run_file(Path(module), text)
            if find_spec(module.partition(".")[0]) is None:
                _append_to_path(str(Path.cwd()))  # a console script has its own folder on the path, not the current one
            return import_module(module)
    except LET_THROUGH:
        raise
    except BaseException as error:
        if module.endswith(".py") and text is None and not Path(module).is_file():
            raise ConfigError(f"{module}: no such file") from None
        raise ConfigError(f"{module} cannot be imported: {one_line(error)}{code_location(error)}") from error


def _run_file(path: Path, text: bytes | None) -> ModuleType:
    """The module of a file, run once. Its name follows from the absolute path, so each file has its own."""
    name = f"fmnas_own.{sha256(os.fsencode(path.resolve())).hexdigest()[:16]}.{path.stem.replace('.', '_')}"
    if name in sys.modules:
        return sys.modules[name]
    code = compile(path.read_bytes() if text is None else text, str(path), "exec", dont_inherit=True)
    _append_to_path(str(path.resolve().parent))
    module = sys.modules[name] = ModuleType(name)  # before it runs: pickle and dataclasses look for it
    module.__file__ = str(path)
    try:
        exec(code, vars(module))
    except BaseException:
        del sys.modules[name]
        raise
    return module


def _append_to_path(folder: str) -> None:
    if folder not in sys.path:
        sys.path.append(folder)


def find_plugins(group: str) -> dict[str, str]:
    """Name -> reference of the entry points of a group in other distributions; of equal names the first on the path.

    A distribution whose entry points cannot be read is left out, with a warning.
    """
    plugins: dict[str, str] = {}
    for distribution in distributions():
        try:
            points = [(point.name, point.value) for point in distribution.entry_points.select(group=group)]
        except Exception as error:  # of a malformed file, importlib raises one of many
            _warn_once(
                f"entry points of {getattr(distribution, '_path', 'a distribution')} are left out: {one_line(error)}"
            )
            continue
        for name, use in points:
            plugins.setdefault(name, use)
    return plugins


@cache
def _warn_once(text: str) -> None:
    _LOGGER.warning(text)
