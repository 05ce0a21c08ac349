"""The command line with one figure per report: drawing all of them takes most of a short run."""

import sys

from fmnas.comparison import figures
from fmnas.platform.cli import main

if __name__ == "__main__":
    figures.FIGURES = figures.FIGURES[1:2]
    sys.exit(main())
