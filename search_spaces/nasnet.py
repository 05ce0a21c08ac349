"""The joint problem's space (BO-FM paper, Sec. 5.3 and Supp. D.2): the NASNet-derived cell and the SGD schedule.

A cell has two inputs, S(-1) and S(0), and four states S1..S4. Each state is the sum of two operations, each applied to
one of two distinct earlier states or inputs. The cell's outputs are S4 and one of S1, S2, S3. There are 8,153,726,976.

| variable | meaning | graph |
|---|---|---|
| op1..op8 | operations; op(2k-1) and op(2k) belong to state Sk | complete |
| in2, in3, in4 | the two inputs of S2, S3, S4, e.g. "-1,0" | pairs that share one input and whose others differ by 1 |
| output | the output beside S4 | path |

The first operation of a state works on the lower-numbered input. S1's inputs are always (-1, 0). The schedule adds six
continuous hyperparameters: 18 variables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fmnas.search_spaces.errors import SpaceError
from fmnas.search_spaces.space import Space
from fmnas.search_spaces.variables import Graph, Nominal, Ordinal, Real, Variable

OPERATIONS = (
    "identity",
    "conv1x1",
    "conv3x3",
    "conv5x5",
    "sepconv3x3",
    "sepconv5x5",
    "maxpool3x3",
    "maxpool5x5",
)
STATES = 4

Pair = tuple[int, int]


def input_pairs(state: int) -> tuple[Pair, ...]:
    """The input pairs that state S2, S3 or S4 may take, in the order of its vertices."""
    pairs = tuple(combinations(range(-1, state), 2))
    return pairs[1:] if state == STATES else pairs  # S4 does not take (-1, 0)


def adjacent(a: Pair, b: Pair) -> bool:
    """Whether two pairs share one input while the remaining two inputs differ by exactly 1."""
    shared = set(a) & set(b)
    if len(shared) != 1:
        return False
    (rest_a,), (rest_b,) = set(a) - shared, set(b) - shared
    return abs(rest_a - rest_b) == 1


def pair_name(pair: Pair) -> str:
    """A pair as the value of a variable: (-1, 0) is "-1,0"."""
    return f"{pair[0]},{pair[1]}"


def parse_pair(name: str) -> Pair:
    """The inverse of `pair_name`."""
    first, second = name.split(",")
    return int(first), int(second)


def cell_variables() -> list[Variable]:
    """op1..op8, in2..in4, output: 12 variables."""
    variables: list[Variable] = [Nominal(f"op{i}", OPERATIONS) for i in range(1, 2 * STATES + 1)]
    for state in range(2, STATES + 1):
        pairs = input_pairs(state)
        edges = [(pair_name(a), pair_name(b)) for a, b in combinations(pairs, 2) if adjacent(a, b)]
        variables.append(Graph(f"in{state}", tuple(pair_name(p) for p in pairs), tuple(edges)))
    variables.append(Ordinal("output", (1, 2, 3)))
    return variables


CELL_NAMES = tuple(variable.name for variable in cell_variables())


@dataclass(frozen=True)
class Cell:
    """A decoded cell.

    inputs: for S1..S4, the pair of inputs.
    operations: for S1..S4, the operation on each of the two inputs.
    output: the state that is the cell's first output; S4 is the second.
    """

    inputs: tuple[Pair, ...]
    operations: tuple[tuple[str, str], ...]
    output: int

    def __post_init__(self) -> None:
        unknown = {op for pair in self.operations for op in pair} - set(OPERATIONS)
        if len(self.inputs) != STATES or len(self.operations) != STATES or unknown or self.output not in (1, 2, 3):
            raise SpaceError(f"{self} is no cell: four states, operations of {OPERATIONS}, output 1, 2 or 3")
        for state, (a, b) in enumerate(self.inputs, start=1):
            if not -1 <= a < b < state:
                raise SpaceError(
                    f"inputs ({a}, {b}) of S{state}: two distinct numbers from -1 to {state - 1}, ascending"
                )

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> "Cell":
        """The cell that a configuration of the space describes; other names in it are ignored."""
        pairs = [parse_pair(str(configuration[f"in{state}"])) for state in range(2, STATES + 1)]
        operations = [str(configuration[f"op{i}"]) for i in range(1, 2 * STATES + 1)]
        return cls(
            inputs=((-1, 0), *pairs),
            operations=tuple(zip(operations[::2], operations[1::2], strict=True)),
            output=int(configuration["output"]),
        )

    def live_states(self) -> tuple[int, ...]:
        """States that reach an output, ascending. The others change nothing: they are neither built nor counted."""
        live = {self.output, STATES}
        for state in range(STATES, 0, -1):
            if state in live:
                live |= {source for source in self.inputs[state - 1] if source >= 1}
        return tuple(sorted(live))


def largest_cell() -> Cell:
    """The cell with the most FLOPs: the chain in which every state is live and every operation is a 5x5 convolution."""
    return Cell(inputs=((-1, 0), (0, 1), (1, 2), (2, 3)), operations=(("conv5x5", "conv5x5"),) * STATES, output=3)


def sgd_variables() -> list[Variable]:
    """Learning rate, momentum, weight decay, and a learning rate that is reduced twice."""
    return [
        Real("learning_rate", 1e-3, 1e-1, log=True),
        Real("momentum", 0.8, 1.0),
        Real("weight_decay", 1e-6, 1e-2, log=True),
        Real("lr_reduction", 0.1, 0.9),
        Real("reduction_point_1", 0.0, 1.0),
        Real("reduction_point_2", 0.0, 1.0),
    ]


SGD_NAMES = tuple(variable.name for variable in sgd_variables())


@dataclass(frozen=True)
class Schedule:
    """A decoded SGD schedule; the fields are the variables of `sgd_variables`."""

    learning_rate: float
    momentum: float
    weight_decay: float
    lr_reduction: float
    reduction_point_1: float
    reduction_point_2: float

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> "Schedule":
        """The schedule that a configuration describes; other names in it are ignored."""
        return cls(**{name: float(configuration[name]) for name in SGD_NAMES})

    def milestones(self, epochs: int) -> tuple[int, int]:
        """The epochs (from 0) at which the learning rate is reduced: int(E r1) and int(E (r1 + (1 - r1) r2))."""
        first = self.reduction_point_1
        return int(epochs * first), int(epochs * (first + (1 - first) * self.reduction_point_2))

    def learning_rate_at(self, epoch: int, epochs: int) -> float:
        """The learning rate in epoch 0..epochs-1 of a training of `epochs` epochs."""
        reductions = sum(epoch >= milestone for milestone in self.milestones(epochs))
        return self.learning_rate * self.lr_reduction**reductions


def joint_space() -> Space:
    """Six SGD hyperparameters, then op1..op8, in2..in4, output."""
    return Space([*sgd_variables(), *cell_variables()])
