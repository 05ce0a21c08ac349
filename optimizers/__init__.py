"""The ask/tell contract, and BO-FM: kernels, surrogate, acquisition."""
