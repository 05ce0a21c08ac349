"""Functions that cost nothing."""
