"""BO-FM (Oh, Gavves, Welling 2021): its kernels under the Gaussian process, and what its asks do in turn."""

from fmnas.optimizers.bofm.bofm import BOFM, MODES, Mode

__all__ = ["BOFM", "MODES", "Mode"]
