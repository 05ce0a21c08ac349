"""The worker-seconds that stand idle while an optimizer thinks.

A driver asks one optimizer at a time, and only when a worker is free. So for as long as it waits for a suggestion,

- that worker waits for its trial: all of the suggestion's seconds, and
- a worker that ends a trial meanwhile waits until the driver hears of it: from the end of its training to the record.

The first part is the sum of the suggestions; the second is measured by the clocks: a trial ended its training
train_seconds after its start, and was heard of at finished_at. What of that time lies within a suggestion of a run
is that run's. A worker that no run had a use for does not wait for anyone.
"""

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fmnas.comparison.trials import LOST_SECONDS, SOURCE

Floats = NDArray[np.float64]


def idle_seconds(trials: pd.DataFrame) -> dict[str, float]:
    """run -> worker-seconds that its suggestions left idle, over all its trials."""
    idle: dict[str, float] = {}
    for _, together in trials.groupby(SOURCE, sort=False):
        finished = together[together["train_seconds"].notna()]
        heard = _seconds(finished["finished_at"])
        ended = np.minimum(_seconds(finished["started_at"]) + finished["train_seconds"].to_numpy(dtype=float), heard)
        known = ~(np.isnan(heard) | np.isnan(ended))
        for run, asked in together.groupby("run", sort=False):
            thought = _Thinking(asked)
            waited = thought.until(heard[known]) - thought.until(ended[known])
            idle[str(run)] = float(asked["suggest_seconds"].sum() + waited.sum())
    return idle


class _Thinking:
    """When one run's optimizer thought: a suggestion ended when its trial was first started."""

    def __init__(self, asked: pd.DataFrame) -> None:
        ends = _seconds(asked["started_at"]) - asked[LOST_SECONDS].fillna(0.0).to_numpy(dtype=float)
        took = asked["suggest_seconds"].fillna(0.0).to_numpy(dtype=float)
        order = np.argsort(ends)
        order = order[~np.isnan(ends[order])]
        ends, took = ends[order], took[order]
        # Clocks are written to the millisecond: two suggestions may seem to overlap by as much.
        self._times = np.maximum.accumulate(np.stack([ends - took, ends], axis=1).ravel())
        total = np.cumsum(took)
        self._spent = np.stack([total - took, total], axis=1).ravel()

    def until(self, times: Floats) -> Floats:
        """The seconds of thought before each of these moments."""
        if not len(self._times):
            return np.zeros(len(times))
        return np.asarray(np.interp(times, self._times, self._spent))


def _seconds(times: "pd.Series[pd.Timestamp]") -> Floats:
    """Since the epoch; NaN where there is none."""
    return np.asarray((times - pd.Timestamp(0, tz="UTC")).dt.total_seconds().to_numpy(dtype=float))
