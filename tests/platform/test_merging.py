"""One report of several run directories."""

import csv
import json
import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support import write_journal

from fmnas.comparison import Budget, ReportContext
from fmnas.comparison.analysis.trials import read_trials
from fmnas.comparison.report import compute_results
from fmnas.comparison.summary import Summary
from fmnas.platform.cli import main
from fmnas.platform.errors import RunDirectoryError
from fmnas.platform.experiment.events import DriverStarted
from fmnas.platform.experiment.journal import read_journal
from fmnas.platform.problems import ALIASES
from fmnas.platform.report.merge import load_report_input, merge_retrained, write_report_of

pytestmark = pytest.mark.slow

Run = Callable[..., Path]


@pytest.fixture(scope="module", autouse=True)
def _without_figures(_one_figure: None) -> Iterator[None]:
    """The reports of single problems have none; those over several problems have theirs."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("fmnas.comparison.figures.FIGURES", ())
        yield


@pytest.fixture
def without_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    """The figures of a report over several problems are drawn, and not written to files or into the page."""
    monkeypatch.setattr("fmnas.comparison.problems_report.save_figure", lambda *_: None)
    monkeypatch.setattr("fmnas.comparison.page.page.inline_svg", lambda *_: "")


EVOLUTION = "name: regularized-evolution, tournament: 2, population"
SMALL = ["workers.kind=in-process", "tracking.enabled=false", "initial_design=3", "budget.evaluations=6", "repeats=2"]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """run(*overrides): the directory of a finished experiment with these overrides; tests must not change it."""

    @cache
    def run_experiment(*overrides: str) -> Path:
        out = tmp_path_factory.mktemp("runs") / "run"
        flags = [part for override in (*SMALL, *overrides) for part in ("-o", override)]
        assert main(["run", "smoke", *flags, "--progress", "quiet", "--out", str(out)]) == 0
        return out

    return run_experiment


@pytest.fixture
def one(run: Run) -> Path:
    """Two repeats of random search from seed 0."""
    return run("optimizers=[random]")


def summarize_merged(*roots: Path) -> dict[str, Any]:
    """The summary of a merged report, as summary.json has it."""
    results = load_report_input(roots)
    return compute_results(results.trials, results.context).summary.to_json()


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def merge_refused(*roots: Path, out: Path | None = None) -> str:
    with pytest.raises(RunDirectoryError) as error:
        write_report_of(roots, out, print)
    return str(error.value)


def test_other_optimizers_of_the_same_repeats_are_paired(one: Path, run: Run, tmp_path: Path) -> None:
    two, out = run(f"optimizers=[{{{EVOLUTION}: 4}}]"), tmp_path / "both"
    before = (one / "summary.json").read_bytes()
    assert main(["report", str(one), str(two), "--out", str(out)]) == 0
    (pair,) = json.loads((out / "summary.json").read_text())["tests"]["pairs"]
    assert (pair["first"], pair["second"], pair["repeats"]) == ("random", "regularized-evolution", 2)
    assert len(rows(out)) == len(rows(one)) + len(rows(two))
    assert (out / "report" / "index.html").is_file()
    designs = [{r["x1"] for r in rows(d) if r["repeat"] == "1" and r["origin"] == "initial"} for d in (one, two)]
    assert designs[0] == designs[1], "the same initial design is what makes them pairs"
    assert len(designs[0]) == 3
    assert (one / "summary.json").read_bytes() == before


def test_labels_tell_options_of_one_optimizer_apart(one: Path, run: Run) -> None:
    two = run(f"optimizers=[{{{EVOLUTION}: 3, label: few}}, {{{EVOLUTION}: 5, label: many}}]")
    assert {row["run"] for row in rows(two)} == {f"{label}/repeat-{r}" for label in ("few", "many") for r in (0, 1)}
    assert set(summarize_merged(one, two)["optimizers"]) == {"random", "few", "many"}
    assert "few" in merge_refused(two, run("optimizers=[{name: random, label: few}]"))


def test_repeats_of_a_different_seed_are_numbered_on(one: Path, run: Run) -> None:
    more = run("optimizers=[random]", "seed=7")
    values = summarize_merged(one, more)["optimizers"]["random"]["values"]
    expected = [json.loads((d / "summary.json").read_text())["optimizers"]["random"]["values"] for d in (one, more)]
    assert list(values) == ["0", "1", "2", "3"]
    assert list(values.values()) == [*expected[0].values(), *expected[1].values()]
    assert set(load_report_input([one, more]).trials["run"]) == {f"random/repeat-{i}" for i in range(4)}


def test_optimizers_of_different_seeds_are_not_paired(one: Path, run: Run) -> None:
    (pair,) = summarize_merged(one, run(f"optimizers=[{{{EVOLUTION}: 4}}]", "seed=7"))["tests"]["pairs"]
    assert pair["repeats"] == 0


def test_the_same_repeat_twice_is_refused(one: Path, tmp_path: Path) -> None:
    again = Path(shutil.copytree(one, tmp_path / "again"))
    message = merge_refused(one, again, out=tmp_path / "both")
    assert all(word in message for word in (str(one), str(again), "repeat 0 of random", "seed 0"))
    assert not (tmp_path / "both").exists()


def test_several_problems_are_no_single_comparison(one: Path, run: Run) -> None:
    with pytest.raises(RunDirectoryError, match=r"func2c and ackley5c .*`fmnas report") as raised:
        load_report_input([one, run("optimizers=[random]", "problem=ackley5c")])
    assert "variable" not in str(raised.value)


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("fixed={h1: 0}", "fixed.h1"),
        ("fidelity.epochs=2", "fidelity.epochs = 3 and 2"),
        ("initial_design=2", "initial_design = 3 and 2"),
        ("on_failure=skip", "on_failure = 'penalty' and 'skip'"),
        ("budget.seconds=60", "budget.seconds = null and 60.0"),
        (f"optimizers=[{{{EVOLUTION}: 5}}]", "optimizer regularized-evolution.population = 4 and 5"),
    ],
)
def test_experiments_that_cannot_be_compared_are_refused(override: str, key: str, run: Run) -> None:
    first = run(f"optimizers=[{{{EVOLUTION}: 4}}]")
    message = merge_refused(first, run(f"optimizers=[{{{EVOLUTION}: 4}}]", "seed=7", override))
    assert key in message
    assert "fmnas extend" not in message, "only budgets can grow"


def test_raced_trials_are_not_merged_with_whole_ones(run: Run) -> None:
    simulated = "optimizers=[random]", "problem=joint_recorded", "workers.kind=simulated", "fidelity.epochs=3"
    assert "racing = null and 1" in merge_refused(run(*simulated), run(*simulated, "seed=7", "racing=1"))


def test_a_problem_and_its_alias_are_one_problem(
    one: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(ALIASES, "another_name", "func2c")
    other = run("optimizers=[random]", "problem=another_name", "seed=7")
    summary, _ = write_report_of([one, other], tmp_path / "both", print)
    assert isinstance(summary, Summary)


def test_different_problems_are_compared_over_all_of_them(
    run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same optimizers on func2c, in two directories, and on func3c with a larger budget."""
    both = "optimizers=[random, tpe]"
    roots = [
        run(both),
        run(both, "seed=7"),
        run(both, "problem=func3c", "budget.evaluations=7", "hypotheses=tpe", "optimizers.1.startup=4"),
    ]
    capsys.readouterr()
    for _ in range(2):  # an earlier report is overwritten
        assert main(["report", *map(str, roots), "--out", str(tmp_path / "all")]) == 0
    assert "\n\n\n" not in capsys.readouterr().out
    summary = json.loads((tmp_path / "all/summary.json").read_text())
    assert (summary["problems"], summary["evaluations"], summary["reference"]) == (["func2c", "func3c"], 6, "random")
    assert sum(row["mean"] for row in summary["optimizers"].values()) == pytest.approx(3)
    with (tmp_path / "all/report/results.csv").open() as file:
        repeats = {row["problem"]: row["repeats"] for row in csv.DictReader(file)}
    assert repeats == {"func2c": "4", "func3c": "2"}
    tables = (tmp_path / "all/report/tables.tex").read_text()
    assert "func2c" in tables
    assert "func3c" in tables
    page = (tmp_path / "all/report/index.html").read_text()
    for root, record in zip(roots, summary["experiments"], strict=True):
        links = re.findall(r"<td><a href='([^']*)'>([^<]*)</a></td>", page)
        assert (record["page"], record["directory"]) in links
        assert (tmp_path / "all/report" / record["page"]).samefile(root / "report/index.html")
        assert (tmp_path / "all/report" / record["directory"]).samefile(root)
    first, second, third = summary["experiments"]
    assert [record["seed"] for record in (first, second, third)] == [0, 7, 0]
    assert (third["problem"], third["repeats"], third["evaluations"]) == ("func3c", 2, 7)
    assert first["options"] == second["options"] == ""
    assert third["options"] == "tpe: startup 4"
    assert f"<td>{first['version']}</td>" in page
    assert first["version"].startswith("fmnas ")


