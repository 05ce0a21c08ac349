"""Every sentence of the README that a machine can check."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from fmnas.platform.cli import main
from fmnas.platform.config import check_config, shipped_configs

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.parametrize("code", blocks("python"))
def test_python_runs(code: str) -> None:
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True)


@pytest.mark.parametrize("text", blocks("yaml"))
def test_configurations_are_valid(text: str) -> None:
    check_config({"name": "readme", **yaml.safe_load(text)}, "README.md")


def test_links_lead_somewhere() -> None:
    links = re.findall(r"\]\((?!https?:)([^)#]+)\)", README)
    assert links
    for link in links:
        assert (ROOT / link).is_file(), link


def test_every_shipped_configuration_is_named() -> None:
    for name in shipped_configs():
        assert f"`{name}`" in README


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
