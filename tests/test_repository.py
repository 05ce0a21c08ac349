"""What is expected beside the code: a citation, a changelog, a workflow that does what `make check` does."""

import re
import tomllib
from pathlib import Path

import yaml

ROOT = Path(__file__).resolve().parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


def test_the_citation_is_of_this_version_and_of_the_paper() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert citation["cff-version"] == "1.2.0"
    assert (citation["title"], citation["version"]) == (PROJECT["name"], PROJECT["version"])
    assert citation["license"] == PROJECT["license"]
    (paper,) = citation["references"]
    assert paper["title"] in " ".join((ROOT / "README.md").read_text().split())
    assert [author["family-names"] for author in paper["authors"]] == ["Oh", "Gavves", "Welling"]


def test_the_changelog_begins_with_this_version() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text()
    assert PROJECT["version"] in re.findall(r"^## (.*)$", changelog, flags=re.MULTILINE)[0]


def test_the_workflow_checks_on_every_python_that_it_names() -> None:
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "check.yml").read_text())
    (job,) = workflow["jobs"].values()
    steps = [step["run"] for step in job["steps"] if "run" in step]
    assert steps[-1] == "make check"
    pythons = job["strategy"]["matrix"]["python"]
    assert pythons == ["3.11", "3.12"]
    assert PROJECT["requires-python"] == f">={pythons[0]}"
    (setup,) = (step["with"] for step in job["steps"] if step.get("uses", "").startswith("actions/setup-python@"))
    assert setup["python-version"] == "${{ matrix.python }}"


def test_torch_is_constrained_where_it_is_taken_from_elsewhere() -> None:
    text = (ROOT / ".github" / "workflows" / "check.yml").read_text()
    (torch,) = (line for line in text.splitlines() if "--index-url" in line)
    assert torch.split()[-2:] == ["torch", "torchvision"]
    assert "--constraint constraints.txt" in torch
