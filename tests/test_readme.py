"""Every sentence of the README that a machine can check, and the names of files and modules in all documents."""

import importlib
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fmnas.comparison.analysis.paired_tests import can_show
from fmnas.platform.cli import main
from fmnas.platform.config.load import check_config, load_config
from fmnas.platform.config.source import shipped_configs

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()
DOCUMENTS = {path.name: path.read_text() for path in (*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"))}
EXPERIMENTS = DOCUMENTS["experiments.md"]
PACKAGES = (
    "platform",
    "comparison",
    "baselines",
    "optimizers",
    "trainers",
    "search_spaces",
    "integrations",
    "testing",
    "api",
)


def blocks(language: str, *texts: str) -> list[str]:
    return [block for text in texts for block in re.findall(rf"```{language}\n(.*?)```", text, flags=re.DOTALL)]


@pytest.mark.parametrize("code", blocks("python", README))
def test_python_runs(code: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


def test_its_own_optimizer_keeps_every_rule_of_the_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"`mine.py`:\n\n```python\n(.*?)```", README, flags=re.DOTALL)
    Path("mine.py").write_text(code)
    assert main(["check", "mine.py:Mine"]) == 0
    assert "FAILS" not in capsys.readouterr().out


@pytest.mark.parametrize("text", blocks("yaml", README, EXPERIMENTS))
def test_configurations_are_valid(text: str) -> None:
    check_config({"name": "readme", **yaml.safe_load(text)}, "README.md")


@pytest.mark.parametrize(
    "document",
    sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*.md")]),
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_links_lead_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\((?!https?:)([^)#]+)\)", document.read_text()):
        assert (document.parent / link).exists(), link


@pytest.mark.parametrize("document", DOCUMENTS)
def test_files_that_are_named_exist(document: str) -> None:
    every = "\n".join(DOCUMENTS.values())
    examples = {
        "FILE.py",
        "model.py",
        *re.findall(r"^`([\w/]+\.py)`:$", every, flags=re.MULTILINE),
    }  # which users get, or add
    named = set(re.findall(r"[\w./-]*\w\.py\b", DOCUMENTS[document])) - examples
    for name in named:
        places = ("", "docs") if "/" in name else ("benchmarks", "examples", *PACKAGES)
        assert any((ROOT / place / name).is_file() for place in places), name


@pytest.mark.parametrize("document", DOCUMENTS)
def test_modules_that_are_named_exist(document: str) -> None:
    rows = {f"fmnas.{name}" for name in re.findall(r'"fmnas\.([\w.]+):\w+"', DOCUMENTS[document])}
    words = set(re.findall(r"\bfmnas\.[a-z_]+(?:\.\w+)*", DOCUMENTS[document])) - rows
    for name in words:
        module, _, last = name.rpartition(".")
        loaded = importlib.import_module(module)
        assert hasattr(loaded, last) or importlib.import_module(name), name


def test_each_of_its_experiments_has_its_own_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader types the commands one after the other, and `fmnas run` refuses a directory that has an experiment."""
    monkeypatch.chdir(tmp_path)
    for name, code in re.findall(r"`(\w+\.py)`:\n\n```python\n(.*?)```", README, flags=re.DOTALL):
        Path(name).write_text(code)
    commands = re.findall(r"^ +fmnas run ([a-z].*)", README, flags=re.MULTILINE)
    assert len(commands) > 3
    named = set()
    for command in commands:
        source, *rest = shlex.split(command, comments=True)
        options = list(zip(rest[::2], rest[1::2], strict=True))
        config = load_config(source, [value for flag, value in options if flag == "-o"])
        folder = dict(options).get("--out", f"runs/{config.name}")
        assert folder not in named, command
        named.add(folder)


def test_the_map_has_every_package() -> None:
    table = DOCUMENTS["CONTRIBUTING.md"].split("| package | contents |")[1].split("\n\n")[0]
    mapped = re.findall(r"^\| `([\w/]+)/` \|", table, flags=re.MULTILINE)
    packages = {
        f"{package}/{path.parent.name}" for package in PACKAGES for path in (ROOT / package).glob("*/__init__.py")
    }
    assert sorted(mapped) == sorted({*PACKAGES, *packages})


def test_every_shipped_configuration_is_named() -> None:
    for name in shipped_configs():
        assert f"`{name}`" in EXPERIMENTS


def test_the_table_of_configurations_has_their_repeats_and_says_which_can_give_a_verdict() -> None:
    table = EXPERIMENTS.split("| shipped configuration |")[1].split("\n\n")[0].splitlines()[2:]
    named = set()
    for row in table:
        names, _, repeats, verdict = (cell.strip() for cell in row.strip("|").split("|"))
        for name in re.findall(r"`([\w/]+)`", names):
            config = load_config(name)
            assert int(re.match(r"\d+", repeats)[0]) == config.repeats, name
            assert (verdict == "possible") == can_show(config.repeats, len(config.optimizers) - 1), name
            assert (config.hypotheses == "bo-fm") == (name not in ("smoke", "quickstart")), name
            named.add(name)
    assert named == set(shipped_configs())


@pytest.mark.parametrize("command", sorted(set(re.findall(r"^ +fmnas (\w+)", README, flags=re.MULTILINE))))
def test_commands_exist(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([command, "--help"])
    assert ended.value.code == 0
    assert capsys.readouterr().out


def test_the_two_commands_are_in_the_makefile() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in ("install", "run", "test", "check"):
        assert re.search(rf"^{target}:", makefile, flags=re.MULTILINE)
    assert "make test" in (ROOT / ".ci" / "run").read_text()
