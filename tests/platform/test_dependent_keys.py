"""Keys that depend on other keys: defaults, what an override leaves without a meaning, what has no effect."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.config.schema import Config
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.configuration import user_references
from fmnas.platform.problems import PROBLEMS

GOOD = {"name": "t", "problem": "func2c", "optimizers": ["random"], "budget": {"evaluations": 20}}
OWN = """
from fmnas.search_spaces import Real
from fmnas.trainers import objective


@objective([Real("x", 0.0, 1.0)])
def bowl(configuration):
    return configuration["x"] ** 2
"""


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def load_with_messages(source: str, *overrides: str, address: str | None = None) -> tuple[Config, list[str]]:
    """The configuration, and the lines that are said about it."""
    said: list[str] = []
    return load_config(source, overrides, said.append, address), said


def refusal(data: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        check_config(data, "here")
    return str(caught.value)


def test_hypotheses_on_an_optimizer_that_an_override_removes_become_all_pairs() -> None:
    config, (line,) = load_with_messages("func2c", "optimizers=[tpe, smac]")
    assert config.hypotheses == "all"
    assert line.endswith(": hypotheses")
    kept, said = load_with_messages("func2c", "optimizers=[tpe, bo-fm]")
    assert (kept.hypotheses, said) == ("bo-fm", [])


@pytest.mark.parametrize("entry", ["mine.py:Mine", {"use": "mine.py:Mine"}, {"name": "mine.py:Mine"}])
def test_a_reference_without_a_name_is_named_by_its_class(entry: Any, tmp_path: Path) -> None:
    folder = tmp_path / "beside"
    folder.mkdir()
    (folder / "mine.py").write_text("from fmnas.baselines.random_search import RandomSearch as Mine")
    data = {**GOOD, "optimizers": ["random", entry], "hypotheses": "Mine"}
    (folder / "a.yaml").write_text(yaml.safe_dump(data))
    from_file = load_config(folder / "a.yaml").optimizers[1]
    assert (from_file.name, from_file.label, from_file.use) == ("Mine", "Mine", f"{folder}/mine.py:Mine")
    assert user_references(data) == ["mine.py:Mine"], "the user learns what a run directory imports"
    assert load_config(folder / "a.yaml", ["optimizers=[random]"]).hypotheses == "all"


def test_a_reference_can_be_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("mine.py").write_text("from fmnas.baselines.regularized_evolution import RegularizedEvolution as Mine")
    config = load_config("func2c", ["optimizers+=mine.py:Mine", "optimizers.4.population=9"])
    assert config.optimizers[4].label == "Mine"
    assert config.optimizers[4].options == {"population": 9}


def test_hypotheses_of_the_command_line_or_wrong_in_the_file_alone_are_refused() -> None:
    with pytest.raises(ConfigError, match="hypotheses = 'bohb'"):
        load_with_messages("func2c", "optimizers=[tpe, smac]", "hypotheses=bohb")
    Path("wrong.yaml").write_text(yaml.safe_dump({**GOOD, "hypotheses": "bohb"}))
    with pytest.raises(ConfigError, match="hypotheses = 'bohb'"):
        load_with_messages("wrong.yaml", "optimizers=[tpe, smac]")


def test_values_of_another_problem_are_left_out() -> None:
    config, (line,) = load_with_messages("quickstart", "problem=func2c")
    assert (config.data.train, config.data.validation) == (None, None)
    assert line.endswith(": data.train, data.validation, seeds, fidelity")
    assert config.fidelity.epochs == 1
    kept, _ = load_with_messages("quickstart", "problem=xgb_fashion_mnist", "data.train=100", "seeds=3")
    assert (kept.data.train, kept.seeds) == (100, 3)
    with pytest.raises(ConfigError, match=r"data\.train = 100: func2c does not take it"):
        load_with_messages("quickstart", "problem=func2c", "data.train=100")


@pytest.mark.parametrize(
    ("source", "overrides", "epochs"),
    [
        ("quickstart", ["problem=func2c", "fidelity.epochs=2"], 2),
        ("quickstart", ["problem=xgb_digits"], 3),
        ("smoke", ["problem=func3c"], 3),
    ],
)
def test_epochs_stay_if_they_are_overridden_or_mean_what_they_did(
    source: str, overrides: list[str], epochs: int
) -> None:
    assert load_with_messages(source, *overrides)[0].fidelity.epochs == epochs


@pytest.mark.parametrize("name", ["joint", "fashion_mnist"])
def test_the_same_problem_by_any_of_its_names_leaves_nothing_out(name: str) -> None:
    config, said = load_with_messages("quickstart", f"problem={name}")
    assert (config.data, said) == (load_config("quickstart").data, [])


def test_a_key_with_a_dot_is_left_out_with_the_rest(tmp_path: Path) -> None:
    (tmp_path / "dotted.yaml").write_text(yaml.safe_dump({**GOOD, "fixed": {"a.b": 1}}))
    config, (line,) = load_with_messages("dotted.yaml", "problem=ackley5c")
    assert config.fixed == {}
    assert line.endswith(": fixed.a.b")


def test_fidelity_and_seeds_that_change_nothing_are_reported() -> None:
    _, (line,) = load_with_messages("func2c", "fidelity.epochs=5")
    assert "fidelity.epochs = 5" in line
    _, (_, line) = load_with_messages("func2c", "problem=xgb_digits", "seeds=8", "fidelity.epochs=20")
    assert "seeds = 8" in line


@pytest.mark.parametrize(
    "override", ["fixed={x1: 0}", "fixed.x1=0.5", "budget.evaluations=10", "budget={evaluations: 4}"]
)
def test_an_initial_design_that_does_not_fit_an_override_is_left_out(override: str) -> None:
    config, (line, *_) = load_with_messages("func2c", override)
    assert config.initial_design == config.initial_points < config.budget.evaluations
    assert line.endswith(": initial_design")
    with pytest.raises(ConfigError, match="initial_design = 'authors'"):
        load_with_messages("func2c", override, "initial_design=authors")


@pytest.mark.parametrize(
    ("problem", "name"),
    [("mine.py:bowl", "bowl"), ("mine.py", "mine"), ("ackley53c", "ackley53c"), ("func2c", "func2c")],
)
def test_an_experiment_that_is_named_by_its_problem_is_named_by_the_new_one(problem: str, name: str) -> None:
    Path("mine.py").write_text(OWN)
    assert load_with_messages("func2c", f"problem={problem}")[0].name == name
    assert load_with_messages("func2c", f"problem={problem}", "name=another")[0].name == "another"
    assert load_with_messages("smoke", f"problem={problem}")[0].name == "smoke"


def test_an_initial_design_that_fits_a_smaller_budget_stays() -> None:
    config, said = load_with_messages("func2c", "budget.evaluations=11")
    assert (config.initial_design, said) == ("authors", [])


def test_all_that_belongs_to_the_old_problem_is_left_out() -> None:
    Path("mine.py").write_text(OWN)
    file = {
        **GOOD,
        "problem": "joint",
        "fidelity": {"epochs": 3},
        "objective": {"flops_weight": 0.1},
        "seeds": 2,
        "racing": 1,
    }
    Path("all.yaml").write_text(yaml.safe_dump({**file, "checkpoints": {"every": 2}, "fixed": {"op1": "conv3x3"}}))
    config, (line,) = load_with_messages("all.yaml", "problem=mine.py:bowl")
    assert (config.fixed, config.checkpoints.every, config.objective.flops_weight, config.seeds) == ({}, None, None, 1)
    assert config.racing is None
    for key in ("objective.flops_weight", "checkpoints.every", "fixed.op1", "seeds", "racing"):
        assert key in line


def test_random_points_take_the_place_of_the_authors_with_another_problem() -> None:
    config, (line,) = load_with_messages("func2c", "problem=ackley53c")
    assert config.initial_design == 10
    assert line.endswith(", initial_design")
    for override in (["problem=ackley53c", "initial_design=authors"], ["fixed.x1=0", "initial_design=authors"]):
        with pytest.raises(ConfigError, match="initial_design = 'authors'"):
            load_with_messages("func2c", *override)


@pytest.mark.parametrize("value", ["[5]", "{a: [1]}", "null", "joint"])
@pytest.mark.parametrize("key", ["problem", "optimizers", "data", "fixed", "budget", "initial_design", "workers"])
def test_an_override_of_a_wrong_type_is_refused_in_words(key: str, value: str) -> None:
    try:
        load_with_messages("joint_hpo_only", "problem=func2c", f"{key}={value}", address="auto")
    except ConfigError as error:
        assert key in str(error)  # noqa: PT017  # either outcome is right


def test_an_optimizer_can_be_added_to_the_list() -> None:
    config, said = load_with_messages(
        "func2c", "optimizers+=tpe", "optimizers+=[smac, {name: bo-fm, label: other, kernel: moddif}]"
    )
    labels = [entry.label for entry in config.optimizers]
    assert labels == ["bo-fm", "regularized-evolution", "bohb", "random", "tpe", "smac", "other"]
    assert said == []
    for override in ("repeats+=1", "problem+=a", "budget+=3"):
        with pytest.raises(ConfigError, match=r"\+="):
            load_with_messages("func2c", override)


@pytest.mark.parametrize(("evaluations", "points"), [(1, 0), (2, 1), (9, 3), (500, 10)])
def test_a_small_budget_has_a_small_initial_design(evaluations: int, points: int) -> None:
    config = check_config({**GOOD, "budget": {"evaluations": evaluations}}, "here")
    assert (config.initial_design, config.initial_points) == (points, points)
    assert yaml.safe_load(config.to_yaml())["initial_design"] == points


def test_a_problem_without_epochs_needs_no_fidelity() -> None:
    for name, row in PROBLEMS.items():
        if row.takes_milliseconds or name in ("nusvr_diabetes", "dt_wine", "mlp_digits", "xgb_table"):
            assert check_config({**GOOD, "problem": name}, "here").fidelity.epochs == 1
    for name in ("joint", "xgb_digits"):
        assert "fidelity: missing" in refusal({**GOOD, "problem": name})
    for wrong in ("func2", 5, {"tune_me.py": None}):
        assert "fidelity" not in refusal({**GOOD, "problem": wrong})


@pytest.mark.parametrize(
    ("changes", "kind"),
    [
        ({}, "in-process"),
        ({"problem": "nusvr_diabetes"}, "ray"),
        ({"problem": "joint", "fidelity": {"epochs": 1}}, "ray"),
        ({"workers": {"kind": "ray"}}, "ray"),
        ({"workers": {"kind": "auto", "attempts": 5}}, "in-process"),
        ({"workers": {"count": "auto"}}, "ray"),
        ({"workers": {"autoscale": True}}, "ray"),
        ({"optimizers": [{"name": "random", "concurrency": 2}]}, "ray"),
        ({"optimizers": [{"name": "random", "concurrency": 2}], "workers": {"kind": "in-process"}}, "in-process"),
    ],
)
def test_a_function_of_milliseconds_runs_in_process_unless_workers_are_asked_for(
    changes: dict[str, Any], kind: str
) -> None:
    config = check_config({**GOOD, **changes}, "here")
    assert config.workers.kind == kind
    again = check_config(yaml.safe_load(config.to_yaml()), "here")
    assert again == config, "a resume has the same kind of workers"


def test_an_address_or_a_custom_problem_means_ray() -> None:
    assert load_with_messages("func2c", address="auto")[0].workers.kind == "ray"
    assert load_with_messages("func2c", "workers.kind=in-process", address="auto")[0].workers.kind == "in-process"
    Path("mine.py").write_text(OWN)
    Path("mine.yaml").write_text(
        json.dumps({"problem": "mine.py", "optimizers": ["random"], "budget": {"evaluations": 9}})
    )
    own, said = load_with_messages("mine.yaml")
    assert (own.workers.kind, said) == ("ray", [])


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        (["workers.kind=in-process", "workers.count=4"], "workers.count"),
        (["workers.kind=in-process", "workers.attempts=7"], "workers.attempts"),
        (["workers.kind=in-process", "workers.autoscale=true"], "workers.autoscale"),
        (["workers.kind=in-process", "optimizers.1.concurrency=8"], "optimizers.1.concurrency"),
        (["seeds=3"], "seeds = 3"),
        (["tracking.enabled=false", "tracking.experiment=mine"], "tracking.experiment"),
    ],
)
def test_a_key_without_effect_is_said(overrides: list[str], key: str) -> None:
    _, (line,) = load_with_messages("func2c", *overrides)
    assert key in line


@pytest.mark.parametrize("name", ["func2c", "quickstart"])
def test_nothing_is_said_of_a_shipped_configuration(name: str) -> None:
    assert load_with_messages(name)[1] == []


JOINT = {**GOOD, "problem": "joint", "fidelity": {"epochs": 1}}


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"data": {"name": "digits", "train": 1200, "validation": 600}}, "data.train = 1200"),
        ({"data": {"train": 30_001}}, "data.train = 30001"),
        ({"data": {"name": "own"}}, "data.root"),
        ({"data": {"root": "/nowhere/at/all"}}, "data.root = '/nowhere/at/all'"),
        ({"tracking": {"uri": "htp://foo"}}, "tracking.uri = 'htp://foo'"),
        ({"workers": {"kind": "in-process", "gpus": 1}}, "workers.gpus = 1"),
    ],
)
def test_what_a_run_on_this_machine_would_refuse_is_refused_with_the_configuration(
    changes: dict[str, Any], key: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    Path("my.yaml").write_text(yaml.safe_dump({**JOINT, **changes}))
    assert main(["config", "my.yaml"]) == 2
    assert key in capsys.readouterr().err
    check_config({**JOINT, **changes}, "a run directory, which may have been moved to another machine")


def test_every_mistake_is_reported_at_once_with_those_of_types() -> None:
    wrong = {
        "problem": "joint",
        "optimizers": ["bo-fm", "randm"],
        "hypotheses": "bohb",
        "budget": {"evaluations": 0},
        "fixed": {"op1": "conv9x9"},
        "data": {"validation": 50, "early_validation": 60},
    }
    message = refusal({"name": "t", 5: 6, **wrong, "fidelity": {"epochs": 2}})
    for key in ("optimizers.1", "hypotheses", "budget.evaluations", "fixed.op1", "data.early_validation", "5"):
        assert f"\n  {key}" in message
    assert "initial_design" not in message, "budget.evaluations is unknown"


@pytest.mark.parametrize(
    ("overrides", "named"),
    [
        (["workers.count=5"], ["workers.count = 5", "4"]),
        (["workers.cpus=1.5", "workers.count=3"], ["workers.count = 3", "workers.cpus = 1.5", "2"]),
        (["workers.cpus=64"], ["workers.cpus = 64", "4"]),
        (["workers.count=4"], []),
        (["workers.cpus=0.1", "workers.count=40"], []),
        (["workers.count=50", "workers.autoscale=true"], []),
        (["workers.count=50", "workers.kind=simulated"], []),
    ],
)
def test_workers_that_this_machine_cannot_hold_are_refused_without_an_address(
    overrides: list[str], named: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    flags = [flag for override in ["workers.kind=ray", *overrides] for flag in ("-o", override)]
    assert main(["config", "func2c", *flags]) == (2 if named else 0)
    message = capsys.readouterr().err
    assert all(word in message for word in named)
    if named:
        assert main(["run", "func2c", *flags]) == 2
        assert capsys.readouterr().err == message, "before Ray is started"
    assert main(["config", "func2c", *flags, "--address", "auto"]) == 0
    monkeypatch.setenv("RAY_OVERRIDE_RESOURCES", '{"CPU": 64}')
    assert main(["config", "func2c", *flags]) == 0


@pytest.mark.parametrize(
    "optimizer", [{"name": "random", "warm_start": "nowhere"}, {"name": "mine", "use": "numpy:array"}]
)
def test_what_a_run_finds_while_planning_is_refused_with_the_configuration(
    optimizer: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("my.yaml").write_text(yaml.safe_dump({**GOOD, "optimizers": ["random", {**optimizer, "label": "b"}]}))
    messages = []
    for command in ("config", "run"):
        assert main([command, "my.yaml"]) == 2
        messages.append(capsys.readouterr().err)
    key, value = list(optimizer.items())[1]
    assert f"optimizers.1.{key} = {value!r}" in messages[0]
    assert messages[1].endswith(messages[0])
    assert [path.name for path in Path().iterdir()] == ["my.yaml"]


def test_what_this_machine_lacks_is_reported_together_with_every_other_mistake() -> None:
    wrong = {"data": {"train": 70_000, "root": "/nowhere"}, "objective": {"flops_weight": -1}, "fixed": {"op1": "no"}}
    Path("my.yaml").write_text(yaml.safe_dump({**JOINT, **wrong, "tracking": {"uri": "htp://foo"}}))
    with pytest.raises(ConfigError) as caught:
        load_config("my.yaml")
    for key in ("objective.flops_weight", "fixed.op1", "data.train = 70000", "data.root", "tracking.uri"):
        assert f"\n  {key}" in str(caught.value)


def test_data_of_a_problem_without_data_are_not_searched_for_on_this_machine() -> None:
    Path("my.yaml").write_text(yaml.safe_dump({**GOOD, "data": {"name": "digits", "train": 5000}}))
    with pytest.raises(ConfigError) as caught:
        load_config("my.yaml")
    assert str(caught.value).count("data.train = ") == 1


def test_a_problem_that_cannot_be_used_hides_nothing_else() -> None:
    message = refusal({**GOOD, "problem": "nowhere.py:f", "optimizers": ["randm"], "budget": {"evaluations": 0}})
    for key in ("problem", "optimizers.0", "budget.evaluations"):
        assert key in message
