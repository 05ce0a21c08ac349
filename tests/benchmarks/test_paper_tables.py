"""The papers' tables: what is taken from run directories, and the page that is made of it."""

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import get_args

import mivabo_features
import numpy as np
import pandas as pd
import paper_page
import paper_tables
import pytest
import suite
from hypothesis import given
from hypothesis import strategies as st
from paper_kernels import EVALUATIONS, LABELS, has_all_kernels, kernel_overview, round_digits
from paper_overall import CHOSEN_ON, DECIDED_ON, PICTURES, overall_table, problem_results_of
from paper_page import (
    competing,
    full_length,
    mean_line,
    of_kernels,
    page,
    picture_of,
    plus_minus,
    rank_optimizers,
    table,
    write_page,
)
from paper_published import published_overview, standard_errors_above
from paper_tables import COLUMNS, DOCS, PUBLISHED, Taken, all_taken, folder_of, keep, load_tables, run_directory

from fmnas.comparison.analysis.across_problems import compare_overall, mean_ranks
from fmnas.comparison.analysis.paired_tests import holm, signed_rank_p
from fmnas.optimizers.gp.frequency_modulation import KernelName
from fmnas.platform.cli import main
from fmnas.platform.config.load import load_config
from fmnas.platform.config.source import shipped_configs

pytestmark = pytest.mark.slow

PAPER = [name for name in shipped_configs() if name.startswith("paper/")]
LITTLE = ["-o", "repeats=2", "-o", "budget.evaluations=14", "-o", "hypotheses=all", "--progress", "quiet"]


