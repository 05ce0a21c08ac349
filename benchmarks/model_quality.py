"""How well BO-FM's model predicts, part by part: the same data for every arm, and no search (suite.py, design half).

    python benchmarks/model_quality.py run FILE [--arms ARM ...] [--seeds N] [--problems ...]
    python benchmarks/model_quality.py table FILE [--reference ARM]

Data: the first 14, 25 or 50 trials of regularized evolution from ten random points. Candidates: 100 mutants of the best
three of them and 100 random points. Scores of a fit, which do not depend on its warping:

- log loss of the event that a candidate is below a value, for four values: the data's best, 10%, 25% and 50% quantile
- the same for the best alone
- gain: how much the candidate with the largest expected improvement improves on the best, as a share of what the best
  candidate would

An arm is one of bofm_parts.py, by its name. Runs decide; this says where to look, in a small part of the time.
"""

import argparse
import csv
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import suite
import torch
from bofm_parts import Arm, PartsBOFM

from fmnas.baselines import RegularizedEvolution
from fmnas.baselines.mutation import mutate_feasibly, mutation_for
from fmnas.optimizers import random_design
from fmnas.optimizers.gp.acquisition import LogEI
from fmnas.optimizers.gp.points import Points
from fmnas.search_spaces import Evaluation, Trial
from fmnas.search_spaces.records import RANDOM

SIZES = (14, 25, 50)
QUANTILES = (0.0, 0.1, 0.25, 0.5)
SMALLEST = 1e-6
COLUMNS = ("problem", "seed", "n", "arm", "log_loss", "log_loss_best", "gain")
Row = tuple[str, int, int, str, float, float, float]
History = list[tuple[Trial, Evaluation]]


def collect(name: str, seed: int, n: int) -> tuple[History, Points, np.ndarray]:
    """Return (history, candidates, their objectives)."""
    problem = suite.problem_of(name)
    space, trainer = problem.space, problem.trainer
    design = random_design(space, suite.INITIAL, seed)
    source = RegularizedEvolution(space, seed=seed, initial_design=design, population=8, tournament=4)
    history: History = []
    for _ in range(n):
        trial = source.ask()
        assert trial is not None
        evaluation = trainer.evaluate(trial)
        source.tell(trial, evaluation)
        history.append((trial, evaluation))
    rng, mutate = np.random.default_rng([seed, n]), mutation_for(space)
    best = sorted(history, key=lambda result: result[1].objective)[:3]
    mutants = []
    for i in range(100):
        configuration = best[i % 3][0].configuration
        for _ in range(1 + i % 2):
            configuration = mutate_feasibly(space, mutate, Trial(0, configuration, 1, RANDOM), rng).configuration
        mutants.append(configuration)
    tried = [trial.configuration for trial, _ in history]
    pool = [c for c in [*mutants, *(space.sample(rng) for _ in range(100))] if c not in tried]
    values = np.array([trainer.evaluate(Trial(i, c, 1, RANDOM, seed=seed)).objective for i, c in enumerate(pool)])
    return history, Points.from_encoded(space, space.encode_all(pool)), values


def score(arm: Arm, name: str, seed: int, data: tuple[History, Points, np.ndarray]) -> tuple[float, float, float]:
    """Return (log loss, log loss of the best, gain) of an arm's fit."""
    history, pool, values = data
    optimizer = PartsBOFM(suite.problem_of(name).space, arm=arm, seed=seed, initial_design=[])
    for trial, evaluation in history:
        optimizer.restore(trial)
        optimizer.tell(trial, evaluation)
    y, rng = optimizer.objectives(), np.random.default_rng(seed)
    for _ in range(3):  # as in a loop, the warping settles over asks
        posterior = optimizer._fit(y, rng).posterior
    mean, variance = posterior.predict(pool)
    levels = np.quantile(y, QUANTILES)
    z = np.interp(levels, np.sort(y), np.sort(posterior.likelihood.y.numpy()))  # the warping keeps the order
    below = np.stack([values < level for level in levels])  # [Q, m]
    P = torch.special.ndtr((torch.from_numpy(z)[:, None] - mean) / variance.sqrt())
    P = P.clamp(SMALLEST, 1 - SMALLEST).numpy()
    losses = -np.where(below, np.log(P), np.log(1 - P)).mean(1)
    utility = LogEI(float(z[0])).value(mean, variance.sqrt())
    best = float(y.min())
    room = best - values.min()
    gain = max(0.0, best - values[int(utility.argmax())]) / room if room > 0 else np.nan
    return float(losses.mean()), float(losses[0]), float(gain)


def read_rows(path: Path) -> list[Row]:
    """The rows of a file; none if it does not exist."""
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return [
            (r["problem"], int(r["seed"]), int(r["n"]), r["arm"], *(float(r[c]) for c in COLUMNS[4:]))  # type: ignore[misc]
            for r in csv.DictReader(file)
        ]


def run(path: Path, names: list[str], arms: list[str], seeds: int) -> None:
    """Add what the file lacks."""
    done = {row[:4] for row in read_rows(path)}
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        if is_new:
            writer.writerow(COLUMNS)
        for seed in range(seeds):
            for name in names:
                for n in SIZES:
                    missing = [arm for arm in arms if (name, seed, n, arm) not in done]
                    if not missing:
                        continue
                    data = collect(name, seed, n)
                    for arm in missing:
                        writer.writerow((name, seed, n, arm, *score(Arm.from_name(arm), name, seed, data)))
                    file.flush()


def lines_of_table(rows: list[Row], reference: str) -> Iterator[str]:
    """Markdown: means, and wins and losses against the reference. Raises SystemExit for one that is not there."""
    by_arm: dict[str, dict[tuple[str, int, int], tuple[float, float, float]]] = {}
    for name, seed, n, arm, *scores in rows:
        by_arm.setdefault(arm, {})[name, seed, n] = tuple(scores)  # type: ignore[assignment]
    if reference not in by_arm:
        raise SystemExit(f"--reference {reference}: the file has {'; '.join(by_arm) or 'no arms'}")
    base = by_arm[reference]
    yield f"| arm | data sets | {' | '.join(f'{c} | lower:higher' for c in COLUMNS[4:])} |\n" + "|---" * 8 + "|"
    for arm, scores in by_arm.items():
        keys = [key for key in scores if key in base]
        cells = []
        for i in range(3):
            ours, theirs = (np.array([table[key][i] for key in keys]) for table in (scores, base))
            lower, higher = int((ours < theirs - 1e-3).sum()), int((ours > theirs + 1e-3).sum())
            cells.append(f"{np.nanmean(ours):.4f} | {lower}:{higher}")
        yield f"| {arm} | {len(keys)} | {' | '.join(cells)} |"


def main() -> None:
    """Score what is missing, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("command", choices=["run", "table"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--arms", nargs="+", default=["default"])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--problems", nargs="+", choices=suite.DESIGN, default=suite.DESIGN)
    parser.add_argument("--reference", default="default")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    if arguments.command == "run":
        run(arguments.file, arguments.problems, arguments.arms, arguments.seeds)
    elif not arguments.file.is_file():
        raise SystemExit(f"{arguments.file}: no such file")
    print("\n".join(lines_of_table(read_rows(arguments.file), arguments.reference)))


if __name__ == "__main__":
    main()
