"""The papers' tables: what is taken from run directories, and the page that is made of it."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pandas as pd
import paper_tables
import pytest
from paper_page import (
    PAPER_PROTOCOL,
    TUNED_ON,
    footnotes,
    mean_line,
    mismatch,
    overview,
    plus_minus,
    printed,
    protocol,
    ranked,
    remarks,
    table,
    write_page,
)
from paper_tables import DOCS, PUBLISHED, Competitor, Taken, all_taken, folder_of, keep, read, run_directory

from fmnas.platform.cli import main
from fmnas.platform.config.load import load_config
from fmnas.platform.config.source import shipped_configs
from fmnas.platform.registry import OPTIMIZERS

PAPER = sorted(name for name in shipped_configs() if name.startswith("paper/"))
LITTLE = ["-o", "repeats=2", "-o", "budget.evaluations=14", "-o", "hypotheses=all", "--progress", "quiet"]


def ran(folder: Path, optimizers: str) -> Path:
    assert main(["run", "paper/func2c", *LITTLE, "-o", f"optimizers={optimizers}", "--out", str(folder)]) == 0
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return ran(tmp_path_factory.mktemp("paper") / "run", "[regularized-evolution, random]")


@pytest.fixture
def taken(folder: Path) -> Taken:
    return run_directory(folder)


COMPETITORS = {entry.name for entry in load_config("paper/func2c").optimizers}


@pytest.mark.parametrize("name", PAPER)
def test_the_same_optimizers_compete_in_every_table(name: str) -> None:
    config = load_config(name)
    assert {entry.name for entry in config.optimizers} == COMPETITORS
    assert config.repeats == 5
    assert config.seed == 0
    assert config.budget.evaluations == (100 if name == "paper/xgb_fashion_mnist" else 200)
    options = {entry.label: (entry.name, entry.options) for entry in config.optimizers}
    assert options["bo-fm"] == ("bo-fm", {})
    assert options["bo-fm-paper"] == ("bo-fm", {"mode": "paper"})
    assert options["tpe"] == ("tpe", {"multivariate": False})


def test_what_is_taken_is_the_best_so_far_of_each_run(folder: Path, taken: Taken) -> None:
    trials = pd.read_csv(folder / "trials.csv")
    for (name, _), run in trials.groupby(["optimizer", "repeat"]):
        assert run["objective"].min() in taken.bests(str(name))
    first = trials[trials["trial"] < 10].groupby(["optimizer", "repeat"])["objective"].min()
    for name in taken.facts.optimizers:
        assert list(taken.bests(name, 10)) == list(first[name])
        assert mean_line(taken, name).iloc[-1] == pytest.approx(taken.bests(name).mean())
    assert taken.facts.initial == 10
    assert len(taken.facts.commits) == 1


def test_an_optimizer_that_comes_later_joins_the_others(
    taken: Taken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_tables, "TAKEN", tmp_path)
    keep(taken)
    keep(run_directory(ran(tmp_path / "later", "[{name: random, label: again}]")))
    both = read(folder_of(taken.facts))
    assert set(both.facts.optimizers) == {"regularized-evolution", "random", "again"}
    assert list(both.bests("random")) == pytest.approx(list(taken.bests("random")))
    with pytest.raises(SystemExit, match=r"repeats is 2 .* and 3"):
        both.facts + replace(taken.facts, repeats=3)


def test_what_an_optimizer_did_and_is_told_is_taken_with_its_runs(
    taken: Taken, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper_tables, "TAKEN", tmp_path)
    keep(run_directory(ran(tmp_path / "bohb", "[bohb]")))  # which takes no initial design
    keep(run_directory(ran(tmp_path / "cocabo", "[cocabo, {name: bo-fm, label: bo-fm-paper, mode: paper}]")))
    keep(taken)
    facts = read(folder_of(taken.facts)).facts
    assert facts.initial == 10
    competitors = facts.optimizers
    assert set(competitors) == {"bohb", "cocabo", "bo-fm-paper", "regularized-evolution", "random"}
    assert competitors["random"].by_method is None
    assert competitors["regularized-evolution"].by_method == 0
    assert competitors["cocabo"].by_method == pytest.approx(4 / 14)
    assert competitors["cocabo"].caveat == OPTIMIZERS["cocabo"].optimizer.caveat({}) != ""
    assert competitors["bo-fm-paper"].caveat == ""
    assert competitors["bo-fm-paper"].options == {"mode": "paper"}
    assert facts.commits == competitors["cocabo"].commits


def test_rows_are_marked_with_what_a_reader_must_know(taken: Taken) -> None:
    random_search = Competitor("bohb", {}, ["abc"], by_method=0.0)
    told = Competitor("cocabo", {}, ["abc"], caveat="knows its budget.", by_method=0.5)
    earlier = Competitor("bo-fm", {}, ["abc"], superseded="it took turns.")
    assert [len(remarks(one)) for one in (random_search, told, earlier)] == [1, 1, 1]
    assert "abc" in remarks(earlier)[0]
    optimizers = {"regularized-evolution": replace(random_search, caveat=told.caveat), "random": told}
    marked = Taken(replace(taken.facts, optimizers=optimizers), taken.curves)
    notes = footnotes(marked)
    assert set(notes) == {*remarks(random_search), *remarks(told)}
    rows = table(marked, {}).splitlines()[2:]
    for name, competitor in optimizers.items():
        marks = ", ".join(str(notes.index(text) + 1) for text in remarks(competitor))
        assert any(row.startswith(f"| {name} [{marks}] |") for row in rows)


def test_a_table_of_200_evaluations_has_a_column_at_100(taken: Taken) -> None:
    longer = taken.curves.assign(evaluation=taken.curves["evaluation"].where(taken.curves["evaluation"] <= 10, 150.0))
    double = Taken(replace(taken.facts, evaluations=200), longer)
    head, _, row, *_ = (line.strip("| ").split(" | ") for line in table(double, {}).splitlines())
    assert head[1:3] == ["at 100", "at 200"]
    best = ranked(double)[0]
    assert [row[1], row[2]] == [plus_minus(double.bests(best, 100)), plus_minus(double.bests(best))]
    assert list(double.bests(best, 100)) == list(taken.bests(best, 10))
    assert table(taken, {}).splitlines()[0].split(" | ")[1] == "at 14"


def test_published_rows_of_another_budget_are_said_to_be(taken: Taken) -> None:
    about = {"source": "a paper", "evaluations": 200, "rows": {"random": ["1.0", "0.1"]}}
    assert "200 evaluations" in mismatch(taken, about)
    assert "(a paper), at 200 |" in table(taken, about).splitlines()[0]
    assert mismatch(Taken(replace(taken.facts, evaluations=200), taken.curves), about) == ""
    assert mismatch(taken, {"source": "a paper", "rows": {}}) == ""


def test_a_place_on_the_points_that_bofm_was_tuned_on_is_marked(taken: Taken) -> None:
    optimizers = {"bo-fm": Competitor("bo-fm", {}, ["abc"]), "random": Competitor("random", {}, ["abc"])}
    curves = taken.curves.replace({"optimizer": {"regularized-evolution": "bo-fm"}})
    for seed, problem in ((0, "func2c"), (0, "pressure_vessel"), (7, "func2c")):
        one = Taken(replace(taken.facts, problem=problem, seed=seed, optimizers=optimizers), curves)
        tuned = problem in TUNED_ON and seed == PAPER_PROTOCOL
        assert ("constants" in overview([one])) == tuned == ("constants" in protocol(one))
        assert ("seed=7" in protocol(one)) == (seed == 7)


def test_an_unfinished_run_is_not_taken(folder: Path, tmp_path: Path) -> None:
    for name in ("journal.jsonl", "trials.csv"):
        lines = (folder / name).read_text().splitlines()
        (tmp_path / name).write_text("\n".join(lines[: -4 if name == "trials.csv" else None]) + "\n")
    with pytest.raises(SystemExit, match="fmnas resume"):
        run_directory(tmp_path)


def test_the_page_is_what_the_files_and_the_published_numbers_give(tmp_path: Path) -> None:
    write_page(all_taken(), json.loads(PUBLISHED.read_text()), tmp_path)
    assert (tmp_path / "results.md").read_text() == (DOCS / "results.md").read_text()
    pictures = {path.name for path in (tmp_path / "results").iterdir()}
    assert pictures == {path.name for path in (DOCS / "results").iterdir()}
    assert pictures == set(re.findall(r"results/([\w-]+\.png)", (DOCS / "results.md").read_text()))


def test_published_rows_are_shown_digit_by_digit() -> None:
    published = json.loads(PUBLISHED.read_text())
    assert published["func2c"]["rows"]["bo-fm-paper"] == ["-0.2063", "0.0000"]
    assert printed(published["func2c"]["rows"]["bo-fm-paper"]) == "-0.2063 ± 0.0000"
    assert {about["evaluations"] for about in published.values() if about["source"].startswith("BO-FM")} == {100, 200}
    labels = {entry.label for name in PAPER for entry in load_config(name).optimizers}
    for about in published.values():
        assert set(about["rows"]) <= labels | {"HyBO", "GEBO"}
        assert all(re.fullmatch(r"-?\d+\.\d+", part) for pair in about["rows"].values() for part in pair)


def test_tables_are_ordered_by_their_means(taken: Taken) -> None:
    order = ranked(taken)
    assert taken.bests(order[0]).mean() <= taken.bests(order[1]).mean()
    lines = table(taken, {"source": "a paper", "rows": {"random": ["1.0", "0.1"], "GEBO": ["2.0", "0.2"]}}).splitlines()
    assert [re.split(r" \[| \| ", line.strip("| "))[0] for line in lines[2:]] == [*order, "GEBO"]
    assert "1.0 ± 0.1" in next(line for line in lines if line.startswith("| random"))
    assert order[0] in overview([taken])


def test_what_was_taken_is_whole() -> None:
    assert all_taken()
    for taken in all_taken():
        assert set(taken.curves["optimizer"]) == set(taken.facts.optimizers)
        assert all(competitor.commits for competitor in taken.facts.optimizers.values())
        runs = taken.curves.groupby(["optimizer", "repeat"])
        assert (runs["evaluation"].max() <= taken.facts.evaluations).all()
        assert len(runs) == len(taken.facts.optimizers) * taken.facts.repeats
        assert (runs["best"].diff().dropna() <= 0).all()
