"""What a notebook sees of run directories is what their reports say, and reading does not change them."""

import json
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pandas as pd
import pytest
from matplotlib.figure import Figure

from fmnas.api import RunResults, load_run
from fmnas.api.results import NoSuchResultError
from fmnas.comparison.summary import Remark
from fmnas.platform.cli import main
from fmnas.platform.errors import RunDirectoryError

pytestmark = pytest.mark.slow

FAST = ("workers.kind=in-process", "tracking.enabled=false", "initial_design=3", "budget.evaluations=6", "repeats=2")
EVOLUTION = "{name: regularized-evolution, population: 4, tournament: 2}"


def run(out: Path, *overrides: str) -> Path:
    flags = [flag for override in (*FAST, *overrides) for flag in ("-o", override)]
    assert main(["run", "smoke", *flags, "--out", str(out), "--progress", "quiet"]) == 0
    return out


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random search and evolution, two repeats each."""
    return run(tmp_path_factory.mktemp("one") / "<one> & only", f"optimizers=[random, {EVOLUTION}]", "name=one")


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random search under another name, of the same repeats."""
    return run(tmp_path_factory.mktemp("two") / "two", "optimizers=[{name: random, label: chance}]")


@pytest.fixture(scope="module")
def results(one: Path) -> RunResults:
    """Those of one."""
    return load_run(one)


def files(root: Path) -> dict[str, tuple[bytes, int]]:
    """Every file's content and time of change; of a folder, its time of change."""
    return {str(p): (p.read_bytes() if p.is_file() else b"", p.stat().st_mtime_ns) for p in (root, *root.rglob("*"))}


def test_the_summary_is_that_of_the_directory(one: Path, results: RunResults) -> None:
    assert results.summary.to_json() == json.loads((one / "summary.json").read_text())


@pytest.mark.parametrize("name", ["curves", "ledger", "tests"])
def test_a_table_is_that_of_the_report(name: str, one: Path, results: RunResults) -> None:
    assert getattr(results, name).to_csv(index=False, lineterminator="\n") == (one / f"report/{name}.csv").read_text()
    assert getattr(results, name) is results.tables[name]


def test_trials_are_typed(one: Path, results: RunResults) -> None:
    table = pd.read_csv(one / "trials.csv", keep_default_na=False)
    assert results.trials["trial"].tolist() == table["trial"].tolist()
    assert results.trials["objective"].tolist() == pytest.approx(table["objective"].astype(float).tolist())
    assert isinstance(results.trials["finished_at"].dtype, pd.DatetimeTZDtype)
    assert results.trials["epochs"].dtype == "Int64"


def test_the_best_is_the_least_full_objective(results: RunResults) -> None:
    full = results.trials[results.trials["epochs"] == 3]
    assert results.best().objective == full["objective"].min()
    for name in ("random", "regularized-evolution"):
        best, mine = results.best(name), full[full["optimizer"] == name]
        assert best.objective == mine["objective"].min()
        row = mine[(mine["run"] == best.run) & (mine["trial"] == best.trial)].iloc[0]
        assert all(row[key] == value for key, value in best.configuration.items())


def test_the_best_of_an_unfinished_experiment_may_be_later_than_the_comparison(results: RunResults) -> None:
    """One optimizer has a single trial per run; the best of the other one is not its first."""
    report_input = results.report_input
    table = report_input.trials
    late = results.best("random")
    kept = table[(table["optimizer"] == "random") | (table["trial"] == 0)].copy()
    kept.loc[(kept["run"] == late.run) & (kept["trial"] == 5), "objective"] = -1.0
    unfinished = RunResults(replace(report_input, trials=kept, context=replace(report_input.context, finished=False)))
    assert unfinished.summary.optimizers["random"].best > -1.0
    best = unfinished.best()
    assert (best.optimizer, best.run, best.trial, best.objective) == ("random", late.run, 5, -1.0)


