"""The last line of a benchmark: wrong input ends it with a message, not with a traceback."""

from collections.abc import Callable

from fmnas.search_spaces import FmnasError


def run_command(main: Callable[[], None]) -> None:
    """Run a benchmark. Raises SystemExit with a message for input that is wrong or cannot be read."""
    try:
        main()
    except (FmnasError, OSError) as error:
        raise SystemExit(str(error)) from None
