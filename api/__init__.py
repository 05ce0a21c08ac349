"""fmnas from Python: results of run directories as tables and figures, and minimising a function.

    from fmnas.api import load_run, minimize
    load_run("runs/quickstart").summary.headline
    minimize(function, [Real("x", 0, 1)]).best

Importing this package is fast; the first call loads what it needs.
"""

from fmnas.api.minimization import MinimizeResult, minimize
from fmnas.api.results import Best, RunResults, load_run

__all__ = ["Best", "MinimizeResult", "RunResults", "load_run", "minimize"]