def test_what_is_not_there_is_named_with_what_is(results: RunResults) -> None:
    with pytest.raises(NoSuchResultError, match=r"optimizer 'bofm': it must be one of .*random"):
        results.best("bofm")
    with pytest.raises(NoSuchResultError, match=r"figure 'anytme': it must be one of anytime, .*final") as raised:
        results.figure("anytme")
    with pytest.raises(NoSuchResultError, match=r"table 'curve': it must be one of results, .*curves"):
        results.tables["curve"]
    names = str(raised.value).partition("one of ")[2].split(", ")
    assert len(names) == len(set(names))


def test_figures_are_matplotlibs(results: RunResults) -> None:
    assert isinstance(results.figure("final"), Figure)
    assert results.figure() is not results.figure()


def test_looking_touches_nothing(one: Path, other: Path) -> None:
    before = files(one), files(other)
    seen = load_run(one, other)
    seen.figure(), seen.tables, repr(seen), seen._repr_html_()
    assert (files(one), files(other)) == before


def test_several_directories_are_one_comparison(one: Path, other: Path, tmp_path: Path) -> None:
    together = load_run(str(one), other)
    assert main(["report", str(one), str(other), "--out", str(tmp_path / "both")]) == 0
    assert together.summary.to_json() == json.loads((tmp_path / "both/summary.json").read_text())
    assert set(together.summary.optimizers) == {"random", "regularized-evolution", "chance"}
    assert len(together.trials) == len(load_run(one).trials) + len(load_run(other).trials)
    with pytest.raises(RunDirectoryError, match="both hold repeat 0 of chance"):
        load_run(other, other)


def test_what_a_notebook_shows_is_the_final_table_and_escaped(results: RunResults) -> None:
    cells: list[str] = []

    class Reader(HTMLParser):
        def handle_data(self, data: str) -> None:
            cells.append(data)

    shown = results._repr_html_()
    Reader().feed(shown)
    assert {results.summary.headline, results.summary.caution, "random", "mean objective"} <= set(cells)
    assert "its error" not in cells, "a function has none"
    assert results.summary.headline in repr(results)
    assert results.summary.caution
    assert "\n" not in repr(results)
    assert ".summary.caution" in repr(results), "the headline alone is not the result"
    context = replace(results.report_input.context, remarks=[Remark("<script>alert(1)</script>")])
    strange = RunResults(replace(results.report_input, context=context))
    assert "<script>" not in strange._repr_html_()
    assert "&lt;script&gt;" in strange._repr_html_()


def test_results_can_be_read_while_a_driver_runs(one: Path, tmp_path: Path) -> None:
    """A journal that ends in the middle of a line, and a lock that a driver holds."""
    lines = (one / "journal.jsonl").read_bytes().splitlines(keepends=True)
    begun = tmp_path / "begun"
    begun.mkdir()
    (begun / "journal.jsonl").write_bytes(b"".join(lines[:9]) + lines[9][:20])
    (begun / "driver.lock").write_text("another's")
    seen = load_run(begun)
    ended = sum(b'"event":"finished"' in line for line in lines[:9])
    assert 0 < ended == len(seen.trials)
    assert sorted(path.name for path in begun.iterdir()) == ["driver.lock", "journal.jsonl"]


def test_without_results_best_is_an_error_and_the_headline_is_shown(one: Path, tmp_path: Path) -> None:
    (tmp_path / "journal.jsonl").write_bytes((one / "journal.jsonl").read_bytes().splitlines(keepends=True)[0])
    seen = load_run(tmp_path)
    assert seen.trials.empty
    assert seen.summary.headline in seen._repr_html_()
    with pytest.raises(NoSuchResultError, match="no evaluation at full fidelity has finished yet"):
        seen.best()
    with pytest.raises(NoSuchResultError, match="must be one of"):
        seen.figure("none")


def test_no_run_directory_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunDirectoryError, match=r"\['a', 'b'\] is not a path: .*load_run\("):
        load_run(["a", "b"])  # type: ignore[arg-type]
    with pytest.raises(RunDirectoryError, match=rf"{tmp_path} .*journal\.jsonl"):
        load_run(tmp_path)
