"""FLOPs of one forward pass of one image, counted on the network that is trained: dead states are not in it.

Two per multiply-add of convolutions and the fully connected layer, as torch counts them.
"""

from functools import cache

import torch
from torch.utils.flop_counter import FlopCounterMode

from fmnas.search_spaces import CanonicalCell, Cell, canonical_form, largest_cell
from fmnas.trainers.network import IMAGE_SIZE, Network


def count_flops(cell: Cell) -> int:
    """FLOPs of the cell's network: 70,274,048 for the largest cell. Milliseconds; remembered for its canonical form."""
    return flops_of_form(canonical_form(cell))


@cache
def flops_of_form(form: CanonicalCell) -> int:
    """FLOPs of the network that all cells of this form share."""
    with torch.device("meta"):  # shapes without numbers: nothing is computed, no random state is touched
        network, image = Network(form.representative()).eval(), torch.empty(1, 1, IMAGE_SIZE, IMAGE_SIZE)
    with torch.no_grad(), FlopCounterMode(display=False) as counter:
        network(image)
    return int(counter.get_total_flops())


def flops_ratio(cell: Cell) -> float:
    """FLOPs relative to the largest cell's, in (0, 1]."""
    return count_flops(cell) / count_flops(largest_cell())
