"""Real beside simulated differences: pairs are matched, and signs are told apart."""

import pandas as pd
import pytest
import verdicts


def checkpoints(**ends: list[float]) -> pd.DataFrame:
    """A report's table at half and all of the budget; at half, every optimizer has 9."""
    rows = [{"share": 0.5, "optimizer": name, "repeat_0": 9.0, "repeat_1": 9.0, "mean": 9.0} for name in ends]
    rows += [
        {"share": 1.0, "optimizer": name, "repeat_0": a, "repeat_1": b, "mean": (a + b) / 2}
        for name, (a, b) in ends.items()
    ]
    return pd.DataFrame(rows)


REAL = checkpoints(b=[2.0, 3.0], a=[1.0, 1.5], c=[4.0, 4.0])


def test_each_pair_is_tested_on_the_end() -> None:
    pairs = {(test.first, test.second): test.difference for test in verdicts.compare_pairs(REAL)}
    assert pairs == {("a", "b"): -1.25, ("a", "c"): -2.75, ("b", "c"): -1.5}


def test_signs_are_compared() -> None:
    simulated = checkpoints(a=[1.0, 1.0], b=[2.0, 2.0], c=[1.5, 1.5])
    lines = list(verdicts.lines_of_pairs(verdicts.compare_pairs(REAL), verdicts.compare_pairs(simulated)))
    signs = [line.split("|")[4].strip().split(",")[0] for line in lines[2:]]
    assert signs == ["yes", "yes", "no"]
    assert "-1.2500" in lines[2]
    assert "-1.0000" in lines[2]


def test_other_optimizers_are_refused() -> None:
    other = checkpoints(a=[1.0, 1.0], b=[2.0, 2.0], d=[1.5, 1.5])
    with pytest.raises(SystemExit):
        list(verdicts.lines_of_pairs(verdicts.compare_pairs(REAL), verdicts.compare_pairs(other)))


def test_the_order_is_compared_at_each_share() -> None:
    reverse = checkpoints(a=[4.0, 4.0], b=[2.0, 2.0], c=[1.0, 1.0])
    (half, end) = verdicts.lines_of_order(REAL, reverse)
    assert end.endswith("-1.00")
    assert "50%" in half