@pytest.mark.parametrize("name", sorted(PAPER))
def test_the_same_optimizers_compete_in_every_table(name: str) -> None:
    config, first = load_config(name), load_config("paper/func2c")
    more = {"hyperband", "asha", "dehb"} if config.fidelity.epochs > 2 else set()  # below 3 they have one rung
    more |= {"gp-sa"} if config.problem.startswith(("mivabo", "vae")) else set()  # of that paper
    assert {entry.name for entry in config.optimizers} == {entry.name for entry in first.optimizers} | more
    kernels = {entry.options["kernel"]: entry.label for entry in config.optimizers if "kernel" in entry.options}
    options = {entry.label: entry.options for entry in config.optimizers}
    assert (options["bo-fm-paper"], options["tpe"]) == ({"mode": "paper"}, {"multivariate": False})
    assert kernels == {kernel: f"bo-fm-{kernel}" for kernel in get_args(KernelName) if kernel != "modlap"}
    assert (config.repeats, config.seed) == (5, 0)
    fewer = {"paper/xgb_fashion_mnist": 100, "paper/vae_fmnist_small": 32}
    assert config.budget.evaluations == fewer.get(name, 200)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("paper") / "run"
    flags = ["-o", "optimizers=[regularized-evolution, random]", "--out", str(out)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fmnas.comparison.figures.FIGURES", ())
        assert main(["run", "paper/func2c", *LITTLE, *flags]) == 0
    return out


@pytest.fixture
def taken(folder: Path) -> Taken:
    return run_directory(folder)


def test_the_best_so_far_of_each_run_is_taken(folder: Path, taken: Taken) -> None:
    trials = pd.read_csv(folder / "trials.csv", converters={"objective": float})  # pandas 2 itself rounds
    for (name, _), run in trials.groupby(["optimizer", "repeat"]):
        assert run["objective"].min() in taken.bests(str(name))
    first = trials[trials["trial"] < 10].groupby(["optimizer", "repeat"])["objective"].min()
    for name in taken.facts.optimizers:
        assert list(taken.bests(name, 10)) == list(first[name])
        assert mean_line(taken, name).iloc[-1] == pytest.approx(taken.bests(name).mean())


def test_an_optimizer_that_is_run_later_joins_the_others(
    taken: Taken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_tables, "TAKEN", tmp_path)
    keep(taken)
    renamed = taken.curves.replace({"optimizer": {"random": "later", "regularized-evolution": "later 2"}})
    keep(Taken(replace(taken.facts, optimizers={"later": taken.facts.optimizers["random"]}), renamed))
    both = load_tables(folder_of(taken.facts))
    assert set(both.facts.optimizers) == {"regularized-evolution", "random", "later"}
    assert list(both.bests("random")) == pytest.approx(list(taken.bests("random")))
    with pytest.raises(SystemExit, match="repeats"):
        both.facts + replace(taken.facts, repeats=3)


def test_runs_of_fewer_evaluations_come_last_and_are_compared_where_they_end(
    folder: Path, taken: Taken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_tables, "TAKEN", tmp_path)
    monkeypatch.setattr(paper_page, "TWO_COLUMNS", 14)
    facts, curves = taken.facts, taken.curves
    first = curves["evaluation"] <= 12
    short = curves[first & (curves["optimizer"] == "random")].replace({"optimizer": {"random": "bo-fm"}})
    keep(taken)
    keep(Taken(replace(facts, evaluations=12, optimizers={"bo-fm": facts.optimizers["random"]}), short))
    both = load_tables(folder_of(facts))
    assert [both.facts.evaluations_of(name) for name in ("bo-fm", "random")] == [12, both.facts.evaluations]
    assert rank_optimizers(both, both.facts.optimizers)[-1] == "bo-fm"
    assert "bo-fm" not in full_length(both)
    assert mean_line(both, "bo-fm").index[-1] == 12
    rows = {
        line.split(" | ")[0].strip("| "): line.split(" | ")[1:4]
        for line in table(both, {}, both.facts.optimizers).splitlines()
    }
    assert rows["bo-fm"][1] == "–"
    assert rows["random"] == [rows["bo-fm"][0], plus_minus(both.bests("random")), "0 of 2"]
    keep(Taken(replace(facts, evaluations=21), curves))  # longer ones of the same optimizers replace them
    assert load_tables(folder_of(facts)).facts.evaluations_of("bo-fm") == 12
    assert load_tables(folder_of(facts)).facts.evaluations_of("random") == 21


def test_an_unfinished_run_is_not_taken(folder: Path, tmp_path: Path) -> None:
    for name, end in (("journal.jsonl", None), ("trials.csv", -4)):
        (tmp_path / name).write_text("\n".join((folder / name).read_text().splitlines()[:end]) + "\n")
    with pytest.raises(SystemExit, match="fmnas resume"):
        run_directory(tmp_path)
    (tmp_path / "trials.csv").unlink()
    with pytest.raises(SystemExit, match="fmnas resume"):
        run_directory(tmp_path)


def test_rows_are_ordered_by_mean_and_show_published_values_digit_by_digit(taken: Taken) -> None:
    order = rank_optimizers(taken, taken.facts.optimizers)
    assert taken.bests(order[0]).mean() <= taken.bests(order[1]).mean()
    about = {"source": "a paper", "rows": {"random": ["1.0", "0.10"], "GEBO": ["2.0", "0.2"]}}
    lines = table(taken, about, competing(taken, about)).splitlines()
    assert [re.split(r" \[| \| ", line.strip("| "))[0] for line in lines[2:]] == [*order, "GEBO"]
    assert "1.0 ± 0.10" in next(line for line in lines if line.startswith("| random"))


def test_kernels_are_compared_over_the_problems_that_have_all(taken: Taken) -> None:
    """Three problems, two repeats: mixture is lowest, moddif highest; modlap and prodlap differ in the fifth digit."""
    bests = {"bo-fm-mixture": -9.0, "bo-fm": 1.00001, "bo-fm-prodlap": 1.0, "bo-fm-moddif": 8.0}
    rows = [(label, repeat, EVALUATIONS, bests.get(label, 4.0), 0.0) for label in LABELS for repeat in range(2)]
    competitor = taken.facts.optimizers["random"]
    facts = replace(taken.facts, evaluations=EVALUATIONS, optimizers=dict.fromkeys(LABELS, competitor))
    whole = Taken(facts, pd.DataFrame(rows, columns=COLUMNS))
    old = {**facts.optimizers, "bo-fm-moddif": replace(competitor, superseded="another default")}
    older = replace(whole, facts=replace(facts, problem="ackley5c", optimizers=old))
    assert [has_all_kernels(one) for one in (whole, taken, older)] == [True, False, False]
    problems = [replace(whole, facts=replace(facts, problem=name)) for name in ("func2c", "labs", "maxsat")]
    _, _, *lines, _, left_out = kernel_overview([*problems, taken, older]).splitlines()
    cells = {line.split(" | ")[0].strip("| "): line.strip("| ").split(" | ")[1:] for line in lines}
    assert [*cells][:: len(LABELS) - 1] == ["mixture", "moddif"]
    assert cells["mixture"][:2] == ["1.0 (1.0 to 1.0)", "6, 0, 0"]
    assert cells["modlap"] == ["2.5 (2.5 to 2.5)", "–", "–", "–"]
    assert cells["prodlap"][:3] == ["2.5 (2.5 to 2.5)", "0, 6, 0", "1.000"]
    assert cells["prodlap"][3] == cells["moddif"][3] != "1.000"  # six equal signs; by all digits prodlap is lower
    assert cells["moddif"][:2] == ["8.0 (8.0 to 8.0)", "0, 0, 6"]
    assert left_out == "Left out: ackley5c."
    with pytest.raises(SystemExit, match="each once"):
        kernel_overview([whole, whole])


def test_published_rows_are_compared_in_standard_errors(taken: Taken) -> None:
    """Two repeats of 1 and 3: mean 2, standard error 1. GEBO's deviation of ten runs becomes a standard error."""
    rows = [("random", repeat, 14, best, 0.0) for repeat, best in enumerate((1.0, 3.0))]
    facts = replace(taken.facts, evaluations=14, optimizers={"random": taken.facts.optimizers["random"]})
    ours = Taken(facts, pd.DataFrame(rows, columns=COLUMNS))
    about = {"source": "GEBO, Table 1", "rows": {"random": ["0.0", "3.1623"], "hybo": ["1.0", "0.1"]}}
    assert standard_errors_above(ours, "random", about) == pytest.approx(2 / 2**0.5, rel=1e-4)
    errors = {"source": "BO-FM, Table E.1", "rows": {"random": ["4.0", "0.0"], "tpe": ["4.0", "0.0"]}}
    assert standard_errors_above(ours, "random", errors) == pytest.approx(-2.0)
    overview = published_overview([ours], {"func2c": errors, "labs": about})
    assert overview.splitlines() == ["| BO-FM | func2c |", "|---|---|", "| random | -2.0 |"]
    assert published_overview([ours], {}) == ""


def test_the_page_counts_the_differences_from_published_means() -> None:
    published, above, below, cells = json.loads(PUBLISHED.read_text()), [], 0, 0
    for taken in all_taken():
        about = published.get(taken.facts.problem, {"rows": {}})
        for label in (
            (about["rows"].keys() & taken.facts.optimizers.keys()) - {"hybo"} if taken.facts.repeats == 5 else ()
        ):
            difference, cells = standard_errors_above(taken, label, about), cells + 1
            above += [(taken.facts.problem, label)] * (difference > 2)
            below += difference < -2 and about["source"].startswith("BO-FM")
    assert above == [("func2c", "tpe")]
    page = (DOCS / "results.md").read_text()
    assert f"there are {cells} cells" in " ".join(page.split())
    assert f"{below} are below -2" in " ".join(page.split())


def test_the_right_half_leaves_out_what_the_default_was_chosen_on() -> None:
    """And the page names the problems that had a part in the decision which parts stay."""
    names = {taken.facts.problem for taken in all_taken()}
    assert set(suite.DESIGN) & names <= set(CHOSEN_ON) <= names
    text = (DOCS / "results.md").read_text()
    of_all = text[text.index("## All optimizers") : text.index("## The kernels")]
    assert all(f"{name}" in of_all for name in set(suite.VALIDATION) & names)


def test_what_no_part_of_the_default_was_decided_on() -> None:
    """The page has the ranks of the problems that are in neither list."""
    assert set(suite.VALIDATION) & {taken.facts.problem for taken in all_taken()} == set(DECIDED_ON)
    problems = [p for p in problem_results_of(all_taken()) if p.name not in {*CHOSEN_ON, *DECIDED_ON}]
    last = [replace(problem, incumbents=problem.incumbents[:, :, -1:]) for problem in problems]
    ranks = mean_ranks(last).set_index("optimizer")["mean"].round(1)
    assert (len(last), ranks["bo-fm-paper"], ranks["bodi"], ranks["bo-fm"]) == (7, 4.6, 5.3, 5.5)
    text = " ".join((DOCS / "results.md").read_text().split())
    assert all(f"{name} {ranks[name]} (" in text for name in ("bo-fm-paper", "bodi", "bo-fm"))
    unshown = [test.other for test in compare_overall(last, "bo-fm") if test.p_corrected >= 0.05]
    assert len(unshown) == 10
    assert all(f"{name} (" in text for name in unshown)


def test_what_the_page_says_of_the_autoencoder_is_so() -> None:
    taken = load_tables(paper_tables.TAKEN / "vae_fmnist_small-seed-1931155310")
    bests = {name: taken.bests(name) for name in taken.facts.optimizers}
    differences = {name: bests["bo-fm"] - bests[name] for name in bests if name != "bo-fm"}
    assert {len(difference) for difference in differences.values()} == {8}
    assert min(bests, key=lambda name: bests[name].mean()) == "smac"
    assert [name for name in differences if (differences[name] > 0).all()] == ["smac", "botorch", "bo-fm-adddif"]
    assert (differences["gebo"] < 0).sum() == 7
    corrected = holm([signed_rank_p(difference) for difference in differences.values()])
    assert (len(corrected), min(corrected)) == (23, pytest.approx(0.180, abs=5e-4))
    assert bests["mivabo"].mean() > bests["random"].mean()


def test_what_the_page_says_of_mivabo_and_gebo_is_so() -> None:
    means = {
        (taken.facts.problem, name, at): float(taken.bests(name, at).mean())
        for taken in all_taken()
        for name in {"gebo", "random", "mivabo", "mivabo-sa", "gp-sa"} & taken.facts.optimizers.keys()
        for at in (100, 200)
    }
    problems = dict.fromkeys(problem for problem, name, _ in means if name == "gebo")
    assert len(problems) == 25
    above, worse = (
        [name for name in problems if means[name, method, 200] > means[name, "random", 200]]
        for method in ("gebo", "mivabo")
    )
    of_gebo = {name for name, about in json.loads(PUBLISHED.read_text()).items() if "seconds" in about} | {"func2c"}
    assert (len(above), of_gebo & set(above)) == (9, set())
    functions = [name for name in problems if name.startswith("mivabo")]
    assert (len(functions), len(worse), set(functions) & set(worse)) == (4, 10, set())
    assert {"xgb_table", "vae_fmnist_small"} <= set(worse)
    for name in functions:
        assert all(means[name, "gp-sa", at] < means[name, "mivabo", at] for at in (100, 200))
    higher = [name for name in functions if means[name, "mivabo-sa", 200] > means[name, "mivabo", 200]]
    assert len(higher) == 3


def test_mivabo_with_the_features_of_its_functions_is_lowest_as_the_page_says() -> None:
    bests = pd.read_csv(mivabo_features.RESULTS)
    own = bests[bests["optimizer"] == "mivabo-own-features"].groupby("problem")["200"].mean()
    assert len(own) == 4
    text = (paper_tables.HERE / "data" / "results_published_rows.md").read_text()
    for taken in all_taken():
        if taken.facts.problem not in own.index:
            continue
        mine = own[taken.facts.problem]
        assert all(mine < taken.bests(label).mean() for label in taken.facts.optimizers)
        assert f"{mine:.2f} ± " in text
        variants = bests[(bests["problem"] == taken.facts.problem)].groupby("optimizer")["200"].mean()
        assert min(variants["mivabo-theory"], variants["mivabo-unit"]) > taken.bests("mivabo", 200).mean()
        for label in ("gp-sa", "mivabo-sa"):
            assert variants[label] == pytest.approx(taken.bests(label).mean(), abs=1e-9)


def test_all_optimizers_are_compared_over_all_problems(taken: Taken) -> None:
    """Two problems, two repeats, four evaluations; "short" is left out, and of two tables the larger one counts."""
    bests = {"bo-fm": (4.0, 3.0, 2.0, 1.0), "random": (4.0, 4.0, 4.0, 1.00001), "short": (4.0, 4.0, 4.0, 0.0)}
    rows = [
        (name, repeat, evaluation, best, 0.0)
        for name, curve in bests.items()
        for repeat in range(2)
        for evaluation, best in zip((1, 2, 3, EVALUATIONS), curve, strict=True)
    ]
    competitor = taken.facts.optimizers["random"]
    optimizers = dict.fromkeys(bests, competitor)
    facts = replace(taken.facts, evaluations=EVALUATIONS, optimizers=optimizers)
    tables = [Taken(replace(facts, problem=name), pd.DataFrame(rows, columns=COLUMNS)) for name in ("maxsat", "func2c")]
    few = {**optimizers, "short": replace(competitor, evaluations=EVALUATIONS - 1)}
    tables[1] = replace(tables[1], facts=replace(tables[1].facts, optimizers=few))
    smaller = replace(tables[0], facts=replace(tables[0].facts, optimizers={"bo-fm": competitor}))
    problems = problem_results_of([*tables, smaller])
    assert [(problem.name, problem.optimizers) for problem in problems] == [
        ("func2c", ("bo-fm", "random")),
        ("maxsat", ("bo-fm", "random")),
    ]
    assert problems[0].incumbents[:, 0, [0, 1, 50, EVALUATIONS - 1]].tolist() == [[4, 3, 2, 1], [4, 4, 4, 1]]
    header, _, *lines = overall_table([*tables, smaller]).splitlines()
    assert "rank on 2 problems" in header
    assert "rank on 1 of them" in header  # func2c had a part in the choice of the default
    assert [line.split(" | ")[2] for line in lines[:2]] == ["–", "0, 4, 0"]
    assert {"func2c", "short"} <= set(re.findall(r"\w+", " ".join(lines[2:])))
    assert overall_table([taken]) == ""


@given(st.floats(-1e6, 1e6).filter(lambda value: abs(value) > 1e-6))
def test_values_are_rounded_to_significant_digits(value: float) -> None:
    (rounded,) = round_digits(np.array([value]))
    assert abs(rounded - value) <= 0.5e-3 * abs(value) * (1 + 1e-9)
    assert len(f"{rounded:e}".split("e")[0].strip("-0").rstrip("0").replace(".", "")) <= 4


def test_kernels_have_a_table_of_their_own(taken: Taken) -> None:
    taken = replace(taken, facts=replace(taken.facts, optimizers={"bo-fm-mixture": taken.facts.optimizers["random"]}))
    about = {"source": "a paper", "rows": {"bo-fm-moddif": ["1.0", "0.10"], "cocabo": ["2.0", "0.2"]}}
    assert of_kernels(taken, about) == ["bo-fm-moddif", "bo-fm-mixture"]
    assert competing(taken, about) == ["cocabo"]
    renamed = replace(taken, curves=taken.curves.replace({"optimizer": {"random": "bo-fm-mixture"}}))
    lines = table(renamed, about, of_kernels(taken, about)).splitlines()[2:]
    assert [line.split(" | ")[0] for line in lines] == ["| bo-fm-mixture", "| bo-fm-moddif"]


def test_the_page_is_what_the_files_and_the_published_numbers_give() -> None:
    tables = all_taken()
    assert page(tables, json.loads(PUBLISHED.read_text())) == (DOCS / "results.md").read_text()
    pictures = {picture_of(taken) for taken in tables} | {f"results/{name}.png" for name in PICTURES}
    assert pictures == {f"results/{path.name}" for path in (DOCS / "results").iterdir()}


def test_the_page_is_written_with_its_figures(taken: Taken, tmp_path: Path) -> None:
    write_page([taken], {}, tmp_path)
    assert (tmp_path / "results.md").read_text() == page([taken], {})
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*.png")] == [picture_of(taken)]
