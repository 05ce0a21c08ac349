"""Test cases for code that extends fmnas.

from fmnas.testing import OptimizerContract, Subject

class TestMine(OptimizerContract):
    @pytest.fixture
    def subject(self) -> Subject:
        return Subject(lambda space, seed: Mine(space, seed=seed), takes_design=False)
"""

from fmnas.testing.optimizers import OptimizerContract
from fmnas.testing.subject import Subject

__all__ = ["OptimizerContract", "Subject"]
