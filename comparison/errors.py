"""The errors of this room."""

from fmnas.search_spaces import FmnasError


class ReportError(FmnasError, ValueError):
    """A table of trials that cannot be compared, or a report that cannot be written."""
