"""gpytorch imported without its warning."""

import warnings

with warnings.catch_warnings():
    # gpytorch compiles two functions with torch.jit.script, which torch deprecates.
    warnings.filterwarnings("ignore", ".*torch.jit.script", DeprecationWarning)
    import gpytorch  # noqa: F401
