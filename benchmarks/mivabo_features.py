"""MiVaBO with the Fourier features of its paper's functions, on those four functions (linear_features.py).

    fmnas run paper/mivabo_gaussian -o seed=N --out DIR -o 'optimizers=[mivabo,
        {name: mivabo-own-features, use: "benchmarks/mivabo_features.py:OwnFeatures"}]'
    python benchmarks/mivabo_features.py take DIR [DIR ...]     # -> benchmarks/results/mivabo_features.csv
    python benchmarks/mivabo_features.py                        # the table of that file

The functions are drawn from MiVaBO's model, with features of their own. An optimizer that knows them has a correct
model, as the paper's analysis assumes; `mivabo` draws others, and its model cannot represent the function exactly.
"""

import argparse
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from command import run_command

from fmnas.api import load_run
from fmnas.baselines.linear_model import Features
from fmnas.baselines.mivabo import MiVaBO
from fmnas.search_spaces import Space
from fmnas.trainers.functions.linear_features import OMEGA, SHIFT

RESULTS = Path(__file__).parent / "results" / "mivabo_features.csv"
AT = (100, 200)


class OwnFeatures(MiVaBO):
    """MiVaBO that knows the features of the function. The parameters are those of `MiVaBO`."""

    def __init__(self, space: Space, **others: Any) -> None:
        super().__init__(space, **others)
        self._features = Features(self._features.bits, torch.from_numpy(OMEGA), torch.from_numpy(SHIFT))


def read_bests(folder: Path) -> pd.DataFrame:
    """Return the best objectives of a run directory: problem, optimizer, repeat, and a column for each of AT."""
    run = load_run(folder)
    trials = run.trials.sort_values("trial")
    columns = {str(at): trials[trials["trial"] < at].groupby(["optimizer", "repeat"])["objective"].min() for at in AT}
    return pd.DataFrame(columns).reset_index().assign(problem=run.summary.problem)


def format_table(bests: pd.DataFrame) -> str:
    """Return a Markdown table: a row for each optimizer, mean and standard error on each problem after each of AT."""
    problems = list(dict.fromkeys(bests["problem"]))
    lines = [f"| optimizer | {' | '.join(f'{name} at {at}' for name in problems for at in AT)} |"]
    lines.append("|---" * (1 + len(AT) * len(problems)) + "|")
    for name in dict.fromkeys(bests["optimizer"]):
        cells = [
            f"{values.mean():.2f} ± {values.sem():.2f}"
            for problem in problems
            for at in AT
            for values in [bests[(bests["optimizer"] == name) & (bests["problem"] == problem)][str(at)]]
        ]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    """Take, or print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["take"])
    parser.add_argument("directories", nargs="*", type=Path, metavar="DIR")
    arguments = parser.parse_args()
    if arguments.what:
        pd.concat(map(read_bests, arguments.directories)).to_csv(RESULTS, index=False)
    print(format_table(pd.read_csv(RESULTS)))


if __name__ == "__main__":
    run_command(main)
