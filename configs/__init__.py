"""Experiments as YAML, shipped with the package."""
