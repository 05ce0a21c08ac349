"""BO-FM and its kernels in Optuna, Ray Tune and BoTorch, one module each.

Install the tools by extras: `pip install 'fmnas[optuna]'`, `'fmnas[tune]'` or `'fmnas[botorch]'`. ranges.py converts
their parameters; docs/integrations.md has examples.
"""

from fmnas.search_spaces import FmnasError


class MissingPackageError(FmnasError, ImportError):
    """An integration was imported, but its tool is missing or cannot be imported."""

    def __init__(self, module: str, package: str, extra: str, cause: ImportError) -> None:
        missing = isinstance(cause, ModuleNotFoundError)
        problem = "is not installed" if missing else f"cannot be imported ({cause})"
        super().__init__(f"{module} needs {package}, which {problem}: pip install 'fmnas[{extra}]'")


__all__ = ["MissingPackageError"]
