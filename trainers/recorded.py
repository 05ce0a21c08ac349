"""A recorded problem: its evaluations are results of earlier experiments, looked up in a file.

    problem = recorded_problem(Path("table.npz"))     # `fmnas record DIR ... --out table.npz` wrote it
    problem.trainer.evaluate(trial)                   # the evaluation that was recorded, its seconds included

Exact: a configuration has a result if it was evaluated with the same epochs; one of a cell, if the same network was, in
any encoding (`canonical_form`), as its results differ by the draw of the weights at most. Any other configuration is
refused: no value is made up. Neither Ray, MLflow nor torch is needed.
"""

from collections import defaultdict
from collections.abc import Hashable, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from fmnas.search_spaces import Cell, Evaluation, Trial, canonical_form
from fmnas.search_spaces.nasnet import CELL_NAMES
from fmnas.trainers.contract import (
    NotRecordedError,
    RecordedFailureError,
    Report,
    Stop,
    check_trial,
    never_stop,
    no_report,
)
from fmnas.trainers.problem import Problem
from fmnas.trainers.recorded_table import RecordedTable, data_errors, read_header, read_table


def recorded_problem(path: Path) -> Problem:
    """Return the problem of a file of recorded results: the space, penalty and minimum of the one that was recorded.

    Raises DataError if the file cannot be read.
    """
    header = read_header(path)
    with data_errors(path):
        return problem_of_facts(
            header.problem,
            space=header.space,
            build=lambda table, hardware: RecordedTrainer(table),
            load=lambda: read_table(path),
        )


def problem_of_facts(facts: Mapping[str, Any], **others: Any) -> Problem:
    """Return a problem with the recorded attributes, and others. Facts that are not attributes are ignored."""
    names = {field.name for field in fields(Problem)}
    return Problem(**others, **{name: value for name, value in facts.items() if name in names})


class RecordedTrainer:
    """Evaluates trials by looking up their results.

    A configuration with several results at these epochs has, for the seed of a trial, the result of that seed if it was
    recorded, else one that the seed picks, each as likely: their spread is the noise of the problem.
    """

    def __init__(self, table: RecordedTable) -> None:
        self._table, self.space = table, table.header.space
        self._rows: dict[Hashable, dict[int, list[int]]] = defaultdict(dict)  # what -> epochs -> rows of the table
        epochs = table.arrays["epochs"].tolist()
        for row, configuration in enumerate(table.configurations):
            self._rows[identify(configuration)].setdefault(epochs[row], []).append(row)

    def evaluate(self, trial: Trial, report: Report = no_report, stop: Stop = never_stop) -> Evaluation:
        """Return the recorded evaluation of a trial; nothing is trained, so nothing is reported.

        Raises SpaceError outside the space, NotRecordedError for a configuration without a result at these epochs, and
        RecordedFailureError if its result is a failure.
        """
        check_trial(trial, self.space)
        known = self._rows.get(identify(trial.configuration), {})
        rows = known.get(trial.epochs)
        if rows is None:
            raise NotRecordedError(self._refusal(trial, known))
        seeds = self._table.arrays["seed"]
        row = next((row for row in rows if seeds[row] == trial.seed), rows[trial.seed % len(rows)])
        result = self._table.result(row)
        if result.evaluation is None:
            raise RecordedFailureError(f"recorded as {result.status}: {result.reason}", result.seconds)
        return race(result.evaluation, trial)

    def _refusal(self, trial: Trial, known: Mapping[int, list[int]]) -> str:
        known_epochs = f", only at {', '.join(map(str, sorted(known)))}" if known else ""
        return (
            f"{self._table.place} has no result of {dict(trial.configuration)} at {trial.epochs} epochs{known_epochs}; "
            f"it has {len(self._table)} results of {len(self._rows)} configurations: record this one, too, or restrict "
            "the search to recorded ones, e.g. by `fixed`"
        )


def race(evaluation: Evaluation, trial: Trial) -> Evaluation:
    """Return what a trial has of an evaluation: all, or its first trainings if it loses its race with them.

    Seconds are shared out equally. Whether the first trainings diverged was not recorded: `diverged` is of all.
    """
    seeds, first = len(evaluation.errors), trial.first_seeds or len(evaluation.errors)
    if first >= seeds:
        return evaluation
    share, errors, curves = first / seeds, evaluation.errors[:first], evaluation.seed_curves[:first]
    objective = evaluation.objective + sum(errors) / first - sum(evaluation.errors) / seeds
    if not trial.loses_race(objective):
        return evaluation
    return replace(
        evaluation,
        objective=objective,
        errors=errors,
        seed_curves=curves,
        curve=tuple(sum(epoch) / first for epoch in zip(*curves, strict=True)),
        seconds=share * evaluation.seconds,
        share=share,
    )


def identify(configuration: Mapping[str, Any]) -> Hashable:
    """Return what is equal for two configurations if and only if they describe the same network and training."""
    cell = CELL_NAMES if all(name in configuration for name in CELL_NAMES) else ()
    # True == 1, but a variable may have both values.
    rest = frozenset((name, type(v) is bool, v) for name, v in configuration.items() if name not in cell)
    return (canonical_form(Cell.from_configuration(configuration)), rest) if cell else rest
