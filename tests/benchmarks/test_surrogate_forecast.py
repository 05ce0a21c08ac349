"""Later results: at full fidelity, and of networks and schedules that the surrogate was not fitted to."""

import numpy as np
from surrogate_data import Observation
from surrogate_forecast import FITTED, find_later
from surrogate_models import arrange, measure_flops

from fmnas.search_spaces import joint_space
from fmnas.trainers.recorded_table import read_table
from fmnas.trainers.surrogate.features import Features
from fmnas.trainers.surrogate.model import read_surrogate
from fmnas.trainers.surrogate.problem import FILE


def observation(length: int, group: int) -> Observation:
    configuration = joint_space().sample(np.random.default_rng(group))
    return Observation(configuration, length, length, (0.1, 0.2), 0.1, 1.0, group, "random")


def test_later_results_are_of_new_trainings_at_full_fidelity() -> None:
    """What was fitted: groups 0 and 1. Then 1 again, 2 for one epoch, 2 and 3 for three."""
    seen = [observation(3, 0), observation(1, 1)]
    new = [observation(3, 1), observation(1, 2), observation(3, 2), observation(3, 3)]
    recorded = arrange([*seen, *new], Features(measure_flops(), 3))
    assert np.flatnonzero(find_later(recorded, 2)).tolist() == [4, 5]


def test_the_surrogate_was_fitted_to_the_files_that_are_named() -> None:
    sources = [source for path in FITTED for source in read_table(path).header.sources]
    assert list(read_surrogate(FILE).facts.sources) == sources
