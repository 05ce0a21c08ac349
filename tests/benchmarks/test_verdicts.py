"""Real beside simulated differences: pairs are matched, and signs are told apart."""

import pytest
import verdicts
from support import curves_of_ends

REAL = curves_of_ends(b=[2.0, 3.0], a=[1.0, 1.5], c=[4.0, 4.0])


def test_each_pair_is_compared_after_these_epochs() -> None:
    ends = {(test.first, test.second): test.difference for test in verdicts.compare_pairs(REAL, 3)}
    assert ends == {("a", "b"): -1.25, ("a", "c"): -2.75, ("b", "c"): -1.5}
    assert {test.difference for test in verdicts.compare_pairs(REAL, 2)} == {0.0}


def test_signs_are_compared() -> None:
    simulated = curves_of_ends(a=[1.0, 1.0], b=[2.0, 2.0], c=[1.5, 1.5])
    lines = list(verdicts.lines_of_pairs(verdicts.compare_pairs(REAL, 3), verdicts.compare_pairs(simulated, 3)))
    signs = [line.split("|")[4].strip().split(";")[0] for line in lines[2:]]
    assert signs == ["yes", "yes", "no"]
    assert "-1.2500" in lines[2]
    assert "-1.0000" in lines[2]


def test_an_interval_of_one_repeat_excludes_nothing() -> None:
    one = verdicts.compare_pairs(REAL[REAL["repeat"] == 0], 3)
    line = list(verdicts.lines_of_pairs(one, one))[-1]
    assert "nan" in line
    assert "excludes" not in line


def test_other_optimizers_are_refused() -> None:
    other = curves_of_ends(a=[1.0, 1.0], b=[2.0, 2.0], d=[1.5, 1.5])
    with pytest.raises(SystemExit):
        list(verdicts.lines_of_pairs(verdicts.compare_pairs(REAL, 3), verdicts.compare_pairs(other, 3)))


def test_the_order_is_compared_at_the_end() -> None:
    reverse = curves_of_ends(a=[4.0, 4.0], b=[2.0, 2.0], c=[1.0, 1.0])
    *_, end = verdicts.lines_of_order(REAL, reverse, 3)
    assert end.endswith("-1.00")
