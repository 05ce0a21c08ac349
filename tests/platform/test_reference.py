"""The reference of all keys, the explained configuration and its cost."""

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.config.reference import REQUIRED, read_keys, to_commented_yaml, to_markdown
from fmnas.platform.config.schema import Config
from fmnas.platform.config.source import apply_override, shipped_configs
from fmnas.platform.problems import problem
from fmnas.platform.runner import preflight as forecast
from fmnas.platform.runner.preflight import Cost, cost_of, estimate_runtime
from fmnas.trainers import Trainer
from fmnas.trainers.problem import Hardware

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


@pytest.mark.parametrize("name", sorted(shipped_configs()))
def test_the_explained_configuration_loads_to_the_same(name: str) -> None:
    config = load_config(name)
    assert Config.model_validate(yaml.safe_load(to_commented_yaml(config))) == config


def test_the_command_explains_and_runs_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["config", "fashion_mnist_example", "-o", "repeats=2"]) == 0
    output = capsys.readouterr().out
    assert "repeats: 2\n" in output
    assert "  # Maximum attempts of a trial whose workers are lost.\n  attempts: 3\n" in output
    assert output.count("  # Number of trials that may run at the same time.\n  concurrency: 1\n") == 1
    assert "# Cost: 6 runs, 120 evaluations, 480 trainings, 1,440 epochs in all\n" in output
    assert "no verdict is possible" in output
    assert list(tmp_path.iterdir()) == []
    assert main(["config", "func2c", "-o", "repeats=0"]) == 2


def test_the_cost_and_how_long_it_takes() -> None:
    data = {**PLAIN, "optimizers": ["random", "bo-fm"], "repeats": 3, "data": {"name": "digits", "train": 32}}
    config = check_config({**data, "data": {**data["data"], "validation": 32}, "workers": {"count": 2}}, "here")
    assert cost_of(config) == Cost(6, 120, 480, 12_000)
    ticks = iter([0.0, 2.0, 10.0, 11.0, 20.0, 26.0])
    output = estimate_runtime(config, clock=lambda: next(ticks))
    assert "took 2 s in the median of 3 random configurations" in output
    assert "about 50.0 min on 2 workers of this machine, without suggestions" in output  # 120 x 25 x 2 s / 2


@pytest.mark.parametrize(
    ("workers", "hardware", "output"),
    [
        ({"cpus": 2}, Hardware("cpu", 2), "1 worker of this machine"),
        ({"cpus": 0.5}, Hardware("cpu", 1), "4 workers of this machine"),  # 5 could be used
        ({"kind": "in-process", "cpus": 2}, Hardware("cpu", 1), "1 worker of this machine"),
        (
            {"cpus": 3},
            None,
            "not known: this machine cannot fit a worker of workers.cpus = 3 and workers.gpus = 0",
        ),
        ({"gpus": 0.5}, None, "not known: this machine cannot fit a worker of workers.cpus = 1 and workers.gpus"),
        ({"kind": "in-process", "gpus": 1}, None, "not known: this machine cannot fit"),
    ],
)
def test_what_is_timed_is_a_worker_as_the_configuration_has_it(
    workers: dict[str, Any], hardware: Hardware | None, output: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    built: list[Hardware] = []
    real = problem("func2c")

    def build(data: None, hardware: Hardware) -> Trainer:
        built.append(hardware)
        return real.trainer

    monkeypatch.setattr(forecast, "problem", lambda *_: replace(real, build=build))
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    monkeypatch.setattr("torch.cuda.device_count", lambda: 0)
    optimizers = [{"name": "random", "concurrency": 3}, {"name": "random", "label": "other", "concurrency": 2}]
    data = {**PLAIN, "problem": "func2c", "optimizers": optimizers, "workers": workers}
    assert output in estimate_runtime(check_config(data, "here"))
    assert built == ([hardware] if hardware else [])


def test_options_are_listed_with_their_defaults(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "optimizers", "--options"]) == 0
    output = capsys.readouterr().out
    assert "population 50, tournament 15" in output
    assert "kernel modlap (or moddif, prodlap, proddif, addlap, adddif), mode default (or paper)" in output
    assert "random search: no options" in output


def test_configurations_that_fail_are_skipped_and_reported(tmp_path: Path) -> None:
    file = tmp_path / "half.py"
    file.write_text(
        "from fmnas.search_spaces import Nominal\nfrom fmnas.trainers import objective\n\n\n"
        "@objective([Nominal('kind', ['good', 'bad']), Nominal('other', list(range(20)))])\n"
        "def half(configuration):\n    return 1.0 / (configuration['kind'] == 'good')\n\n\n"
        "@objective([Nominal('kind', ['bad', 'worse'])])\n"
        "def none(configuration):\n    raise ValueError('no')\n"
    )
    plain = {"name": "half", "optimizers": ["random"], "budget": {"evaluations": 12}, "workers": {"kind": "in-process"}}
    output = estimate_runtime(check_config({"problem": f"{file}:half", **plain}, "here"))
    assert "in the median of 3 random configurations; " in output
    assert "ZeroDivisionError" in output
    output = estimate_runtime(check_config({"problem": f"{file}:none", **plain}, "here"))
    assert output.startswith("not known: none of 10 random configurations could be evaluated; 10 failed, the first")
