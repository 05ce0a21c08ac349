"""The suite of problems, the arms of BO-FM on it, and what docs/bo-fm.md says of them."""

import argparse
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import suite
import torch
from bofm_parts import KERNELS, Arm, build_arm
from model_quality import lines_of_table, read_rows
from scipy.stats import rankdata

from fmnas.comparison.analysis.across_problems import compare_overall, normalised_regret
from fmnas.optimizers import random_design
from fmnas.optimizers.gp.fm_kernel import FMKernel
from fmnas.optimizers.gp.points import Points
from fmnas.optimizers.gp.process import Likelihood
from fmnas.search_spaces import Nominal, Real, Space

ROOT = Path(__file__).resolve().parents[2]
RESULTS = ROOT / "benchmarks" / "results" / "suite"
PAGE = (ROOT / "docs" / "bo-fm.md").read_text()
MEASUREMENTS = (ROOT / "docs" / "bo-fm-measurements.md").read_text()


def test_the_halves_have_different_problems_of_which_all_exist() -> None:
    assert not set(suite.DESIGN) & set(suite.VALIDATION)
    assert set(suite.DESIGN) | set(suite.VALIDATION) >= suite.OWN
    assert {*RECORDED, "svc_cancer"} == suite.OWN


RECORDED = {
    "ackley_bits": 2.70506309978072,
    "cliff": 5.788828297177124,
    "gear_train": 0.7307904234850384,
    "griewank": 8.50188215196361,
    "ising": 1.0755741078687038,
    "joint_like": 0.33769233504231705,
    "labs30": -0.9164969450101833,
    "levy": 62.95123975865354,
    "michalewicz": -1.8193678140585785,
    "qubo": -20.996527299865242,
    "rastrigin": 106.54398698624077,
    "rosenbrock": 4899.811398951146,
    "rotated": 3.41666717564992,
    "rotated_steep": 6.274540974959781,
    "styblinski_tang": 334.2177218540171,
}
"""Problem -> its objective of one configuration, when the published runs were recorded."""


@pytest.mark.parametrize("name", RECORDED)
def test_functions_are_those_of_the_recorded_runs(name: str) -> None:
    problem = suite.problem_of(name)
    configuration = problem.space.sample(np.random.default_rng(0))
    assert problem.function is not None
    assert problem.function(configuration) == pytest.approx(RECORDED[name], rel=1e-9)


def test_the_default_arm_is_bo_fm() -> None:
    """So the published comparisons are of what users run."""
    problem = suite.problem_of("rotated")
    design = random_design(problem.space, 10, 5)
    arm = build_arm("default", problem.space, 5, design, 25)
    shipped = suite.build_registered("bo-fm", problem.space, 5, design, 25)
    for _ in range(16):
        one, other = arm.ask(), shipped.ask()
        assert one is not None
        assert other is not None
        assert one.configuration == other.configuration
        for optimizer, trial in ((arm, one), (shipped, other)):
            optimizer.tell(trial, problem.trainer.evaluate(trial))


@pytest.mark.parametrize(
    "arm", [Arm(), Arm(kernel="plain", warpings="26"), Arm(warpings="9", prior="none")], ids=lambda arm: arm.name
)
def test_an_arm_has_its_name(arm: Arm) -> None:
    assert Arm.from_name(arm.name) == arm


