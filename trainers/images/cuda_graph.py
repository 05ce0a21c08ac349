"""CUDA graphs: a step is recorded once and then replayed in one call, however many operations it has.

The operations of a small network take the GPU microseconds each, less than it takes the host to launch them.
"""

from collections import deque
from collections.abc import Callable, Sequence
from functools import cache

import torch
from torch import Tensor

from fmnas.trainers.contract import DeviceFailedError
from fmnas.trainers.memory import error_text

WARM_UP = 3
"""Steps before the recording, in which libraries choose their kernels and allocate memory."""

STEPS_AHEAD = 32
"""How far the host may be ahead of the device. More would only delay a stop."""


class CaptureError(DeviceFailedError):
    """A step could not be captured. The remains of the capture may prevent later ones in this process."""


def capture_graph(
    step: Callable[[], object], first_step: Callable[[], object], state: Sequence[Tensor]
) -> Callable[[], None]:
    """The step as a CUDA graph. It must use the same tensors each time and never read a number from the device.

    first_step: the same from a fixed start, to warm up. state: the tensors that a step changes; they are restored.
    Raises CaptureError with the reason, e.g. a missing GPU; torch's OutOfMemoryError if memory ran out.
    """
    before = [tensor.detach().clone() for tensor in state]
    try:
        graph = _record(step, first_step)
    except (RuntimeError, AssertionError) as error:  # torch without CUDA asserts
        if (cause := _original_error(error)) is not None:
            raise cause from None
        raise CaptureError(f"the step could not be captured as a CUDA graph: {error_text(error)}") from error
    with torch.no_grad():
        for tensor, values in zip(state, before, strict=True):
            tensor.copy_(values)
    return graph.replay


def _original_error(error: BaseException) -> BaseException | None:
    """Out of memory or an interruption, which an error at the end of the capture may hide."""
    cause: BaseException | None = error
    while isinstance(cause, Exception) and not isinstance(cause, torch.OutOfMemoryError):
        cause = cause.__context__
    return cause


def _record(step: Callable[[], object], first_step: Callable[[], object]) -> torch.cuda.CUDAGraph:
    """The graph of a step, on torch's current GPU."""
    current = torch.cuda.current_stream()
    side = _side_stream(torch.cuda.current_device())
    side.wait_stream(current)
    try:
        with torch.cuda.stream(side):
            for _ in range(WARM_UP):
                first_step()
        current.wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, stream=side):
            step()
    finally:
        torch.cuda.set_stream(current)  # torch does not restore it when a capture cannot be ended
    return graph


@cache
def _side_stream(device: int) -> torch.cuda.Stream:
    """The stream on which a device's steps are warmed up and captured.

    With a new one for each, captures took 67 MB each, up to some 1.2 GB more of an H200.
    """
    return torch.cuda.Stream(device)


class StepLimiter:
    """Keeps the host at most STEPS_AHEAD steps ahead of a GPU; it does nothing on a CPU.

    The host sleeps while it waits, so that several processes share the cores.
    """

    def __init__(self, device: torch.device) -> None:
        self._on_gpu = device.type == "cuda"
        self._pending: deque[torch.cuda.Event] = deque()

    def step(self) -> None:
        """Call this after each step."""
        if not self._on_gpu:
            return
        done = torch.cuda.Event(blocking=True)
        done.record()
        self._pending.append(done)
        if len(self._pending) > STEPS_AHEAD:
            self._pending.popleft().synchronize()
