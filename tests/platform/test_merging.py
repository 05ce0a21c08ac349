"""One report of several run directories."""

import csv
import json
import shutil
from datetime import datetime
from pathlib import Path

import pytest

from fmnas.platform.cli import main
from fmnas.platform.experiment.journal import DRIVER, Journal, read_journal

FAST = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "-o", "initial_design=3"]
SMALL = ["-o", "budget.evaluations=6", "-o", "repeats=2"]


def run(out: Path, *overrides: str) -> Path:
    flags = [flag for override in overrides for flag in ("-o", override)]
    assert main(["run", "smoke", *FAST, *SMALL, *flags, "--out", str(out)]) == 0
    return out


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Random search, two repeats from seed 0."""
    return run(tmp_path_factory.mktemp("one") / "one", "optimizers=[random]")


def rows(folder: Path) -> list[dict[str, str]]:
    with (folder / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def merged(out: Path, *roots: Path) -> dict:
    assert main(["report", *map(str, roots), "--out", str(out)]) == 0
    return json.loads((out / "summary.json").read_text())


def test_other_optimizers_of_the_same_repeats_are_paired(one: Path, tmp_path: Path) -> None:
    two = run(tmp_path / "two", "optimizers=[{name: regularized-evolution, population: 4, tournament: 2}]")
    before = (one / "summary.json").read_bytes()
    summary = merged(tmp_path / "both", one, two)
    assert set(summary["optimizers"]) == {"random", "regularized-evolution"}
    (pair,) = summary["tests"]["pairs"]
    assert pair["repeats"] == 2
    assert len(rows(tmp_path / "both")) == len(rows(one)) + len(rows(two))
    assert (tmp_path / "both" / "report" / "index.html").is_file()
    assert (tmp_path / "both" / "report" / "tests.csv").is_file()
    # Their initial designs are the same: that is what makes them pairs.
    initial = [
        {r["x1"] for r in rows(folder) if r["repeat"] == "1" and r["origin"] == "initial"} for folder in (one, two)
    ]
    assert initial[0] == initial[1]
    assert len(initial[0]) == 3
    assert (one / "summary.json").read_bytes() == before


def test_options_of_one_optimizer_are_compared_under_their_labels(one: Path, tmp_path: Path) -> None:
    few = "{name: regularized-evolution, label: few, population: 3, tournament: 2}"
    many = "{name: regularized-evolution, label: many, population: 5, tournament: 2}"
    two = run(tmp_path / "two", f"optimizers=[{few}, {many}]")
    assert {row["run"] for row in rows(two)} == {f"{label}/repeat-{r}" for label in ("few", "many") for r in (0, 1)}
    summary = merged(tmp_path / "both", one, two)
    assert set(summary["optimizers"]) == {"random", "few", "many"}
    other = run(tmp_path / "other", "optimizers=[{name: random, label: few}]")
    assert main(["report", str(two), str(other), "--out", str(tmp_path / "no")]) == 2


def test_repeats_from_another_seed_get_numbers_of_their_own(one: Path, tmp_path: Path) -> None:
    more = run(tmp_path / "more", "optimizers=[random]", "seed=7")
    summary = merged(tmp_path / "both", one, more)
    assert list(summary["optimizers"]["random"]["values"]) == ["0", "1", "2", "3"]
    own = [json.loads((d / "summary.json").read_text())["optimizers"]["random"]["values"] for d in (one, more)]
    together = summary["optimizers"]["random"]["values"]
    assert list(together.values()) == [*own[0].values(), *own[1].values()]
    assert {r["run"] for r in rows(tmp_path / "both")} == {f"random/repeat-{i}" for i in range(4)}


def test_other_optimizers_from_another_seed_are_not_paired(one: Path, tmp_path: Path) -> None:
    other = run(
        tmp_path / "other", "optimizers=[{name: regularized-evolution, population: 4, tournament: 2}]", "seed=7"
    )
    summary = merged(tmp_path / "both", one, other)
    (pair,) = summary["tests"]["pairs"]
    assert (pair["repeats"], pair["verdict"]) == (0, "too few repeats to tell")
    assert "better" not in summary["caution"]
    assert "0 shared by all" in summary["caution"]


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    assert main(["report", *map(str, arguments)]) == 2
    printed = capsys.readouterr().err
    assert "Traceback" not in printed
    return printed


def test_the_same_repeat_twice_is_refused(one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    again = run(tmp_path / "again", "optimizers=[random]")
    message = refused(capsys, one, again, "--out", tmp_path / "both")
    assert f"{one} and {again} both hold repeat 0 of random from seed 0" in message
    assert not (tmp_path / "both").exists()


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("problem=func3c", "problem = 'func2c' and 'func3c'"),
        ("fidelity.epochs=2", "fidelity.epochs = 3 and 2"),
        ("budget.evaluations=7", "budget.evaluations = 6 and 7"),
        ("initial_design=2", "initial_design = 3 and 2"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    override: str, key: str, one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = run(tmp_path / "other", "optimizers=[random]", "seed=7", override)
    assert key in refused(capsys, one, other, "--out", tmp_path / "both")


def test_two_budgets_are_made_one_by_the_extension_that_the_refusal_names(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fewer = Path(shutil.copytree(one, tmp_path / "fewer"))
    more = run(tmp_path / "more", "optimizers=[random]", "seed=7", "budget.evaluations=7")
    for pair in ((fewer, more), (more, fewer)):
        message = refused(capsys, *pair, "--out", tmp_path / "both")
        assert f"`fmnas extend {fewer} -o budget.evaluations=7`" in message
        assert "{" not in message
    assert main(["extend", str(fewer), "-o", "budget.evaluations=7", "--progress", "quiet"]) == 0
    assert main(["report", str(fewer), str(more), "--out", str(tmp_path / "both")]) == 0


def test_the_same_name_with_other_options_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "regularized-evolution"
    first = run(tmp_path / "first", f"optimizers=[{{name: {name}, population: 4, tournament: 2}}]")
    second = run(tmp_path / "second", f"optimizers=[{{name: {name}, population: 5, tournament: 2}}]", "seed=7")
    assert f"optimizer {name}.population = 4 and 5" in refused(capsys, first, second)


def test_a_report_does_not_replace_that_of_an_experiment(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "give another folder" in refused(capsys, one, "--out", one)
    (tmp_path / "file").touch()
    assert "is no folder" in refused(capsys, one, "--out", tmp_path / "file")


def test_a_report_replaces_no_files_of_a_user(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object) -> None:
        raise AssertionError("nothing is to be written")

    monkeypatch.setattr("fmnas.platform.report.merge.write_report_files", never)
    thesis = tmp_path / "thesis"
    (thesis / "report").mkdir(parents=True)
    mine = {"trials.csv": "years", "summary.json": '{"name": "mine"}', "report/index.html": "<p>mine"}
    for name, text in mine.items():
        (thesis / name).write_text(text)
        message = refused(capsys, one, "--out", thesis)
        assert f"{thesis} is not empty, and what it holds is no report of fmnas" in message
        assert "give another folder with --out DIR" in message
    (thesis / "summary.json").write_text("{no JSON")
    assert "is no report of fmnas" in refused(capsys, one, "--out", thesis)
    whole = (one / "summary.json").read_text()
    (thesis / "summary.json").write_text(whole)
    (thesis / "environment.json").write_text("{}")  # an experiment, whose journal is lost
    assert "is no report of fmnas" in refused(capsys, one, "--out", thesis)
    assert (thesis / "trials.csv").read_text() == "years"


def test_a_report_may_replace_an_earlier_one_and_use_an_empty_folder(one: Path, tmp_path: Path) -> None:
    (tmp_path / "both").mkdir()
    first = merged(tmp_path / "both", one)
    (tmp_path / "both" / "notes.txt").write_text("mine")
    assert merged(tmp_path / "both", one) == first
    assert (tmp_path / "both" / "notes.txt").read_text() == "mine"


def test_a_folder_for_a_report_that_cannot_be_looked_at_is_explained(
    one: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = refused(capsys, one, "--out", tmp_path / ("x" * 300))
    assert "(File name too long): give a shorter name with --out DIR" in message
    names = [tmp_path / (letter * 200) for letter in "ab"]
    for name in names:
        name.symlink_to(one)
    assert "(File name too long): give a shorter name with --out DIR" in refused(capsys, *names)


def test_without_out_it_lies_beside_the_runs(
    one: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    more = run(tmp_path / "more", "optimizers=[random]", "seed=7")
    monkeypatch.chdir(tmp_path)
    capsys.readouterr()
    assert main(["report", str(one), str(more)]) == 0
    assert "runs/report-one-more/report/index.html" in capsys.readouterr().out
    assert (tmp_path / "runs" / "report-one-more" / "trials.csv").is_file()


def test_the_time_before_an_extension_is_no_wall_clock_time_of_any_report(one: Path, tmp_path: Path) -> None:
    """One of two directories is extended 1,000 s later: its journal is moved by as much from the extension on."""
    two = run(tmp_path / "two", "optimizers=[tpe]")
    assert main(["extend", str(two), "-o", "repeats=3", "--progress", "quiet"]) == 0
    journal = two / "journal.jsonl"
    records = read_journal(journal)
    first, second, *_ = (i for i, record in enumerate(records) if record["event"] == DRIVER)
    assert first < second
    journal.unlink()
    with Journal(journal) as log:
        for i, record in enumerate(records):
            log.append(record | {"at": record["at"] + (1000 if i >= second else 0)}, wait=False)
    for summary in (merged(tmp_path / "alone", two), merged(tmp_path / "both", one, two)):
        assert max(row["wall_seconds"] for row in summary["ledger"] if row["optimizer"] == "tpe") < 500
    finished = sorted(row["finished_at"] for row in rows(tmp_path / "both") if row["optimizer"] == "tpe")
    seconds = datetime.fromisoformat(finished[-1]) - datetime.fromisoformat(finished[0])
    assert seconds.total_seconds() > 1000, "trials.csv has the real times"
