"""What the whole process shares, held apart while a user's code or an optimizer works: the working directory, global
random states and torch's threads.

state = PrivateRandomState(seed)
with state.inside():                 # draws from `random`, `numpy.random` and torch go on where they ended
    ...
"""

import os
import random
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

Access = tuple[Callable[[], Any], Callable[[Any], Any], Callable[[int], Any]]
"""What reads the state of a generator, what sets it, and what begins it with a seed."""


class PrivateRandomState:
    """The global random states of Python, numpy and torch as one party alone uses them. They begin with a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed % 2**32
        self._own: dict[str, Any] = {}

    @contextmanager
    def inside(self) -> Iterator[None]:
        """Go on with them, and put the caller's back at the end."""
        generators = _generators()
        callers = {name: get() for name, (get, _, _) in generators.items()}
        for name, (_, set_, begin) in generators.items():
            if name in self._own:
                set_(self._own[name])
            else:
                begin(self._seed)
        try:
            yield
        finally:
            for name, (get, set_, _) in generators.items():
                self._own[name] = get()
                set_(callers[name])


def _generators() -> dict[str, Access]:
    """Each global generator by its name: torch's where torch is loaded by now."""
    found: dict[str, Access] = {
        "random": (random.getstate, random.setstate, random.seed),
        "numpy": (np.random.get_state, np.random.set_state, np.random.seed),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        found["torch"] = (torch.get_rng_state, torch.set_rng_state, torch.default_generator.manual_seed)
    return found


@contextmanager
def one_thread() -> Iterator[None]:
    """One torch thread: as fast at the sizes of a model, and the same rounding in every process."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def same_working_directory() -> Iterator[None]:
    """Let the block change the working directory; afterwards it is the one of before, even if that was removed."""
    before = os.open(".", os.O_PATH)
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)
