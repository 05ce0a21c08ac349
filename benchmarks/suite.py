"""A suite of problems in two halves: what BO-FM's default is chosen on, and what the choice is then judged on.

    python benchmarks/suite.py run FILE [--half design|validation] [--methods bo-fm tpe ...] [--seeds N]
        [--evaluations N] [--workers W] [--noise SHARE] [--jobs J] [--seeds-from FILE]
    python benchmarks/suite.py table FILE [FILE ...] [--reference METHOD] [--methods METHOD ...]
    python benchmarks/suite.py worth FILE PARALLEL

The halves were fixed by name before the suite was run; the problems that are not of suite_functions.py had been run
before, with earlier defaults of BO-FM. Each run starts from ten random points, the same for all methods. --workers:
trials pending together; the oldest finishes first. --noise: the standard deviation of an error on each observed
objective, as a share of the range of 1,000 random points' inner 80%; what counts is the value without it, of the trial
that looked best. FILE is a CSV with a row per run; given again, it is continued, with its seeds, which are drawn from
the operating system's entropy when it begins.

`table` prints, of the problems and seeds that all methods have: mean ranks over problems with 95% intervals; means over
problems of log10 of the normalised regret, and of the share of runs in which it is at most a tolerance (data profiles);
the sign-flip tests of the reference against each other method, stratified by problem, with Holm's correction; and the
mean CPU-seconds of all `ask` of a run. The regret is 1 at the mean of these runs at the first checkpoint, and 0 at the
minimum or, where that is unknown, at the lowest value of these runs: it depends on which methods are in the table.

`worth` prints in how many runs of PARALLEL, with several workers, the objective after 100 evaluations is lower than,
equal to and higher than that of the same run of FILE, with one, at each checkpoint up to 100.
"""

import argparse
import csv
import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd
import torch

from fmnas.comparison.analysis.across_problems import (
    ProblemResults,
    compare_overall,
    mean_ranks,
    normalised_regret,
)
from fmnas.optimizers import Optimizer, random_design
from fmnas.platform.problems import problem as registered
from fmnas.platform.registry import OPTIMIZERS, OptimizerContext
from fmnas.search_spaces import Configuration, Space, Trial
from fmnas.search_spaces.records import RANDOM
from fmnas.trainers.problem import Problem

FUNCTIONS, CLASSIFIERS = (Path(__file__).with_name(name) for name in ("suite_functions.py", "error_counts.py"))
DESIGN = (
    *("func2c", "func3c", "ackley5c", "levy", "rosenbrock", "rotated", "cliff", "labs30", "ising", "contamination"),
    *("pressure_vessel_constrained", "environmental_model_correct", "nusvr_diabetes", "svc_cancer"),
)
VALIDATION = (
    *("rastrigin", "styblinski_tang", "michalewicz", "griewank", "ackley_bits", "rotated_steep", "gear_train", "qubo"),
    *("maxsat", "pest_control", "speed_reducer_constrained", "dt_wine", "xgb_digits", "mivabo_gaussian_at_most_2"),
    "joint_like",
)
COUNTED_ERRORS = ("knn_wine", "knn_digits", "tree_digits", "tree_cancer", "svc_wine")
EXTRA = ("xgb_table", *COUNTED_ERRORS)
"""In neither half; --problems may name them. The problems of COUNTED_ERRORS are those of error_counts.py."""
HALVES = {"design": DESIGN, "validation": VALIDATION}
OWN = {
    *("levy", "rosenbrock", "rotated", "cliff", "labs30", "ising", "svc_cancer", "rastrigin", "styblinski_tang"),
    *("michalewicz", "griewank", "ackley_bits", "rotated_steep", "gear_train", "qubo", "joint_like"),
}
"""Problems of suite_functions.py; the others are the platform's."""

METHODS: dict[str, tuple[str, dict[str, Any]]] = {
    "bo-fm-paper": ("bo-fm", {"mode": "paper"}),
    "optuna-gp": ("optuna:GPSampler", {}),
}
"""Methods that are not simply an optimizer of the registry: its name and options."""
INITIAL = 10
CHECKPOINTS = (20, 30, 50, 75, 100, 200)
FLOOR = 1e-4
"""Of the normalised regret, in tables."""
TOLERANCES = (0.1, 0.01, 0.001)
"""Of the data profiles."""

Build = Callable[[Space, int, list[Configuration], int], Optimizer]
"""Builds an optimizer for (space, seed, initial design, evaluations)."""


@dataclass(frozen=True)
class Run:
    """One run. values: of the trial that looked best, without noise, at the CHECKPOINTS that it reached."""

    problem: str
    method: str
    seed: int
    workers: int
    noise: float
    evaluations: int
    cpu_seconds: float
    values: tuple[float, ...]

    @property
    def key(self) -> tuple[str, str, int]:
        """What makes it another run of the same file."""
        return self.problem, self.method, self.seed


