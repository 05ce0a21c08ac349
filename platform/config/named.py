"""What a name of the form "module:NAME" or "FILE.py:NAME" stands for: found, or refused in one line.

A module is looked for where Python does, and in the current folder; a file need not be in any of these.
"""

import sys
from importlib import import_module
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import Any

from fmnas.platform.config.messages import hint
from fmnas.platform.errors import ConfigError, one_line


def named(use: str) -> Any:
    """What it stands for. Raises ConfigError for a name of another form, or one of nothing."""
    module, _, name = use.rpartition(":")
    if not module or not name:
        raise ConfigError("write MODULE:NAME, or FILE.py:NAME")
    found = _imported(module)
    try:
        return getattr(found, name)
    except AttributeError:
        public = [each for each in vars(found) if not each.startswith("_")]
        raise ConfigError(f"{module} has no {name}.{hint(name, public)}") from None


def whole(use: str) -> str:
    """The same name, which means the same in any folder."""
    module, colon, name = use.rpartition(":")
    return f"{Path(module).expanduser().resolve()}{colon}{name}" if module.endswith(".py") else use


def _imported(module: str) -> ModuleType:
    """The module, or the file as one. Raises ConfigError for whatever goes wrong in it."""
    try:
        return _from_file(Path(module)) if module.endswith(".py") else _from_path(module)
    except (Exception, SystemExit) as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            raise ConfigError(f"there is no module {error.name}, here or where Python looks: install it, or name a "
                              "file, FILE.py:NAME") from None  # fmt: skip
        raise ConfigError(f"{module} cannot be imported: {one_line(error)}") from error


def _from_path(module: str) -> ModuleType:
    here = str(Path.cwd())
    if find_spec(module.partition(".")[0]) is None and here not in sys.path:
        sys.path.append(here)  # of a console script, its own folder is there, not the current one
    return import_module(module)


def _from_file(path: Path) -> ModuleType:
    """The module of a file, the same one each time."""
    name = f"fmnas_own.{path.resolve().as_posix().replace('.', '_').replace('/', '.')}"
    if name in sys.modules:
        return sys.modules[name]
    spec = spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[name] = module_from_spec(spec)  # before it runs: pickle and dataclasses look for it
    try:
        spec.loader.exec_module(made)
    except BaseException:
        del sys.modules[name]
        raise
    return made
