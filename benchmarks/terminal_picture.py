"""The picture of a terminal in the README: a real run, as it looked when half of its budget was spent, and at its end.

    python benchmarks/terminal_picture.py [--config quickstart] [--width 100] [--out docs/terminal.svg]

The configuration is run on Ray, without MLflow, in a temporary directory.
"""

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path

from rich.console import Console, RenderableType
from rich.text import Text

from fmnas.platform.config.load import load_config
from fmnas.platform.display.console import print_summary
from fmnas.platform.display.modes import LAST_EVENTS, Happening
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.runner.run import Surroundings, launch
from fmnas.platform.workers.cancellation import StopRequest

ROOT = Path(__file__).resolve().parent.parent
HALF = 0.5


class Camera:
    """A screen that keeps the first picture of the table once half of all budgets is spent and a training runs."""

    def __init__(self, console: Console) -> None:
        self._console, self._lines = console, list[str]()
        self._table: Callable[[], RenderableType] | None = None
        self._taken = False

    def show(self, table: Callable[[], RenderableType]) -> None:
        """From now on this is what goes on."""
        self._table = table

    def tell(self, happening: Happening) -> None:
        """Something happened: perhaps it is time."""
        if happening.line and happening.shown_live:
            self._lines.append(happening.line)
        ripe = happening.event == "started" and happening.facts["spent_share"] >= HALF
        if ripe and self._table is not None and not self._taken:
            self._taken = True
            self._console.print(self._table())
            for line in self._lines[-LAST_EVENTS:]:
                self._console.print(Text(line, style="dim", overflow="ellipsis", no_wrap=True))
            self._console.print()

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(text, highlight=False, markup=False)

    def close(self) -> None:
        """Nothing."""


def main() -> None:
    """Run it, and write the picture."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--config", default="quickstart")
    parser.add_argument("--width", type=int, default=100)
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "terminal.svg")
    arguments = parser.parse_args()
    console = Console(record=True, width=arguments.width, height=40, force_terminal=True)
    config = load_config(arguments.config, ["tracking.enabled=false"])
    console.print(f"$ fmnas run {arguments.config}")
    with tempfile.TemporaryDirectory() as folder:
        directory = RunDirectory(Path(folder) / config.name)
        console.print(f"{config.summary_line}, into runs/{config.name}", highlight=False)
        result = launch(config, directory, Surroundings(None, Camera(console), StopRequest()))
        print_summary(result.summary, console)
    arguments.out.write_text(console.export_svg(title=f"fmnas run {arguments.config}"))


if __name__ == "__main__":
    main()
