"""fmnas from Python: the results of run directories as tables and figures, and a function minimised.

    from fmnas.api import load_run, minimize
    load_run("runs/quickstart").summary.headline
    minimize(function, [Real("x", 0, 1)]).best

Importing it loads nothing heavy; a first call does.
"""

from fmnas.api.minimization import MinimizeResult, minimize
from fmnas.api.results import Best, RunResults, load_run

__all__ = ["Best", "MinimizeResult", "RunResults", "load_run", "minimize"]
