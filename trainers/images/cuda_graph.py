"""CUDA graphs: a step is recorded once and then replayed in one call, however many operations it has.

A small network's operations take the GPU microseconds each, less than it takes to ask for them one by one.
"""

from collections import deque
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from fmnas.trainers.allocator import error_text
from fmnas.trainers.contract import DeviceFailedError

WARM_UP = 3
"""Steps before the recording: libraries choose their kernels and take their memory in the first ones."""

STEPS_AHEAD = 32
"""How far the host may run ahead of the device. More would only make a stop wait longer."""


class CaptureError(DeviceFailedError):
    """A step could not be recorded. What was left of the recording stands in the way of this process's later ones."""


def captured(
    step: Callable[[], object], first_step: Callable[[], object], state: Sequence[Tensor]
) -> Callable[[], None]:
    """The step as a CUDA graph. It must work on the same tensors each time and never ask a device for a number.

    first_step: the same, from a beginning of its own, to warm up.
    state: the tensors that a step changes; they are as before when this returns.
    Raises CaptureError with the reason, be it that there is no GPU; where memory ran out, torch's OutOfMemoryError.
    """
    before = [tensor.detach().clone() for tensor in state]
    try:
        graph = _recorded(step, first_step)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        if (first := _what_ended_it(error)) is not None:
            raise first from None
        raise CaptureError(f"the step could not be captured as a CUDA graph: {error_text(error)}") from error
    with torch.no_grad():
        for tensor, values in zip(state, before, strict=True):
            tensor.copy_(values)
    return graph.replay


def _what_ended_it(error: BaseException) -> BaseException | None:
    """Memory that ran out, or whatever broke the step off: the end of a recording may fail after it, and hide it."""
    found: BaseException | None = error
    while found is not None:
        if isinstance(found, torch.OutOfMemoryError) or not isinstance(found, Exception):
            return found
        found = found.__context__
    return None


def _recorded(step: Callable[[], object], first_step: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """The graph of a step, on torch's current GPU."""
    current = torch.cuda.current_stream()
    side = torch.cuda.Stream()
    side.wait_stream(current)
    try:
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                first_step()
        current.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            step()
    finally:
        torch.cuda.set_stream(current)  # torch leaves its own in place when a recording cannot be ended
    return graph


class Pace:
    """Keeps the host at most STEPS_AHEAD steps ahead of the device; on a CPU there is nothing to do.

    Waiting sleeps, so that several processes share the cores; the device has steps to do meanwhile.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._under_way: deque[torch.cuda.Event] = deque()

    def step(self) -> None:
        """To be called after each step."""
        if not self._on_gpu:
            return
        done = torch.cuda.Event(blocking=True)
        done.record()
        self._under_way.append(done)
        if len(self._under_way) > STEPS_AHEAD:
            self._under_way.popleft().synchronize()
