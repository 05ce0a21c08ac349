"""The joint problem's space (BO-FM paper, Sec. 5.3 and Supp. D.2): the NASNet-derived cell and the SGD schedule.

A cell has two inputs, S(-1) and S(0), and four states S1..S4. Each state is the sum of two operations, each applied to
one of two distinct earlier states or inputs. The cell's outputs are S4 and one of S1, S2, S3. There are 8,153,726,976
cells.

| variable | meaning | graph |
|---|---|---|
| op1..op8 | operations; op(2k-1) and op(2k) belong to state Sk | complete |
| in2, in3, in4 | the two inputs of S2, S3, S4, e.g. "-1,0" | one input is shared, the others differ by 1 |
| output | the output in addition to S4 | path |

The first operation of a state works on the lower-numbered input. S1's inputs are always (-1, 0). The schedule adds six
continuous hyperparameters; there are 18 variables.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from fmnas.search_spaces.errors import SpaceError
from fmnas.search_spaces.space import Space
from fmnas.search_spaces.variables import Graph, Nominal, Ordinal, Real, Variable

OPERATIONS = ("identity", "conv1x1", "conv3x3", "conv5x5", "sepconv3x3", "sepconv5x5", "maxpool3x3", "maxpool5x5")
STATES = 4

Pair = tuple[int, int]
Summand = tuple[int, str]
"""An input (-1, 0 or a state's number) and the operation applied to it."""


def input_pairs(state: int) -> tuple[Pair, ...]:
    """Return the possible input pairs of state S2, S3 or S4, in the order of its vertices."""
    pairs = tuple(combinations(range(-1, state), 2))
    return pairs[1:] if state == STATES else pairs  # S4 excludes (-1, 0)


def is_adjacent(a: Pair, b: Pair) -> bool:
    """Return whether two pairs share one input and their other inputs differ by exactly 1."""
    return len(set(a) ^ set(b)) == 2 and abs(sum(a) - sum(b)) == 1


def pair_name(pair: Pair) -> str:
    """Return a pair as a variable's value: "-1,0" for (-1, 0)."""
    return f"{pair[0]},{pair[1]}"


def parse_pair(name: str) -> Pair:
    """Invert `pair_name`."""
    first, second = name.split(",")
    return int(first), int(second)


def cell_variables() -> list[Variable]:
    """Return the 12 variables op1..op8, in2..in4 and output."""
    variables: list[Variable] = [Nominal(f"op{i}", OPERATIONS) for i in range(1, 2 * STATES + 1)]
    for state in range(2, STATES + 1):
        pairs = input_pairs(state)
        edges = [(pair_name(a), pair_name(b)) for a, b in combinations(pairs, 2) if is_adjacent(a, b)]
        variables.append(Graph(f"in{state}", tuple(pair_name(p) for p in pairs), tuple(edges)))
    variables.append(Ordinal("output", (1, 2, 3)))
    return variables


CELL_NAMES = tuple(variable.name for variable in cell_variables())


@dataclass(frozen=True)
class Cell:
    """A decoded cell.

    inputs: the pair of inputs of S1..S4.
    operations: the operations of S1..S4 on their two inputs.
    output: the state that is the first output; S4 is the second.
    """

    inputs: tuple[Pair, ...]
    operations: tuple[tuple[str, str], ...]
    output: int

    def __post_init__(self) -> None:
        is_wired = all(-1 <= a < b < state for state, (a, b) in enumerate(self.inputs, start=1))
        unknown = {op for pair in self.operations for op in pair} - set(OPERATIONS)
        sizes = len(self.inputs), len(self.operations)
        if not is_wired or sizes != (STATES, STATES) or unknown or self.output not in (1, 2, 3):
            raise SpaceError(
                f"{self}: a cell has {STATES} states, each with two earlier inputs in ascending order, operations of "
                f"{OPERATIONS}, and the output 1, 2 or 3"
            )

    @classmethod
    def from_configuration(cls, configuration: Mapping[str, Any]) -> "Cell":
        """Decode the cell of a configuration; other variables are ignored."""
        pairs = [parse_pair(str(configuration[f"in{state}"])) for state in range(2, STATES + 1)]
        operations = [str(configuration[f"op{i}"]) for i in range(1, 2 * STATES + 1)]
        return cls(
            inputs=((-1, 0), *pairs),
            operations=tuple(zip(operations[::2], operations[1::2], strict=True)),
            output=int(configuration["output"]),
        )

    def live_states(self) -> tuple[int, ...]:
        """Return the states that reach an output, in ascending order. The others are neither built nor counted."""
        live = {self.output, STATES}
        for state in range(STATES, 0, -1):
            if state in live:
                live |= {source for source in self.inputs[state - 1] if source >= 1}
        return tuple(sorted(live))

    @property
    def states(self) -> dict[int, tuple[Summand, Summand]]:
        """The live states: number -> its two (input, operation)."""
        pairs = {k: zip(self.inputs[k - 1], self.operations[k - 1], strict=True) for k in self.live_states()}
        return {number: (first, second) for number, (first, second) in pairs.items()}


def largest_cell() -> Cell:
    """Return the cell with the most FLOPs: a chain of live states whose operations are all 5x5 convolutions."""
    return Cell(inputs=((-1, 0), (0, 1), (1, 2), (2, 3)), operations=(("conv5x5", "conv5x5"),) * STATES, output=3)


def sgd_variables() -> list[Variable]:
    """Return the variables of SGD with momentum, weight decay, and a learning rate that is reduced twice."""
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
        """Decode the schedule of a configuration; other variables are ignored."""
        return cls(**{name: float(configuration[name]) for name in SGD_NAMES})

    def milestones(self, epochs: int) -> tuple[int, int]:
        """Return the epochs (from 0) at which the learning rate is reduced: int(E r1), int(E (r1 + (1 - r1) r2))."""
        first = self.reduction_point_1
        return int(epochs * first), int(epochs * (first + (1 - first) * self.reduction_point_2))

    def learning_rate_at(self, epoch: int, epochs: int) -> float:
        """Return the learning rate in an epoch, from 0 to epochs - 1."""
        reductions = sum(epoch >= milestone for milestone in self.milestones(epochs))
        return self.learning_rate * self.lr_reduction**reductions


def joint_space() -> Space:
    """Return the space of the six SGD hyperparameters, op1..op8, in2..in4 and output."""
    return Space([*sgd_variables(), *cell_variables()])
