"""Trials and evaluations are frozen, and survive JSON."""

import json
from dataclasses import FrozenInstanceError
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fmnas.search_spaces import Conditions, Evaluation, SpaceError, Trial
from fmnas.search_spaces.records import ORIGINS

FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SERIES = st.lists(FLOATS, max_size=4).map(tuple)
CONDITIONS = st.builds(
    Conditions,
    arrangement=st.sampled_from(["plain", "fast", "stacked"]),
    captured=st.booleans(),
    device=st.text(max_size=20),
    torch=st.text(max_size=20),
    cudnn=st.none() | st.integers(0, 10**6),
)
EVALUATIONS = st.builds(
    Evaluation,
    objective=FLOATS,
    epochs=st.integers(1, 100),
    errors=SERIES,
    flops=st.none() | st.integers(0, 10**12),
    flops_ratio=st.none() | FLOATS,
    curve=SERIES,
    seconds=st.floats(0, 1e6),
    diverged=st.booleans(),
    conditions=st.none() | CONDITIONS,
)


def test_an_origin_that_is_not_known_is_refused_at_once() -> None:
    words = "trial 3: origin = 'mine': it must be one of initial, random, model, mutation, promotion"
    with pytest.raises(SpaceError, match=words):
        Trial(3, {"x": 1}, 1, "mine")
    with pytest.raises(SpaceError, match=words):
        Trial.from_dict({**Trial(3, {"x": 1}, 1, "model").to_dict(), "origin": "mine"})


@given(data=st.data())
def test_trial_survives_json(data: st.DataObject, configured_spaces: Any) -> None:
    _, configuration = data.draw(configured_spaces)
    trial = Trial(
        id=data.draw(st.integers(0, 10**6)),
        configuration=configuration,
        epochs=data.draw(st.integers(1, 100)),
        origin=data.draw(st.sampled_from(ORIGINS)),
        parent=data.draw(st.none() | st.integers(0, 10**6)),
        seed=data.draw(st.integers(0, 2**64)),
        note=data.draw(st.text(max_size=20)),
    )
    assert Trial.from_dict(json.loads(json.dumps(trial.to_dict()))) == trial


@given(evaluation=EVALUATIONS)
def test_evaluation_survives_json(evaluation: Evaluation) -> None:
    assert Evaluation.from_dict(json.loads(json.dumps(evaluation.to_dict()))) == evaluation


def test_an_evaluation_from_before_conditions_is_read() -> None:
    data = Evaluation(0.5, errors=(0.5,)).to_dict()
    del data["conditions"]
    assert Evaluation.from_dict(data) == Evaluation(0.5, errors=(0.5,))


def test_a_way_of_training_in_words() -> None:
    assert Conditions("fast", False, "cpu", "2.13.0").way == "fast"
    assert Conditions("stacked", True, "NVIDIA H200", "2.13.0", 91002).way == "stacked (captured)"


def test_error_is_the_mean_over_seeds() -> None:
    assert Evaluation(0.5, errors=(0.1, 0.2, 0.6)).error == pytest.approx(0.3)
    assert Evaluation(0.5).error is None


@pytest.mark.parametrize("record", [Trial(0, {"x": 1}, 1, "random"), Evaluation(0.5)])
def test_records_are_frozen(record: Any) -> None:
    with pytest.raises(FrozenInstanceError):
        record.epochs = 3


def test_a_fallback_that_is_not_known_is_refused_at_once() -> None:
    with pytest.raises(SpaceError, match="trial 3: fallback = 'mine': it must be one of '', 'failed fit', 'fallback'"):
        Trial(3, {"x": 1}, 1, "random", fallback="mine")


def test_origins() -> None:
    assert set(ORIGINS) == {"initial", "random", "model", "mutation", "promotion", "warm_start"}
