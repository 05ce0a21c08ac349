"""Where the file or module of a user's optimizer is found, and that it is imported once."""

import shutil
from pathlib import Path

import pytest

from fmnas.platform.config.load import load_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.references import absolute_reference, import_reference

pytestmark = pytest.mark.slow


def test_a_module_of_the_current_folder_may_be_named(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [entry for entry in __import__("sys").path if entry])
    mine.rename(tmp_path / "a_module_of_mine.py")
    assert import_reference("a_module_of_mine:Mutation").__name__ == "Mutation"
    assert absolute_reference("a_module_of_mine:Mutation") == "a_module_of_mine:Mutation"


def test_a_file_is_looked_for_here_and_then_next_to_the_configuration(
    mine: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, elsewhere = tmp_path / "folder", tmp_path / "elsewhere"
    for directory in (folder, elsewhere):
        directory.mkdir()
    shutil.copy(mine, folder / "own.py")
    (folder / "task.py").write_text(
        "from fmnas.search_spaces import Real\nfrom fmnas.trainers import objective\n\n"
        "@objective([Real('x', 0.0, 1.0)])\ndef task(configuration):\n    return configuration['x']\n"
    )
    config = folder / "my.yaml"
    config.write_text(
        "problem: task.py\noptimizers: [random, {name: mutation, use: 'own.py:Mutation'}]\nbudget: {evaluations: 12}\n"
    )
    monkeypatch.chdir(elsewhere)
    loaded = load_config(Path("..") / "folder" / "my.yaml")
    assert (loaded.problem, loaded.optimizers[1].use) == (f"{folder}/task.py:task", f"{folder}/own.py:Mutation")
    with pytest.raises(ConfigError, match=r"own\.py"):
        load_config(config, ["optimizers=[{name: mutation, use: 'own.py:Mutation'}]"])
    shutil.copy(mine, elsewhere / "own.py")
    assert load_config(config).optimizers[1].use == f"{elsewhere}/own.py:Mutation"


def test_a_file_is_loaded_once(mine: Path) -> None:
    assert import_reference(f"{mine}:Mutation") is import_reference(f"{mine}:Mutation")


def test_files_with_similar_paths_differ(tmp_path: Path) -> None:
    paths = [tmp_path / part for part in ("v1.0/t.py", "v1_0/t.py", "v1/0/t.py", "my.t.py", "my_t.py")]
    for path in paths:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"WHO = {str(path)!r}\n")
    assert [import_reference(f"{path}:WHO") for path in paths] == [str(path) for path in paths]
