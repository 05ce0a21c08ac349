"""All trainings of an evaluation in one program: each step updates every network, and the host never waits for it.

Each training has the same random numbers as the plain one. An epoch's images are cropped at its beginning, and whether
losses are finite is kept on the device and read once per epoch. The weights of a training that diverged are set to zero
and stay so. On a GPU the step is captured as a CUDA graph and replayed, see `cuda_graph.py`.

Images of S networks are concatenated along the channels, network after network: [B, S x C, H, W]. So

- a convolution with g groups becomes one with S x g groups (`stacked_convolution.py`),
- BatchNorm, ReLU, pools and sums, which treat each channel separately, are unchanged but have S x C channels,
- the fully connected layer becomes a batched product of S pairs of matrices.

The weights of all networks are one vector, so that an optimizer's step takes a few operations. Networks are
independent: no weight or gradient of one depends on the numbers of another.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from fmnas.search_spaces import Cell, Schedule
from fmnas.trainers.images.batches import Streams, crop, draw_crops
from fmnas.trainers.images.cuda_graph import StepLimiter, capture_graph
from fmnas.trainers.images.model import Network, normalise
from fmnas.trainers.images.network import replace_layers
from fmnas.trainers.images.stacked_convolution import StackedConvolution
from fmnas.trainers.images.training import TrainingContext, Weights, stoppable
from fmnas.trainers.split import IMAGE_SIZE

IMAGES_AT_ONCE = 4096
"""Images that are cropped together: a bound on memory."""


class Stack:
    """Several networks of the same cell as one.

    weights [N]: the parameters of all networks, a leaf tensor that requires gradients; parameter after parameter, each
    with the values of the first network first. owner [N] int32: the number of the network that a weight belongs to.
    statistics: BatchNorm's running means and variances, [S x C] each, by name.
    """

    def __init__(self, networks: Sequence[Network], cell: Cell, device: torch.device) -> None:
        self.seeds = len(networks)
        with torch.device("meta"):  # shapes only: the values are in `weights`
            self._network = StackedNetwork(cell, self.seeds)
        self._parts = {name: part.shape for name, part in self._network.named_parameters()}
        states = [network.state_dict() for network in networks]
        self.weights = torch.cat([state[name].flatten() for name in self._parts for state in states])
        self.weights = self.weights.to(device).requires_grad_()
        numbers = torch.arange(self.seeds, dtype=torch.int32, device=device)
        counts = [shape.numel() for shape in self._parts.values()]
        self.owner = torch.cat([numbers.repeat_interleave(count // self.seeds) for count in counts])
        names = [name for name, _ in self._network.named_buffers()]
        self.statistics = {name: torch.cat([state[name] for state in states]).to(device) for name in names}

    def __call__(self, images: Tensor) -> Tensor:
        """Map images [B, S, 28, 28], one per network, to logits [S, B, 10]."""
        logits: Tensor = functional_call(self._network, {**dict(self.named_weights()), **self.statistics}, (images,))
        return logits

    def train(self, training: bool = True) -> None:
        """Set whether BatchNorm uses (and learns) the statistics of the batch or the learned ones."""
        self._network.train(training)

    def named_weights(self) -> Iterator[tuple[str, Tensor]]:
        """The parameters of the stacked network by name, as views of `weights`."""
        sizes = [shape.numel() for shape in self._parts.values()]
        for (name, shape), part in zip(self._parts.items(), self.weights.split(sizes), strict=True):
            yield name, part.view(shape)


class StackedNetwork(Network):
    """A `Network` that maps the images of S networks [B, S, 28, 28] to logits [S, B, 10]."""

    def __init__(self, cell: Cell, seeds: int) -> None:
        super().__init__(cell.states, cell.output)
        self._seeds = seeds
        replace_layers(self, partial(_widen, seeds=seeds))

    def join(self, a: Tensor, b: Tensor) -> Tensor:
        """Concatenate two outputs [B, S x C, H, W] of the last cell, network after network: [B, S x 2C, H, W]."""
        both = [part.unflatten(1, (self._seeds, -1)) for part in (a, b)]
        return torch.cat(both, dim=2).flatten(1, 2)


class StackedLinear(nn.Module):
    """The fully connected layers of S networks."""

    def __init__(self, layer: nn.Linear, seeds: int) -> None:
        super().__init__()
        self._shape = (seeds, layer.out_features, layer.in_features)
        self.weight = nn.Parameter(torch.empty(seeds * layer.out_features, layer.in_features))
        self.bias = nn.Parameter(torch.empty(seeds * layer.out_features))

    def forward(self, numbers: Tensor) -> Tensor:
        """Map numbers [B, S x I] to [S, B, O]."""
        seeds, outputs, inputs = self._shape
        separate = numbers.view(-1, seeds, inputs).transpose(0, 1)  # [S, B, I]
        weight = self.weight.view(self._shape).transpose(1, 2)
        return torch.baddbmm(self.bias.view(seeds, 1, outputs), separate, weight)


def _widen(layer: nn.Module, seeds: int) -> nn.Module | None:
    """The layer for `seeds` networks that replaces one for a single network; None if it is the same."""
    if isinstance(layer, nn.Conv2d):
        size = layer.kernel_size[0]
        inputs, outputs = seeds * layer.in_channels, seeds * layer.out_channels
        return StackedConvolution(inputs, outputs, size, seeds * layer.groups)
    if isinstance(layer, nn.BatchNorm2d):
        norm = nn.BatchNorm2d(seeds * layer.num_features, layer.eps, layer.momentum)
        norm.num_batches_tracked = None  # not used, and counting costs an operation per layer
        return norm
    if isinstance(layer, nn.Linear):
        return StackedLinear(layer, seeds)
    if isinstance(layer, nn.ReLU):
        return nn.ReLU(inplace=True)  # after BatchNorm, whose derivative needs only its input
    return None


class StackedLearner:
    """Trains a stack of networks with one schedule, an epoch at a time.

    Shapes: S trainings, N weights of all of them, n training images.
    """

    def __init__(self, stack: Stack, schedule: Schedule, draws: Sequence[Streams], context: TrainingContext) -> None:
        """draws: the random generators of each network. The data of `context` are on the stack's device."""
        self._stack, self._schedule, self._draws, self._context = stack, schedule, draws, context
        device, count = stack.weights.device, len(context.data.train_images)
        self._velocity = torch.zeros_like(stack.weights, requires_grad=False)
        self._alive = torch.ones(stack.seeds, dtype=torch.bool, device=device)
        self._rate = torch.zeros((), dtype=stack.weights.dtype, device=device)
        self._position = torch.zeros((), dtype=torch.int64, device=device)  # the first image of the next step
        self._rows = torch.arange(context.batch_size, device=device)
        size = (count, stack.seeds, IMAGE_SIZE, IMAGE_SIZE)
        self._images = torch.zeros(size, dtype=torch.uint8, device=device)  # in the order of this epoch
        self._labels = torch.zeros((count, stack.seeds), dtype=torch.int64, device=device)
        self._full_step: Callable[[], object] = lambda: self.step(context.batch_size)
        self._limiter = StepLimiter(device)

    def capture(self) -> None:
        """Capture the step of full batches as a CUDA graph, without training.

        Raises CaptureError; the learner cannot be used after that.
        """
        state = [self._stack.weights, self._velocity, self._alive, self._position, *self._stack.statistics.values()]

        def first_step() -> None:
            self._position.zero_()
            self.step(self._context.batch_size)

        if len(self._images) >= self._context.batch_size:
            self._stack.train()
            self._full_step = capture_graph(lambda: self.step(self._context.batch_size), first_step, state)

    def train(self, learning_rates: Iterable[float], first: int | None = None) -> list[float | None]:
        """Train an epoch per learning rate, then return `validation_errors`."""
        for learning_rate in learning_rates:
            self.train_epoch(learning_rate)
        return self.validation_errors(first)

    def diverged(self) -> list[bool]:
        """Which of the trainings have diverged."""
        return [not alive for alive in self._alive.tolist()]

    def train_epoch(self, learning_rate: float) -> None:
        """One pass of every training over the training images. A training whose loss is not finite ends."""
        self._stack.train()
        self._draw_epoch()
        self._rate.fill_(learning_rate)
        self._position.zero_()
        full, rest = divmod(len(self._images), self._context.batch_size)
        for _ in stoppable(range(full), self._context.stop):
            self._full_step()
            self._limiter.step()
        for count in stoppable([rest] if rest else [], self._context.stop):
            self.step(count)

    def step(self, count: int) -> Tensor:
        """A step on the next `count` images of each training. Returns the losses [S] before it."""
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
        """The share of the first `first` validation images (None: all) that each network classifies wrongly.

        None for a training that has diverged: its loss or one of these logits was not finite.
        """
        self._stack.train(False)
        seeds, count = self._stack.seeds, 0
        wrong = torch.zeros(seeds, dtype=torch.int64, device=self._alive.device)
        for images, labels in self._context.validation_batches(first):
            logits = self._stack(images.to(self._rate.dtype).expand(-1, seeds, -1, -1))  # [S, B, 10]
            wrong += (logits.argmax(dim=2) != labels).sum(1)
            self._alive &= logits.isfinite().flatten(1).all(1)
            count += len(labels)
            self._limiter.step()
        counts = torch.stack([wrong, self._alive.to(wrong.dtype)]).tolist()  # here, once per epoch, the host waits
        return [mistakes / count if alive else None for mistakes, alive in zip(*counts, strict=True)]

    def weights(self) -> list[Weights]:
        """The weights of each training."""
        parts = {**dict(self._stack.named_weights()), **self._stack.statistics}  # [S x ...] each
        split = {name: value.chunk(self._stack.seeds) for name, value in parts.items()}
        return [{name: value[number] for name, value in split.items()} for number in range(self._stack.seeds)]

    def state_dict(self) -> dict[str, Any]:
        """All that the next epochs depend on."""
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
        """Continue from the state of a learner of the same number of trainings of the same cell."""
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
        losses = functional.cross_entropy(logits.flatten(0, 1), labels.t().flatten(), reduction="none")
        return losses.view(self._stack.seeds, -1).mean(1)

    def _update(self, gradient: Tensor, losses: Tensor) -> None:
        """SGD as in torch for trainings whose losses are finite; the weights of the others become zero."""
        weights, velocity = self._stack.weights, self._velocity
        self._alive &= losses.isfinite()
        gradient.add_(weights, alpha=self._schedule.weight_decay)
        velocity.mul_(self._schedule.momentum).add_(gradient)
        weights.addcmul_(velocity, self._rate, value=-1.0)
        ended = self._alive.logical_not().index_select(0, self._stack.owner)
        weights.masked_fill_(ended, 0.0)
        velocity.masked_fill_(ended, 0.0)

    def _draw_epoch(self) -> None:
        """Draw every image once per training, in random order, augmented."""
        data, count = self._context.data, len(self._images)
        device = self._images.device
        for number, draws in enumerate(self._draws):
            order = torch.randperm(count, generator=draws.order).to(device)
            crops = draw_crops(count, draws.augmentation).to(device)
            self._labels[:, number] = data.train_labels[order]
            for start in range(0, count, IMAGES_AT_ONCE):
                part = slice(start, start + IMAGES_AT_ONCE)
                self._images[part, number] = crop(data.train_images[order[part]], crops[:, part])
