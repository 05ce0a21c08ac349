"""Rules about chance: all of it follows from the seed, here and in another process, and nobody else's is touched."""

import json
import random
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from fmnas.optimizers.contract.play import (
    CONSTRAINED,
    DESIGN,
    MOST_PENDING,
    SPACES,
    Subject,
    ask,
    busy,
    hold,
    hold_equal,
    played,
)
from fmnas.search_spaces import FmnasError, Space

SEED = 5
SEEDS = range(4)
PLAYED = 5

Suggested = Mapping[str, Sequence[Mapping[str, Any]]]
"""The space -> trials, as plain data."""


def same_seed_same_trials(subject: Subject, space: Space) -> None:
    """Built twice and told the same, it suggests the same."""
    most = MOST_PENDING if subject.parallel else 1
    one, other = (busy(subject.build(space, 7), 10, 0, most) for _ in range(2))
    hold_equal(one, other, "with the same seed, built twice, its asks and results differ")


def another_seed_other_trials(subject: Subject, space: Space) -> None:
    """In a small space two seeds may agree; four do not."""
    runs = [[trial.configuration for trial in played(subject.build(space, seed), PLAYED)[DESIGN:]] for seed in SEEDS]
    hold(
        len({json.dumps(run) for run in runs}) > 1,
        f"the seeds {', '.join(map(str, SEEDS))} all lead to {runs[0]} after the first {DESIGN}: repeats would be "
        "copies of each other",
    )


def leaves_global_random_state_alone(subject: Subject, space: Space) -> None:
    """Of numpy, torch and Python; and as many threads as there were."""
    import torch

    _begin(SEED)
    before, threads = _states(), torch.get_num_threads()
    optimizer = subject.build(space, 0)
    played(optimizer, PLAYED)
    optimizer.forget(ask(optimizer))
    after = _states()
    for name, state in before.items():
        hold(after[name] == state, f"it draws from the global random state of {name}, or seeds it")
    hold(torch.get_num_threads() == threads, f"torch had {threads} threads, and has {torch.get_num_threads()}")


def does_not_heed_global_random_state(subject: Subject, space: Space) -> None:
    """Whatever others drew or seeded, it suggests the same."""
    runs = []
    for seed in (1, 2):
        _begin(seed)
        runs.append(played(subject.build(space, 3), PLAYED))
    hold_equal(
        runs[0], runs[1], "with other global random states (random, numpy.random, torch) it suggests other trials"
    )


def _begin(seed: int) -> None:
    import torch

    np.random.seed(seed)
    torch.manual_seed(seed)
    random.seed(seed)


def _states() -> dict[str, Any]:
    import torch

    legacy: Any = np.random.get_state()
    return {
        "numpy": (legacy[1].tolist(), *legacy[2:]),
        "torch": torch.get_rng_state().tolist(),
        "random": random.getstate(),
    }


def suggested_everywhere(subject: Subject, count: int = 6) -> Suggested:
    """Its first trials on every space, as plain data; none where it refuses constraints, or violates them."""
    places = {**SPACES, **{f"constrained {name}": space for name, space in CONSTRAINED.items()}}
    return {name: _suggested(subject, space, count) for name, space in places.items()}


def _suggested(subject: Subject, space: Space, count: int) -> Sequence[Mapping[str, Any]]:
    try:
        return [trial.to_dict() for trial in played(subject.build(space, 11), count)]
    except FmnasError:
        if space.constraints:  # there is a rule about these
            return []
        raise


def same_in_another_process(here: Suggested, there: Suggested) -> None:
    """What `suggested_everywhere` gives here, and in a process with another PYTHONHASHSEED."""
    hold(set(here) == set(there), f"here it was asked on {sorted(here)}, in another process on {sorted(there)}")
    for space, trials in here.items():
        hold_equal(trials, there[space], f"{space} space: in another process it suggests other trials")
