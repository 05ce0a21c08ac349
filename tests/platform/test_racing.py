"""Racing: the bound, what is charged, and what is the same as without it."""

from dataclasses import replace
from math import sqrt
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import events_of

from fmnas.platform.cli import main
from fmnas.platform.experiment.events import Asked, Finished
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.experiment.ledger import fold
from fmnas.platform.runner.jobs import retraining_trial
from fmnas.platform.runner.racing import MIN_RESULTS, STANDARD_ERRORS, add_bound, bound
from fmnas.search_spaces import Evaluation, Nominal, Ordinal, Space, Trial
from fmnas.search_spaces.records import FINISHED
from fmnas.trainers.recorded_table import RecordedResult, TableHeader, write_table

SPACE = Space([Ordinal("a", list(range(1, 9))), Nominal("b", ["x", "y", "z"])])
EVALUATIONS, EPOCHS, SEEDS = 12, 3, 4


def evaluation(*errors: float) -> Evaluation:
    return Evaluation(sum(errors) / len(errors), errors=errors)


def test_bound_is_two_standard_errors_above_the_incumbent() -> None:
    good = [evaluation(0.1, 0.3), evaluation(0.2, 0.4)]  # each with a variance of 0.02
    bad = [evaluation(0.9, 0.5), evaluation(0.9, 0.1)]
    assert bound([*bad, *good], 1) == pytest.approx(0.2 + STANDARD_ERRORS * sqrt(0.02 + 0.01))
    assert bound([*bad, *good], 2) == pytest.approx(0.2 + STANDARD_ERRORS * sqrt(0.01 + 0.01))


@given(st.lists(st.lists(st.floats(0, 1), min_size=4, max_size=4), min_size=MIN_RESULTS, max_size=9))
def test_the_incumbent_itself_never_loses_with_all_its_seeds(errors: list[list[float]]) -> None:
    results = [evaluation(*row) for row in errors]
    limited = add_bound(Trial(0, {}, 1, "random"), results, 1)
    assert not limited.loses_race(min(result.objective for result in results))


