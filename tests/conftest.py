"""What every test shares."""

import os

from hypothesis import settings

# Machines that run tests are slow and shared: an example may take long without being wrong.
settings.register_profile("fmnas", deadline=None, print_blob=True)
settings.load_profile("fmnas")

# One trainer per core is faster than all of them on every core.
os.environ.setdefault("OMP_NUM_THREADS", "1")
