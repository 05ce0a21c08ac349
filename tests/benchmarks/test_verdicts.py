"""Real beside simulated differences: pairs are matched, and signs are told apart."""

import pandas as pd
import pytest
import verdicts


def curves(**ends: list[float]) -> pd.DataFrame:
    """A report's table of two repeats: every optimizer has 9 after one epoch, and its end after three."""
    rows = [
        {
            "run": f"{name}/repeat-{repeat}",
            "optimizer": name,
            "repeat": repeat,
            "trial": trial,
            "epochs": epochs,
            "evaluations": epochs,
            "objective": value,
            "incumbent": value,
        }
        for name, values in ends.items()
        for repeat, end in enumerate(values)
        for trial, (epochs, value) in enumerate([(1, 9.0), (3, end)])
    ]
    return pd.DataFrame(rows)


REAL = curves(b=[2.0, 3.0], a=[1.0, 1.5], c=[4.0, 4.0])


def test_each_pair_is_compared_after_these_epochs() -> None:
    ends = {(test.first, test.second): test.difference for test in verdicts.compare_pairs(REAL, 3)}
    assert ends == {("a", "b"): -1.25, ("a", "c"): -2.75, ("b", "c"): -1.5}
    assert {test.difference for test in verdicts.compare_pairs(REAL, 2)} == {0.0}


def test_signs_are_compared() -> None:
    simulated = curves(a=[1.0, 1.0], b=[2.0, 2.0], c=[1.5, 1.5])
    lines = list(verdicts.lines_of_pairs(verdicts.compare_pairs(REAL, 3), verdicts.compare_pairs(simulated, 3)))
    signs = [line.split("|")[4].strip().split(";")[0] for line in lines[2:]]
    assert signs == ["yes", "yes", "no"]
    assert "-1.2500" in lines[2]
    assert "-1.0000" in lines[2]


def test_other_optimizers_are_refused() -> None:
    other = curves(a=[1.0, 1.0], b=[2.0, 2.0], d=[1.5, 1.5])
    with pytest.raises(SystemExit):
        list(verdicts.lines_of_pairs(verdicts.compare_pairs(REAL, 3), verdicts.compare_pairs(other, 3)))


def test_the_order_is_compared_at_the_end() -> None:
    reverse = curves(a=[4.0, 4.0], b=[2.0, 2.0], c=[1.0, 1.0])
    *_, end = verdicts.lines_of_order(REAL, reverse, 3)
    assert end.endswith("-1.00")
