"""All trainings of an evaluation in one program: each step is one of every network, and nothing waits for the host.

The draws are those of the plain way, training by training: the same order, crops and flips. What differs is where they
are used: an epoch's images are cropped at its beginning, and whether losses are finite is kept on the device, to be
read once an epoch. A training that has diverged must not disturb the others: its weights are put to zero, and stay so.

On a GPU the step is captured once as a CUDA graph and replayed, see `cuda_graph.py`.

Images of S networks lie side by side as channels, those of the first network first: [B, S x C, H, W]. So

- a convolution with g groups becomes one with S x g groups,
- BatchNorm, ReLU, pools and sums, which treat each channel alone, stay as they are, on S x C channels,
- the fully connected layer becomes a product of S pairs of matrices.

All weights of all networks are one vector, so that an optimizer's step is a few operations whatever the cell. No weight
and no gradient of one network depends on another's numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from fmnas.search_spaces import Cell, Schedule
from fmnas.trainers.images.batches import Streams, crop, draw_crops, normalise
from fmnas.trainers.images.cuda_graph import Pace, captured
from fmnas.trainers.images.network import Network, replace_layers
from fmnas.trainers.images.training import TrainingContext, stoppable
from fmnas.trainers.split import IMAGE_SIZE

IMAGES_AT_ONCE = 4096
"""Images that are cropped in one go: a bound on memory."""


class Stack:
    """Networks of the same cell, taken over as one.

    weights [N]: every parameter of every network; a leaf that gradients are taken of. Of each parameter, the networks'
    values follow each other. owner [N] int32: the number of the network that a weight belongs to.
    statistics: BatchNorm's running means and variances, [S x C] each, by name.
    """

    def __init__(self, networks: Sequence[Network], cell: Cell, device: torch.device) -> None:
        """networks: at least one, each of this cell."""
        self.seeds = len(networks)
        with torch.device("meta"):  # shapes alone: the numbers are `weights`
            self._network = StackedNetwork(cell, self.seeds)
        self._parts = {name: part.shape for name, part in self._network.named_parameters()}
        states = [network.state_dict() for network in networks]
        self.weights = torch.cat([_side_by_side(states, name).flatten() for name in self._parts])
        self.weights = self.weights.to(device).requires_grad_()
        numbers = torch.arange(self.seeds, dtype=torch.int32, device=device)
        counts = [shape.numel() for shape in self._parts.values()]
        self.owner = torch.cat([numbers.repeat_interleave(count // self.seeds) for count in counts])
        self.statistics = {name: _side_by_side(states, name).to(device) for name, _ in self._network.named_buffers()}

    def __call__(self, images: Tensor) -> Tensor:
        """Images [B, S, 28, 28], one of each network, to logits [S, B, 10]."""
        logits: Tensor = functional_call(self._network, {**dict(self.named_weights()), **self.statistics}, (images,))
        return logits

    def train(self, training: bool = True) -> None:
        """Whether BatchNorm takes the statistics of the batch (and learns them) or those that it has learned."""
        self._network.train(training)

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters as the network takes them: parts of `weights`."""
        sizes = [shape.numel() for shape in self._parts.values()]
        for (name, shape), part in zip(self._parts.items(), self.weights.split(sizes), strict=True):
            yield name, part.view(shape)


class StackedNetwork(Network):
    """A `Network` on the images of several networks: [B, S, 28, 28] to logits [S, B, 10]."""

    def __init__(self, cell: Cell, seeds: int) -> None:
        super().__init__(cell)
        self._seeds = seeds
        replace_layers(self, partial(_wide, seeds=seeds))

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        """The two outputs [B, S x C, H, W] of the last cell, network after network: [B, S x 2C, H, W]."""
        both = [part.unflatten(1, (self._seeds, -1)) for part in (a, b)]
        return torch.cat(both, dim=2).flatten(1, 2)


