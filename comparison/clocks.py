"""Whether the clocks that stamped the trials can be believed, and whether an experiment stood still.

A trial's training is measured by a clock that cannot be set; its start and finish are times of day, which can be.
Where the two differ widely, or no trial ran for hours, wall-clock times hold more, or less, than work. It is said, and
nothing is corrected: what the time was, nobody knows any more.
"""

import pandas as pd

from fmnas.comparison.trials import SOURCE
from fmnas.comparison.wording import duration

SLACK = 60.0
"""Seconds by which start and finish may disagree with what was measured: messages and busy machines take time."""
STILL = 3600.0
"""Seconds without any trial or suggestion that are worth a word."""


def clock_remarks(trials: pd.DataFrame) -> list[str]:
    """What the reader of wall-clock times must know, in sentences; none where all is well."""
    known = trials[trials["started_at"].notna() & trials["finished_at"].notna()]
    elapsed = (known["finished_at"] - known["started_at"]).dt.total_seconds()
    measured = known["train_seconds"].fillna(0.0)
    back = int((elapsed < 0.5 * measured - SLACK).sum())
    ahead = int((known["train_seconds"].notna() & (elapsed > 2.0 * measured + STILL)).sum())
    remarks = []
    if back:
        remarks.append(
            f"{_trials(back)} ended before the start, or sooner than the training can have: a clock was set back. "
            "Do not believe wall-clock times."
        )
    if ahead:
        remarks.append(
            f"{_trials(ahead)} lasted by the clock more than an hour longer than twice the training: a clock was set "
            "ahead, or a machine slept. Do not believe wall-clock times."
        )
    still = sum(_standstill(together) for _, together in known.groupby(SOURCE, sort=False))
    if still:
        remarks.append(
            f"For {duration(still)} in all no trial ran: the experiment was interrupted, or a clock was set ahead; "
            "wall-clock times include that."
        )
    return remarks


def _trials(count: int) -> str:
    return "1 trial" if count == 1 else f"{count} trials"


def _standstill(trials: pd.DataFrame) -> float:
    """The seconds of all gaps of at least STILL between trials, suggestions taken off."""
    ordered = trials.sort_values("started_at")
    asked = ordered["started_at"] - pd.to_timedelta(ordered["suggest_seconds"].fillna(0.0), unit="s")
    gaps = (asked - ordered["finished_at"].cummax().shift()).dt.total_seconds()
    return float(gaps[gaps >= STILL].sum())
