"""The cost of parallel trials: differences to one worker, and idle workers, by hand."""

import pandas as pd
from simulated_workers import describe_differences, describe_times, lowest_objectives


def test_the_lowest_objective_at_full_fidelity() -> None:
    rows = [("a", 0, 3, 0.5), ("a", 0, 3, 0.4), ("a", 0, 1, 0.1), ("a", 1, 3, 0.7), ("b", 0, 3, 0.2)]
    trials = pd.DataFrame(rows, columns=["optimizer", "repeat", "epochs", "objective"])
    assert lowest_objectives(trials, 3) == {"a": {0: 0.4, 1: 0.7}, "b": {0: 0.2}}


def test_a_difference_is_to_the_first_number_of_workers() -> None:
    one = {repeat: repeat / 10 for repeat in range(6)}
    many = {repeat: value + 0.05 for repeat, value in one.items()}
    cells = describe_differences({1: {"a": one}, 8: {"a": many}}, "a")
    assert cells[1].endswith("| –")
    assert "| +0.0500 (+0.0500 to +0.0500), 0.031" in cells[8]


def test_idle_is_what_is_left_of_the_workers_seconds() -> None:
    ledger = pd.DataFrame({"optimizer": ["a", "a"], "train_seconds": [30.0, 40.0], "wall_seconds": [10.0, 10.0]})
    assert describe_times(ledger, 4) == {"a": "10 | 12%"}
