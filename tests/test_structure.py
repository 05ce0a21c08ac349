"""The structure: packages, their dependencies, and what the import mapping needs to keep working."""

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Sequence
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from fmnas.platform.registry import OPTIMIZERS

ROOT = Path(__file__).resolve().parent.parent
DEPENDENCIES = {
    "search_spaces": set(),
    "trainers": {"search_spaces"},
    "optimizers": {"search_spaces"},
    "baselines": {"optimizers", "search_spaces"},
    "integrations": {"optimizers", "search_spaces"},
    "testing": {"optimizers", "search_spaces"},
    "comparison": {"search_spaces"},
    "platform": {
        *("search_spaces", "trainers", "optimizers", "baselines", "integrations", "testing", "comparison", "configs")
    },
    "configs": set(),
    "api": {"search_spaces", "trainers", "comparison", "platform"},
}
HEAVY = {"ray", "mlflow", "pydantic"}
INTEGRATED = {"integrations/ray_tune.py": {"ray"}}
"""An integration imports the library that it integrates; no other package below the platform does."""
READERS = {"report", "mlflow", "display"}
"""Packages of the platform that show what happened: neither `experiment` nor `runner` imports them."""
LINE_BUDGETS = {
    "search_spaces": 1_351,
    "optimizers": 3_735,
    "trainers": 5_573,
    "baselines": 5_063,
    "integrations": 984,
    "testing": 440,
    "comparison": 4_521,
    "platform": 11_056,
    "platform/config": 1_310,
    "platform/display": 874,
    "platform/experiment": 2_478,
    "platform/mlflow": 1_040,
    "platform/report": 712,
    "platform/runner": 853,
    "platform/workers": 1_408,
    "api": 471,
}
"""Lines of Python in each package. Lower one when a package shrinks; raise one only on purpose, and say why."""
MODULES = sorted(path for package in DEPENDENCIES for path in (ROOT / package).rglob("*.py"))
LONGEST, LONGEST_METHOD, SHORTEST = 400, 200, 60
SMALL_FILES = {"baselines", "trainers/functions", "comparison/figures"}
"""Where a file is one method, one function or one figure, as small as that is."""
MAY_BE_SHORT = {
    *("baselines/slice_sampling.py", "platform/runner/racing.py", "platform/experiment/saved_models.py"),
    *("trainers/surrogate/problem.py", "trainers/surrogate/trees.py"),
    *("search_spaces/errors.py", "search_spaces/files.py", "trainers/images/settings.py"),
}


@cache
def imports(path: Path) -> set[str]:
    names = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: imports are absolute"
            names.add(node.module or "")
    return names


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


def package_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_packages_import_only_packages_below(path: Path) -> None:
    package = package_of(path)
    used = {name.split(".")[1] for name in imports(path) if name.startswith("fmnas.")} - {package}
    assert used <= DEPENDENCIES[package]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_only_the_platform_imports_ray_mlflow_and_pydantic(path: Path) -> None:
    if package_of(path) != "platform":
        assert not {name.split(".")[0] for name in imports(path)} & HEAVY - INTEGRATED.get(relative(path), set())


def subpackage_of(parts: Sequence[str]) -> str:
    """Return package.subpackage of a module's parts below fmnas; a file of the package counts as one."""
    return ".".join(parts[:2])


def test_subpackages_form_no_cycle() -> None:
    below: dict[str, set[str]] = {}
    for path in MODULES:
        mine = path.relative_to(ROOT).with_suffix("").parts
        used = (name.split(".")[1:] for name in imports(path) if name.startswith(f"fmnas.{mine[0]}."))
        below.setdefault(subpackage_of(mine), set()).update(map(subpackage_of, used))
    order = TopologicalSorter({name: targets - {name} for name, targets in below.items()})
    order.prepare()  # raises CycleError, which names the cycle


