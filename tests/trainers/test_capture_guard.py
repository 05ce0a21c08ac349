"""The training step can be captured as a CUDA graph; this is tested without a GPU.

A graph records the operations of one step with their memory and numbers, and repeats them. So a step is run on torch's
meta device, where tensors have shapes and memory but nothing is computed, and each operation of it, forward, backward
and update, is recorded and checked:

- it must not make the host wait: no `.item()`, no truth of a tensor, no mask as an index, no copy to the host;
- it must not take anything from the host but plain numbers, which must be the same each time;
- it must not draw random numbers;
- of the memory from before the step, it may write to `state` only, which `capture_graph` restores;
- it must be the same in each run: same operations and numbers, on the same memory in the same roles.

Not seen: the inside of an operation (cuDNN, cuBLAS), the allocator, streams, and whether results are right.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from fmnas.search_spaces import Cell, Schedule, joint_space, largest_cell
from fmnas.search_spaces.nasnet import OPERATIONS
from fmnas.trainers.images import multi_seed
from fmnas.trainers.images.batches import DeviceData, streams
from fmnas.trainers.images.multi_seed import Stack, StackedLearner
from fmnas.trainers.images.network import build_network
from fmnas.trainers.images.training import TrainingContext

pytestmark = pytest.mark.slow

META, SEEDS, BATCH = torch.device("meta"), 2, 8
SHORT = replace(largest_cell(), inputs=((-1, 0), (0, 1), (0, 1), (0, 1)), output=1)  # only S1 and S4 are live
IDENTITY = replace(SHORT, operations=(("identity", "identity"),) * 4)
ALL = replace(largest_cell(), operations=tuple(zip(OPERATIONS[::2], OPERATIONS[1::2], strict=True)))
RANDOM = Cell.from_configuration(joint_space().sample(np.random.default_rng(5)))

WAITS = {"_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select"}
INDEXES = {"index", "index_put", "index_put_", "_index_put_impl_"}


class NotCapturableError(Exception):
    """A graph cannot record this, or would repeat it wrongly."""


def tensors(*values: Any) -> list[Tensor]:
    """All tensors in these values."""
    return [leaf for leaf in tree_leaves(values) if isinstance(leaf, Tensor)]


def memory(tensor: Tensor) -> int:
    """The number of the tensor's memory, which its views share; unique while the memory is in use."""
    return tensor.untyped_storage()._cdata


@dataclass
class Program:
    """The operations of a step. lines: each with its numbers, and the shapes and origins of its tensors.

    written: memory from before the step that it changed. held: all tensors, so that numbers of memory are unique.
    """

    lines: list[str] = field(default_factory=list)
    written: dict[int, Tensor] = field(default_factory=dict)
    held: list[Tensor] = field(default_factory=list)


class Guard(TorchDispatchMode):
    """Records operations. Raises NotCapturableError at one that cannot be in a graph."""

    def __init__(self) -> None:
        super().__init__()
        self.program = Program()
        self._made: dict[int, int] = {}  # memory allocated in the step, numbered

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        inputs = tensors(args, kwargs)
        check_operation(func, args, kwargs)
        self._record(func, inputs, (args, kwargs))
        result = func(*args, **kwargs)
        known = {memory(tensor) for tensor in inputs}
        for tensor in tensors(result):
            refuse_host(func, tensor.device)
            self.program.held.append(tensor)
            if memory(tensor) not in known:
                self._made.setdefault(memory(tensor), len(self._made))
        return result

    def _record(self, func: Any, inputs: list[Tensor], values: Any) -> None:
        origins = []
        for tensor in inputs:
            place = memory(tensor)
            origin = f"new {self._made[place]}" if place in self._made else f"old {place}"
            origins.append((origin, tensor.dtype, tuple(tensor.shape), tensor.stride(), tensor.storage_offset()))
        numbers = [leaf for leaf in tree_leaves(values) if not isinstance(leaf, Tensor)]
        self.program.lines.append(f"{func} of {numbers}, {origins}")
        self.program.held += inputs
        for tensor in written_by(func, *values):
            if memory(tensor) not in self._made:
                self.program.written[memory(tensor)] = tensor


def written_by(func: Any, args: Any, kwargs: Any) -> Iterator[Tensor]:
    """The arguments that an operation writes to, by its schema, which for BatchNorm lacks the statistics."""
    schema = func._schema
    for number, argument in enumerate(schema.arguments):
        value = args[number] if number < len(args) else kwargs.get(argument.name)
        learned = argument.name in ("running_mean", "running_var") and "backward" not in schema.name
        if learned or (argument.alias_info is not None and argument.alias_info.is_write):
            yield from tensors(value)


def refuse_host(func: Any, device: Any) -> None:
    if torch.device(device).type != META.type:
        raise NotCapturableError(f"{func}: a tensor is on the host")


