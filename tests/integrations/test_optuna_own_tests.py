"""BOFMSampler under the tests that Optuna ships for every sampler."""

from collections.abc import Callable, Iterator

import optuna
import pytest
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase

from fmnas.integrations.optuna import BOFMSampler

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    before = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    yield
    optuna.logging.set_verbosity(before)


class TestFromTheFirstTrial(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    """With a model as soon as there can be one: Optuna's tests of relative sampling ask after one trial."""

    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: BOFMSampler(n_startup_trials=0, seed=0)
