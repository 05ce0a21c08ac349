"""Options of a user's optimizer are checked against its signature, passed on and stored."""

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from fmnas.platform.config.load import check_config
from fmnas.platform.errors import ConfigError
from fmnas.platform.experiment.configuration import current_config, save_config
from fmnas.platform.experiment.events import FORMAT, Begun
from fmnas.platform.experiment.experiment import build_experiment
from fmnas.platform.experiment.journal import Journal, read_events
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.registry import OptimizerContext, OptimizerEntry
from fmnas.trainers.functions.synthetic import FUNC2C

pytestmark = pytest.mark.slow


def test_options_of_the_base_class_are_passed_on(mine: Path) -> None:
    row = OptimizerEntry("mine", f"{mine}:Derived", "")
    assert row.validate_options({"depth": 2}) == {"depth": 2, "rate": 0.5}
    assert row.takes_initial_design
    built = row.build(FUNC2C.space, OptimizerContext(7, 5, 10, False, ()), {"rate": 0.25})
    assert (built.seed, built.epochs, vars(built)["rate"]) == (7, 5, 0.25)


@pytest.mark.parametrize(
    ("use", "options", "lines"),
    [
        ("{mine}:Mutation", {"seed": 5}, ["seed: unknown key; allowed are rate, "]),
        ("{mine}:Mutation", {"rat": 0.5}, ["rat: unknown key; did you mean rate?"]),
        ("{mine}:Mutation", {"rate": "high"}, ["rate = 'high': ", "number"]),
        ("{mine}:AskTell", {"rat": 0.5}, ["rat: unknown key; did you mean rate?"]),
        ("{mine}:AskTell", {"rate": True}, ["rate = true: "]),
        ("{mine}:ask_tell_pair", {"start": 1.5}, ["start = 1.5: ", "integer"]),
        ("{mine}:TypedOptions", {"rule": "c"}, ["rule = 'c': ", "'a' or 'b'"]),
        ("{mine}:TypedOptions", {"steps": "few"}, ["steps = 'few': "]),
        ("{mine}:TypedOptions", {"step": 3}, ["step: unknown key; did you mean steps?"]),
        ("{mine}:TypedOptions", {"rat": 1.0}, ["rat: unknown key; did you mean rate?"]),
        ("{mine}:TypedOptions", {"limit": float("nan")}, ["limit = nan: "]),
        ("{mine}:TypedOptions", {"values": [date(2001, 1, 1)]}, ["values.0 = datetime.date(2001, 1, 1): "]),
        ("{mine}:TypedOptions", {"values": {1: 2}}, ["values.1 = 1: "]),
        ("optuna:TPESampler", {"gama": 3}, ["gama: unknown key; did you mean gamma?"]),
    ],
)
def test_a_wrong_option_is_refused_by_its_key_before_a_trial(
    own_config: Callable[..., dict[str, Any]], mine: Path, use: str, options: dict[str, Any], lines: list[str]
) -> None:
    with pytest.raises(ConfigError) as caught:
        check_config(own_config("random", {"name": "mine", "use": use.format(mine=mine), **options}), "own.yaml")
    assert f"\n  optimizers.1.{lines[0]}" in str(caught.value)
    assert all(line in str(caught.value) for line in lines)


@pytest.mark.parametrize(
    ("use", "options"),
    [
        ("{mine}:Mutation", {"rate": 1}),
        ("{mine}:AskTell", {"rate": 0}),
        ("{mine}:TypedOptions", {"rule": "b", "steps": None, "values": [1, 2], "copy": 3, "limit": None}),
        ("{mine}:any_options", {"whatever": 5}),
        ("{mine}:any_options", {"max-depth": 3, "lambda": 2}),
        ("{mine}:star_arguments", {"whatever": 5}),
        ("{mine}:TypedOptions", {"limit": float("inf")}),
        ("{mine}:OwnSampler", {"lucky": None}),
    ],
)
def test_options_that_an_annotation_allows_or_leaves_open_are_passed_on(
    own_config: Callable[..., dict[str, Any]], mine: Path, use: str, options: dict[str, Any]
) -> None:
    entry = {"name": "mine", "use": use.format(mine=mine), **options}
    config = check_config(own_config("random", entry), "own.yaml")
    assert options.items() <= config.optimizers[1].settings.items()
    build_experiment(config)


def test_a_stored_configuration_has_the_options_that_the_experiment_began_with(
    own_config: Callable[..., dict[str, Any]], mine: Path, tmp_path: Path
) -> None:
    entry = {
        "name": "mine",
        "use": f"{mine}:TypedOptions",
        "limit": float("inf"),
        "values": [float("-inf"), {"a": None}],
    }
    config, directory = check_config(own_config(entry), "own.yaml"), RunDirectory(tmp_path)
    with Journal(directory.journal) as journal:
        journal.append(Begun("id", FORMAT, config.model_dump(mode="json"), at=0.0))
    assert current_config(directory, read_events(directory)) == config
    save_config(config, directory)
    assert current_config(directory, read_events(directory)) == config
