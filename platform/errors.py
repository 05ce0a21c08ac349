"""What can go wrong in the platform, and the exit code each has.

FmnasError                 exit code 2: wrong input
├── ConfigError            a configuration file, an override or a command-line argument
├── RunDirectoryError      a run directory that exists, is missing, cannot be written or was changed
└── ClusterError           a Ray cluster that cannot be reached or lacks what was asked for
ExperimentFailed           exit code 1: the experiment itself failed; it can be resumed
"""

from fmnas.search_spaces import FmnasError


class ConfigError(FmnasError):
    """A configuration that makes no sense."""


class RunDirectoryError(FmnasError):
    """A run directory that cannot serve."""


class ClusterError(FmnasError):
    """A cluster that cannot serve."""


class ExperimentFailed(Exception):  # noqa: N818  # it is an ending, not a mistake in a call
    """Too many trials in a row failed: something is broken that more trials will not mend."""
