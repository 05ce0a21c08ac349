"""Fit the surrogate of the joint problem to recorded trainings, and say how well it predicts.

    fmnas record DIR --out FILE.npz                                     # of each recorded experiment
    python benchmarks/surrogate.py fit FILE.npz [FILE.npz ...] --out trainers/surrogate/joint_recorded.npz
    python benchmarks/surrogate.py validate FILE.npz [FILE.npz ...]

The settings of the last file are those of the problem; seconds are those on its device. A trial is seen at its last
epoch and, if all epochs were validated on as many images, at each epoch.

`validate` predicts every result at full fidelity by models that saw no training of its network and schedule: in ten
parts, for each optimizer by models that saw none of its trials, and for each repeat of the last file likewise.
Kendall's tau is of predicted and recorded objectives; that of the best hundred, of those with the lowest recorded
objectives. The last row says what the noise would leave of a perfect prediction: it takes the predictions for the
truth. Noise: how often the error of one seed is in the interval that the predicted deviation gives, around the mean of
the other seeds. Predicted - recorded is of log errors: +0.01 is 1% too high.
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from command import run_command
from surrogate_accuracy import lines_of_accuracy
from surrogate_data import Observation, measure_overhead, read_observations
from surrogate_models import arrange, measure_flops, place_points

from fmnas.search_spaces import joint_space
from fmnas.trainers.recorded_table import TableHeader, read_table
from fmnas.trainers.surrogate.features import Features
from fmnas.trainers.surrogate.model import Facts, Surrogate, write_surrogate


def describe_facts(headers: Sequence[TableHeader], features: Features, observations: Sequence[Observation]) -> Facts:
    """Return the facts of a surrogate of these tables, whose problem is that of the last."""
    header = headers[-1]
    names = list(features.describe(joint_space().sample(np.random.default_rng(0)), 1, 1))
    description = (
        "Drawn from a surrogate of recorded trainings of the joint problem, with their noise. It says little of longer "
        "trainings on more images: docs/joint.md."
    )
    objective = f"Nothing is trained; what is drawn is this. {header.problem['objective']}"
    costs = features.flops
    return Facts(
        problem={**header.problem, "name": "joint_recorded", "description": description, "objective": objective},
        settings=header.settings,
        sources=[source for one in headers for source in one.sources],
        features=names,
        flops={"constant": costs.constant, "operations": costs.operations, "largest": costs.largest},
        seeds=len(observations[0].errors),
        images=header.settings["data"]["validation"],
        epochs=features.most,
        overhead=measure_overhead(observations, features.most),
        flops_weight=header.settings["objective"]["flops_weight"],
    )


def main() -> None:
    """Fit, or print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=("fit", "validate"))
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    tables = [read_table(path) for path in arguments.files]
    observations = read_observations(tables)
    features = Features(measure_flops(), max(one.length for one in observations))
    recorded = arrange(observations, features)
    print(f"trials = {sum(one.is_last for one in observations)}, trainings = {recorded.groups.max() + 1}")
    facts = describe_facts([table.header for table in tables], features, observations)
    if arguments.command == "validate":
        print("\n".join(lines_of_accuracy(recorded, facts.flops_weight)))
        return
    models = recorded.fit(np.ones(len(observations), dtype=bool))
    surrogate = Surrogate(facts, models, place_points(recorded))
    write_surrogate(arguments.out, surrogate)
    print(f"{arguments.out}: bytes = {arguments.out.stat().st_size:,}")


if __name__ == "__main__":
    run_command(main)
