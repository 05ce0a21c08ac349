"""fmnas run | resume | retrain: the commands that train."""

import argparse
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from fmnas.platform.endings import Teller
from fmnas.platform.paths import RunDirectory
from fmnas.platform.screen import mode_for, open_screen
from fmnas.platform.stop import stopped_by_signals
from fmnas.platform.terminal import terminal

if TYPE_CHECKING:
    from fmnas.platform.launch import Ending, Surroundings

RETRAIN_OPTIONS = ("epochs", "images", "seeds")


def run(arguments: argparse.Namespace) -> int:
    """A new experiment."""
    from fmnas.platform.config import load_config
    from fmnas.platform.launch import launch

    config = load_config(arguments.config, arguments.overrides)
    directory = RunDirectory(arguments.out or Path("runs") / config.name)
    again = f"resume {shlex.quote(str(directory.root))}"
    return _drive(arguments, directory, again, lambda around: launch(config, directory, around))


def resume(arguments: argparse.Namespace) -> int:
    """An experiment to go on with."""
    from fmnas.platform.launch import resume as go_on

    directory = RunDirectory(arguments.directory)
    again = f"resume {shlex.quote(str(directory.root))}"
    return _drive(arguments, directory, again, lambda around: go_on(directory, around))


def retrain(arguments: argparse.Namespace) -> int:
    """The best configurations of an experiment, on test images."""
    from fmnas.platform.retrain import Wishes
    from fmnas.platform.retrain import retrain as train_again

    directory = RunDirectory(arguments.directory)
    wishes = {name: getattr(arguments, name) for name in RETRAIN_OPTIONS}
    options = "".join(f" --{name} {value}" for name, value in wishes.items() if value is not None)
    again = f"retrain {shlex.quote(str(directory.root))}{options}"
    return _drive(arguments, directory, again, lambda around: train_again(directory, Wishes(**wishes), around))


def _drive(
    arguments: argparse.Namespace, directory: RunDirectory, again: str, start: "Callable[[Surroundings], Ending]"
) -> int:
    """To its ending, and tell of it. again: the command that goes on with it."""
    from fmnas.platform.launch import Surroundings

    console = terminal()
    mode = mode_for(arguments.progress, console)
    teller = Teller(mode, console, directory, again)
    try:
        with stopped_by_signals() as stop:
            return teller.tell(start(Surroundings(arguments.address, open_screen(mode, console), stop)))
    except KeyboardInterrupt:
        return teller.interrupted()
