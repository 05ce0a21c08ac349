"""What the command line returns."""

DONE, FAILED, WRONG_INPUT, INTERRUPTED = 0, 1, 2, 130
"""Done; failed, and can be gone on with; nothing was touched; stopped, and can be gone on with."""
