"""The layout: rooms, floors, and what the import mapping needs to keep working."""

import ast
import os
import shutil
import subprocess
import sys
import sysconfig
import zipfile
from collections.abc import Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
FLOORS = {
    "search_spaces": set(),
    "trainers": {"search_spaces"},
    "optimizers": {"search_spaces"},
    "baselines": {"optimizers", "search_spaces"},
    "integrations": {"optimizers", "search_spaces"},
    "testing": {"optimizers", "search_spaces"},
    "comparison": {"search_spaces"},
    "platform": {"search_spaces", "trainers", "optimizers", "baselines", "testing", "comparison", "configs"},
    "configs": set(),
    "api": {"search_spaces", "trainers", "comparison", "platform"},
}
HEAVY = {"ray", "mlflow", "pydantic"}
TAKEN_THERE = {"integrations/ray_tune.py": {"ray"}}
"""Where BO-FM is taken into one of these, that one is imported; no other room imports such a module."""
READERS = {"report", "mlflow", "display"}
"""Chambers of the platform that show what happened: neither the record nor the runner knows them."""
MODULES = sorted(path for room in FLOORS for path in (ROOT / room).rglob("*.py"))
LONGEST, SHORTEST = 400, 60
ONE_THING = {"baselines", "trainers/functions", "comparison/figures"}
"""Where a file is one method, one function or one figure, as small as that is."""
MAY_BE_SHORT = {"search_spaces/errors.py", "search_spaces/files.py"}


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


def room_of(path: Path) -> str:
    return path.relative_to(ROOT).parts[0]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_no_arrow_runs_up(path: Path) -> None:
    room = room_of(path)
    used = {name.split(".")[1] for name in imports(path) if name.startswith("fmnas.")} - {room}
    assert used <= FLOORS[room]


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_only_the_platform_knows_ray_mlflow_and_pydantic(path: Path) -> None:
    if room_of(path) != "platform":
        assert not {name.split(".")[0] for name in imports(path)} & HEAVY - TAKEN_THERE.get(relative(path), set())


def chamber_of(parts: Sequence[str]) -> str:
    """Of a module's names below fmnas: its room and its chamber, or a file that stands in the room itself."""
    return ".".join(parts[:2])


def test_chambers_form_no_circle() -> None:
    """Each can be read, and taken away, without those above it."""
    below: dict[str, set[str]] = {}
    for path in MODULES:
        mine = path.relative_to(ROOT).with_suffix("").parts
        used = (name.split(".")[1:] for name in imports(path) if name.startswith(f"fmnas.{mine[0]}."))
        below.setdefault(chamber_of(mine), set()).update(map(chamber_of, used))
    order = TopologicalSorter({name: targets - {name} for name, targets in below.items()})
    order.prepare()  # raises CycleError, which names the circle


@pytest.mark.parametrize("room", ["platform/experiment", "platform/runner"])
def test_the_core_knows_no_reader(room: str) -> None:
    used = {name for path in (ROOT / room).glob("*.py") for name in imports(path) if name.startswith("fmnas.platform.")}
    assert not {name for name in used if name.split(".")[2] in READERS}


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_files_and_functions_can_be_read_at_a_glance(path: Path) -> None:
    source = path.read_text()
    assert len(source.splitlines()) <= LONGEST
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef):
            assert (node.end_lineno or 0) - node.lineno <= 60, node.name


@pytest.mark.parametrize("path", MODULES, ids=relative)
def test_an_idea_is_not_cut_into_crumbs(path: Path) -> None:
    """A file is one idea, and not one function: but for faces, and where that is one thing."""
    if path.name != "__init__.py" and relative(path) not in MAY_BE_SHORT and relative(path.parent) not in ONE_THING:
        assert len(path.read_text().splitlines()) >= SHORTEST


def test_platform_does_not_shadow_the_standard_library() -> None:
    assert not (ROOT / "platform" / "__init__.py").exists()
    assert not (ROOT / "fmnas").exists()
    subprocess.run([sys.executable, "-c", "import platform; platform.system()"], cwd=ROOT, check=True)


def test_rooms_and_chambers_are_packages_and_tests_are_none() -> None:
    for folder in {path.parent for path in MODULES} - {ROOT / "platform"}:
        assert (folder / "__init__.py").exists(), folder
        assert folder.parent in (ROOT, *(ROOT / room for room in FLOORS)), f"{folder}: a chamber has no chambers"
    assert not list((ROOT / "tests").rglob("__init__.py"))


def test_lower_rooms_do_not_load_the_platform_or_its_packages() -> None:
    heavy = ["ray", "mlflow", "pandas", "pydantic", "torchvision", "gpytorch"]
    code = f"import sys, fmnas.trainers, fmnas.optimizers; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy of the rooms."""
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    for name in ("pyproject.toml", "README.md", "LICENSE", *FLOORS):
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        (source / name).parent.mkdir(parents=True, exist_ok=True)
        copy(ROOT / name, source / name)
    build = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(source)]
    subprocess.run(build, check=True, capture_output=True, env={**os.environ, "PYTHONWARNINGS": "ignore"})
    (built,) = folder.glob("*.whl")
    return built


@pytest.mark.slow
def test_the_wheel_holds_the_tree(wheel: Path) -> None:
    packed = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("fmnas/")}
    data = [path for room in FLOORS for kind in ("yaml", "j2", "css") for path in (ROOT / room).rglob(f"*.{kind}")]
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

    places = run("python", "-c", "import fmnas, fmnas.api; print(*fmnas.__path__, fmnas.api.__file__, sep='\\n')")
    assert all(Path(place).is_relative_to(installed.parent) for place in places.splitlines())
    assert "smoke" in run("fmnas", "list", "configs")
    quick = ("workers.kind=in-process", "tracking.enabled=false")
    run("fmnas", "run", "smoke", *(word for override in quick for word in ("-o", override)))
    assert (tmp_path / "runs/smoke/report/index.html").is_file()
    code = "print(minimize(lambda given: given['x'] ** 2, [Real('x', -1.0, 1.0)], 4).objective)"
    imports = "from fmnas.api import minimize; from fmnas.search_spaces import Real; "
    assert 0.0 <= float(run("python", "-c", imports + code)) <= 1.0
