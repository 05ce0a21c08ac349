"""Which differences a report tests: all pairs, or one optimizer against the rest."""

import json
from collections.abc import Callable
from pathlib import Path

from fmnas.comparison.analysis.paired_tests import ALL
from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config
from fmnas.platform.config.schema import ALL_PAIRS, Config
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.state import read_state
from fmnas.platform.report.merge import _merge_hypotheses
from fmnas.platform.report.write import context_of

FAST = ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false", "-o", "initial_design=3"]
SMALL = ["-o", "budget.evaluations=4", "-o", "repeats=2"]


def config(optimizers: list[str], hypotheses: str = ALL_PAIRS) -> Config:
    data = {"name": "t", "problem": "func2c", "optimizers": optimizers, "hypotheses": hypotheses}
    return check_config({**data, "budget": {"evaluations": 20}, "fidelity": {"epochs": 1}}, "here")


def test_all_pairs_have_one_name() -> None:
    assert ALL_PAIRS == ALL == config(["random"]).hypotheses


def planned_hypotheses(out: Path) -> str:
    """What a report of a run directory would test."""
    directory = RunDirectory(out)
    return context_of(directory, read_state(directory)).hypotheses


def test_the_hypotheses_may_change_later_and_an_old_journal_has_the_default(
    tmp_path: Path, forge: Callable[[Path, Callable[[str], str]], None]
) -> None:
    out = tmp_path / "run"
    optimizers = "optimizers=[random, {name: regularized-evolution, population: 4, tournament: 2}, bohb]"
    assert main(["run", "smoke", *FAST, *SMALL, "-o", optimizers, "-o", "hypotheses=bohb", "--out", str(out)]) == 0
    tests = json.loads((out / "summary.json").read_text())["tests"]
    assert tests["hypotheses"] == "bohb"
    assert [pair["first"] for pair in tests["pairs"]] == ["bohb", "bohb"]
    text, line = (out / "config.yaml").read_text(), "hypotheses: bohb\n"
    (out / "config.yaml").write_text(text.replace(line, "hypotheses: random\n"))
    assert planned_hypotheses(out) == "random"
    (out / "config.yaml").write_text(text.replace(line, ""))
    journal = (out / "journal.jsonl").read_text()
    assert journal.count('"hypotheses":"bohb",') == 1
    forge(out / "journal.jsonl", lambda text: text.replace('"hypotheses":"bohb",', ""))
    assert planned_hypotheses(out) == ALL


def test_run_directories_that_test_the_same_are_tested_so_together() -> None:
    both, alone = config(["bo-fm", "random"], "bo-fm"), config(["bohb"])
    assert _merge_hypotheses([both, both]) == ("bo-fm", [])
    assert _merge_hypotheses([both, alone]) == ("bo-fm", [])  # bohb alone has no pair to say anything of
    assert _merge_hypotheses([alone, alone]) == (ALL, [])


def test_run_directories_that_test_other_things_are_tested_in_all_pairs() -> None:
    one, two = config(["bo-fm", "random"], "random"), config(["bo-fm", "random"])
    hypotheses, (remark,) = _merge_hypotheses([one, two])
    assert (hypotheses, remark.optimizer) == (ALL, "")
    assert "random, all" in remark.text
