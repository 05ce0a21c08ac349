"""Who worked when: a row per worker, a bar wherever it worked, in the colour of the optimizer it worked for.

The trials are intervals of each worker's time; neighbours are merged where no eye could part them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from fmnas.comparison.analysis.trials import SOURCE
from fmnas.comparison.figures.canvas import Drawing, Results, bar, label, legend, names_down, panel, time_unit
from fmnas.comparison.figures.palette import GROUND, INK, styles
from fmnas.search_spaces.records import CANCELLED, FAILED, FINISHED, LOST, TIMED_OUT

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

RESOLUTION = 1500
"""Gaps shorter than the whole time / RESOLUTION are not drawn."""
HEIGHT = 0.72
"""Of a bar, where rows are 1 apart."""
RASTER_FROM = 600
"""From so many bars on they are embedded as an image."""
ENDS = {"failed or timed out": ("x", (FAILED, TIMED_OUT)), "lost or cancelled": ("o", (LOST, CANCELLED))}
"""What a trial without a result is marked with, by status."""
MOST_NAMED_WORKERS = 40
"""Up to so many workers have their names beside their rows."""


@dataclass(frozen=True)
class Timeline:
    """The work of an experiment, in seconds since the first start; of several run directories, since that of each.

    The seconds are those of the trials: of working time, where they are given in it.

    busy: columns worker (row of the figure), optimizer, start, end. ended: those of trials without a result, as columns
    worker, optimizer, status, at. workers: their names, in the order of the rows. seconds: from first start to last
    finish. busy_share: how much of their time (`capacity`) the workers were busy with trials. directories: how many run
    directories there are; a worker of one is no other's.
    """

    busy: pd.DataFrame
    ended: pd.DataFrame
    workers: tuple[str, ...]
    seconds: float
    busy_share: float
    directories: int = 1


def drawings(results: Results) -> Iterator[Drawing]:
    """Which worker worked when, for whom; none where no trial tells."""
    times = timeline(results.trials)
    if times is None:
        return
    caption = (
        f"Workers were busy {times.busy_share:.0%} of their time up to the last finish. Time without a driver, before "
        "a resume or an extension, is left out. A row is a worker's process: one that takes the place of a lost one, "
        "or comes with a resume, has a row of its own. Gaps: a worker waited for a suggestion, or for others at the "
        "end. Last attempts only: the time of attempts that were repeated is a gap, too. Trials closer than a hair are "
        "one bar."
    )
    yield Drawing("timeline", timeline_figure(times), caption, wide=True)


def timeline(trials: pd.DataFrame) -> Timeline | None:
    """The timeline of a table of trials; None where no trial tells its worker and start."""
    known = trials[trials["started_at"].notna() & trials["finished_at"].notna() & (trials["worker"] != "")]
    if known.empty:
        return None
    origin = known.groupby(SOURCE)["started_at"].transform("min")
    sources, named = list(dict.fromkeys(known[SOURCE])), list(zip(known[SOURCE], known["worker"], strict=True))
    workers = sorted(set(named), key=lambda each: (sources.index(each[0]), _natural(each[1])))
    rows = {worker: row for row, worker in enumerate(workers)}
    spans = pd.DataFrame(
        {
            "source": known[SOURCE],
            "worker": [rows[worker] for worker in named],
            "optimizer": known["optimizer"],
            "status": known["status"],
            "start": (known["started_at"] - origin).dt.total_seconds(),
            "end": (known["finished_at"] - origin).dt.total_seconds(),
        }
    )
    seconds = max(float(spans["end"].max()), 1e-9)
    late = spans[spans["status"] != FINISHED].rename(columns={"end": "at"})
    merged = merge(spans, seconds / RESOLUTION)
    worked = merge(spans.assign(optimizer=""), 0.0)
    share = float((worked["end"] - worked["start"]).sum()) / max(capacity(spans), 1e-9)
    ended = late[["worker", "optimizer", "status", "at"]].reset_index(drop=True)
    names = tuple(f"{name}, {PurePath(source).name}" if len(sources) > 1 else name for source, name in workers)
    return Timeline(merged, ended, names, seconds, min(1.0, share), len(sources))


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
    """The worker-seconds that there were, to the last finish of each run directory: columns source, worker, start, end.

    A worker is there from its first start on. A new one takes the place of one that has finished its last trial, if
    there is any, as after a loss or a resume: there are as many workers as were ever there at the same time, not as
    many as there were processes.
    """
    return sum(_capacity(together) for _, together in spans.groupby("source", sort=False))


def _capacity(spans: pd.DataFrame) -> float:
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


def _natural(name: str) -> tuple[tuple[int, str], ...]:
    """Worker-2 before worker-10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part)


def timeline_figure(timeline: Timeline) -> "Figure":
    """Bars of work; a cross where a trial failed or timed out, a circle where it was lost or cancelled."""
    from matplotlib.collections import PolyCollection

    figure, axes = panel(9.6, 0.7 + min(7.0, 0.26 * len(timeline.workers)), grid="x")
    per_unit, unit = time_unit(timeline.seconds)
    look = styles(timeline.busy["optimizer"])
    busy, many = timeline.busy, len(timeline.busy) > RASTER_FROM
    for name, style in look.items():
        mine = busy[busy["optimizer"] == name]
        bars = _bars(mine, per_unit, timeline.seconds / RESOLUTION)
        axes.add_collection(PolyCollection(bars, rasterized=many, **bar(style)))
    extra = _draw_ends(axes, timeline.ended.assign(at=timeline.ended["at"] / per_unit))
    named = len(timeline.workers) <= MOST_NAMED_WORKERS
    names_down(axes, timeline.workers if named else [""] * len(timeline.workers))
    axes.set_xlim(0, 1.005 * timeline.seconds / per_unit)
    since = f"{unit} since the first start{' of each run directory' if timeline.directories > 1 else ''}"
    label(axes, x=since, y="" if named else f"{len(timeline.workers)} workers")
    legend(figure, look, extra, lines=False)
    return figure


def _bars(busy: pd.DataFrame, per_unit: float, least: float) -> list[NDArray[np.float64]]:
    """The corners of rectangles, [4, 2] each, none narrower than `least` seconds."""
    middle, left = busy["worker"].to_numpy(dtype=np.float64), busy["start"].to_numpy(dtype=np.float64)
    right = np.maximum(busy["end"].to_numpy(dtype=np.float64), left + least) / per_unit
    left = left / per_unit
    low, high = middle - HEIGHT / 2, middle + HEIGHT / 2
    corners = [(left, low), (right, low), (right, high), (left, high)]
    return list(np.stack([np.stack(corner, axis=-1) for corner in corners], axis=1))


def _draw_ends(axes: "Axes", ended: pd.DataFrame) -> "dict[str, Artist]":
    """The marks of trials without a result; returns what the legend says of them."""
    from matplotlib.lines import Line2D

    told: dict[str, Artist] = {}
    for words, (marker, statuses) in ENDS.items():
        here = ended[ended["status"].isin(statuses)]
        if len(here):
            look: dict[str, Any] = {"color": INK, "marker": marker, "markersize": 5.5, "markerfacecolor": GROUND}
            axes.plot(here["at"], here["worker"], linestyle="", zorder=4, rasterized=len(here) > RASTER_FROM, **look)
            told[words] = Line2D([], [], linestyle="", **look)
    return told
