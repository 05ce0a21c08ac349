"""What can be wrong with data or with a trainer's input.

FmnasError
├── DataError       data that are missing, cut off, altered, or too few for what is asked
└── TrainerError    a setting, a trial or a problem name that a trainer cannot work with
"""

from fmnas.search_spaces import FmnasError


class DataError(FmnasError):
    """Data that cannot be found, read or trusted."""


class TrainerError(FmnasError, ValueError):
    """A setting or a trial that a trainer cannot work with."""
