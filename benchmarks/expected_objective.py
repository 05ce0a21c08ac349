"""What simulated runs found without the noise: what the surrogate expects of the configurations that they chose.

    python benchmarks/expected_objective.py runs/A ... [--against bo-fm] [--kernel]     # all optimizers in one table
    python benchmarks/expected_objective.py runs/A runs/B [--kernel]                    # each optimizer in A and in B

The lowest of many noisy objectives is too low, and lower the more were seen. Here the configuration with the lowest
objective at full fidelity of each run counts by its expected objective, which a real experiment can only approach, by
`fmnas retrain`. Paired by repeat: run directories need the same seed. Two with a common optimizer are compared; more
must have none in common. --kernel: the runs are of second_surrogate.py, not of `joint_recorded`.
"""

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
from command import run_command

from fmnas.api import load_run
from fmnas.comparison.analysis.curves import mean_and_error
from fmnas.comparison.analysis.paired_tests import PairedTest, compare
from fmnas.comparison.analysis.trials import configuration_of
from fmnas.search_spaces import Cell, Trial, joint_space
from fmnas.trainers.split import GUESSING_ERROR
from fmnas.trainers.surrogate.model import Surrogate, read_surrogate
from fmnas.trainers.surrogate.problem import FILE

Values = dict[str, dict[int, float]]
"""Optimizer -> repeat -> an objective."""


def expected_objective(surrogate: Surrogate, trial: Trial) -> float:
    """Return the mean over seeds of a trial's objective."""
    prediction, costs = surrogate.predict(trial), surrogate.features.flops
    mean = np.exp(prediction.log_error + prediction.deviation**2 / 2)
    error = prediction.guessing * GUESSING_ERROR + (1 - prediction.guessing) * mean
    ratio = costs.count(Cell.from_configuration(trial.configuration)) / costs.largest
    return float(error + surrogate.facts.flops_weight * ratio)


def expected_of_incumbents(folder: Path, surrogate: Surrogate) -> Values:
    """Return what is expected of the configuration with the lowest objective of each run."""
    trials = load_run(folder).trials
    full = trials[trials["epochs"] == surrogate.facts.epochs]
    values: Values = {}
    for (optimizer, repeat), run in full.groupby(["optimizer", "repeat"], sort=False):
        lowest = run.loc[run["objective"].idxmin()]
        trial = Trial(0, configuration_of(lowest, joint_space().names), surrogate.facts.epochs, "model")
        values.setdefault(str(optimizer), {})[int(repeat)] = expected_objective(surrogate, trial)
    return values


def lines_of_table(values: Sequence[Values], reference: str) -> Iterator[str]:
    """Yield one table of several run directories, or the comparison of two that have an optimizer in common."""
    names = [name for of_folder in values for name in of_folder]
    if len(names) == len(set(names)):
        return lines_of_optimizers({name: one for of_folder in values for name, one in of_folder.items()}, reference)
    if len(values) == 2:
        return lines_of_two(*values)
    sys.exit(f"more than one of the run directories has {max(names, key=names.count)}: only two can be compared")


def lines_of_optimizers(values: Values, reference: str) -> Iterator[str]:
    """Yield a table of the optimizers, and of the reference's difference to each."""
    pairs = {pair.second: pair for pair in compare(values, reference).pairs}
    yield f"| optimizer | expected objective of the incumbent | {reference} - it | lower, equal, higher | p (Holm) |"
    yield "|---|---|---|---|---|"
    for name, mine in sorted(values.items(), key=lambda one: mean_and_error(one[1])[0]):
        compared = _cells(values[reference], mine, pairs[name]) if name in pairs else "– | – | –"
        yield f"| {name} | {_mean(mine)} | {compared} |"


def lines_of_two(first: Values, second: Values) -> Iterator[str]:
    """Yield a table with what each optimizer finds in two run directories, and the difference."""
    yield "| optimizer | in the first | in the second | second - first | lower, equal, higher | p |"
    yield "|---|---|---|---|---|---|"
    for name, mine in first.items():
        pair = compare({"second": second[name], "first": mine}, "second").pairs[0]
        yield f"| {name} | {_mean(mine)} | {_mean(second[name])} | {_cells(second[name], mine, pair)} |"


def _mean(values: Mapping[int, float]) -> str:
    mean, error = mean_and_error(values)
    return f"{mean:.4f} ± {error:.4f}"


def _cells(one: Mapping[int, float], other: Mapping[int, float], pair: PairedTest) -> str:
    """The difference with its 95% interval, in how many repeats it is below, at and above 0, and p."""
    differences = np.array([one[repeat] - other[repeat] for repeat in one])
    counts = ", ".join(str(int(count)) for count in ((differences < 0).sum(), (differences == 0).sum()))
    interval = f"{pair.difference:+.4f} ({pair.low:+.4f} to {pair.high:+.4f})"
    return f"{interval} | {counts}, {int((differences > 0).sum())} | {pair.p_corrected:.3f}"


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folders", type=Path, nargs="+", metavar="DIR")
    parser.add_argument("--against", default="bo-fm")
    parser.add_argument("--kernel", action="store_true")
    arguments = parser.parse_args()
    if arguments.kernel:
        from second_surrogate import fit_surrogate

        surrogate = fit_surrogate()
    else:
        surrogate = read_surrogate(FILE)
    values = [expected_of_incumbents(folder, surrogate) for folder in arguments.folders]
    print("\n".join(lines_of_table(values, arguments.against)))


if __name__ == "__main__":
    run_command(main)