def test_problems_without_two_common_optimizers_are_refused(
    one: Path, run: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = run("optimizers=[random]", "problem=func3c")
    assert main(["report", str(one), str(other), "--out", str(tmp_path / "all")]) == 2
    message = capsys.readouterr().err
    assert all(words in message for words in ("optimizers", "func2c has random", "func3c has random"))


def test_different_budgets_are_compared_at_the_smallest(one: Path, run: Run, tmp_path: Path) -> None:
    fewer = Path(shutil.copytree(one, tmp_path / "fewer"))
    more = run("optimizers=[random, cocabo]", "seed=7", "budget.evaluations=9")
    results = load_report_input([fewer, more])
    assert set(results.trials.groupby("run").size()) == {6}
    assert results.context.budget.evaluations == 6
    whole = read_trials(more / "trials.csv")
    first = whole[whole["run"] == "random/repeat-0"].sort_values("finished_at").head(6)
    limited = results.trials[results.trials["run"] == "random/repeat-2"]
    assert sorted(limited["objective"]) == sorted(first["objective"])
    assert any(str(more) in remark.text for remark in results.context.remarks)
    assert [remark.optimizer for remark in results.context.remarks if "9" in remark.text][1:] == ["cocabo"]
    assert main(["extend", str(fewer), "-o", "budget.evaluations=9", "--progress", "quiet"]) == 0
    assert set(load_report_input([fewer, more]).trials.groupby("run").size()) == {9}


@pytest.mark.parametrize("is_retrained", [True, False])
def test_a_retraining_beyond_the_smallest_budget_is_said_to_be_left_out(
    is_retrained: bool, one: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = pd.DataFrame({"run": ["random/repeat-0"], "repeat": [0]}) if is_retrained else None
    longer = run("optimizers=[random]", "budget.evaluations=9", "seed=7")
    monkeypatch.setattr("fmnas.platform.report.write.retrained_table", lambda _: table)
    monkeypatch.setattr("fmnas.platform.report.merge.merge_retrained", lambda contexts: (None, []))
    (remark,) = (r.text for r in load_report_input([one, longer]).context.remarks if "left out" in r.text)
    assert ("retraining" in remark) == is_retrained


def test_a_warm_start_as_long_as_the_smallest_budget_is_refused(one: Path, run: Run) -> None:
    warm = run(f"optimizers=[{{name: tpe, warm_start: '{one}:random'}}]", "budget.evaluations=8")
    assert "fmnas extend DIR -o budget.evaluations=8" in merge_refused(one, warm)


def test_retrainings_with_different_settings_are_left_out() -> None:
    columns = {"epochs": 50, "images": 60_000, "test_images": 10_000, "test_error_seed_1": 0.1}
    contexts = [
        ReportContext("n", "joint", Budget(1, 25), {}, "", retrained=pd.DataFrame([{**columns, **changed}]))
        for changed in ({}, {}, {"epochs": 25}, {"test_error_seed_2": 0.2})
    ]
    table, notes = merge_retrained(contexts[:2])
    assert (len(table), notes) == (2, [])
    for other in contexts[2:]:
        table, (note,) = merge_retrained([contexts[0], other])
        assert table is None
        assert "left out" in note.text


def test_a_report_overwrites_neither_experiments_nor_user_files(one: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    user = tmp_path / "thesis"
    (user / "report").mkdir(parents=True)
    refusals = [
        merge_refused(one, out=one),
        merge_refused(one, out=tmp_path / "file"),
        merge_refused(one, out=tmp_path / ("x" * 300)),
    ]
    for name in ("trials.csv", "report/index.html"):
        (user / name).write_text("mine")
        refusals.append(merge_refused(one, out=user))
    (user / "summary.json").write_text("{}")
    (user / "environment.json").write_text("{}")  # an experiment whose journal is lost
    refusals.append(merge_refused(one, out=user))
    assert all("--out DIR" in message for message in refusals)
    assert (user / "trials.csv").read_text() == "mine"


def test_a_report_overwrites_an_earlier_one(one: Path, tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    first, folder = write_report_of([one], tmp_path / "both", print)
    (tmp_path / "both" / "notes.txt").write_text("mine")
    assert write_report_of([one], folder.root, print)[0].headline == first.headline
    assert (tmp_path / "both" / "notes.txt").read_text() == "mine"


def test_without_out_the_report_is_in_runs(
    one: Path, run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    more = run("optimizers=[random]", "seed=7")
    monkeypatch.chdir(tmp_path)
    _, folder = write_report_of([one, more], None, print)
    assert folder.root == Path("runs/report-run-run")
    assert (tmp_path / "runs" / "report-run-run" / "trials.csv").is_file()


@pytest.mark.usefixtures("without_pictures")
def test_one_label_is_one_optimizer_on_all_problems(run: Run, tmp_path: Path) -> None:
    """Whichever directory of a problem has it; a label that some problem lacks is left out anyway."""
    random = run("optimizers=[random, tpe]")
    three = run("problem=func3c", f"optimizers=[random, tpe, {{{EVOLUTION}: 5}}]")
    bohb = run("optimizers=[{name: bohb, label: regularized-evolution}]")
    for roots in ((random, bohb, three), (bohb, random, three)):
        refusal = merge_refused(*roots, out=tmp_path / "refused")
        assert all(word in refusal for word in ("another label", "bohb", str(bohb), str(three)))
    other = run(f"optimizers=[{{{EVOLUTION}: 4}}]")
    for i, roots in enumerate(((random, other, three), (other, random, three))):
        write_report_of(roots, tmp_path / f"{i}", print)
        (remark,) = (
            r for r in json.loads((tmp_path / f"{i}/summary.json").read_text())["remarks"] if r[1][:3] == "reg"
        )
        assert remark == ["func3c", f"regularized-evolution: population = 4 and 5 (the first: in {other})"]
        assert "population = 4 and 5" in (tmp_path / f"{i}/report/index.html").read_text()
    least = run("problem=ackley5c", "optimizers=[random, tpe]")
    write_report_of([random, bohb, three, least], tmp_path / "three", print)


def test_wall_clock_times_exclude_the_pause_before_an_extension(one: Path, run: Run, tmp_path: Path) -> None:
    """One directory is extended 1,000 s later: its journal is moved by that from the second driver on."""
    two = Path(shutil.copytree(run("optimizers=[tpe]"), tmp_path / "two"))
    assert main(["extend", str(two), "-o", "repeats=3", "--progress", "quiet"]) == 0
    events = read_journal(two / "journal.jsonl")
    _, second, *_ = (i for i, event in enumerate(events) if isinstance(event, DriverStarted))
    moved = [replace(event, at=event.at + 1000) for event in events[second:]]
    write_journal(two / "journal.jsonl", [*events[:second], *moved])
    for roots in ([two], [one, two]):
        assert max(row["wall_seconds"] for row in summarize_merged(*roots)["ledger"] if row["optimizer"] == "tpe") < 500
    trials = load_report_input([one, two]).trials
    times = sorted(map(datetime.fromisoformat, trials[trials["optimizer"] == "tpe"]["finished_at"]))
    assert (times[-1] - times[0]).total_seconds() > 1000, "trials.csv has the real times"


@pytest.mark.usefixtures("without_pictures")
@pytest.mark.parametrize("override", ["seed=7", "problem=ackley5c"])
def test_a_folder_may_have_a_name_that_is_no_text(override: str, one: Path, run: Run, tmp_path: Path) -> None:
    optimizers = "optimizers=[random, hyperband]"
    odd = Path(shutil.copytree(run(optimizers), tmp_path / os.fsdecode(b"odd\xff")))
    write_report_of([odd, run(optimizers, override)], tmp_path / "both", print)
    assert "odd" in (tmp_path / "both" / "report" / "index.html").read_text()
