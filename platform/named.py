"""What a name of the form "module:NAME" or "FILE.py:NAME" stands for: found, or refused in one line.

A module is looked for where Python does, and in the current folder; a file need not be in any of these, and finds the
modules beside it; one that is not in the current folder is looked for beside the configuration that names it. Where a
file is missing, on another node, its text does as well. What was made in a notebook stands in neither: it has a name of
the form "<minimize>:NAME" for as long as it is given.
"""

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from hashlib import sha256
from importlib import import_module
from importlib.util import find_spec
from inspect import isabstract
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from fmnas.platform.errors import LET_THROUGH, ConfigError, one_line, own_line
from fmnas.search_spaces.errors import did_you_mean

HANDED_OVER = "<minimize>"
"""What stands for the module of a thing that was given; no module is called so."""

_given: ContextVar[Mapping[str, Any]] = ContextVar("given", default=MappingProxyType({}))
_imports: ContextVar[bool] = ContextVar("imports", default=True)


@dataclass(frozen=True)
class SourceFile:
    """A file of one's own, as text that can be sent to another node. path: where it is here, whole."""

    path: str
    text: bytes

    @property
    def digest(self) -> str:
        """SHA-256 of the text."""
        return sha256(self.text).hexdigest()


def named(use: str) -> Any:
    """What it stands for. Raises ConfigError for a name of another form, or one of nothing."""
    if is_given(use):
        return _given.get()[use]
    module, name = parted(use)
    if not module or not name:
        raise ConfigError("write MODULE:NAME, or FILE.py:NAME")
    if module == HANDED_OVER:
        raise ConfigError(
            f"{name} was handed to fmnas.api.minimize and stands in no file: call minimize again with the same "
            "function, space and out=DIR, which goes on with it or, where it is finished, gives its results"
        )
    found = _imported(module)
    try:
        return getattr(found, name)
    except AttributeError:
        usable = [other for other, thing in _public(found).items() if not isabstract(thing)]
        raise ConfigError(f"{module} has no {name}.{did_you_mean(name, usable)}") from None


@contextmanager
def given(name: str, thing: Any) -> Iterator[str]:
    """While in the block, a name, which the block is told, stands for the thing."""
    use = f"{HANDED_OVER}:{name}"
    with standing_for({use: thing}):
        yield use


@contextmanager
def standing_for(things: Mapping[str, Any], imports: bool = True) -> Iterator[None]:
    """While in the block, names stand for things, by name.

    imports: whether other names may be looked for in files and modules that are not of fmnas.
    """
    given_before = _given.set({**_given.get(), **things})
    imports_before = _imports.set(imports and _imports.get())
    try:
        yield
    finally:
        _given.reset(given_before)
        _imports.reset(imports_before)


def is_given(use: str) -> bool:
    """Whether a name stands for something now because it was given."""
    return use in _given.get()


def parted(use: str) -> tuple[str, str]:
    """Its module or file, and the name in it; each may be empty."""
    if use.endswith(".py"):
        return use, ""
    module, _, name = use.rpartition(":")
    return module, name


def whole(use: str) -> str:
    """The same name, which means the same in any folder."""
    module, _ = parted(use)
    if not module.endswith(".py"):
        return use
    try:
        return f"{Path(module).expanduser().resolve()}{use.removeprefix(module)}"
    except (OSError, ValueError, RuntimeError):  # of nobody's home, or of no text that a path may have
        return use  # which is refused when it is looked for


def found_beside(use: str, folder: Path) -> str:
    """The name of a file that is not in the current folder and is in another one, by its path; any other as it is."""
    module, _ = parted(use)
    if not module.endswith(".py") or Path(module).is_absolute() or module.startswith("~"):
        return use
    with suppress(OSError):  # no file can have that name, which is told when it is looked for
        if not Path(module).exists() and (folder / module).is_file():
            return f"{folder / module}{use.removeprefix(module)}"
    return use


def those_in(module: str, kind: Any) -> dict[str, Any]:
    """The public names of a module or file that stand for something of a kind, each thing once.

    Raises ConfigError as `named`.
    """
    found: dict[int, tuple[str, Any]] = {}
    for name, value in _public(_imported(module)).items():
        if isinstance(value, kind):
            found.setdefault(id(value), (name, value))
    return dict(found.values())


def source_file(use: str) -> SourceFile | None:
    """The file that a name is of; None for a module, which each node must have. Raises ConfigError where it is gone."""
    module, _ = parted(use)
    if not module.endswith(".py"):
        return None
    try:
        return SourceFile(module, Path(module).read_bytes())
    except OSError as error:
        raise ConfigError(f"{module} cannot be read: {one_line(error)}") from None


def install(file: SourceFile) -> ModuleType:
    """Let names in the file stand for what its text makes, on a node that need not have it. Raises ConfigError."""
    return _imported(file.path, file.text)


def _public(module: ModuleType) -> Mapping[str, Any]:
    return {name: value for name, value in vars(module).items() if not name.startswith("_")}


def _imported(module: str, text: bytes | None = None) -> ModuleType:
    """The module, or the file as one. Raises ConfigError for whatever goes wrong in it, and where it may not be."""
    if not _imports.get() and (module.endswith(".py") or not module.startswith("fmnas.")):
        raise ConfigError(f"{module} is not imported: to read a run directory, none of the code that it names is run")
    try:
        return _from_file(Path(module), text) if module.endswith(".py") else _from_path(module)
    except LET_THROUGH:
        raise
    except BaseException as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            raise ConfigError(f"there is no module {error.name}, here or where Python looks: install it, or name a "
                              "file, FILE.py:NAME") from None  # fmt: skip
        if isinstance(error, FileNotFoundError) and error.filename == module:
            raise ConfigError(f"there is no file {module}: give its path from the current folder, or an absolute path"
                              ) from None  # fmt: skip
        raise ConfigError(f"{module} cannot be imported: {one_line(error)}{own_line(error)}") from error


def _from_path(module: str) -> ModuleType:
    if find_spec(module.partition(".")[0]) is None:
        _look_also_in(str(Path.cwd()))  # of a console script, its own folder is there, not the current one
    return import_module(module)


def _from_file(path: Path, text: bytes | None) -> ModuleType:
    """The module of a file, the same one each time, and of no other file: of its whole path."""
    name = f"fmnas_own.{sha256(os.fsencode(path.resolve())).hexdigest()[:16]}.{path.stem.replace('.', '_')}"
    if name in sys.modules:
        return sys.modules[name]
    code = compile(path.read_bytes() if text is None else text, str(path), "exec", dont_inherit=True)
    _look_also_in(str(path.resolve().parent))
    made = sys.modules[name] = ModuleType(name)  # before it runs: pickle and dataclasses look for it
    made.__file__ = str(path)
    try:
        exec(code, vars(made))
    except BaseException:
        del sys.modules[name]
        raise
    return made


def _look_also_in(folder: str) -> None:
    if folder not in sys.path:
        sys.path.append(folder)
