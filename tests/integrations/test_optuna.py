"""BOFMSampler: Optuna's own tests of samplers, and what the model is told."""

from collections.abc import Callable

import optuna
import pytest
from optuna.samplers import BaseSampler
from optuna.testing.pytest_samplers import BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase

from fmnas.integrations.optuna import BOFMSampler

optuna.logging.set_verbosity(optuna.logging.ERROR)


class TestByOptunasOwnTests(BasicSamplerTestCase, RelativeSamplerTestCase, SingleOnlySamplerTestCase):
    @pytest.fixture
    def sampler(self) -> Callable[[], BaseSampler]:
        return lambda: BOFMSampler(n_startup_trials=0, seed=0)