@pytest.mark.parametrize("kernel", KERNELS)
def test_the_likelihood_has_the_gradient_of_its_weight(kernel: str) -> None:
    space = Space([Real("x", 0, 1), Nominal("a", list("abc")), Nominal("b", [0, 1])])
    rng = np.random.default_rng(0)
    points = Points.from_encoded(space, space.sample_encoded(rng, 12))
    likelihood = Likelihood(FMKernel(space, KERNELS[kernel]), points, torch.from_numpy(rng.standard_normal(12)))
    eta = likelihood.parameters.starts(rng, 3)
    _, gradient = likelihood(eta, torch.arange(3))
    step = torch.zeros_like(eta[0])
    step[-2] = 1e-6  # of the weight of the additive terms
    above, below = (likelihood(eta + sign * step, torch.arange(3))[0] for sign in (1, -1))
    np.testing.assert_allclose(gradient[:, -2], (above - below) / 2e-6, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("name", ["design_loops", "validation"])
def test_the_page_has_the_counts_of_each_half(name: str) -> None:
    results = suite.problems_in(suite.read_runs(RESULTS / f"{name}.csv"))
    counts = []
    for e in range(results[0].incumbents.shape[2]):
        until = [replace(problem, incumbents=problem.incumbents[:, :, : e + 1]) for problem in results]
        test = next(test for test in compare_overall(until, "default") if test.other == "correlation=0")
        p = f"{test.p:.2f}" if test.p >= 0.005 else f"{test.p:.3f}"
        counts.append(f"{', '.join(map(str, test.cells))} ({p})")
    assert f"| {' | '.join(counts)} |" in PAGE


def test_the_page_has_the_counts_against_simpler_kinds() -> None:
    def count(*names: str) -> dict[str, str]:
        runs = [run for name in names for run in suite.read_runs(RESULTS / f"{name}.csv")]
        tests = compare_overall(suite.problems_in([run for run in runs if run.method != "fit=second"]), "default")
        return {test.other: f"{', '.join(map(str, test.cells))} | {float(f'{test.p:.2g}'):g}" for test in tests}

    design, validation = count("design_simpler"), count("validation_simpler")
    parts, pair = count("design_averaging", "design_parts"), count("validation_parts")
    for label, counts, arm in (
        ("5 warpings", design, "warpings=5"),
        ("no warping", design, "warpings=1"),
        ("no additive terms", design, "kernel=plain"),
        ("no log scale above the median", parts, "warpings=13"),
        ("no priors", parts, "prior=none"),
        ("plug-in predictions for ordinary kriging", parts, "prediction=plug-in"),
        ("the paper's starts", parts, "starts=plain"),
    ):
        assert f"| {label} | {counts[arm]} | – | – |" in PAGE
    both = "kernel=plain,warpings=5"
    assert f"| 5 warpings and no additive terms | {design[both]} | {validation[both]} |" in PAGE
    label = "plug-in predictions and the paper's starts"
    assert f"| {label} | – | – | {pair['prediction=plug-in,starts=plain']} |" in PAGE


def test_the_page_has_the_log_losses() -> None:
    lines = lines_of_table(read_rows(RESULTS / "design_model_quality.csv"), "default")
    rows = {cells[1].strip(): cells for cells in (line.split("|") for line in lines) if len(cells) > 4}
    for label, arm in (
        ("independent priors", "correlation=0"),
        ("correlation 0.8", "correlation=0.8"),
        ("5 warpings", "warpings=5"),
        ("no warping", "warpings=1"),
        ("no additive terms", "kernel=plain"),
        ("pairs of factors, too", "kernel=pairs"),
        ("averaged over four draws of its parameters", "fit=every"),
    ):
        assert f"| {label} | {float(rows[arm][3]):.3f} | {rows[arm][4].strip().replace(':', ', ')} |" in MEASUREMENTS
    assert f"| the default | {float(rows['default'][3]):.3f} | – |" in MEASUREMENTS


def test_the_page_has_the_counts_against_the_papers_mode() -> None:
    results = suite.problems_in(suite.read_runs(RESULTS / "other_optimizers.csv"))
    tests = []
    for e in range(results[0].incumbents.shape[2]):
        until = [replace(problem, incumbents=problem.incumbents[:, :, : e + 1]) for problem in results]
        tests += [test for test in compare_overall(until, "bo-fm") if test.other == "bo-fm-paper"]
    text = " ".join(PAGE.split())
    for numbers in ([t.cells[0] for t in tests], [t.cells[2] for t in tests]):
        assert f"{', '.join(map(str, numbers[:-1]))} and {numbers[-1]}" in text
    assert ", ".join(f"{test.p_corrected:.3f}" for test in tests) in text


def test_the_page_has_the_profiles_and_seconds() -> None:
    runs = suite.read_runs(RESULTS / "other_optimizers.csv")
    results = suite.problems_in(runs)
    printed = [line.strip("\n| ").split(" | ") for line in suite.lines_of_seconds(runs)]
    seconds = {cells[0]: float(cells[-1]) for cells in printed[1:]}
    assert len(seconds) == len(results[0].optimizers) == 14
    for k, name in enumerate(results[0].optimizers):
        regrets = np.stack([normalised_regret(problem)[k] for problem in results])[:, :, [2, 4]]  # at 50 and 100
        shares = [", ".join(f"{share:.2f}" for share in (regrets <= most).mean(axis=(0, 1))) for most in (0.1, 0.01)]
        assert f"| {name} | {' | '.join(shares)} | {float(f'{seconds[name]:.2g}'):g} |" in MEASUREMENTS


def test_the_page_has_the_means_on_labs() -> None:
    runs = [*suite.read_runs(RESULTS / "design_labs.csv"), *suite.read_runs(RESULTS / "design_averaging.csv")]
    of_labs = [run for run in runs if run.problem == "labs30" and run.method != "fit=second"]
    (labs,) = suite.problems_in(of_labs)
    means = dict(zip(labs.optimizers, labs.incumbents[:, :, -1].mean(axis=1), strict=True))
    (test,) = compare_overall([labs], "default")
    text = " ".join(PAGE.split())
    assert f"ends at {means['default']:.2f} after 100 evaluations, Optuna's GP at {means['optuna-gp']:.2f}" in text
    assert f"(BO-FM is lower in {test.cells[0]} of 8 pairs, higher in {test.cells[2]})" in text


def test_the_page_has_the_ranks_and_tests_of_other_optimizers() -> None:
    results = suite.problems_in(suite.read_runs(RESULTS / "other_optimizers.csv"))
    tests = {test.other: test for test in compare_overall(results, "bo-fm")}
    ranks = [line for line in suite.lines_of_table(results, "bo-fm") if line.count(" to ") == 5]
    assert len(ranks) == len(results[0].optimizers) == len(tests) + 1
    for line in ranks:
        name = line.split("|")[1].strip()
        if name == "bo-fm":
            assert f"{line} – | – |" in PAGE
        else:
            p = f"{tests[name].p_corrected:.3f}" if tests[name].p_corrected >= 0.001 else "< 0.001"
            assert f"{line} {', '.join(map(str, tests[name].cells))} | {p} |" in PAGE


def test_the_page_names_the_problems_on_which_another_optimizer_is_ahead() -> None:
    results = suite.problems_in(suite.read_runs(RESULTS / "other_optimizers.csv"))
    ahead = {}
    for problem in results:
        ranks = rankdata(problem.incumbents[:, :, -1], axis=0).mean(axis=1)
        best = problem.optimizers[int(ranks.argmin())]
        if ranks.min() < ranks[problem.optimizers.index("bo-fm")]:
            ahead[problem.name] = best
    named = ["gear_train (casmopolitan)", "xgb_digits (bo-fm-paper)", "dt_wine (cocabo)", "griewank (bodi)"]
    named += ["mivabo_gaussian_at_most_2 (hybo)", "ackley_bits (botorch)", "rotated_steep (bo-fm-paper)"]
    assert sorted(f"{name} ({best})" for name, best in ahead.items()) == sorted([*named, "pest_control (bodi)"])
    assert f"{len(ahead)} of the {len(results)}" in PAGE
    assert all(problem in PAGE for problem in ahead)


def test_the_page_has_the_ranks_after_200_evaluations() -> None:
    results = suite.problems_in(suite.read_runs(RESULTS / "evaluations_200.csv"))
    assert (len(results), {problem.incumbents.shape[1] for problem in results}) == (15, {4})
    tests = {test.other: test for test in compare_overall(results, "bo-fm")}
    ranks = [line for line in suite.lines_of_table(results, "bo-fm") if line.count(" to ") == len(suite.CHECKPOINTS)]
    assert len(ranks) == len(tests) + 1
    for line in ranks:
        name, *cells = line.strip("| ").split(" | ")
        end = "– | – |"
        if name in tests:
            p = f"{tests[name].p_corrected:.3f}" if tests[name].p_corrected >= 0.001 else "< 0.001"
            end = f"{', '.join(map(str, tests[name].cells))} | {p} |"
        assert f"| {name} | {' | '.join(cells[2:])} | {end}" in MEASUREMENTS
    ahead = {}
    for problem in results:
        of_runs = rankdata(problem.incumbents[:, :, -1], axis=0).mean(axis=1)
        if of_runs.min() < of_runs[problem.optimizers.index("bo-fm")]:
            ahead[problem.name] = problem.optimizers[int(of_runs.argmin())]
    first = dict.fromkeys(("ackley_bits", "michalewicz"), "botorch") | {"gear_train": "casmopolitan"}
    first |= {"speed_reducer_constrained": "smac", "xgb_digits": "optuna-gp"}
    assert ahead == {**first, **dict.fromkeys(("maxsat", "pest_control"), "bodi"), "dt_wine": "cocabo"}


@pytest.mark.parametrize("other", ["botorch", "casmopolitan"])
def test_the_page_has_the_counts_of_more_seeds(other: str) -> None:
    methods = ("bo-fm", "botorch", "casmopolitan")
    first = [run for run in suite.read_runs(RESULTS / "other_optimizers.csv") if run.method in methods]
    more = suite.read_runs(RESULTS / "more_seeds.csv")
    assert not {run.seed for run in first} & {run.seed for run in more}
    for label, runs in (("four seeds, bo-fm.md's", first), ("four more", more), ("all eight", first + more)):
        results, cells = suite.problems_in(runs), []
        for e in range(results[0].incumbents.shape[2]):
            until = [replace(problem, incumbents=problem.incumbents[:, :, : e + 1]) for problem in results]
            test = next(test for test in compare_overall(until, "bo-fm") if test.other == other)
            p = "< 0.001" if test.p_corrected < 0.001 else f"{test.p_corrected:.3f}"
            cells.append(f"{', '.join(map(str, test.cells))} ({p})")
        assert f"| {other} | {label} | {' | '.join(cells)} |" in MEASUREMENTS


def test_the_page_has_the_counts_of_twenty_other_seeds() -> None:
    runs = [run for run in suite.read_runs(RESULTS / "validation_deviation.csv") if run.method == "default"]
    results, cells = suite.problems_in([*runs, *suite.read_runs(RESULTS / "validation_casmopolitan.csv")]), []
    assert {problem.incumbents.shape[1] for problem in results} == {20}
    for e in range(results[0].incumbents.shape[2]):
        until = [replace(problem, incumbents=problem.incumbents[:, :, : e + 1]) for problem in results]
        (test,) = compare_overall(until, "default")
        p = "< 0.001" if test.p < 0.001 else f"{test.p:.3f}"
        cells.append(f"{', '.join(map(str, test.cells))} ({p})")
    assert f"| casmopolitan | 20 others | {' | '.join(cells)} |" in MEASUREMENTS


def test_the_page_has_the_published_method_after_200_evaluations() -> None:
    paper = suite.read_runs(RESULTS / "evaluations_200_paper.csv")[:15]
    assert len({run.seed for run in paper}) == 1
    runs = [run for run in suite.read_runs(RESULTS / "evaluations_200.csv") if run.method == "bo-fm"]
    results = suite.problems_in([*runs, *paper])
    assert len(results) == 15
    after_100 = [replace(problem, incumbents=problem.incumbents[:, :, :-1]) for problem in results]
    (last,), (before,) = (compare_overall(some, "bo-fm") for some in (results, after_100))
    text = " ".join(MEASUREMENTS.split())
    lower, equal, higher = last.cells
    assert f"lower on {lower} of the 15 problems, equal on {equal}, higher on {higher} (p = {last.p:.2f})" in text
    lower, equal, higher = before.cells
    assert f"after 100 lower on {lower}, equal on {equal}, higher on {higher} (p = {before.p:.3f};" in text


def test_the_page_has_the_tests_with_the_later_runs_of_bo_fm() -> None:
    runs = [run for run in suite.read_runs(RESULTS / "other_optimizers.csv") if run.method != "bo-fm"]
    runs += [run for run in suite.read_runs(RESULTS / "evaluations_200.csv") if run.method == "bo-fm"]
    tests = {test.other: test for test in compare_overall(suite.problems_in(runs), "bo-fm")}
    botorch, casmopolitan = tests["botorch"], tests["casmopolitan"]
    text = " ".join(MEASUREMENTS.split())
    assert f"{botorch.p_corrected:.2f} ({', '.join(map(str, botorch.cells))})" in text
    assert f"{casmopolitan.p_corrected:.2f} ({', '.join(map(str, casmopolitan.cells))})" in text


def test_a_file_is_continued_under_its_own_conditions_only(tmp_path: Path) -> None:
    file = tmp_path / "runs.csv"
    suite.append_run(file, suite.Run("rotated", "random", 3, 1, 0.0, 100, 0.1, (1.0,)))
    flags = {"workers": 1, "noise": 0.0, "evaluations": 100, "file": file, "problems": ["rotated"], "seeds": 1}
    same = argparse.Namespace(**flags, seeds_from=None, jobs=1)
    suite.run_missing(same, ["random"], suite.build_registered)  # nothing is missing
    assert len(suite.read_runs(file)) == 1
    for changed in ({"workers": 4}, {"noise": 0.1}, {"evaluations": 200}):
        with pytest.raises(SystemExit, match="another file"):
            suite.run_missing(argparse.Namespace(**{**vars(same), **changed}), ["random"], suite.build_registered)


def test_what_is_compared_is_there_once_for_all_methods() -> None:
    one = suite.Run("levy", "tpe", 1, 1, 0.0, 100, 2.0, (1.0,))
    slow = replace(one, seed=2, cpu_seconds=8.0)
    runs = [one, slow, replace(one, method="random", cpu_seconds=0.0)]
    assert suite.compared_runs(runs) == [one, runs[2]], "random search has one seed alone"
    assert list(suite.lines_of_seconds(runs))[1:] == ["| random | 0.00 |", "| tpe | 2.00 |"]
    with pytest.raises(SystemExit, match="in several files"):
        suite.compared_runs([*runs, slow])


def test_files_without_common_runs_are_refused() -> None:
    files = [RESULTS / f"{name}.csv" for name in ("design_labs", "workers_16")]
    labs, parallel = map(suite.read_runs, files)
    with pytest.raises(SystemExit):
        suite.problems_in([*labs, *parallel])
    with pytest.raises(SystemExit):
        list(suite.lines_of_worth(labs, parallel))
    with pytest.raises(SystemExit):
        list(lines_of_table([], "default"))


def test_methods_are_named_with_their_workers_where_these_differ() -> None:
    one = suite.Run("levy", "tpe", 1, 1, 0.0, 100, 0.1, (1.0,))
    several = replace(one, workers=16)
    noisy = replace(one, noise=0.1)
    assert suite.name_conditions([one, one]) == [one, one]
    assert [run.method for run in suite.name_conditions([one, several])] == ["tpe, 1 worker", "tpe, 16 workers"]
    assert [run.method for run in suite.name_conditions([one, noisy])] == ["tpe, noise 0", "tpe, noise 0.1"]


@pytest.mark.parametrize("workers", [4, 16])
def test_the_page_has_the_counts_of_several_workers(workers: int) -> None:
    several = suite.read_runs(RESULTS / f"workers_{workers}.csv")
    one = [run for run in suite.read_runs(RESULTS / "other_optimizers.csv") if run.method == "bo-fm"]
    pairs = suite.name_conditions([*one, *(run for run in several if run.method == "bo-fm")])
    tests = compare_overall(suite.problems_in(pairs), f"bo-fm, {workers} workers")
    tests += compare_overall(suite.problems_in(several), "bo-fm")
    cells = [", ".join(map(str, test.cells)) for test in tests]
    p = ["< 0.001" if test.p_corrected < 0.001 else f"{float(f'{test.p_corrected:.2g}'):g}" for test in tests]
    row = " | ".join(value for pair in zip(cells, p, strict=True) for value in pair)
    assert f"| {workers} | {row} |" in MEASUREMENTS


@pytest.mark.parametrize(
    ("name", "rows"),
    [("knn_wine", 178), ("knn_digits", 300), ("tree_digits", 300), ("tree_cancer", 200), ("svc_wine", 178)],
)
def test_errors_are_counts(name: str, rows: int) -> None:
    problem, rng = suite.problem_of(name), np.random.default_rng(0)
    assert name in suite.COUNTED_ERRORS
    errors = [problem.function(problem.space.sample(rng)) * rows for _ in range(3)]
    np.testing.assert_allclose(errors, np.round(errors), atol=1e-9)
    assert 0 < min(errors) < rows


@pytest.mark.parametrize("name", ["", "missing.csv", "design_model_quality.csv"])
def test_a_file_without_runs_is_refused(name: str) -> None:
    with pytest.raises(SystemExit):
        suite.read_runs(RESULTS / name)