@cache
def problem_of(name: str) -> Problem:
    """A problem of the suite."""
    file = FUNCTIONS if name in OWN else CLASSIFIERS if name in COUNTED_ERRORS else None
    return registered(f"{file}:{name}" if file else name)


def build_registered(method: str, space: Space, seed: int, design: list[Configuration], evaluations: int) -> Optimizer:
    """An optimizer of the registry, or one of METHODS."""
    name, options = METHODS.get(method, (method, {}))
    entry = OPTIMIZERS[name] if name in OPTIMIZERS else _optuna_entry(name)
    context = OptimizerContext(
        seed=seed, epochs=1, evaluations=evaluations, log_objective=False, initial_design=tuple(design)
    )
    return entry.build(space, context, options)


def _optuna_entry(name: str) -> Any:
    from fmnas.platform.registry import OptimizerEntry

    return OptimizerEntry(name, name, "a sampler of Optuna")


@cache
def noise_unit(name: str) -> float:
    """The range of the inner 80% of 1,000 random points."""
    problem, rng = problem_of(name), np.random.default_rng(0)
    values = [
        problem.trainer.evaluate(Trial(i, problem.space.sample(rng), 1, RANDOM, seed=i)).objective
        for i in range(1000 if problem.function else 100)
    ]
    return float(np.subtract(*np.quantile(values, [0.9, 0.1])))


def run_once(name: str, method: str, seed: int, evaluations: int, workers: int, noise: float, build: Build) -> Run:
    """One run of a method on a problem."""
    problem = problem_of(name)
    optimizer = build(problem.space, seed, random_design(problem.space, INITIAL, seed), evaluations)
    width = noise * noise_unit(name) if noise else 0.0
    errors = np.random.default_rng([seed, 1]).normal(0.0, width, evaluations)
    pending: list[Trial] = []
    values, seconds, asked, best, lowest = [], 0.0, 0, np.inf, np.inf
    for i in range(evaluations):
        while asked < evaluations and len(pending) < workers:
            start = time.process_time()
            trial = optimizer.ask()
            seconds += time.process_time() - start
            assert trial is not None
            pending.append(replace(trial, seed=(seed + asked) % 2**32))
            asked += 1
        trial = pending.pop(0)
        evaluation = problem.trainer.evaluate(trial)
        observed = evaluation.objective + float(errors[i])
        optimizer.tell(trial, replace(evaluation, objective=observed))
        if observed < lowest:
            best, lowest = evaluation.objective, observed
        if i + 1 in CHECKPOINTS:
            values.append(best)
    return Run(name, method, seed, workers, noise, evaluations, round(seconds, 3), tuple(values))


def read_runs(path: Path) -> list[Run]:
    """The runs of a file. Raises SystemExit if it does not exist or has none."""
    if not path.exists() or path.is_dir():
        raise SystemExit(f"{path}: no such file")
    with path.open(newline="") as file:
        rows = csv.DictReader(file)
        if "method" not in (rows.fieldnames or ()):
            raise SystemExit(f"{path}: no column `method`: it must be a file that `suite.py run` wrote")
        return [
            Run(
                *(row["problem"], row["method"], int(row["seed"]), int(row["workers"]), float(row["noise"])),
                *(int(row["evaluations"]), float(row["cpu_seconds"])),
                tuple(float(row[f"at_{at}"]) for at in CHECKPOINTS if row[f"at_{at}"]),
            )
            for row in rows
        ]


def append_run(path: Path, run: Run) -> None:
    """Add a row, and the header to a new file."""
    row = {name: value for name, value in asdict(run).items() if name != "values"}
    reached = dict(zip(CHECKPOINTS, run.values, strict=False))
    row |= {f"at_{at}": repr(reached[at]) if at in reached else "" for at in CHECKPOINTS}
    is_new = not path.exists()
    with path.open("a", newline="") as file:
        writer = csv.DictWriter(file, list(row), lineterminator="\n")
        if is_new:
            writer.writeheader()
        writer.writerow(row)


def seeds_of(runs: Sequence[Run], count: int) -> list[int]:
    """The seeds of a file, and fresh ones up to the count."""
    seeds = list(dict.fromkeys(run.seed for run in runs))
    return [*seeds, *(secrets.randbits(31) for _ in range(count - len(seeds)))][:count]


