"""The page of the example in docs/example, made again from its trials.

    python benchmarks/example_page.py [--out DIR]

docs/example has the trials, the retrained configurations, the configuration and the environment of a run of
`fmnas run fashion_mnist_example && fmnas retrain runs/fashion_mnist_example`, but not its journal, of which `fmnas
report` makes such a page. DIR gets the page and all its figures; by default docs/example gets those that it keeps.
"""

import argparse
import json
import shutil
import tempfile
from pathlib import Path

import pandas as pd

from fmnas.comparison.analysis.trials import Budget, PlannedRun, read_trials
from fmnas.comparison.report import write_report
from fmnas.comparison.summary import ReportContext
from fmnas.platform.config.load import load_config
from fmnas.platform.experiment.trial_result import run_name
from fmnas.platform.problems import problem
from fmnas.platform.report.setup_section import optimizer_notes, resolved_options, setup_statements

EXAMPLE = Path(__file__).resolve().parent.parent / "docs" / "example"
KEPT = ("index.html", "anytime.png", "retrained.png")


def context() -> ReportContext:
    """What the report tells beside the trials."""
    config = load_config(EXAMPLE / "config.yaml")
    names = [entry.label for entry in config.optimizers]
    return ReportContext(
        name=config.name,
        problem=config.problem,
        budget=Budget(config.budget.evaluations, config.fidelity.epochs, config.budget.seconds),
        environment=json.loads((EXAMPLE / "environment.json").read_text()),
        config_text=config.to_yaml(),
        finished=True,
        retrained=pd.read_csv(EXAMPLE / "retrained.csv"),
        hypotheses=config.hypotheses,
        remarks=optimizer_notes(config),
        runs=[PlannedRun(run_name(name, r), name, r) for r in range(config.repeats) for name in names],
        by_design={entry.label: entry.implementation.optimizer.chooses for entry in config.optimizers},
        setup=setup_statements(config, problem(config.problem, config.problem_settings)),
        settings=resolved_options(config),
        files=["trials.csv", "retrained.csv"],
    )


def main() -> None:
    """Write them."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--out", type=Path, help="default: docs/example, and only what is kept there")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        made = arguments.out or Path(folder)
        summary = write_report(read_trials(EXAMPLE / "trials.csv"), context(), made)
        if arguments.out is None:
            for name in KEPT:
                shutil.copy(made / name, EXAMPLE / name)
    print(summary.headline)
    print(summary.caution)


if __name__ == "__main__":
    main()
