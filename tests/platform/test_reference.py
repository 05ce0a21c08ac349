"""The reference of all keys, the explained configuration and its cost."""

from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest
import yaml

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.config.reference import REQUIRED, read_keys, to_commented_yaml, to_markdown
from fmnas.platform.config.schema import Config
from fmnas.platform.config.source import apply_override

DOCS = Path(__file__).resolve().parents[2] / "docs" / "configuration.md"
PLAIN = {
    "name": "t",
    "problem": "joint",
    "optimizers": [{"name": "bo-fm"}],
    "initial_design": 1,
    "budget": {"evaluations": 20},
    "fidelity": {"epochs": 25},
}


def test_the_page_is_that_of_the_schema() -> None:
    assert DOCS.read_text() == to_markdown()


def test_every_key_of_every_section_is_there_with_what_it_means() -> None:
    known = {key.name: key for key in read_keys()}
    plain = check_config(dict(PLAIN), "here").model_dump(mode="json")
    for name, value in plain.items():
        assert name in known
        inner = value[0] if name == "optimizers" else value if isinstance(value, dict) else {}
        prefix = "optimizers.0" if name == "optimizers" else name
        assert {f"{prefix}.{key}" for key in inner} <= set(known)
    assert all(key.meaning.endswith((".", "null.")) and key.kind and key.default is not None for key in known.values())
    assert {name for name, key in known.items() if key.default == REQUIRED} == {
        *("name", "problem", "optimizers", "optimizers.0.name", "budget", "budget.evaluations"),
        *("fidelity", "fidelity.epochs"),
    }


ELSEWHERE = {"optimizers.0.use"}
"""Whose example is a file that is not here."""
SHOWN = [key for key in read_keys() if key.example not in ("–", "") and key.name not in ELSEWHERE]


@pytest.mark.parametrize("key", SHOWN, ids=lambda key: key.name)
def test_every_example_may_be_set(key: Any) -> None:
    data = {**deepcopy(PLAIN), "optimizers": [{"name": "bo-fm", "use": "fmnas.optimizers.bofm:BOFM"}]}
    if key.name in ("hypotheses", "fidelity.epochs", "fidelity"):
        data["optimizers"] = ["bo-fm", "random"]
    apply_override(data, f"{key.name}={key.example}")
    check_config(data, "here")


@pytest.mark.parametrize("name", ["smoke", "fashion_mnist", "joint_hpo_only"])
def test_the_explained_configuration_loads_to_the_same(name: str) -> None:
    config = load_config(name)
    assert Config.model_validate(yaml.safe_load(to_commented_yaml(config))) == config


def test_the_command_explains_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["config", "joint_both", "-o", "repeats=2"]) == 0
    output = capsys.readouterr().out
    assert "repeats: 2\n" in output
    assert "  # Maximum attempts of a trial whose workers are lost.\n  attempts: 3\n" in output
    assert output.count("  # Number of trials that may run at the same time.\n  concurrency: 1\n") == 1
    assert "# Cost: 6 runs, 120 evaluations, 480 trainings, 1,440 epochs in all\n" in output
    assert "no verdict is possible" in output
    assert list(tmp_path.iterdir()) == []
    assert main(["config", "func2c", "-o", "repeats=0"]) == 2


def test_options_are_listed_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "optimizers", "--options"]) == 0
    output = capsys.readouterr().out
    assert "population 50, tournament 15" in output
    kernels = "modlap (or moddif, prodlap, proddif, addlap, adddif, mixture, kernel-modulated)"
    assert f"kernel {kernels}, mode default (or paper)" in output
    assert "random search: no options" in output
