"""How a command reports: a live table, log lines, JSON lines, or nothing. A closed pipe or a full disk stops nothing.

A logger passes on what happens. Its records carry `event` and `facts`, which --progress json prints as one JSON object
per line: the events of journal.jsonl with `status_fields` of `Progress`, and

| event | facts |
|---|---|
| start | name, problem, runs, and the status fields |
| message | text |
| end | status (finished, interrupted, failed, wrong input), exit_code, reason; if the experiment has begun, also \
run_directory, page, resume_command; with results, also headline, caution, optimizers, mlflow |
"""

import json
import logging

from rich.console import Console

from fmnas.platform.display.console import print_line
from fmnas.platform.errors import ConfigError

LIVE, LINES, JSON, QUIET = "live", "lines", "json", "quiet"
PROGRESS_MODES = (LIVE, LINES, JSON, QUIET)


def resolve_mode(requested: str | None, console: Console) -> str:
    """Return the requested mode; None means live in a terminal, else lines. Raises ConfigError for live elsewhere."""
    if requested == LIVE and not console.is_terminal:
        raise ConfigError("--progress live needs a terminal; use lines, json or quiet")
    return requested or (LIVE if console.is_terminal else LINES)


class JsonFormatter(logging.Formatter):
    """Formats a record as a JSON object: its event, the time, and its facts."""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        facts = getattr(record, "facts", {"text": record.getMessage()})
        event = getattr(record, "event", "message")
        return json.dumps({"event": event, "at": round(record.created, 3), **facts}, default=str)


class ConsoleHandler(logging.Handler):
    """Prints records on a console, one line each. is_live: only messages and warnings, as a table shows the rest."""

    def __init__(self, console: Console, is_live: bool = False) -> None:
        super().__init__(logging.INFO)
        self._console, self._is_live = console, is_live

    def emit(self, record: logging.LogRecord) -> None:
        """Print the text of a record."""
        if not self._is_live or record.levelno > logging.INFO or not hasattr(record, "event"):
            print_line(self._console, record.getMessage())


def make_logger(mode: str, console: Console) -> logging.Logger:
    """Return a new logger that reports in one of PROGRESS_MODES; it is not registered with the logging module."""
    logger = logging.Logger("fmnas.progress")
    if mode == JSON:
        handler: logging.Handler = logging.StreamHandler(console.file)
        handler.setFormatter(JsonFormatter())
    else:
        handler = logging.NullHandler() if mode == QUIET else ConsoleHandler(console, mode == LIVE)
    logger.addHandler(handler)
    return logger
