"""The errors of this room."""

from fmnas.search_spaces import FmnasError


class ReportError(FmnasError, ValueError):
    """A table of trials that cannot be compared: the input is wrong."""


class ReportNotWritten(OSError):  # noqa: N818  # it is what the disk did, no mistake in a call
    """A file of a report that the disk would not take: the input is right, and the same report may succeed later."""
