"""A problem for tests that stop, kill and resume an experiment: an epoch takes a tenth of a second."""

import time
from collections.abc import Callable
from typing import Any

from fmnas.search_spaces import Real
from fmnas.trainers import objective


@objective([Real("x", 0.0, 1.0)], epochs=3)
def sleeps(configuration: dict[str, Any], epochs: int, report: Callable[[int, float], None]) -> float:
    for epoch in range(epochs):
        time.sleep(0.1)
        report(epoch + 1, configuration["x"])
    return float(configuration["x"])
