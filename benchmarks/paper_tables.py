"""The papers' tables again: what `fmnas run paper/PROBLEM` found, beside what was published, as docs/results.md.

    python benchmarks/paper_tables.py take DIR [DIR ...]   # what run directories hold -> benchmarks/results/paper/
    python benchmarks/paper_tables.py                      # all that was taken -> docs/results.md and docs/results/

`take` keeps of each run directory where its incumbents improved (curves.csv) and what it takes to run it again
(facts.json: configuration, commits, versions, dates). Directories of one problem and one seed are put together: an
optimizer that is added later is paired with the others. `--only LABEL ...` takes these optimizers alone. Every number
in docs/results.md is worked out from those files and from benchmarks/data/published.json, which holds what the papers
print.
"""

import argparse
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from command import run_command

from fmnas.comparison.analysis.curves import anytime_curves
from fmnas.comparison.analysis.trials import Budget, read_trials
from fmnas.platform.config.schema import OptimizerConfig
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import read_state
from fmnas.search_spaces.records import MODEL, MUTATION, RANDOM

HERE = Path(__file__).resolve().parent
TAKEN = HERE / "results" / "paper"
PUBLISHED = HERE / "data" / "published.json"
DOCS = HERE.parent / "docs"
COLUMNS = ["optimizer", "repeat", "evaluation", "best", "seconds_per_suggestion"]


@dataclass(frozen=True)
class Competitor:
    """An optimizer of a table.

    options: as configured. commits: at which its runs were made.
    caveat: what the registry said of it then, e.g. that it knows its budget.
    by_method: the share of its trials that its model or its mutations chose; None for random search and where it was
    not recorded.
    superseded: how the method of this name differed from today's; empty if it did not. Written by hand.
    evaluations: of each of its runs, if they are fewer than the table's.
    """

    name: str
    options: dict[str, Any]
    commits: list[str]
    caveat: str = ""
    by_method: float | None = None
    superseded: str = ""
    evaluations: int | None = None


@dataclass(frozen=True)
class Facts:
    """What a table's runs were: enough to make them again.

    problem: of the configuration paper/PROBLEM. evaluations: of the longest runs. initial: those of the initial design.
    optimizers: by label. versions, days: of all the directories that were put together.
    """

    problem: str
    seed: int
    repeats: int
    evaluations: int
    initial: int
    initial_design: int | str
    optimizers: dict[str, Competitor]
    versions: list[str]
    days: list[str]

    def __add__(self, other: "Facts") -> "Facts":
        """Both together. Raises SystemExit if they are not runs of one comparison."""
        same = ("problem", "seed", "repeats", "initial_design")
        for name in same:
            ours, theirs = getattr(self, name), getattr(other, name)
            if ours != theirs:
                raise SystemExit(
                    f"{self.problem}, seed {self.seed}: {name} is {ours} in {folder_of(self)} and {theirs} in the new "
                    "directory. Remove that folder to replace what it holds, or run with another seed"
                )
        evaluations = max(self.evaluations, other.evaluations)
        return replace(
            self,
            evaluations=evaluations,
            initial=max(self.initial, other.initial),  # a directory of BOHB alone has no initial design
            optimizers={**self._within(evaluations), **other._within(evaluations)},
            versions=sorted({*self.versions, *other.versions}),
            days=sorted({*self.days, *other.days}),
        )

    def _within(self, evaluations: int) -> dict[str, Competitor]:
        """The optimizers, in a table of this number of evaluations."""
        if self.evaluations == evaluations:
            return self.optimizers
        return {
            label: replace(one, evaluations=one.evaluations or self.evaluations)
            for label, one in self.optimizers.items()
        }

    def evaluations_of(self, label: str) -> int:
        """Of each run of an optimizer."""
        return self.optimizers[label].evaluations or self.evaluations

    @property
    def commits(self) -> list[str]:
        """Of all optimizers."""
        return sorted({commit for one in self.optimizers.values() for commit in one.commits})


@dataclass(frozen=True)
class Taken:
    """One comparison: its facts, and its incumbents [COLUMNS], a row where one improved and one at each run's end."""

    facts: Facts
    curves: pd.DataFrame

    @cached_property
    def _bests(self) -> dict[tuple[str, int], np.ndarray]:
        """What `bests` returned: a page asks for the same ones a hundred times."""
        return {}

    def bests(self, label: str, evaluation: int | None = None) -> np.ndarray:
        """Return the best objective of each repeat after `evaluation` evaluations [repeats]; by default, at the end."""
        key = label, evaluation or self.facts.evaluations_of(label)
        if key not in self._bests:
            rows = self.curves[(self.curves["optimizer"] == label) & (self.curves["evaluation"] <= key[1])]
            self._bests[key] = rows.groupby("repeat")["best"].min().to_numpy()
        return self._bests[key]

    def select(self, labels: Sequence[str]) -> "Taken":
        """Return the rows of these optimizers."""
        optimizers = {label: self.facts.optimizers[label] for label in labels}
        return Taken(replace(self.facts, optimizers=optimizers), self.curves[self.curves["optimizer"].isin(labels)])

    def seconds(self, label: str) -> float:
        """Of a suggestion after the initial design, on average."""
        rows = self.curves[self.curves["optimizer"] == label]
        return float(rows.groupby("repeat")["seconds_per_suggestion"].last().mean())


