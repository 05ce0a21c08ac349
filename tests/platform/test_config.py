"""Configurations: what is accepted, and that everything else is explained."""

import copy
import io
import os
from contextlib import redirect_stderr
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fmnas.comparison.analysis.paired_tests import can_show, repeats_needed
from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.config.schema import Config
from fmnas.platform.config.source import apply_override, dump_yaml, parse_yaml, shipped_configs
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.comparability import design_warnings
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.run_directory import RunDirectory

CONFIGS = ("smoke", "quickstart", "fashion_mnist")
MUTATIONS = int(os.environ.get("FMNAS_MUTATIONS", "100"))
"""How many broken configurations are tried; FMNAS_MUTATIONS=2000 takes minutes."""

GOOD = {
    "name": "t",
    "problem": "func2c",
    "optimizers": ["bo-fm", {"name": "regularized-evolution", "population": 6}],
    "initial_design": 3,
    "budget": {"evaluations": 8},
    "fidelity": {"epochs": 2},
}


def with_value(key: str, value: object) -> dict[str, object]:
    data = yaml.safe_load(yaml.safe_dump(GOOD))
    place = data
    *parents, last = key.split(".")
    for part in parents:
        place = place.setdefault(part, {})
    place[last] = value
    return data


def test_the_same_optimizer_may_compete_several_times_under_different_labels() -> None:
    entries = ["bohb", {"name": "bohb", "label": "bohb-2", "eta": 2}]
    config = check_config(with_value("optimizers", entries) | {"hypotheses": "bohb-2"}, "my.yaml")
    assert [(entry.name, entry.label, entry.options) for entry in config.optimizers] == [
        ("bohb", "bohb", {}),
        ("bohb", "bohb-2", {"eta": 2}),
    ]
    runs = list(build_experiment(config).runs.values())
    assert [run.name for run in runs[:2]] == ["bohb/repeat-0", "bohb-2/repeat-0"]
    assert len({run.optimizer.seed for run in runs}) == len(runs)


def test_shipped_configurations_are_whole() -> None:
    real, synthetic = {"fashion_mnist", "fashion_mnist_lite"}, {"func2c", "func3c", "ackley5c", "ackley53c"}
    assert {"quickstart", "smoke"} | real | synthetic <= set(shipped_configs())
    for name, text in shipped_configs().items():
        assert load_config(name).name == name.replace("/", "-")
        assert text.startswith("# "), "the first line says what it is"


@pytest.mark.parametrize("name", sorted(shipped_configs()))
def test_a_shipped_configuration_can_give_a_verdict_or_says_in_its_first_line_that_it_cannot(name: str) -> None:
    config, first_line = load_config(name), shipped_configs()[name].splitlines()[0]
    rest = len(config.optimizers) - 1
    pairs = rest if config.hypotheses == "bo-fm" else rest * (rest + 1) // 2
    assert can_show(config.repeats, pairs) != ("cannot give a verdict" in first_line)
    if "-o repeats=" in first_line:
        assert int(first_line.split("-o repeats=")[1].split()[0]) == repeats_needed(pairs)


def test_the_papers_experiment_has_the_papers_numbers() -> None:
    config = load_config("fashion_mnist")
    assert (config.data.train, config.data.validation, config.data.batch_size) == (30_000, 30_000, 32)
    assert (config.fidelity.epochs, config.seeds, config.repeats, config.budget.evaluations) == (25, 4, 4, 200)
    assert config.initial_design == 10
    methods = {entry.label: (entry.name, entry.options) for entry in config.optimizers}
    assert methods == {
        "bo-fm": ("bo-fm", {}),
        "bo-fm-paper": ("bo-fm", {"mode": "paper"}),
        "regularized-evolution": ("regularized-evolution", {}),
        "bohb": ("bohb", {}),
    }


@pytest.mark.parametrize("name", ["quickstart", "joint_comparison", "joint_both", "joint_nas_only", "joint_hpo_only"])
def test_the_examples_show_no_method_without_its_model(name: str) -> None:
    assert [remark for remark in design_warnings(load_config(name)) if "verdict" not in remark] == []


