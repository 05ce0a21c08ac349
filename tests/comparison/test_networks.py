import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.comparison.analysis.duplicates import network_numbers
from fmnas.search_spaces import Cell, SpaceError, canonical_form, joint_space
from fmnas.search_spaces.nasnet import CELL_NAMES

SPACE = joint_space()


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), operations=st.integers(1, 3))
def test_equal_numbers_are_equal_canonical_forms(seed, operations):
    """With few operations many of the cells are the same network."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame([SPACE.sample(rng) for _ in range(60)])
    names = ["identity", "conv1x1", "maxpool3x3"][:operations]
    for name in CELL_NAMES[:8]:
        table[name] = rng.choice(names, len(table))
    forms = [canonical_form(Cell.from_configuration(row)) for row in table.to_dict("records")]
    numbers = network_numbers(table)
    assert ((numbers[:, None] == numbers) == np.array([[a == b for b in forms] for a in forms])).all()
    assert len(set(forms)) < len(forms) or operations > 1


def test_a_cell_written_in_another_way(make_row):
    table = pd.DataFrame([SPACE.sample(np.random.default_rng(0))] * 2)
    table["output"] = table["output"].astype(object)
    table.loc[1, "output"] = float(table.loc[0, "output"])
    table.loc[1, "in3"] = table.loc[0, "in3"].replace(",", ", ")
    assert len(set(network_numbers(table))) == 1


@pytest.mark.parametrize(("name", "value"), [("op1", "conv9x9"), ("in2", "0,7"), ("output", 4)])
def test_what_is_no_cell_is_named(name, value):
    table = pd.DataFrame([{**SPACE.sample(np.random.default_rng(0)), name: value}])
    with pytest.raises(SpaceError, match=str(value).replace(",", ", ")):
        network_numbers(table)
