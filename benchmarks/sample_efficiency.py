"""What BO-FM has found after 100 evaluations of problems that cost nothing, or next to nothing.

    python benchmarks/sample_efficiency.py [--quick] [--json FILE] [--methods modlap ...] [--problems ...] [--seeds N]
        [--first-seed K | --fresh | --seeds-from FILE] [--noise SD] [--evaluations N]
    python benchmarks/sample_efficiency.py --table FILE

On Func2C, Func3C and Ackley5C each seed starts from ten points by the recipe of the paper's authors (seeds 0 to 4 are
theirs), on the others from ten random ones, on Ackley53C from twenty. There are 100 evaluations in all, unless
--evaluations gives another number. --noise adds a normal error to each objective that an optimizer receives; the value
that counts is the one without it, of the trial that looked best.

Methods: BO-FM's kernels in the default mode; `paper`, ModLap in the paper's mode (a CPU-minute a run);
regularized-evolution; random.

Runs are made one after the other, and FILE is written after each. The same FILE given again is continued, with its
seeds (--resume does that, too, and refuses a file that does not exist); so rows can be added to it. --table prints it
as Markdown. BO-FM's constants were chosen while looking at seeds 0 to 59; --fresh takes others.
"""

import argparse
import os
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import get_args

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import seeds as seeds_of
import torch
from results import Results, Row, commit_here, line, markdown

from fmnas.baselines import RandomSearch, RegularizedEvolution
from fmnas.optimizers import BOFM, Optimizer, random_design
from fmnas.optimizers.gp.frequency_modulation import KernelName
from fmnas.platform.problems import problem as registered
from fmnas.search_spaces import Configuration, Space
from fmnas.trainers.contract import Trainer
from fmnas.trainers.problem import Problem, authors_points

METHODS = (*get_args(KernelName), "random")
OPTIONAL = ("paper", "regularized-evolution")
DESIGNED_ON = ("func2c", "func3c", "ackley5c")
OTHERS = {
    "pressure_vessel": 10,
    "speed_reducer": 10,
    "environmental_model": 10,
    "nusvr_diabetes": 10,
    "dt_wine": 10,
    "ackley53c": 20,
    **{f"mixed_{function}": 10 for function in ("levy", "styblinski_tang", "rosenbrock", "rastrigin")},
}
"""Problems that took no part in choosing the default mode's constants, and the size of their random initial design."""
MIXED = Path(__file__).with_name("mixed_functions.py")

EVALUATIONS = 100


def problem_of(name: str) -> Problem:
    """A problem of the platform, or one of mixed_functions.py."""
    return registered(f"{MIXED}:{name.removeprefix('mixed_')}" if name.startswith("mixed_") else name)


def design_of(problem: str, space: Space, seed: int) -> list[Configuration]:
    """What every method begins with."""
    return random_design(space, OTHERS[problem], seed) if problem in OTHERS else authors_points(space, seed)


def build_optimizer(problem: str, space: Space, method: str, seed: int) -> Optimizer:
    """The method on the problem, from the initial points of that seed."""
    design = design_of(problem, space, seed)
    if method == "random":
        return RandomSearch(space, seed=seed, initial_design=design)
    if method == "regularized-evolution":
        return RegularizedEvolution(space, seed=seed, initial_design=design)
    if method == "paper":
        return BOFM(space, seed=seed, initial_design=design, mode="paper")
    return BOFM(space, kernel=method, seed=seed, initial_design=design)


def run(trainer: Trainer, optimizer: Optimizer, seed: int, evaluations: int, noise: float) -> tuple[float, float]:
    """(the value of the trial that looked best, CPU-seconds per suggestion)."""
    errors = np.random.default_rng([seed, 1]).normal(0.0, noise, evaluations)
    best, lowest, seconds = np.inf, np.inf, 0.0
    for i in range(evaluations):
        start = time.process_time()
        trial = optimizer.ask()
        seconds += time.process_time() - start
        assert trial is not None
        evaluation = trainer.evaluate(replace(trial, seed=seed * 1000 + i))
        observed = evaluation.objective + errors[i]
        optimizer.tell(trial, replace(evaluation, objective=observed))
        if observed < lowest:
            best, lowest = evaluation.objective, observed
    return best, seconds / max(evaluations - len(optimizer.initial_design), 1)


def add_rows(results: Results, wanted: list[Row], path: Path | None) -> None:
    """Run what is missing, one row after the other; keep each run and print each row."""
    for row in map(results.row, wanted):
        task = problem_of(row.problem)
        for seed in results.seeds.values[len(row.values) :]:
            optimizer = build_optimizer(row.problem, task.space, row.method, seed)
            row.add(seed, *run(task.trainer, optimizer, seed, row.evaluations, row.noise))
            if path:
                results.write(path)
        print(line(row), flush=True)


def parse_arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one seed, 40 evaluations, ModLap and random search")
    parser.add_argument("--methods", nargs="+", default=METHODS, choices=METHODS + OPTIONAL)
    parser.add_argument("--problems", nargs="+", default=DESIGNED_ON, choices=[*DESIGNED_ON, *OTHERS])
    parser.add_argument("--noise", type=float, default=0.0, metavar="SD", help="of each objective that is observed")
    parser.add_argument("--evaluations", type=int, metavar="N", help=f"of each run; {EVALUATIONS} by default")
    files = parser.add_mutually_exclusive_group()
    files.add_argument("--json", type=Path, metavar="FILE", help="where results go; an existing one is continued")
    files.add_argument("--resume", type=Path, metavar="FILE", help="the same, of a FILE that must exist")
    files.add_argument("--table", type=Path, metavar="FILE", help="print these results as Markdown, and run nothing")
    seeds_of.add_arguments(parser, 20)
    return parser.parse_args()


def results_for(arguments: argparse.Namespace, path: Path | None) -> Results:
    """What the file has, with its seeds, or nothing yet, with those that were asked for."""
    if arguments.resume and not arguments.resume.exists():
        raise SystemExit(f"{arguments.resume}: no such file; use --json to start one")
    if path and path.exists():
        if arguments.seeds_from or arguments.first_seed:
            raise SystemExit(f"{path}: it has its own seeds; name another file for others")
        return Results.load(path, arguments.seeds)
    if arguments.quick and not arguments.seeds:
        arguments.seeds = 1
    return Results(seeds_of.choose_seeds(arguments))


def main() -> None:
    """Run and print a table."""
    arguments = parse_arguments()
    if arguments.table:
        sys.stdout.write(markdown(Results.load(arguments.table)))
        return
    torch.set_num_threads(1)
    path = arguments.json or arguments.resume
    results = results_for(arguments, path)
    commit_here()  # before anything is measured: what is imported is what runs
    print(results.seeds)
    methods = ["modlap", "random"] if arguments.quick else arguments.methods
    evaluations = arguments.evaluations or (40 if arguments.quick else EVALUATIONS)
    wanted = [
        Row(problem, method, evaluations, arguments.noise) for problem in arguments.problems for method in methods
    ]
    add_rows(results, wanted, path)


if __name__ == "__main__":
    main()