def check_operation(func: Any, args: Any, kwargs: Any) -> None:
    """Raises NotCapturableError for an operation that cannot be in any graph."""
    name = func._schema.name.split("::")[1]
    if name in INDEXES:
        if any(tensor.dtype in (torch.bool, torch.uint8) for tensor in tensors(args[1])):
            raise NotCapturableError(f"{func}: the host waits for the number of those set")
    elif name in WAITS or {torch.Tag.data_dependent_output, torch.Tag.dynamic_output_shape} & set(func.tags):
        raise NotCapturableError(f"{func}: the host waits for a result")
    if torch.Tag.nondeterministic_seeded in func.tags:
        raise NotCapturableError(f"{func}: random numbers are drawn")
    for tensor in tensors(args, kwargs):
        refuse_host(func, tensor.device)
    refuse_host(func, kwargs.get("device") or META)


def record(step: Callable[[], object]) -> Program:
    """The operations of a step. Raises NotCapturableError at one that cannot be in a graph."""
    with Guard() as guard:
        step()
    return guard.program


def check_same(first: Program, later: Program) -> None:
    """Raises NotCapturableError with the first operation that differs."""
    for number, (was, now) in enumerate(zip(first.lines, later.lines, strict=False)):
        if was != now:
            raise NotCapturableError(f"operation {number} differs: it was {was}, and is {now}")
    if len(first.lines) != len(later.lines):
        raise NotCapturableError(f"{len(later.lines)} operations, which were {len(first.lines)}, so the end differs")


def check_written(program: Program, state: Sequence[Tensor]) -> None:
    """Raises NotCapturableError if the step writes to memory that is not in `state`."""
    kept = {memory(tensor) for tensor in state}
    lost = [tuple(tensor.shape) for place, tensor in program.written.items() if place not in kept]
    if lost:
        raise NotCapturableError(f"tensors of the shapes {lost} are written to and not restored")


class Captured:
    """Replaces `capture_graph`: checks the step when it is captured, and each time it would be replayed."""

    def __init__(self, step: Callable[[], object], first_step: Callable[[], object], state: Sequence[Tensor]) -> None:
        warm_up = record(first_step)
        self._step, self.programs = step, [record(step)]
        for program in (warm_up, self.programs[0]):
            check_written(program, state)

    def __call__(self) -> None:
        self.programs.append(record(self._step))
        check_same(self.programs[0], self.programs[-1])


def learner_of(cell: Cell, count: int = BATCH) -> StackedLearner:
    """The trainer's learner of `count` images, on the meta device."""
    images = torch.zeros(count, 28, 28, dtype=torch.uint8, device=META)
    labels = torch.zeros(count, dtype=torch.int64, device=META)
    draws = [streams(1, number) for number in range(SEEDS)]
    networks = [build_network(cell, stream.initialisation) for stream in draws]
    context = TrainingContext(DeviceData(images, labels, images, labels), BATCH, 10)
    return StackedLearner(Stack(networks, cell, META), Schedule(0.02, 0.9, 1e-3, 0.5, 0.5, 0.5), draws, context)


def train(learner: StackedLearner, monkeypatch: pytest.MonkeyPatch) -> Captured:
    """Capture, then two epochs with different rates, validation and a checkpoint between them."""
    graphs: list[Captured] = []

    def capture_graph(*arguments: Any) -> Captured:
        graphs.append(Captured(*arguments))
        return graphs[-1]

    monkeypatch.setattr(multi_seed, "capture_graph", capture_graph)
    learner.capture()
    learner.train_epoch(0.02)
    with pytest.raises(NotImplementedError, match="meta tensor"):  # at its very end: errors cannot be read
        learner.validation_errors()
    learner.load_state_dict(learner.state_dict())
    learner.train_epoch(0.01)
    (graph,) = graphs
    return graph


@pytest.mark.parametrize("cell", [ALL, RANDOM], ids=["all operations", "random"])
def test_every_step_of_every_epoch_is_the_one_captured(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    """20 images in batches of 8: two replays per epoch, and a rest that is not part of the graph."""
    assert len(train(learner_of(cell, 20), monkeypatch).programs) == 1 + 2 * 2


UPDATE, DRAW = StackedLearner._update, StackedLearner._draw_epoch


def read_from_device(self: Any, gradient: Tensor, losses: Tensor) -> None:
    if losses.isfinite().all():
        UPDATE(self, gradient, losses)


def change_a_number(self: Any, gradient: Tensor, losses: Tensor) -> None:
    self.steps = getattr(self, "steps", 0) + 1
    UPDATE(self, gradient / self.steps, losses)


def write_elsewhere(self: Any, gradient: Tensor, losses: Tensor) -> None:
    vars(self).setdefault("last", torch.zeros(SEEDS, device=META)).copy_(losses)
    UPDATE(self, gradient, losses)


def renew_images(self: Any) -> None:
    self._images = self._images.clone()
    DRAW(self)


def renew_state(self: Any, state: dict[str, Any]) -> None:
    self._velocity = state["velocity"].clone()


FAULTS = {
    read_from_device: ("_update", "host waits"),
    change_a_number: ("_update", "differs"),
    write_elsewhere: ("_update", "not restored"),
    renew_images: ("_draw_epoch", "differs"),
    renew_state: ("load_state_dict", "differs"),
}


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_the_step_is_found(fault: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    method, reason = FAULTS[fault]
    monkeypatch.setattr(StackedLearner, method, fault)
    with pytest.raises(NotCapturableError, match=reason):
        train(learner_of(IDENTITY), monkeypatch)