class StackedLinear(nn.Module):
    """A fully connected layer of each of S networks: [B, S x I] to [S, B, O]."""

    def __init__(self, layer: nn.Linear, seeds: int) -> None:
        super().__init__()
        self._shape = (seeds, layer.out_features, layer.in_features)
        self.weight = nn.Parameter(torch.empty(seeds * layer.out_features, layer.in_features))
        self.bias = nn.Parameter(torch.empty(seeds * layer.out_features))

    def forward(self, numbers: Tensor) -> Tensor:
        """Numbers [B, S x I] to [S, B, O]."""
        seeds, outputs, inputs = self._shape
        each = numbers.view(-1, seeds, inputs).transpose(0, 1)  # [S, B, I]
        weight = self.weight.view(self._shape).transpose(1, 2)
        return torch.baddbmm(self.bias.view(seeds, 1, outputs), each, weight)


def _side_by_side(states: Sequence[Mapping[str, Tensor]], name: str) -> Tensor:
    """A parameter or a statistic of all networks, one after the other along its first dimension."""
    return torch.cat([state[name] for state in states])


def _wide(layer: nn.Module, seeds: int) -> nn.Module | None:
    """The layer for `seeds` networks in the place of that for one; None if it serves them as it is."""
    if isinstance(layer, nn.Conv2d):
        size, padding = layer.kernel_size[0], layer.padding[0]
        assert isinstance(padding, int)
        inputs, outputs = seeds * layer.in_channels, seeds * layer.out_channels
        return nn.Conv2d(inputs, outputs, size, padding=padding, groups=seeds * layer.groups)
    if isinstance(layer, nn.BatchNorm2d):
        norm = nn.BatchNorm2d(seeds * layer.num_features, layer.eps, layer.momentum)
        norm.num_batches_tracked = None  # it decides nothing here, and counting costs an operation a layer
        return norm
    if isinstance(layer, nn.Linear):
        return StackedLinear(layer, seeds)
    if isinstance(layer, nn.ReLU):
        return nn.ReLU(inplace=True)  # behind BatchNorm, whose derivative needs its input alone
    return None


