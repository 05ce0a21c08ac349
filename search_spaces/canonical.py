"""The canonical form of a cell: equal for two cells if and only if their networks are the same.

Two networks are the same if their computation graphs are isomorphic: a one-to-one map of their live parts preserves
every operation and connection. With the same weights, they compute the same logits. These symmetries of the encoding
preserve the network:

| what changes | why the network is the same |
|---|---|
| dead states | they reach no output and are not built |
| the order of a state's two (input, operation) summands | a + b = b + a |
| the numbers of the live states | a number has no meaning; S4 stays the second output |
| mirror image: S(-1) and S(0) are exchanged everywhere, and so are the two outputs | see below |
| S(-1) and S(0) alone, in a cell that equals its mirror image | see below |

Mirror image: both inputs of the first cell are the stem's output; each input of a cell has a separate 1x1 convolution;
a cell's outputs are the next cell's inputs, and the last two enter one 1x1 convolution. Exchanging the two values at
all four of these places therefore only renames weights.

These are all symmetries. The three cells differ in width and resolution, so an isomorphism maps each onto its
counterpart and, at each of the four places, keeps or exchanges the two values. If it does the same before and after
some cell, the two encodings agree up to numbers, or up to numbers and the mirror image. If it alternates, exchanging
the inputs of a cell C gives its counterpart, and so does exchanging C's outputs: C equals its mirror image, the last
row.

Equal parts of a cell are not merged, because their weights differ. Identities of arithmetic, such as
(a + b) + c = a + (b + c) through identity operations, are not applied, because they change the graph.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from fmnas.search_spaces.nasnet import STATES, Cell, Summand

State = tuple[Summand, Summand]


@dataclass(frozen=True, order=True)
class CanonicalCell:
    """A cell up to the symmetries of its encoding.

    states: the live states, numbered from 1, each with its two summands in ascending order. The last is the second
        output.
    output: number of the state that is the first output.
    """

    states: tuple[State, ...]
    output: int


Graph = tuple[dict[int, State], tuple[int, int]]
"""The live states by their numbers in the encoding, and the two outputs."""


def canonical_form(cell: Cell) -> CanonicalCell:
    """Return the least encoding of a cell's network: equal if and only if two networks are the same."""
    states = cell.states
    new = {-1: 0, 0: -1}
    exchanged: dict[int, State] = {
        number: ((new.get(a, a), p), (new.get(b, b), q)) for number, ((a, p), (b, q)) in states.items()
    }
    forms = set(_numberings((states, (cell.output, STATES))))
    mirror_images = set(_numberings((exchanged, (STATES, cell.output))))
    if mirror_images == forms:
        mirror_images = set(_numberings((exchanged, (cell.output, STATES))))
    return min(forms | mirror_images)


def _numberings(graph: Graph) -> Iterator[CanonicalCell]:
    """Yield the numberings in which each state uses only earlier ones and the second output is the last.

    None exists if a state uses the second output. All cells of one network have the same numberings.
    """
    states, (first, last) = graph
    for order in permutations([number for number in states if number != last]):
        new = {-1: -1, 0: 0} | {number: i for i, number in enumerate((*order, last), start=1)}
        renumbered = []
        for number in (*order, last):
            (a, p), (b, q) = states[number]
            if max(new[a], new[b]) >= new[number]:
                break
            low, high = sorted([(new[a], p), (new[b], q)])
            renumbered.append((low, high))
        else:
            yield CanonicalCell(tuple(renumbered), new[first])
