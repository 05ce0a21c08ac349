"""Optimizers of a user that cannot be imported or built are refused by their key, before anything is written."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.config.load import check_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.experiment import build_experiment

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("InitExits", "optimizers.1.use = '{mine}:InitExits': it cannot be built: SystemExit"),
        ("CaveatFails", "mine.caveat: ValueError: no text"),
        ("WarningFails", "mine.config_warning: ValueError: no text"),
    ],
)
def test_code_that_fails_before_the_first_trial_is_refused_before_anything_is_written(
    run_own: Callable[..., int], mine: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str, words: str
) -> None:
    assert run_own(tmp_path, "random", {"name": "mine", "use": f"{mine}:{name}"}) == 2
    message = capsys.readouterr().err
    assert words.format(mine=mine) in message
    assert "Traceback" not in message
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("use", "options", "words"),
    [
        ("nowhere.at_all:Mine", {}, "No module named 'nowhere'"),
        ("json:JSONDecoder", {}, "is not an optimizer: give a subclass of fmnas.optimizers.Optimizer"),
        ("{mine}:Mutatoin", {}, "has no Mutatoin"),
        ("{mine}:NoSuggest", {}, "implement _suggest"),
        ("{mine}:Mutation", {"rate": 2.0}, "ValueError: rate = 2.0"),
        ("{mine}:InitCancels", {}, "CancelledError"),
        ("{mine}:NoSuperInit", {}, "super().__init__(space"),
        ("{mine}:not_a_class", {}, "takes 0 positional arguments"),
        ("optuna:GridSampler", {}, "'search_space'"),
        ("optuna:TPESampeler", {}, "optuna.samplers has no TPESampeler"),
        ("optuna:BaseSampler", {}, "sample_relative"),
        ("{mine}:ask_tell_pair", {}, "'start'"),
        ("{mine}:raises", {}, "RuntimeError: no idea"),
        ("{mine}:NoSeed", {}, "NoSeed(space, seed): TypeError"),
        ("{mine}:NoAsk", {}, "return an object with ask()"),
    ],
)
def test_what_cannot_be_built_is_refused_by_its_key(
    own_config: Callable[..., dict[str, Any]], mine: Path, use: str, options: dict[str, Any], words: str
) -> None:
    entry = {"name": "mine", "use": use.format(mine=mine), **options}
    with pytest.raises(ConfigError) as caught:
        build_experiment(check_config(own_config("random", entry), "own.yaml"))
    assert f"optimizers.1.use = '{entry['use']}': " in str(caught.value)
    assert words in str(caught.value)


def test_a_file_without_the_name_of_its_class_is_refused_with_what_to_write(
    own_config: Callable[..., dict[str, Any]], mine: Path
) -> None:
    for entry in (str(mine), {"use": str(mine)}):
        with pytest.raises(ConfigError) as caught:
            check_config(own_config("random", entry), "own.yaml")
        assert f"optimizers.1.use = '{mine}': " in str(caught.value)
        assert "FILE.py:NAME" in str(caught.value)


@pytest.mark.parametrize(
    ("text", "words"), [("1 / 0", "ZeroDivisionError: division by zero (file.py, line 1)"), ("exit(3)", "SystemExit")]
)
def test_a_file_that_cannot_be_imported_is_refused_by_its_key(
    own_config: Callable[..., dict[str, Any]], tmp_path: Path, text: str, words: str
) -> None:
    (tmp_path / "file.py").write_text(text)
    with pytest.raises(ConfigError) as caught:
        check_config(own_config({"name": "mine", "use": f"{tmp_path}/file.py:Mine"}), "own.yaml")
    assert "optimizers.0.use = " in str(caught.value)
    assert words in str(caught.value)
