"""The base of every error that a user's input can cause.

    FmnasError
    ├── SpaceError          a variable, space or configuration that makes no sense
    └── (each room adds its own: DataError, ConfigError, ...)

The message names the offender, the value, what is allowed and the next step. The command line prints it
and exits with code 2; it never shows a traceback for one of these.
"""


class FmnasError(Exception):
    """Wrong input, explained to the person who gave it."""


class SpaceError(FmnasError, ValueError):
    """A variable, a space or a configuration that is not what it must be."""