class StackedLearner:
    """The trainings of a stack of networks, an epoch at a time, with one schedule.

    Shapes: S trainings, N weights of all of them together, n training images.
    """

    def __init__(self, stack: Stack, schedule: Schedule, draws: Sequence[Streams], context: TrainingContext) -> None:
        """draws: one for each network. The data of `context` are on the stack's device."""
        self._stack, self._schedule, self._draws, self._context = stack, schedule, draws, context
        device, count = stack.weights.device, len(context.data.train_images)
        self._velocity = torch.zeros_like(stack.weights, requires_grad=False)
        self._alive = torch.ones(stack.seeds, dtype=torch.bool, device=device)
        self._rate = torch.zeros((), dtype=stack.weights.dtype, device=device)
        self._position = torch.zeros((), dtype=torch.int64, device=device)  # the first image of the next step
        self._rows = torch.arange(context.batch_size, device=device)
        size = (count, stack.seeds, IMAGE_SIZE, IMAGE_SIZE)
        self._images = torch.zeros(size, dtype=torch.uint8, device=device)  # of this epoch, in its order
        self._labels = torch.zeros((count, stack.seeds), dtype=torch.int64, device=device)
        self._full_step: Callable[[], object] = lambda: self.step(context.batch_size)
        self._pace = Pace(device)

    def capture(self) -> None:
        """Make a CUDA graph of the step of full batches. Raises CaptureError, and then the learner is of no more use.

        Nothing is trained by it.
        """
        state = [self._stack.weights, self._velocity, self._alive, self._position, *self._stack.statistics.values()]

        def first_step() -> None:
            self._position.zero_()
            self.step(self._context.batch_size)

        if len(self._images) >= self._context.batch_size:
            self._stack.train()
            self._full_step = captured(lambda: self.step(self._context.batch_size), first_step, state)

    def train(self, learning_rates: Iterable[float], first: int | None = None) -> list[float | None]:
        """Epochs of every training with these learning rates, then `validation_errors`."""
        for learning_rate in learning_rates:
            self.train_epoch(learning_rate)
        return self.validation_errors(first)

    def ended(self) -> list[bool]:
        """Which of the trainings have diverged."""
        return [not alive for alive in self._alive.tolist()]

    def train_epoch(self, learning_rate: float) -> None:
        """One pass of every training over the training images. Trainings whose loss is not finite end there."""
        self._stack.train()
        self._draw_epoch()
        self._rate.fill_(learning_rate)
        self._position.zero_()
        full, rest = divmod(len(self._images), self._context.batch_size)
        for _ in stoppable(range(full), self._context.stop):
            self._full_step()
            self._pace.step()
        for count in stoppable([rest] if rest else [], self._context.stop):
            self.step(count)

    def step(self, count: int) -> Tensor:
        """A step on the next `count` images of each training; the losses [S] before it."""
        rows = self._rows[:count] + self._position
        images = normalise(self._images.index_select(0, rows).flatten(0, 1)).view(count, -1, IMAGE_SIZE, IMAGE_SIZE)
        losses = self._losses(images.to(self._rate.dtype), self._labels.index_select(0, rows))
        (gradient,) = torch.autograd.grad(losses.sum(), self._stack.weights)
        with torch.no_grad():
            self._update(gradient, losses)
            self._position += count
        return losses.detach()

    @torch.no_grad()
    def validation_errors(self, first: int | None = None) -> list[float | None]:
        """The share of validation images, of the first so many or all, that each network gets wrong.

        None for a training that has ended, now or before: its loss or one of these logits was not finite.
        """
        self._stack.train(False)
        seeds, count = self._stack.seeds, 0
        wrong = torch.zeros(seeds, dtype=torch.int64, device=self._alive.device)
        for images, labels in self._context.validation_batches(first):
            same = images.to(self._rate.dtype).expand(-1, seeds, -1, -1)
            logits = self._stack(same)  # [S, B, 10]
            wrong += (logits.argmax(dim=2) != labels).sum(1)
            self._alive &= logits.isfinite().flatten(1).all(1)
            count += len(labels)
            self._pace.step()
        found = torch.stack([wrong, self._alive.to(wrong.dtype)]).tolist()  # here, once an epoch, the host waits
        return [mistakes / count if alive else None for mistakes, alive in zip(*found, strict=True)]

    def state_dict(self) -> dict[str, Any]:
        """All that the next epochs depend on. Tensors and plain values."""
        return {
            "weights": self._stack.weights.detach(),
            "velocity": self._velocity,
            "statistics": self._stack.statistics,
            "alive": self._alive,
            "order": [draws.order.get_state() for draws in self._draws],
            "augmentation": [draws.augmentation.get_state() for draws in self._draws],
        }

    @torch.no_grad()
    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on from there. The state is that of a learner of as many trainings of the same cell."""
        self._stack.weights.copy_(state["weights"])
        self._velocity.copy_(state["velocity"])
        self._alive.copy_(state["alive"])
        for name, values in self._stack.statistics.items():
            values.copy_(state["statistics"][name])
        for draws, order, augmentation in zip(self._draws, state["order"], state["augmentation"], strict=True):
            draws.order.set_state(order)
            draws.augmentation.set_state(augmentation)

    def _losses(self, images: Tensor, labels: Tensor) -> Tensor:
        """The mean loss of each network [S] on images [B, S, 28, 28] and labels [B, S]."""
        logits = self._stack(images)
        each = functional.cross_entropy(logits.flatten(0, 1), labels.t().flatten(), reduction="none")
        return each.view(self._stack.seeds, -1).mean(1)

    def _update(self, gradient: Tensor, losses: Tensor) -> None:
        """SGD as torch's, for the trainings whose losses are finite; the others end: their weights become zero."""
        weights, velocity = self._stack.weights, self._velocity
        self._alive &= losses.isfinite()
        gradient.add_(weights, alpha=self._schedule.weight_decay)
        velocity.mul_(self._schedule.momentum).add_(gradient)
        weights.addcmul_(velocity, self._rate, value=-1.0)
        ended = self._alive.logical_not().index_select(0, self._stack.owner)
        weights.masked_fill_(ended, 0.0)
        velocity.masked_fill_(ended, 0.0)

    def _draw_epoch(self) -> None:
        """Every image once for each training, in random order, cropped."""
        data, count = self._context.data, len(self._images)
        device = self._images.device
        for number, draws in enumerate(self._draws):
            order = torch.randperm(count, generator=draws.order).to(device)
            crops = draw_crops(count, draws.augmentation).to(device)
            self._labels[:, number] = data.train_labels[order]
            for start in range(0, count, IMAGES_AT_ONCE):
                part = slice(start, start + IMAGES_AT_ONCE)
                self._images[part, number] = crop(data.train_images[order[part]], crops[:, part])
