"""The configuration of an experiment, and the registries of what it can name."""
