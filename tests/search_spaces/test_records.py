"""Trials and evaluations are frozen, and survive JSON."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
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
    seed_curves=st.lists(SERIES, max_size=3).map(tuple),
    values=SERIES,
)


def test_an_origin_that_is_not_known_is_refused_at_once() -> None:
    words = "trial 3: origin = 'mine'; it must be one of .'initial', 'random', 'model', 'mutation', 'promotion'"
    with pytest.raises(SpaceError, match=words):
        Trial(3, {"x": 1}, 1, "mine")
    with pytest.raises(SpaceError, match=words):
        Trial.from_dict({**Trial(3, {"x": 1}, 1, "model").to_dict(), "origin": "mine"})


@given(data=st.data())
@settings(max_examples=30)
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


def test_an_evaluation_of_before_there_were_seed_curves_is_read() -> None:
    data = Evaluation(0.5, errors=(0.25,)).to_dict()
    del data["seed_curves"], data["values"]
    assert Evaluation.from_dict(data) == Evaluation(0.5, errors=(0.25,))


def test_the_objectives_are_the_values_or_error_and_flops_or_the_one_there_is() -> None:
    network = Evaluation(0.5, errors=(0.25, 0.75), flops_ratio=0.125)
    assert network.objectives == (0.5, 0.125)
    assert Evaluation(0.25, errors=(0.25,)).objectives == (0.25,)
    assert Evaluation(3.0).objectives == (3.0,)
    assert Evaluation(3.0, values=(1.0, 2.0)).objectives == (1.0, 2.0)
    assert Evaluation(3.0, errors=(0.25,), flops_ratio=0.5, values=(1.0, 1.0)).objectives == (1.0, 1.0)


def test_a_fallback_that_is_not_known_is_refused_at_once() -> None:
    with pytest.raises(
        SpaceError, match=r"trial 3: fallback = 'mine'; it must be one of .'', 'failed fit', 'fallback'"
    ):
        Trial(3, {"x": 1}, 1, "random", fallback="mine")
