"""The report of an experiment, and of several together."""
