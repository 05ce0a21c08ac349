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
from collections.abc import Mapping
from typing import Any

from rich.console import Console

from fmnas.platform.display.console import print_line
from fmnas.platform.errors import ConfigError

LIVE, LINES, JSON, QUIET = "live", "lines", "json", "quiet"
PROGRESS_MODES = (LIVE, LINES, JSON, QUIET)


def resolve_mode(requested: str | None, console: Console) -> str:
    """Return the requested mode; None means live in a terminal, else lines. Raises ConfigError for live elsewhere."""
    can_be_live = console.is_terminal and not console.is_dumb_terminal  # a dumb one, TERM=dumb, cannot redraw a table
    if requested == LIVE and not can_be_live:
        raise ConfigError("--progress live needs a terminal that can redraw lines; use lines, json or quiet")
    return requested or (LIVE if can_be_live else LINES)


class ProgressHandler(logging.Handler):
    """Prints a record on a console, in any mode but quiet. A live table shows the events, except for warnings."""

    def __init__(self, mode: str, console: Console) -> None:
        super().__init__(logging.NOTSET if mode == JSON else logging.INFO)
        self._mode, self._console = mode, console

    def emit(self, record: logging.LogRecord) -> None:
        """Print one line."""
        event, text = getattr(record, "event", "message"), record.getMessage()
        if self._mode == JSON:
            facts = getattr(record, "facts", {"text": text})
            line = json.dumps({"event": event, "at": round(record.created, 3), **facts}, default=str)
            self._console.file.write(f"{line}\n")
            self._console.file.flush()
        elif self._mode == LINES or event == "message" or record.levelno > logging.INFO:
            print_line(self._console, text)


def make_logger(mode: str, console: Console) -> logging.Logger:
    """Return a new logger that reports in one of PROGRESS_MODES; it is not registered with the logging module."""
    logger = logging.Logger("fmnas.progress")
    logger.addHandler(logging.NullHandler() if mode == QUIET else ProgressHandler(mode, console))
    return logger


def log_end(console: Console, status: str, code: int, facts: Mapping[str, Any]) -> None:
    """Print the last line of --progress json."""
    fields = {"status": status, "reason": "", "exit_code": int(code), **facts}
    make_logger(JSON, console).info("", extra={"event": "end", "facts": fields})
