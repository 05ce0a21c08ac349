"""BO-FM and its kernels in other people's tools: Optuna, Ray Tune and BoTorch, a module each.

Each needs its tool, which an extra of the same purpose brings: `pip install 'fmnas[optuna]'`, `'fmnas[tune]'` or
`'fmnas[botorch]'`. ranges.py translates their parameters; docs/integrations.md has examples.
"""

from fmnas.search_spaces import FmnasError


class MissingPackageError(FmnasError, ImportError):
    """An integration was imported without its tool."""

    def __init__(self, module: str, package: str, extra: str) -> None:
        super().__init__(f"{module} needs {package}, which is not installed: pip install 'fmnas[{extra}]'")


__all__ = ["MissingPackageError"]
