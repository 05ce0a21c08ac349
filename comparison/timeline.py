"""Who worked when: the trials as intervals of each worker's time, neighbours merged where no eye could part them."""

import re
from dataclasses import dataclass

import numpy as np
import pandas as pd

RESOLUTION = 1500
"""Gaps shorter than the whole time / RESOLUTION are not drawn."""
LATE = ("failed", "timed_out", "lost", "cancelled")


@dataclass(frozen=True)
class Timeline:
    """The work of an experiment, in seconds since the first start.

    busy: columns worker (row of the figure), optimizer, start, end. ended: those of trials without a result, as columns
    worker, optimizer, status, at. workers: their names, in the order of the rows. seconds: from first start to last
    finish. busy_share: how much of their time (`capacity`) the workers were busy with trials.
    """

    busy: pd.DataFrame
    ended: pd.DataFrame
    workers: tuple[str, ...]
    seconds: float
    busy_share: float


def timeline(trials: pd.DataFrame) -> Timeline | None:
    """The timeline of a table of trials; None where no trial tells its worker and start."""
    known = trials[trials["started_at"].notna() & trials["finished_at"].notna() & (trials["worker"] != "")]
    if known.empty:
        return None
    origin = known["started_at"].min()
    workers = tuple(sorted(set(known["worker"]), key=_natural))
    rows = {name: row for row, name in enumerate(workers)}
    spans = pd.DataFrame(
        {
            "worker": known["worker"].map(rows).astype(int),
            "optimizer": known["optimizer"],
            "status": known["status"],
            "start": (known["started_at"] - origin).dt.total_seconds(),
            "end": (known["finished_at"] - origin).dt.total_seconds(),
        }
    )
    seconds = max(float(spans["end"].max()), 1e-9)
    late = spans[spans["status"].isin(LATE)].rename(columns={"end": "at"})
    merged = merge(spans, seconds / RESOLUTION)
    share = _length(merge(spans.assign(optimizer=""), 0.0)) / max(capacity(spans), 1e-9)
    ended = late[["worker", "optimizer", "status", "at"]].reset_index(drop=True)
    return Timeline(merged, ended, workers, seconds, min(1.0, share))


def merge(spans: pd.DataFrame, gap: float) -> pd.DataFrame:
    """Intervals of the same worker and optimizer that overlap or lie at most `gap` seconds apart, as one."""
    ordered = spans.sort_values(["worker", "optimizer", "start", "end"], kind="stable")
    groups = ordered.groupby(["worker", "optimizer"], sort=False)
    reached = groups["end"].cummax()
    before = reached.groupby([ordered["worker"], ordered["optimizer"]], sort=False).shift()
    number = np.cumsum(~(ordered["start"] - before <= gap))
    merged = ordered.groupby(number, sort=False).agg(
        worker=("worker", "first"), optimizer=("optimizer", "first"), start=("start", "first"), end=("end", "max")
    )
    return merged.reset_index(drop=True)


def capacity(spans: pd.DataFrame) -> float:
    """The worker-seconds that there were, to the last finish: columns worker, start, end.

    A worker is there from its first start on. A new one takes the place of one that has finished its last trial, if
    there is any, as after a loss or a resume: there are as many workers as were ever there at the same time, not as
    many as there were processes.
    """
    lives = spans.groupby("worker", sort=False).agg(start=("start", "min"), end=("end", "max")).sort_values("start")
    opened: list[float] = []  # since when a place is there
    places: list[float] = []  # when it becomes free
    for start, end in lives.itertuples(index=False):
        free = next((i for i, until in enumerate(places) if until <= start), None)
        if free is None:
            opened.append(float(start))
            places.append(float(end))
        else:
            places[free] = float(end)
    return sum(max(places) - since for since in opened)


def _length(spans: pd.DataFrame) -> float:
    return float((spans["end"] - spans["start"]).sum())


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Worker-2 before worker-10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part)
