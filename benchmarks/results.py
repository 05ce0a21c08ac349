"""The file of results of sample_efficiency.py, its lines and its Markdown.

A mean is printed with its standard error: the standard deviation over the runs (ddof 1) by the root of their number,
as in an experiment's table. The paper's own figures stay as they were published.
"""

import json
import os
import platform
import subprocess
from dataclasses import asdict, dataclass, field
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import seeds as seeds_of

PUBLISHED = json.loads((Path(__file__).resolve().parent / "data" / "published.json").read_text())
PAPER = {
    problem: {
        label.removeprefix("bo-fm-").replace("bo-fm", "modlap"): (float(mean), float(error))
        for label, (mean, error) in PUBLISHED[problem]["rows"].items()
        if label.startswith("bo-fm")
    }
    for problem in ("func2c", "func3c", "ackley5c")
}
"""Mean and standard error over five runs of, by all evidence, 200 evaluations (BO-FM paper, Appendix E)."""

AT_OPTIMUM = {"func2c": -0.2, "func3c": -0.7, "ackley5c": 0.1}
"""Below, every discrete variable has its best value."""

NAMES = {
    "func2c": "Func2C",
    "func3c": "Func3C",
    "ackley5c": "Ackley5C",
    "ackley53c": "Ackley53C",
    "mixed_levy": "mixed Levy",
    "mixed_styblinski_tang": "mixed Styblinski-Tang",
    "mixed_rosenbrock": "mixed Rosenbrock",
    "mixed_rastrigin": "mixed Rastrigin",
    "modlap": "ModLap",
    "moddif": "ModDif",
    "prodlap": "ProdLap",
    "proddif": "ProdDif",
    "addlap": "AddLap",
    "adddif": "AddDif",
    "mixture": "mixture",
    "kernel-modulated": "kernel-modulated",
    "paper": "ModLap, `mode: paper`",
    "regularized-evolution": "regularized evolution",
    "random": "random search",
}
SAME = 1e-6
"""Values whose difference is a smaller part of them are the same."""

_SCRIPTS = ("benchmarks/sample_efficiency.py", "benchmarks/mixed_functions.py")
MEASURED = ("search_spaces", "trainers", "optimizers", "baselines", *_SCRIPTS)
"""What the results depend on."""
PACKAGES = ("fmnas", "numpy", "torch", "scikit-learn")


@dataclass
class Row:
    """One method on one problem: a value for each seed so far."""

    problem: str
    method: str
    evaluations: int
    noise: float
    seeds: list[int] = field(default_factory=list)
    values: list[float] = field(default_factory=list)
    seconds_per_suggestion: float = 0.0

    @property
    def key(self) -> tuple[str, str, int, float]:
        """What makes it a different row."""
        return self.problem, self.method, self.evaluations, self.noise

    @property
    def mean(self) -> float:
        """Of the values."""
        return float(np.mean(self.values))

    @property
    def standard_error(self) -> float | None:
        """Of the mean, ddof 1; None for one value."""
        n = len(self.values)
        return float(np.std(self.values, ddof=1) / np.sqrt(n)) if n > 1 else None

    @property
    def at_optimum(self) -> int | None:
        """How many values are at the optimum; None where that is not defined."""
        limit = AT_OPTIMUM.get(self.problem)
        return None if limit is None else sum(value < limit for value in self.values)

    def add(self, seed: int, value: float, seconds: float) -> None:
        """One more run."""
        n = len(self.values)
        self.seconds_per_suggestion = (n * self.seconds_per_suggestion + seconds) / (n + 1)
        self.seeds.append(seed)
        self.values.append(value)


