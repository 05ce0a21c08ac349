"""The command line with one figure per report: drawing all of them takes most of a short run."""

import sys

from fmnas.platform.cli import main

DRAW = {"run", "resume", "extend", "report", "retrain"}
"""Commands that write a report; the others load none of what figures need."""

if __name__ == "__main__":
    if DRAW & {*sys.argv[1:2]}:
        from fmnas.comparison import figures

        figures.FIGURES = figures.FIGURES[1:2]
    sys.exit(main())
