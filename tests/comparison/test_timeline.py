import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.comparison.figures.files import inline_svg
from fmnas.comparison.figures.timeline import merge, timeline, timeline_figure

SPAN = st.tuples(st.integers(0, 3), st.sampled_from("ab"), st.integers(0, 50), st.integers(0, 10))


def test_by_hand(make_table):
    """A trial lasts the 7 s before `at`."""
    failed = {"status": "failed", "at": 20, "worker": "w10"}
    times = timeline(
        make_table(
            {
                ("a", 0): [{"objective": 1.0, "at": 7}, {"objective": 1.0, "at": 14}, failed],
                ("b", 0): [{"objective": 1.0, "at": 28, "worker": "w2"}],
            }
        )
    )
    assert times.workers == ("w0", "w2", "w10")
    assert times.busy.values.tolist() == [[0, "a", 0.0, 14.0], [1, "b", 21.0, 28.0], [2, "a", 13.0, 20.0]]
    assert times.ended.values.tolist() == [[2, "a", "failed", 20.0]]
    assert times.seconds == 28
    # w2 comes when w0 is done: two places, one from the first second on and one from the 13th.
    assert times.busy_share == pytest.approx((14 + 7 + 7) / (28 + 15))
    figure = timeline_figure(times)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["a", "b", "failed or timed out"]


def test_workers_and_optimizers_differ_at_any_number(make_table):
    """Two workers, twelve optimizers: names lose their middle, colours have hatches, the legend has rows."""
    long = "worker-{}@a-host-with-a-name-of-more-than-enough-letters"
    runs = {(f"o{i:02}", 0): [{"objective": 1.0, "at": 7 * i + 7, "worker": long.format(i % 2)}] for i in range(12)}
    figure = timeline_figure(timeline(make_table(runs)))
    svg = inline_svg(figure, "timeline", "timeline")
    (axes,) = figure.axes
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert [(name[:9], name[-8:]) for name in names] == [("worker-0@", "-letters"), ("worker-1@", "-letters")]
    assert all("…" in name and len(name) <= 32 for name in names)
    assert axes.get_window_extent().height >= 0.25 * 2 * figure.dpi
    bars = {(tuple(bar.get_facecolor()[0]), bar.get_hatch()) for bar in axes.collections}
    assert len(bars) == 12
    assert "fill: var(--black)" in svg
    assert 'fill="#' not in svg, "a hatch keeps its light colour on a dark page"


def test_a_resume_brings_new_processes_and_no_more_workers(make_table):
    """Two workers, each without a pause, and two in their place after 10 s of interruption: 7 s a trial."""
    trials = [{"objective": 1.0, "at": 7.0 * (i + 1), "worker": f"w{w}@1"} for i in range(10) for w in (0, 1)]
    trials += [{"objective": 1.0, "at": 80.0 + 7.0 * (i + 1), "worker": f"w{w}@2"} for i in range(10) for w in (0, 1)]
    times = timeline(make_table({("a", 0): trials}))
    assert len(times.workers) == 4
    assert times.busy_share == pytest.approx(140 / 150)


def test_a_lost_worker_is_replaced_by_one(make_table):
    """w1 is lost at 14 s, and w2 begins at 17 s in its place; w3 is one more, from 21 s on."""
    trials = [{"objective": 1.0, "at": 7.0 * (i + 1), "worker": "w0"} for i in range(6)]
    trials += [{"objective": 1.0, "at": at, "worker": "w1"} for at in (7, 14)]
    trials += [{"objective": 1.0, "at": at, "worker": "w2"} for at in (24, 31, 38)]
    times = timeline(make_table({("a", 0): [*trials, {"objective": 1.0, "at": 28, "worker": "w3"}]}))
    assert times.busy_share == pytest.approx((42 + 14 + 21 + 7) / (42 + 42 + 21))


def test_two_optimizers_at_once_on_a_worker_are_busy_once(make_table):
    times = timeline(make_table({("a", 0): [{"objective": 1.0, "at": 7}], ("b", 0): [{"objective": 1.0, "at": 9}]}))
    assert len(times.busy) == 2
    assert times.busy_share == 1.0


def test_every_run_directory_has_its_own_clock_and_workers(make_table):
    """Two of the same kind, a week apart: the same workers' names, and nothing idle between."""
    trials = make_table({(name, 0): [{"objective": 1.0, "at": at} for at in (7, 14, 28)] for name in "ab"})
    week = pd.Timedelta(days=7) * (trials["optimizer"] == "b").astype(int)
    late = trials.assign(started_at=trials["started_at"] + week, finished_at=trials["finished_at"] + week)
    times = timeline(late.assign(run_directory=["runs/one"] * 3 + ["runs/two"] * 3))
    assert (times.workers, times.seconds, times.directories) == (("w0, one", "w0, two"), 28, 2)
    assert times.busy_share == pytest.approx(21 / 28)
    assert times.busy.values.tolist() == [
        [0, "a", 0.0, 14.0],
        [0, "a", 21.0, 28.0],
        [1, "b", 0.0, 14.0],
        [1, "b", 21.0, 28.0],
    ]
    assert timeline_figure(times).axes[0].get_xlabel() == "seconds since the first start of each run directory"


def test_nothing_to_draw(make_run):
    assert timeline(make_run("a", 0, [1.0]).iloc[:0]) is None
    assert timeline(make_run("a", 0, [{"status": "cancelled", "worker": "", "started_at": None}])) is None


@given(spans=st.lists(SPAN, min_size=1, max_size=30), gap=st.integers(0, 3))
def test_merged_intervals_cover_the_same_time(spans, gap):
    given_spans = pd.DataFrame(
        [(w, o, float(s), float(s + d)) for w, o, s, d in spans], columns=["worker", "optimizer", "start", "end"]
    )
    merged = merge(given_spans, gap)
    for (worker, optimizer), mine in given_spans.groupby(["worker", "optimizer"]):
        mine_merged = merged[(merged["worker"] == worker) & (merged["optimizer"] == optimizer)]
        starts, ends = mine_merged["start"].to_numpy(), mine_merged["end"].to_numpy()
        assert (starts[1:] > ends[:-1] + gap).all()
        middle = np.arange(60) + 0.5
        inside = (mine["start"].to_numpy()[:, None] < middle) & (middle < mine["end"].to_numpy()[:, None])
        covered = (starts[:, None] < middle) & (middle < ends[:, None])
        assert covered.any(axis=0)[inside.any(axis=0)].all()
        if gap == 0:
            assert (covered.any(axis=0) == inside.any(axis=0)).all()


def test_ten_thousand_trials_stay_light(make_row):
    ends = np.cumsum(np.random.default_rng(0).uniform(1, 30, size=10_000))
    plain = pd.DataFrame([make_row("a", 0, 0)] * 10_000)
    finished = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(ends, unit="s")
    workers = [f"w{i % 7}" for i in range(10_000)]
    trials = plain.assign(
        finished_at=finished, started_at=finished - pd.Timedelta(seconds=5), worker=workers, run_directory=""
    )
    times = timeline(trials.assign(status=["failed", "finished"] * 5_000))
    assert len(inline_svg(timeline_figure(times), "timeline", "timeline")) < 500_000