def run_missing(arguments: argparse.Namespace, methods: Sequence[str], build: Callable[..., Any]) -> None:
    """Run what the file lacks, seed by seed, in `jobs` processes.

    arguments: of `add_run_arguments`. build: of (method, space, seed, design, evaluations).
    """
    path, names = arguments.file, arguments.problems or HALVES[arguments.half]
    done = read_runs(path) if path.exists() else []
    conditions = (arguments.workers, arguments.noise, arguments.evaluations)
    if conflicting := {(run.workers, run.noise, run.evaluations) for run in done} - {conditions}:
        raise SystemExit(
            f"{path} has runs of (workers, noise, evaluations) {conflicting}, not {conditions}: use another file"
        )
    seeds = read_runs(arguments.seeds_from) if arguments.seeds_from else done
    keys = {run.key for run in done}
    wanted = [
        (name, method, seed)
        for seed in seeds_of(seeds, arguments.seeds)
        for name in names
        for method in methods
        if (name, method, seed) not in keys
    ]
    rest = (arguments.evaluations, arguments.workers, arguments.noise)
    with ProcessPoolExecutor(arguments.jobs, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        running = [pool.submit(_run_job, *key, *rest, build) for key in wanted]
        for count, future in enumerate(as_completed(running), 1):
            run = future.result()
            append_run(path, run)
            last = run.values[-1] if run.values else float("nan")
            print(f"{count}/{len(wanted)} {run.problem} {run.method} {last:.6g} {run.cpu_seconds:.1f} s", flush=True)


def _run_job(name: str, method: str, seed: int, evaluations: int, workers: int, noise: float, build: Any) -> Run:
    def with_method(space: Space, seed: int, design: list[Configuration], evaluations: int) -> Optimizer:
        return build(method, space, seed, design, evaluations)

    return run_once(name, method, seed, evaluations, workers, noise, with_method)


def name_conditions(runs: Sequence[Run]) -> list[Run]:
    """Add workers and noise to the methods' names where runs of several are compared: "tpe, 16 workers"."""
    several_workers, several_noises = (len({getattr(run, name) for run in runs}) > 1 for name in ("workers", "noise"))
    named = []
    for run in runs:
        workers = f", {run.workers} worker{'s' * (run.workers > 1)}" if several_workers else ""
        noise = f", noise {run.noise:g}" if several_noises else ""
        named.append(replace(run, method=run.method + workers + noise))
    return named


def compared_runs(runs: Sequence[Run]) -> list[Run]:
    """The runs of the problems and seeds that all methods have. Raises SystemExit if a run is there twice."""
    methods, keys = {run.method for run in runs}, [run.key for run in runs]
    if twice := [key for key in dict.fromkeys(keys) if keys.count(key) > 1]:
        raise SystemExit(
            f"{len(twice)} runs are in several files, e.g. {twice[0]}: leave a file or, by --methods, one out"
        )
    known = set(keys)
    return [run for run in runs if all((run.problem, method, run.seed) in known for method in methods)]


def problems_in(runs: Sequence[Run]) -> list[ProblemResults]:
    """The results of each problem, of the `compared_runs`, at the checkpoints that all reached.

    Raises SystemExit if nothing can be compared.
    """
    methods = sorted({run.method for run in runs})
    compared = compared_runs(runs)
    if not compared:
        raise SystemExit(f"no problem and seed has a run of each of {', '.join(methods)}: --methods takes some of them")
    by_key = {run.key: run for run in compared}
    reached = min(len(run.values) for run in runs)
    results = []
    for name in dict.fromkeys(run.problem for run in compared):
        seeds = dict.fromkeys(run.seed for run in compared if run.problem == name)
        values = [[by_key[name, method, seed].values[:reached] for seed in seeds] for method in methods]
        minimum = problem_of(name).minimum
        results.append(ProblemResults(name, tuple(methods), np.array(values), np.nan if minimum is None else minimum))
    return results


def lines_of_table(results: Sequence[ProblemResults], reference: str) -> Iterator[str]:
    """Markdown: ranks, regret, data profiles, and tests by checkpoint."""
    methods, reached = results[0].optimizers, results[0].incumbents.shape[2]
    at = CHECKPOINTS[:reached]
    cells = sum(problem.incumbents.shape[1] for problem in results)
    yield f"{len(results)} problems, {cells} pairs of a problem and a seed\n"
    yield f"| mean rank of {len(methods)} | " + " | ".join(map(str, at)) + " |"
    yield "|---" * (reached + 1) + "|"
    ranks = mean_ranks(results)
    for method in sorted(methods, key=lambda m: _rank(ranks, m, reached)["mean"]):
        rows = [_rank(ranks, method, e + 1) for e in range(reached)]
        yield f"| {method} | " + " | ".join(f"{r['mean']:.2f} ({r['low']:.2f} to {r['high']:.2f})" for r in rows) + " |"
    regrets = [normalised_regret(problem) for problem in results]  # [K, R, E] each
    of_runs = {"log10 of normalised regret": [np.log10(regret.clip(min=FLOOR)) for regret in regrets]}
    for tolerance in TOLERANCES:
        of_runs[f"share of runs with a regret up to {tolerance}"] = [regret <= tolerance for regret in regrets]
    for title, values in of_runs.items():
        yield f"\n| {title} | " + " | ".join(map(str, at)) + " |"
        yield "|---" * (reached + 1) + "|"
        means = np.mean([of_problem.mean(axis=1) for of_problem in values], axis=0)  # [K, E]
        for method, of_method in zip(methods, means, strict=True):
            yield f"| {method} | " + " | ".join(f"{value:.2f}" for value in of_method) + " |"
    yield f"\n| {reference} against | evaluations | lower, equal, higher | effect | p | Holm |"
    yield "|---" * 6 + "|"
    for e in range(reached):
        until = [replace(problem, incumbents=problem.incumbents[:, :, : e + 1]) for problem in results]
        for test in compare_overall(until, reference):
            counts = ", ".join(map(str, test.cells))
            yield f"| {test.other} | {at[e]} | {counts} | {test.effect:+.2f} | {test.p:.3f} | {test.p_corrected:.3f} |"


def _rank(ranks: pd.DataFrame, method: str, evaluations: int) -> "pd.Series[Any]":
    return ranks[(ranks["optimizer"] == method) & (ranks["evaluations"] == evaluations)].iloc[0]


def lines_of_seconds(runs: Sequence[Run]) -> Iterator[str]:
    """Markdown: the mean CPU-seconds of all `ask` of a compared run, by method."""
    compared = pd.DataFrame([(run.method, run.cpu_seconds) for run in compared_runs(runs)])
    seconds = compared.groupby(0)[1].mean().sort_values()
    yield "\n| | CPU-seconds of a run |\n|---|---|"
    yield from (f"| {method} | {mean:.2f} |" for method, mean in seconds.items())


def lines_of_worth(sequential: Sequence[Run], parallel: Sequence[Run]) -> Iterator[str]:
    """A line per method: at 100 evaluations of the parallel runs against each checkpoint of the sequential ones.

    Methods without common runs are left out. Raises SystemExit if all are.
    """
    last, by_key = CHECKPOINTS.index(100), {run.key: run for run in sequential}
    known = [run for run in parallel if run.key in by_key]
    if not known:
        raise SystemExit("the two files have no problem, method and seed in common")
    for method in dict.fromkeys(run.method for run in known):
        pairs = [(run, by_key[run.key]) for run in known if run.method == method]
        for at, checkpoint in enumerate(CHECKPOINTS[: last + 1]):
            signs = [float(np.sign(run.values[last] - other.values[at])) for run, other in pairs]
            counts = ", ".join(str(signs.count(sign)) for sign in (-1.0, 0.0, 1.0))
            many = f"{method}, {pairs[0][0].workers} workers"
            yield f"{many}, than at {checkpoint} with one: lower, equal, higher {counts}"


def add_run_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of a set of runs."""
    parser.add_argument("file", type=Path)
    parser.add_argument("--half", choices=HALVES, default="design")
    parser.add_argument("--problems", nargs="+", choices=(*DESIGN, *VALIDATION, *EXTRA), help="in place of a half")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--seeds-from", type=Path, help="a file of runs whose seeds are taken")
    parser.add_argument("--evaluations", type=int, default=100, choices=CHECKPOINTS)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--jobs", type=int, default=1)


def main() -> None:
    """Run what is missing, or print tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run")
    add_run_arguments(run)
    run.add_argument("--methods", nargs="+", default=["bo-fm", "random"])
    table = commands.add_parser("table")
    table.add_argument("files", type=Path, nargs="+")
    table.add_argument("--methods", nargs="+", help="all if left out")
    table.add_argument("--reference", help="the method that is tested; bo-fm, or bofm_parts.py's default, if left out")
    worth = commands.add_parser("worth")
    worth.add_argument("sequential", type=Path)
    worth.add_argument("parallel", type=Path)
    arguments = parser.parse_args()
    if arguments.command == "worth":
        print("\n".join(lines_of_worth(read_runs(arguments.sequential), read_runs(arguments.parallel))))
        return
    if arguments.command == "table":
        methods = arguments.methods
        runs = [run for path in arguments.files for run in read_runs(path) if not methods or run.method in methods]
        if not runs:
            raise SystemExit(
                f"no run of {' or '.join(methods or ['any method'])} in {', '.join(map(str, arguments.files))}"
            )
        runs = name_conditions(runs)
        results = problems_in(runs)
        reference = arguments.reference or ("bo-fm" if "bo-fm" in results[0].optimizers else "default")
        if reference not in results[0].optimizers:
            raise SystemExit(f"--reference {reference}: the files have {'; '.join(results[0].optimizers)}")
        print("\n".join([*lines_of_table(results, reference), *lines_of_seconds(runs)]))
        return
    run_missing(arguments, arguments.methods, build_registered)


if __name__ == "__main__":
    main()