def run_directory(folder: Path) -> Taken:
    """What a finished run directory holds. Raises SystemExit for an unfinished one."""
    unfinished = f"{folder}: not all of its runs are finished: fmnas resume {folder}"
    state = read_state(RunDirectory(folder))
    config, drivers = state.config, [driver.software for driver in state.ledger.drivers]
    if not (folder / "trials.csv").is_file():  # written at the end
        raise SystemExit(unfinished)
    trials = read_trials(folder / "trials.csv")
    evaluations, epochs = config.budget.evaluations, config.fidelity.epochs
    curves = anytime_curves(trials, Budget(evaluations, epochs))
    reached = curves.groupby("run")["evaluations"].max()
    if len(reached) < len(config.optimizers) * config.repeats or (reached < evaluations).any():
        raise SystemExit(unfinished)
    facts = Facts(
        problem=config.problem,
        seed=config.seed,
        repeats=config.repeats,
        evaluations=evaluations,
        initial=int((trials["origin"] == "initial").groupby(trials["run"]).sum().max()),
        initial_design=config.initial_design,
        optimizers={
            entry.label: _competitor(entry, trials, sorted({str(driver.commit)[:12] for driver in drivers}))
            for entry in config.optimizers
        },
        versions=sorted({f"fmnas {driver.fmnas}, torch {driver.torch}" for driver in drivers}),
        days=sorted({str(day) for day in trials["finished_at"].dt.date.unique()}),
    )
    return Taken(facts, pd.concat([_run(run, trials) for _, run in curves.groupby("run", sort=False)]))


def _competitor(entry: OptimizerConfig, trials: pd.DataFrame, commits: list[str]) -> Competitor:
    origins = trials.loc[trials["optimizer"] == entry.label, "origin"]
    return Competitor(
        name=entry.name,
        options=entry.options,
        commits=commits,
        caveat=entry.implementation.optimizer.caveat(entry.settings),
        by_method=None
        if entry.implementation.optimizer.chooses == RANDOM
        else float(origins.isin((MODEL, MUTATION)).mean()),
    )


def _run(curve: pd.DataFrame, trials: pd.DataFrame) -> pd.DataFrame:
    """The rows of a run: where its incumbent improved, and its end."""
    known = curve.dropna(subset=["incumbent"])
    improved = known["incumbent"].diff().fillna(-1.0) < 0
    improved.iloc[-1] = True
    own = trials[(trials["run"] == curve["run"].iloc[0]) & (trials["origin"] != "initial")]
    rows = known[improved].rename(columns={"evaluations": "evaluation", "incumbent": "best"})
    return rows.assign(seconds_per_suggestion=round(float(own["suggest_seconds"].mean()), 5))[COLUMNS]


def folder_of(facts: Facts) -> Path:
    """Where a comparison is kept: that of the papers' protocol has seed 0."""
    return TAKEN / (facts.problem if facts.seed == 0 else f"{facts.problem}-seed-{facts.seed}")


def load_tables(folder: Path) -> Taken:
    """What was taken before."""
    facts = json.loads((folder / "facts.json").read_text())
    competitors = {label: Competitor(**one) for label, one in facts.pop("optimizers").items()}
    curves = pd.read_csv(folder / "curves.csv", converters={"best": float})  # pandas 2 itself rounds
    return Taken(Facts(optimizers=competitors, **facts), curves)


def keep(taken: Taken) -> None:
    """Write it, with what there is of the same comparison; an optimizer that is there already is replaced."""
    folder = folder_of(taken.facts)
    if folder.is_dir() and (old := load_tables(folder)).facts.optimizers.keys() - taken.facts.optimizers.keys():
        rest = old.curves[~old.curves["optimizer"].isin(taken.facts.optimizers)]
        taken = Taken(old.facts + taken.facts, pd.concat([rest, taken.curves]))
    folder.mkdir(parents=True, exist_ok=True)
    facts = asdict(taken.facts)
    for label, one in facts["optimizers"].items():
        facts["optimizers"][label] = {key: value for key, value in one.items() if value not in ("", None)}
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n")
    taken.curves.to_csv(folder / "curves.csv", index=False)


def all_taken() -> list[Taken]:
    """Every comparison, the papers' protocol first."""
    return [load_tables(folder) for folder in sorted(TAKEN.iterdir()) if (folder / "facts.json").is_file()]


def main() -> None:
    """Take, or write the page."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("what", nargs="?", choices=["take"])
    parser.add_argument("directories", nargs="*", type=Path, metavar="DIR")
    parser.add_argument("--only", nargs="+", metavar="LABEL", help="take these optimizers alone")
    parser.add_argument("--out", type=Path, default=DOCS, help="the folder of results.md")
    arguments = parser.parse_args()
    for folder in arguments.directories:
        taken = run_directory(folder)
        keep(taken.select(arguments.only) if arguments.only else taken)
    if arguments.what is None:
        from paper_page import write_page

        write_page(all_taken(), json.loads(PUBLISHED.read_text()), arguments.out)


if __name__ == "__main__":
    run_command(main)
