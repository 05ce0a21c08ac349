"""`warm_start` from the command to the files: what it reads of an earlier experiment, keeps, and refuses."""

import json
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import journal_dicts

from fmnas.api import minimize
from fmnas.comparison.analysis.trials import read_trials
from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import ConfigError, FmnasError
from fmnas.platform.runner.warm_start import check_warm_start_data, load_warm_starts
from fmnas.search_spaces import Nominal
from fmnas.search_spaces.records import WARM_START

EVOLUTION = "{name: regularized-evolution, population: 4, tournament: 2"
FAST = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "--progress", "quiet"]


def run(out: Path, optimizers: str, evaluations: int, *more: str) -> int:
    overrides = [f"optimizers={optimizers}", f"budget.evaluations={evaluations}", "repeats=2", *more]
    return main(
        ["run", "smoke", *FAST, *(part for override in overrides for part in ("-o", override)), "--out", str(out)]
    )


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two repeats of 5 evaluations of random search, and of evolution called `e`; not to be changed."""
    out = tmp_path_factory.mktemp("earlier") / "earlier"
    assert run(out, f"[random, {EVOLUTION}, label: e}}]", 5) == 0
    return out


def files(run: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}


def known_objectives(run: Path) -> dict[tuple[str, str], float]:
    """(run, note) -> objective, of the trials that were known."""
    table = read_trials(run / "trials.csv")
    table = table[table["origin"] == WARM_START]
    return dict(zip(zip(table["run"], table["note"], strict=True), table["objective"], strict=True))


def test_from_the_command_to_the_page_without_the_earlier_directory(
    earlier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = Path(shutil.copytree(earlier, tmp_path / "source")), tmp_path / "out"
    before = files(source)
    assert run(out, f"[random, {EVOLUTION}, warm_start: '{source}:random'}}]", 8) == 0
    assert files(source) == before
    printed = " ".join(capsys.readouterr().out.split())
    statement = f"5 trials per repeat from {source} (random), charged as 5 of 8 evaluations"
    assert statement in printed
    shutil.rmtree(source)
    assert statement in json.loads((out / "summary.json").read_text())["caution"]
    assert statement in (out / "report" / "index.html").read_text()
    objectives, theirs = known_objectives(out), read_trials(earlier / "trials.csv")
    assert len(objectives) == 10
    for row in theirs[theirs["optimizer"] == "random"].to_dict("records"):
        note = f"trial {row['trial']} of {row['run']} in {source}"
        assert objectives[f"regularized-evolution/repeat-{row['repeat']}", note] == row["objective"]
    assert main(["replay", str(out)]) == 0
    whole = (out / "trials.csv").read_bytes()
    assert main(["report", str(out)]) == 0
    assert (out / "trials.csv").read_bytes() == whole
    summary = json.loads((out / "summary.json").read_text())
    shares = {row["optimizer"]: row["shares"][WARM_START] for row in summary["sanity_checks"]}
    assert shares == {"random": 0.0, "regularized-evolution": 5 / 8}
    assert not summary["incidents"]  # the origin of a trial is not one
    assert all(row["notes"] == 0 for row in summary["ledger"])
    assert main(["extend", str(out), "-o", "budget.evaluations=9", *FAST[-2:]]) == 0
    assert main(["extend", str(out), "-o", "repeats=3", *FAST[-2:]]) == 2
    assert f"optimizers.1.warm_start = '{source}:random': {source}" in capsys.readouterr().err


def test_a_killed_driver_is_followed_without_the_earlier_directory(earlier: Path, tmp_path: Path) -> None:
    """Killed when a known trial was asked for and not yet answered."""
    source, out = Path(shutil.copytree(earlier, tmp_path / "source")), tmp_path / "out"
    assert run(out, f"[{EVOLUTION}, label: w, warm_start: '{source}:e'}}]", 7) == 0
    shutil.rmtree(source)
    whole, table, path = known_objectives(out), read_trials(out / "trials.csv"), out / "journal.jsonl"
    asked = [i for i, record in enumerate(journal_dicts(path), start=1) if record["event"] == "asked"]
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[: asked[3]]))
    assert main(["resume", str(out), "--progress", "quiet"]) == 0
    assert known_objectives(out) == whole
    again = read_trials(out / "trials.csv")
    assert list(again["objective"]) == list(table["objective"])
    assert main(["replay", str(out)]) == 0


def test_an_extension_takes_more_repeats_and_optimizers_from_it(earlier: Path, tmp_path: Path) -> None:
    source, out = Path(shutil.copytree(earlier, tmp_path / "source")), tmp_path / "out"
    assert run(out, f"[{EVOLUTION}, warm_start: '{source}:random'}}]", 7, "repeats=1") == 0
    assert main(["extend", str(source), "-o", "repeats=3", "-o", "budget.evaluations=6", *FAST[-2:]]) == 0
    more = f"optimizers=[regularized-evolution, {{name: random, warm_start: '{source}'}}]"
    assert main(["extend", str(out), "-o", "repeats=3", "-o", more, *FAST[-2:]]) == 0
    shutil.rmtree(source)
    counts: dict[str, int] = {}
    for name, _ in known_objectives(out):
        counts[name] = counts.get(name, 0) + 1
    grown = {f"random/repeat-{r}": 6 for r in range(3)} | {f"regularized-evolution/repeat-{r}": 6 for r in (1, 2)}
    assert counts == {**grown, "regularized-evolution/repeat-0": 5}  # what it had begun with stays
    assert main(["replay", str(out)]) == 0
    assert "5-6 trials" in json.loads((out / "summary.json").read_text())["caution"]


def test_another_experiment_in_its_place_is_refused(
    earlier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source, out = Path(shutil.copytree(earlier, tmp_path / "source")), tmp_path / "out"
    assert run(out, f"[{EVOLUTION}, warm_start: '{source}:random'}}]", 7, "repeats=1") == 0
    shutil.rmtree(source)
    assert run(source, "[random]", 5, "seed=3") == 0
    before = files(out)
    assert main(["extend", str(out), "-o", "repeats=2", *FAST[-2:]]) == 2
    assert f"{source} is not the experiment" in capsys.readouterr().err
    assert files(out) == before


def test_a_problem_whose_file_has_changed_is_reported(tmp_path: Path) -> None:
    mine, source, out = tmp_path / "altered_mine.py", tmp_path / "source", tmp_path / "out"
    mine.write_text(MINE)
    problem = f"problem={mine}:bowl"
    assert run(source, "[random]", 5, problem) == 0
    for text, is_reported in ((MINE, False), (f"# more\n{MINE}", True)):
        mine.write_text(text)
        assert run(out, f"[{{name: random, warm_start: '{source}'}}]", 6, problem) == 0
        caution = json.loads((out / "summary.json").read_text())["caution"]
        assert ("was different there." in caution) == is_reported
        shutil.rmtree(out)


MINE = """
from fmnas.search_spaces import Real
from fmnas.trainers import objective
from support import journal_dicts


