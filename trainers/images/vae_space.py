"""The space of MiVaBO's variational autoencoder (Daxberger et al. 2019, App. B): 25 discrete, 3 continuous variables.

The architecture is C1-C2-F1-F2-z-F3-F4-D1-D2; the first layers of each kind are used. A used layer must fit:

    encoder   W1 = (28 - F1 + P1) / S1 + 1 and W2 = (W1 - F2 + P2) / S2 + 1 are integers
    decoder   W = 6 S1 + F1 - 2 P1 + O1 and (W - 1) S2 + F2 - 2 P2 + O2 = 28, from 7 x 7

with filters F, strides S, paddings P and output paddings O. Without deconvolutions the last fully connected layer gives
the 784 pixels, as channels x 7 x 7, so the channels of D1 are 16; one deconvolution gives at most 20 pixels, so none is
feasible. Filters are odd: a stride of 2 in the encoder needs P1 odd, and W1 + P2 odd. These integrality conditions
become quadratic constraints, each of which excludes one combination v0: sum (v - v0)^2 >= 1. The decoder's equation
becomes two quadratic constraints, which hold trivially unless both deconvolutions are used.

Unlike in the paper there are values without bits, so no code needs to be excluded.
"""

from collections.abc import Iterator, Mapping
from itertools import product

from fmnas.search_spaces import Integer, LinearConstraint, Ordinal, QuadraticConstraint, Real, Space
from fmnas.search_spaces.variables import Variable

UNITS = tuple(range(0, 961, 64))
SMALL_CHANNELS, LARGE_CHANNELS = (4, 8, 16, 24), (8, 16, 32, 48)
PIXELS, SMALLEST = 28, 7
"""Sides of an image and of the input of the deconvolutions."""
SLACK = 15
"""Half the largest difference of the decoder's two sides, rounded up."""


def _layer(name: str, channels: tuple[int, ...], output_padding: bool) -> list[Variable]:
    """The variables of a convolution or deconvolution."""
    return [
        Ordinal(f"{name}_channels", channels),
        Integer(f"{name}_stride", 1, 2),
        Ordinal(f"{name}_filter", (3, 5)),
        Integer(f"{name}_padding", 0, 3),
        *([Integer(f"{name}_output_padding", 0, 3)] if output_padding else []),
    ]


def exclude(values: Mapping[str, int]) -> QuadraticConstraint:
    """The constraint that excludes one combination of integer values: their squared distance from it is at least 1."""
    squares = {(name, name): -1.0 for name in values}
    centre = {name: 2.0 * value for name, value in values.items() if value}
    return QuadraticConstraint(centre, squares, sum(value**2 for value in values.values()) - 1.0)


def encoder_constraints() -> Iterator[QuadraticConstraint]:
    """Exclude every combination of values with a fractional size."""
    for layers, padding in product((1, 2), (0, 2)):
        yield exclude({"convolutions": layers, "c1_stride": 2, "c1_padding": padding})
    for stride, filter_, padding, second in product((1, 2), (3, 5), range(4), range(4)):
        size, fraction = divmod(PIXELS - filter_ + padding, stride)
        if not fraction and (size + 1 + second) % 2 == 0:
            first = {"c1_stride": stride, "c1_filter": filter_, "c1_padding": padding}
            yield exclude({"convolutions": 2, **first, "c2_stride": 2, "c2_padding": second})


def decoder_constraints() -> Iterator[LinearConstraint | QuadraticConstraint]:
    """No single deconvolution; 28 pixels after two; 16 channels without any."""
    yield QuadraticConstraint({"deconvolutions": 2}, {("deconvolutions", "deconvolutions"): -1}, 0)
    linear = {"d2_stride": -1, "d2_filter": 1, "d2_padding": -2, "d2_output_padding": 1}
    pairs = {"d1_stride": SMALLEST - 1, "d1_filter": 1, "d1_padding": -2, "d1_output_padding": 1}
    for sign in (1, -1):
        yield QuadraticConstraint(
            {"deconvolutions": SLACK, **{name: sign * a for name, a in linear.items()}},
            {(name, "d2_stride"): sign * q for name, q in pairs.items()},
            sign * PIXELS + 2 * SLACK,
        )
        yield LinearConstraint({"d1_channels": sign, "deconvolutions": -16}, sign * 16)


VAE_SPACE = Space(
    [
        Integer("convolutions", 0, 2),
        *_layer("c1", SMALL_CHANNELS, output_padding=False),
        *_layer("c2", LARGE_CHANNELS, output_padding=False),
        Integer("encoder_layers", 0, 2),
        Ordinal("f1_units", UNITS),
        Integer("latent", 16, 64),
        Integer("decoder_layers", 0, 2),
        Ordinal("f4_units", UNITS),
        Integer("deconvolutions", 0, 2),
        *_layer("d1", LARGE_CHANNELS, output_padding=True),
        *_layer("d2", SMALL_CHANNELS, output_padding=True),
        Real("learning_rate", 1e-4, 1e-2, log=True),
        Real("learning_rate_decay", 0.5, 1.0),
        Real("weight_decay", 1e-6, 1e-2, log=True),
    ],
    [*encoder_constraints(), *decoder_constraints()],
)
