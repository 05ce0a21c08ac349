"""The paper's claim: bo-fm after few evaluations beside others after more."""

import pandas as pd
import paper_claim
from support import curves_of_ends

from fmnas.comparison.analysis.paired_tests import compare


def test_others_have_more_epochs() -> None:
    """After one epoch every optimizer has 9; after three its end."""
    mine, competitors = curves_of_ends(**{"bo-fm": [2.0, 3.0]}), curves_of_ends(other=[1.0, 5.0])
    values = paper_claim.best_after(mine, competitors, 3, [1, 3], epochs=1)
    assert values == {
        "bo-fm": {0: 2.0, 1: 3.0},
        "other after 1": {0: 9.0, 1: 9.0},
        "other after 3": {0: 1.0, 1: 5.0},
    }
    rows = list(paper_claim.lines_of_tests(compare(values, "bo-fm").pairs, values))[2:]
    cells = [[cell.strip() for cell in row.strip("|").split("|")] for row in rows]
    assert [cell[0] for cell in cells] == ["other after 1", "other after 3"]
    assert [cell[1] for cell in cells] == ["9.0000 ± 0.0000", "3.0000 ± 2.0000"]
    assert [cell[2].split()[0] for cell in cells] == ["-6.5000", "-0.5000"]
    assert [cell[3] for cell in cells] == ["2, 0, 0", "1, 0, 1"]


def test_only_the_reference_is_taken_from_the_first_run() -> None:
    mine = pd.concat([curves_of_ends(**{"bo-fm": [2.0, 3.0]}), curves_of_ends(extra=[0.0, 0.0])])
    assert set(paper_claim.best_after(mine, curves_of_ends(other=[1.0, 1.0]), 3, [3], epochs=1)) == {
        "bo-fm",
        "other after 3",
    }
