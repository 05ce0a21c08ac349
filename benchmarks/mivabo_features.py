"""MiVaBO with the Fourier features of its paper's functions, on those four functions (linear_features.py).

    fmnas run paper/mivabo_gaussian -o 'optimizers=[mivabo,
        {name: mivabo-own-features, use: "benchmarks/mivabo_features.py:OwnFeatures"}]'

The functions are drawn from MiVaBO's model, with features of their own. An optimizer that knows them has a correct
model, as the paper's analysis assumes; `mivabo` draws others, and its model cannot represent the function exactly.
"""

from typing import Any

import torch

from fmnas.baselines.linear_model import Features
from fmnas.baselines.mivabo import MiVaBO
from fmnas.search_spaces import Space
from fmnas.trainers.functions.linear_features import OMEGA, SHIFT


class OwnFeatures(MiVaBO):
    """MiVaBO that knows the features of the function. The parameters are those of `MiVaBO`."""

    def __init__(self, space: Space, **others: Any) -> None:
        super().__init__(space, **others)
        self._features = Features(self._features.bits, torch.from_numpy(OMEGA), torch.from_numpy(SHIFT))
