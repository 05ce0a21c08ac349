"""Isolation of process-wide state: global random states, torch's threads, and the working directory.

rng = IsolatedRNG(seed)
with rng.activate():                 # `random`, `numpy.random` and torch continue rng's own sequences
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
"""Functions that get the state of a generator, set it, and seed it."""


class IsolatedRNG:
    """Private states of the global generators of Python, numpy and torch, starting from a seed."""

    def __init__(self, seed: int) -> None:
        self._seed = seed % 2**32
        self._states: dict[str, Any] = {}

    @contextmanager
    def activate(self) -> Iterator[None]:
        """Install the private states; at the end restore the caller's."""
        generators = _generators()
        callers = {name: get() for name, (get, _, _) in generators.items()}
        for name, (_, set_, seed) in generators.items():
            if name in self._states:
                set_(self._states[name])
            else:
                seed(self._seed)
        try:
            yield
        finally:
            for name, (get, set_, _) in generators.items():
                self._states[name] = get()
                set_(callers[name])


def _generators() -> dict[str, Access]:
    """Return the global generators; torch's only if torch is loaded."""
    generators: dict[str, Access] = {
        "random": (random.getstate, random.setstate, random.seed),
        "numpy": (np.random.get_state, np.random.set_state, np.random.seed),
    }
    torch = sys.modules.get("torch")
    if torch is not None:
        generators["torch"] = (torch.get_rng_state, torch.set_rng_state, torch.default_generator.manual_seed)
    return generators


@contextmanager
def one_thread() -> Iterator[None]:
    """Use one torch thread: as fast for small models, and with the same rounding in every process."""
    import torch

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@contextmanager
def same_working_directory() -> Iterator[None]:
    """Restore the working directory after the block, even if it was deleted or renamed."""
    before = os.open(".", getattr(os, "O_PATH", os.O_RDONLY))  # without O_PATH, as on macOS, it must be readable
    try:
        yield
    finally:
        os.fchdir(before)
        os.close(before)
