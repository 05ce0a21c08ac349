"""Variables fixed by a configuration: complete trials everywhere, exact replays, and what is refused."""

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from support import journal_dicts, restore_run

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.problems import problem
from fmnas.platform.report.setup_section import setup_statements
from fmnas.search_spaces.nasnet import CELL_NAMES, SGD_NAMES

FIXED = {"h1": 2, "x1": 0.25}
PLAIN = {
    "name": "t",
    "problem": "func2c",
    "optimizers": ["bo-fm", {"name": "regularized-evolution", "population": 3, "tournament": 2}, "bohb", "random"],
    "initial_design": 3,
    "budget": {"evaluations": 7},
    "fidelity": {"epochs": 3},
    "fixed": FIXED,
}
FLAGS = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "--progress", "quiet"]
FIX = ["-o", "fixed={h1: 2, x1: 0.25}"]
EVOLUTION = "{name: regularized-evolution, population: 3, tournament: 2}"


def run(out: Path, *overrides: str, optimizers: str = f"[bo-fm, {EVOLUTION}, bohb, random]") -> int:
    small = ["initial_design=3", "budget.evaluations=6", f"optimizers={optimizers}", *overrides]
    flags = [flag for override in small for flag in ("-o", override)]
    return main(["run", "smoke", *FLAGS, *flags, "--out", str(out)])


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished experiment of four optimizers."""
    out = tmp_path_factory.mktemp("fixed") / "run"
    assert run(out, FIX[1]) == 0
    return out


def rows(out: Path) -> list[dict[str, str]]:
    with (out / "trials.csv").open() as file:
        return list(csv.DictReader(file))


def test_the_minimum_of_the_whole_space_is_not_that_of_a_part(done: Path) -> None:
    assert problem("func2c").minimum is not None
    assert json.loads((done / "summary.json").read_text())["minimum"] is None


def test_every_trial_has_all_variables_and_the_fixed_values(done: Path) -> None:
    names = problem("func2c").space.names
    table = rows(done)
    assert {row["optimizer"] for row in table} == {"bo-fm", "regularized-evolution", "bohb", "random"}
    assert all((row["h1"], row["x1"]) == ("2", "0.25") for row in table)
    assert len({(row["x2"], row["h2"]) for row in table}) > 10, "the others are chosen"
    asked = [record["trial"] for record in journal_dicts(done / "journal.jsonl") if record["event"] == "asked"]
    assert all(tuple(trial["configuration"]) == names for trial in asked)
    page = (done / "report" / "index.html").read_text()
    assert "Fixed: x1 = 0.25, h1 = 2. Variables: x2, h2." in page


def test_a_replay_finds_every_suggestion_as_recorded(done: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["replay", str(done)]) == 0
    assert capsys.readouterr().out.count("different = 0") == 4


def test_cut_anywhere_it_resumes_to_the_same_end(done: Path, tmp_path: Path) -> None:
    whole = (done / "journal.jsonl").read_bytes().splitlines(keepends=True)
    keys = ("run", "trial", "objective", "x1", "x2", "h1", "h2", "origin")
    wanted = sorted(tuple(row[key] for key in keys) for row in rows(done))
    for lines in (len(whole) // 2,):
        out = tmp_path / str(lines)
        out.mkdir()
        (out / "journal.jsonl").write_bytes(b"".join(whole[:lines]))
        assert main(["resume", str(out), "--progress", "quiet"]) == 0
        assert sorted(tuple(row[key] for key in keys) for row in rows(out)) == wanted


def test_an_older_experiment_has_nothing_fixed_and_resumes(tmp_path: Path) -> None:
    out = tmp_path / "run"
    assert run(out, optimizers="[random]") == 0
    config = json.loads((out / "journal.jsonl").read_text().splitlines()[0])["config"]
    assert config["fixed"] == {}
    older = {key: value for key, value in config.items() if key not in ("fixed", "objective")}
    assert check_config(older, "here") == check_config(config, "here")
    state = restore_run(out)
    assert [type(run.optimizer).__name__ for run in state.experiment.runs.values()] == ["RandomSearch"], (
        "nothing stands between"
    )


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fixed": {"hh1": 1}}, "fixed.hh1"),
        ({"fixed": {"h1": 7}}, "fixed.h1 = 7"),
        ({"fixed": {"x1": "2e-1"}}, "fixed.x1 = '2e-1'"),
        ({"fixed": {"h1": [1]}}, "fixed.h1 = [1]"),
        ({"fixed": {"h1": 2**70}}, "fixed.h1 = "),
        ({"fixed": ["h1"]}, "fixed = ['h1']"),
        ({"fixed": {"x1": 0, "x2": 0, "h1": 1, "h2": 1}}, "fixed: "),
        ({"initial_design": "authors"}, "initial_design = 'authors'"),
        ({"objective": {"flops_weight": 0.1}}, "objective.flops_weight = 0.1"),
        ({"objective": {"flops": "fvcore"}}, "objective.flops = 'fvcore'"),
        ({"fidelity": {"epochs": 1, "schedule_epochs": 9}}, "fidelity.schedule_epochs = 9"),
    ],
)
def test_what_cannot_be_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError) as raised:
        check_config({**PLAIN, "budget": {"evaluations": 30}, **changes}, "here")
    assert message in str(raised.value)
    assert len(str(raised.value).splitlines()) == 3, "one line for one mistake"


@pytest.mark.parametrize(
    ("name", "fixed", "free"),
    [
        ("joint_both", (), (*SGD_NAMES, *CELL_NAMES)),
        ("joint_nas_only", SGD_NAMES, CELL_NAMES),
        ("joint_hpo_only", CELL_NAMES, SGD_NAMES),
    ],
)
def test_the_ablation_differs_in_what_is_fixed_alone(name: str, fixed: tuple[str, ...], free: tuple[str, ...]) -> None:
    config, both = load_config(name), load_config("joint_both")
    assert set(config.fixed) == set(fixed)
    assert config.model_copy(update={"fixed": {}, "name": both.name}) == both
    subspace = build_experiment(config).subspace
    assert set(subspace.free.names) == set(free)
    assert all(
        value in " ".join(setup_statements(config, problem("joint", config.problem_settings))) for value in fixed
    )
