import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.comparison.analysis.costs import idle_seconds


def test_one_worker_waits_for_every_suggestion(make_run):
    """Each trial's worker hears of the result at once."""
    trials = make_run("a", 0, [{"objective": 1.0, "train_seconds": 7.0, "suggest_seconds": s} for s in (0.5, 1.5)])
    assert idle_seconds(trials) == {"a/repeat-0": pytest.approx(2.0)}


def two_runs(make_table, source="x"):
    """b thinks from 19 to 25; a's trial is trained from 10 to 20, and heard of when b has thought, at 25."""
    a = {
        "objective": 1.0,
        "started_at": "2026-01-01T00:00:10Z",
        "train_seconds": 10.0,
        "suggest_seconds": 0.0,
        "at": 25,
    }
    b = {"objective": 1.0, "started_at": "2026-01-01T00:00:25Z", "train_seconds": 5.0, "suggest_seconds": 6.0, "at": 30}
    trials = make_table({("a", 0): [a], ("b", 0): [b]})
    return trials.assign(run_directory=["x", source])


def test_a_worker_that_ends_meanwhile_waits_for_the_rest(make_table):
    assert idle_seconds(two_runs(make_table)) == pytest.approx({"a/repeat-0": 0.0, "b/repeat-0": 6.0 + 5.0})


def test_another_experiments_workers_do_not_wait(make_table):
    assert idle_seconds(two_runs(make_table, source="y")) == pytest.approx({"a/repeat-0": 0.0, "b/repeat-0": 6.0})


def test_of_a_repeated_trial_the_first_start_ends_the_suggestion(make_table):
    trials = two_runs(make_table)
    later = pd.Timedelta(seconds=100)
    trials.loc[1, ["started_at", "finished_at"]] += later
    trials["lost_seconds"] = [0.0, 100.0]
    assert idle_seconds(trials)["b/repeat-0"] == pytest.approx(11.0)


@settings(max_examples=30, deadline=None)
@given(thoughts=st.lists(st.floats(0, 5), min_size=1, max_size=6), trained=st.floats(0, 9))
def test_it_is_never_less_than_the_thought(make_run, thoughts, trained):
    given = [{"objective": 1.0, "suggest_seconds": t, "train_seconds": trained} for t in thoughts]
    (idle,) = idle_seconds(make_run("a", 0, given)).values()
    assert idle >= sum(thoughts) - 1e-6
    assert idle <= sum(thoughts) * (1 + len(thoughts)) + 1e-6
