"""The canonical form of a cell: the same for two cells exactly when their networks are the same.

Two networks are the same when their computation graphs are isomorphic: a one-to-one map of their live parts keeps every
operation and every connection. With the weights carried along, they then compute the same logits. These symmetries
of the encoding leave the network the same:

| what changes | why nothing else does |
|---|---|
| dead states | they reach no output: they are not built |
| the order of a state's two (input, operation) summands | a + b = b + a |
| the numbers of the live states | a state is what it computes, not its number; S4 stays the second output |
| the mirror: S(-1) and S(0) change places everywhere, and so do the two outputs | see below |
| S(-1) and S(0) alone, in a cell that is its own mirror image | see below |

The mirror. Both inputs of the first cell are the stem's output; each input of a cell has a 1x1 convolution of its own;
a cell's outputs are the next cell's inputs, and the last two meet in one 1x1 convolution. So exchanging the two values
at all four of these places is a renaming of weights.

There are no others. Width and resolution tell the three cells apart, so an isomorphism maps each onto its counterpart
and, at each of the four places, keeps the two values or exchanges them. If it does the same before and after some cell,
the two encodings agree up to numbers, or up to numbers and the mirror. If it alternates, exchanging the inputs of a
cell C gives its counterpart, and so does exchanging C's outputs: then C is its own mirror image, the last row.

Equal parts of one cell are not merged: their weights differ. Nor are identities of arithmetic applied, such as
(a + b) + c = a + (b + c) through identity operations: that changes the graph.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import permutations

from fmnas.search_spaces.nasnet import STATES, Cell

Summand = tuple[int, str]
"""An input, -1, 0 or a state's number, and the operation on it."""

State = tuple[Summand, Summand]


@dataclass(frozen=True, order=True)
class CanonicalCell:
    """What is left of a cell without the freedom of its encoding.

    states: the live states, numbered from 1 in their order, each with its two summands, ascending. The last is the
        second output.
    output: the number of the state that is the first output.
    """

    states: tuple[State, ...]
    output: int

    def representative(self) -> Cell:
        """A cell of this form. It may lie outside the search space: its S4 may take (-1, 0)."""
        (*others, last), filler = self.states, ((-1, "identity"), (0, "identity"))
        states = (*others, *[filler] * (STATES - len(self.states)), last)
        return Cell(
            inputs=tuple((a, b) for (a, _), (b, _) in states),
            operations=tuple((p, q) for (_, p), (_, q) in states),
            output=self.output,
        )


@dataclass(frozen=True)
class _Wired:
    """The live states by their numbers in the encoding, and the two outputs."""

    states: dict[int, State]
    outputs: tuple[int, int]

    def inputs_exchanged(self) -> "_Wired":
        """S(-1) in the place of S(0), and the other way round."""
        other = {-1: 0, 0: -1}
        states = {
            number: ((other.get(a, a), p), (other.get(b, b), q)) for number, ((a, p), (b, q)) in self.states.items()
        }
        return _Wired(states, self.outputs)

    def mirrored(self) -> "_Wired":
        """Inputs and outputs exchanged."""
        first, second = self.outputs
        return _Wired(self.inputs_exchanged().states, (second, first))


def canonical_form(cell: Cell) -> CanonicalCell:
    """The least encoding of the cell's network: equal for two cells exactly when their networks are the same."""
    wired = _wired(cell)
    forms = set(_numberings(wired))
    mirror_images = set(_numberings(wired.mirrored()))
    if mirror_images == forms:
        mirror_images = set(_numberings(wired.inputs_exchanged()))
    return min(forms | mirror_images)


def _wired(cell: Cell) -> _Wired:
    summands = {
        number: tuple(zip(cell.inputs[number - 1], cell.operations[number - 1], strict=True))
        for number in cell.live_states()
    }
    return _Wired({number: (a, b) for number, (a, b) in summands.items()}, (cell.output, STATES))


def _numberings(wired: _Wired) -> Iterator[CanonicalCell]:
    """Every way to number the states 1, 2, ... so that each uses earlier ones only and the second output is the last.

    There is none where another state uses the second output; the cells of one network share the others.
    """
    first, last = wired.outputs
    for order in permutations([number for number in wired.states if number != last]):
        new = {-1: -1, 0: 0} | {number: i for i, number in enumerate((*order, last), start=1)}
        states = []
        for number in (*order, last):
            (a, p), (b, q) = wired.states[number]
            if max(new[a], new[b]) >= new[number]:
                break
            low, high = sorted([(new[a], p), (new[b], q)])
            states.append((low, high))
        else:
            yield CanonicalCell(tuple(states), new[first])
