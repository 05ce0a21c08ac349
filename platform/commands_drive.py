"""fmnas run | resume | retrain: the commands that train."""

import argparse
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from fmnas.platform.endings import Teller, tell_interrupted
from fmnas.platform.paths import RunDirectory
from fmnas.platform.screen import mode_for, open_screen
from fmnas.platform.stop import stopped_by_signals
from fmnas.platform.terminal import output, terminal

if TYPE_CHECKING:
    from fmnas.platform.launch import Ending, Surroundings

RETRAIN_OPTIONS = ("epochs", "images", "seeds")


@dataclass(frozen=True)
class _Plan:
    """What to drive, where, and the command, without `fmnas`, that goes on with it."""

    directory: RunDirectory
    again: str
    start: "Callable[[Surroundings], Ending]"


def run(arguments: argparse.Namespace) -> int:
    """A new experiment."""

    def plan() -> _Plan:
        from fmnas.platform.config import load_config
        from fmnas.platform.given import new_run_directory
        from fmnas.platform.launch import launch
        from fmnas.platform.tracking_uri import settled

        config = settled(load_config(arguments.config, arguments.overrides), Path.cwd())
        directory = new_run_directory(arguments.out or Path("runs") / config.name)
        return _Plan(directory, _resume(directory), lambda around: launch(config, directory, around))

    return _drive(arguments, plan)


def resume(arguments: argparse.Namespace) -> int:
    """An experiment to go on with."""

    def plan() -> _Plan:
        from fmnas.platform.given import run_directory
        from fmnas.platform.launch import resume as go_on

        directory = run_directory(arguments.directory, write=True)
        return _Plan(directory, _resume(directory), lambda around: go_on(directory, around))

    return _drive(arguments, plan)


def retrain(arguments: argparse.Namespace) -> int:
    """The best configurations of an experiment, on test images."""

    def plan() -> _Plan:
        from fmnas.platform.given import run_directory
        from fmnas.platform.retrain import Wishes
        from fmnas.platform.retrain import retrain as train_again

        directory = run_directory(arguments.directory, write=True)
        given = {name: getattr(arguments, name) for name in RETRAIN_OPTIONS}
        options = "".join(f" --{name} {value}" for name, value in given.items() if value is not None)
        again = f"retrain {shlex.quote(str(directory.root))}{options}"
        return _Plan(directory, again, lambda around: train_again(directory, Wishes(**given), around))

    return _drive(arguments, plan)


def _resume(directory: RunDirectory) -> str:
    return f"resume {shlex.quote(str(directory.root))}"


def _drive(arguments: argparse.Namespace, plan: Callable[[], _Plan]) -> int:
    """To its ending, and tell of it. Signals are heeded before the imports of a plan, which take seconds."""
    console = terminal(output())
    mode = mode_for(arguments.progress, console)
    teller = None
    with stopped_by_signals() as stop:
        try:
            from fmnas.platform.launch import Surroundings

            planned = plan()
            teller = Teller(mode, console, planned.directory, planned.again)
            return teller.tell(planned.start(Surroundings(arguments.address, open_screen(mode, console), stop)))
        except KeyboardInterrupt:
            return teller.interrupted() if teller else tell_interrupted(mode)
