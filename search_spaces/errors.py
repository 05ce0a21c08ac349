"""The base of every error that a user's input can cause, and that of a package that is not there.

    FmnasError
    ├── SpaceError          a variable, space or configuration that makes no sense
    └── (each room adds its own: DataError, ConfigError, ...)

The message names the offender, the value, what is allowed and the next step. The command line prints it
and exits with code 2; it never shows a traceback for one of these.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from typing import Any


class FmnasError(Exception):
    """Wrong input, explained to the person who gave it."""


class SpaceError(FmnasError, ValueError):
    """A variable, a space or a configuration that is not what it must be."""


def did_you_mean(given: str, known: Iterable[str]) -> str:
    """A sentence with the known name that is most like the given one; empty where none is."""
    close = get_close_matches(given, list(known), n=1)
    return f" Did you mean {close[0]!r}?" if close else ""


PACKAGES = {"sklearn": "scikit-learn", "xgboost": "xgboost-cpu"}
"""What to install for a module, where it has another name. The other build of xgboost brings CUDA's libraries along."""


def optional_module(name: str, user: str, error: type[FmnasError]) -> Any:
    """The module, imported. Raises the error, which names its user, and what to install or what went wrong."""
    module = name.partition(".")[0]
    package = PACKAGES.get(module, module)
    try:
        return import_module(name)
    except ImportError as found:
        if isinstance(found, ModuleNotFoundError) and (found.name or "").partition(".")[0] == module:
            raise error(f"{user} needs {package}, which is not installed: pip install {package}") from None
        raise error(
            f"{user} needs {package}, which is installed and cannot be imported: {found}; pip install --upgrade "
            f"{package} may mend it"
        ) from found
