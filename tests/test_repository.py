"""The citation and the changelog are of this version."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_is_of_this_version_and_of_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert (citation["title"], citation["version"]) == (PROJECT["name"], PROJECT["version"])
    assert citation["license"] == PROJECT["license"]
    (paper,) = citation["references"]
    assert paper["title"] in " ".join((ROOT / "README.md").read_text().split())


def test_the_changelog_begins_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert PROJECT["version"] in re.findall(r"^## (.*)$", changelog, flags=re.MULTILINE)[0]