@pytest.mark.parametrize("problem", ["joint", "func2c", "svm_boston", "xgb_fashion_mnist"])
def test_the_authors_points_may_be_asked_for(problem: str, tmp_path: Path) -> None:
    data = {**GOOD, "problem": problem, "initial_design": "authors", "budget": {"evaluations": 11}}
    config = check_config(data, "here")
    assert config.initial_points == 10
    path = tmp_path / "config.yaml"
    path.write_text(config.to_yaml())
    assert load_config(path) == config


@pytest.mark.parametrize("text", ["1e3", "1E3", "1.e+3", "+.1e4"])
def test_numbers_with_an_exponent_are_numbers(text: str) -> None:
    data: dict[str, Any] = {**GOOD}
    apply_override(data, f"budget={{evaluations: 20, seconds: {text}}}")
    assert data["budget"]["seconds"] == 1000
    assert check_config(data, "here").budget.seconds == 1000


@given(st.one_of(st.floats(allow_nan=False), st.from_regex(r"[-+.0-9]{0,3}[eE][-+0-9]{0,3}", fullmatch=True)))
def test_numbers_and_text_that_looks_like_one_are_read_as_written(value: float | str) -> None:
    assert parse_yaml(dump_yaml({"value": value}), "here") == {"value": value}


def test_text_that_looks_like_a_number_needs_quotes() -> None:
    data: dict[str, Any] = {**GOOD}
    apply_override(data, "optimizers=[{name: random, label: 1e5}]")
    with pytest.raises(ConfigError, match=r"optimizers\.0\.label = 100000\.0: .*quotes"):
        check_config(data, "here")
    apply_override(data, "optimizers=[{name: random, label: '1e5'}]")
    assert check_config(data, "here").optimizers[0].label == "1e5"


def test_the_authors_points_are_not_known_for_every_problem() -> None:
    data = {**GOOD, "problem": "ackley53c", "initial_design": "authors", "budget": {"evaluations": 30}}
    with pytest.raises(ConfigError, match="initial_design = 'authors': not available for ackley53c"):
        check_config(data, "here")


def test_options_of_an_optimizer_are_keys_next_to_its_name() -> None:
    entry = check_config(GOOD, "here").optimizers[1]
    assert (entry.name, entry.concurrency, entry.options) == ("regularized-evolution", 1, {"population": 6})


