"""The rules of fmnas.testing on the optimizers that suggest quickly."""

import json
import subprocess
import sys

import pytest
from contract_subjects import ROWS, SLOW_TO_ASK, SUBJECTS
from hypothesis import given, settings
from hypothesis import strategies as st

from fmnas.optimizers import BayesianOptimizer
from fmnas.search_spaces import Space, joint_space
from fmnas.search_spaces.records import PROMOTION
from fmnas.testing import OptimizerContract, Subject
from fmnas.testing.optimizers import check_restored
from fmnas.testing.subject import CONSTRAINED, SPACES, ask, run_sequentially

pytestmark = pytest.mark.slow

NAMES = [name for name in SUBJECTS if name not in SLOW_TO_ASK]


class TestOptimizers(OptimizerContract):
    """Every rule, on each of these optimizers and spaces."""

    test_another_process_suggests_the_same = None  # test_contract_of_packages.py does it once for all of them

    @pytest.fixture(params=NAMES)
    def subject(self, request: pytest.FixtureRequest) -> Subject:
        return SUBJECTS[request.param]


@pytest.mark.parametrize("name", SUBJECTS)
def test_the_joint_space(name: str) -> None:
    """The cell and its training: large, with categories of every sort."""
    space = joint_space()
    optimizer = SUBJECTS[name].build(space, 0)
    trials = run_sequentially(optimizer, 5)
    assert optimizer.chooses in SUBJECTS[name].origins
    for trial in trials:
        space.validate(trial.configuration)
    new = [json.dumps(trial.configuration) for trial in trials if trial.origin != PROMOTION]
    assert len({*new}) == len(new) >= 4


@pytest.mark.parametrize("name", SUBJECTS)
def test_a_penalty_may_be_the_largest_float(name: str) -> None:
    """As often given for a crash; nothing overflows, as warnings are errors."""
    optimizer = SUBJECTS[name].build(SPACES["mixed"], 0)
    for number in range(8):
        optimizer.tell(ask(optimizer), sys.float_info.max if number % 2 else float(number))
    SPACES["mixed"].validate(ask(optimizer).configuration)


@pytest.mark.parametrize("name", [name for name in NAMES if not issubclass(ROWS[name].optimizer, BayesianOptimizer)])
@given(
    seed=st.integers(0, 2**20),
    cut=st.integers(0, 60),
    space=st.sampled_from([*SPACES.values(), *CONSTRAINED.values()]),
)
@settings(max_examples=8)
def test_restored_from_any_history(name: str, seed: int, cut: int, space: Space) -> None:
    check_restored(SUBJECTS[name], space, seed, cut)


def test_packages_are_loaded_by_their_users_alone() -> None:
    packages = {"hpbandster", "ConfigSpace", "statsmodels", "optuna", "smac", "botorch"}
    code = f"import sys, fmnas.baselines; print(sorted({packages} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
