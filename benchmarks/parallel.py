"""BO-FM with several workers: what 100 evaluations find, and how often pending trials crowd together.

    python benchmarks/parallel.py [--quick] [--json FILE] [--workers 1 4 8] [--problems func2c ...] [--seeds N]
        [--first-seed K | --fresh | --seeds-from FILE]
    python benchmarks/parallel.py --table FILE [FILE ...]

W workers are simulated: W trials are pending before the first result, and each result, the oldest trial's, is followed
by the next suggestion. Each seed starts from ten points by the recipe of the paper's authors. `crowded` is the share of
pairs of trials pending together, chosen by the model, that agree in every discrete variable and lie within 0.01 of each
other in every continuous one (unit cube); once a run has come to the optimum, nothing is counted. FILE is written after
each run; given again, it is continued.
"""

import argparse
import json
import os
from dataclasses import asdict, dataclass, replace
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import seeds as seeds_of
import torch
from results import AT_OPTIMUM, NAMES, commit_here

from fmnas.optimizers import BOFM
from fmnas.platform.problems import problem
from fmnas.search_spaces import Space, Trial
from fmnas.search_spaces.records import MODEL
from fmnas.trainers.problem import authors_points

NEAR = 0.01
"""In every continuous variable, in unit-cube lengths."""


@dataclass(frozen=True)
class Run:
    """One run: its best objective, and how many pairs of pending trials there were and how many of them crowded."""

    problem: str
    workers: int
    seed: int
    best: float
    pairs: int
    crowded: int


def count_crowded(space: Space, trial: Trial, pending: list[Trial]) -> tuple[int, int]:
    """(pairs, crowded pairs) of a new trial with the pending ones; initial points do not count."""
    pending_points = [space.encode(other.configuration) for other in pending if other.origin == MODEL]
    if trial.origin != MODEL or not pending_points:
        return 0, 0
    D, distance = len(space.continuous), np.abs(np.array(pending_points) - space.encode(trial.configuration))
    crowded = (distance[:, D:] == 0).all(axis=1) & (distance[:, :D].max(axis=1, initial=0.0) < NEAR)
    return len(pending_points), int(crowded.sum())


def simulate(name: str, workers: int, seed: int, evaluations: int) -> Run:
    """One run of BO-FM with that many trials pending."""
    task = problem(name)
    optimizer = BOFM(task.space, seed=seed, initial_design=authors_points(task.space, seed), evaluations=evaluations)
    pending: list[Trial] = []
    best, asked, pairs, crowded = np.inf, 0, 0, 0
    while asked < evaluations or pending:
        while asked < evaluations and len(pending) < workers:
            trial = optimizer.ask()
            assert trial is not None
            if best >= AT_OPTIMUM[name]:
                together, near = count_crowded(task.space, trial, pending)
                pairs, crowded = pairs + together, crowded + near
            pending.append(replace(trial, seed=seed * 1000 + asked))
            asked += 1
        trial = pending.pop(0)
        evaluation = task.trainer.evaluate(trial)
        best = min(best, evaluation.objective)
        optimizer.tell(trial, evaluation)
    return Run(name, workers, seed, best, pairs, crowded)


def read_runs(path: Path) -> list[Run]:
    """The runs that a file holds; empty if the file does not exist."""
    return [Run(**run) for run in json.loads(path.read_text())["runs"]] if path.exists() else []


def print_table(title: str, runs: list[Run]) -> None:
    """A row for each problem and number of workers."""
    print(f"| {title}, workers | mean ± standard error | median | at the optimum | crowded |\n|---|---|---|---|---|")
    for name, workers in dict.fromkeys((run.problem, run.workers) for run in runs):
        rows = [run for run in runs if (run.problem, run.workers) == (name, workers)]
        best = np.array([run.best for run in rows])
        error = f" ± {best.std(ddof=1) / np.sqrt(len(best)):.4f}" if len(best) > 1 else ""
        pairs = sum(run.pairs for run in rows)
        share = f"{sum(run.crowded for run in rows) / pairs:.3f}" if pairs else "–"
        reached = f"{int((best < AT_OPTIMUM[name]).sum())} of {len(best)}"
        print(f"| {NAMES[name]}, {workers} | {best.mean():.4f}{error} | {np.median(best):.4f} | {reached} | {share} |")


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, 25 evaluations, Func2C, 1 and 4 workers")
    parser.add_argument("--workers", nargs="+", type=int, default=[1, 4, 8])
    parser.add_argument("--problems", nargs="+", default=list(AT_OPTIMUM), choices=list(AT_OPTIMUM))
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--table", nargs="+", type=Path, metavar="FILE", help="print these results, and run nothing")
    seeds_of.add_arguments(parser, 10)
    return parser.parse_args()


def main() -> None:
    """Run what is missing and print a table."""
    arguments = parse_arguments()
    for path in arguments.table or ():
        print_table(path.stem, read_runs(path))
    if arguments.table:
        return
    if arguments.quick:
        arguments.seeds, arguments.workers, arguments.problems = 1, [1, 4], ["func2c"]
    torch.set_num_threads(1)
    path = arguments.json
    seeds = seeds_of.read_seeds(path) if path and path.exists() else seeds_of.choose_seeds(arguments)
    runs, evaluations = read_runs(path) if path else [], 25 if arguments.quick else 100
    done = {(run.problem, run.workers, run.seed) for run in runs}
    for name in arguments.problems:
        for workers in arguments.workers:
            for seed in seeds.values:
                if (name, workers, seed) in done:
                    continue
                runs.append(simulate(name, workers, seed, evaluations))
                if path:
                    content = {"commit": commit_here(), "evaluations": evaluations, "seeds": seeds.to_dict()}
                    path.write_text(json.dumps({**content, "runs": [asdict(run) for run in runs]}, indent=1) + "\n")
    print(seeds)
    print_table(commit_here(), runs)


if __name__ == "__main__":
    main()