def test_nothing_is_limited_at_first() -> None:
    trial = Trial(0, {}, 1, "random")
    assert add_bound(trial, [evaluation(0.1, 0.2)] * (MIN_RESULTS - 1), 1) == trial


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Results of every configuration of SPACE, with four seeds and little noise."""
    rng, results = np.random.default_rng(0), []
    for a in range(1, 9):
        for b, shift in (("x", 0.0), ("y", 0.2), ("z", 0.4)):
            errors = tuple((0.05 * a + shift + 0.01 * rng.standard_normal(SEEDS)).tolist())
            curves = tuple((2 * error, 1.5 * error, error) for error in errors)
            means = tuple(np.mean(curves, axis=0).tolist())
            full = replace(evaluation(*errors), epochs=EPOCHS, seconds=4.0, curve=means, seed_curves=curves)
            trial = Trial(len(results), {"a": a, "b": b}, EPOCHS, "random")
            results.append(RecordedResult(0, "random/repeat-0", trial, FINISHED, 4.0, full))
    problem = {"name": "grid", "epochs": EPOCHS, "seeds": SEEDS, "penalty": 2.0}
    path = tmp_path_factory.mktemp("racing") / "table.npz"
    write_table(path, TableHeader(SPACE, problem, {"seeds": SEEDS}, [{"seed": 0}]), results)
    return path


@pytest.fixture(scope="module")
def raced(table: Path) -> Path:
    """The directory of a finished experiment with racing."""
    config = table.with_name("raced.yaml")
    config.write_text(
        f"problem: recorded:{table}\noptimizers: [random, {{name: regularized-evolution, population: 4, "
        f"tournament: 2}}]\nrepeats: 2\nbudget: {{evaluations: {EVALUATIONS}}}\nracing: 1\n"
        "workers: {suggestions: instant}\ntracking: {enabled: false}\n"
    )
    assert main(["run", str(config), "--progress", "quiet", "--out", str(table.with_name("raced"))]) == 0
    return table.with_name("raced")


def test_a_stopped_trial_costs_what_it_trained(raced: Path) -> None:
    trials = pd.read_csv(raced / "trials.csv")
    stopped = trials[trials["error_seed_2"].isna()]
    assert len(stopped) > 10
    assert set(stopped["epochs"]) == {EPOCHS / SEEDS}
    assert set(stopped["train_seconds"]) == {1.0}
    spent = trials.groupby("run")["epochs"].sum()
    assert ((spent > (EVALUATIONS - 1) * EPOCHS) & (spent <= EVALUATIONS * EPOCHS)).all()
    assert (trials.groupby("run").size() > EVALUATIONS).all()


def test_the_incumbent_has_all_its_seeds(raced: Path) -> None:
    ledger = fold(read_journal(raced / "journal.jsonl"))
    for run in ledger.runs.values():
        assert run.best is not None
        assert run.best.evaluation is not None
        assert run.best.evaluation.share == 1.0
        objectives = [result.objective for result in ledger.results if result.run == run.name]
        assert run.best.objective == min(value for value in objectives if value is not None)


def test_every_stopped_trial_was_above_its_bound(raced: Path) -> None:
    journal = raced / "journal.jsonl"
    trials = {(event.run, event.trial.id): event.trial for event in events_of(journal, Asked)}
    ended = events_of(journal, Finished)
    for event in ended:
        trial = trials[event.run, event.trial_id]
        assert (event.evaluation.share < 1.0) == trial.loses_race(event.evaluation.objective)


def test_a_raced_experiment_is_replayed_and_extended(raced: Path) -> None:
    assert main(["replay", str(raced)]) == 0
    assert main(["extend", str(raced), "--progress", "quiet", "-o", "budget.evaluations=14"]) == 0
    assert main(["replay", str(raced)]) == 0


@pytest.mark.slow
def test_only_results_with_all_seeds_are_recorded(tmp_path: Path) -> None:
    pytest.importorskip("sklearn")
    options = ["problem=joint", "data={name: digits, train: 64, validation: 64}", "fidelity.epochs=1", "seeds=2"]
    options += ["racing=1", "optimizers=[random]", "budget.evaluations=8", "workers.kind=in-process"]
    overrides = [part for option in [*options, "tracking.enabled=false"] for part in ("-o", option)]
    assert main(["run", "smoke", *overrides, "--progress", "quiet", "--out", str(tmp_path / "run")]) == 0
    assert main(["record", str(tmp_path / "run"), "--out", str(tmp_path / "table.npz")]) == 0
    trials = pd.read_csv(tmp_path / "run" / "trials.csv")
    with np.load(tmp_path / "table.npz") as recorded:
        assert len(recorded["errors"]) == trials["error_seed_2"].notna().sum() < len(trials)
        assert not np.isnan(recorded["errors"]).any()


def test_optuna_gets_what_was_stopped_as_pruned(raced: Path, tmp_path: Path) -> None:
    optuna = pytest.importorskip("optuna")
    storage = f"sqlite:///{tmp_path}/studies.db"
    assert main(["export", str(raced), "--optuna", storage]) == 0
    studies = optuna.get_all_study_summaries(storage)
    trials = [
        trial for study in studies for trial in optuna.load_study(study_name=study.study_name, storage=storage).trials
    ]
    results = fold(read_journal(raced / "journal.jsonl")).results
    complete = sum(trial.state.name == "COMPLETE" for trial in trials)
    assert complete == sum(result.evaluation is not None and result.evaluation.share == 1.0 for result in results)
    assert complete < len(trials) == len(results)


def test_retraining_has_all_its_seeds(raced: Path) -> None:
    ledger = fold(read_journal(raced / "journal.jsonl"))
    limited = [result for result in ledger.results if result.trial.stop_above is not None]
    assert retraining_trial(limited[0], 0, 5).stop_above is None


@pytest.mark.parametrize(("problem", "racing"), [("joint", "4"), ("func2c", "1"), ("joint", "0")])
def test_racing_needs_fewer_seeds_than_are_averaged(problem: str, racing: str) -> None:
    options = ["-o", f"problem={problem}", "-o", f"racing={racing}"]
    assert main(["config", "smoke", *options]) == 2
