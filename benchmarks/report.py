"""How long the numbers of a report take: ten runs of ten thousand trials each on the joint space.

    python benchmarks/report.py [--quick] [--json FILE]

CPU-seconds on one thread, for each step in turn: reading trials.csv, the ledger, the curves, the summary
(statistics, sanity checks and all else), the tables as CSV, and the page with its figures, whose size it tells. Random
configurations, five optimizers of two repeats; one is multi-fidelity, some trials fail. `--quick`: a tenth of the
trials.
"""

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
import pandas as pd

from fmnas.comparison import Budget, ReportContext, anytime_curves, ledger_table, read_trials, write_report
from fmnas.comparison.report import write_tables
from fmnas.comparison.summary import summarise
from fmnas.search_spaces import joint_space
from fmnas.search_spaces.records import MUTATION, RANDOM

OPTIMIZERS = ("bo-fm", "bohb", "random", "regularized-evolution", "tpe")
REPEATS, TRIALS, EPOCHS = 2, 10_000, 25
BY_DESIGN = {"random": RANDOM, "regularized-evolution": MUTATION}


def table(trials: int) -> pd.DataFrame:
    """The trials of every run, as a trials.csv has them."""
    runs = [(name, repeat) for name in OPTIMIZERS for repeat in range(REPEATS)]
    return pd.concat([_run(name, repeat, trials, seed) for seed, (name, repeat) in enumerate(runs)])


def _run(optimizer: str, repeat: int, trials: int, seed: int) -> pd.DataFrame:
    rng, space = np.random.default_rng(seed), joint_space()
    status = rng.choice(["finished", "failed", "lost"], trials, p=[0.97, 0.02, 0.01])
    finished = status == "finished"
    errors = np.where(finished, 0.06 + 0.1 * rng.random(trials), np.nan)
    seconds = 50 + 20 * rng.random(trials)
    starts = pd.Timestamp("2026-01-01", tz="UTC") + pd.to_timedelta(np.cumsum(seconds + 1), unit="s")
    fixed = {
        "run": f"{optimizer}/repeat-{repeat}",
        "optimizer": optimizer,
        "repeat": repeat,
        "trial": np.arange(trials),
        "origin": rng.choice(["random", "model"], trials),
        "parent": None,
        "epochs": rng.choice([3, 9, EPOCHS], trials) if optimizer == "bohb" else EPOCHS,
        "objective": errors + 0.01,
        "error": errors,
        **{f"error_seed_{i}": errors for i in range(1, 5)},
        "flops": None,
        "flops_ratio": 0.5,
        "diverged": False,
        "status": status,
        "suggest_seconds": rng.random(trials),
        "train_seconds": np.where(finished, seconds, np.nan),
        "started_at": [time.isoformat() for time in starts],
        "finished_at": [time.isoformat() for time in starts + pd.to_timedelta(seconds, unit="s")],
        "worker": rng.choice(["w0", "w1"], trials),
        "attempt": 1,
        "reason": np.where(finished, "", "it failed"),
        "lost_seconds": 0.0,
        "note": np.where(rng.random(trials) < 0.01, "every candidate was tried before", ""),
    }
    configurations = [space.decode(x) for x in space.sample_encoded(rng, trials)]
    return pd.concat([pd.DataFrame(fixed), pd.DataFrame(configurations)], axis=1)


def measure(trials: int, folder: Path) -> dict[str, float]:
    """Seconds by step."""
    path, seconds = folder / "trials.csv", {}
    table(trials).to_csv(path, index=False)
    context = ReportContext("benchmark", "joint", Budget(trials, EPOCHS), {}, "", finished=True, by_design=BY_DESIGN)

    def time_step(step: str, work: Callable[[], Any]) -> Any:
        start = time.process_time()
        result = work()
        seconds[step] = time.process_time() - start
        return result

    read = time_step("read trials.csv", lambda: read_trials(path))
    ledger = time_step("ledger", lambda: ledger_table(read, context.budget))
    curves = time_step("curves", lambda: anytime_curves(read, context.budget))
    summary = time_step("statistics", lambda: summarise(read, curves, ledger, context))
    time_step("tables as CSV", lambda: write_tables(summary, curves, folder / "tables"))
    seconds["the numbers"] = sum(seconds.values())
    time_step("whole report", lambda: write_report(read, context, folder / "report"))
    return seconds


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="1,000 trials a run")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    trials = TRIALS // 10 if arguments.quick else TRIALS
    print(f"{len(OPTIMIZERS) * REPEATS} runs of {trials} trials")
    with tempfile.TemporaryDirectory() as folder:
        seconds = measure(trials, Path(folder))
        page = (Path(folder) / "report" / "index.html").stat().st_size / 1e6
    for step, took in seconds.items():
        print(f"{step:<16} {took:>8.2f} s")
    print(f"{'the page':<16} {page:>8.2f} MB")
    if arguments.json:
        arguments.json.write_text(json.dumps({"runs": 10, "trials": trials, "seconds": seconds}, indent=2))


if __name__ == "__main__":
    main()
