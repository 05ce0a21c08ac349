"""The picture of a terminal in the README: a real run, as it looked when half of its budget was spent, and at its end.

    python benchmarks/terminal_picture.py [--config quickstart] [--width 100] [--out docs/terminal.svg]

The configuration is run on Ray, without MLflow, in a temporary folder.
"""

import argparse
import tempfile
from pathlib import Path

from rich.console import Console

from fmnas.platform.config.load import load_config
from fmnas.platform.display.log import LINES
from fmnas.platform.display.progress import Progress
from fmnas.platform.display.summary import print_summary
from fmnas.platform.experiment.events import Event, Started
from fmnas.platform.experiment.run_directory import RunDirectory
from fmnas.platform.experiment.trial_result import TrialResult
from fmnas.platform.report.write import write_results
from fmnas.platform.runner.driver import RunContext
from fmnas.platform.runner.run import run_experiment

ROOT = Path(__file__).resolve().parent.parent
HALF = 0.5


class Camera(Progress):
    """Prints the live table once, when half of all budgets is spent and a trial starts."""

    def __init__(self, console: Console) -> None:
        super().__init__(LINES, Console(quiet=True))
        self._console, self._is_done = console, False

    def on_event(self, event: Event, result: TrialResult | None) -> None:
        """Take the picture if it is time."""
        super().on_event(event, result)
        if isinstance(event, Started) and not self._is_done and self.status_fields()["spent_share"] >= HALF:
            self._is_done = True
            self._console.print(self.render())
            self._console.print()


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
        result = run_experiment(config, directory, RunContext([Camera(console)]))
        print_summary(write_results(directory, result.state, lambda _: None), console)
    arguments.out.write_text(console.export_svg(title=f"fmnas run {arguments.config}"))


if __name__ == "__main__":
    main()