@objective([Real("x", -1.0, 1.0)])
def bowl(configuration):
    return configuration["x"] ** 2
"""


def make_config(entry: Any, **changes: Any) -> Config:
    data = load_config("smoke").model_dump(mode="json")
    data |= {"repeats": 2, "budget": {"evaluations": 8}, "optimizers": [entry], **changes}
    return check_config(data, "here")


def load_refused(entry: Any, **changes: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        load_warm_starts(make_config(entry, **changes))
    return str(caught.value)


def warm(source: str | Path, label: str = "w") -> dict[str, Any]:
    return {"name": "bo-fm", "label": label, "warm_start": str(source)}


def test_whose_trials_are_meant(earlier: Path) -> None:
    for entry, whose in ((warm(f"{earlier}:random"), "random"), (warm(earlier, "e"), "e")):
        ((_, data),) = load_warm_starts(make_config(entry)).items()
        assert (data.label, data.directory, [len(repeat_trials) for repeat_trials in data.trials]) == (
            whose,
            str(earlier),
            [5, 5],
        )
    for entry in (warm(earlier), warm(f"{earlier}:randon")):
        assert f"write {earlier}:LABEL, one of random, e" in load_refused(entry)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"problem": "func3c"}, "problem = 'func3c' and 'func2c'"),
        ({"seeds": 3}, "seeds = 3 and 4"),
        ({"fidelity": {"epochs": 2}}, r"fidelity\.epochs = 2 and 3"),
        ({"fixed": {"h1": 2}}, r"fixed\.h1 = 2 and null"),
        ({"repeats": 3}, "repeat 2 of e in .* has 0 finished trials"),
        ({"budget": {"evaluations": 5}}, "repeat 0 of e in .* has 5 finished trials .*evaluations = 5"),
    ],
)
def test_what_cannot_be_is_refused(earlier: Path, changes: dict[str, Any], said: str) -> None:
    assert re.search(said, load_refused(warm(f"{earlier}:e"), **changes))


def test_one_that_is_still_going_on_counts_as_far_as_it_is(earlier: Path, tmp_path: Path) -> None:
    source = Path(shutil.copytree(earlier, tmp_path / "source"))
    journal = source / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    done = [i for i, record in enumerate(journal_dicts(journal), start=1) if record["event"] == "finished"]
    journal.write_bytes(b"".join(lines[: done[9]]) + b'{"torn')
    data = load_warm_starts(make_config(warm(f"{source}:e")))["w"]
    assert sum(map(len, data.trials)) < 10
    assert all(data.trials)
    journal.write_bytes(b"".join(lines[: done[0]]))
    assert "repeat 0 of e in" in load_refused(warm(f"{source}:e"))
    assert "has 0 finished trials of 3 epochs" in load_refused(warm(f"{source}:e"))


def test_only_full_trials_count(tmp_path: Path) -> None:
    source = tmp_path / "source"
    assert run(source, "[bohb]", 8, "repeats=1") == 0
    table = read_trials(source / "trials.csv")
    (loaded,) = load_warm_starts(make_config(warm(source), repeats=1, budget={"evaluations": 9}))["w"].trials
    assert [trial.number for trial in loaded] == list(table["trial"][table["epochs"] == 3])
    assert 0 < len(loaded) < len(table)
    asked = [record["trial"] for record in journal_dicts(source / "journal.jsonl") if record["event"] == "asked"]
    assert [trial.seed for trial in loaded] == [asked[trial.number]["seed"] for trial in loaded]


def test_repeats_that_know_the_same_are_not_put_together(
    earlier: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    entry = f"[{{name: random, label: w, warm_start: '{earlier}:random'}}]"
    for seed in (0, 7):
        assert run(tmp_path / str(seed), entry, 6, f"seed={seed}", "repeats=1") == 0
    assert main(["report", str(tmp_path / "0"), str(tmp_path / "7"), "--out", str(tmp_path / "both")]) == 2
    assert "they are not independent" in capsys.readouterr().err
    assert run(tmp_path / "cold", "[{name: random, label: w}]", 6, "repeats=1", "seed=3") == 0
    assert main(["report", str(tmp_path / "0"), str(tmp_path / "cold"), "--out", str(tmp_path / "both")]) == 2
    assert "optimizer w.warm_start = " in capsys.readouterr().err


def test_a_configuration_that_came_twice_counts_once_the_first(tmp_path: Path) -> None:
    calls: list[str] = []

    def noisy(configuration: dict[str, str]) -> float:
        calls.append(configuration["k"])
        return float(len(calls))

    space = [Nominal("k", ["a", "b"])]
    minimize(noisy, space, evaluations=8, optimizer="random", out=tmp_path / "a")
    firsts = [float(calls.index(k) + 1) for k in dict.fromkeys(calls)]
    result = minimize(noisy, space, evaluations=3, optimizer="random", warm_start=str(tmp_path / "a")).trials
    assert list(result["objective"])[:2] == firsts
    assert list(result["origin"]) == [WARM_START, WARM_START, "random"]
    with pytest.raises(FmnasError) as few:
        minimize(noisy, space, evaluations=2, optimizer="random", warm_start=str(tmp_path / "a"))
    assert "evaluations = 2" in str(few.value)
    assert "1 epochs" not in str(few.value)
    with pytest.raises(FmnasError) as refused:
        minimize(noisy, [Nominal("k", ["a", "c"])], evaluations=3, warm_start=str(tmp_path / "a"))
    assert all(repr(Nominal("k", values)) in str(refused.value) for values in (["a", "b"], ["a", "c"]))


def test_other_data_are_refused(earlier: Path) -> None:
    data = load_warm_starts(make_config(warm(f"{earlier}:e")))
    check_warm_start_data(data, "abc")  # the problem has none
    theirs = {"w": replace(data["w"], data="def")}
    with pytest.raises(ConfigError, match="SHA-256 def, here abc"):
        check_warm_start_data(theirs, "abc")
