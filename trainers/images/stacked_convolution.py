"""Convolutions of a stack of networks, whose gradients a GPU computes fast.

cuDNN computes the gradients of a convolution with groups in many small kernels. They are written here as two operations
on all groups at once. An evaluation on an H200 takes 0.52 to 0.64 of the time (`benchmarks/results/gpu/`):

- of the images: a convolution of the outputs' gradients with the reversed kernels,
- of the weights: a batched product of the outputs' gradients and all windows of the images, summed over the images.

Both are exact, and equal torch's own up to rounding. Kernels have an odd size k.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn import functional


class StackedConvolution(nn.Conv2d):
    """A convolution with S x g groups: S networks' convolutions with g groups each. The images keep their size."""

    def __init__(self, inputs: int, outputs: int, size: int, groups: int, dtype: torch.dtype | None = None) -> None:
        assert size % 2 == 1
        super().__init__(inputs, outputs, size, padding=size // 2, groups=groups, dtype=dtype)

    def forward(self, images: Tensor) -> Tensor:
        """Map images [B, S x C, H, W] to [B, S x O, H, W]."""
        if not has_own_gradients(images.device):
            return super().forward(images)
        output: Tensor = _Convolution.apply(images, self.weight, self.bias, self.groups)  # type: ignore[no-untyped-call]
        return output


def has_own_gradients(device: torch.device) -> bool:
    """Whether the gradients of this file are used: not on a CPU, where torch's own are faster."""
    return device.type != "cpu"


class _Convolution(torch.autograd.Function):
    """Shapes: images [B, G x I, H, W], weight [G x O, I, k, k], bias [G x O], output [B, G x O, H, W]."""

    @staticmethod
    def forward(context: Any, images: Tensor, weight: Tensor, bias: Tensor, groups: int) -> Tensor:
        context.save_for_backward(images, weight)
        context.groups = groups
        return functional.conv2d(images, weight, bias, padding=weight.shape[-1] // 2, groups=groups)

    @staticmethod
    @once_differentiable
    def backward(context: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        images, weight = context.saved_tensors
        needs_images, needs_weight, needs_bias, _ = context.needs_input_grad
        gradient = gradient.contiguous()
        return (
            image_gradient(gradient, weight, context.groups) if needs_images else None,
            weight_gradient(gradient, images, weight.shape, context.groups) if needs_weight else None,
            gradient.flatten(2).sum(2).sum(0) if needs_bias else None,  # faster than both sums in one operation
            None,
        )


def image_gradient(gradient: Tensor, weight: Tensor, groups: int) -> Tensor:
    """The gradient of the images [B, G x I, H, W], from that of the output."""
    outputs, inputs, size, _ = weight.shape
    transposed = weight.view(groups, outputs // groups, inputs, size, size).transpose(1, 2)
    reverse = transposed.flip(3, 4) if size > 1 else transposed
    return functional.conv2d(gradient, reverse.flatten(0, 1), padding=size // 2, groups=groups)


def weight_gradient(gradient: Tensor, images: Tensor, shape: torch.Size, groups: int) -> Tensor:
    """The gradient of the weight, which has this shape, from that of the output."""
    (outputs, inputs, size, _), (count, _, height, width) = shape, images.shape
    padded = functional.pad(images, (size // 2,) * 4) if size > 1 else images  # by nothing, it would copy, too
    grouped = padded.unflatten(1, (groups, inputs))
    windows = grouped.unfold(3, height, 1).unfold(4, width, 1)  # [B, G, I, k, k, H, W], a view
    columns = windows.reshape(count * groups, inputs * size**2, height * width)
    products = torch.bmm(gradient.view(count * groups, outputs // groups, height * width), columns.transpose(1, 2))
    return products.view(count, *shape).sum(0)
