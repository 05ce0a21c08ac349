"""BO-FM and its kernels in other people's tools: Optuna, Ray Tune and BoTorch, a module each.

Each needs its tool, which an extra of the same purpose brings: `pip install 'fmnas[optuna]'`, `'fmnas[tune]'` or
`'fmnas[botorch]'`. ranges.py translates their parameters; docs/integrations.md has examples.
"""

from fmnas.search_spaces import FmnasError


class MissingPackageError(FmnasError, ImportError):
    """An integration was imported without its tool, or with one that cannot be imported, as `found` says."""

    def __init__(self, module: str, package: str, extra: str, found: ImportError) -> None:
        missing = isinstance(found, ModuleNotFoundError)
        why = "is not installed" if missing else f"cannot be imported ({found})"
        super().__init__(f"{module} needs {package}, which {why}: pip install 'fmnas[{extra}]'")


__all__ = ["MissingPackageError"]