@pytest.mark.parametrize("package", ["platform/experiment", "platform/runner"])
def test_the_core_imports_no_reader(package: str) -> None:
    used = {
        name for path in (ROOT / package).glob("*.py") for name in imports(path) if name.startswith("fmnas.platform.")
    }
    assert not {name for name in used if name.split(".")[2] in READERS}


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_files_and_functions_are_short(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= (LONGEST_METHOD if package_of(path) == "baselines" else LONGEST)
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno <= 60, node.name


@pytest.mark.parametrize("use", sorted({entry.use.split(":")[0] for entry in OPTIMIZERS.values()}))
def test_a_method_is_short(use: str) -> None:
    """What a method needs beyond that is a file of its own, which says what it is, and is as short in `baselines`."""
    path = ROOT.joinpath(*use.removeprefix("fmnas.").split(".")).with_suffix(".py")
    assert len(path.read_text().splitlines()) <= LONGEST_METHOD


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_files_are_not_too_short(path: Path) -> None:
    """A file holds more than one function, except __init__.py and where one method, function or figure is a file."""
    if path.name != "__init__.py" and relative(path) not in MAY_BE_SHORT and relative(path.parent) not in SMALL_FILES:
        assert len(path.read_text().splitlines()) >= SHORTEST


@pytest.mark.parametrize("package", LINE_BUDGETS)
def test_a_package_stays_within_its_budget_of_lines(package: str) -> None:
    lines = sum(len(path.read_text().splitlines()) for path in (ROOT / package).rglob("*.py"))
    assert lines <= LINE_BUDGETS[package]


def test_every_package_has_a_budget_of_lines() -> None:
    packages = {relative(path.parent) for path in MODULES if path.parent.parent in (ROOT, ROOT / "platform")}
    assert packages - {"configs"} == set(LINE_BUDGETS)


def test_platform_does_not_shadow_the_standard_library() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists()
    assert not (ROOT / "fmnas").exists()
    subprocess.run([sys.executable, "-c", "import platform; platform.system()"], cwd=ROOT, check=True)


def test_folders_are_packages_and_tests_are_not() -> None:
    for folder in {path.parent for path in MODULES} - {ROOT / "platform"}:
        assert (folder / "__init__.py").exists(), folder
        assert folder.parent in (ROOT, *(ROOT / package for package in DEPENDENCIES)), (
            f"{folder}: packages are nested once only"
        )
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_lower_packages_do_not_load_the_platform_or_its_libraries() -> None:
    heavy = ["ray", "mlflow", "pandas", "pydantic", "torchvision", "gpytorch"]
    code = f"import sys, fmnas.trainers, fmnas.optimizers; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def build(kind: str, source: Path, folder: Path) -> None:
    command = [sys.executable, "-m", "build", f"--{kind}", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(command, check=True, capture_output=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})


@pytest.mark.slow
@pytest.mark.skipif(not (ROOT / ".git").exists(), reason="no repository")
def test_the_source_distribution_has_every_file(tmp_path: Path) -> None:
    """Built from a copy, which has no repository to ask for its files."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True)
    files = set(listed.stdout.strip("\0").split("\0"))
    for name in files:
        (tmp_path / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / "source" / name)
    build("sdist", tmp_path / "source", tmp_path)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        packed = {member.name.partition("/")[2] for member in archive if member.isfile()}
    assert {name for name in packed if ".egg-info/" not in name} - {"PKG-INFO", "setup.cfg"} == files


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, built from a copy of the packages."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE", *DEPENDENCIES):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, source / name)
    build("wheel", source, folder)
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_tree(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("fmnas/")}
    data = [
        path
        for package in DEPENDENCIES
        for kind in ("yaml", "j2", "css", "csv.gz", "json", "npz")
        for path in (ROOT / package).rglob(f"*.{kind}")
    ]
    tree = {f"fmnas/{relative(path)}" for path in (*MODULES, *data)}
    assert packed == tree


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The commands of a fresh virtual environment that has the wheel, and sees every package of this one but fmnas."""
    environment = tmp_path_factory.mktemp("fresh") / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    commands = environment / "bin"
    packages = Path(sysconfig.get_path("purelib", vars={"base": str(environment), "platbase": str(environment)}))
    install = ["install", "--quiet", "--disable-pip-version-check", "--no-index", "--no-deps", str(wheel)]
    subprocess.run([sys.executable, "-m", "pip", "--python", str(commands / "python"), *install], check=True)
    (packages / "others.pth").write_text(sysconfig.get_paths()["purelib"])  # read as a path: its own .pth files are not
    return commands


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_folder(installed: Path, tmp_path: Path) -> None:
    plain = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}

    def run(command: str, *arguments: str) -> str:
        called = [str(installed / command), *arguments]
        done = subprocess.run(called, cwd=tmp_path, env=plain, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert "smoke" in run("fmnas", "list", "configs")
    code = """
import sys
import fmnas, fmnas.api
from fmnas.platform.cli import main
from fmnas.search_spaces import Real
assert all(place.startswith(sys.prefix) for place in (*fmnas.__path__, fmnas.api.__file__))
quick = ("workers.kind=in-process", "tracking.enabled=false", "optimizers=[random]", "budget.evaluations=6")
assert main(["run", "smoke", "--progress", "quiet", *(word for one in quick for word in ("-o", one))]) == 0
assert 0.0 <= fmnas.api.minimize(lambda given: given["x"] ** 2, [Real("x", -1.0, 1.0)], 4).objective <= 1.0
"""
    run("python", "-c", code)
    assert (tmp_path / "runs/smoke/report/index.html").is_file()
