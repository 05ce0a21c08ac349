"""The base class of all errors caused by user input, and the import of optional packages.

Each package derives its own (SpaceError, OptimizerError, DataError, ConfigError, ...). A message names what is wrong,
the value, what is allowed and the next step. The command line prints it without a traceback and exits with code 2.
"""

import sys
from importlib import import_module
from typing import Any


class FmnasError(Exception):
    """Invalid input, explained to the user."""


class SpaceError(FmnasError, ValueError):
    """An invalid variable, space or configuration."""


XGBOOST = "xgboost" if sys.platform == "darwin" else "xgboost-cpu"
PACKAGES = {"sklearn": "scikit-learn", "xgboost": XGBOOST, "Box2D": "box2d", "pynvml": "nvidia-ml-py"}
"""The distribution of a module, where its name differs. `xgboost` would install CUDA's libraries on Linux, too."""
WITHOUT_DEPENDENCIES = {"hpbandster"}
"""What fmnas needs of its dependencies is required by fmnas; netifaces, which must be compiled, is not needed."""


def install_command(module: str) -> str:
    """Return the command that installs the distribution of a module."""
    flag = "--no-deps " if module in WITHOUT_DEPENDENCIES else ""
    return f"pip install {flag}{PACKAGES.get(module, module)}"


def optional_module(name: str, user: str, error: type[FmnasError]) -> Any:
    """Import a module that `user` needs. Raises `error`, which says what to install or why the import failed."""
    module = name.partition(".")[0]
    package = PACKAGES.get(module, module)
    try:
        return import_module(name)
    except ImportError as failure:
        if isinstance(failure, ModuleNotFoundError) and (failure.name or "").partition(".")[0] == module:
            raise error(f"{user} needs {package}, which is not installed: {install_command(module)}") from None
        raise error(
            f"{user} needs {package}, which is installed but cannot be imported: {failure}; try: "
            f"{install_command(module)} --upgrade"
        ) from failure
