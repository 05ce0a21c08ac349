"""The worker timeline: a row per worker, a bar wherever it worked, in the colour of the optimizer it worked for.

Bars that are too close to be distinguished are merged.
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
from fmnas.comparison.figures.canvas import (
    Drawing,
    Results,
    add_legend,
    bar_style,
    new_panel,
    set_labels,
    set_name_ticks,
    time_unit,
)
from fmnas.comparison.figures.palette import GROUND, INK, styles
from fmnas.search_spaces.records import CANCELLED, FAILED, FINISHED, LOST, TIMED_OUT

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CAPTION = (
    "Workers were busy {:.0%} of their time up to the last finish. Time without a driver, before a resume or an "
    "extension, is excluded. A row is a worker process: a replacement of a lost one, or one started by a resume, has "
    "its own row. Gaps: a worker waited for a suggestion, or for others at the end. Only last attempts are shown: the "
    "time of repeated attempts is a gap, too. Trials that are very close are one bar."
)
RESOLUTION = 1500
"""Gaps shorter than the total time / RESOLUTION are not drawn."""
BAR_HEIGHT = 0.72
"""Rows are 1 apart."""
RASTER_FROM = 600
"""More bars than this are embedded as an image."""
ENDS = {"failed or timed out": ("x", (FAILED, TIMED_OUT)), "lost or cancelled": ("o", (LOST, CANCELLED))}
"""Legend entry -> marker, and the statuses of the trials without a result that it marks."""
MAX_NAMED_WORKERS = 40
"""With more workers their rows have no names."""


@dataclass(frozen=True)
class Timeline:
    """The work of an experiment, in seconds since the first start (in each run directory, if there are several).

    busy: columns worker (row of the figure), optimizer, start, end. ended: trials without a result, columns worker,
    optimizer, status, at. workers: their names, in the order of the rows. seconds: from first start to last finish.
    busy_share: the share of the worker time (`capacity`) that was spent on trials. directories: the number of run
    directories; they share no workers.
    """

    busy: pd.DataFrame
    ended: pd.DataFrame
    workers: tuple[str, ...]
    seconds: float
    busy_share: float
    directories: int = 1


def drawings(results: Results) -> Iterator[Drawing]:
    """The timeline. None where no trial has a worker and times."""
    times = timeline(results.trials)
    if times is not None:
        yield Drawing("timeline", timeline_figure(times), CAPTION.format(times.busy_share), is_wide=True)


def timeline(trials: pd.DataFrame) -> Timeline | None:
    """The timeline of a table of trials; None where no trial has a worker and times."""
    known = trials[trials["started_at"].notna() & trials["finished_at"].notna() & (trials["worker"] != "")]
    if known.empty:
        return None
    origin = known.groupby(SOURCE)["started_at"].transform("min")
    sources, named = list(dict.fromkeys(known[SOURCE])), list(zip(known[SOURCE], known["worker"], strict=True))
    workers = sorted(set(named), key=lambda worker: (sources.index(worker[0]), _natural_order(worker[1])))
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
    unfinished = spans[spans["status"] != FINISHED].rename(columns={"end": "at"})
    worked = merge(spans.assign(optimizer=""), 0.0)
    share = float((worked["end"] - worked["start"]).sum()) / max(capacity(spans), 1e-9)
    ended = unfinished[["worker", "optimizer", "status", "at"]].reset_index(drop=True)
    names = tuple(f"{name}, {PurePath(source).name}" if len(sources) > 1 else name for source, name in workers)
    return Timeline(merge(spans, seconds / RESOLUTION), ended, names, seconds, min(1.0, share), len(sources))


def merge(spans: pd.DataFrame, gap: float) -> pd.DataFrame:
    """Merge intervals of the same worker and optimizer that overlap or are at most `gap` seconds apart."""
    ordered = spans.sort_values(["worker", "optimizer", "start", "end"], kind="stable")
    reached = ordered.groupby(["worker", "optimizer"], sort=False)["end"].cummax()
    before = reached.groupby([ordered["worker"], ordered["optimizer"]], sort=False).shift()
    number = np.cumsum(~(ordered["start"] - before <= gap))
    merged = ordered.groupby(number, sort=False).agg(
        worker=("worker", "first"), optimizer=("optimizer", "first"), start=("start", "first"), end=("end", "max")
    )
    return merged.reset_index(drop=True)


def capacity(spans: pd.DataFrame) -> float:
    """The available worker-seconds, up to the last finish of each run directory: columns source, worker, start, end.

    A worker is available from its first start on. A new process takes the place of one that has finished its last
    trial, if there is one, as after a loss or a resume. So the number of workers is the most that ever worked at the
    same time, not the number of processes.
    """
    return sum(_capacity(of_source) for _, of_source in spans.groupby("source", sort=False))


def _capacity(spans: pd.DataFrame) -> float:
    lives = spans.groupby("worker", sort=False).agg(start=("start", "min"), end=("end", "max")).sort_values("start")
    opened: list[float] = []  # when each place was first taken
    free_from: list[float] = []
    for start, end in lives.itertuples(index=False):
        free = next((i for i, until in enumerate(free_from) if until <= start), None)
        if free is None:
            opened.append(float(start))
            free_from.append(float(end))
        else:
            free_from[free] = float(end)
    return sum(max(free_from) - since for since in opened)


def _natural_order(name: str) -> tuple[tuple[int, str], ...]:
    """A sort key that puts worker-2 before worker-10."""
    return tuple((int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name) if part)


def timeline_figure(timeline: Timeline) -> "Figure":
    """Bars of work; a cross where a trial failed or timed out, a circle where it was lost or cancelled."""
    from matplotlib.collections import PolyCollection

    figure, axes = new_panel(9.6, 0.7 + min(7.0, 0.26 * len(timeline.workers)), grid="x")
    per_unit, unit = time_unit(timeline.seconds)
    looks = styles(timeline.busy["optimizer"])
    busy, many = timeline.busy, len(timeline.busy) > RASTER_FROM
    for name, style in looks.items():
        bars = _bar_corners(busy[busy["optimizer"] == name], per_unit, timeline.seconds / RESOLUTION)
        axes.add_collection(PolyCollection(bars, rasterized=many, **bar_style(style)))
    extra = _draw_ends(axes, timeline.ended.assign(at=timeline.ended["at"] / per_unit))
    named = len(timeline.workers) <= MAX_NAMED_WORKERS
    set_name_ticks(axes, timeline.workers if named else [""] * len(timeline.workers))
    axes.set_xlim(0, 1.005 * timeline.seconds / per_unit)
    since = f"{unit} since the first start{' of each run directory' if timeline.directories > 1 else ''}"
    set_labels(axes, x=since, y="" if named else f"{len(timeline.workers)} workers")
    add_legend(figure, looks, extra, lines=False)
    return figure


def _bar_corners(busy: pd.DataFrame, per_unit: float, least: float) -> list[NDArray[np.float64]]:
    """The corners of rectangles, [4, 2] each, at least `least` seconds wide."""
    middle, left = busy["worker"].to_numpy(dtype=np.float64), busy["start"].to_numpy(dtype=np.float64)
    right = np.maximum(busy["end"].to_numpy(dtype=np.float64), left + least) / per_unit
    left = left / per_unit
    low, high = middle - BAR_HEIGHT / 2, middle + BAR_HEIGHT / 2
    corners = [(left, low), (right, low), (right, high), (left, high)]
    return list(np.stack([np.stack(corner, axis=-1) for corner in corners], axis=1))


def _draw_ends(axes: "Axes", ended: pd.DataFrame) -> "dict[str, Artist]":
    """Draw the marks of trials without a result; returns their entries for the legend."""
    from matplotlib.lines import Line2D

    entries: dict[str, Artist] = {}
    for words, (marker, statuses) in ENDS.items():
        marked = ended[ended["status"].isin(statuses)]
        if len(marked):
            look: dict[str, Any] = {"color": INK, "marker": marker, "markersize": 5.5, "markerfacecolor": GROUND}
            rasterized = len(marked) > RASTER_FROM
            axes.plot(marked["at"], marked["worker"], linestyle="", zorder=4, rasterized=rasterized, **look)
            entries[words] = Line2D([], [], linestyle="", **look)
    return entries