class Results:
    """Rows over the same seeds; a row may have the first of them only.

    `commits` has every commit that added to the file.
    """

    def __init__(self, seeds: seeds_of.Seeds, rows: list[Row] | None = None, commits: list[str] | None = None) -> None:
        self.seeds, self.rows, self.commits = seeds, rows or [], commits or []
        self._all = seeds

    @classmethod
    def load(cls, path: Path, count: int | None = None) -> "Results":
        """A file's rows, with the first `count` of its seeds, or all; exits with a message where it is no such file."""
        every = seeds_of.read_seeds(path)
        try:
            kept = json.loads(path.read_text())
            names = list(Row.__dataclass_fields__)
            rows = [Row(**{name: row[name] for name in names}) for row in kept["rows"]]
            commits = list(kept["commits"])
        except (KeyError, TypeError) as error:
            raise SystemExit(f"{path}: not a file of these results ({error!r}); name one that --json wrote") from error
        results = cls(seeds_of.first(every, count, path), rows, commits)
        results._all = every
        return results

    def row(self, wanted: Row) -> Row:
        """The row with that key, which is new where there was none."""
        for row in self.rows:
            if row.key == wanted.key:
                return row
        self.rows.append(wanted)
        return wanted

    def write(self, path: Path) -> None:
        """Write everything, atomically."""
        commit = commit_here()
        if commit not in self.commits:
            self.commits.append(commit)
        packages = {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}
        content = {
            "seeds": self._all.to_dict(),
            "commits": self.commits,
            "versions": packages,
            "rows": [self._row_content(row) for row in self.rows],
        }
        temporary = path.with_name(path.name + ".tmp")
        temporary.write_text(json.dumps(content, indent=1) + "\n")
        os.replace(temporary, path)

    @staticmethod
    def _row_content(row: Row) -> dict[str, Any]:
        return {**asdict(row), "mean": row.mean if row.values else None, "standard_error": row.standard_error}


@cache
def commit_here() -> str:
    """The commit of this code when it was first asked for, with "+changes" where files differ from it; or "unknown"."""
    git = ["git", "-C", str(Path(__file__).resolve().parent.parent)]
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    status = [*git, "status", "--porcelain", "--", *MEASURED]
    changed = subprocess.run(status, capture_output=True, text=True, check=False).stdout.strip()
    return head.stdout.strip() + ("+changes" if changed else "") if head.returncode == 0 else "unknown"


def line(row: Row) -> str:
    """A row for the terminal."""
    return (
        f"{row.problem:<20}{row.method:<24}{plus_minus(row):>24}"
        f"{format_optimum(row):>10}{format_published(row):>20}{row.seconds_per_suggestion:>8.3f} s/ask"
    )


def plus_minus(row: Row) -> str:
    """Mean ± standard error, to two digits of the error, five decimals at most."""
    if row.standard_error is None:
        return f"{row.mean:.5f}"
    decimals = 5 if row.standard_error < 1e-4 else int(min(5, max(0, 1 - np.floor(np.log10(row.standard_error)))))
    return f"{row.mean:.{decimals}f} ± {row.standard_error:.{decimals}f}"


def format_optimum(row: Row) -> str:
    """How many runs are at the optimum, of how many."""
    runs = len(row.values)
    return f"{row.at_optimum} of {runs}" if row.at_optimum is not None else f"{runs} run" + "s" * (runs > 1)


def format_published(row: Row) -> str:
    """The paper's figure, if it has one."""
    figure = PAPER.get(row.problem, {}).get(row.method)
    return f"{figure[0]:.4f} ± {figure[1]:.4f}" if figure else ""


def ahead(row: Row, first: Row) -> str:
    """On how many seeds, of those that both have, the row's value is lower, and higher, than that of another row.

    By less than a millionth is neither: both are at the same optimum.
    """
    if row is first:
        return ""
    theirs = dict(zip(first.seeds, first.values, strict=True))
    pairs = [(value, theirs[seed]) for seed, value in zip(row.seeds, row.values, strict=True) if seed in theirs]
    apart = [value - other for value, other in pairs if abs(value - other) > SAME * abs(other)]
    return f"{sum(by < 0 for by in apart)}, {sum(by > 0 for by in apart)} of {len(pairs)}"


def markdown(results: Results) -> str:
    """Tables of all rows, those of a problem together: of problems whose optimum is known to be met, and of others."""
    head = "| problem | method | mean ± standard error |"
    solved = [f"{head} at the optimum | paper |", "|---|---|---|---|---|"]
    unsolved = [f"{head} runs | lower, higher than the problem's first row |", "|---|---|---|---|---|"]
    for problem in dict.fromkeys(row.problem for row in results.rows):
        rows = [row for row in results.rows if row.problem == problem and row.values]
        rows.sort(key=lambda row: (list(NAMES).index(row.method), row.noise))
        for row in rows:
            name = NAMES[row.method] + (f", noise {row.noise:g}" if row.noise else "")
            cells = ["" if row is not rows[0] else NAMES.get(problem, problem), name, plus_minus(row)]
            if problem in AT_OPTIMUM:
                solved.append(_cells(*cells, format_optimum(row), format_published(row)))
            else:
                unsolved.append(_cells(*cells, str(len(row.values)), ahead(row, rows[0])))
    return "\n\n".join("\n".join(table) for table in (solved, unsolved) if len(table) > 2) + "\n"


def _cells(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"
