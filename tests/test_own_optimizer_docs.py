"""docs/own-optimizer.md: its code is that of examples/, its configuration runs, and its commands are there."""

import csv
import re
import shlex
from pathlib import Path

import pytest
import yaml

from fmnas.platform.cli import main

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent
PAGE = (ROOT / "docs" / "own-optimizer.md").read_text()
EXAMPLE = ROOT / "examples" / "own_optimizers.yaml"
COMMANDS = [shlex.split(line) for line in re.findall(r"^ {4}fmnas (.*)$", PAGE, flags=re.MULTILINE)]


def test_its_code_is_that_of_the_examples() -> None:
    shown = re.findall(r"`(examples/\w+\.py)`:\n\n```python\n(.*?)```", PAGE, flags=re.DOTALL)
    assert [path for path, _ in shown] == ["examples/my_optimizer.py", "examples/ask_tell.py"]
    for path, code in shown:
        assert code == (ROOT / path).read_text()
    ((configuration),) = re.findall(r"```yaml\n(.*?)```", PAGE, flags=re.DOTALL)
    assert yaml.safe_load(configuration)["optimizers"] == yaml.safe_load(EXAMPLE.read_text())["optimizers"]


@pytest.mark.usefixtures("figures_as_svg")
def test_the_example_runs_and_replays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (run,) = (command for command in COMMANDS if command[0] == "run")
    out = tmp_path / "run"
    little = ["-o", "repeats=1", "-o", "budget.evaluations=8"]
    assert main([*run, *little, "--out", str(out), "--progress", "quiet"]) == 0
    with (out / "trials.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    counts = {name: sum(row["optimizer"] == name for row in rows) for name in {row["optimizer"] for row in rows}}
    assert counts == dict.fromkeys(["bo-fm", "pattern-search", "gp-sampler", "annealing"], 8)
    assert {row["status"] for row in rows} == {"finished"}
    assert main(["replay", str(out)]) == 0


@pytest.mark.parametrize("command", [words for words in COMMANDS if words[0] == "check" and "optuna" not in words[1]])
def test_what_it_checks_keeps_every_rule(
    command: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(ROOT)
    assert main(command) == 0
    assert "FAILS" not in capsys.readouterr().out
