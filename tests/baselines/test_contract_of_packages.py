"""The rules of fmnas.testing on the optimizers whose packages are slow; all optimizers in another process."""

import json
import os
import subprocess
import sys
from pathlib import Path

import contract_subjects
import pytest
from contract_subjects import SLOW_TO_ASK, SUBJECTS

from fmnas.search_spaces import Space
from fmnas.testing import OptimizerContract, Subject
from fmnas.testing.optimizers import check_restored, require_same_suggestions
from fmnas.testing.subject import SPACES

pytestmark = pytest.mark.slow


class TestPackages(OptimizerContract):
    """Every rule, most on the mixed space alone (conftest.py)."""

    test_another_process_suggests_the_same = None  # below

    @pytest.fixture(params=SLOW_TO_ASK)
    def subject(self, request: pytest.FixtureRequest) -> Subject:
        return SUBJECTS[request.param]

    @pytest.mark.parametrize("space", [SPACES["mixed"]], ids=["mixed"])
    def test_restored_from_any_history_it_goes_on_the_same(self, subject: Subject, space: Space) -> None:
        check_restored(subject, space, 5, 5)


def test_another_process_suggests_the_same(tmp_path: Path) -> None:
    """Of every optimizer, on every space; with another PYTHONHASHSEED."""
    code = "import json, sys, contract_subjects; json.dump(contract_subjects.suggest_with_all(), sys.stdout)"
    paths = os.pathsep.join(filter(None, [str(Path(contract_subjects.__file__).parent), os.environ.get("PYTHONPATH")]))
    environment = {**os.environ, "PYTHONHASHSEED": "4711", "PYTHONPATH": paths}
    command = [sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=environment) as other:
        here = contract_subjects.suggest_with_all()  # meanwhile
        theirs = json.loads(other.communicate()[0])
    assert list(here) == list(theirs)
    for name, suggested in here.items():
        assert all(suggested.values()), f"{name} refuses a space"
        require_same_suggestions(suggested, theirs[name])
