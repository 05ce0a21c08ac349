"""Gaussian processes for optimizers: kernels, fit, posterior, acquisition and its search."""
