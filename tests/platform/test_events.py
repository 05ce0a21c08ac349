"""Typed events: each becomes plain JSON data and comes back equal."""

import json
from typing import get_args

import pytest

from fmnas.platform.environment import Software
from fmnas.platform.experiment.events import (
    EVENT_TYPES,
    Asked,
    Begun,
    Cancelled,
    DriverStarted,
    Ended,
    Event,
    Extended,
    Failed,
    Finished,
    Lost,
    Retrained,
    RetrainingBegun,
    RetrainingFailed,
    RetrainingStarted,
    Started,
    event_from_dict,
    event_to_dict,
)
from fmnas.platform.experiment.warm_start import WarmStartData, WarmStartTrial
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import Conditions

KNOWN = WarmStartData("runs/a", "x", "id", "", False, ((WarmStartTrial(0, {"x": 0.1}, 5, 3, Evaluation(0.5)),),))
EVALUATION = Evaluation(
    0.1, 5, (0.1, 0.2), 7, 0.5, (0.3,), 1.5, True, Conditions("fast", True, "cpu", "2.8"), ((0.2, 0.4),)
)
EVENTS: list[Event] = [
    Begun("id", 3, {"seed": 0}, 1.5, {"x": KNOWN}),
    Extended({"repeats": [1, 2]}, {"seed": 0}, 1.5),
    DriverStarted("experiment", Software("0.1.0", None, "3.11", "2.8", "host"), 1.5, {"problem": "ab"}),
    Asked("x/repeat-0", Trial(0, {"x": 0.5, "n": 3, "op": "a"}, 5, "model", memo=(0.1,)), 0.25, 1.5),
    Started("x/repeat-0", 0, 1, "w", 1.5),
    Finished("x/repeat-0", 0, 1, "w", EVALUATION, 1.5),
    Failed("x/repeat-0", 0, 1, "w", "NaN", 2.5, 1.5, "timed_out"),
    Lost("x/repeat-0", 0, 1, "w", "gone", False, 1.5),
    Cancelled("x/repeat-0", 0, 1, "w", "stopped", 1.5),
    Ended("failed", 1.5, "disk"),
    RetrainingBegun(25, 100, 4, ("x/repeat-0",), 1.5),
    RetrainingStarted("x/repeat-0", 0, 1, "w", 1.5),
    Retrained("x/repeat-0", 0, 1, "w", (0.1, 0.2), 50, 2.5, 0.5, 1.5),
    RetrainingFailed("x/repeat-0", 0, 1, "w", "gone", True, 1.5),
]


RETRAINING_NAMES = ("retraining_begun", "retraining_started", "retrained", "retraining_failed")
ENDED = {"event": "ended", "status": "finished", "at": 1.0}


def test_there_is_an_example_of_every_event() -> None:
    assert {type(event) for event in EVENTS} == set(EVENT_TYPES.values()) == set(get_args(Event))


@pytest.mark.parametrize("event", EVENTS, ids=lambda event: type(event).__name__)
def test_an_event_comes_back_equal(event: Event) -> None:
    assert event_from_dict(json.loads(json.dumps(event_to_dict(event)))) == event


def test_a_name_in_the_journal_never_changes() -> None:
    names = "begun extended driver_started asked started finished failed lost cancelled ended"
    assert set(EVENT_TYPES) == {*names.split(), *RETRAINING_NAMES}


@pytest.mark.parametrize("data", [{"event": "unheard"}, {"event": "ended", "at": 1.0}, {**ENDED, "more": 1}])
def test_an_unknown_event_or_field_is_refused(data: dict[str, object]) -> None:
    with pytest.raises((KeyError, TypeError)):
        event_from_dict(data)
