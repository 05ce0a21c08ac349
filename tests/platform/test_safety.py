"""What comes from a configuration or a run directory is data: it names no place outside, and nothing of it runs."""

import ast
from pathlib import Path

import pytest
import yaml

from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.errors import ConfigError

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = (
    *("search_spaces", "trainers", "optimizers", "baselines", "testing", "integrations", "comparison", "platform"),
    *("api", "benchmarks"),
)
MODULES = sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))

RUNS_CODE = {"pickle", "cloudpickle", "dill", "marshal", "shelve", "joblib"}
"""Modules whose files run code when they are read."""

CALLS_CODE = {
    *("eval", "exec", "compile", "__import__", "os.system", "os.popen"),
    *("yaml.load", "yaml.unsafe_load", "yaml.full_load", "torch.load", "np.load", "numpy.load", "pd.read_pickle"),
}


SAFE_WITH = {"torch.load": "weights_only=True", "np.load": "allow_pickle=False"}
USERS_CODE = {"platform/references.py": {"compile", "exec"}}
"""What a user names as his own optimizer or problem is code, and is run as such."""
PICKLES = {"testing/optimizers.py": {"pickle"}, "integrations/ray_tune.py": {"cloudpickle"}}
"""The first one reads none; Ray Tune restores a searcher from the checkpoint that it asked this searcher to write."""


@pytest.mark.parametrize("path", MODULES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_file_is_read_in_a_way_that_runs_code(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    forbidden, imports = CALLS_CODE - USERS_CODE.get(name, set()), RUNS_CODE - PICKLES.get(name, set())
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            assert not {alias.name.partition(".")[0] for alias in node.names} & imports
        elif isinstance(node, ast.ImportFrom):
            assert not {(node.module or "").partition(".")[0], *(alias.name for alias in node.names)} & imports
        elif isinstance(node, ast.Call):
            arguments = {ast.unparse(keyword) for keyword in node.keywords}
            call = ast.unparse(node.func)
            assert call not in forbidden or SAFE_WITH.get(call) in arguments
            assert "shell" not in {keyword.arg for keyword in node.keywords}
            assert "allow_pickle=True" not in arguments


@pytest.mark.parametrize(
    "name",
    ["../out", "..", ".", "a/b", "/tmp/out", "a\\b", "", ".hidden", "-rf", "a\n", "a b", "ü", "a\x00", "a" * 101],
)
def test_a_name_that_could_lead_elsewhere_is_refused(name: str) -> None:
    data = {"name": name, "problem": "func2c", "optimizers": ["random"], "initial_design": 2}
    with pytest.raises(ConfigError, match="name = "):
        check_config({**data, "budget": {"evaluations": 3}, "fidelity": {"epochs": 1}}, "here")


def test_a_file_name_becomes_a_name_only_if_it_is_one(tmp_path: Path) -> None:
    path = tmp_path / "two words.yaml"
    path.write_text("{problem: func2c, optimizers: [random], budget: {evaluations: 11}, fidelity: {epochs: 1}}")
    with pytest.raises(ConfigError, match="name = 'two words'"):
        load_config(path)


def test_whatever_the_labels_are_only_the_run_directory_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "here"
    home.mkdir()
    monkeypatch.chdir(home)
    little = ["workers.kind=in-process", "optimizers=[random]", "budget.evaluations=5", "tracking.experiment=../../out"]
    flags = [flag for override in little for flag in ("-o", override)]
    assert main(["run", "smoke", *flags]) == 0
    assert [path.name for path in tmp_path.iterdir()] == ["here"]
    assert [path.name for path in home.iterdir()] == ["runs"]
    assert [path.name for path in (home / "runs").iterdir()] == ["smoke"]


@pytest.mark.parametrize("where", ["configuration", "override", "run directory"])
def test_yaml_that_would_make_objects_is_refused_and_runs_nothing(
    where: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = tmp_path / "ran"
    attack = f"!!python/object/apply:pathlib.Path.touch [!!python/object/apply:pathlib.Path ['{mark}']]"
    out, fast = tmp_path / "run", ["-o", "workers.kind=in-process", "-o", "tracking.enabled=false"]
    if where == "configuration":
        (tmp_path / "bad.yaml").write_text(f"problem: {attack}\n")
        arguments = ["run", str(tmp_path / "bad.yaml")]
    elif where == "override":
        arguments = ["run", "smoke", "-o", f"problem={attack}"]
    else:
        assert main(["run", "smoke", *fast, "-o", "optimizers=[random]", "--out", str(out)]) == 0
        config = yaml.safe_load((out / "config.yaml").read_text())
        (out / "config.yaml").write_text(yaml.safe_dump({k: v for k, v in config.items() if k != "problem"}))
        (out / "config.yaml").write_text((out / "config.yaml").read_text() + f"problem: {attack}\n")
        arguments = ["resume", str(out)]
    assert main(arguments) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert not mark.exists()