@pytest.mark.parametrize(
    ("key", "value", "named"),
    [
        ("budgets", {}, ["budgets", "budget"]),
        ("budget.evaluatons", 3, ["budget.evaluatons", "evaluations"]),
        ("budget.evaluations", 0, ["budget.evaluations = 0"]),
        ("budget.evaluations", "many", ["budget.evaluations = 'many'"]),
        ("budget.evaluations", True, ["budget.evaluations = true"]),
        ("budget.evaluations", 3, ["budget.evaluations = 3", "initial_design = 3", "bo-fm"]),
        ("initial_design", "authors", ["budget.evaluations = 8", "initial_design = 'authors' (10 points)", "bo-fm"]),
        ("initial_design", "autors", ["initial_design = 'autors'", "'authors'"]),
        ("initial_design", -1, ["initial_design = -1", "'authors'"]),
        ("budget.seconds", -1, ["budget.seconds = -1"]),
        ("fidelity.epochs", None, ["fidelity.epochs = null"]),
        ("problem", "func2", ["problem = 'func2'", "func2c", "fmnas list problems"]),
        ("optimizers", ["bo-fn"], ["optimizers.0 = 'bo-fn'", "bo-fm"]),
        ("optimizers", [], ["optimizers = []"]),
        ("optimizers", [{"nam": "bo-fm"}], ["optimizers.0 = {'nam': 'bo-fm'}", "name"]),
        ("optimizers", [["bo-fm"]], ["optimizers.0 = ['bo-fm']"]),
        ("optimizers", ["random", "random"], ["optimizers: duplicate", "'random'"]),
        ("optimizers", [{"name": "random", "label": "a/b"}], ["optimizers.0.label = 'a/b'"]),
        ("optimizers", [{"name": "bohb", "etta": 3}], ["optimizers.0.etta", " eta"]),
        ("optimizers", [{"name": "bohb", "eta": 1}], ["optimizers.0.eta = 1"]),
        ("optimizers", [{"name": "bohb", "options": {"label": "x"}}], ["optimizers.0.label: unknown key"]),
        ("optimizers", [{"name": "bohb", "concurrency": 0}], ["optimizers.0.concurrency = 0"]),
        ("optimizers", [{"name": "bohb", "warm_start": "a\nb"}], ["optimizers.0.warm_start = 'a\\nb'"]),
        ("optimizers", [{"name": "bohb", "warm_start": "run"}], ["optimizers.0.warm_start = 'run'", "bohb"]),
        ("data.name", "cifar10", ["data.name = 'cifar10'", "'own'"]),
        ("workers.gpus", 1.5, ["workers.gpus = 1.5"]),
        ("workers", {"gpus": 0.5, "arrangement": "fast"}, ["workers = ", "gpus"]),
        ("workers.kind", "dask", ["workers.kind = 'dask'", "'ray'"]),
        ("workers.count", 0, ["workers.count = 0", "'auto'"]),
        ("name", "../../etc", ["name = '../../etc'"]),
        ("tracking.uri", 5, ["tracking.uri = 5"]),
        ("hypotheses", "bohb", ["hypotheses = 'bohb'", "regularized-evolution"]),
    ],
)
def test_a_wrong_value_is_named_with_what_is_allowed(key: str, value: object, named: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(with_value(key, value), "my.yaml")
    place, line, hint = str(caught.value).splitlines()
    assert place == "my.yaml:"
    assert "-o KEY=VALUE" in hint
    assert [words for words in named if words not in line] == []


def test_overrides_reach_nested_keys_and_lists(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text(yaml.safe_dump({**{k: v for k, v in GOOD.items() if k != "name"}, "problem": "svm_boston"}))
    overrides = [
        "budget.evaluations=9",
        f"data.root={tmp_path}",
        "optimizers.1.population=7",
        "optimizers.0.mode=paper",
    ]
    config = load_config(path, overrides)
    assert config.name == "a"
    assert config.budget.evaluations == 9
    assert config.data.root == str(tmp_path)
    assert config.optimizers[1].options == {"population": 7}
    assert config.optimizers[0].options == {"mode": "paper"}


@pytest.mark.parametrize("earlier", ["optimizers.0.kernel=moddif", "optimizers+=tpe"])
def test_an_override_that_discards_an_earlier_one_is_refused_with_both(earlier: str) -> None:
    overrides = [earlier, "optimizers=[random]"]
    with pytest.raises(ConfigError) as caught:
        load_config("func2c", overrides)
    assert all(override in str(caught.value) for override in overrides)
    entries = load_config("func2c", ["optimizers=[random]", "optimizers.0.label=a", "optimizers+=tpe"]).optimizers
    assert [entry.label for entry in entries] == ["a", "tpe"]
    assert load_config("func2c", ["repeats=2", "repeats=3"]).repeats == 3


@pytest.mark.parametrize(
    "override", ["budget", "=3", "budget.evaluations.x=1", "name.x=1", "optimizers.9=bohb", "a=[1"]
)
def test_an_override_that_makes_no_sense_is_named(override: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("smoke", [override])
    assert override.split("=")[0] in str(caught.value)


def test_a_key_that_is_no_text_is_named(tmp_path: Path) -> None:
    path = tmp_path / "a.yaml"
    path.write_text("problem: func2c\non: 3\n")  # which is true in YAML 1.1
    with pytest.raises(ConfigError, match="key true"):
        load_config(path)


@pytest.mark.parametrize("text", ["", "- a", "a: [1", "1: 2", "\x00", "a: !!python/object:os.system x"])
def test_a_file_without_a_configuration_is_named(tmp_path: Path, text: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(ConfigError, match="bad"):
        load_config(path)


@pytest.mark.parametrize(
    ("override", "meant", "dissimilar"),
    [
        ("repeets=3", "repeats", "hypotheses"),
        ("workers.cont=2", "count", "gpus"),
        ("optimizers=[bofm]", "bo-fm", "dehb"),
        ("optimizers.0.kernl=addlap", "kernel", "warm_start"),
        ("problem=func2", "func2c", "labs"),
    ],
)
def test_a_misspelt_name_gets_a_question_about_similar_ones(override: str, meant: str, dissimilar: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config("smoke", [override])
    assert meant in str(caught.value)
    assert dissimilar not in str(caught.value)


def test_a_section_that_is_not_a_mapping_gets_its_keys_named() -> None:
    with pytest.raises(ConfigError, match=r"budget = 20: .*evaluations, seconds"):
        load_config("smoke", ["budget=20"])


def test_a_misspelt_shipped_configuration_gets_a_question() -> None:
    with pytest.raises(ConfigError, match="quickstart") as caught:
        load_config("quikstart")
    assert "labs" not in str(caught.value)


def test_a_missing_file_names_the_shipped_ones(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"No such file.*quickstart"):
        load_config(tmp_path / "nowhere.yaml")


scalars = st.none() | st.booleans() | st.integers(-3, 30) | st.floats() | st.text(max_size=6)
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
)


def places(data: object, here: tuple[str | int, ...] = ()) -> list[tuple[str | int, ...]]:
    """The way to everything inside, the whole excepted."""
    items = list(data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ())
    return [way for key, inner in items for way in ((*here, key), *places(inner, (*here, key)))]


names = st.sampled_from(
    ["../out", "/etc/passwd", "..", "a/../b", "~", "$HOME", "\x00", "a\\b", "x" * 300, ".", "bo-fm"]
)
WHOLE = [check_config(GOOD, "here").model_dump(mode="json"), *(load_config(n).model_dump(mode="json") for n in CONFIGS)]


@st.composite
def mutate_config(draw: st.DrawFn) -> object:
    """A whole configuration, with every default, of which one to four parts were changed, dropped or doubled."""
    data = copy.deepcopy(draw(st.sampled_from(WHOLE)))
    for _ in range(draw(st.integers(1, 4))):
        *way, last = draw(st.sampled_from(places(data)))
        place: Any = data
        for part in way:
            place = place[part]
        act = draw(st.sampled_from(["change", "name", "drop", "double"]))
        if act == "drop":
            del place[last]
        elif act == "double" and isinstance(place, list):
            place.append(place[last])
        elif act == "double":
            place[draw(names | st.text(max_size=5))] = place[last]
        else:
            place[last] = draw(names if act == "name" else values)
        if not places(data):
            break
    return data


@settings(max_examples=MUTATIONS, suppress_health_check=[HealthCheck.too_slow])
@given(data=mutate_config())
def test_a_mutated_configuration_is_taken_or_explained_and_names_no_place_outside(
    data: object, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The way of `fmnas run` up to where trials would run: exit code 2 with words, never a traceback."""
    folder = tmp_path_factory.mktemp("mutated")
    path = folder / "mutated.yaml"
    path.write_text(yaml.safe_dump(data))
    reached: list[RunDirectory] = []

    def launch(config: Config, directory: RunDirectory, *context: object, **more: object) -> Any:
        reached.append(directory)
        small = [e for e in config.optimizers if e.options.get("population", 0) < 10**4 and e.warm_start is None]
        runs = config.model_copy(update={"repeats": min(config.repeats, 2), "optimizers": small})
        if small and config.initial_points < 10**4:
            build_experiment(runs)
        raise ConfigError("far enough")

    with pytest.MonkeyPatch.context() as patch, redirect_stderr(io.StringIO()) as stderr:
        patch.chdir(folder)
        patch.setattr("fmnas.platform.runner.run.run_experiment", launch)
        assert main(["run", str(path)]) == 2
    assert "Traceback" not in stderr.getvalue()
    assert stderr.getvalue().startswith("fmnas: ")
    if reached:
        (directory,) = reached
        runs = (folder / "runs").resolve()
        everything = [getattr(directory, name) for name in ("root", "config", "journal", "lock", "page", "artifacts")]
        assert all((folder / place).resolve().is_relative_to(runs) for place in everything)
        assert (folder / directory.root).resolve() != runs
    else:
        assert "mutated.yaml" in stderr.getvalue()
    assert [file.name for file in folder.iterdir()] == ["mutated.yaml"]
