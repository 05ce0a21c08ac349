"""The SGD schedule: milestones and the learning rate between them."""

import pytest

from fmnas.search_spaces import Schedule


def _schedule(first: float, second: float) -> Schedule:
    return Schedule(0.08, 0.9, 1e-4, 0.25, first, second)


@pytest.mark.parametrize(
    ("first", "second", "epochs", "milestones"),
    [
        (0.5, 0.5, 25, (12, 18)),  # 12.5 and 18.75
        (0.0, 0.0, 25, (0, 0)),
        (1.0, 0.3, 25, (25, 25)),
        (0.0, 1.0, 25, (0, 25)),
        (0.3, 0.3, 25, (7, 12)),  # 7.5 and 12.75
        (0.39, 0.5, 8, (3, 5)),
        (0.99, 0.5, 1, (0, 0)),
    ],
)
def test_milestones(first: float, second: float, epochs: int, milestones: tuple[int, int]) -> None:
    assert _schedule(first, second).milestones(epochs) == milestones


def test_learning_rate_falls_at_each_milestone() -> None:
    schedule = _schedule(0.5, 0.5)
    rates = [schedule.learning_rate_at(epoch, 25) for epoch in range(25)]
    assert rates == [pytest.approx(0.08)] * 12 + [pytest.approx(0.02)] * 6 + [pytest.approx(0.005)] * 7


def test_a_schedule_is_read_from_a_configuration() -> None:
    configuration = {
        "learning_rate": 0.01,
        "momentum": 1,
        "weight_decay": 1e-5,
        "lr_reduction": 0.5,
        "reduction_point_1": 0,
        "reduction_point_2": 0.25,
        "op1": "identity",
    }
    assert Schedule.from_configuration(configuration) == Schedule(0.01, 1.0, 1e-5, 0.5, 0.0, 0.25)
