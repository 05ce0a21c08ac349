"""Packages that only some problems need."""

from importlib import import_module
from typing import Any

from fmnas.trainers.errors import TrainerError

PACKAGES = {"sklearn": "scikit-learn", "xgboost": "xgboost-cpu"}
"""What to install for a module. The other build of xgboost serves as well; it brings CUDA's libraries along."""


def optional_module(name: str, user: str) -> Any:
    """The module, imported. Raises TrainerError that names its user and the command that installs it."""
    try:
        return import_module(name)
    except ImportError:
        package = PACKAGES[name.partition(".")[0]]
        raise TrainerError(f"{user} needs {package}, which is not installed: pip install {package}") from None
